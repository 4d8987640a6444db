//! How workers divide the work: the strategy of the settings, applied to the data.

use std::ops::Range;

use kymo_graph::Step;
use kymo_plan::cut::vertex_loads;
use kymo_plan::partition::{self, Ask, Effort, Traffic};
use kymo_plan::price::{Job, Rates, closing_seconds, window_bytes, window_seconds};
use kymo_plan::schedule::{Gantt, Instance, Limit, Reuse, find};
use kymo_plan::strategy::{self, Scheme, Strategy};
use kymo_plan::{Assignment, Cut, ModelNeeds, Plan, Shares, Window, price};

use super::cost_cache::{self, Key};
use super::costs;
use super::probe;
use crate::config::machine::{Need, machine};
use crate::config::{Mode, Order, Parallel, Settings};
use crate::data::Part;
use crate::error::{Error, Result};
use crate::step::{RunContext, check_parameters, needs};

/// How workers divide the work.
#[derive(Clone)]
pub enum Division {
    /// Each trains whole windows.
    Groups,
    /// They train each window together, cut into cells.
    Cells(Shares),
    /// They train each window together, each for vertices of its own, and exchange nothing of it.
    Targets,
}

/// Whether a strategy goes with model, task and settings: truncated windows need the state that the one
/// before left, so they cannot be assigned to different workers. Schedulers may need something that was not
/// built in, and batches of vertices go with some models and tasks.
pub fn is_possible(strategy: &Strategy, context: &RunContext, workers: usize) -> bool {
    let settings = &context.settings;
    if strategy.scheme == Scheme::Targets && context.check_batches(strategy.name, workers).is_err() {
        return false;
    }
    if !strategy.is_built() || workers > 1 && settings.check_stale_with(strategy.name).is_err() {
        return false;
    }
    matches!(strategy.scheme, Scheme::Cells { .. }) || settings.train.mode != Mode::Truncated || workers == 1
}

/// Bytes that METIS takes for a link, about.
const LINK_BYTES: u64 = 100;
/// Links that METIS is given by a plan that is to be there soon: about ten seconds.
const SOON_LINKS: u64 = 4_000_000;
/// Edges that a plan looks at in all: about ten seconds, too.
const SOON_EDGES: f64 = 6e8;
/// What a plan says where rows may be stale.
const AT_MOST: &str =
    "of neighbours, bytes at most: rows that hardly move are not sent again (parallel.stale)";
/// What a plan says where models are averaged.
const NOT_COUNTED: &str = "models are averaged as often as the clock says: what that sends is not counted";
/// Windows that are looked at, at least: the first and the last.
const FEWEST: usize = 2;

/// Some windows that stand for all, spread evenly over time from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    windows: Vec<usize>,
    steps: Vec<Step>,
    of: usize,
    /// The loads of all vertices at these steps, which several strategies go by.
    loads: Vec<u64>,
}

impl Sample {
    /// As many windows as can be looked at soon for strategies of these names; nothing where that is all of
    /// them.
    pub fn of(context: &RunContext, names: &[&str]) -> Result<Option<Sample>> {
        let cuts =
            |name: &&&str| matches!(strategy::find(name), Ok(Strategy { scheme: Scheme::Cells { .. }, .. }));
        let strategies = names.iter().filter(cuts).count();
        let manifest = context.store.manifest();
        let step = manifest.edges as f64 / manifest.steps.max(1) as f64 + manifest.vertices as f64;
        // Some decide by the edges who owns what, and all have their price.
        let window = 2.0 * strategies.max(1) as f64 * step * context.window as f64;
        Sample::with(context, (SOON_EDGES / window.max(1.0)) as usize)
    }

    /// This many windows, at least two; nothing where that is all of them.
    pub fn with(context: &RunContext, count: usize) -> Result<Option<Sample>> {
        let (windows, count) = (context.windows(), count.max(FEWEST));
        if count >= windows.len() {
            return Ok(None);
        }
        let last = windows.len() - 1;
        let chosen: Vec<usize> = (0..count).map(|place| place * last / (count - 1)).collect();
        let steps = |windows: &mut dyn Iterator<Item = &Range<Step>>| {
            windows.cloned().flatten().collect::<std::collections::BTreeSet<Step>>()
        };
        let of = steps(&mut windows.iter()).len();
        let steps = steps(&mut chosen.iter().filter_map(|&number| windows.get(number)));
        let steps: Vec<Step> = steps.into_iter().collect();
        let loads = vertex_loads(&context.store, steps.iter().copied(), None)?;
        Ok(Some(Sample { windows: chosen, steps, of, loads }))
    }

