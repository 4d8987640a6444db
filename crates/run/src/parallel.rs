//! How workers share the work: the strategy of the settings, applied to the data.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::Step;
use kymo_plan::partition::{self, Ask};
use kymo_plan::price::{Deal, Job, Rates, closing_seconds, window_seconds};
use kymo_plan::schedule::{Gantt, Instance, Limit, Reuse, find};
use kymo_plan::strategy::{self, Parallel, Strategy};
use kymo_plan::{Cut, Habits, Plan, Shares, price};

use crate::cells::Cells;
use crate::cost_cache::{self, Key};
use crate::error::{Error, Result};
use crate::probe;
use crate::settings::{Mode, Settings};
use crate::shared::Shared;
use crate::split::Part;
use crate::team::Team;

/// How workers share the work.
#[derive(Clone)]
pub enum Sharing {
    /// They deal out whole windows.
    Groups,
    /// They do each window together, cut into cells.
    Cells(Shares),
}

/// Whether a strategy goes with the settings: truncated windows need what the one before left, so they cannot be dealt out.
/// Schedulers may need something that was not built in.
pub fn is_possible(strategy: &Strategy, settings: &Settings, workers: usize) -> bool {
    if let Parallel::Scheduled(name) = strategy.parallel
        && !find(name).is_ok_and(|scheduler| scheduler.is_there())
    {
        return false;
    }
    matches!(strategy.parallel, Parallel::Cells { .. })
        || settings.train.mode != Mode::Truncated
        || workers == 1
}

impl Sharing {
    /// The way of a strategy with so many workers.
    pub fn new(shared: &Shared, strategy: &str, workers: usize) -> Result<Sharing> {
        let settings = &shared.settings;
        let strategy = strategy::find(strategy)?;
        let cut = match strategy.parallel {
            Parallel::Scheduled(name) if !find(name)?.is_there() => {
                let problem =
                    format!("{name} was not built in: build Kymo with --features ilp, or choose another");
                return Err(Error::settings("parallel.strategy", problem));
            }
            Parallel::Groups | Parallel::Scheduled(_) if !is_possible(strategy, settings, workers) => {
                let problem = format!(
                    "{} deals out windows, but truncated windows need what the one before left; choose windows, or a strategy \
                     that cuts windows",
                    strategy.name
                );
                return Err(Error::settings("parallel.strategy", problem));
            }
            Parallel::Groups | Parallel::Scheduled(_) => return Ok(Sharing::Groups),
            Parallel::Cells { per_window: true, .. } => Cut::PerWindow,
            Parallel::Cells { partitioner, .. } => {
                let steps = shared.goal.split().samples(Part::Train);
                let ask = Ask { store: &shared.store, steps, workers, seed: settings.train.seed };
                Cut::Fixed(partition::find(partitioner)?.partition(&ask)?)
            }
        };
        let habits = Habits { both: shared.model.looks_both_ways(), hands_over: shared.memory.is_some() };
        Ok(Sharing::Cells(Shares::new(cut, habits, workers, shared.store.vertices())))
    }

    /// What workers will do in the first epoch.
    ///
    /// `reuse` is the share of a snapshot's cost that a group saves where the group before it had the snapshot, too.
    pub fn plan(&self, shared: &Shared, strategy: &str, workers: usize, reuse: Option<f64>) -> Result<Plan> {
        let (windows, work) = (shared.order(0), probe::work(shared)?);
        let mut settings = shared.settings.clone();
        settings.parallel =
            crate::settings::Parallel { workers, strategy: strategy.into(), ..settings.parallel };
        let at_once = settings.windows_at_once();
        let follows = settings.train.mode == Mode::Truncated;
        // Those of the first epoch; later ones are drawn anew, and are about as many.
        let pairs = |number: usize| {
            let at = shared.losses_at(&windows[number]);
            shared.goal.pairs(&at, number as u64).map_err(|error| match error {
                Error::Graph(error) => error.into(),
                other => kymo_plan::Error::settings("pairs", other.to_string()),
            })
        };
        let store = &shared.store;
        let job = Job { store, windows: &windows, at_once, work: &work, workers, follows, pairs: &pairs };
        let rates = Rates::default();
        if let Sharing::Cells(shares) = self {
            return Ok(price(strategy, &job, Deal::Cells(shares), rates)?);
        }
        let Some(scheduler) = settings.scheduler() else {
            return Ok(price(strategy, &job, Deal::InTurns, rates)?);
        };
        // As if costs had been measured: those that earlier runs left, or those of the cost model.
        let windows = shared.windows();
        let job = Job { windows: &windows, ..job };
        let (costs, closing) = match cached(shared, &windows, workers)? {
            Some(cached) => cached,
            None => (window_seconds(&job, rates)?, closing_seconds(&job, rates)),
        };
        let mut instance = Instance::new(costs, workers);
        (instance.most, instance.overhead) = (settings.parallel.groups, closing);
        if let Some(ratio) = reuse {
            instance.reuse = Reuse::from_ratio(ratio, &windows, &instance.costs)?;
        }
        let found = find(scheduler)?
            .schedule(&instance, &Limit { seed: settings.train.seed, gap: 0.001, ..Limit::default() })?;
        let mut plan = price(strategy, &job, Deal::Scheduled(&found.schedule), rates)?;
        // What groups save each other is known to the scheduler alone.
        (plan.seconds, plan.bound) = (found.seconds, Some(found.bound));
        plan.chart = Some(Gantt::new(&instance, &found.schedule).to_string());
        Ok(plan)
    }

    /// The cells of a worker, where windows are cut.
    pub fn cells(&self, team: &Arc<Team>) -> Option<Cells> {
        match self {
            Sharing::Groups => None,
            Sharing::Cells(shares) => Some(Cells::new(team.clone(), shares.clone())),
        }
    }
}

/// Seconds of windows and of closing an iteration that earlier runs on this machine left, if they may be used.
fn cached(shared: &Shared, windows: &[Range<Step>], workers: usize) -> Result<Option<(Vec<f64>, f64)>> {
    let parallel = &shared.settings.parallel;
    let Some(folder) = kymo_tensor::cache::folder().filter(|_| parallel.cached_costs) else {
        return Ok(None);
    };
    let threads = (rayon::current_num_threads() / workers.max(1)).max(1);
    let key = Key { workers, ..Key::new(shared, threads) };
    // What cannot be read is said, and made anew, by training.
    let (Some(kept), _) = cost_cache::read(&folder, &key) else { return Ok(None) };
    Ok(Some((kept.windows(shared, windows)?, kept.closing)))
}
