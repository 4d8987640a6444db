//! What does not change while a model is trained, and what all workers of a process have in common: the
//! settings, the data, the task on it, the inputs and the model.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use kymo_graph::{Step, Store};
use kymo_model::metric::Metric;
use kymo_model::{Asked, Memory, Model, Slot, Update};
use kymo_plan::partition::Effort;
use kymo_plan::shares::OwnersKey;
use kymo_plan::{Ask, Assignment, Epochs, Portions, Shares, VertexBatches};

use super::custom::Custom;
use super::extent::Extent;
use super::{batches, estimate};
use crate::config::bytes::size;
use crate::config::machine::{Need, machine, own_memory};
use crate::config::{Mode, Settings, memory};
use crate::data::{Inputs, Measured, Part, Sizes, known_by, left_to_keep};
use crate::error::{Error, Result};
use crate::task::{self, Goal};
use crate::workers::WorkerGroup;

/// Seconds of metrics from which on a word is said about them.
const SLOW: f64 = 600.0;

/// The share of edges that may change from step to step for products to be made out of each other: beyond it
/// nearly none would be, by the costs in `kymo_tensor::Change`, and to look for what changed costs, too.
const NEXT: f64 = 0.5;

/// The edges that this many snapshots which follow each other have together, each counted once, as a share of
/// those of all, where a part of the edges comes or goes from one to the next: half of it is new.
fn at_once(steps: usize, change: f64) -> f64 {
    let steps = steps.max(1) as f64;
    (1.0 + (steps - 1.0) * change / 2.0) / steps
}

/// The edges that lead to a vertex on average, a loop among them, as attention counts them.
fn mean_degree(store: &Store) -> f64 {
    let manifest = store.manifest();
    let directions = if manifest.directed { 1.0 } else { 2.0 };
    1.0 + directions * manifest.edges as f64 / (manifest.vertices * manifest.steps).max(1) as f64
}

/// The share of the edges that changes from step to step, on average; as far as it is known.
fn change(store: &Store) -> Result<Option<f64>> {
    let counts = store.change_counts(0..store.steps())?;
    // Steps that are stored whole say nothing; where most are, they have little in common.
    let known: Vec<usize> = counts.iter().filter_map(|counts| counts.edges).collect();
    if 2 * known.len() < store.steps() {
        return Ok(None);
    }
    let edges = (store.manifest().edges as f64 / store.steps() as f64).max(1.0);
    Ok(Some(known.iter().sum::<usize>() as f64 / known.len() as f64 / edges))
}

/// Everything that does not change while a model is trained.
pub struct RunContext {
    /// What decides what is computed.
    pub settings: Settings,
    /// The data.
    pub store: Arc<Store>,
    /// The task on the data.
    pub goal: Box<dyn Goal>,
    /// How it is judged: the metric that decides which epoch is best comes first.
    pub metrics: Vec<&'static dyn Metric>,
    /// What is known of the vertices.
    pub inputs: Arc<Inputs>,
    /// The model.
    pub model: Box<dyn Model>,
    /// What it hands from one window to the next.
    pub memory: Option<Memory>,
    /// Steps of a window.
    pub window: usize,
    /// The most windows that a worker runs together, and the most steps that they have.
    pub together: [usize; 2],
    /// Whether few edges change from snapshot to snapshot, so that it is worth going through those of several
    /// at once.
    pub alike: bool,
    /// The share of edges that changes from step to step, where products of a snapshot may be made out of
    /// those of the one before.
    pub increments: Option<f64>,
    /// How they are.
    pub update: Update,
    /// What batches have, where it is not one window with all vertices.
    pub batches: Option<VertexBatches>,
    /// Who else uses the memory that the process was given.
    pub sharing: Sharing,
    /// Bytes that the process had to itself before anything was opened: its program, and MPI where it has
    /// joined others.
    had: usize,
    needs: OnceLock<Vec<Need>>,
    asked: OnceLock<(Asked, u64)>,
    buffers: OnceLock<[u64; 2]>,
    known_by: OnceLock<Vec<f32>>,
    extent: OnceLock<Extent>,
    portions: OnceLock<Portions>,
}

