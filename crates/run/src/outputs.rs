//! What a model says at samples, brought together at the first worker.

use std::ops::Range;

use kymo_graph::Step;

use crate::carried::Carried;
use crate::error::Result;
use crate::learner::Learner;

impl Learner {
    /// What the model says at each of the samples, in order; `each` is told at the first worker.
    pub fn outputs(
        &mut self,
        samples: Range<Step>,
        mut each: impl FnMut(&mut Learner, Step, Vec<f32>) -> Result<()>,
    ) -> Result<()> {
        if !self.shared.goes_through() {
            let length = self.shared.window;
            for sample in samples {
                let window = (sample + 1).saturating_sub(length)..sample + 1;
                let by = sample % self.team.size();
                let mine = self.cells.is_some() || by == self.team.rank();
                let outputs = if mine { self.look(window.clone(), None, false)?.0 } else { Vec::new() };
                if let Some(outputs) = self.told(&window, outputs, by)? {
                    each(self, sample, outputs)?;
                }
            }
            return Ok(());
        }
        if self.cells.is_none() && !self.team.leads() {
            return Ok(());
        }
        let mut carried: Option<Carried> = None;
        for step in 0..samples.end {
            let (outputs, after) = self.look(step..step + 1, carried.as_ref(), true)?;
            carried = after;
            if samples.contains(&step)
                && let Some(outputs) = self.told(&(step..step + 1), outputs, 0)?
            {
                each(self, step, outputs)?;
            }
        }
        Ok(())
    }

    /// The outputs of all vertices, at the first worker: those of worker `by`, or with cells the rows of all.
    fn told(&self, window: &Range<Step>, outputs: Vec<f32>, by: usize) -> Result<Option<Vec<f32>>> {
        let Some(cells) = &self.cells else {
            return Ok(match self.team.leads() {
                true if by == 0 => Some(outputs),
                true => Some(self.team.reported(by)?),
                false if by == self.team.rank() => {
                    self.team.report(outputs)?;
                    None
                }
                false => None,
            });
        };
        if !self.team.leads() {
            self.team.report(outputs)?;
            return Ok(None);
        }
        let parts = (1..self.team.size()).map(|worker| self.team.reported(worker));
        let parts: Vec<Vec<f32>> = std::iter::once(Ok(outputs)).chain(parts).collect::<Result<_>>()?;
        Ok(Some(cells.whole(&cells.shares.rows(window, window.end - 1), &parts)))
    }
}
