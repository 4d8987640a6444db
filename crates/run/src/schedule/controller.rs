//! From what windows cost to who trains them: measured for some epochs, scheduled by the first worker, told
//! to all.
//!
//! REAL 3.3 and 5.4: training begins in turns (cold start), goes on while it is measured and while a schedule
//! is looked for, and changes to the schedule at the end of an epoch (`search.rs`). A scheduler gets twice
//! the time of an epoch at most. The first worker says when the schedule is followed, and `schedule.json`
//! tells from which epoch on. The schedule is part of the checkpoint: what is resumed goes on with it. While
//! windows are measured and scheduled, the checkpoint has what was measured so far. A run that is resumed
//! from before the change follows the schedule that it left, from the same epoch on; where it left none, it
//! is looked for by the profile that was written.
//!
//! With `parallel.cached_costs` the first epochs follow a linear model of the costs of earlier runs on this
//! machine instead of going in turns; what is measured takes its place as before. Where costs are told
//! beforehand (`parallel.costs`), windows are scheduled from the first epoch on, without a look at the clock.

use std::time::{Duration, Instant};

use kymo_plan::price::Rates;
use kymo_plan::schedule::{Instance, Limit, Reuse, Schedule, Scheduled, find};
use kymo_plan::{Assignment, EpochPlan, Epochs};
use kymo_trace::Kind;
use kymo_trace::schema::{ProfileRecord, RunFolder, ScheduleRecord};

use super::cost_cache::{self, CachedCosts};
use super::costs::{self, Source};
use super::profile::{self, Measurements, Profile};
use super::profiling::{self, key};
use super::search::Search;
use super::stage::{COLD_START, OPTIMISED, PROFILING, SCHEDULING, Stage};
use super::strategy::{Division, ask};
use super::told::{announce, from_text, record, times_from_text, times_to_text, to_text};
use crate::error::{Error, Result};
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
    /// Whether enough was measured and the schedule is being looked for.
    searching: bool,
    /// The search, at the first worker.
    search: Option<Search>,
    /// What the run followed before it was interrupted and will follow again, at the first worker.
    recorded: Option<ScheduleRecord>,
    stage: Stage,
    /// What was found, at the first worker, until an epoch was run by it.
    untried: Option<ScheduleRecord>,
    /// Seconds of the epoch under way before it was interrupted.
    before: f64,
}

impl Controller {
    /// Begins at an epoch, with the schedule and the measurements that a checkpoint holds, if it does; where
    /// earlier runs on this machine left a cost model and the settings allow it, the first epochs follow
    /// that. What is known of the costs beforehand is scheduled at once.
    ///
    /// All workers come here together.
    pub fn begin(
        worker: &mut Worker,
        division: &Division,
        (epoch, is_new): (usize, bool),
        (schedule, measured): (Option<Schedule>, Option<Measurements>),
        folder: Option<&RunFolder>,
        tell: &mut Tell<'_>,
    ) -> Result<Controller> {
        let settings = worker.settings().clone();
        let parallel = &settings.parallel;
        let scheduler =
            settings.scheduler().filter(|_| division.shares().is_none() && worker.group.size() > 1);
        let measures = Source::of(parallel) == Source::Measured;
        let is_open = schedule.is_none() || measured.is_some() || epoch < parallel.profile_epochs;
        let pending = scheduler.filter(|_| measures && is_open);
        let assignment = match schedule {
            Some(schedule) => Assignment::Scheduled(schedule),
            None => division.assignment(&settings),
        };
        let epochs = worker.context.trained_epochs(worker.group.size(), assignment);
        let was_measured = measured.is_some();
        let mut measured = measured.unwrap_or_default();
        let under_way = measured.under_way.get_mut(worker.group.rank()).map(std::mem::take);
        worker.measured = pending.map(|_| under_way.unwrap_or_default());
        let before = measured.seconds;
        let profile = Profile::of(&epochs.windows, measured);
        let mut controller = Controller {
            epochs,
            profile,
            cached: None,
            pending,
            searching: false,
            search: None,
            recorded: None,
            stage: Stage::default(),
            untried: None,
            before,
        };
        if let Some(scheduler) = pending {
            controller.use_cache(worker, scheduler, is_new, tell)?;
            if was_measured {
                controller.take_up(worker, scheduler, epoch, folder)?;
            }
            if worker.group.leads() && !controller.searching {
                announce(scheduler, &settings, &controller.epochs, tell);
            }
        } else if let (Some(scheduler), false, None) = (scheduler, measures, controller.schedule()) {
            controller.schedule_beforehand(worker, scheduler, epoch, folder, tell)?;
        }
        let first = epoch == 0 && parallel.profile_epochs > 1;
        let stage = match pending {
            Some(_) if first => COLD_START,
            Some(_) => PROFILING,
            None => OPTIMISED,
        };
        controller.stage.enter(worker, scheduler.map(|_| stage));
        Ok(controller)
    }

