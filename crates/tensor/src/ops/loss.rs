//! Losses number by number: squared and absolute errors, and binary cross entropy from logits.
//!
//! Each is one number: `scale * sum of weight * loss`, summed in double precision over pieces of rows in
//! order. Targets and weights are matrices that need no gradient, so that a sum by rows can hand out their
//! blocks like those of any other.

use super::pieces::{by_pieces, sum_by_pieces, taken};
use super::reduce::{shares, total_on};
use crate::cuda::{self, Source};
use crate::error::{Error, Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{exp, fma, log_of_one_plus, sigmoid, simd};
use crate::tape::{Tape, Var};

/// Defines the loops of one loss: its value and its slope for a prediction and a target.
macro_rules! loss {
    ($module:ident, |$x:ident, $target:ident| $value:expr, $slope:expr) => {
        mod $module {
            use super::*;

            #[inline(always)]
            fn sum_body<const FUSED: bool>(
                x: &[f32],
                target: &[f32],
                weights: Option<&[f32]>,
                columns: usize,
            ) -> f64 {
                let sum = |x: &[f32], target: &[f32]| {
                    super::super::pieces::summed(x.len(), |index| {
                        let ($x, $target) = (x[index], target[index]);
                        f64::from($value)
                    })
                };
                let Some(weights) = weights else { return sum(x, target) };
                let rows = x.chunks_exact(columns).zip(target.chunks_exact(columns)).zip(weights);
                // A row that does not count may hold anything, also what is not a number.
                rows.filter(|(_, weight)| **weight != 0.0)
                    .map(|((x, target), &weight)| f64::from(weight) * sum(x, target))
                    .sum()
            }

            simd! {
                pub(super) fn sum(
                    x: &[f32],
                    target: &[f32],
                    weights: Option<&[f32]>,
                    columns: usize,
                ) -> f64 = sum_body;
            }

            #[inline(always)]
            fn back_body<const FUSED: bool>(
                x: &[f32],
                target: &[f32],
                weights: Option<&[f32]>,
                columns: usize,
                factor: f32,
                gradient: &mut [f32],
            ) {
                let add = |x: &[f32], target: &[f32], factor: f32, gradient: &mut [f32]| {
                    for ((sum, &$x), &$target) in gradient.iter_mut().zip(x).zip(target) {
                        *sum = fma::<FUSED>(factor, $slope, *sum);
                    }
                };
                let Some(weights) = weights else { return add(x, target, factor, gradient) };
                let rows = x.chunks_exact(columns).zip(target.chunks_exact(columns)).zip(weights);
                for (((x, target), &weight), gradient) in rows.zip(gradient.chunks_exact_mut(columns)) {
                    if weight != 0.0 {
                        add(x, target, factor * weight, gradient);
                    }
                }
            }

            simd! {
                pub(super) fn back(
                    x: &[f32],
                    target: &[f32],
                    weights: Option<&[f32]>,
                    columns: usize,
                    factor: f32,
                    gradient: &mut [f32],
                ) = back_body;
            }
        }
    };
}

loss!(squared, |x, target| (x - target) * (x - target), 2.0 * (x - target));
loss!(
    absolute,
    |x, target| (x - target).abs(),
    if x > target {
        1.0
    } else if x < target {
        -1.0
    } else {
        0.0
    }
);
// log(1 + exp(x)) - target * x, without an exponential that could be too large.
loss!(
    binary,
    |x, target| fma::<FUSED>(-x, target, x.max(0.0)) + log_of_one_plus::<FUSED>(exp::<FUSED>(-x.abs())),
    sigmoid::<FUSED>(x) - target
);

/// The weighted sum of a loss over predictions, targets and weights of rows of this many columns.
type Sum = fn(&[f32], &[f32], Option<&[f32]>, usize) -> f64;

/// Adds to the gradient of the predictions, times a factor.
type Slope = fn(&[f32], &[f32], Option<&[f32]>, usize, f32, &mut [f32]);

/// The kernels.
pub(crate) const LOSS: Source = Source { name: "loss", text: include_str!("loss.cu"), samples: &[&[]] };

/// What losses are called in the arguments of kernels.
const SQUARED: i32 = 0;
const ABSOLUTE: i32 = 1;
const BINARY: i32 = 2;

/// A loss: its name, what kernels call it, its factor and its loops.
struct Loss {
    name: &'static str,
    kind: i32,
    scale: f32,
    sum: Sum,
    back: Slope,
}

/// The weights of some rows.
pub(crate) fn weights_of<'a>(weights: Option<&View<'a>>, rows: std::ops::Range<usize>) -> Option<&'a [f32]> {
    weights.map(|weights| &weights.values[rows])
}

