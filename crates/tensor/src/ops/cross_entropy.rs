//! Cross entropy from logits, with one class for each row.
//!
//! What is put aside is the logarithm of the sum of exponentials of each row, relative to which every
//! exponential is at most one; the gradient is computed from it in one pass.

use super::loss::weights_of;
use super::pieces::{by_pieces, sum_by_pieces, taken};
use super::reduce::total_on;
use crate::cuda::{self, Argument, Source};
use crate::error::{Error, Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{exp, fma, simd};
use crate::tape::{Tape, Value, Var};

/// The kernels.
pub(crate) const ENTROPY: Source =
    Source { name: "cross_entropy", text: include_str!("cross_entropy.cu"), samples: &[&[]] };

/// The name of the operation.
const NAME: &str = "cross entropy";

#[inline(always)]
fn logarithm_body<const FUSED: bool>(row: &[f32]) -> f32 {
    let largest = row.iter().fold(f32::NEG_INFINITY, |largest, &value| largest.max(value));
    let sum = super::pieces::summed(row.len(), |index| f64::from(exp::<FUSED>(row[index] - largest)));
    (f64::from(largest) + sum.ln()) as f32
}

simd! {
    /// The logarithm of the sum of the exponentials of a row.
    fn logarithm_of_exponentials(row: &[f32]) -> f32 = logarithm_body;
}

#[inline(always)]
fn add_shares_body<const FUSED: bool>(row: &[f32], logarithm: f32, factor: f32, gradient: &mut [f32]) {
    for (sum, &value) in gradient.iter_mut().zip(row) {
        *sum = fma::<FUSED>(factor, exp::<FUSED>(value - logarithm), *sum);
    }
}

simd! {
    /// `gradient += factor * softmax(row)`.
    fn add_shares(row: &[f32], logarithm: f32, factor: f32, gradient: &mut [f32]) = add_shares_body;
}

struct CrossEntropy {
    scale: f32,
    has_class_weights: bool,
}

/// Fails unless all classes are -1 or those of a column.
fn expect_classes(classes: &[f32], columns: usize) -> Result<()> {
    let valid =
        |class: f32| class == -1.0 || (class.fract() == 0.0 && class >= 0.0 && class < columns as f32);
    match classes.iter().enumerate().find(|(_, class)| !valid(**class)) {
        Some((row, class)) => {
            let problem =
                format!("row {row} has class {class}, expected -1 or a whole number below {columns}");
            Err(Error::shape(NAME, problem))
        }
        None => Ok(()),
    }
}

impl CrossEntropy {
    /// What kernels are told of logits, classes and weights.
    fn arguments(&self, inputs: &[cuda::View<'_>]) -> [Argument; 5] {
        let [by_class, by_row] = if self.has_class_weights { [2, 3] } else { [usize::MAX, 2] };
        let weights = |index: usize| inputs.get(index).map(|weights| weights.values).into();
        let (x, classes) = (inputs[0], inputs[1]);
        let columns = x.shape.columns as i32;
        [x.values.into(), columns.into(), classes.values.into(), weights(by_class), weights(by_row)]
    }

    /// The class of a row and its weight; `None` if the row does not count.
    fn class(&self, inputs: &[View<'_>], row: usize) -> Option<(usize, f32)> {
        let class = inputs[1].values[row];
        let by_class = inputs.get(2).filter(|_| self.has_class_weights);
        let by_row = weights_of(inputs.get(if self.has_class_weights { 3 } else { 2 }), row..row + 1);
        let class = (class >= 0.0).then_some(class as usize)?;
        let weight =
            by_class.map_or(1.0, |weights| weights.values[class]) * by_row.map_or(1.0, |weights| weights[0]);
        (weight != 0.0).then_some((class, weight))
    }
}

impl Op for CrossEntropy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x, classes, rest @ ..] = inputs else {
            return Err(Error::shape(self.name(), "logits and classes were expected"));
        };
        expect_shape(self.name(), "the matrix of classes", *classes, Shape::new(x.rows, 1))?;
        for (index, &weights) in rest.iter().enumerate() {
            let of_classes = index == 0 && self.has_class_weights;
            let expected = if of_classes { Shape::new(1, x.columns) } else { Shape::new(x.rows, 1) };
            expect_shape(self.name(), "the matrix of weights", weights, expected)?;
        }
        Ok(Shape::SCALAR)
    }

    fn saved(&self, inputs: &[Shape]) -> usize {
        inputs.first().map_or(0, |x| x.rows)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let x = inputs[0];
        expect_classes(inputs[1].values, x.shape.columns)?;
        let total = sum_by_pieces(x.shape.rows, &mut [Some(saved)], |range, slots| {
            let mut sum = 0.0;
            for (row, logarithm) in range.zip(taken(slots, 0)) {
                *logarithm = 0.0;
                if let Some((class, weight)) = self.class(inputs, row) {
                    let values = x.row(row);
                    *logarithm = logarithm_of_exponentials(values);
                    sum += f64::from(weight) * (f64::from(*logarithm) - f64::from(values[class]));
                }
            }
            sum
        });
        output[0] = (total * f64::from(self.scale)) as f32;
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (inputs, saved, factor) = (back.inputs, back.saved, back.upstream[0] * self.scale);
        let x = inputs[0];
        by_pieces(x.shape.rows, &mut [back.take(0)], |range, slots| {
            for (row, gradient) in range.zip(taken(slots, 0).chunks_exact_mut(x.shape.columns.max(1))) {
                if let Some((class, weight)) = self.class(inputs, row) {
                    add_shares(x.row(row), saved[row], factor * weight, gradient);
                    gradient[class] -= factor * weight;
                }
            }
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, rows) = (call.device, call.inputs[0].shape.rows);
        // A block has eight rows at a time.
        let blocks = rows.div_ceil(64).min(1024);
        total_on(device, blocks, (self.scale, 1), call.output, |launch, shares| {
            let mut arguments = vec![rows.into()];
            arguments.extend(self.arguments(call.inputs));
            arguments.extend([Argument::from(call.saved), shares.into()]);
            device.run(&ENTROPY, "entropy_shares", &[], launch, &arguments)
        })
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(gradient) = back.gradients[0] else { return Ok(()) };
        let mut arguments = self.arguments(back.inputs).to_vec();
        arguments.extend([
            Argument::from(back.saved),
            back.upstream.into(),
            self.scale.into(),
            gradient.values.into(),
            gradient.adds.into(),
        ]);
        back.device.each(&ENTROPY, "entropy_back", gradient.values.len(), &arguments)
    }
}

impl Tape<'_> {
    /// `-scale * sum of weight * log softmax(logits)[class]`, with a class for each row.
    ///
    /// Classes are whole numbers in one column; -1 stands for a row that does not count. Weights of classes
    /// are one row, weights of rows one column; where there are none they are one.
    ///
    /// A class that there is not is an error. On a GPU it is one where classes come from the host, as long as
    /// they are not held; otherwise the loss is not a number.
    pub fn cross_entropy(
        &mut self,
        logits: Var,
        classes: Var,
        class_weights: Option<Var>,
        weights: Option<Var>,
        scale: f32,
    ) -> Result<Var> {
        let inputs: Vec<Var> = [logits, classes].into_iter().chain(class_weights).chain(weights).collect();
        self.expect_constants(NAME, &inputs[1..])?;
        if self.arena().device().is_some() {
            // Kernels cannot refuse a class, so those that are not there yet are looked at first.
            let columns = self.shape(logits).columns;
            match &self.nodes[classes.0].value {
                Value::Filled(class) if !self.shape(classes).is_empty() => {
                    expect_classes(&[*class], columns)?
                }
                // What a kernel made is not looked at, and shows in the loss.
                value => value.host().map_or(Ok(()), |classes| expect_classes(classes, columns))?,
            }
        }
        self.apply(CrossEntropy { scale, has_class_weights: class_weights.is_some() }, &inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{assert_close, numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    /// Cross entropy with class 0 for every row, weights of classes or not, and a weight of 0.5 for every row
    /// or not.
    fn build(class: f32, by_class: bool, by_row: bool) -> impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var> {
        move |tape, vars| {
            let shape = tape.shape(vars[0]);
            let classes = tape.filled(Shape::new(shape.rows, 1), class);
            let class_weights = by_class.then(|| tape.filled(Shape::new(1, shape.columns), 3.0));
            let weights = by_row.then(|| tape.filled(Shape::new(shape.rows, 1), 0.5));
            tape.cross_entropy(vars[0], classes, class_weights, weights, 0.3)
        }
    }

    #[test]
    fn gradients_and_values() {
        for (rows, columns) in [(1, 1), (1, 9), (7, 2), (5, 3)] {
            let input = [numbers(rows, columns, 3)];
            let class = columns - 1;
            for (by_class, by_row, weight) in
                [(false, false, 1.0), (true, false, 3.0), (false, true, 0.5), (true, true, 1.5)]
            {
                let build = build(class as f32, by_class, by_row);
                gradient(&input, 1e-2, &build).unwrap();
                let row = |row: &[f32]| {
                    let sum: f64 = row.iter().map(|&value| f64::from(value).exp()).sum();
                    0.3 * weight * (sum.ln() - f64::from(row[class]))
                };
                let expected = input[0].1.chunks(columns).map(row).sum();
                assert_close(&run(&input, &build)[0], [expected], "loss");
            }
        }
        same_for_any_thread_count(&[numbers(3003, 5, 1)], build(2.0, true, true));
    }

    #[test]
    fn ignored_rows_extremes_and_wrong_classes() {
        let input = [(Shape::new(2, 3), vec![1e4, -1e4, 0.0, 1e-9, -1e4, 1e4])];
        let found = run(&input, &build(1.0, false, false));
        assert!(found.iter().flatten().all(|value| value.is_finite()));
        assert_close(&found[0], [0.3 * 4e4], "extremes");
        assert_eq!(run(&input, &build(-1.0, true, true))[0], [0.0]);
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let x = tape.filled(Shape::new(2, 3), 1.0);
        for (class, shown) in [(3.0, "3"), (0.5, "0.5"), (-2.0, "-2")] {
            let error = build(class, false, false)(&mut tape, &[x]).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("cross entropy: row 0 has class {shown}, expected -1 or a whole number below 3")
            );
        }
        let error = tape.cross_entropy(x, x, None, None, 1.0).unwrap_err().to_string();
        assert_eq!(error, "cross entropy: the matrix of classes is 2 x 3, expected 2 x 1");
    }
}
