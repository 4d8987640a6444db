//! From what windows cost to who trains them: measured for some epochs, scheduled by the first worker, told
//! to all.
//!
//! REAL 5.4: training begins in turns (cold start), goes on while it is measured, and changes to the schedule
//! at the end of an epoch. A scheduler gets twice the time of an epoch at most. The schedule is part of the
//! checkpoint: what is resumed goes on with it. With `parallel.cached_costs` the first epochs follow a linear
//! model of the costs of earlier runs on this machine instead of going in turns; what is measured takes its
//! place as before. While windows are measured, the checkpoint has what was measured so far. Where costs are
//! told beforehand (`parallel.costs`), windows are scheduled from the first epoch on, without a look at the
//! clock.

use std::time::{Duration, Instant};

use kymo_plan::price::Rates;
use kymo_plan::schedule::{Instance, Limit, Reuse, Schedule, find};
use kymo_plan::{Assignment, EpochPlan, Epochs};
use kymo_trace::Kind;
use kymo_trace::schema::{RunFolder, ScheduleRecord};

use super::cost_cache::{self, CachedCosts, Key, STALE};
use super::costs::{self, Source};
use super::profile::{self, Measurements, Profile};
use super::strategy::{Division, ask};
use super::told::{announce, from_text, record, times_from_text, times_to_text, to_text};
use crate::error::{Error, Result};
use crate::step::{WindowTimes, Worker};

/// Pairs of windows that are run to find out what they save each other.
const PAIRS: usize = 4;

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
        let epochs = worker.context.epochs(worker.group.size(), assignment);
        let mut measured = measured.unwrap_or_default();
        let under_way = measured.under_way.get_mut(worker.group.rank()).map(std::mem::take);
        worker.measured = pending.map(|_| under_way.unwrap_or_default());
        let before = measured.seconds;
        let profile = Profile::of(&epochs.windows, measured);
        let mut controller = Controller { epochs, profile, cached: None, pending, untried: None, before };
        if let Some(scheduler) = pending {
            controller.use_cache(worker, scheduler, is_new, tell)?;
            if worker.group.leads() {
                announce(scheduler, &settings, &controller.epochs, tell);
            }
        } else if let (Some(scheduler), false, None) = (scheduler, measures, controller.schedule()) {
            controller.schedule_beforehand(worker, scheduler, folder, tell)?;
        }
        Ok(controller)
    }

    /// Schedules by costs that are told beforehand.
    fn schedule_beforehand(
        &mut self,
        worker: &Worker,
        scheduler: &str,
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
            told = self.decide(worker, scheduler, &instance, &limit, folder, tell)?;
        }
        self.follow(worker, told)
    }

    /// Asks the scheduler, at the first worker, and writes down what it found; what others have to be told.
    fn decide(
        &mut self,
        worker: &Worker,
        scheduler: &str,
        instance: &Instance,
        limit: &Limit,
        folder: Option<&RunFolder>,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<u8>> {
        let found = find(scheduler)?.schedule(instance, limit)?;
        found.note.iter().for_each(|note| tell(note));
        let record = record(worker, &found, instance);
        if let Some(folder) = folder {
            folder.write_schedule(&record)?;
        }
        self.untried = Some(record);
        to_text(&found.schedule)
    }

    /// Follows the schedule of the first worker from now on.
    fn follow(&mut self, worker: &Worker, told: Vec<u8>) -> Result<()> {
        let told = worker.group.broadcast(told)?;
        self.epochs.assignment = Assignment::Scheduled(from_text(&told)?);
        Ok(())
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
        // An epoch that was interrupted has taken what it took before, too.
        let seconds = seconds + std::mem::take(&mut self.before);
        let begun = Instant::now();
        let epochs = worker.settings().parallel.profile_epochs;
        // The first epoch reads and makes what later ones find: it tells little, unless it is all there is.
        if done > 1 || epochs == 1 {
            self.gather(worker, &measured, seconds)?;
        }
        // A checkpoint of an earlier version may have left windows of which nothing is known: one more epoch
        // is measured.
        if done < epochs || !self.profile.is_complete() {
            return Ok(());
        }
        (self.pending, worker.measured) = (None, None);
        let mut told = Vec::new();
        if worker.group.leads() {
            self.fit(worker, tell)?;
            self.measure_savings(worker, tell)?;
            if let Some(folder) = folder {
                folder.write_profile(&self.profile.record())?;
            }
            let time = Duration::from_secs_f64((2.0 * seconds).clamp(2e-3, LONGEST));
            let limit = Limit { time, ..limit(worker.settings()) };
            let reuse = profile::reuse(&self.profile.record(), &self.epochs.windows)?;
            let instance = ask(&worker.context, self.profile.costs(), self.profile.closing, reuse)?;
            told = self.decide(worker, scheduler, &instance, &limit, folder, tell)?;
        }
        self.follow(worker, told)?;
        worker.group.recorder.record(Kind::Plan, "schedule", begun, 0);
        Ok(())
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

    /// Takes in what all workers measured, at every worker.
    fn gather(&mut self, worker: &Worker, measured: &[WindowTimes], seconds: f64) -> Result<()> {
        let windows = &self.epochs.windows;
        let mut longest: f64 = 0.0;
        for (rank, text) in worker.group.all_gather(&times_to_text(measured)?)?.iter().enumerate() {
            let mut busy = 0.0;
            for times in times_from_text(rank, text)? {
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

    /// Finds out what neighbouring windows save that are run together, where they will be: some pairs are run
    /// together and one by one, of which nothing is learnt.
    fn measure_savings(&mut self, worker: &mut Worker, tell: &mut Tell<'_>) -> Result<()> {
        let windows = &self.epochs.windows;
        if !worker.settings().shares_windows() || windows.len() < 2 {
            return Ok(());
        }
        let firsts = (0..PAIRS).map(|pair| (windows.len() - 1) * (2 * pair + 1) / (2 * PAIRS));
        let mut saved = Vec::with_capacity(PAIRS);
        for first in firsts {
            let pair = [first, first + 1].map(|number| windows[number].clone());
            // Once to bring both into memory.
            worker.time(&pair)?;
            let alone = worker.time(&pair[..1])? + worker.time(&pair[1..])?;
            let together = worker.time(&pair)?;
            saved.push((first, 1.0 - together / alone.max(f64::MIN_POSITIVE)));
        }
        if let Some(ratio) = self.profile.add_savings(windows, &saved) {
            tell(&format!(
                "windows that are run together save {:.0} % of the time of each snapshot that they share",
                100.0 * ratio
            ));
        }
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
}

/// How long a scheduler may look where nothing is said of an epoch's length.
fn limit(settings: &crate::Settings) -> Limit {
    Limit { seed: settings.train.seed, gap: 0.001, ..Limit::default() }
}

fn key(worker: &Worker) -> Key {
    Key::new(&worker.context, rayon::current_num_threads())
}
