//! The plan of an epoch: iterations, workers, batches. It is decided here and nowhere else; training runs it,
//! prices and simulations read it, checkpoints keep it.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use kymo_graph::Step;
use kymo_graph::random::{Random, shuffle};
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, Drawn, Neighbourhood, Portion, Targets, Window};
use crate::error::{Error, Result};
use crate::schedule::Schedule;

/// The stream of random numbers that shuffles windows.
const WINDOWS: u64 = 0x3194;

/// The stream of random numbers that shuffles iterations.
const ITERATIONS: u64 = 0x17E8;

/// What ends with one step of the optimiser: the batches of each worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iteration {
    /// The batches of each worker, in the order in which it runs them.
    pub workers: Vec<Vec<Batch>>,
}

impl Iteration {
    /// The windows of all workers, each once, in the order of the first worker that runs it.
    pub fn windows(&self) -> Vec<&Window> {
        let mut seen = BTreeSet::new();
        let all = self.workers.iter().flatten().flat_map(|batch| &batch.windows);
        all.filter(|window| seen.insert(window.number)).collect()
    }

    /// The windows of each batch; a batch that several workers share is there once.
    fn batches(&self) -> Vec<Vec<Window>> {
        let mut seen = BTreeSet::new();
        let all = self.workers.iter().flatten();
        let once = all.filter(|batch| batch.windows.first().is_some_and(|first| seen.insert(first.number)));
        once.map(|batch| batch.windows.clone()).collect()
    }

    /// The batches of a worker; none where there is no such worker.
    pub fn of(&self, worker: usize) -> &[Batch] {
        self.workers.get(worker).map_or(&[], Vec::as_slice)
    }
}

/// What all workers do in one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochPlan {
    /// The epoch, counted from 0.
    pub epoch: usize,
    /// The iterations in the order in which they are run.
    pub iterations: Vec<Iteration>,
}

/// How windows are assigned to workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// Whole windows in turns, this many in an iteration.
    InTurns(usize),
    /// Whole windows that follow each other, this many in an iteration: each worker has some that are next to
    /// each other, and iterations come in random order.
    InRuns(usize),
    /// All workers run the same window, each its own cells; this many windows in an iteration.
    Together(usize),
    /// Whole windows as a scheduler has them.
    Scheduled(Schedule),
}

/// Batches of some vertices in some windows (DynaHB, section 3): each window of an epoch is there as many
/// times as there are parts, one after the other in the order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VertexBatches {
    /// Into how many parts vertices are divided, anew in every epoch.
    pub parts: usize,
    /// How many windows that follow each other a batch has; the last ones of an epoch may be fewer.
    pub windows: usize,
    /// How many edges away the model looks.
    pub hops: usize,
    /// What divisions follow from.
    pub seed: u64,
    /// How many owners have vertices of their own, which each divides; nothing where all are divided
    /// together.
    pub owners: Option<usize>,
    /// Whether the division of the first epoch comes again in every other one, with its batches in another
    /// order.
    pub again: bool,
}

/// The stream of random numbers that divides vertices.
const VERTICES: u64 = 0x7D1B;

impl VertexBatches {
    /// The targets and the neighbourhood of a window, told by its number, at a worker in an epoch.
    fn of(&self, epoch: usize, number: usize, worker: usize) -> (Targets, Neighbourhood) {
        let division = if self.again { 0 } else { epoch as u64 };
        let seed = Random::new(self.seed).stream(VERTICES).word(division);
        let drawn = Drawn { part: number % self.parts, parts: self.parts, seed };
        let targets = match self.owners {
            Some(owners) => Targets::Portion(Portion { owner: worker, owners, drawn }),
            None => Targets::Drawn(drawn),
        };
        (targets, Neighbourhood::Hops(self.hops))
    }

    /// Whether the batches of an epoch are those of every other one.
    pub fn come_again(&self) -> bool {
        self.again || self.parts <= 1
    }

    /// Into how many batches the vertices of a window are divided, over all workers.
    pub fn division(&self) -> usize {
        self.parts.max(1).saturating_mul(self.owners.unwrap_or(1).max(1))
    }
}

