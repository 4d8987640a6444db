//! The loop: windows, epochs, validation, checkpoints.

use std::time::Instant;

use kymo_trace::Kind;
use serde::Serialize;

use crate::clock::Work;
use crate::error::{Error, Result};
use crate::evaluate::{Evaluation, Metrics, evaluate, measure};
use crate::folder::{Folder, checkpoint, now};
use crate::frames::process_memory;
use crate::learner::Learner;
use crate::saved::{Best, Position, save};
use crate::scheduling::Scheduling;
use crate::settings::Mode;
use crate::split::Part;
use crate::task;
use crate::teamwork::Teamwork;
use crate::turns::turns;

/// Whoever looks on while a model is trained.
pub trait Watch: Send {
    /// A window was trained on.
    fn window(&mut self, progress: &Progress);

    /// An epoch is over.
    fn epoch(&mut self, line: &Line);

    /// Whether to stop at the next window.
    fn stop(&self) -> bool;

    /// Something that is neither an epoch nor an error was found out.
    fn note(&mut self, _: &str) {}
}

/// Where training is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// Epochs at most.
    pub epochs: usize,
    /// Windows of the epoch that are done.
    pub window: usize,
    /// Windows of an epoch.
    pub windows: usize,
    /// The mean loss of the epoch so far.
    pub loss: f64,
    /// Edges that were trained on per second, each counted at every step of every window.
    pub edges_per_second: f64,
}

/// What is logged of an epoch.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// The mean loss over its windows.
    pub loss: f64,
    /// The learning rate after it.
    pub learning_rate: f32,
    /// The metrics of the validation.
    pub validation: Metrics,
    /// Whether it is the best so far.
    pub best: bool,
    /// How long it took.
    pub seconds: f64,
    /// Edges that were trained on per second.
    pub edges_per_second: f64,
    /// Bytes that the process held.
    pub memory: usize,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The model.
    pub model: String,
    /// Numbers that were learnt.
    pub parameters: usize,
    /// Epochs done.
    pub epochs: usize,
    /// The epoch whose parameters are kept.
    pub best_epoch: usize,
    /// The metrics of the validation with those parameters.
    pub validation: Metrics,
    /// The test.
    pub test: Evaluation,
    /// Seconds spent on each kind of work.
    pub seconds: Vec<(&'static str, f64)>,
    /// The share of everything around the kernels.
    pub overhead: f64,
    /// The most bytes that the process held.
    pub memory: usize,
    /// The most bytes that were taken of a GPU, where there is one.
    pub device_memory: Option<usize>,
    /// What each worker did, where there are several.
    pub workers: Option<Teamwork>,
}

/// How a run ended.
pub enum Ending {
    /// It came to its end.
    Finished(Box<Summary>),
    /// It was asked to stop, and can go on from its checkpoint.
    Stopped,
}

/// Trains until the last epoch, until validation stops getting better, or until asked to stop.
///
/// Every worker goes through this loop and comes to the same decisions. The first one has the folder, to which everything is
/// written, and is the one who is watched.
pub fn train(
    learner: &mut Learner,
    mut position: Position,
    mut best: Best,
    folder: &mut Option<Folder>,
    watch: &mut dyn Watch,
) -> Result<Ending> {
    let settings = learner.settings().clone();
    let deciding = task::metrics_of(&settings)?[0];
    let (epochs, patience) = (settings.train.epochs, settings.train.patience);
    let mut stop = false;
    let mut scheduling = Scheduling::begin(learner, &position, watch)?;
    while position.epoch < epochs && !position.finished {
        let turns = turns(&learner.shared, position.epoch, learner.scheduled.as_ref());
        let windows = turns.iter().map(Vec::len).sum();
        let mut pace = Pace::begin();
        let mut passed = 0;
        for iteration in &turns {
            let end = passed + iteration.len();
            if end <= position.window {
                passed = end;
                continue;
            }
            if stop || learner.team.size() == 1 && watch.stop() {
                write_checkpoint(learner, &position, &best, folder)?;
                return Ok(Ending::Stopped);
            }
            if settings.train.mode == Mode::Truncated && position.window == 0 {
                learner.carried = None;
            }
            // Who watches the first worker is heard by all after the same iteration.
            let done = learner.iterate(iteration, watch.stop())?;
            stop = done.stop;
            position.loss += done.loss;
            position.losses += done.losses;
            pace.edges += done.edges;
            let every = settings.run.checkpoint_windows;
            let due = every > 0 && passed / every < end / every && end < windows;
            (passed, position.window) = (end, end);
            let progress = progress(&position, epochs, windows, &pace);
            learner.clock.time(Work::Log, || watch.window(&progress));
            if due {
                write_checkpoint(learner, &position, &best, folder)?;
            }
        }
        learner.bring_home()?;
        let trained = pace.seconds();
        scheduling.after_epoch(learner, trained, position.epoch + 1, folder, watch)?;
        let validation = measure(learner, Part::Validation)?;
        check_finite(&validation, position.epoch + 1)?;
        let reached = validation.get(deciding.name()).copied();
        // Where there is nothing to judge, the last epoch is as good as any.
        let better = position.best_epoch == 0
            || reached.is_none_or(|value| is_better(value, position.best, deciding.higher_is_better()));
        position.epoch += 1;
        if better {
            (position.best_epoch, position.best) = (position.epoch, reached);
            best = Some(learner.params.values.clone());
        }
        let line = Line {
            epoch: position.epoch,
            loss: position.loss / position.losses.max(1) as f64,
            learning_rate: learner.rate(),
            validation,
            best: better,
            seconds: pace.seconds(),
            edges_per_second: pace.edges / trained.max(1e-9),
            memory: process_memory().map_or(0, |(now, _)| now),
        };
        position = Position { window: 0, loss: 0.0, losses: 0, lines: position.lines + 1, ..position };
        position.finished = patience > 0 && position.epoch - position.best_epoch >= patience;
        let begun = Instant::now();
        if let Some(folder) = folder {
            record(folder, &line)?;
        }
        watch.epoch(&line);
        learner.clock.add(Work::Log, begun.elapsed());
        if position.epoch.is_multiple_of(settings.run.checkpoint_epochs)
            || position.epoch == epochs
            || position.finished
        {
            write_checkpoint(learner, &position, &best, folder)?;
        }
    }
    finish(learner, &position, best, folder)
}