    /// Steps that are looked at, and all steps of windows.
    pub fn counts(&self) -> [usize; 2] {
        [self.steps.len(), self.of]
    }

    fn effort(sample: Option<&Sample>) -> Effort<'_> {
        let room = machine().map_or(u64::MAX, |memory| memory.available / LINK_BYTES);
        match sample {
            Some(sample) => Effort {
                looked: Some(&sample.steps),
                metis_links: room.min(SOON_LINKS),
                loads: Some(&sample.loads),
            },
            None => Effort { metis_links: room, ..Effort::ALL },
        }
    }
}

/// What a plan is asked for.
pub struct Question<'a> {
    /// The name of the strategy.
    pub strategy: &'a str,
    /// How many workers there are.
    pub workers: usize,
    /// The share of a snapshot's cost that a window saves where the window before it at the same worker had
    /// the snapshot, too.
    pub reuse: Option<f64>,
    /// The windows to look at; all of them where there is none.
    pub sample: Option<&'a Sample>,
    /// How fast workers are.
    pub rates: Rates,
}

impl Division {
    /// The division of a strategy among this many workers.
    pub fn new(context: &RunContext, strategy: &str, workers: usize) -> Result<Division> {
        Division::looking_at(context, strategy, workers, None)
    }

    /// As [`Division::new`], with a look at a sample of the windows alone.
    pub fn looking_at(
        context: &RunContext,
        strategy: &str,
        workers: usize,
        sample: Option<&Sample>,
    ) -> Result<Division> {
        let settings = &context.settings;
        let strategy = strategy::find(strategy)?;
        if workers > 1 {
            settings.check_stale_with(strategy.name)?;
        }
        let needs =
            ModelNeeds { out_edges: context.model.uses_out_edges(), carries_state: context.memory.is_some() };
        let cut = match strategy.scheme {
            Scheme::Scheduled(name) if !strategy.is_built() => {
                let problem =
                    format!("{name} was not built in: build Kymo with --features ilp, or choose another");
                return Err(Error::settings("parallel.strategy", problem));
            }
            Scheme::Targets => {
                context.check_batches(strategy.name, workers)?;
                return Ok(Division::Targets);
            }
            Scheme::Groups | Scheme::Scheduled(_) if !is_possible(strategy, context, workers) => {
                let problem = format!(
                    "{} gives windows to different workers, but a truncated window needs the state that the \
                     one before \
                     left; choose windows (--mode), or a strategy that cuts windows",
                    strategy.name
                );
                return Err(Error::settings("parallel.strategy", problem));
            }
            Scheme::Groups | Scheme::Scheduled(_) => return Ok(Division::Groups),
            Scheme::Cells { per_window: true, .. } => Cut::PerWindow,
            Scheme::Cells { partitioner, .. } => {
                let steps = context.goal.split().samples(Part::Train);
                let (store, seed) = (&context.store, settings.train.seed);
                let (effort, partitioner) = (Sample::effort(sample), partition::find(partitioner)?);
                let traffic = match partitioner.weighs_traffic() {
                    true => {
                        // They are made to find out what the model does.
                        check_parameters(context)?;
                        // The same at all workers, which cut the graph each by itself: no pace of a machine.
                        Traffic::of(&probe::work(context)?, needs, Rates::default())
                    }
                    false => Traffic::default(),
                };
                let (window, layers) = (context.window, context.layers());
                let all = Ask::all_of(store, workers, seed);
                let ask = Ask { steps, window, effort, traffic, layers, ..all };
                Cut::Fixed(partitioner.partition(&ask)?)
            }
        };
        Ok(Division::Cells(Shares::new(cut, needs, workers, context.store.vertices())))
    }

    /// Who owns what, where workers share windows.
    pub fn shares(&self) -> Option<&Shares> {
        match self {
            Division::Groups | Division::Targets => None,
            Division::Cells(shares) => Some(shares),
        }
    }

