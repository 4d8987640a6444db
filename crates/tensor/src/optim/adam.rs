//! Adam (Kingma and Ba, 2015, algorithm 1) and AdamW (Loshchilov and Hutter, 2019, algorithm 2), in one pass.

use super::{DeviceParams, Optimiser, State, prepare, update_all};
use crate::error::Result;
use crate::simd::{fma, simd};

/// How weights are kept small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// A multiple of the parameter is added to its gradient: Adam.
    InGradient(f32),
    /// The parameter shrinks by `rate` times this share, beside its step: AdamW.
    Decoupled(f32),
}

/// The numbers of Adam; by default those of the paper, without weight decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamSettings {
    /// How much of the mean of gradients is kept.
    pub first: f32,
    /// How much of the mean of their squares is kept.
    pub second: f32,
    /// What keeps the denominator from zero.
    pub epsilon: f32,
    /// How weights are kept small.
    pub decay: Decay,
}

impl Default for AdamSettings {
    fn default() -> Self {
        AdamSettings { first: 0.9, second: 0.999, epsilon: 1e-8, decay: Decay::InGradient(0.0) }
    }
}

/// Adam or AdamW.
#[derive(Clone, Debug)]
pub struct Adam {
    settings: AdamSettings,
    state: State,
}

impl Adam {
    /// An optimiser that has not done a step.
    pub fn new(settings: AdamSettings) -> Self {
        Adam { settings, state: State::default() }
    }

    /// The factors of the step that has just been counted.
    fn factors(&self, rate: f32) -> Factors {
        let AdamSettings { first, second, epsilon, decay } = self.settings;
        // The corrections are near one after many steps and must not be rounded before.
        let steps = self.state.steps as f64;
        let correction = |kept: f32| 1.0 - f64::from(kept).powf(steps);
        let (in_gradient, keep) = match decay {
            Decay::InGradient(share) => (share, 1.0),
            Decay::Decoupled(share) => (0.0, 1.0 - rate * share),
        };
        Factors {
            first,
            second,
            epsilon,
            in_gradient,
            keep,
            rate: (f64::from(rate) / correction(first)) as f32,
            root: (1.0 / correction(second).sqrt()) as f32,
        }
    }
}

/// The factors of one step.
#[derive(Clone, Copy)]
struct Factors {
    first: f32,
    second: f32,
    epsilon: f32,
    /// Of the parameter, in its gradient.
    in_gradient: f32,
    /// Of the parameter itself.
    keep: f32,
    /// Of the mean of gradients, corrected for its start at zero.
    rate: f32,
    /// Of the root of the mean of squares, corrected for its start at zero.
    root: f32,
}

#[inline(always)]
fn update_body<const FUSED: bool>(
    parameter: &mut [f32],
    gradient: &[f32],
    means: &mut [f32],
    squares: &mut [f32],
    factors: Factors,
) {
    for (((parameter, &gradient), mean), square) in parameter.iter_mut().zip(gradient).zip(means).zip(squares)
    {
        let gradient = fma::<FUSED>(factors.in_gradient, *parameter, gradient);
        *mean = fma::<FUSED>(factors.first, *mean - gradient, gradient);
        *square = fma::<FUSED>(factors.second, *square - gradient * gradient, gradient * gradient);
        let root = fma::<FUSED>(square.sqrt(), factors.root, factors.epsilon);
        *parameter = fma::<FUSED>(factors.keep, *parameter, -factors.rate * *mean / root);
    }
}

simd! {
    fn update(
        parameter: &mut [f32],
        gradient: &[f32],
        means: &mut [f32],
        squares: &mut [f32],
        factors: Factors,
    ) = update_body;
}

impl Optimiser for Adam {
    fn step(&mut self, parameters: &mut [Vec<f32>], gradients: &[&[f32]], rate: f32) -> Result<()> {
        prepare(&mut self.state, 2, parameters, gradients)?;
        let factors = self.factors(rate);
        let (means, squares) = self.state.buffers.split_at_mut(parameters.len());
        let all = parameters.iter_mut().zip(gradients).zip(means.iter_mut().zip(squares));
        for ((parameter, gradient), (means, squares)) in all.filter(|((_, gradient), _)| !gradient.is_empty())
        {
            update_all(parameter, gradient, [means, squares], |parameter, gradient, [means, squares]| {
                update(parameter, gradient, means, squares, factors);
            });
        }
        Ok(())
    }

    fn step_on(&mut self, away: &DeviceParams, factor: f32, rate: f32) -> Result<()> {
        self.state.steps += 1;
        let Factors { first, second, epsilon, in_gradient, keep, rate, root } = self.factors(rate);
        let numbers = [factor, first, second, epsilon, in_gradient, keep, rate, root];
        away.update("adam", self.copies(), &numbers)
    }

    fn copies(&self) -> usize {
        2
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn restore(&mut self, state: State) {
        self.state = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_formula() {
        for decay in [Decay::InGradient(0.0), Decay::InGradient(0.1), Decay::Decoupled(0.1)] {
            let mut optimiser = Adam::new(AdamSettings { decay, ..AdamSettings::default() });
            let mut parameters = vec![vec![1.0f32, -2.0, 0.5]];
            let mut expected: Vec<[f64; 3]> =
                parameters[0].iter().map(|&p| [f64::from(p), 0.0, 0.0]).collect();
            for step in 1..=20 {
                let gradient: Vec<f32> = (0..3).map(|i| (i as f32 - 1.2) * (step % 3) as f32 * 0.3).collect();
                optimiser.step(&mut parameters, &[&gradient], 0.01).unwrap();
                for ([p, m, v], &g) in expected.iter_mut().zip(&gradient) {
                    let mut g = f64::from(g);
                    match decay {
                        Decay::InGradient(share) => g += f64::from(share) * *p,
                        Decay::Decoupled(share) => *p -= 0.01 * f64::from(share) * *p,
                    }
                    *m = 0.9 * *m + 0.1 * g;
                    *v = 0.999 * *v + 0.001 * g * g;
                    let (m, v) = (*m / (1.0 - 0.9f64.powi(step)), *v / (1.0 - 0.999f64.powi(step)));
                    *p -= 0.01 * m / (v.sqrt() + 1e-8);
                }
            }
            for (found, [expected, ..]) in parameters[0].iter().zip(expected) {
                assert!(
                    (f64::from(*found) - expected).abs() < 1e-5,
                    "{decay:?}: {found}, expected {expected}"
                );
            }
        }
    }

    #[test]
    fn the_first_step_is_the_rate_whatever_the_gradient_is() {
        let mut optimiser = Adam::new(AdamSettings::default());
        let mut parameters = vec![vec![1.0f32; 2]];
        optimiser.step(&mut parameters, &[&[123.0, -0.01]], 0.1).unwrap();
        assert!((parameters[0][0] - 0.9).abs() < 1e-5 && (parameters[0][1] - 1.1).abs() < 1e-5);
    }
}
