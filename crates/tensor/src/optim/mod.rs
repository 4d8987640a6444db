//! Optimisers: how parameters follow their gradients. Their state is plain data that can be saved and
//! restored.

mod adam;
mod clip;
mod device_params;
mod schedule;
mod sgd;

use rayon::prelude::*;

pub(crate) use device_params::UPDATE;

pub use adam::{Adam, AdamSettings, Decay};
pub use clip::clip_norm;
pub use device_params::DeviceParams;
pub use schedule::RateSchedule;
pub use sgd::{Sgd, SgdSettings};

use crate::error::{Error, Result};

/// What an optimiser remembers from step to step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Steps done.
    pub steps: u64,
    /// Buffers, each as long as the parameter it belongs to; which ones there are is up to the optimiser.
    pub buffers: Vec<Vec<f32>>,
}

/// Changes parameters by their gradients.
pub trait Optimiser: Send {
    /// Does one step at the given learning rate. A parameter whose gradient is empty stays as it is.
    fn step(&mut self, parameters: &mut [Vec<f32>], gradients: &[&[f32]], rate: f32) -> Result<()>;

    /// [`Optimiser::step`] for parameters on a GPU, with their gradient multiplied by a factor first.
    fn step_on(&mut self, away: &DeviceParams, factor: f32, rate: f32) -> Result<()>;

    /// How many numbers it remembers of each parameter.
    fn copies(&self) -> usize;

    /// What it remembers, to be saved.
    fn state(&self) -> &State;

    /// Goes on from what was saved.
    fn restore(&mut self, state: State);
}

/// Numbers that one thread changes at a time; parameters shorter than this are not worth sharing.
const PIECE: usize = 16 * 1024;

/// Fails unless there is a gradient for every parameter and the buffers fit; makes buffers of zeros before
/// the first step.
fn prepare(state: &mut State, copies: usize, parameters: &[Vec<f32>], gradients: &[&[f32]]) -> Result<()> {
    if parameters.len() != gradients.len() {
        let problem = format!("{} gradients were given for {} parameters", gradients.len(), parameters.len());
        return Err(Error::shape("optimiser", problem));
    }
    for (index, (parameter, gradient)) in parameters.iter().zip(gradients).enumerate() {
        if !gradient.is_empty() && gradient.len() != parameter.len() {
            let problem = format!(
                "the gradient of parameter {index} has {} numbers, expected {}",
                gradient.len(),
                parameter.len()
            );
            return Err(Error::shape("optimiser", problem));
        }
    }
    if state.buffers.is_empty() {
        let zeros = |_| parameters.iter().map(|parameter| vec![0.0; parameter.len()]);
        state.buffers = (0..copies).flat_map(zeros).collect();
    }
    let lengths = (0..copies).flat_map(|_| parameters.iter().map(Vec::len));
    if !state.buffers.iter().map(Vec::len).eq(lengths) {
        return Err(Error::shape("optimiser", "its state belongs to other parameters"));
    }
    state.steps += 1;
    Ok(())
}

/// Runs `update` over a parameter, its gradient and buffers, in pieces of a fixed length if they are long.
fn update_all<const N: usize>(
    parameter: &mut [f32],
    gradient: &[f32],
    buffers: [&mut [f32]; N],
    update: impl Fn(&mut [f32], &[f32], [&mut [f32]; N]) + Sync,
) {
    if parameter.len() <= PIECE {
        return update(parameter, gradient, buffers);
    }
    let mut buffers = buffers.map(|buffer| buffer.chunks_mut(PIECE));
    let rest =
        std::iter::from_fn(|| Some(buffers.each_mut().map(|chunks| chunks.next().unwrap_or_default())));
    let pieces: Vec<_> = parameter.chunks_mut(PIECE).zip(gradient.chunks(PIECE)).zip(rest).collect();
    pieces.into_par_iter().for_each(|((parameter, gradient), buffers)| update(parameter, gradient, buffers));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parameter long enough to be shared between threads, and a short one.
    fn problem() -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
        let numbers = |length: usize, salt: usize| {
            (0..length).map(|i| ((i * 7919 + salt) % 1000) as f32 / 500.0 - 1.0).collect::<Vec<f32>>()
        };
        (vec![numbers(3 * PIECE + 5, 1), numbers(3, 2)], vec![numbers(3 * PIECE + 5, 3), numbers(3, 4)])
    }

    fn all() -> Vec<Box<dyn Optimiser>> {
        let momentum = SgdSettings { momentum: 0.9, weight_decay: 0.01 };
        vec![
            Box::new(Sgd::new(SgdSettings::default())),
            Box::new(Sgd::new(momentum)),
            Box::new(Adam::new(AdamSettings::default())),
            Box::new(Adam::new(AdamSettings { decay: Decay::Decoupled(0.1), ..AdamSettings::default() })),
        ]
    }

    #[test]
    fn going_on_from_a_saved_state_is_the_same_for_any_thread_count() {
        for index in 0..all().len() {
            let run = |threads: usize, restart: bool| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let (mut parameters, gradients) = problem();
                    let mut optimiser = all().swap_remove(index);
                    for step in 0..4 {
                        if restart && step == 2 {
                            let state = optimiser.state().clone();
                            optimiser = all().swap_remove(index);
                            optimiser.restore(state);
                        }
                        let slices: Vec<&[f32]> = gradients.iter().map(Vec::as_slice).collect();
                        optimiser.step(&mut parameters, &slices, 0.01).unwrap();
                    }
                    parameters
                })
            };
            assert!(run(1, false) == run(5, true) && run(1, false) == run(2, false));
        }
    }

    #[test]
    fn wrong_lengths_are_refused_and_an_empty_gradient_changes_nothing() {
        for mut optimiser in all() {
            let mut parameters = vec![vec![1.0, 2.0], vec![3.0]];
            optimiser.step(&mut parameters, &[&[], &[1.0]], 0.1).unwrap();
            assert!(parameters[0] == [1.0, 2.0] && parameters[1][0] < 3.0);
            let error = optimiser.step(&mut parameters, &[&[1.0], &[1.0]], 0.1).unwrap_err().to_string();
            assert_eq!(error, "optimiser: the gradient of parameter 0 has 1 numbers, expected 2");
            assert!(optimiser.step(&mut parameters, &[&[]], 0.1).is_err());
            optimiser.restore(State { steps: 3, buffers: vec![vec![0.0; 7]] });
            assert!(optimiser.step(&mut parameters, &[&[], &[1.0]], 0.1).is_err());
        }
    }
}