    /// How windows are assigned before a scheduler has decided.
    pub fn assignment(&self, settings: &Settings) -> Assignment {
        let at_once = settings.windows_at_once();
        match self {
            Division::Groups if settings.parallel.order == Order::Runs => Assignment::InRuns(at_once),
            Division::Groups => Assignment::InTurns(at_once),
            Division::Cells(_) | Division::Targets => Assignment::Together(at_once),
        }
    }

    /// What workers will do in the first epoch, and what that costs.
    pub fn plan(&self, context: &RunContext, question: &Question) -> Result<Plan> {
        if !matches!(self, Division::Targets) {
            return self.plan_in(context, question);
        }
        // What batches see follows from the strategy.
        let own = context.with_strategy(question.strategy, question.workers)?;
        let context = own.as_deref().unwrap_or(context);
        context.portions_by(Sample::effort(question.sample))?;
        self.plan_in(context, question)
    }

    fn plan_in(&self, context: &RunContext, question: &Question) -> Result<Plan> {
        let mut plan = self.priced(context, question)?;
        if self.shares().is_some() {
            // What the task has is shared by the workers of a process.
            let task = Need::total(&context.goal.needs(context.model.width()));
            let task = task / context.sharing.workers as u64;
            for share in &mut plan.workers {
                (share.memory, share.most) = (share.memory + task, share.most + task);
            }
        } else {
            // Features and readers are shared by the steps of a worker that has all of them.
            let (least, all) = (Need::total(&needs(context, 1)?), context.sizes()?.all() as u64);
            // Those of some vertices are made anew with every batch.
            let products = match context.vertex_batches() {
                Some(_) => 0,
                None => context.reused()? * (context.store.vertices() * context.store.steps()) as u64,
            };
            for share in &mut plan.workers {
                (share.memory, share.most) = (least, least + all + products);
            }
        }
        let averages = context.settings.averages() && !matches!(self, Division::Cells(_));
        if averages {
            // How often depends on the clock.
            plan.workers.iter_mut().for_each(|share| share.sent.gradients = 0);
        }
        let may_be_stale = context.settings.stale_rule()?.is_some();
        let each = context.memory_of_worker()? as u64;
        for share in &mut plan.workers {
            let all = share.last_rows.take();
            all.filter(|_| may_be_stale).into_iter().for_each(|all| share.keep_last_rows(all, each));
        }
        let keeps = plan.workers.iter().any(|share| share.last_rows.is_some_and(|rows| rows.bytes > 0));
        let at_most = keeps.then(|| AT_MOST.to_owned());
        let known = self.shares().and_then(Shares::note).map(str::to_owned);
        let not_counted = averages.then(|| NOT_COUNTED.to_owned());
        let notes: Vec<String> = known.into_iter().chain(at_most).chain(not_counted).collect();
        let note = (!notes.is_empty()).then(|| notes.join("\n"));
        Ok(Plan { sampled: question.sample.map(Sample::counts), note, ..plan })
    }

