//! Inputs that do not change from tape to tape: a tape on a GPU finds them there.

use std::ops::Range;
use std::sync::Arc;

use crate::cuda::{Resident, Slice};
use crate::error::{Error, Result};
use crate::op::Shape;
use crate::tape::{Node, Numbers, Tape, Value, Var};

impl<'a> Tape<'a> {
    /// A matrix that does not change from tape to tape: a tape on a GPU finds it there.
    pub fn held(&mut self, shape: Shape, values: &'a Resident) -> Result<Var> {
        if let Some(estimate) = self.arena.estimate() {
            estimate.hold(values, values.len());
            return Ok(self.push(Node::input(shape, Value::Resident(Slice::nowhere(shape.len())), false)));
        }
        match self.arena.device() {
            None => self.constant(shape, values),
            Some(device) => self.resident(shape, values.on(device)?, false),
        }
    }

    /// Some rows of columns that do not change from tape to tape, side by side: copied on the host, found on
    /// a GPU, where all rows are asked for.
    pub fn held_columns(&mut self, columns: &[Arc<Resident>], rows: Range<usize>) -> Result<Var> {
        let short = columns.iter().find(|column| column.len() < rows.end);
        if let Some(column) = short {
            let problem = format!("rows {rows:?} were asked for of a column of {}", column.len());
            return Err(Error::shape("held columns", problem));
        }
        let are_all = columns.iter().all(|column| column.len() == rows.len());
        if are_all && !columns.is_empty() && self.arena.is_elsewhere() {
            let vars = columns.iter().map(|column| self.held_column(column)).collect::<Result<Vec<_>>>()?;
            return match vars[..] {
                [one] => Ok(one),
                _ => self.concatenate_columns(&vars),
            };
        }
        let shape = Shape::new(rows.len(), columns.len());
        let mut values = self.arena.take(shape.len());
        for (number, column) in columns.iter().enumerate() {
            let places = values.iter_mut().skip(number).step_by(shape.columns);
            places.zip(&column[rows.clone()]).for_each(|(place, &value)| *place = value);
        }
        Ok(self.push(Node::input(shape, Value::Made(Numbers::Host(values)), false)))
    }

    /// A column that a GPU holds, or would hold.
    fn held_column(&mut self, column: &Arc<Resident>) -> Result<Var> {
        let shape = Shape::new(column.len(), 1);
        let value = match (self.arena.estimate(), self.arena.device()) {
            (None, Some(device)) => Value::Shared(column.shared(device)?.clone()),
            (Some(estimate), _) => {
                estimate.hold(column, column.len());
                Value::Resident(Slice::nowhere(shape.len()))
            }
            (None, None) => return self.copied(shape, column),
        };
        Ok(self.push(Node::input(shape, value, false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;
    use crate::estimate::MemoryEstimate;

    fn columns() -> [Arc<Resident>; 3] {
        [1.0, 10.0, 100.0].map(|unit| Arc::new(Resident::from(vec![unit, 2.0 * unit, 3.0 * unit])))
    }

    #[test]
    fn columns_stand_side_by_side() {
        let (arena, columns) = (Arena::new(), columns());
        let mut tape = Tape::new(&arena);
        let all = tape.held_columns(&columns, 0..3).unwrap();
        assert_eq!(tape.shape(all), Shape::new(3, 3));
        assert_eq!(tape.value(all).unwrap(), [1.0, 10.0, 100.0, 2.0, 20.0, 200.0, 3.0, 30.0, 300.0]);
        let some = tape.held_columns(&columns[1..], 1..2).unwrap();
        assert_eq!(tape.value(some).unwrap(), [20.0, 200.0]);
        let none = tape.held_columns(&columns[..1], 3..3).unwrap();
        assert_eq!(tape.shape(none), Shape::new(0, 1));
        let problem = tape.held_columns(&columns, 2..4).unwrap_err().to_string();
        assert!(problem.contains("rows 2..4") && problem.contains("a column of 3"), "{problem}");
    }

    /// Of columns that a GPU would hold, each is counted once, however often it is asked for.
    #[test]
    fn columns_that_stay_are_counted_once() {
        let (estimate, columns) = (MemoryEstimate::new(), columns());
        let arena = Arena::estimating(estimate.clone());
        let ask = |columns: &[Arc<Resident>]| {
            let mut tape = Tape::new(&arena);
            let var = tape.held_columns(columns, 0..3).unwrap();
            assert_eq!(tape.shape(var), Shape::new(3, columns.len()));
            drop(tape);
            estimate.now()
        };
        let one = ask(&columns[..1]);
        assert!(one > 0);
        assert_eq!(ask(&columns[..1]), one);
        assert_eq!(ask(&columns), 3 * one);
        assert_eq!(ask(&columns[1..]), 3 * one);
    }
}