/// What the plans of all epochs follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The windows of an epoch, in the order of time.
    pub windows: Vec<Range<Step>>,
    /// How many workers there are.
    pub workers: usize,
    /// What random orders follow from; `None` where windows follow time, because each needs the state before
    /// it.
    pub seed: Option<u64>,
    /// How windows are assigned; where batches have several, or some vertices of them, how batches are.
    pub assignment: Assignment,
    /// What batches have, where it is not one window with all vertices.
    pub batches: Option<VertexBatches>,
}

impl Epochs {
    /// The same with batches of some vertices: each window as many times as there are parts.
    pub fn in_batches(self, batches: VertexBatches) -> Epochs {
        let many = |window: Range<Step>| std::iter::repeat_n(window, batches.parts);
        let windows = self.windows.into_iter().flat_map(many).collect();
        Epochs { windows, batches: Some(batches), ..self }
    }

    /// The numbers of the windows of each batch, in the order of time.
    fn batches(&self) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.windows.len()).collect();
        let Some(VertexBatches { parts, windows, .. }) = self.batches else {
            return all.into_iter().map(|number| vec![number]).collect();
        };
        let parts = parts.max(1);
        let of = |(run, part): (&[usize], usize)| run.iter().copied().skip(part).step_by(parts).collect();
        let runs = all.chunks(parts.saturating_mul(windows).max(1));
        runs.flat_map(|run| (0..parts).map(move |part| (run, part))).map(of).collect()
    }

    /// The plan of an epoch. The order of windows, or of a schedule's iterations, changes from epoch to
    /// epoch.
    pub fn plan(&self, epoch: usize) -> EpochPlan {
        let random =
            |stream: u64| self.seed.map(|seed| Random::new(seed).stream(stream).stream(epoch as u64));
        let salt = |number: usize| (epoch * self.windows.len() + number) as u64;
        let window = |number: usize, salt: u64| Window { number, steps: self.windows[number].clone(), salt };
        let iterations = match &self.assignment {
            Assignment::Scheduled(schedule) => {
                let bin = |bin: &Vec<usize>| {
                    bin.iter().map(|&number| Batch::whole(window(number, salt(number)))).collect()
                };
                let iteration =
                    |bins: &Vec<Vec<usize>>| Iteration { workers: bins.iter().map(bin).collect() };
                let mut iterations: Vec<Iteration> = schedule.iterations.iter().map(iteration).collect();
                if let Some(random) = random(ITERATIONS) {
                    shuffle(&mut iterations, random);
                }
                iterations
            }
            Assignment::InRuns(at_once) => {
                let batch = |numbers: Vec<usize>| -> Vec<Window> {
                    numbers.into_iter().map(|number| window(number, salt(number))).collect()
                };
                let batches: Vec<Vec<Window>> = self.batches().into_iter().map(batch).collect();
                let runs = batches.chunks((*at_once).max(1));
                let mut iterations: Vec<Iteration> = runs.map(|batches| self.iteration(batches)).collect();
                if let Some(random) = random(ITERATIONS) {
                    shuffle(&mut iterations, random);
                }
                iterations
            }
            Assignment::InTurns(at_once) | Assignment::Together(at_once) => {
                let mut order = self.batches();
                if let Some(random) = random(WINDOWS) {
                    shuffle(&mut order, random);
                }
                let mut places = 0..;
                let mut placed = |number: usize| window(number, salt(places.next().unwrap_or_default()));
                let mut batch =
                    |numbers: Vec<usize>| -> Vec<Window> { numbers.into_iter().map(&mut placed).collect() };
                let order: Vec<Vec<Window>> = order.into_iter().map(&mut batch).collect();
                order.chunks((*at_once).max(1)).map(|batches| self.iteration(batches)).collect()
            }
        };
        let mut plan = EpochPlan { epoch, iterations };
        self.divide(&mut plan);
        plan
    }

    /// Gives batches their targets, where they are not all vertices.
    fn divide(&self, plan: &mut EpochPlan) {
        let Some(batches) = self.batches.as_ref().filter(|batches| batches.division() > 1) else { return };
        let epoch = plan.epoch;
        for iteration in &mut plan.iterations {
            for (worker, all) in iteration.workers.iter_mut().enumerate() {
                for batch in all {
                    let Some(window) = batch.windows.first() else { continue };
                    (batch.targets, batch.neighbourhood) = batches.of(epoch, window.number, worker);
                }
            }
        }
    }

    fn iteration(&self, batches: &[Vec<Window>]) -> Iteration {
        let mut workers = vec![Vec::new(); self.workers];
        let each = batches.len().div_ceil(self.workers.max(1)).max(1);
        for (place, windows) in batches.iter().enumerate() {
            let batch = Batch::of(windows.clone());
            match self.assignment {
                Assignment::InRuns(_) => workers[place / each].push(batch),
                Assignment::Together(_) => {
                    let own = Batch { targets: Targets::Own, ..batch };
                    workers.iter_mut().for_each(|batches| batches.push(own.clone()));
                }
                _ => workers[place % self.workers].push(batch),
            }
        }
        Iteration { workers }
    }

    /// The plan of an epoch that other workers have begun, or that was begun in another way, of which `done`
    /// windows are done: the rest is dealt anew, in the same order.
    pub fn dealt_anew(&self, begun: &EpochPlan, done: usize) -> EpochPlan {
        let at_once = match self.assignment {
            Assignment::InTurns(at_once) | Assignment::InRuns(at_once) | Assignment::Together(at_once) => {
                at_once
            }
            Assignment::Scheduled(_) => self.workers,
        };
        let (mut iterations, mut rest, mut passed) = (Vec::new(), Vec::new(), 0);
        for iteration in &begun.iterations {
            let batches = iteration.batches();
            passed += batches.iter().map(Vec::len).sum::<usize>();
            match passed <= done {
                true => iterations.push(self.iteration(&batches)),
                false => rest.extend(batches),
            }
        }
        iterations.extend(rest.chunks(at_once.max(1)).map(|batches| self.iteration(batches)));
        let mut plan = EpochPlan { epoch: begun.epoch, iterations };
        self.divide(&mut plan);
        plan
    }

    /// How many iterations an epoch has: steps of the optimiser.
    pub fn iterations(&self) -> usize {
        match &self.assignment {
            Assignment::InTurns(at_once) | Assignment::InRuns(at_once) | Assignment::Together(at_once) => {
                self.batches().len().div_ceil((*at_once).max(1))
            }
            Assignment::Scheduled(schedule) => schedule.iterations.len(),
        }
    }
}