    /// Takes up what was under way when the run was interrupted: a schedule that it followed and that the
    /// checkpoint does not have, or the search for one.
    fn take_up(
        &mut self,
        worker: &mut Worker,
        scheduler: &str,
        epoch: usize,
        folder: Option<&RunFolder>,
    ) -> Result<()> {
        let (measured, all) = (worker.settings().parallel.profile_epochs, worker.settings().train.epochs);
        let to_come = (epoch + 1).max(measured)..=all;
        let is_to_come = |record: &ScheduleRecord| record.epoch.is_some_and(|begin| to_come.contains(&begin));
        self.recorded = folder.map(RunFolder::schedule).transpose()?.flatten().filter(is_to_come);
        self.searching = epoch >= measured && self.profile.is_complete();
        if !self.searching {
            return Ok(());
        }
        worker.measured = None;
        if worker.group.leads() && self.recorded.is_none() {
            let left = folder.map(RunFolder::profile).transpose()?.flatten();
            let record = left.unwrap_or_else(|| self.profile.record());
            let work: f64 = profile::costs(&record).iter().sum();
            let closing = record.closing * self.epochs.iterations() as f64;
            self.begin_search(worker, scheduler, &record, work / worker.group.size() as f64 + closing)?;
        }
        Ok(())
    }

    /// Schedules by costs that are told beforehand.
    fn schedule_beforehand(
        &mut self,
        worker: &Worker,
        scheduler: &str,
        epoch: usize,
        folder: Option<&RunFolder>,
        tell: &mut Tell<'_>,
    ) -> Result<()> {
        let mut told = Vec::new();
        if worker.group.leads() {
            let settings = worker.settings();
            let known = costs::known(&worker.context, worker.group.size(), Rates::default())?
                .ok_or_else(|| Error::Bug("costs are neither measured nor told".into()))?;
            let from = &settings.parallel.costs;
            tell(&format!("{scheduler}: windows are scheduled from the first epoch on, by {from}"));
            if let (Some(folder), Some(profile)) = (folder, &known.profile) {
                folder.write_profile(profile)?;
            }
            let limit = Limit { clock: false, ..limit(settings) };
            let instance = ask(&worker.context, known.windows, known.closing, known.reuse)?;
            let found = find(scheduler)?.schedule(&instance, &limit)?;
            told = self.decide(worker, &found, &instance, epoch, folder, tell)?;
        }
        self.follow(worker, told)?;
        Ok(())
    }

    /// Writes down what a scheduler found and from which epoch on it is followed, at the first worker; what
    /// others have to be told.
    fn decide(
        &mut self,
        worker: &Worker,
        found: &Scheduled,
        instance: &Instance,
        epoch: usize,
        folder: Option<&RunFolder>,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<u8>> {
        found.note.iter().for_each(|note| tell(note));
        let record = record(worker, found, instance, epoch);
        if let Some(folder) = folder {
            folder.write_schedule(&record)?;
        }
        self.untried = Some(record);
        to_text(&found.schedule)
    }

    /// Follows the schedule of the first worker from now on, if it tells one; whether it does.
    fn follow(&mut self, worker: &Worker, told: Vec<u8>) -> Result<bool> {
        let told = worker.group.broadcast(told)?;
        if !told.is_empty() {
            self.epochs.assignment = Assignment::Scheduled(from_text(&told)?);
        }
        Ok(!told.is_empty())
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
            let instance = ask(&worker.context, costs, cached.closing, Reuse::None)?;
            let found = find(scheduler)?.schedule(&instance, &limit(worker.settings()))?;
            found.note.iter().for_each(|note| tell(note));
            let seconds = found.seconds;
            tell(&format!(
                "scheduled by the costs of earlier runs on this machine: {seconds:.3} s an epoch predicted"
            ));
            told = to_text(&found.schedule)?;
        }
        self.follow(worker, told)?;
        Ok(())
    }

    /// The schedule in force, if there is one.
    pub fn schedule(&self) -> Option<&Schedule> {
        match &self.epochs.assignment {
            Assignment::Scheduled(schedule) => Some(schedule),
            Assignment::InTurns(_) | Assignment::InRuns(_) | Assignment::Together(_) => None,
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
            None => self.epochs.iterations(),
        }
    }

