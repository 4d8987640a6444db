//! The training loop. Every worker goes through it and comes to the same decisions; the first one has the
//! folder, to which everything is written, and the observer.
//!
//! An epoch is planned, its iterations are run one after the other, the validation decides whether it was the
//! best so far, and the run is saved. What an iteration does is in [`crate::step`].

use std::time::Instant;

use kymo_plan::EpochPlan;
use kymo_trace::Kind;
use kymo_trace::schema::{EpochRecord, RunSummary};

use super::evaluate::{check_finite, measure};
use super::finish::finish;
use super::infer::windows;
use super::meeting::{Met, learnt};
use super::observer::{Observer, Pace};
use crate::artifact::{Course, Folder};
use crate::config::bytes::process_memory;
use crate::data::Part;
use crate::error::Result;
use crate::halo::Stale;
use crate::replica::optimiser::Rates;
use crate::schedule::{Controller, Division};
use crate::step::Worker;
use crate::workers::Work;

/// How a run ended.
pub enum Ending {
    /// It came to its end.
    Finished(Box<RunSummary>),
    /// It was asked to stop, and can go on from its checkpoint.
    Stopped,
}

/// Trains until the last epoch, until validation stops getting better, or until asked to stop.
pub fn train(
    worker: &mut Worker,
    division: &Division,
    mut course: Course,
    folder: &mut Option<Folder>,
    observer: &mut dyn Observer,
) -> Result<Ending> {
    let settings = worker.settings().clone();
    let deciding = worker.context.deciding();
    let (epochs, patience) = (settings.train.epochs, settings.train.patience);
    let begins_at = (course.position.epoch, course.position.epoch + course.position.window == 0);
    let known = (course.schedule.take(), course.profile.take());
    let files = folder.as_ref().map(Folder::files);
    let mut controller =
        Controller::begin(worker, division, begins_at, known, files, &mut |note| observer.note(note))?;
    worker.stale().and_then(Stale::note).iter().for_each(|note| observer.note(note));
    let rates = Rates::new(&settings, controller.usual_iterations(worker));
    let mut stop = false;
    while course.position.epoch < epochs && !course.position.finished {
        let epoch = course.position.epoch;
        // An epoch that was interrupted goes on with the plan it was begun with.
        let plan = course.plan.take().unwrap_or_else(|| controller.plan(epoch));
        plan.check(&controller.epochs().windows, worker.group.size())?;
        course.schedule = controller.schedule().cloned();
        let count = plan.windows();
        let mut pace = Pace::begin();
        let mut met = Met::at(&course.position);
        worker.go_on(epoch, course.position.window)?;
        worker.begin_epoch(epoch, course.position.window == 0);
        let mut passed = 0;
        let mut after = windows(worker, worker.split().samples(Part::Validation));
        // The test needs its steps in the end; where they stay, there is time to read them now.
        if worker.snapshots().holds_all() {
            after.extend(windows(worker, worker.split().samples(Part::Test)));
        }
        worker.look_ahead(&plan.iterations, after);
        for (number, iteration) in plan.iterations.iter().enumerate() {
            let size = iteration.windows().len();
            let end = passed + size;
            if end <= course.position.window {
                passed = end;
                continue;
            }
            if stop || worker.group.size() == 1 && observer.stop() {
                course.plan = Some(plan.clone());
                course.profile = controller.measurements(worker, pace.seconds())?;
                save(worker, &course, folder)?;
                controller.end(worker);
                return Ok(Ending::Stopped);
            }
            let rate = rates.rate(epoch, number, plan.iterations.len())
                * settings.rate_factor(learnt(worker, iteration));
            // The wish of the first worker's observer reaches all workers after the same iteration.
            let done = worker.iterate(iteration, rate, observer.stop())?;
            stop = done.stop;
            course.position.loss += done.loss;
            course.position.losses += done.losses;
            pace.edges += done.edges as f64;
            let every = settings.run.checkpoint_windows;
            let due = every > 0 && passed / every < end / every && end < count;
            (passed, course.position.window) = (end, end);
            let progress = pace.progress(&course.position, epochs, count);
            worker.clock.time(Work::Log, || observer.progress(&progress));
            if due {
                stop |= met.meet(worker, (epoch, end), &mut course, &mut pace, folder)?;
                worker.go_on(epoch, end)?;
                course.plan = Some(plan.clone());
                course.profile = controller.measurements(worker, pace.seconds())?;
                save(worker, &course, folder)?;
                course.plan = None;
            }
        }
        stop |= met.meet(worker, (epoch, count), &mut course, &mut pace, folder)?;
        worker.replica.bring_home()?;
        let trained = pace.seconds();
        let written = folder.as_ref().map(Folder::files);
        controller.after_epoch(worker, trained, epoch + 1, written, &mut |note| observer.note(note))?;
        course.schedule = controller.schedule().cloned();
        let validation = measure(worker, Part::Validation)?;
        check_finite(&validation, Part::Validation, &format!("epoch {}", epoch + 1))?;
        let reached = validation.get(deciding.name()).copied();
        let loss = course.position.loss / course.position.losses.max(1) as f64;
        let stale = worker.end_epoch(loss)?;
        let position = &mut course.position;
        // Where there is nothing to judge, the last epoch is as good as any.
        let better = position.best_epoch == 0
            || reached.is_none_or(|value| is_better(value, position.best, deciding.higher_is_better()));
        position.epoch += 1;
        if better {
            (position.best_epoch, position.best) = (position.epoch, reached);
            course.best = Some(worker.replica.params.values.clone());
        }
        let record = EpochRecord {
            version: EpochRecord::VERSION,
            epoch: position.epoch,
            loss,
            learning_rate: rates.rate(epoch + 1, 0, 1) * settings.rate_factor(usual_size(worker, &plan)),
            validation,
            best: better,
            seconds: pace.seconds(),
            edges_per_second: pace.edges / trained.max(1e-9),
            memory: process_memory().map_or(0, |(now, _)| now as u64),
            stale,
        };
        (position.window, position.loss, position.losses, position.lines) = (0, 0.0, 0, position.lines + 1);
        position.finished = patience > 0 && position.epoch - position.best_epoch >= patience;
        let begun = Instant::now();
        if let Some(folder) = folder {
            folder.record(&record)?;
        }
        observer.epoch(&record);
        worker.clock.add(Work::Log, begun.elapsed());
        let position = &course.position;
        let due = position.epoch.is_multiple_of(settings.run.checkpoint_epochs);
        if due || position.epoch == epochs || position.finished {
            course.profile = controller.measurements(worker, 0.0)?;
            save(worker, &course, folder)?;
        }
    }
    controller.end(worker);
    let costs = controller.costs(worker);
    finish(worker, course, costs, folder)
}

