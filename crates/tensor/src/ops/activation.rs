//! Activations, number by number.
//!
//! The slope of each is a function of its value, so nothing is put aside. ELU is that of Clevert, Unterthiner
//! and Hochreiter, 2016, equation 16.

use super::pieces::{by_pieces, taken};
use super::pointwise::POINTWISE;
use crate::cuda;
use crate::error::{Result, expect_inputs};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{exp, fma, sigmoid, simd, tanh};
use crate::tape::{Tape, Var};

/// Defines the loops of one activation: its values, and the gradient from its value `y` and a parameter.
macro_rules! activation {
    ($module:ident, |$x:ident, $parameter:ident| $value:expr, |$y:ident| $slope:expr) => {
        mod $module {
            use super::*;

            #[inline(always)]
            fn values_body<const FUSED: bool>(x: &[f32], $parameter: f32, output: &mut [f32]) {
                let _ = $parameter;
                for (output, &$x) in output.iter_mut().zip(x) {
                    *output = $value;
                }
            }

            simd! {
                pub(super) fn values(x: &[f32], parameter: f32, output: &mut [f32]) = values_body;
            }

            #[inline(always)]
            fn gradient_body<const FUSED: bool>(
                y: &[f32],
                $parameter: f32,
                upstream: &[f32],
                sum: &mut [f32],
            ) {
                let _ = $parameter;
                for ((sum, &$y), &upstream) in sum.iter_mut().zip(y).zip(upstream) {
                    *sum = fma::<FUSED>(upstream, $slope, *sum);
                }
            }

            simd! {
                pub(super) fn gradient(
                    y: &[f32],
                    parameter: f32,
                    upstream: &[f32],
                    sum: &mut [f32],
                ) = gradient_body;
            }
        }
    };
}

activation!(relu, |x, slope| if x > 0.0 { x } else { slope * x }, |y| if y > 0.0 { 1.0 } else { slope });
activation!(
    elu,
    |x, alpha| if x > 0.0 { x } else { alpha * (exp::<FUSED>(x.min(0.0)) - 1.0) },
    |y| if y > 0.0 { 1.0 } else { y + alpha }
);
activation!(logistic, |x, unused| sigmoid::<FUSED>(x), |y| y * (1.0 - y));
activation!(hyperbolic, |x, unused| tanh::<FUSED>(x), |y| 1.0 - y * y);

/// What activations are called in the arguments of kernels.
const RELU: i32 = 0;
const ELU: i32 = 1;
const SIGMOID: i32 = 2;
const TANH: i32 = 3;

/// An activation: its name, what kernels call it, its parameter and its loops.
struct Activation {
    name: &'static str,
    kind: i32,
    parameter: f32,
    values: fn(&[f32], f32, &mut [f32]),
    gradient: fn(&[f32], f32, &[f32], &mut [f32]),
}