impl Op for Loss {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x, target, rest @ ..] = inputs else {
            return Err(Error::shape(self.name, "a prediction and a target were expected"));
        };
        expect_shape(self.name, "the target", *target, *x)?;
        rest.iter().try_for_each(|&weights| {
            expect_shape(self.name, "the weights", weights, Shape::new(x.rows, 1))
        })?;
        Ok(Shape::SCALAR)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (x, target) = (inputs[0], inputs[1]);
        let total = sum_by_pieces(x.shape.rows, &mut [], |range, _| {
            let weights = weights_of(inputs.get(2), range.clone());
            (self.sum)(
                x.rows(range.clone()).values,
                target.rows(range).values,
                weights,
                x.shape.columns.max(1),
            )
        });
        output[0] = (total * f64::from(self.scale)) as f32;
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (inputs, factor) = (back.inputs, back.upstream[0] * self.scale);
        let (x, target) = (inputs[0], inputs[1]);
        by_pieces(x.shape.rows, &mut [back.take(0)], |range, slots| {
            let weights = weights_of(inputs.get(2), range.clone());
            let (x, target) = (x.rows(range.clone()), target.rows(range));
            (self.back)(x.values, target.values, weights, x.shape.columns.max(1), factor, taken(slots, 0));
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, [x, target]) = (call.device, [call.inputs[0], call.inputs[1]]);
        let (count, weights) = (x.values.len(), call.inputs.get(2).map(|weights| weights.values));
        total_on(device, shares(count), (self.scale, 1), call.output, |launch, shares| {
            let arguments = [
                count.into(),
                x.values.into(),
                target.values.into(),
                weights.into(),
                x.shape.columns.into(),
                self.kind.into(),
                shares.into(),
            ];
            device.run(&LOSS, "loss_shares", &[], launch, &arguments)
        })
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(gradient) = back.gradients[0] else { return Ok(()) };
        let arguments = [
            back.inputs[0].values.into(),
            back.inputs[1].values.into(),
            back.inputs.get(2).map(|weights| weights.values).into(),
            back.inputs[0].shape.columns.into(),
            self.kind.into(),
            back.upstream.into(),
            self.scale.into(),
            gradient.values.into(),
            gradient.adds.into(),
        ];
        back.device.each(&LOSS, "loss_back", gradient.values.len(), &arguments)
    }
}

