//! Linear layers of which most rows are those of an earlier one (REAL, section 4.1.2, selective execution).
//!
//! Of consecutive snapshots many vertices have the same row: what is aggregated there did not change. Where a
//! tape looks for that ([`Tape::expect_repeats`]), a layer compares its rows with those that the same
//! parameters were last applied to, by their bits. Rows that are the same are copied from that result, and
//! their gradient goes there; the others are multiplied, forward and backward. So nothing has to be known of
//! snapshots, and what most vertices of a graph do, nothing at all, is computed once.
//!
//! Rows through which a gradient flows may be equal by chance: they are the same only where they were copied
//! from those of before themselves.
//!
//! It is done within blocks of rows, which stay in the cache; a matrix that goes through memory gains little
//! by not being multiplied.

use std::sync::Arc;

use super::ROWS;
use super::linear::{Linear, Side, column_sums, multiply_side, weight_gradient};
use crate::error::{Error, Result, expect_inputs, expect_shape};
use crate::op::{Back, Few, Op, Shape, View};
use crate::tape::{Tape, Var};

/// Of all rows, the share that may be others: in quarters.
const MOST: usize = 3;

/// What was last made with the same parameters, and of what.
#[derive(Debug)]
struct Made {
    /// The weight, and the bias if there is one.
    parameters: Few<Var>,
    is_positive: bool,
    x: Var,
    y: Var,
}

/// What a tape has applied so far that may come again.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    linears: Vec<Made>,
    stacked: Vec<(Few<Var>, Var)>,
}

/// The inputs are the weight, the bias if there is one, the rows, and what was made of those before.
struct Selective {
    has_bias: bool,
    is_positive: bool,
    /// Rows that are others than before, ascending.
    changed: Arc<[u32]>,
}

impl Selective {
    /// Rows that are as before.
    fn same(&self, rows: usize) -> impl Iterator<Item = usize> + '_ {
        let mut changed = self.changed.iter().map(|&row| row as usize).peekable();
        (0..rows).filter(move |row| changed.next_if_eq(row).is_none())
    }
}