impl Op for Activation {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name, inputs)?;
        Ok(x)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        by_pieces(inputs[0].shape.rows, &mut [Some(output)], |range, slots| {
            (self.values)(inputs[0].rows(range).values, self.parameter, taken(slots, 0));
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let y = back.output;
        by_pieces(y.shape.rows, &mut [back.take(0)], |range, slots| {
            let upstream = upstream.rows(range.clone()).values;
            (self.gradient)(y.rows(range).values, self.parameter, upstream, taken(slots, 0));
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let arguments =
            [call.inputs[0].values.into(), call.output.into(), self.kind.into(), self.parameter.into()];
        call.device.each(&POINTWISE, "activate", call.output.len(), &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(x) = back.gradients[0] else { return Ok(()) };
        let arguments = [
            back.output.values.into(),
            back.upstream.into(),
            x.values.into(),
            x.adds.into(),
            self.kind.into(),
            self.parameter.into(),
        ];
        back.device.each(&POINTWISE, "activate_back", x.values.len(), &arguments)
    }
}

impl Tape<'_> {
    /// `x` where it is positive, zero elsewhere.
    pub fn relu(&mut self, x: Var) -> Result<Var> {
        let (values, gradient) = (relu::values, relu::gradient);
        self.apply(Activation { name: "relu", kind: RELU, parameter: 0.0, values, gradient }, &[x])
    }

    /// `x` where it is positive, `slope * x` elsewhere; the slope must not be negative.
    pub fn leaky_relu(&mut self, x: Var, slope: f32) -> Result<Var> {
        let valid = slope >= 0.0;
        if !valid {
            let problem = format!("{slope} was given, expected a number that is not negative");
            return Err(crate::Error::settings("the slope of a leaky relu", problem));
        }
        let (values, gradient) = (relu::values, relu::gradient);
        self.apply(Activation { name: "leaky relu", kind: RELU, parameter: slope, values, gradient }, &[x])
    }

    /// `x` where it is positive, `exp(x) - 1` elsewhere.
    pub fn elu(&mut self, x: Var) -> Result<Var> {
        let (values, gradient) = (elu::values, elu::gradient);
        self.apply(Activation { name: "elu", kind: ELU, parameter: 1.0, values, gradient }, &[x])
    }

    /// The logistic function.
    pub fn sigmoid(&mut self, x: Var) -> Result<Var> {
        let (values, gradient) = (logistic::values, logistic::gradient);
        self.apply(Activation { name: "sigmoid", kind: SIGMOID, parameter: 0.0, values, gradient }, &[x])
    }

    /// The hyperbolic tangent.
    pub fn tanh(&mut self, x: Var) -> Result<Var> {
        let (values, gradient) = (hyperbolic::values, hyperbolic::gradient);
        self.apply(Activation { name: "tanh", kind: TANH, parameter: 0.0, values, gradient }, &[x])
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{assert_close, numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::check::gradient;

    type Build = fn(&mut Tape<'_>, &[Var]) -> Result<Var>;

    type Exact = fn(f64) -> f64;

    fn all() -> [(Build, Exact); 5] {
        [
            (|tape, vars| tape.relu(vars[0]), |x| x.max(0.0)),
            (|tape, vars| tape.leaky_relu(vars[0], 0.2), |x| if x > 0.0 { x } else { 0.2 * x }),
            (|tape, vars| tape.elu(vars[0]), |x| if x > 0.0 { x } else { x.exp_m1() }),
            (|tape, vars| tape.sigmoid(vars[0]), |x| 1.0 / (1.0 + (-x).exp())),
            (|tape, vars| tape.tanh(vars[0]), f64::tanh),
        ]
    }

    #[test]
    fn gradients_and_values() {
        for (build, function) in all() {
            for (rows, columns) in [(1, 1), (1, 17), (5, 1), (3, 7)] {
                let (shape, mut values) = numbers(rows, columns, 9);
                // DeviceParams from the kink, where differences do not tell the slope.
                values.iter_mut().filter(|value| value.abs() < 0.02).for_each(|value| *value += 0.1);
                let input = [(shape, values)];
                gradient(&input, 1e-2, build).unwrap();
                let expected = input[0].1.iter().map(|&x| function(f64::from(x)));
                assert_close(&run(&input, &build)[0], expected, "activation");
            }
        }
    }

    #[test]
    fn extremes_are_finite_and_any_thread_count_gives_the_same() {
        for (build, function) in all() {
            let extremes = [(Shape::new(1, 4), vec![1e4, -1e4, 88.9, -1e-4])];
            let found = run(&extremes, &build);
            assert!(found.iter().flatten().all(|value| value.is_finite()), "{found:?}");
            assert_close(&found[0], extremes[0].1.iter().map(|&x| function(f64::from(x))), "extremes");
            same_for_any_thread_count(&[numbers(3001, 5, 2)], build);
        }
    }

    #[test]
    fn a_negative_slope_is_refused() {
        let arena = crate::Arena::new();
        let mut tape = Tape::new(&arena);
        let x = tape.filled(Shape::new(1, 1), 1.0);
        assert!(tape.leaky_relu(x, -0.1).is_err());
    }
}
