//! From what windows cost to who trains them: measured for some epochs, scheduled by the first worker, told
//! to all.
//!
//! REAL 5.4: training begins in turns (cold start), goes on while it is measured, and changes to the schedule
//! at the end of an epoch. A scheduler gets twice the time of an epoch at most. The schedule is part of the
//! checkpoint: what is resumed goes on with it. With `parallel.cached_costs` the first epochs follow a linear
//! model of the costs of earlier runs on this machine instead of going in turns; what is measured takes its
//! place as before.

use std::time::{Duration, Instant};

use kymo_plan::schedule::{Limit, Schedule, Scheduled, find};
use kymo_plan::{Assignment, EpochPlan, Epochs};
use kymo_trace::Kind;
use kymo_trace::schema::{RunFolder, ScheduleRecord};

use super::contention;
use super::cost_cache::{self, CachedCosts, Key, STALE};
use super::profile::Profile;
use super::strategy::{Division, ask};
use crate::error::{Error, Result};
use crate::step::WindowTimes;
use crate::step::Worker;

/// The most seconds that a scheduler may take, however long an epoch takes.
const LONGEST: f64 = 60.0;

/// Something worth telling the user.
pub type Tell<'t> = dyn FnMut(&str) + 't;

/// Decides how windows are assigned while a run goes on.
pub struct Controller {
    epochs: Epochs,
    profile: Profile,
    /// What earlier runs left, at the first worker.
    cached: Option<CachedCosts>,
    /// The scheduler whose schedule by what is measured is still to come.
    pending: Option<&'static str>,
    /// What was found, at the first worker, until an epoch was run by it.
    untried: Option<ScheduleRecord>,
}

impl Controller {
    /// Begins at an epoch, with the schedule that a checkpoint holds, if it does; where earlier runs on this
    /// machine left a cost model and the settings allow it, the first epochs follow that.
    ///
    /// All workers come here together.
    pub fn begin(
        worker: &mut Worker,
        division: &Division,
        (epoch, is_new): (usize, bool),
        schedule: Option<Schedule>,
        tell: &mut Tell<'_>,
    ) -> Result<Controller> {
        let settings = worker.settings().clone();
        let parallel = &settings.parallel;
        let scheduler =
            settings.scheduler().filter(|_| division.shares().is_none() && worker.group.size() > 1);
        let pending = scheduler.filter(|_| schedule.is_none() || epoch < parallel.profile_epochs);
        let assignment = match schedule {
            Some(schedule) => Assignment::Scheduled(schedule),
            None => division.assignment(settings.windows_at_once()),
        };
        let epochs = worker.context.epochs(worker.group.size(), assignment);
        worker.measured = pending.map(|_| Vec::new());
        let profile = Profile::new(epochs.windows.len());
        let mut controller = Controller { epochs, profile, cached: None, pending, untried: None };
        if let Some(scheduler) = pending {
            controller.use_cache(worker, scheduler, is_new, tell)?;
            if worker.group.leads() {
                announce(scheduler, &settings, &controller.epochs, tell);
            }
        }
        Ok(controller)
    }

    /// Reads what earlier runs on this machine left, and schedules by it where a run has just begun.
    fn use_cache(
        &mut self,
        worker: &Worker,
        scheduler: &str,
        is_new: bool,
        tell: &mut Tell<'_>,
    ) -> Result<()> {
        if !worker.settings().parallel.cached_costs {
            return Ok(());
        }
        if worker.group.leads() {
            let (found, warning) = match kymo_tensor::cache::folder() {
                Some(folder) => cost_cache::read(&folder, &key(worker)),
                None => (None, Some("there is no cache folder; set XDG_CACHE_HOME".into())),
            };
            warning.iter().for_each(|warning| tell(warning));
            self.cached = found;
        }
        if !is_new || self.schedule().is_some() {
            return Ok(());
        }
        let mut told = Vec::new();
        if let Some(cached) = &self.cached {
            let costs = cached.windows(&worker.context, &self.epochs.windows)?;
            let limit = Limit { seed: worker.settings().train.seed, gap: 0.001, ..Limit::default() };
            let instance = ask(&worker.context, costs, cached.closing)?;
            let found = find(scheduler)?.schedule(&instance, &limit)?;
            found.note.iter().for_each(|note| tell(note));
            let seconds = found.seconds;
            tell(&format!(
                "scheduled by the costs of earlier runs on this machine: {seconds:.3} s an epoch predicted"
            ));
            told = to_text(&found.schedule)?;
        }
        let told = worker.group.broadcast(told)?;
        if !told.is_empty() {
            self.epochs.assignment = Assignment::Scheduled(from_text(&told)?);
        }
        Ok(())
    }