    /// Takes in what was measured in an epoch, looks for a schedule once enough is known, and follows it once
    /// there is one.
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
        // An epoch that was interrupted has taken what it took before, too.
        let seconds = seconds + std::mem::take(&mut self.before);
        let begun = Instant::now();
        let is_new = !self.searching;
        if is_new {
            let epochs = worker.settings().parallel.profile_epochs;
            // The first epoch reads and makes what later ones find: it tells little, unless it is all there
            // is.
            if done > 1 || epochs == 1 {
                profiling::gather(&mut self.profile, &self.epochs, worker, &measured, seconds)?;
            }
            if self.stage.is(COLD_START) {
                self.stage.enter(worker, Some(PROFILING));
            }
            // A checkpoint of an earlier version may have left windows of which nothing is known: one more
            // epoch is measured.
            if done < epochs || !self.profile.is_complete() {
                return Ok(());
            }
            (self.searching, worker.measured) = (true, None);
            if worker.group.leads() && self.recorded.is_none() {
                self.finish_profile(worker, folder, tell)?;
                let record = self.profile.record();
                self.begin_search(worker, scheduler, &record, seconds)?;
            }
        }
        let mut told = Vec::new();
        if worker.group.leads() {
            told = self.look(worker, seconds, done, folder, tell)?;
            if told.is_empty() && is_new && self.search.is_some() {
                tell("the schedule is looked for while training goes on as before");
            }
        }
        if self.follow(worker, told)? {
            (self.pending, self.searching) = (None, false);
            self.stage.enter(worker, Some(OPTIMISED));
        }
        worker.group.recorder.record(Kind::Plan, "schedule", begun, 0);
        Ok(())
    }

    /// Ends the stage under way. All stages are in the timeline then.
    pub fn end(&mut self, worker: &Worker) {
        self.stage.enter(worker, None);
    }

    /// Works out what was measured, finds out what windows save each other, and writes that down.
    fn finish_profile(
        &mut self,
        worker: &mut Worker,
        folder: Option<&RunFolder>,
        tell: &mut Tell<'_>,
    ) -> Result<()> {
        let windows = &self.epochs.windows;
        profiling::fit(&mut self.profile, windows, self.cached.as_ref(), worker, tell)?;
        profiling::measure_savings(&mut self.profile, windows, worker, tell)?;
        match folder {
            Some(folder) => Ok(folder.write_profile(&self.profile.record())?),
            None => Ok(()),
        }
    }

    /// Begins to look for a schedule by a profile; an epoch takes `seconds`.
    fn begin_search(
        &mut self,
        worker: &Worker,
        scheduler: &str,
        measured: &ProfileRecord,
        seconds: f64,
    ) -> Result<()> {
        let time = Duration::from_secs_f64((2.0 * seconds).clamp(2e-3, LONGEST));
        let reuse = profile::reuse(measured, &self.epochs.windows)?;
        let instance = ask(&worker.context, profile::costs(measured), measured.closing, reuse)?;
        let limit = Limit { time, ..limit(worker.settings()) };
        self.search = Some(Search::begin(scheduler, instance, &limit)?);
        Ok(())
    }

    /// Looks whether there is a schedule to be followed from now on, at the first worker; what others have to
    /// be told, nothing where there is none yet.
    fn look(
        &mut self,
        worker: &Worker,
        seconds: f64,
        done: usize,
        folder: Option<&RunFolder>,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<u8>> {
        if let Some(record) = self.recorded.take_if(|record| record.epoch.is_some_and(|epoch| epoch <= done))
        {
            tell("windows are assigned by the schedule that the run had before it was interrupted");
            let schedule = Schedule { iterations: record.iterations.clone() };
            self.untried = Some(record);
            return to_text(&schedule);
        }
        let Some(search) = self.search.take() else { return Ok(Vec::new()) };
        match search.answer(seconds)? {
            Some(found) => {
                worker.group.recorder.record(Kind::Stage, SCHEDULING, search.begun, 0);
                self.decide(worker, &found, &search.instance, done, folder, tell)
            }
            None => {
                self.search = Some(search);
                Ok(Vec::new())
            }
        }
    }

    /// What was measured so far, at the first worker, while windows are measured: `seconds` is how long the
    /// epoch under way has gone on since the run began or was resumed. All workers come here together.
    pub fn measurements(&self, worker: &Worker, seconds: f64) -> Result<Option<Measurements>> {
        if self.pending.is_none() {
            return Ok(None);
        }
        let mine = times_to_text(worker.measured.as_deref().unwrap_or_default())?;
        let Some(all) = worker.group.gather(&mine)? else { return Ok(None) };
        let all = all.iter().enumerate().map(|(rank, text)| times_from_text(rank, text));
        let under_way = all.collect::<Result<Vec<_>>>()?;
        Ok(Some(Measurements { under_way, seconds: self.before + seconds, ..self.profile.measurements() }))
    }

    /// What the schedule in force was made of, as [`RunSummary::costs`](kymo_trace::schema::RunSummary) has
    /// it; nothing where there is none.
    pub fn costs(&self, worker: &Worker) -> Option<String> {
        self.schedule().map(|_| match self.pending {
            Some(_) => "cached".into(),
            None => worker.settings().parallel.costs.clone(),
        })
    }
}

/// How long a scheduler may look where nothing is said of an epoch's length.
fn limit(settings: &crate::Settings) -> Limit {
    Limit { seed: settings.train.seed, gap: 0.001, ..Limit::default() }
}
