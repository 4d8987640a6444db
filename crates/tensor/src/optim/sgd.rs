//! Stochastic gradient descent with momentum (Polyak, 1964) in the form of PyTorch: `v = momentum * v + g`,
//! `p -= rate * v`.

use super::{DeviceParams, Optimiser, State, prepare, update_all};
use crate::error::Result;
use crate::simd::{fma, simd};

/// How descent is done; by default without momentum and without weight decay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SgdSettings {
    /// How much of the last step's direction is kept.
    pub momentum: f32,
    /// The factor with which a parameter is added to its gradient.
    pub weight_decay: f32,
}

/// Stochastic gradient descent.
#[derive(Clone, Debug)]
pub struct Sgd {
    settings: SgdSettings,
    state: State,
}

impl Sgd {
    /// An optimiser that has not done a step.
    pub fn new(settings: SgdSettings) -> Self {
        Sgd { settings, state: State::default() }
    }
}

#[inline(always)]
fn update_body<const FUSED: bool>(
    parameter: &mut [f32],
    gradient: &[f32],
    velocity: &mut [f32],
    settings: SgdSettings,
    rate: f32,
) {
    for ((parameter, &gradient), velocity) in parameter.iter_mut().zip(gradient).zip(velocity) {
        let gradient = fma::<FUSED>(settings.weight_decay, *parameter, gradient);
        *velocity = fma::<FUSED>(settings.momentum, *velocity, gradient);
        *parameter = fma::<FUSED>(-rate, *velocity, *parameter);
    }
}

simd! {
    fn update(
        parameter: &mut [f32],
        gradient: &[f32],
        velocity: &mut [f32],
        settings: SgdSettings,
        rate: f32,
    ) = update_body;
}

impl Optimiser for Sgd {
    fn step(&mut self, parameters: &mut [Vec<f32>], gradients: &[&[f32]], rate: f32) -> Result<()> {
        prepare(&mut self.state, 1, parameters, gradients)?;
        let settings = self.settings;
        let all = parameters.iter_mut().zip(gradients).zip(&mut self.state.buffers);
        for ((parameter, gradient), velocity) in all.filter(|((_, gradient), _)| !gradient.is_empty()) {
            update_all(parameter, gradient, [velocity], |parameter, gradient, [velocity]| {
                update(parameter, gradient, velocity, settings, rate);
            });
        }
        Ok(())
    }

    fn step_on(&mut self, away: &DeviceParams, factor: f32, rate: f32) -> Result<()> {
        self.state.steps += 1;
        let SgdSettings { momentum, weight_decay } = self.settings;
        away.update("sgd", self.copies(), &[factor, momentum, weight_decay, rate])
    }

    fn copies(&self) -> usize {
        1
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
        for (momentum, weight_decay) in [(0.0, 0.0), (0.9, 0.0), (0.5, 0.1)] {
            let mut optimiser = Sgd::new(SgdSettings { momentum, weight_decay });
            let mut parameters = vec![vec![1.0f32, -2.0, 0.5]];
            let mut expected: Vec<(f64, f64)> = parameters[0].iter().map(|&p| (f64::from(p), 0.0)).collect();
            for step in 1..=5 {
                let gradient: Vec<f32> = (0..3).map(|i| (i as f32 - 1.0) * step as f32 * 0.3).collect();
                optimiser.step(&mut parameters, &[&gradient], 0.1).unwrap();
                for ((p, v), &g) in expected.iter_mut().zip(&gradient) {
                    *v = f64::from(momentum) * *v + f64::from(g) + f64::from(weight_decay) * *p;
                    *p -= 0.1 * *v;
                }
            }
            for (found, (expected, _)) in parameters[0].iter().zip(expected) {
                assert!((f64::from(*found) - expected).abs() < 1e-5 * expected.abs().max(0.1));
            }
            assert_eq!(optimiser.state().steps, 5);
        }
    }
}
