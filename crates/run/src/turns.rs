//! The turns of an epoch: which windows make an iteration, and who trains them.

use std::ops::Range;

use kymo_graph::Step;
use kymo_plan::schedule::Schedule;

use crate::random::{Random, shuffle};
use crate::shared::Shared;

/// The stream of random numbers that shuffles iterations.
const ITERATIONS: u64 = 0x17E8;

/// A window that is trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its steps.
    pub window: Range<Step>,
    /// What its random choices follow from.
    pub salt: u64,
    /// Who trains it, where windows are dealt out.
    pub worker: usize,
}

/// The iterations of an epoch: windows in random order dealt out in turns, or as a schedule has them.
///
/// A schedule says which windows go together; the order of its iterations changes from epoch to epoch.
pub fn turns(shared: &Shared, epoch: usize, schedule: Option<&Schedule>) -> Vec<Vec<Turn>> {
    let (parallel, windows) = (&shared.settings.parallel, shared.windows());
    let salt = |number: usize| (epoch * windows.len() + number) as u64;
    let Some(schedule) = schedule else {
        let order: Vec<(usize, Range<Step>)> = shared.order(epoch).into_iter().enumerate().collect();
        let turn = |(place, (number, window)): (usize, &(usize, Range<Step>))| Turn {
            window: window.clone(),
            salt: salt(*number),
            worker: place % parallel.workers,
        };
        let at_once = shared.settings.windows_at_once().max(1);
        return order.chunks(at_once).map(|windows| windows.iter().enumerate().map(turn).collect()).collect();
    };
    let mut iterations: Vec<Vec<Turn>> = Vec::with_capacity(schedule.iterations.len());
    for workers in &schedule.iterations {
        let mut iteration = Vec::new();
        for (worker, groups) in workers.iter().enumerate() {
            let turn = |&group: &usize| Turn { window: windows[group].clone(), salt: salt(group), worker };
            iteration.extend(groups.iter().map(turn));
        }
        iterations.push(iteration);
    }
    let random = Random::new(shared.settings.train.seed).stream(ITERATIONS).stream(epoch as u64);
    shuffle(&mut iterations, random);
    iterations
}