/// Who uses what memory there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Workers of this process, which divide `run.memory` among them.
    pub workers: usize,
    /// Processes of this machine, which divide what the machine has.
    pub processes: usize,
}

impl RunContext {
    /// Opens everything; fails where settings and data do not go together.
    pub fn open(settings: Settings, store: Arc<Store>) -> Result<Arc<RunContext>> {
        RunContext::open_with(settings, store, &Custom::default())
    }

    /// Opens everything without a look at the features, which would read the whole store: for plans, which
    /// ask how many numbers there are and not which.
    pub fn open_to_plan(settings: Settings, store: Arc<Store>) -> Result<Arc<RunContext>> {
        RunContext::make(settings, store, &Custom::default(), None, None, Inputs::unread)
    }

    /// Opens everything with a model or a task of the caller's own.
    pub fn open_with(settings: Settings, store: Arc<Store>, custom: &Custom) -> Result<Arc<RunContext>> {
        RunContext::make(settings, store, custom, None, None, Inputs::new)
    }

    /// The same for a process, with the others that it has come here with, if any, and for a model that has
    /// learnt from data of which something was measured.
    pub fn open_among(
        settings: Settings,
        store: Arc<Store>,
        custom: &Custom,
        sharing: Sharing,
        group: Option<&WorkerGroup>,
        measured: Option<&Measured>,
    ) -> Result<Arc<RunContext>> {
        let inputs = |store: &Store, settings: &Settings, train| {
            Inputs::among(store, settings, train, group, measured)
        };
        RunContext::make(settings, store, custom, Some(sharing), measured, inputs)
    }

    /// What was measured of the data.
    pub fn measured(&self) -> Measured {
        Measured::of(&self.inputs, self.goal.measured())
    }

    fn make(
        settings: Settings,
        store: Arc<Store>,
        custom: &Custom,
        sharing: Option<Sharing>,
        measured: Option<&Measured>,
        inputs: impl FnOnce(&Store, &Settings, Range<Step>) -> Result<Inputs>,
    ) -> Result<Arc<RunContext>> {
        let had = own_memory();
        let metrics = custom.check(&settings)?;
        let mut goal = custom.task(&settings.task.name)?.open(&store, &settings)?;
        if let Some(measured) = measured
            && !goal.adopt(&measured.task)
        {
            return Err(measured.damaged(&settings.task.name));
        }
        task::check_parts(&*goal, &settings)?;
        let window = match settings.train.mode {
            Mode::Sequence => goal.split().samples(Part::Train).len(),
            _ => settings.train.window,
        };
        let inputs = inputs(&store, &settings, goal.split().samples(Part::Train))?;
        let model = custom.model(&settings.model.name, &settings.config(inputs.width(), window))?;
        let memory = model.memory();
        if settings.train.mode == Mode::Truncated && memory.is_none() {
            let name = &settings.model.name;
            let problem = format!("{name} sees a window at a time and hands nothing over; choose windows");
            return Err(Error::settings("train.mode", problem));
        }
        let batches = batches::batches(&settings, &store, &*model, &*goal)?;
        let windows = goal.split().windows(&settings).len();
        let most = match &batches {
            None => settings.windows_of_worker(),
            Some(_) if !settings.may_share() => 1,
            Some(batches) if batches.division() == 1 => {
                settings.windows_of_worker().saturating_mul(batches.windows)
            }
            // Batches of some vertices see other ones, and have nothing in common.
            Some(batches) => batches.windows,
        };
        let most = most.min(windows).max(1);
        let stride = settings.train.stride;
        // Two windows share whatever they have in common; more are expected to follow each other.
        let apart = (most - 1).saturating_mul(stride);
        let follow = window.saturating_add(apart);
        let span = match &batches {
            // Those of a batch of some vertices do follow each other.
            Some(batches) if batches.division() > 1 => follow,
            _ => follow.max(window.saturating_mul(2).saturating_sub(1)),
        };
        let together = [most, if most == 1 { window } else { span.min(store.steps()) }];
        // Where nobody has fitted it, neither way is known to be quicker: each snapshot by itself, then.
        let even = settings.parallel.known_break_even()?.map_or(0.0, |even| even.at(mean_degree(&store)));
        let is_alike = |change| at_once(together[1], change) <= even;
        let is_whole = batches.as_ref().is_none_or(|batches| batches.division() == 1);
        let may = is_whole && settings.parallel.increments;
        let changed = if may { change(&store)? } else { None };
        let (recompute, costs) = (settings.parallel.recompute, settings.parallel.known_change_costs()?);
        let alike = !recompute && changed.is_some_and(is_alike);
        let increments = changed.filter(|&change| change <= NEXT);
        let update = if recompute { Update::Rows } else { Update::Entries(costs.unwrap_or_default()) };
        // All workers are threads of this process where nothing is said.
        let alone = Sharing { workers: settings.parallel.workers.max(1), processes: 1 };
        Ok(Arc::new(RunContext {
            sharing: sharing.unwrap_or(alone),
            settings,
            store,
            goal,
            metrics,
            inputs: Arc::new(inputs),
            model,
            memory,
            window,
            together,
            alike,
            increments,
            update,
            batches,
            had,
            needs: OnceLock::new(),
            asked: OnceLock::new(),
            buffers: OnceLock::new(),
            known_by: OnceLock::new(),
            extent: OnceLock::new(),
            portions: OnceLock::new(),
        }))
    }