/// Fails where the last step of an epoch went astray, which no loss tells: such parameters are not worth a checkpoint.
fn check_finite(validation: &Metrics, epoch: usize) -> Result<()> {
    match validation.iter().find(|(_, value)| !value.is_finite()) {
        None => Ok(()),
        Some((name, value)) => Err(Error::Diverged(format!(
            "the {name} of the validation became {value} after epoch {epoch}; the last checkpoint is that of before. Lower \
             train.learning_rate, set train.clip, or look for extreme values in the data"
        ))),
    }
}

/// Whether a validation beats the best so far.
fn is_better(value: f64, best: Option<f64>, higher: bool) -> bool {
    best.is_none_or(|best| if higher { value > best } else { value < best })
}

struct Pace {
    begun: Instant,
    edges: f64,
}

impl Pace {
    fn begin() -> Pace {
        Pace { begun: Instant::now(), edges: 0.0 }
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}

fn progress(position: &Position, epochs: usize, windows: usize, pace: &Pace) -> Progress {
    Progress {
        epoch: position.epoch + 1,
        epochs,
        window: position.window,
        windows,
        loss: position.loss / position.losses.max(1) as f64,
        edges_per_second: pace.edges / pace.seconds().max(1e-9),
    }
}

fn write_checkpoint(
    learner: &mut Learner,
    position: &Position,
    best: &Best,
    folder: &Option<Folder>,
) -> Result<()> {
    let begun = Instant::now();
    learner.bring_home()?;
    learner.gather_carried()?;
    if let Some(folder) = folder {
        save(learner, position, best, &checkpoint(folder.path()))?;
        learner.team.recorder.record(Kind::Checkpoint, "checkpoint", begun, 0);
    }
    learner.clock.add(Work::Checkpoint, begun.elapsed());
    Ok(())
}

fn record(folder: &mut Folder, line: &Line) -> Result<()> {
    folder.log.append(line)?;
    let (step, now) = (line.epoch as i64, now());
    folder.events.scalar("loss/train", step, line.loss as f32, now)?;
    folder.events.scalar("learning_rate", step, line.learning_rate, now)?;
    folder.events.scalar("edges_per_second", step, line.edges_per_second as f32, now)?;
    for (name, &value) in &line.validation {
        folder.events.scalar(&format!("{name}/validation"), step, value as f32, now)?;
    }
    Ok(folder.events.flush()?)
}

/// The test with the best parameters; the last ones stay in the checkpoint.
fn finish(
    learner: &mut Learner,
    position: &Position,
    best: Best,
    folder: &mut Option<Folder>,
) -> Result<Ending> {
    let clock = learner.clock.clone();
    let last = best.map(|best| std::mem::replace(&mut learner.params.values, best));
    let validation = measure(learner, Part::Validation)?;
    let test = evaluate(learner, Part::Test)?;
    if let Some(last) = last {
        learner.params.values = last;
    }
    if let Some(folder) = folder {
        for (name, &value) in &test.metrics {
            folder.events.scalar(&format!("{name}/test"), position.epoch as i64, value as f32, now())?;
        }
        folder.events.flush()?;
    }
    let summary = Summary {
        model: learner.settings().model.name.clone(),
        parameters: learner.parameters(),
        epochs: position.epoch,
        best_epoch: position.best_epoch,
        validation,
        test,
        seconds: Work::ALL.map(|work| (work.name(), clock.spent(work).as_secs_f64())).to_vec(),
        overhead: clock.overhead(),
        memory: process_memory().map_or(0, |(_, most)| most),
        device_memory: learner.device().map(|device| device.bytes().1),
        workers: None,
    };
    Ok(Ending::Finished(Box::new(summary)))
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