    /// The schedule in force, if there is one.
    pub fn schedule(&self) -> Option<&Schedule> {
        match &self.epochs.assignment {
            Assignment::Scheduled(schedule) => Some(schedule),
            Assignment::InTurns(_) | Assignment::Together(_) => None,
        }
    }

    /// What the plans of epochs follow from.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// The plan of an epoch.
    pub fn plan(&self, epoch: usize) -> EpochPlan {
        self.epochs.plan(epoch)
    }

    /// How many iterations an epoch has once windows are scheduled: what learning rates are laid out for.
    pub fn usual_iterations(&self, worker: &Worker) -> usize {
        let (windows, parallel) = (self.epochs.windows.len(), &worker.settings().parallel);
        match worker.settings().scheduler() {
            Some(_) => windows.div_ceil((parallel.workers * parallel.groups).max(1)),
            None => windows.div_ceil(worker.settings().windows_at_once().max(1)),
        }
    }

    /// Takes in what was measured in an epoch, and schedules the windows once enough is known.
    ///
    /// `seconds` is how long the epoch took, `done` the epochs so far. All workers come here together.
    pub fn after_epoch(
        &mut self,
        worker: &mut Worker,
        seconds: f64,
        done: usize,
        folder: Option<&RunFolder>,
        tell: &mut Tell<'_>,
    ) -> Result<()> {
        if let Some(mut record) = self.untried.take() {
            record.calibration = Some(seconds / record.predicted.max(1e-9));
            tell(&format!(
                "the first epoch by the schedule took {seconds:.3} s, {:.3} s were predicted; later ones are \
                 predicted \
                 to take as long",
                record.predicted
            ));
            if let Some(folder) = folder {
                folder.write_schedule(&record)?;
            }
        }
        let measured = worker.measured.as_mut().map(std::mem::take).unwrap_or_default();
        let Some(scheduler) = self.pending else { return Ok(()) };
        let begun = Instant::now();
        let epochs = worker.settings().parallel.profile_epochs;
        // The first epoch reads and makes what later ones find: it tells little, unless it is all there is.
        if done > 1 || epochs == 1 {
            self.gather(worker, &measured, seconds)?;
        }
        // An epoch that was resumed in its middle leaves windows of which nothing is known: one more is
        // measured.
        if done < epochs || !self.profile.is_complete() {
            return Ok(());
        }
        (self.pending, worker.measured) = (None, None);
        let mut told = Vec::new();
        if worker.group.leads() {
            self.fit(worker, tell)?;
            let limit = Limit {
                time: Duration::from_secs_f64((2.0 * seconds).clamp(2e-3, LONGEST)),
                seed: worker.settings().train.seed,
                gap: 0.001,
            };
            let instance = ask(&worker.context, self.profile.costs(), self.profile.closing)?;
            let found = find(scheduler)?.schedule(&instance, &limit)?;
            found.note.iter().for_each(|note| tell(note));
            let record = self.record(worker, &found);
            if let Some(folder) = folder {
                folder.write_profile(&self.profile.record())?;
                folder.write_schedule(&record)?;
            }
            self.untried = Some(record);
            told = to_text(&found.schedule)?;
        }
        let told = worker.group.broadcast(told)?;
        self.epochs.assignment = Assignment::Scheduled(from_text(&told)?);
        worker.group.recorder.record(Kind::Plan, "schedule", begun, 0);
        Ok(())
    }

