//! What a model outputs at samples, brought together at the first worker.

use std::ops::Range;

use kymo_graph::Step;
use kymo_plan::evaluator;

use crate::error::Result;
use crate::forward::RecurrentState;
use crate::step::Worker;

/// What the model outputs at each of the samples, in order; `each` is called at the first worker.
pub fn outputs(
    worker: &mut Worker,
    samples: Range<Step>,
    mut each: impl FnMut(&mut Worker, Step, Vec<f32>) -> Result<()>,
) -> Result<()> {
    let shares_windows = worker.cells().is_some();
    let progress = worker.progress.clone();
    if !worker.context.goes_through() {
        let length = worker.context.window;
        progress.announce(samples.len() as u64);
        let window = |sample: Step| (sample + 1).saturating_sub(length)..sample + 1;
        let (rank, size) = (worker.group.rank(), worker.group.size());
        let is_mine = |sample: Step| shares_windows || evaluator(sample, size) == rank;
        worker
            .snapshots()
            .look_ahead(samples.clone().filter(|&sample| is_mine(sample)).map(window).collect());
        for sample in samples {
            progress.check()?;
            let (window, by) = (window(sample), evaluator(sample, size));
            let outputs =
                if is_mine(sample) { worker.evaluate(window.clone(), None, false)?.0 } else { Vec::new() };
            if let Some(outputs) = gathered(worker, &window, outputs, by)? {
                each(worker, sample, outputs)?;
            }
            progress.advance(1);
        }
        return Ok(());
    }
    if !shares_windows && !worker.group.leads() {
        return Ok(());
    }
    let mut state: Option<RecurrentState> = None;
    progress.announce(samples.end as u64);
    worker.snapshots().look_ahead((0..samples.end).map(|step| step..step + 1).collect());
    for step in 0..samples.end {
        progress.check()?;
        let (outputs, after) = worker.evaluate(step..step + 1, state.as_ref(), true)?;
        state = after;
        if samples.contains(&step)
            && let Some(outputs) = gathered(worker, &(step..step + 1), outputs, 0)?
        {
            each(worker, step, outputs)?;
        }
        progress.advance(1);
    }
    Ok(())
}

/// The outputs of all vertices, at the first worker: those of worker `by`, or the rows of all where windows
/// are shared.
fn gathered(worker: &Worker, window: &Range<Step>, outputs: Vec<f32>, by: usize) -> Result<Option<Vec<f32>>> {
    let group = &worker.group;
    let Some(cells) = worker.cells() else {
        return Ok(match group.leads() {
            true if by == 0 => Some(outputs),
            true => Some(group.reported(by)?),
            false if by == group.rank() => {
                group.report(outputs)?;
                None
            }
            false => None,
        });
    };
    if !group.leads() {
        group.report(outputs)?;
        return Ok(None);
    }
    let parts = (1..group.size()).map(|rank| group.reported(rank));
    let parts: Vec<Vec<f32>> = std::iter::once(Ok(outputs)).chain(parts).collect::<Result<_>>()?;
    Ok(Some(cells.whole(&cells.shares.rows(window, window.end - 1), &parts)))
}