/// Windows whose gradients make a step, in all iterations but perhaps the last, which may have fewer left.
fn usual_size(worker: &Worker, plan: &EpochPlan) -> usize {
    plan.iterations.first().map_or(1, |iteration| learnt(worker, iteration))
}

/// Whether a validation beats the best so far.
fn is_better(value: f64, best: Option<f64>, higher: bool) -> bool {
    best.is_none_or(|best| if higher { value > best } else { value < best })
}

/// Writes a checkpoint. All workers come here together: each has a part of the state that is saved.
fn save(worker: &mut Worker, course: &Course, folder: &Option<Folder>) -> Result<()> {
    let begun = Instant::now();
    worker.replica.bring_home()?;
    worker.gather_state()?;
    if let Some(folder) = folder {
        course.save(worker, &folder.checkpoint())?;
        worker.group.recorder.record(Kind::Checkpoint, "checkpoint", begun, 0);
    }
    worker.kept = None;
    worker.clock.add(Work::Checkpoint, begun.elapsed());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_is_higher_or_lower_as_the_metric_says() {
        for higher in [false, true] {
            assert!(is_better(7.0, None, higher));
            assert!(!is_better(7.0, Some(7.0), higher), "the first of equals is kept");
            assert_eq!(is_better(8.0, Some(7.0), higher), higher);
            assert_eq!(is_better(6.0, Some(7.0), higher), !higher);
        }
    }
}