    /// Takes in what all workers measured, at every worker.
    fn gather(&mut self, worker: &Worker, measured: &[WindowTimes], seconds: f64) -> Result<()> {
        let windows = &self.epochs.windows;
        let text = serde_json::to_vec(measured)
            .map_err(|error| Error::Bug(format!("what was measured cannot be told to others: {error}")))?;
        let mut longest: f64 = 0.0;
        for (rank, text) in worker.group.all_gather(&text)?.iter().enumerate() {
            let told: Vec<WindowTimes> = serde_json::from_slice(text)
                .map_err(|error| Error::peer(rank, format!("did not send what it measured: {error}")))?;
            let mut busy = 0.0;
            for times in told {
                busy += times.total().iter().sum::<f64>();
                self.profile.add(windows.partition_point(|window| window.start < times.start), times);
            }
            longest = longest.max(busy);
        }
        // What is left of the epoch of the busiest worker closes its iterations.
        let iterations = self.epochs.iterations().max(1);
        self.profile.add_closing(((seconds - longest) / iterations as f64).max(0.0));
        Ok(())
    }

    /// Fits the linear model, and keeps it for later runs if they have none that is as good.
    fn fit(&mut self, worker: &Worker, tell: &mut Tell<'_>) -> Result<()> {
        let (windows, vertices) = (&self.epochs.windows, worker.context.store.vertices());
        let edges = worker.context.edges()?;
        self.profile.fit(windows, &edges, vertices);
        let Some(model) = self.profile.model else { return Ok(()) };
        tell(&format!(
            "a snapshot of N vertices and E edges costs {:.2e} N + {:.2e} E + {:.2e} s, off by {:.1} % on {} \
             windows held \
             out",
            model.vertex,
            model.edge,
            model.snapshot,
            100.0 * model.error,
            model.held_out
        ));
        if !worker.settings().parallel.cached_costs {
            return Ok(());
        }
        let measured = self.profile.measured(windows, &edges);
        let off = self.cached.as_ref().map(|cached| cached.model.error_on(&measured, vertices));
        if let Some(off) = off {
            let what = if off > STALE { "fitted anew" } else { "kept" };
            tell(&format!("the costs of earlier runs were off by {:.1} %: {what}", 100.0 * off));
        }
        if off.is_none_or(|off| off > STALE)
            && let Some(folder) = kymo_tensor::cache::folder()
        {
            let costs = CachedCosts { key: key(worker), model, closing: self.profile.closing };
            cost_cache::write(&folder, &costs).iter().for_each(|warning| tell(warning));
        }
        Ok(())
    }

    /// What is known of a schedule, as it is written beside the profile.
    fn record(&self, worker: &Worker, found: &Scheduled) -> ScheduleRecord {
        let parallel = &worker.settings().parallel;
        let (costs, iterations) = (self.profile.costs(), &found.schedule.iterations);
        let predicted =
            contention::epoch(iterations, (&costs, self.profile.closing), parallel.workers, at_once());
        ScheduleRecord {
            version: ScheduleRecord::VERSION,
            strategy: parallel.strategy.clone(),
            by: found.by.to_owned(),
            note: found.note.clone(),
            seconds: found.seconds,
            predicted,
            calibration: None,
            bound: found.bound,
            gap: found.gap(),
            optimiser_steps: found.schedule.optimiser_steps(),
            milliseconds: found.took.as_secs_f64() * 1e3,
            iterations: iterations.clone(),
        }
    }
}

/// Says what the first epochs are for.
fn announce(scheduler: &str, settings: &crate::Settings, epochs: &Epochs, tell: &mut Tell<'_>) {
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

fn key(worker: &Worker) -> Key {
    Key::new(&worker.context, rayon::current_num_threads())
}

fn to_text(schedule: &Schedule) -> Result<Vec<u8>> {
    serde_json::to_vec(&schedule.iterations)
        .map_err(|error| Error::Bug(format!("a schedule cannot be told to others: {error}")))
}

fn from_text(text: &[u8]) -> Result<Schedule> {
    let iterations = serde_json::from_slice(text)
        .map_err(|error| Error::peer(0, format!("sent something that is no schedule: {error}")))?;
    Ok(Schedule { iterations })
}

/// How many workers with the threads of this one have a core for each of them.
fn at_once() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores as f64 / rayon::current_num_threads().max(1) as f64
}
