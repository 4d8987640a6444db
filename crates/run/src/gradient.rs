//! The gradient of an iteration: what windows add up to, over all workers, and what is decided with it.

use kymo_tensor::Numbers;

use crate::error::Result;
use crate::team::Team;

/// What one iteration came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Iteration {
    /// The sum of the losses of its windows.
    pub loss: f64,
    /// How many of them had one.
    pub losses: usize,
    /// Edges that were trained on, each counted at every step of every window.
    pub edges: f64,
    /// Whether somebody asked to stop.
    pub stop: bool,
}

/// Numbers behind the gradients: loss, windows with a loss, edges, wish to stop.
const FACTS: usize = 4;

/// Sums of gradients, one parameter after the other, and facts behind them: all that workers have to add up.
#[derive(Default)]
pub struct Gradient {
    values: Vec<f32>,
    starts: Vec<usize>,
}

impl Gradient {
    /// Zeros for parameters of these lengths.
    pub fn begin(&mut self, lengths: impl Iterator<Item = usize>) {
        self.starts.clear();
        self.starts.push(0);
        for length in lengths {
            self.starts.push(self.starts[self.starts.len() - 1] + length);
        }
        self.values.clear();
        self.values.resize(Gradient::numbers(self.end()), 0.0);
    }

    /// Where the gradients end.
    fn end(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Numbers that workers add up in an iteration, for so many parameters.
    pub fn numbers(parameters: usize) -> usize {
        parameters + FACTS
    }

    /// Whether no window has been added since it was begun.
    pub fn is_new(&mut self) -> bool {
        self.facts()[1] == 0.0
    }

    fn facts(&mut self) -> &mut [f32] {
        let at = self.values.len() - FACTS;
        &mut self.values[at..]
    }

    /// Adds the gradients of a window.
    ///
    /// An empty one says that nothing depends on the parameter there, which is the same as zeros: whether a worker finds that
    /// out must not decide whether the optimiser moves on.
    pub fn add(&mut self, gradients: &[Numbers]) {
        for (start, gradient) in self.starts.iter().zip(gradients) {
            let gradient = gradient.host();
            let sum = &mut self.values[*start..start + gradient.len()];
            sum.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
        }
    }

    /// Adds the loss of a window, or this worker's share of it. Where several share a window one of them `counts` it.
    pub fn add_loss(&mut self, loss: f32, counts: bool) {
        let facts = self.facts();
        facts[0] += loss;
        facts[1] += if counts { 1.0 } else { 0.0 };
    }

    /// Adds edges that were trained on, and whether to stop.
    pub fn add_facts(&mut self, edges: usize, stop: bool) {
        let facts = self.facts();
        facts[2] += edges as f32;
        facts[3] += if stop { 1.0 } else { 0.0 };
    }

    /// Adds up over all workers and takes the mean over the windows.
    pub fn mean(&mut self, team: &Team) -> Result<Iteration> {
        team.sum(&mut self.values)?;
        let &mut [loss, losses, edges, stop] = self.facts() else { return Ok(Iteration::default()) };
        if losses > 1.0 {
            let end = self.end();
            self.values[..end].iter_mut().for_each(|value| *value /= losses);
        }
        let (loss, losses) = (f64::from(loss), losses as usize);
        Ok(Iteration { loss, losses, edges: f64::from(edges), stop: stop > 0.0 })
    }

    /// The gradient of each parameter.
    pub fn slices(&mut self) -> Vec<&mut [f32]> {
        let mut rest = &mut self.values[..];
        let mut slices = Vec::with_capacity(self.starts.len());
        for range in self.starts.windows(2) {
            let (mine, others) = std::mem::take(&mut rest).split_at_mut(range[1] - range[0]);
            rest = others;
            slices.push(mine);
        }
        slices
    }
}