impl Tape<'_> {
    fn loss(&mut self, loss: Loss, x: Var, target: Var, weights: Option<Var>) -> Result<Var> {
        let inputs: Vec<Var> = [x, target].into_iter().chain(weights).collect();
        self.expect_constants(loss.name, &inputs[1..])?;
        self.apply(loss, &inputs)
    }

    /// Fails if a gradient flows through what a loss compares with.
    pub(crate) fn expect_constants(&self, op: &'static str, vars: &[Var]) -> Result<()> {
        if vars.iter().any(|&var| self.wants_gradient(var)) {
            return Err(Error::shape(op, "targets and weights must not need a gradient"));
        }
        Ok(())
    }

    /// `scale * sum of weight * (prediction - target)^2`, with a weight for each row, or all of them one.
    ///
    /// A row with a weight of zero does not count at all.
    pub fn mse(&mut self, prediction: Var, target: Var, weights: Option<Var>, scale: f32) -> Result<Var> {
        let (sum, back) = (squared::sum, squared::back);
        self.loss(
            Loss { name: "squared error", kind: SQUARED, scale, sum, back },
            prediction,
            target,
            weights,
        )
    }

    /// `scale * sum of weight * |prediction - target|`, with a weight for each row, or all of them one.
    pub fn mae(&mut self, prediction: Var, target: Var, weights: Option<Var>, scale: f32) -> Result<Var> {
        let (sum, back) = (absolute::sum, absolute::back);
        self.loss(
            Loss { name: "absolute error", kind: ABSOLUTE, scale, sum, back },
            prediction,
            target,
            weights,
        )
    }

    /// `-scale * sum of weight * (target log p + (1 - target) log(1 - p))` with `p = sigmoid(logit)`, with a
    /// weight for each row, or all of them one.
    pub fn binary_cross_entropy(
        &mut self,
        logits: Var,
        target: Var,
        weights: Option<Var>,
        scale: f32,
    ) -> Result<Var> {
        let (sum, back) = (binary::sum, binary::back);
        self.loss(
            Loss { name: "binary cross entropy", kind: BINARY, scale, sum, back },
            logits,
            target,
            weights,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{assert_close, numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    type Build = fn(&mut Tape<'_>, Var, Var, Option<Var>, f32) -> Result<Var>;

    type Exact = fn(f64, f64) -> f64;

    fn all() -> [(Build, Exact); 3] {
        [
            (|t, x, y, w, s| t.mse(x, y, w, s), |x, t| (x - t).powi(2)),
            (|t, x, y, w, s| t.mae(x, y, w, s), |x, t| (x - t).abs()),
            (
                |t, x, y, w, s| t.binary_cross_entropy(x, y, w, s),
                |x, t| x.max(0.0) - x * t + (-x.abs()).exp().ln_1p(),
            ),
        ]
    }

    /// A loss against 0.25, without weights or with a weight of 0.5 for every row.
    fn build(loss: Build, weighted: bool) -> impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var> {
        move |tape, vars| {
            let shape = tape.shape(vars[0]);
            let target = tape.filled(shape, 0.25);
            let weights = weighted.then(|| tape.filled(Shape::new(shape.rows, 1), 0.5));
            loss(tape, vars[0], target, weights, 0.3)
        }
    }

    #[test]
    fn gradients_and_values() {
        for ((loss, exact), weighted) in all().into_iter().flat_map(|loss| [(loss, false), (loss, true)]) {
            for (rows, columns) in [(1, 1), (1, 9), (7, 1), (5, 3)] {
                let (shape, mut values) = numbers(rows, columns, 3);
                values
                    .iter_mut()
                    .filter(|value| (**value - 0.25).abs() < 0.02)
                    .for_each(|value| *value += 0.1);
                let input = [(shape, values)];
                gradient(&input, 1e-2, build(loss, weighted)).unwrap();
                let weight = if weighted { 0.15 } else { 0.3 };
                let expected: f64 = input[0].1.iter().map(|&x| weight * exact(f64::from(x), 0.25)).sum();
                assert_close(&run(&input, &build(loss, weighted))[0], [expected], "loss");
            }
            same_for_any_thread_count(&[numbers(3003, 2, 1)], build(loss, weighted));
        }
    }

    #[test]
    fn rows_without_weight_do_not_count_and_extremes_are_finite() {
        let arena = Arena::new();
        let (x, target, weights) = ([f32::NAN, 1.0, 2.0], [0.0, f32::NAN, 1.0], [0.0, 0.0, 1.0]);
        for (loss, exact) in all() {
            let mut tape = Tape::new(&arena);
            let column = Shape::new(3, 1);
            let vars =
                [tape.parameter(column, &x), tape.constant(column, &target), tape.constant(column, &weights)];
            let [x, target, weights] = vars.map(Result::unwrap);
            let sum = loss(&mut tape, x, target, Some(weights), 1.0).unwrap();
            assert_close(tape.value(sum).unwrap(), [exact(2.0, 1.0)], "weighted");
            assert_eq!(tape.backward(sum).unwrap().read(x).unwrap().unwrap()[..2], [0.0, 0.0]);
            let extremes = [(Shape::new(2, 2), vec![1e4, -1e4, 0.0, 1e-9])];
            assert!(run(&extremes, &build(loss, true)).iter().flatten().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn wrong_inputs() {
        let (arena, values) = (Arena::new(), [1.0; 6]);
        let mut tape = Tape::new(&arena);
        let (a, b) = (tape.filled(Shape::new(2, 3), 1.0), tape.filled(Shape::new(3, 2), 1.0));
        let parameter = tape.parameter(Shape::new(2, 3), &values).unwrap();
        let error = tape.mse(a, b, None, 1.0).unwrap_err().to_string();
        assert_eq!(error, "squared error: the target is 3 x 2, expected 2 x 3");
        assert!(tape.mae(a, a, Some(b), 1.0).is_err() && tape.mse(a, parameter, None, 1.0).is_err());
    }
}