impl EpochPlan {
    /// The plan of a schedule in its own order, for groups of which nothing but a number is known.
    pub fn of_schedule(schedule: &Schedule) -> EpochPlan {
        // Numbers may come from a file and be anything: nothing is as long as they are high.
        let batch = |&number: &usize| {
            let steps = number..number.saturating_add(1);
            Batch::whole(Window { number, steps, salt: number as u64 })
        };
        let bin = |bin: &Vec<usize>| bin.iter().map(batch).collect();
        let iteration = |bins: &Vec<Vec<usize>>| Iteration { workers: bins.iter().map(bin).collect() };
        EpochPlan { epoch: 0, iterations: schedule.iterations.iter().map(iteration).collect() }
    }

    /// The numbers of the windows that each worker runs in each iteration.
    pub fn schedule(&self) -> Schedule {
        let worker = |batches: &Vec<Batch>| {
            batches.iter().flat_map(|batch| &batch.windows).map(|window| window.number).collect()
        };
        let iteration = |iteration: &Iteration| iteration.workers.iter().map(worker).collect();
        Schedule { iterations: self.iterations.iter().map(iteration).collect() }
    }

    /// How many windows it has, each counted once.
    pub fn windows(&self) -> usize {
        self.iterations.iter().map(|iteration| iteration.windows().len()).sum()
    }

