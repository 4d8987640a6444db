//! The gradient of an iteration: what windows add up to, and what is decided with it.

use kymo_tensor::Numbers;

use crate::error::Result;

/// What one iteration came to, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Merged {
    /// The sum of the losses of its windows.
    pub loss: f64,
    /// How many of them had one.
    pub losses: usize,
    /// Edges that were trained on, each counted at every step of every window.
    pub edges: u64,
    /// Whether a worker was asked to stop.
    pub stop: bool,
}

/// Edges are counted in three numbers, so that a sum over thousands of workers is exact in `f32`.
const EDGE_BITS: u32 = 12;
const EDGE_PARTS: usize = 4;

/// Numbers behind the gradients: loss, windows with a loss, whether to stop, edges.
const FACTS: usize = 3 + EDGE_PARTS;

/// Sums of gradients, one parameter after the other, and facts behind them: all that workers have to add up.
#[derive(Default)]
pub struct GradientSum {
    values: Vec<f32>,
    starts: Vec<usize>,
}

impl GradientSum {
    /// Zeros for parameters of these lengths.
    pub fn begin(&mut self, lengths: impl Iterator<Item = usize>) {
        self.starts.clear();
        self.starts.push(0);
        for length in lengths {
            self.starts.push(self.end() + length);
        }
        self.values.clear();
        self.values.resize(GradientSum::length(self.end()), 0.0);
    }

    /// Where the gradients end.
    fn end(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Numbers that workers add up in an iteration, for this many parameters.
    pub fn length(parameters: usize) -> usize {
        parameters + FACTS
    }

    /// All numbers, to be added up over workers.
    pub fn numbers(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The numbers behind the gradients: a worker that follows its own gradient still agrees with others on
    /// these.
    pub fn facts(&mut self) -> &mut [f32] {
        let at = self.values.len().saturating_sub(FACTS);
        &mut self.values[at..]
    }

    /// Whether no window has been added since it was begun.
    pub fn is_new(&mut self) -> bool {
        self.facts().get(1).is_none_or(|&losses| losses == 0.0)
    }

    /// Adds the gradients of a window; fails where they are not in the memory of the host.
    ///
    /// An empty one says that nothing depends on the parameter there, which is the same as zeros: whether a
    /// worker finds that out must not decide whether the optimiser moves on.
    pub fn add(&mut self, gradients: &[Numbers]) -> Result<()> {
        for (start, gradient) in self.starts.iter().zip(gradients) {
            let gradient = gradient.host()?;
            let sum = &mut self.values[*start..start + gradient.len()];
            sum.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
        }
        Ok(())
    }

    /// Adds the sum of the losses of some windows, or this worker's share of it. Where several share a window
    /// one of them counts it.
    pub fn add_losses(&mut self, loss: f32, windows: usize) {
        let facts = self.facts();
        facts[0] += loss;
        facts[1] += windows as f32;
    }

    /// Multiplies gradients and losses, as if there were this many times the targets.
    pub fn scale(&mut self, factor: f32) {
        let end = self.end();
        self.values[..end].iter_mut().for_each(|value| *value *= factor);
        self.facts()[0] *= factor;
    }

    /// Adds edges that were trained on, and whether to stop.
    pub fn add_facts(&mut self, edges: u64, stop: bool) {
        let facts = self.facts();
        facts[2] += if stop { 1.0 } else { 0.0 };
        for (part, fact) in (0..).zip(&mut facts[3..]) {
            *fact += (edges >> (part * EDGE_BITS) & ((1 << EDGE_BITS) - 1)) as f32;
        }
    }

    /// Turns sums of gradients into their mean over the windows that were counted.
    pub fn mean(&mut self) -> Merged {
        let facts = self.facts();
        let (loss, losses, stop) = (f64::from(facts[0]), facts[1], facts[2] > 0.0);
        let part = |(part, &fact): (u32, &f32)| (fact as u64) << (part * EDGE_BITS);
        let edges = (0..).zip(&facts[3..]).map(part).sum();
        if losses > 1.0 {
            let end = self.end();
            self.values[..end].iter_mut().for_each(|value| *value /= losses);
        }
        Merged { loss, losses: losses as usize, edges, stop }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_become_means_over_windows_and_edges_are_exact() {
        let mut sum = GradientSum::default();
        sum.begin([2, 1].into_iter());
        assert!(sum.is_new());
        let host = |values: &[f32]| Numbers::Host(values.into());
        sum.add(&[host(&[2.0, 4.0]), Numbers::default()]).unwrap();
        sum.add(&[host(&[4.0, 0.0]), host(&[8.0])]).unwrap();
        sum.add_losses(1.5, 1);
        sum.add_losses(0.5, 1);
        // More edges than `f32` can count one by one.
        let edges = 180_000_000_123_457;
        sum.add_facts(edges, false);
        sum.add_facts(3, true);
        assert!(!sum.is_new());
        assert_eq!(sum.mean(), Merged { loss: 2.0, losses: 2, edges: edges + 3, stop: true });
        assert_eq!(sum.slices(), [&mut [3.0, 2.0][..], &mut [4.0][..]]);
        assert_eq!(sum.numbers().len(), GradientSum::length(3));
    }

    #[test]
    fn gradients_that_are_elsewhere_are_an_error() {
        let estimate = kymo_tensor::estimate::MemoryEstimate::new();
        let arena = kymo_tensor::Arena::estimating(estimate);
        let mut tape = kymo_tensor::Tape::new(&arena);
        let x = tape.filled(kymo_tensor::Shape::new(1, 2), 1.0);
        let elsewhere = tape.copy_of(x).unwrap();
        let mut sum = GradientSum::default();
        sum.begin([2].into_iter());
        assert!(
            sum.add(&[elsewhere]).unwrap_err().to_string().contains("expected in the memory of the host")
        );
    }
}