    fn priced(&self, context: &RunContext, question: &Question) -> Result<Plan> {
        let Question { strategy, workers, reuse, sample, rates } = *question;
        // They are made to find out what the model does.
        check_parameters(context)?;
        let mut settings = context.settings.clone();
        settings.parallel = Parallel { workers, strategy: strategy.into(), ..settings.parallel };
        let assignment = self.assignment(&settings);
        let mut epochs = match self {
            Division::Targets => context.trained_epochs(workers, assignment),
            _ => context.epochs(workers, assignment),
        };
        // Those of the first epoch; later ones are drawn anew, and are about as many.
        let pairs = |window: &Window| {
            let at = context.losses_at(&window.steps);
            context.goal.pairs(&at, window.salt).map_err(|error| match error {
                Error::Graph(error) => error.into(),
                other => kymo_plan::Error::settings("pairs", other.to_string()),
            })
        };
        let (work, windows) = (probe::work(context)?, context.windows());
        let in_turns = epochs.plan(0);
        let job = Job {
            store: &context.store,
            windows: &windows,
            epoch: &in_turns,
            shares: self.shares(),
            work: &work,
            workers,
            follows: settings.train.mode == Mode::Truncated,
            pairs: &pairs,
            sample: sample.map(|sample| &sample.windows[..]),
            seen: match self {
                Division::Targets => context.extent()?.map(|extent| extent.of_step()),
                _ => None,
            },
            presence: None,
        };
        let Some(scheduler) = settings.scheduler().filter(|_| self.shares().is_none()) else {
            return Ok(price(strategy, &job, rates)?);
        };
        // Those that are told beforehand; otherwise as if costs had been measured: those that earlier runs
        // left, or those of the cost model.
        let known = costs::known(context, workers, rates)?;
        let clock = known.is_none();
        let (costs, closing, measured) = match (known, cached(context, &windows, workers)?) {
            (Some(known), _) => (known.windows, known.closing, known.reuse),
            (None, Some((costs, closing))) => (costs, closing, Reuse::None),
            (None, None) => (window_seconds(&job, rates)?, closing_seconds(&job, rates), Reuse::None),
        };
        // Whether windows fit into memory is checked with the plan as a whole, which says what to do about
        // it.
        let mut instance = instance(costs, closing, &settings);
        instance.reuse = match reuse {
            Some(ratio) => Reuse::from_ratio(ratio, &windows, &instance.costs)?,
            None if settings.shares_windows() => measured,
            None => Reuse::None,
        };
        let limit = Limit { seed: settings.train.seed, gap: 0.001, clock, ..Limit::default() };
        let found = find(scheduler)?.schedule(&instance, &limit)?;
        let chart = Gantt::new(&instance, &found.schedule).to_string();
        epochs.assignment = Assignment::Scheduled(found.schedule);
        let scheduled = epochs.plan(0);
        let mut plan = price(strategy, &Job { epoch: &scheduled, ..job }, rates)?;
        // What windows save each other is known to the scheduler alone.
        (plan.seconds, plan.bound) = (found.seconds, Some(found.bound));
        plan.chart = Some(found.note.map_or(chart.clone(), |note| format!("{note}\n\n{chart}")));
        Ok(plan)
    }
}

/// What a scheduler is asked: windows of these costs, and the seconds that close an iteration.
fn instance(costs: Vec<f64>, closing: f64, settings: &Settings) -> Instance {
    let parallel = &settings.parallel;
    let mut instance = Instance::new(costs, parallel.workers);
    // More than all of them are as many as all of them.
    (instance.most, instance.overhead) = (parallel.groups.min(instance.groups().max(1)), closing);
    instance
}

/// The question for a scheduler, with what windows save each other, the memory that they need and workers
/// have.
pub fn ask(context: &RunContext, costs: Vec<f64>, closing: f64, reuse: Reuse) -> Result<Instance> {
    let (settings, windows) = (&context.settings, context.windows());
    let workers = settings.parallel.workers;
    let epoch = context.epochs(workers, Assignment::InTurns(settings.windows_at_once())).plan(0);
    let none = |_: &Window| Ok(Vec::new());
    let job = Job {
        store: &context.store,
        windows: &windows,
        epoch: &epoch,
        shares: None,
        work: &probe::work(context)?,
        workers,
        follows: false,
        pairs: &none,
        sample: None,
        seen: None,
        presence: None,
    };
    let each = context.memory_of_worker()?;
    let instance = instance(costs, closing, settings).with_memory(window_bytes(&job)?, each as u64);
    Ok(if settings.shares_windows() { Instance { reuse, ..instance } } else { instance })
}

/// Seconds of windows and of closing an iteration that earlier runs on this machine left, if they may be
/// used.
fn cached(context: &RunContext, windows: &[Range<Step>], workers: usize) -> Result<Option<(Vec<f64>, f64)>> {
    let parallel = &context.settings.parallel;
    let Some(folder) = kymo_tensor::cache::folder().filter(|_| parallel.cached_costs) else {
        return Ok(None);
    };
    let threads = (rayon::current_num_threads() / workers.max(1)).max(1);
    let key = Key { workers, ..Key::new(context, threads) };
    // What cannot be read is reported, and made anew, by training.
    let (Some(kept), _) = cost_cache::read(&folder, &key) else { return Ok(None) };
    Ok(Some((kept.windows(context, windows)?, kept.closing)))
}
