//! Matrices that share rows: each distinct row is held once, and an index says which row is whose.
//!
//! Features that change from step to step in few rows are held so. A tape puts a matrix together when an
//! operation first reads it, and never where what would be made of it is at hand already.

use std::sync::Arc;

use crate::cuda::{Resident, Sum};
use crate::error::{Error, Result};
use crate::estimate::Reserved;
use crate::op::{Shape, View};
use crate::ops::{Lazy, LazyProduct, expect_indices, for_each_row, gather_by};
use crate::pattern::Pattern;
use crate::tape::{Node, Numbers, Tape, Value, Var};
use crate::versions::RowVersions;

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

    /// The product of a sparse matrix with `x`, computed when an operation reads it; where nothing but the
    /// rows phase does, block by block. Gradients do not flow through it: `x` must be constant.
    pub fn product_later(&mut self, pattern: Arc<Pattern>, values: Arc<Resident>, x: Var) -> Result<Var> {
        let node = &self.nodes[x.0];
        let (rows, index): (&'a [f32], Option<&'a [u32]>) = match node.value {
            Value::Indexed(indexed) => (indexed.rows, Some(indexed.index)),
            Value::Borrowed(rows) => (rows, None),
            _ => return self.spmm_fixed(pattern, values, x),
        };
        let Shape { rows: count, columns: width } = node.shape;
        let fits = pattern.columns() == count && pattern.entries() == values.len();
        if self.arena.is_elsewhere() || node.wants_gradient || width == 0 || !fits {
            return self.spmm_fixed(pattern, values, x);
        }
        let shape = Shape::new(pattern.rows(), width);
        let product = LazyProduct { pattern, values, x: rows, index, width };
        Ok(self.push(Node::input(shape, Value::Lazy(Lazy::Product(product)), false)))
    }

    /// A matrix whose rows are in several lists, put together when an operation reads it; where nothing but
    /// the rows phase does, block by block.
    pub fn versions(&mut self, versions: Arc<RowVersions>) -> Var {
        let shape = Shape::new(versions.rows(), versions.columns());
        self.push(Node::input(shape, Value::Lazy(Lazy::Versions(versions)), false))
    }

    /// Puts those of the matrices together that are not yet; products only where they are wanted.
    pub(crate) fn put_together(&mut self, vars: &[Var], but_products: bool) -> Result<()> {
        for &var in vars {
            let node = &self.nodes[var.0];
            let made = match &node.value {
                Value::Indexed(indexed) => self.gathered(*indexed, node.shape)?,
                Value::Lazy(matrix) if !but_products => {
                    let begun = self.begun();
                    let mut values = self.arena.take(node.shape.len());
                    matrix.compute(self.arena, &mut values);
                    self.count_product(var, begun);
                    Numbers::Host(values)
                }
                _ => continue,
            };
            self.nodes[var.0].value = Value::Made(made);
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
        let (rows, index) =
            (Resident::from(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Resident::from(vec![2, 0, 2]));
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

    /// A product in blocks has the bits of the product as a whole: with hubs that are cut into segments, with
    /// an index and without, and where something else reads it as well.
    #[test]
    fn products_in_blocks_are_products_as_a_whole() {
        let (count, width) = (700usize, 9);
        let mut edges: Vec<(u32, u32)> = (0..9000u32).map(|k| (k * k % 700, k * 31 % 700)).collect();
        edges.extend((0..5000).map(|k| (3, k % 700)));
        let pattern = Arc::new(Pattern::from_edges(count, count, edges).unwrap());
        let values: Vec<f32> =
            (0..pattern.entries()).map(|k| ((k * 37 % 101) as f32 - 50.0) / 31.0).collect();
        let values = Arc::new(Resident::from(values));
        let numbers = |rows: usize| -> Vec<f32> {
            (0..rows * width).map(|k| ((k * 53 % 97) as f32 - 48.0) / 17.0).collect()
        };
        let (pool, dense) = (Resident::from(numbers(900)), numbers(count));
        let index = Resident::from((0..count as u32).map(|v| v * 7 % 900).collect::<Vec<_>>());
        let weight = numbers(width);
        let arena = Arena::new();
        let factors = || (0..count).map(|k| ((k * 37 % 101) as f32 - 50.0) / 31.0).collect();
        let products = Arc::new(Resident::products(pattern.clone(), factors()).unwrap());
        let same = Arc::new(Resident::from(Resident::products(pattern.clone(), factors()).unwrap().to_vec()));
        // The snapshot after: of every third row the first entry is another.
        let mut places = pattern.places().to_vec();
        let firsts = pattern.starts().windows(2).step_by(3).filter(|row| row[0] < row[1]);
        firsts.for_each(|row| places[row[0] as usize] = (places[row[0] as usize] + 1) % count as u32);
        let next = Arc::new(Pattern::new(count, pattern.starts().to_vec(), places).unwrap());
        let next_values = Arc::new(Resident::from(values.to_vec()));
        let cases = [(false, false, &values), (true, false, &values), (true, true, &values)];
        let factored = [(false, false, &products), (true, false, &products), (true, true, &products)];
        for (is_indexed, read_before, values) in cases.into_iter().chain(factored) {
            let whole = if Arc::ptr_eq(values, &products) { &same } else { values };
            let run = |later: bool| {
                let mut tape = Tape::new(&arena);
                let x = match is_indexed {
                    true => tape.indexed(width, &pool, &index).unwrap(),
                    false => tape.constant(Shape::new(count, width), &dense).unwrap(),
                };
                let w = tape.parameter(Shape::new(width, width), &weight).unwrap();
                tape.expect_same_rows();
                let mut product = |pattern: &Arc<Pattern>, values: &Arc<Resident>| match later {
                    true => tape.product_later(pattern.clone(), values.clone(), x).unwrap(),
                    false => tape.spmm_fixed(pattern.clone(), values.clone(), x).unwrap(),
                };
                let values = if later { values } else { whole };
                let (product, again) = (product(&pattern, values), product(&next, &next_values));
                assert_eq!(tape.value(product).is_ok(), !later);
                let also = if read_before { Some(tape.sum(product).unwrap()) } else { None };
                let body = |tape: &mut Tape<'_>, _: std::ops::Range<usize>, x: &[Var], w: &[Var]| {
                    let both = tape.add(x[0], x[1])?;
                    let product = tape.matmul(both, w[0])?;
                    let bent = tape.tanh(product)?;
                    tape.sum(bent)
                };
                let sum = tape.sum_by_rows(count, &[product, again], &[w], body).unwrap();
                assert_eq!(tape.value(product).is_ok(), !later || read_before, "it was not needed whole");
                let mut gradients = tape.backward(sum).unwrap();
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                let also = also.map(|var| bits(tape.value(var).unwrap()));
                let gradient = gradients.take(w).unwrap();
                (bits(tape.value(sum).unwrap()), bits(gradient.host().unwrap()), also)
            };
            assert_eq!(run(true), run(false), "{is_indexed} {read_before}");
        }
    }

    /// Rows that stand for the first columns alone, as those of a worker that has a part of the vertices.
    #[test]
    fn products_of_factors_are_values_also_where_there_are_fewer_rows_than_columns() {
        let (rows, columns, width) = (40usize, 90usize, 3);
        let edges = (0..400u32).map(|k| (k * 7 % 40, k * k % 90));
        let pattern = Arc::new(Pattern::from_edges(rows, columns, edges).unwrap());
        let factors: Vec<f32> = (0..columns).map(|k| 1.0 + (k * 37 % 101) as f32 / 31.0).collect();
        let products = Arc::new(Resident::products(pattern.clone(), factors.clone()).unwrap());
        let mut given = Vec::with_capacity(pattern.entries());
        for (row, range) in pattern.starts().windows(2).enumerate() {
            let places = &pattern.places()[range[0] as usize..range[1] as usize];
            given.extend(places.iter().map(|&column| factors[column as usize] * factors[row]));
        }
        let given = Arc::new(Resident::from(given));
        let x: Vec<f32> = (0..columns * width).map(|k| (k as f32 * 0.7).sin()).collect();
        let arena = Arena::new();
        let run = |values: &Arc<Resident>| {
            let mut tape = Tape::new(&arena);
            let x = tape.parameter(Shape::new(columns, width), &x).unwrap();
            let product = tape.spmm_fixed(pattern.clone(), values.clone(), x).unwrap();
            let square = tape.multiply(product, product).unwrap();
            let sum = tape.sum(square).unwrap();
            let gradients = tape.backward(sum).unwrap();
            (tape.value(product).unwrap().to_vec(), gradients.read(x).unwrap().unwrap().into_owned())
        };
        assert_eq!(run(&products), run(&given));
        assert!(products.are_products(), "nothing was made of them");
        assert_eq!(products[..], given[..]);
        for wrong in [rows, columns - 1, columns + 1] {
            assert!(Resident::products(pattern.clone(), vec![1.0; wrong]).is_err(), "{wrong}");
        }
        let tall = Arc::new(Pattern::from_edges(3, 2, [(0, 1)]).unwrap());
        assert!(Resident::products(tall, vec![1.0; 2]).is_err());
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
