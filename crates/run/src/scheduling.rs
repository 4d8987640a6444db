//! From what windows cost to who trains them: measured for some epochs, scheduled by the first worker, told to all.
//!
//! REAL 5.4: training begins in turns (cold start), goes on while it is measured, and changes to the schedule at the end of an
//! epoch. A scheduler gets twice the time of an epoch at most. The schedule is part of the checkpoint: what is resumed goes on
//! with it. With `parallel.cached_costs` the first epochs follow a linear model of the costs of earlier runs on this machine
//! instead of going in turns; what is measured takes its place as before.

use std::time::Duration;

use kymo_plan::schedule::{Limit, Schedule, Scheduled};
use kymo_trace::Kind;
use serde::Serialize;

use crate::cost_cache::{self, Kept, Key, STALE};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::learner::Learner;
use crate::profile::{Profile, WindowTimes, schedule};
use crate::saved::Position;
use crate::settings::Parallel;
use crate::sharing;
use crate::train::Watch;

/// The most seconds that a scheduler may look, however long an epoch takes.
const LONGEST: f64 = 60.0;

/// What is known of a schedule, as it is written beside the profile.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The strategy.
    pub strategy: String,
    /// The scheduler whose answer it is.
    pub by: &'static str,
    /// Seconds of an epoch, by the slowest bins of its iterations.
    pub seconds: f64,
    /// Predicted seconds of an epoch: less where workers share cores, because those who are done leave theirs to the others.
    pub predicted: f64,
    /// Seconds that the first epoch by this schedule took for each second predicted. Windows were measured beside others than
    /// they are now run beside. What later epochs take is `predicted` times this.
    pub calibration: Option<f64>,
    /// Seconds that no schedule can beat.
    pub bound: f64,
    /// The proven gap between the two.
    pub gap: f64,
    /// Steps of the optimiser in an epoch.
    pub optimiser_steps: usize,
    /// Milliseconds it took to find.
    pub milliseconds: f64,
    /// Who trains which windows, by iteration and worker.
    pub iterations: Vec<Vec<Vec<usize>>>,
}

/// What is known of the costs while a run is on its way.
pub struct Scheduling {
    profile: Profile,
    /// What earlier runs left, at the first worker.
    kept: Option<Kept>,
    /// Whether a schedule by what is measured is still to come.
    open: bool,
    /// What was found, at the first worker, until an epoch was run by it.
    untried: Option<Facts>,
}

impl Scheduling {
    /// Begins; where earlier runs on this machine left a cost model and the settings allow it, the first epochs follow that.
    ///
    /// All workers come here together.
    pub fn begin(learner: &mut Learner, position: &Position, watch: &mut dyn Watch) -> Result<Scheduling> {
        let windows = learner.shared.windows();
        let profile = Profile::new(windows.len());
        let parallel = learner.settings().parallel.clone();
        let Some(scheduler) = learner.settings().scheduler() else {
            return Ok(Scheduling { profile, kept: None, open: false, untried: None });
        };
        let open = learner.scheduled.is_none() || position.epoch < parallel.profile_epochs;
        learner.measures = open;
        let mut kept = None;
        if parallel.cached_costs && learner.team.leads() {
            let (found, warning) = match kymo_tensor::cache::folder() {
                Some(folder) => cost_cache::read(&folder, &key(learner)),
                None => (None, Some("there is no cache folder; set XDG_CACHE_HOME".into())),
            };
            warning.iter().for_each(|warning| watch.note(warning));
            kept = found;
        }
        if parallel.cached_costs && learner.scheduled.is_none() && (position.epoch, position.window) == (0, 0)
        {
            let mut told = Vec::new();
            if let Some(kept) = &kept {
                let costs = kept.windows(&learner.shared, &windows)?;
                let limit = Limit { seed: learner.settings().train.seed, gap: 0.001, ..Limit::default() };
                let sizes = [parallel.workers, parallel.groups];
                let found = schedule(costs, kept.closing, scheduler, sizes, &limit)?;
                watch.note(&format!(
                    "scheduled by the costs of earlier runs on this machine: {:.3} s an epoch predicted",
                    found.seconds
                ));
                told = to_text(&found.schedule)?;
            }
            let told = learner.team.from_leader(told)?;
            if !told.is_empty() {
                learner.scheduled = Some(from_text(&told)?);
            }
        }
        Ok(Scheduling { profile, kept, open, untried: None })
    }

