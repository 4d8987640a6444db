//! What a model outputs at samples, brought together at the first worker.

use std::ops::Range;

use kymo_graph::Step;
use kymo_plan::evaluator;

use crate::error::Result;
use crate::forward::RecurrentState;
use crate::step::Worker;

/// The window whose last step is a sample.
fn window(sample: Step, length: usize) -> Range<Step> {
    (sample + 1).saturating_sub(length)..sample + 1
}

/// The windows that this worker goes through for the outputs at samples, in order.
pub fn windows(worker: &Worker, samples: Range<Step>) -> Vec<Range<Step>> {
    let shares_windows = worker.cells().is_some();
    if worker.context.goes_through() {
        let is_here = shares_windows || worker.group.leads();
        return (0..samples.end).filter(|_| is_here).map(|step| step..step + 1).collect();
    }
    let (length, rank, size) = (worker.context.window, worker.group.rank(), worker.group.size());
    let mine = samples.filter(|&sample| shares_windows || evaluator(sample, size) == rank);
    mine.map(|sample| window(sample, length)).collect()
}

/// What the model outputs at each of the samples, in order; `each` is called at the first worker.
pub fn outputs(
    worker: &mut Worker,
    samples: Range<Step>,
    each: impl FnMut(&mut Worker, Step, Vec<f32>) -> Result<()>,
) -> Result<()> {
    at_samples(worker, samples, Worker::evaluate, each)
}

/// The embeddings of all vertices at each of the samples, in the same way.
pub fn embeddings(
    worker: &mut Worker,
    samples: Range<Step>,
    each: impl FnMut(&mut Worker, Step, Vec<f32>) -> Result<()>,
) -> Result<()> {
    at_samples(worker, samples, Worker::embed, each)
}

/// Reads something of the last step of a window.
type ReadLast =
    fn(&mut Worker, Range<Step>, Option<&RecurrentState>, bool) -> Result<(Vec<f32>, Option<RecurrentState>)>;

fn at_samples(
    worker: &mut Worker,
    samples: Range<Step>,
    read: ReadLast,
    mut each: impl FnMut(&mut Worker, Step, Vec<f32>) -> Result<()>,
) -> Result<()> {
    let shares_windows = worker.cells().is_some();
    let progress = worker.progress.clone();
    worker.snapshots().look_ahead(windows(worker, samples.clone()));
    if !worker.context.goes_through() {
        let (length, size) = (worker.context.window, worker.group.size());
        progress.announce(samples.len() as u64);
        for sample in samples {
            progress.check()?;
            let (window, by) = (window(sample, length), evaluator(sample, size));
            let outputs = match shares_windows || by == worker.group.rank() {
                true => read(worker, window.clone(), None, false)?.0,
                false => Vec::new(),
            };
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
    for step in 0..samples.end {
        progress.check()?;
        let (outputs, after) = read(worker, step..step + 1, state.as_ref(), true)?;
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