impl Op for Selective {
    fn name(&self) -> &'static str {
        "linear, selective"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let (parameters, [x, before]) = match (self.has_bias, inputs) {
            (true, [parameters @ .., x, before]) if parameters.len() == 2 => (parameters, [*x, *before]),
            _ => {
                let [_, x, before] = expect_inputs(self.name(), inputs)?;
                (&inputs[..1], [x, before])
            }
        };
        let w = parameters[0];
        if let Some(&bias) = parameters.get(1) {
            expect_shape(self.name(), "the bias", bias, Shape::new(1, w.columns))?;
        }
        expect_shape(self.name(), "the weight", w, Shape::new(x.columns, w.columns))?;
        let shape = Shape::new(x.rows, w.columns);
        expect_shape(self.name(), "the result before", before, shape)?;
        match self.changed.last() {
            Some(&last) if last as usize >= x.rows => {
                Err(Error::shape(self.name(), format!("there is no row {last}")))
            }
            _ => Ok(shape),
        }
    }

    fn saved(&self, inputs: &[Shape]) -> usize {
        self.changed.len() * inputs[0].rows
    }

    fn scratch(&self, inputs: &[Shape]) -> usize {
        self.changed.len() * (inputs[0].rows + inputs[0].columns)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let [.., x, before] = inputs else { return Err(Error::shape(self.name(), "rows are missing")) };
        let Shape { rows: inner, columns } = inputs[0].shape;
        let gathered = saved.chunks_exact_mut(inner.max(1));
        gathered.zip(&*self.changed).for_each(|(to, &row)| to.copy_from_slice(x.row(row as usize)));
        let count = self.changed.len();
        let made = &mut output[..count * columns];
        if self.has_bias {
            made.chunks_exact_mut(columns.max(1)).for_each(|row| row.copy_from_slice(inputs[1].values));
        }
        let some = View { shape: Shape::new(count, inner), values: saved };
        multiply_side(some, inputs[0], Side::Plain, made, self.has_bias);
        if self.is_positive {
            made.iter_mut().for_each(|value| *value = value.max(0.0));
        }
        // To their places, from the last: none of them lies before where it was made.
        for (from, &to) in self.changed.iter().enumerate().rev() {
            output.copy_within(from * columns..(from + 1) * columns, to as usize * columns);
        }
        for row in self.same(x.shape.rows) {
            output[row * columns..(row + 1) * columns].copy_from_slice(before.row(row));
        }
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let Shape { rows, columns } = back.output.shape;
        let (inner, count, at) = (back.inputs[0].shape.rows, self.changed.len(), back.inputs.len() - 2);
        let upstream = View { shape: back.output.shape, values: back.upstream };
        if let Some(before) = back.take(at + 1) {
            for row in self.same(rows) {
                let sums = &mut before[row * columns..(row + 1) * columns];
                sums.iter_mut().zip(upstream.row(row)).for_each(|(sum, value)| *sum += value);
            }
        }
        let (some, of_rows) = std::mem::take(&mut back.scratch).split_at_mut(count * columns);
        for (to, &row) in some.chunks_exact_mut(columns.max(1)).zip(&*self.changed) {
            to.copy_from_slice(upstream.row(row as usize));
            if self.is_positive {
                let kept = to.iter_mut().zip(back.output.row(row as usize));
                kept.for_each(|(value, &made)| *value = if made > 0.0 { *value } else { 0.0 });
            }
        }
        let some = View { shape: Shape::new(count, columns), values: some };
        if let Some(weight) = back.take(0) {
            let x = View { shape: Shape::new(count, inner), values: back.saved };
            weight_gradient(x, some, weight);
        }
        if self.has_bias
            && let Some(bias) = back.take(1)
        {
            column_sums(some.values, columns, bias);
        }
        if let Some(x) = back.take(at) {
            multiply_side(some, back.inputs[0], Side::Transposed, of_rows, false);
            for (sums, &row) in of_rows.chunks_exact(inner.max(1)).zip(&*self.changed) {
                let into = &mut x[row as usize * inner..][..inner];
                into.iter_mut().zip(sums).for_each(|(sum, value)| *sum += value);
            }
        }
        Ok(())
    }

    fn changed(&self) -> Option<&Arc<[u32]>> {
        Some(&self.changed)
    }
}

