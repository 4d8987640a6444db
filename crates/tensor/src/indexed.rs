//! Matrices that share rows: each distinct row is held once, and an index says which row is whose.
//!
//! Features that change from step to step in few rows are held so. A tape puts a matrix together when an
//! operation first reads it, and never where what would be made of it is at hand already.

use crate::cuda::{Resident, Sum};
use crate::error::{Error, Result};
use crate::estimate::Reserved;
use crate::op::{Shape, View};
use crate::ops::{expect_indices, for_each_row, gather_by};
use crate::tape::{Node, Numbers, Tape, Value, Var};

/// Rows by name.
#[derive(Clone, Copy)]
pub(crate) struct Indexed<'a> {
    rows: &'a Resident,
    index: &'a Resident<u32>,
}

impl<'a> Tape<'a> {
    /// The matrix whose row `v` is row `index[v]` of those held; it needs no gradient.
    pub fn indexed(&mut self, columns: usize, rows: &'a Resident, index: &'a Resident<u32>) -> Result<Var> {
        if columns == 0 || !rows.len().is_multiple_of(columns) {
            let problem = format!("{} numbers are no rows of {columns}", rows.len());
            return Err(Error::shape("indexed", problem));
        }
        expect_indices("indexed", index, rows.len() / columns)?;
        let value = Value::Indexed(Indexed { rows, index });
        Ok(self.push(Node::input(Shape::new(index.len(), columns), value, false)))
    }

    /// The first rows of those held, as they are; the matrix needs no gradient.
    pub fn held_first(&mut self, shape: Shape, rows: &'a Resident) -> Result<Var> {
        if rows.len() < shape.len() {
            let problem = format!("{} numbers were given for {shape}", rows.len());
            return Err(Error::shape("first rows", problem));
        }
        if rows.len() == shape.len() || self.arena.estimate().is_some() {
            return self.held(shape, rows);
        }
        match self.arena.device() {
            None => self.constant(shape, &rows[..shape.len()]),
            Some(device) => self.resident(shape, rows.on(device)?.range(0..shape.len()), false),
        }
    }

    /// Puts those of the matrices together that are not yet.
    pub(crate) fn put_together(&mut self, vars: &[Var]) -> Result<()> {
        for &var in vars {
            let node = &self.nodes[var.0];
            if let Value::Indexed(indexed) = node.value {
                self.nodes[var.0].value = Value::Made(self.gathered(indexed, node.shape)?);
            }
        }
        Ok(())
    }

    fn gathered(&self, Indexed { rows, index }: Indexed<'_>, shape: Shape) -> Result<Numbers> {
        if let Some(estimate) = self.arena.estimate() {
            estimate.hold(rows, rows.len());
            estimate.hold(index, index.len());
            return Ok(Numbers::Estimated(Reserved::new(estimate, shape.len())));
        }
        if let Some(device) = self.arena.device() {
            let memory = device.take(shape.len())?;
            let output = Sum { values: memory.all(), adds: false };
            gather_by(device, index.on(device)?, (rows.on(device)?, shape.columns), output)?;
            return Ok(Numbers::Device(memory));
        }
        let mut values = self.arena.take(shape.len());
        let x = View { shape: Shape::new(rows.len() / shape.columns, shape.columns), values: rows };
        for_each_row(index, x, &mut values, <[f32]>::copy_from_slice);
        Ok(Numbers::Host(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;

    #[test]
    fn rows_are_put_together_when_they_are_read_and_not_before() {
        let (rows, index) = (Resident::from(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Resident::from(vec![2, 0, 2]));
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let x = tape.indexed(2, &rows, &index).unwrap();
        assert_eq!(tape.shape(x), Shape::new(3, 2));
        assert!(tape.value(x).is_err() && arena.bytes() == 0, "nothing has read it");
        let twice = tape.scale(x, 2.0).unwrap();
        assert_eq!(tape.value(twice).unwrap(), [10.0, 12.0, 2.0, 4.0, 10.0, 12.0]);
        assert_eq!(tape.value(x).unwrap(), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
        assert!(!tape.wants_gradient(twice));
    }

    #[test]
    fn rows_that_are_not_there_are_refused() {
        let (rows, index) = (Resident::from(vec![1.0, 2.0]), Resident::from(vec![0, 1]));
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        assert!(tape.indexed(2, &rows, &index).is_err(), "row 1 of one row");
        assert!(tape.indexed(3, &rows, &index).is_err(), "no rows of three numbers");
        assert!(tape.indexed(1, &rows, &index).is_ok());
    }
}
