//! What is told of schedules: to other workers, to the user, and in the folder of the run.

use kymo_plan::schedule::{Instance, Schedule, Scheduled};
use kymo_plan::{Assignment, Epochs};
use kymo_trace::schema::ScheduleRecord;

use super::contention;
use super::controller::Tell;
use super::profile::rounded;
use crate::error::{Error, Result};
use crate::step::{WindowTimes, Worker};

/// What is known of a schedule by these costs, followed once `epoch` epochs are done, as it is written into
/// the folder.
pub(super) fn record(
    worker: &Worker,
    found: &Scheduled,
    instance: &Instance,
    epoch: usize,
) -> ScheduleRecord {
    let (parallel, iterations) = (&worker.settings().parallel, &found.schedule.iterations);
    ScheduleRecord {
        version: ScheduleRecord::VERSION,
        strategy: parallel.strategy.clone(),
        by: found.by.to_owned(),
        note: found.note.clone(),
        epoch: Some(epoch),
        seconds: found.seconds,
        predicted: contention::epoch(iterations, instance, at_once()),
        calibration: None,
        bound: found.bound,
        gap: found.gap(),
        optimiser_steps: found.schedule.optimiser_steps(),
        milliseconds: found.took.as_secs_f64() * 1e3,
        iterations: iterations.clone(),
    }
}

/// Says what the first epochs are for.
pub(super) fn announce(scheduler: &str, settings: &crate::Settings, epochs: &Epochs, tell: &mut Tell<'_>) {
    let (measured, all) = (settings.parallel.profile_epochs, settings.train.epochs);
    let how = match epochs.assignment {
        Assignment::Scheduled(_) => "by earlier costs",
        _ => "in turns, like psg",
    };
    match all > measured {
        true => tell(&format!(
            "{scheduler}: the first {measured} epochs are measured and assign windows {how}; the schedule is \
             made of that"
        )),
        false => tell(&format!(
            "{scheduler} makes no schedule in this run: all {all} epochs are measured and assign windows \
             {how}; train for \
             more epochs, or lower parallel.profile_epochs (now {measured})"
        )),
    }
}

/// What was measured, as workers tell it.
pub(super) fn times_to_text(measured: &[WindowTimes]) -> Result<Vec<u8>> {
    serde_json::to_vec(measured)
        .map_err(|error| Error::Bug(format!("what was measured cannot be told to others: {error}")))
}

/// What the worker of this rank has told of what it measured.
pub(super) fn times_from_text(rank: usize, text: &[u8]) -> Result<Vec<WindowTimes>> {
    let told: Vec<WindowTimes> = serde_json::from_slice(text)
        .map_err(|error| Error::peer(rank, format!("did not send what it measured: {error}")))?;
    Ok(told.into_iter().map(rounded).collect())
}

/// A schedule, as the first worker tells it.
pub(super) fn to_text(schedule: &Schedule) -> Result<Vec<u8>> {
    serde_json::to_vec(&schedule.iterations)
        .map_err(|error| Error::Bug(format!("a schedule cannot be told to others: {error}")))
}

/// The schedule that the first worker has told.
pub(super) fn from_text(text: &[u8]) -> Result<Schedule> {
    let iterations = serde_json::from_slice(text)
        .map_err(|error| Error::peer(0, format!("sent something that is no schedule: {error}")))?;
    Ok(Schedule { iterations })
}

/// How many workers with the threads of this one have a core for each of them.
fn at_once() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores as f64 / rayon::current_num_threads().max(1) as f64
}
