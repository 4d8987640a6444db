//! The plan of an epoch: iterations, workers, batches. It is decided here and nowhere else; training runs it,
//! prices and simulations read it, checkpoints keep it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use kymo_graph::Step;
use kymo_graph::random::{Random, shuffle};
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, Drawn, Neighbourhood, Targets, Window};
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

/// Batches of some vertices: each window of an epoch is there as many times as there are parts, one after the
/// other in the order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VertexBatches {
    /// Into how many parts vertices are divided, anew in every epoch.
    pub parts: usize,
    /// How many edges away the model looks.
    pub hops: usize,
    /// What divisions follow from.
    pub seed: u64,
}

/// The stream of random numbers that divides vertices.
const VERTICES: u64 = 0x7D1B;

impl VertexBatches {
    /// The targets and the neighbourhood of a window, told by its number, in an epoch.
    fn of(&self, epoch: usize, number: usize) -> (Targets, Neighbourhood) {
        let seed = Random::new(self.seed).stream(VERTICES).word(epoch as u64);
        let drawn = Drawn { part: number % self.parts, parts: self.parts, seed };
        (Targets::Drawn(drawn), Neighbourhood::Hops(self.hops))
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
    /// How windows are assigned.
    pub assignment: Assignment,
    /// How vertices are divided, where a batch does not have all of them.
    pub batches: Option<VertexBatches>,
}

impl Epochs {
    /// The same with batches of some vertices: each window as many times as there are parts.
    pub fn in_batches(self, batches: VertexBatches) -> Epochs {
        let many = |window: Range<Step>| std::iter::repeat_n(window, batches.parts);
        let windows = self.windows.into_iter().flat_map(many).collect();
        Epochs { windows, batches: Some(batches), ..self }
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
                let windows = (0..self.windows.len()).map(|number| window(number, salt(number)));
                let windows: Vec<Window> = windows.collect();
                let runs = windows.chunks((*at_once).max(1));
                let mut iterations: Vec<Iteration> = runs.map(|windows| self.iteration(windows)).collect();
                if let Some(random) = random(ITERATIONS) {
                    shuffle(&mut iterations, random);
                }
                iterations
            }
            Assignment::InTurns(at_once) | Assignment::Together(at_once) => {
                let mut order: Vec<usize> = (0..self.windows.len()).collect();
                if let Some(random) = random(WINDOWS) {
                    shuffle(&mut order, random);
                }
                let placed = order.into_iter().enumerate();
                let order: Vec<Window> = placed.map(|(place, number)| window(number, salt(place))).collect();
                order.chunks((*at_once).max(1)).map(|windows| self.iteration(windows)).collect()
            }
        };
        let mut plan = EpochPlan { epoch, iterations };
        self.divide(&mut plan);
        plan
    }

    /// Gives batches their targets, where they are not all vertices.
    fn divide(&self, plan: &mut EpochPlan) {
        let Some(batches) = &self.batches else { return };
        let epoch = plan.epoch;
        let all = plan.iterations.iter_mut().flat_map(|iteration| &mut iteration.workers).flatten();
        for batch in all {
            let Some(window) = batch.windows.first() else { continue };
            (batch.targets, batch.neighbourhood) = batches.of(epoch, window.number);
        }
    }

    fn iteration(&self, windows: &[Window]) -> Iteration {
        let mut workers = vec![Vec::new(); self.workers];
        let each = windows.len().div_ceil(self.workers.max(1)).max(1);
        for (place, window) in windows.iter().enumerate() {
            match self.assignment {
                Assignment::InRuns(_) => workers[place / each].push(Batch::whole(window.clone())),
                Assignment::Together(_) => {
                    workers.iter_mut().for_each(|batches| batches.push(Batch::own(window.clone())));
                }
                _ => workers[place % self.workers].push(Batch::whole(window.clone())),
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
            let windows: Vec<Window> = iteration.windows().into_iter().cloned().collect();
            passed += windows.len();
            match passed <= done {
                true => iterations.push(self.iteration(&windows)),
                false => rest.extend(windows),
            }
        }
        iterations.extend(rest.chunks(at_once.max(1)).map(|windows| self.iteration(windows)));
        let mut plan = EpochPlan { epoch: begun.epoch, iterations };
        self.divide(&mut plan);
        plan
    }

    /// How many iterations an epoch has: steps of the optimiser.
    pub fn iterations(&self) -> usize {
        match &self.assignment {
            Assignment::InTurns(at_once) | Assignment::InRuns(at_once) | Assignment::Together(at_once) => {
                self.windows.len().div_ceil((*at_once).max(1))
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
            let parts = !runs.is_empty()
                && runs.iter().all(|targets| matches!(targets, Targets::Some(_)))
                && some.all(|vertex| seen.insert(vertex));
            if !(together || once || parts) {
                let found = runs.len();
                return refuse(format!("window {number} is run {found} times, expected once"));
            }
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(assignment: Assignment, workers: usize, seed: Option<u64>) -> Epochs {
        let windows = (0..7).map(|start| start..start + 3).collect();
        Epochs { windows, workers, seed, assignment, batches: None }
    }

    fn numbers(plan: &EpochPlan) -> Vec<Vec<Vec<usize>>> {
        plan.schedule().iterations
    }

    #[test]
    fn windows_in_turns_go_round_the_workers_and_follow_time_without_a_seed() {
        let made = epochs(Assignment::InTurns(3), 2, None);
        let plan = made.plan(2);
        plan.check(&made.windows, 2).unwrap();
        let expected = vec![vec![vec![0, 2], vec![1]], vec![vec![3, 5], vec![4]], vec![vec![6], vec![]]];
        assert_eq!(numbers(&plan), expected);
        assert_eq!((plan.windows(), made.iterations()), (7, 3));
        let salts: Vec<u64> = plan.iterations[0].windows().iter().map(|window| window.salt).collect();
        assert_eq!(salts, [14, 16, 15], "the place in the order, behind those of earlier epochs");
    }

    #[test]
    fn batches_of_some_vertices_have_every_vertex_of_every_window_once() {
        let batches = VertexBatches { parts: 3, hops: 2, seed: 5 };
        for assignment in [Assignment::InTurns(2), Assignment::InRuns(4)] {
            let made = epochs(assignment, 2, Some(5)).in_batches(batches);
            let plan = made.plan(4);
            plan.check(&made.windows, 2).unwrap();
            assert_eq!(
                (plan.windows(), made.iterations(), made.windows.len()),
                (21, plan.iterations.len(), 21)
            );
            let mut seen = BTreeSet::new();
            let all = |plan: &EpochPlan| -> Vec<Batch> {
                plan.iterations.iter().flat_map(|one| &one.workers).flatten().cloned().collect()
            };
            for batch in all(&plan) {
                assert_eq!(batch.neighbourhood, Neighbourhood::Hops(2));
                for vertex in match batch.targets {
                    Targets::Drawn(drawn) => drawn.of(40),
                    _ => Vec::new(),
                } {
                    assert!(seen.insert((batch.windows[0].steps.clone().min(), vertex)));
                }
            }
            assert_eq!(seen.len(), 7 * 40);
            // Other parts in another epoch, and those that are begun stay what they were.
            let first = |plan: &EpochPlan| all(plan)[0].targets.clone();
            assert_ne!(first(&made.plan(5)), first(&plan));
            let anew = made.dealt_anew(&plan, 6);
            anew.check(&made.windows, 2).unwrap();
            let sorted = |plan: &EpochPlan| {
                let mut all = all(plan);
                all.sort_by_key(|batch| batch.windows[0].number);
                all
            };
            assert_eq!(sorted(&anew), sorted(&plan));
        }
    }

    #[test]
    fn windows_in_runs_are_neighbours_and_their_iterations_come_in_any_order() {
        let made = epochs(Assignment::InRuns(4), 2, None);
        let plan = made.plan(0);
        plan.check(&made.windows, 2).unwrap();
        assert_eq!(numbers(&plan), [[vec![0, 1], vec![2, 3]], [vec![4, 5], vec![6]]]);
        assert_eq!((plan.windows(), made.iterations()), (7, 2));
        let made = epochs(Assignment::InRuns(2), 2, Some(5));
        let sorted = |epoch: usize| {
            let mut iterations = numbers(&made.plan(epoch));
            iterations.sort();
            iterations
        };
        assert!((1..9).all(|epoch| sorted(epoch) == sorted(0)));
        assert!((1..9).any(|epoch| numbers(&made.plan(epoch)) != numbers(&made.plan(0))));
        // Salts follow windows, and are others in every epoch.
        for window in made.plan(3).iterations.iter().flat_map(Iteration::windows) {
            assert_eq!(window.salt, (3 * 7 + window.number) as u64);
        }
        let anew = made.dealt_anew(&made.plan(1), 3);
        anew.check(&made.windows, 2).unwrap();
    }

    #[test]
    fn workers_that_share_windows_all_have_them() {
        let made = epochs(Assignment::Together(1), 3, Some(1));
        let plan = made.plan(0);
        plan.check(&made.windows, 3).unwrap();
        assert_eq!((plan.iterations.len(), plan.windows()), (7, 7));
        for iteration in &plan.iterations {
            assert!(iteration.workers.iter().all(|batches| *batches == iteration.workers[0]));
            assert_eq!((iteration.windows().len(), &iteration.of(0)[0].targets), (1, &Targets::Own));
            assert!(iteration.of(3).is_empty());
        }
        assert_ne!(numbers(&plan), numbers(&made.plan(1)), "orders change from epoch to epoch");
        assert_eq!(plan, made.plan(0));
    }

    #[test]
    fn a_schedule_keeps_its_bins_and_only_the_order_of_iterations_changes() {
        let schedule = Schedule {
            iterations: vec![vec![vec![0, 5], vec![1]], vec![vec![2], vec![3, 4]], vec![vec![6], vec![]]],
        };
        let made = epochs(Assignment::Scheduled(schedule.clone()), 2, Some(3));
        let sorted = |mut iterations: Vec<Vec<Vec<usize>>>| {
            iterations.sort();
            iterations
        };
        for epoch in 0..4 {
            let plan = made.plan(epoch);
            plan.check(&made.windows, 2).unwrap();
            assert_eq!(sorted(numbers(&plan)), sorted(schedule.iterations.clone()));
            assert_eq!(EpochPlan::of_schedule(&schedule).schedule(), schedule);
            for window in plan.iterations.iter().flat_map(Iteration::windows) {
                assert_eq!(window.salt, (epoch * 7 + window.number) as u64);
            }
        }
        assert!((1..9).any(|epoch| numbers(&made.plan(epoch)) != numbers(&made.plan(0))));
    }

    #[test]
    fn wrong_plans_are_refused() {
        let made = epochs(Assignment::InTurns(2), 2, None);
        let good = made.plan(0);
        let change = |change: &dyn Fn(&mut EpochPlan)| {
            let mut plan = good.clone();
            change(&mut plan);
            plan.check(&made.windows, 2).unwrap_err().to_string()
        };
        let twice =
            change(&|plan| plan.iterations[0].workers[1][0] = plan.iterations[0].workers[0][0].clone());
        assert!(twice.contains("window 0 is run 2 times"), "{twice}");
        let gone = change(&|plan| plan.iterations[3].workers[0].clear());
        assert!(gone.contains("window 6 is run 0 times"), "{gone}");
        let unknown = change(&|plan| plan.iterations[0].workers[0][0].windows[0].number = 9);
        assert!(unknown.contains("runs window 9, there are 7"), "{unknown}");
        let moved = change(&|plan| plan.iterations[0].workers[0][0].windows[0].steps = 1..4);
        assert!(moved.contains("steps 1..4 as window 0, which has 0..3"), "{moved}");
        let few = change(&|plan| drop(plan.iterations[1].workers.pop()));
        assert!(few.contains("iteration 1 is for 1 workers, there are 2"), "{few}");
        assert!(good.check(&made.windows, 3).unwrap_err().to_string().contains("there are 3"));
        // Own cells are only complete where every worker runs them.
        let alone = change(&|plan| plan.iterations[0].workers[0][0].targets = Targets::Own);
        assert!(alone.contains("window 0 is run 1 times"), "{alone}");
    }

    #[test]
    fn batches_of_some_vertices_may_share_a_window_but_no_vertex() {
        let made = epochs(Assignment::InTurns(2), 2, None);
        let mut plan = made.plan(0);
        let mut first = plan.iterations[0].workers[0][0].clone();
        first.targets = Targets::Some(vec![0, 2]);
        let second = Batch { targets: Targets::Some(vec![1]), ..first.clone() };
        plan.iterations[0].workers[0] = vec![first.clone(), second];
        plan.check(&made.windows, 2).unwrap();
        assert_eq!(plan.windows(), 7);
        plan.iterations[0].workers[0][1] = first;
        assert!(plan.check(&made.windows, 2).is_err());
    }

    /// The plan of a schedule is that of its windows, and one with a forged number is merely refused.
    #[test]
    fn a_schedule_becomes_a_plan_whatever_its_numbers() {
        let schedule = Schedule { iterations: vec![vec![vec![2, 0], vec![]], vec![vec![1], vec![3]]] };
        let windows = (0..4).map(|group| group..group + 1).collect();
        let assignment = Assignment::Scheduled(schedule.clone());
        let expected = Epochs { windows, workers: 2, seed: None, assignment, batches: None }.plan(0);
        assert_eq!(EpochPlan::of_schedule(&schedule), expected);
        let forged = Schedule { iterations: vec![vec![vec![usize::MAX], vec![1_000_000_000_000_000_000]]] };
        let plan = EpochPlan::of_schedule(&forged);
        assert_eq!(plan.schedule(), forged);
        assert!(plan.check(&[0..1, 1..2], 2).is_err());
    }

    #[test]
    fn a_plan_is_printed_and_serialised() {
        let made = epochs(Assignment::InTurns(2), 2, None);
        let plan = made.plan(0);
        let text = plan.to_string();
        assert!(text.starts_with("epoch 1: 7 windows in 4 iterations\n     0  0-2"), "{text}");
        assert!(text.ends_with("-              \n"), "{text}");
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<EpochPlan>(&json).unwrap(), plan);
        let mut long = plan;
        long.iterations = vec![long.iterations[0].clone(); 30];
        assert!(long.to_string().ends_with("and 10 more\n"));
    }
}