    /// The numbers that stand for the vertices in a checkpoint; found out once.
    pub fn known_by(&self) -> Result<&[f32]> {
        if let Some(known) = self.known_by.get() {
            return Ok(known);
        }
        let known = known_by(&self.store.ids()?);
        Ok(self.known_by.get_or_init(|| known))
    }

    /// What training on the host needs at least, with this many windows at once; found out once.
    pub fn needs(&self, at_once: usize) -> Result<&[Need]> {
        if let Some(needs) = self.needs.get() {
            return Ok(needs);
        }
        let needs = estimate::needs(self, at_once)?;
        Ok(self.needs.get_or_init(|| needs))
    }

    /// What the model asks of snapshots; found out once.
    pub fn asked(&self) -> Result<Asked> {
        Ok(self.asked_and_kept()?.0)
    }

    /// Bytes of products that may be kept for each vertex and step.
    pub fn reused(&self) -> Result<u64> {
        Ok(self.asked_and_kept()?.1)
    }

    fn asked_and_kept(&self) -> Result<(Asked, u64)> {
        if let Some(&asked) = self.asked.get() {
            return Ok(asked);
        }
        let asked = estimate::asked(self)?;
        Ok(*self.asked.get_or_init(|| asked))
    }

    /// Bytes of buffers that a window takes for each vertex, and whatever their number; found out once.
    pub fn buffers(&self) -> Result<[u64; 2]> {
        if let Some(&buffers) = self.buffers.get() {
            return Ok(buffers);
        }
        let buffers = estimate::buffers(self)?;
        Ok(*self.buffers.get_or_init(|| buffers))
    }

    /// The most steps that a worker has at a time.
    pub fn span(&self) -> usize {
        self.together[1]
    }

    /// What snapshots take.
    pub fn sizes(&self) -> Result<Sizes> {
        Sizes::new(&self.store, &self.inputs, self.asked()?, self.span())
    }

    /// Bytes that a worker may keep snapshots and products in: what `run.memory` and the machine have beside
    /// the least that it needs, by its plan, or as far as that is known, and beside what the process had when
    /// it began. That last part refuses nothing: where little was given, nothing is kept.
    pub fn room_to_keep(&self, planned: Option<u64>) -> Result<usize> {
        let workers = self.sharing.workers;
        let found = || self.needs.get().map(|needs| Need::total(needs) as usize / workers);
        let given = self.memory_of_worker()?;
        let Some(least) = planned.map(|least| least as usize).or_else(found) else { return Ok(given) };
        let held = self.goal.held_bytes() as usize / workers;
        let given = match self.settings.run.memory == "auto" {
            true => given,
            false => left_to_keep(self.memory_of_process()?, self.had, workers, least + held),
        };
        let available = machine().map_or(usize::MAX, |memory| memory.available as usize);
        let available = available / self.sharing.processes / workers;
        Ok(given.min(available.saturating_sub(least)))
    }

