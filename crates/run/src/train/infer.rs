//! What a model outputs at samples, brought together at the first worker.

use std::collections::VecDeque;
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

/// How many samples in a row are one worker's: as many windows as it runs together, which have most of their
/// steps in common.
fn run_length(worker: &Worker) -> usize {
    match worker.cells() {
        Some(_) => 1,
        None => worker.context.together[0],
    }
}

/// The worker that evaluates a sample, and the windows of the samples that it runs together with it, from
/// this one on.
fn turn(worker: &Worker, sample: Step, samples: &Range<Step>) -> (usize, Vec<Range<Step>>) {
    let (length, span) = (worker.context.window, worker.context.span());
    let run = run_length(worker);
    let end = (sample / run * run).saturating_add(run).min(samples.end);
    let first = window(sample, length);
    let fits = |window: &Range<Step>| window.start < window.end && window.end - first.start <= span;
    let windows = (sample..end).map(|sample| window(sample, length)).take_while(fits).collect();
    (evaluator(sample, worker.group.size(), run), windows)
}

/// The windows that this worker goes through for the outputs at samples, in order.
pub fn windows(worker: &Worker, samples: Range<Step>) -> Vec<Range<Step>> {
    let shares_windows = worker.cells().is_some();
    if worker.context.goes_through() {
        let is_here = shares_windows || worker.group.leads();
        return (0..samples.end).filter(|_| is_here).map(|step| step..step + 1).collect();
    }
    let (length, rank, size) = (worker.context.window, worker.group.rank(), worker.group.size());
    let run = run_length(worker);
    let mine = samples.filter(|&sample| shares_windows || evaluator(sample, size, run) == rank);
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

/// Reads something of the last step of each of some windows.
type ReadLast = fn(
    &mut Worker,
    &[Range<Step>],
    Option<&RecurrentState>,
    bool,
) -> Result<(Vec<Vec<f32>>, Option<RecurrentState>)>;

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
        progress.announce(samples.len() as u64);
        let mut ready = VecDeque::new();
        for sample in samples.clone() {
            progress.check()?;
            let (by, together) = turn(worker, sample, &samples);
            if ready.is_empty() && (shares_windows || by == worker.group.rank()) {
                ready.extend(read(worker, &together, None, false)?.0);
            }
            let outputs = match shares_windows || by == worker.group.rank() {
                true => ready.pop_front().unwrap_or_default(),
                false => Vec::new(),
            };
            let window = window(sample, worker.context.window);
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
        let window = step..step + 1;
        let (mut outputs, after) = read(worker, std::slice::from_ref(&window), state.as_ref(), true)?;
        state = after;
        let outputs = outputs.pop().unwrap_or_default();
        if samples.contains(&step)
            && let Some(outputs) = gathered(worker, &window, outputs, 0)?
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