    /// Takes in what was measured in an epoch, and schedules the windows once enough is known.
    ///
    /// `seconds` is how long the epoch took. All workers come here together.
    pub fn after_epoch(
        &mut self,
        learner: &mut Learner,
        seconds: f64,
        epochs: usize,
        folder: &Option<Folder>,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let measured = std::mem::take(&mut learner.measured);
        let parallel = learner.settings().parallel.clone();
        if let Some(mut facts) = self.untried.take() {
            facts.calibration = Some(seconds / facts.predicted.max(1e-9));
            watch.note(&format!(
                "the first epoch by the schedule took {seconds:.3} s, {:.3} s were predicted; later ones are predicted to take as long",
                facts.predicted
            ));
            if let Some(folder) = folder {
                folder.write_json("schedule.json", &facts)?;
            }
        }
        let Some(scheduler) = learner.settings().scheduler().filter(|_| self.open) else { return Ok(()) };
        let begun = std::time::Instant::now();
        // The first epoch reads and makes what later ones find: it tells little, unless it is all there is.
        if epochs > 1 || parallel.profile_epochs == 1 {
            gather(learner, &mut self.profile, &measured, seconds)?;
        }
        // An epoch that was resumed in its middle leaves windows of which nothing is known: one more is measured.
        if epochs < parallel.profile_epochs || !self.profile.is_complete() {
            return Ok(());
        }
        (self.open, learner.measures) = (false, false);
        let mut told = Vec::new();
        if learner.team.leads() {
            self.fit(learner, watch)?;
            let limit = Limit {
                time: Duration::from_secs_f64((2.0 * seconds).clamp(2e-3, LONGEST)),
                seed: learner.settings().train.seed,
                gap: 0.001,
            };
            let found = self.profile.schedule(scheduler, parallel.workers, parallel.groups, &limit)?;
            let facts = facts(&parallel, &found, &self.profile);
            if let Some(folder) = folder {
                folder.write_json("profile.json", &self.profile)?;
                folder.write_json("schedule.json", &facts)?;
            }
            self.untried = Some(facts);
            told = to_text(&found.schedule)?;
        }
        let told = learner.team.from_leader(told)?;
        learner.scheduled = Some(from_text(&told)?);
        learner.team.recorder.record(Kind::Plan, "schedule", begun, 0);
        Ok(())
    }

    /// Fits the linear model, and keeps it for later runs if they have none that is as good.
    fn fit(&mut self, learner: &Learner, watch: &mut dyn Watch) -> Result<()> {
        let (windows, vertices) = (learner.shared.windows(), learner.shared.store.vertices());
        let edges = learner.shared.edges()?;
        self.profile.fit(&windows, &edges, vertices);
        let Some(model) = self.profile.model else { return Ok(()) };
        watch.note(&format!(
            "a snapshot of N vertices and E edges costs {:.2e} N + {:.2e} E + {:.2e} s, off by {:.1} % on {} windows held out",
            model.vertex,
            model.edge,
            model.snapshot,
            100.0 * model.error,
            model.held_out
        ));
        if !learner.settings().parallel.cached_costs {
            return Ok(());
        }
        let measured = self.profile.measured(&windows, &edges);
        let off = self.kept.as_ref().map(|kept| kept.model.error_on(&measured, vertices));
        if let Some(off) = off {
            let what = if off > STALE { "fitted anew" } else { "kept" };
            watch.note(&format!("the costs of earlier runs were off by {:.1} %: {what}", 100.0 * off));
        }
        if off.is_none_or(|off| off > STALE)
            && let Some(folder) = kymo_tensor::cache::folder()
        {
            let kept = Kept { key: key(learner), model, closing: self.profile.closing };
            cost_cache::write(&folder, &kept).iter().for_each(|warning| watch.note(warning));
        }
        Ok(())
    }
}

fn key(learner: &Learner) -> Key {
    Key::new(&learner.shared, rayon::current_num_threads())
}

fn to_text(schedule: &Schedule) -> Result<Vec<u8>> {
    serde_json::to_vec(&schedule.iterations).map_err(|error| Error::settings("schedule", error.to_string()))
}

fn from_text(text: &[u8]) -> Result<Schedule> {
    let iterations = serde_json::from_slice(text)
        .map_err(|error| kymo_tensor::Error::Peer(format!("the first worker sent no schedule: {error}")))?;
    Ok(Schedule { iterations })
}

/// What all workers measured, at every worker.
fn gather(learner: &Learner, profile: &mut Profile, measured: &[WindowTimes], seconds: f64) -> Result<()> {
    let windows = learner.shared.windows();
    let text = serde_json::to_vec(measured)
        .map_err(|error| Error::settings("profile", format!("cannot be told to others: {error}")))?;
    let mut longest: f64 = 0.0;
    for (worker, text) in learner.team.from_all(&text)?.iter().enumerate() {
        let told: Vec<WindowTimes> = serde_json::from_slice(text).map_err(|error| {
            kymo_tensor::Error::Peer(format!("worker {worker} did not send what it measured: {error}"))
        })?;
        let mut busy = 0.0;
        for times in told {
            busy += times.total().iter().sum::<f64>();
            profile.add(windows.partition_point(|window| window.start < times.start), times);
        }
        longest = longest.max(busy);
    }
    // What is left of the epoch of the busiest worker closes its iterations.
    let iterations = match &learner.scheduled {
        Some(schedule) => schedule.iterations.len(),
        None => windows.len().div_ceil(learner.settings().windows_at_once().max(1)),
    };
    profile.add_closing(((seconds - longest) / iterations.max(1) as f64).max(0.0));
    Ok(())
}

/// How many workers with the threads of this one have a core for each of them.
fn at_once() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores as f64 / rayon::current_num_threads().max(1) as f64
}

fn facts(parallel: &Parallel, found: &Scheduled, profile: &Profile) -> Facts {
    let iterations = &found.schedule.iterations;
    Facts {
        predicted: sharing::epoch(
            iterations,
            (&profile.costs(), profile.closing),
            parallel.workers,
            at_once(),
        ),
        strategy: parallel.strategy.clone(),
        by: found.by,
        seconds: found.seconds,
        calibration: None,
        bound: found.bound,
        gap: found.gap(),
        optimiser_steps: found.schedule.optimiser_steps(),
        milliseconds: found.took.as_secs_f64() * 1e3,
        iterations: found.schedule.iterations.clone(),
    }
}