    /// Bytes that this process may take: what was said, or its share of what the machine has.
    pub fn memory_of_process(&self) -> Result<usize> {
        let setting = &self.settings.run.memory;
        let given = memory(setting)?;
        Ok(if setting == "auto" { given / self.sharing.processes } else { given })
    }

    /// Bytes that a worker of this process may take.
    pub fn memory_of_worker(&self) -> Result<usize> {
        Ok(self.memory_of_process()? / self.sharing.workers)
    }

    /// A word about metrics that would take long, where some do: about how long, and what takes less.
    pub fn slow_metrics(&self) -> Option<String> {
        // A pair is a pass over the hidden columns, and a place in a ranking.
        let pairs = self.goal.scored_pairs(&self.metrics);
        let threads = rayon::current_num_threads().max(1) as f64;
        let seconds = pairs * (2e-9 + 1e-10 * self.model.width() as f64) / threads;
        (seconds > SLOW).then(|| {
            format!(
                "metrics over all pairs score about {pairs:.1e} of them in a validation and a test: about \
                 {:.1} h each time; mrr-tgb, auc and average-precision (task.metrics) look at \
                 link.evaluate_positives links with link.evaluate_negatives others each instead",
                seconds / 3600.0
            )
        })
    }

    /// The metric that decides which epoch is best.
    pub fn deciding(&self) -> &'static dyn Metric {
        // Every task has one: `metrics_of` sees to that.
        self.metrics[0]
    }

    /// Everything that is learnt.
    pub fn slots(&self) -> Vec<Slot> {
        [self.model.slots(), self.inputs.slots(), self.goal.slots(self.model.width())].concat()
    }

    /// The windows of an epoch.
    pub fn windows(&self) -> Vec<Range<Step>> {
        self.goal.split().windows(&self.settings)
    }

    /// How many times as many parts of snapshots a worker has in all windows as in those of an epoch: others
    /// are evaluated.
    pub fn evaluated_too(&self, shares: &Shares, rank: usize) -> f64 {
        let parts = |windows: &[Range<Step>]| {
            let keys = windows
                .iter()
                .flat_map(|window| window.clone().map(move |t| (t, shares.structure(window, t).key())));
            let elsewhere = |key: &OwnersKey| matches!(key, OwnersKey::One(other) if *other != rank);
            keys.filter(|(_, key)| !elsewhere(key)).collect::<BTreeSet<_>>().len()
        };
        let mut windows = self.windows();
        let trained = parts(&windows);
        let samples = [Part::Validation, Part::Test].map(|part| self.goal.split().samples(part));
        windows.extend(samples.into_iter().flatten().map(|sample| match self.goes_through() {
            true => sample..sample + 1,
            false => (sample + 1).saturating_sub(self.window)..sample + 1,
        }));
        parts(&windows) as f64 / trained.max(1) as f64
    }

    /// Edges of each step.
    pub fn edges(&self) -> Result<Vec<f64>> {
        (0..self.store.steps()).map(|t| Ok(self.store.edges(t)? as f64)).collect()
    }

    /// What the plans of epochs follow from, where windows are assigned to this many workers in this way.
    pub fn epochs(&self, workers: usize, assignment: Assignment) -> Epochs {
        // A state that is handed over follows time.
        let seed = (self.settings.train.mode == Mode::Windows).then_some(self.settings.train.seed);
        Epochs { windows: self.windows(), workers, seed, assignment, batches: None }
    }

    /// The same as training goes through them: in the batches that the settings ask for.
    pub fn trained_epochs(&self, workers: usize, assignment: Assignment) -> Epochs {
        let epochs = self.epochs(workers, assignment);
        match self.batches {
            Some(batches) => epochs.in_batches(batches),
            None => epochs,
        }
    }

    /// How large batches of some vertices are, where a batch does not have all of them; found out once.
    pub fn extent(&self) -> Result<Option<Extent>> {
        let Some(batches) = self.vertex_batches() else { return Ok(None) };
        if let Some(&extent) = self.extent.get() {
            return Ok(Some(extent));
        }
        let extent = Extent::of(batches, self)?;
        Ok(Some(*self.extent.get_or_init(|| extent)))
    }

    /// Bytes of batches that a worker keeps: none where they never come again.
    pub fn reservoir(&self) -> Result<usize> {
        let room = size("run.reservoir", &self.settings.run.reservoir)?;
        let is_useful = |batches: &VertexBatches| batches.owners.is_some() && batches.come_again();
        Ok(if self.vertex_batches().is_some_and(is_useful) { room } else { 0 })
    }

    /// How vertices are divided, where a batch does not have all of them.
    pub fn vertex_batches(&self) -> Option<&VertexBatches> {
        self.batches.as_ref().filter(|batches| batches.division() > 1)
    }

    /// The vertices that each worker trains on, where none exchanges rows with another; found out once.
    pub fn portions(&self) -> Result<Option<&Portions>> {
        self.portions_by(Effort::ALL)
    }

    /// The same by a look at some of the steps alone, where nobody has asked before.
    pub(crate) fn portions_by(&self, effort: Effort<'_>) -> Result<Option<&Portions>> {
        let Some(owners) = self.batches.as_ref().and_then(|batches| batches.owners) else {
            return Ok(None);
        };
        if let Some(portions) = self.portions.get() {
            return Ok(Some(portions));
        }
        let steps = self.goal.split().samples(Part::Train);
        let all = Ask::all_of(&self.store, owners, self.settings.train.seed);
        let ask = Ask { steps, window: self.window, effort, layers: self.layers(), ..all };
        let portions = Portions::new(&ask)?;
        Ok(Some(self.portions.get_or_init(|| portions)))
    }

    /// This one with another strategy, to plan with; nothing where it is that already.
    pub(crate) fn with_strategy(&self, strategy: &str, workers: usize) -> Result<Option<Arc<RunContext>>> {
        let parallel = &self.settings.parallel;
        if parallel.strategy == strategy && parallel.workers == workers {
            return Ok(None);
        }
        let mut settings = self.settings.clone();
        (settings.parallel.strategy, settings.parallel.workers) = (strategy.into(), workers);
        RunContext::open_to_plan(settings, self.store.clone()).map(Some)
    }

    /// Whether batches can be made as a strategy has them; the error says why not.
    pub fn check_batches(&self, strategy: &str, workers: usize) -> Result<()> {
        let mut settings = self.settings.clone();
        (settings.parallel.strategy, settings.parallel.workers) = (strategy.into(), workers);
        batches::batches(&settings, &self.store, &*self.model, &*self.goal).map(drop)
    }

    /// How many edges away the model looks, about where it looks farther with every step.
    pub fn layers(&self) -> usize {
        let model = &self.settings.model;
        self.model.hops().unwrap_or(model.layers.saturating_mul(model.blocks)).max(1)
    }

    /// The places of a window at which its loss is taken, and their steps.
    pub fn losses_at(&self, window: &Range<Step>) -> Vec<(usize, Step)> {
        let mut at: Vec<(usize, Step)> = window.clone().enumerate().collect();
        if !self.settings.loss_at_all() {
            at.drain(..at.len().saturating_sub(1));
        }
        at
    }

    /// Whether samples are evaluated by going through all steps from the first, instead of through a window
    /// each.
    pub fn goes_through(&self) -> bool {
        self.settings.train.mode != Mode::Windows && self.memory.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Parallel;

    /// As the benchmark has it: four snapshots up to a fifth of changed edges, eight up to a third and more.
    #[test]
    fn the_more_snapshots_the_more_may_change() {
        let even = Parallel::default().known_break_even().unwrap().unwrap();
        let pays = |steps: usize, change: f64| at_once(steps, change) <= even.at(10.0);
        assert!(pays(4, 0.2) && !pays(4, 0.3) && pays(8, 0.3) && !pays(8, 0.6));
        assert!(!pays(2, 0.0) && !pays(3, 0.05) && !pays(0, 0.0) && pays(100, 0.6));
        assert_eq!(at_once(5, 0.5), 0.4);
    }
}
