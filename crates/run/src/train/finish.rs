//! The end of a run: the test, and what is written of it all.

use kymo_trace::schema::RunSummary;

use super::evaluate::{check_finite, evaluate_epoch, measure};
use super::training_loop::Ending;
use crate::artifact::{Course, Folder};
use crate::config::bytes::process_memory;
use crate::data::Part;
use crate::error::Result;
use crate::step::Worker;
use crate::workers::Work;

/// The test with the best parameters; the last ones stay in the checkpoint.
/// `costs` says what windows were scheduled by, if they were.
pub(super) fn finish(
    worker: &mut Worker,
    course: Course,
    costs: Option<String>,
    folder: &mut Option<Folder>,
) -> Result<Ending> {
    let Course { position, best, .. } = course;
    let clock = worker.clock.clone();
    let last = best.map(|best| std::mem::replace(&mut worker.replica.params.values, best));
    let epoch = format!("epoch {}", position.best_epoch);
    let validation = measure(worker, Part::Validation)?;
    check_finite(&validation, Part::Validation, &epoch)?;
    let test = evaluate_epoch(worker, Part::Test, &epoch)?;
    if let Some(last) = last {
        worker.replica.params.values = last;
    }
    if let Some(folder) = folder {
        folder.record_test(position.epoch, &test.metrics)?;
    }
    let seconds = Work::ALL.map(|work| (work.name().to_owned(), clock.spent(work).as_secs_f64()));
    let summary = RunSummary {
        version: RunSummary::VERSION,
        model: worker.settings().model.name.clone(),
        parameters: worker.parameters(),
        epochs: position.epoch,
        best_epoch: position.best_epoch,
        validation,
        test,
        costs,
        seconds: seconds.to_vec(),
        overhead: clock.overhead(),
        memory: process_memory().map_or(0, |(_, most)| most as u64),
        device_memory: worker.device().map(|device| device.bytes().1 as u64),
        snapshots: Some(worker.snapshots_held()),
        workers: None,
    };
    Ok(Ending::Finished(Box::new(summary)))
}