    /// Fails unless every window of an epoch is run once, by these workers; says what is wrong.
    ///
    /// Batches of some vertices may come back to a window: then its targets must be different ones.
    pub fn check(&self, windows: &[Range<Step>], workers: usize) -> Result<()> {
        let refuse = |problem: String| Err(Error::settings("plan", problem));
        let mut runs: Vec<Vec<&Targets>> = vec![Vec::new(); windows.len()];
        for (number, iteration) in self.iterations.iter().enumerate() {
            if iteration.workers.len() != workers {
                let found = iteration.workers.len();
                return refuse(format!("iteration {number} is for {found} workers, there are {workers}"));
            }
            for (worker, batch) in
                iteration.workers.iter().enumerate().flat_map(|(w, all)| all.iter().map(move |b| (w, b)))
            {
                batch.check()?;
                for window in &batch.windows {
                    let at = format!("worker {worker} in iteration {number}");
                    match windows.get(window.number) {
                        Some(steps) if *steps == window.steps => runs[window.number].push(&batch.targets),
                        Some(steps) => {
                            let (found, number) = (&window.steps, window.number);
                            return refuse(format!(
                                "{at} has steps {found:?} as window {number}, which has {steps:?}"
                            ));
                        }
                        None => {
                            let (number, count) = (window.number, windows.len());
                            return refuse(format!("{at} runs window {number}, there are {count}"));
                        }
                    }
                }
            }
        }
        for (number, runs) in runs.iter().enumerate() {
            let whole = |targets: &&&Targets| matches!(targets, Targets::All | Targets::Drawn(_));
            let together = runs.len() == workers && runs.iter().all(|targets| **targets == Targets::Own);
            let once = runs.len() == 1 && runs.iter().all(|targets| whole(&targets));
            let mut some = runs.iter().flat_map(|targets| match targets {
                Targets::Some(vertices) => &vertices[..],
                _ => &[],
            });
            let mut seen = BTreeSet::new();
            let portions = is_each_portion_once(runs);
            let parts = !runs.is_empty()
                && runs.iter().all(|targets| matches!(targets, Targets::Some(_)))
                && some.all(|vertex| seen.insert(vertex));
            if !(together || once || portions || parts) {
                let found = runs.len();
                return refuse(format!("window {number} is run {found} times, expected once"));
            }
        }
        Ok(())
    }
}

/// Whether these are the portions of all owners, each once.
fn is_each_portion_once(runs: &[&Targets]) -> bool {
    let Some(Targets::Portion(first)) = runs.first() else { return false };
    let mut owners = BTreeSet::new();
    let is_alike = |targets: &&Targets| match targets {
        Targets::Portion(one) => {
            (one.owners, one.drawn) == (first.owners, first.drawn) && owners.insert(one.owner)
        }
        _ => false,
    };
    runs.iter().all(is_alike) && runs.len() == first.owners
}

/// The worker that evaluates a sample, where each sees whole windows: they take turns, a run of samples each.
pub fn evaluator(sample: Step, workers: usize, run: usize) -> usize {
    sample / run.max(1) % workers.max(1)
}

/// Iterations that are printed; more are counted.
const SHOWN: usize = 20;

impl fmt::Display for EpochPlan {
    /// One line for each iteration: of each worker, the first and the last step of its windows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (windows, iterations) = (self.windows(), self.iterations.len());
        writeln!(f, "epoch {}: {windows} windows in {iterations} iterations", self.epoch + 1)?;
        for (number, iteration) in self.iterations.iter().enumerate().take(SHOWN) {
            write!(f, "{number:>6}")?;
            for batches in &iteration.workers {
                let steps = |window: &Window| format!("{}-{}", window.steps.start, window.steps.end - 1);
                let all: Vec<String> = batches.iter().flat_map(|batch| &batch.windows).map(steps).collect();
                write!(f, "  {:<15}", if all.is_empty() { "-".into() } else { all.join(" ") })?;
            }
            writeln!(f)?;
        }
        match self.iterations.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "   and {more} more"),
        }
    }
}