impl Tape<'_> {
    /// Says that rows of consecutive snapshots are often the same: linear layers look for those in blocks of
    /// rows. Not on the tape itself, where it would depend on what is kept whether rows are known before a
    /// layer is applied to them.
    pub fn expect_repeats(&mut self) {
        self.expects_repeats = true;
    }

    /// Has linear layers look for rows that they had before.
    pub(super) fn look_for_repeats(&mut self) {
        self.repeats.get_or_insert_default();
    }

    /// Applies a linear layer to `x`; the parameters are the weight, and the bias if there is one.
    pub(super) fn linear_or_again(&mut self, op: Linear, parameters: &[Var], x: Var) -> Result<Var> {
        let is_positive = op.is_positive;
        let is_looked_for = self.repeats.is_some() && self.is_on_host() && self.shape(x).rows <= ROWS;
        if !is_looked_for {
            return self.apply(op, &[parameters, &[x]].concat());
        }
        let made = self.repeats.iter().flat_map(|repeats| &repeats.linears);
        let place =
            { made }.position(|made| made.parameters[..] == *parameters && made.is_positive == is_positive);
        let earlier =
            place.zip(self.repeats.as_ref()).map(|(at, all)| (all.linears[at].x, all.linears[at].y));
        let again = earlier.and_then(|(before, y)| Some((self.changed(x, before)?, y)));
        let y = match again {
            Some((changed, before)) => {
                let op = Selective { has_bias: op.has_bias, is_positive, changed };
                self.apply(op, &[parameters, &[x, before]].concat())?
            }
            None => self.apply(op, &[parameters, &[x]].concat())?,
        };
        if let Some(repeats) = &mut self.repeats {
            let made = Made { parameters: parameters.into(), is_positive, x, y };
            match place {
                Some(at) => repeats.linears[at] = made,
                None => repeats.linears.push(made),
            }
        }
        Ok(y)
    }

    /// Rows of `x` that are not those of `before`; nothing where they are too many to be worth it.
    fn changed(&self, x: Var, before: Var) -> Option<Arc<[u32]>> {
        let shape = self.shape(x);
        if shape != self.shape(before) || shape.is_empty() {
            return None;
        }
        let changed: Arc<[u32]> = if self.wants_gradient(x) {
            let node = &self.nodes[x.0];
            let is_copied = node.inputs.last() == Some(&before);
            node.op.as_ref().filter(|_| is_copied)?.changed()?.clone()
        } else {
            let bits = |var| Some(bytemuck::cast_slice::<f32, u32>(self.value(var).ok()?));
            let rows = bits(x)?.chunks_exact(shape.columns).zip(bits(before)?.chunks_exact(shape.columns));
            (0..).zip(rows).filter(|(_, (now, was))| now != was).map(|(row, _)| row).collect()
        };
        (4 * changed.len() <= MOST * shape.rows).then_some(changed)
    }

    /// Matrices above each other that were put so before.
    pub(super) fn stacked(&self, all: &[Var]) -> Option<Var> {
        let stacked = self.repeats.iter().flat_map(|repeats| &repeats.stacked);
        { stacked }.find(|(vars, _)| vars[..] == *all).map(|(_, var)| *var)
    }

    /// Notes that they were.
    pub(super) fn note_stacked(&mut self, all: &[Var], var: Var) {
        if let Some(repeats) = &mut self.repeats {
            repeats.stacked.push((all.into(), var));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pieces::tests::numbers;
    use super::*;
    use crate::Arena;

    /// What two layers, of which the second reads the first, make of rows that change from step to step, and
    /// the gradients of all parameters; how many numbers of the results were copied.
    fn run(steps: &[Vec<f32>], widths: [usize; 3], repeats: bool, relu: bool) -> (Vec<Vec<f32>>, usize) {
        let [inner, middle, columns] = widths;
        let parameters = [numbers(inner, middle, 1), numbers(1, middle, 2), numbers(middle, columns, 3)];
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        if repeats {
            tape.look_for_repeats();
        }
        let [w, b, v] = [0, 1, 2].map(|at| tape.parameter(parameters[at].0, &parameters[at].1).unwrap());
        let mut ends = Vec::new();
        for x in steps {
            let x = tape.constant(Shape::new(x.len() / inner, inner), x).unwrap();
            let made = if relu { tape.linear_relu(x, w, b) } else { tape.linear(x, w, b) }.unwrap();
            let end = tape.matmul(made, v).unwrap();
            let square = tape.multiply(end, end).unwrap();
            ends.push((tape.sum(square).unwrap(), [made, end]));
        }
        let sums: Vec<Var> = ends.iter().map(|end| end.0).collect();
        let sum = tape.add_all(&sums).unwrap();
        let gradients = tape.backward(sum).unwrap();
        let mut found: Vec<Vec<f32>> =
            ends.iter().flat_map(|end| end.1).map(|var| tape.value(var).unwrap().to_vec()).collect();
        found.extend([w, b, v].map(|var| gradients.read(var).unwrap().unwrap().to_vec()));
        let copied = |node: &crate::tape::Node<'_>| {
            let changed = node.op.as_ref()?.changed()?.len();
            Some((node.shape.rows - changed) * node.shape.columns)
        };
        (found, tape.nodes.iter().filter_map(copied).sum())
    }

    proptest! {
        /// Whatever changes, values have the bits of layers that look for nothing, and gradients are theirs.
        #[test]
        fn what_is_copied_is_what_would_be_computed(
            rows in 1usize..40, inner in 1usize..20, middle in 1usize..20, relu: bool,
            changes in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..12), 1..6),
        ) {
            let mut now = numbers(rows, inner, 7).1;
            let mut steps = vec![now.clone()];
            for change in &changes {
                change.iter().for_each(|&place| now[usize::from(place) % (rows * inner)] += 0.25);
                steps.push(now.clone());
            }
            let widths = [inner, middle, 3];
            let ((found, copied), (whole, none)) =
                (run(&steps, widths, true, relu), run(&steps, widths, false, relu));
            let same = |pair: &[Vec<f32>]| {
                let of = |step: &Vec<f32>, row: &usize| step[row * inner..][..inner].to_vec();
                let differs = |row: &usize| of(&pair[0], row) != of(&pair[1], row);
                let changed = (0..rows).filter(differs).count();
                if 4 * changed <= 3 * rows { rows - changed } else { 0 }
            };
            let expected: usize = steps.windows(2).map(|pair| same(pair) * (middle + 3)).sum();
            prop_assert_eq!((copied, none), (expected, 0));
            let values = 2 * steps.len();
            for (found, whole) in found[..values].iter().zip(&whole[..values]) {
                for (found, whole) in found.iter().zip(whole) {
                    prop_assert!((found - whole).abs() <= 1e-5 * (1.0 + whole.abs()), "{found} {whole}");
                }
            }
            for (found, whole) in found[values..].iter().zip(&whole[values..]) {
                for (found, whole) in found.iter().zip(whole) {
                    prop_assert!((found - whole).abs() <= 1e-4 * (1.0 + whole.abs()), "{found} {whole}");
                }
            }
        }
    }

    /// Rows that are equal by chance have gradients of their own.
    #[test]
    fn equal_rows_through_which_gradients_flow_are_not_the_same() {
        let (shape, values) = (Shape::new(2, 2), [1.0, 2.0, 3.0, 4.0]);
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        tape.look_for_repeats();
        let [x, y, w] = [0; 3].map(|_| tape.parameter(shape, &values).unwrap());
        let made = [x, y].map(|rows| tape.matmul(rows, w).unwrap());
        let all = tape.add(made[0], made[1]).unwrap();
        let sum = tape.sum(all).unwrap();
        let gradients = tape.backward(sum).unwrap();
        let [of_x, of_y] = [x, y].map(|var| gradients.read(var).unwrap().unwrap().to_vec());
        assert_eq!(of_x, [3.0, 7.0, 3.0, 7.0]);
        assert_eq!(of_x, of_y);
    }

    /// Other parameters, other rows, many changes and matrices that are no blocks are computed whole.
    #[test]
    fn only_the_same_layer_of_as_many_rows_is_looked_at() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        tape.look_for_repeats();
        let ones = |tape: &mut Tape<'_>, rows, columns| tape.filled(Shape::new(rows, columns), 1.0);
        let (w, v, b) = (ones(&mut tape, 2, 2), ones(&mut tape, 2, 2), ones(&mut tape, 1, 2));
        let (x, same) = (ones(&mut tape, 4, 2), ones(&mut tape, 4, 2));
        let long = [0; 2].map(|_| ones(&mut tape, ROWS + 1, 2));
        let others = tape.filled(Shape::new(4, 2), 2.0);
        let short = ones(&mut tape, 3, 2);
        let is_again = |tape: &Tape<'_>, var: Var| tape.nodes[var.0].op.as_ref().unwrap().changed().is_some();
        let first = tape.matmul(x, w).unwrap();
        assert!(!is_again(&tape, first));
        let made = [
            tape.matmul(same, v),
            tape.linear(same, w, b),
            tape.linear_relu(same, w, b),
            tape.matmul(others, w),
            tape.matmul(x, w),
            tape.matmul(short, w),
        ];
        for var in made {
            assert!(!is_again(&tape, var.unwrap()));
        }
        tape.matmul(x, w).unwrap();
        let again = tape.matmul(same, w).unwrap();
        assert!(is_again(&tape, again));
        assert_eq!(tape.value(again).unwrap(), tape.value(first).unwrap());
        for x in long {
            let made = tape.matmul(x, w).unwrap();
            assert!(!is_again(&tape, made));
        }
    }
}
