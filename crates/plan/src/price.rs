//! What a way of sharing the work costs, before it is paid.
//!
//! Bytes are exact: they follow from the same routes that rows will take; where only a sample of the windows
//! is looked at, the others are taken to be like them. Memory counts what is held at once.
//! Time is an estimate from rates of a machine; which strategy is faster than another depends on them less
//! than how fast each is.

mod job;
mod memory;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use kymo_graph::store::Cursor;
use kymo_graph::{Step, Vertex};
use rayon::prelude::*;

use crate::batch::Window;
use crate::error::{Error, Result};
use crate::layout::Owners;
use crate::parts::{Part, parts, present_of_each};
use crate::plan::{Plan, Sent, Share};
use crate::route::Route;
use crate::shares::{OwnersKey, Ownership, Shares};
use crate::work::Moves;

pub use job::{AskPairs, Asked, Job, Rates, Seen};
pub use memory::{part_lists, reader_bytes, snapshot_bytes};

/// Seconds that each window takes a worker by itself.
pub fn window_seconds(job: &Job<'_>, rates: Rates) -> Result<Vec<f64>> {
    let mut pricing = Pricing { workers: vec![Share::default()], ..Pricing::new(job, None, rates) };
    let parts = pricing.steps(&mut 0)?;
    Ok(job.windows.iter().map(|window| pricing.whole(&parts, window, 0)).collect())
}

/// Bytes that each window takes while a worker runs it by itself, parameters included.
pub fn window_bytes(job: &Job<'_>) -> Result<Vec<u64>> {
    let rates = Rates::default();
    let pricing = Pricing::new(job, None, rates);
    let parts = pricing.steps(&mut 0)?;
    let bytes = |window: &Range<Step>| pricing.at_once(&parts, window, None, 0).iter().sum::<u64>();
    Ok(job.windows.iter().map(|window| bytes(window) + job.work.replicated as u64).collect())
}

/// Seconds that close an iteration: the sum of gradients.
pub fn closing_seconds(job: &Job<'_>, rates: Rates) -> f64 {
    if job.workers < 2 {
        return 0.0;
    }
    // Every worker sends the others their slices, and then all of them its sum.
    let others = (job.workers - 1) as f64;
    8.0 * job.work.reduced as f64 * others / job.workers as f64 / rates.wire + 2.0 * rates.latency
}

/// What the plan of an epoch costs.
pub fn price(strategy: &str, job: &Job<'_>, rates: Rates) -> Result<Plan> {
    let shares = job.shares;
    let mut pricing =
        Pricing { workers: vec![Share::default(); job.workers], ..Pricing::new(job, shares, rates) };
    let (mut seconds, mut edge_cut) = (0.0, 0);
    let parts = pricing.steps(&mut edge_cut)?;
    let (scales, times) = (pricing.scales(), job.windows.len() as f64 / job.looked().len().max(1) as f64);
    let counts = |window: &&Window| !scales || job.looks_at(window.number);
    for iteration in &job.epoch.iterations {
        if let Some(shares) = shares {
            for window in iteration.windows().into_iter().filter(counts) {
                seconds += pricing.window(shares, &parts, &window.steps);
                if job.looks_at(window.number) {
                    pricing.pairs(shares, window)?;
                }
                pricing.brought(shares, window);
            }
        } else {
            let mut slowest: f64 = 0.0;
            for (worker, batches) in iteration.workers.iter().enumerate() {
                let windows = batches.iter().flat_map(|batch| &batch.windows);
                let busy = windows.map(|window| pricing.whole(&parts, &window.steps, worker)).sum();
                slowest = slowest.max(busy);
            }
            seconds += slowest;
        }
    }
    for share in pricing.workers.iter_mut().filter(|_| job.sample.is_some()) {
        match scales {
            true => share.scale(times),
            // Pairs alone were looked at in the sample alone.
            false => share.sent.pairs = (share.sent.pairs as f64 * times).round() as u64,
        }
    }
    if scales {
        seconds *= times;
        let steps = |windows: &[&Range<Step>]| {
            windows.iter().flat_map(|window| (*window).clone()).collect::<BTreeSet<Step>>().len() as f64
        };
        let all: Vec<&Range<Step>> = job.windows.iter().collect();
        edge_cut = (edge_cut as f64 * steps(&all) / steps(&job.looked()).max(1.0)).round() as u64;
    }
    for _ in &job.epoch.iterations {
        pricing.reduce();
        seconds += closing_seconds(job, rates);
    }
    pricing.memory(&parts);
    Ok(Plan {
        strategy: strategy.into(),
        epoch: job.epoch.clone(),
        workers: pricing.workers,
        windows: job.windows.len(),
        iterations: job.epoch.iterations.len(),
        seconds,
        bound: None,
        chart: None,
        edge_cut,
        sampled: None,
        note: None,
    })
}

/// Of each step and owners, the parts of all workers.
type Parts = BTreeMap<(Step, OwnersKey), Vec<Part>>;

/// The key of a snapshot that is not cut.
const WHOLE: OwnersKey = OwnersKey::One(0);

struct Pricing<'a> {
    job: &'a Job<'a>,
    shares: Option<&'a Shares>,
    rates: Rates,
    workers: Vec<Share>,
    routes: BTreeMap<[OwnersKey; 2], Vec<[u64; 2]>>,
    owned: BTreeMap<(OwnersKey, Option<Step>), Vec<u64>>,
}

impl<'a> Pricing<'a> {
    fn new(job: &'a Job<'a>, shares: Option<&'a Shares>, rates: Rates) -> Pricing<'a> {
        let (routes, owned) = (BTreeMap::new(), BTreeMap::new());
        Pricing { job, shares, rates, workers: Vec::new(), routes, owned }
    }
}

impl Pricing<'_> {
    /// Looks at every step once.
    fn steps(&self, edge_cut: &mut u64) -> Result<Parts> {
        let (store, workers, shares) = (self.job.store, self.job.workers, self.shares);
        let mut wanted: BTreeMap<(Step, OwnersKey), Option<Ownership>> = BTreeMap::new();
        for window in self.job.looked() {
            for t in window.clone() {
                let place = shares.map(|shares| shares.structure(window, t));
                wanted.insert((t, place.as_ref().map_or(WHOLE, Ownership::key)), place);
            }
        }
        let (vertices, presence) = (store.vertices(), self.job.presence);
        let look = |cursor: &mut Cursor, (key, place): &((Step, OwnersKey), Option<Ownership>)| {
            let key = *key;
            let when = (presence, key.0);
            let whole = || Ok::<_, Error>(Part::whole(vertices, store.edges(key.0)? as u64, when));
            let Some((shares, place)) = shares.zip(place.as_ref()) else {
                return Ok((key, vec![whole()?], 0));
            };
            if let Owners::One(worker) = place.owners() {
                let mut parts = vec![Part::default(); workers];
                parts[worker] = whole()?;
                return Ok((key, parts, 0));
            }
            let (owners, both) = (place.owners(), shares.needs().out_edges);
            let (parts, cut) = parts(cursor.go_to(key.0)?.edges(), owners, vertices, workers, both, when);
            store.release(key.0);
            Ok((key, parts, cut))
        };
        // Each goes through consecutive steps: most are their neighbours but for some changes.
        let wanted: Vec<_> = wanted.into_iter().collect();
        let piece = wanted.len().div_ceil(rayon::current_num_threads().max(1)).max(1);
        let looked = wanted.par_chunks(piece).map(|steps| {
            let mut cursor = Cursor::new(store.clone());
            steps.iter().map(|step| look(&mut cursor, step)).collect::<Result<Vec<_>>>()
        });
        let looked: Vec<_> = looked.collect::<Result<Vec<_>>>()?.concat();
        *edge_cut += looked.iter().map(|(_, _, cut)| cut).sum::<u64>();
        let mut parts: Parts = looked.into_iter().map(|(key, parts, _)| (key, parts)).collect();
        if self.job.sample.is_some() && !self.scales() {
            self.fill_in(&mut parts);
        }
        Ok(parts)
    }

    /// Whether windows that are looked at stand for the others, because only a look tells what moves. Where
    /// steps are whole, nothing but the number of their edges has to be guessed.
    fn scales(&self) -> bool {
        self.job.sample.is_some() && self.shares.is_some_and(|shares| !shares.has_whole_steps())
    }

    /// Whole steps that were not looked at: their edges lie on a line between those of the steps around them.
    fn fill_in(&self, parts: &mut Parts) {
        let edges = |parts: &[Part]| parts.iter().map(|part| part.edges).sum::<u64>() as f64;
        let known: Vec<(Step, f64)> = parts.iter().map(|((t, _), parts)| (*t, edges(parts))).collect();
        let vertices = self.job.store.vertices();
        for (window, t) in self.job.windows.iter().flat_map(|window| window.clone().map(move |t| (window, t)))
        {
            let key = self.shares.map_or(WHOLE, |shares| shares.structure(window, t).key());
            parts.entry((t, key)).or_insert_with(|| {
                let after = known.partition_point(|&(step, _)| step < t);
                let (left, right) = (known.get(after.wrapping_sub(1)), known.get(after));
                let edges = match (left, right) {
                    (Some(&(from, low)), Some(&(to, high))) => {
                        low + (high - low) * (t - from) as f64 / (to - from) as f64
                    }
                    (one, other) => one.or(other).map_or(0.0, |&(_, edges)| edges),
                };
                let owner = if let (Some(_), OwnersKey::One(owner)) = (self.shares, key) { owner } else { 0 };
                let mut all = vec![Part::default(); if self.shares.is_some() { self.job.workers } else { 1 }];
                all[owner] = Part::whole(vertices, edges.round() as u64, (self.job.presence, t));
                all
            });
        }
    }

    /// Seconds of structure for one step of one part, forward and backward.
    fn structure_seconds(&self, part: &Part) -> f64 {
        (part.edges + part.present) as f64 * self.job.work.aggregated.iter().sum::<usize>() as f64
            / self.rates.aggregated
    }

    /// Seconds that as many rows take at one step, forward and backward: a product, and two for its
    /// gradients.
    fn row_seconds(&self, rows: u64) -> f64 {
        3.0 * rows as f64 * self.job.work.products as f64 / self.rates.products
    }

    /// How many vertices each worker has, of those that are present at a step.
    fn owned(&mut self, shares: &Shares, place: &Ownership, t: Step) -> Vec<u64> {
        let (presence, vertices) = (self.job.presence, self.job.store.vertices());
        let count = || present_of_each(place.owners(), vertices, shares.workers(), (presence, t));
        // The same at all steps where all are there.
        let key = (place.key(), presence.map(|_| t));
        self.owned.entry(key).or_insert_with(count).clone()
    }

    /// A whole window at one worker; its seconds.
    fn whole(&mut self, parts: &Parts, window: &Range<Step>, worker: usize) -> f64 {
        let mut seconds = 0.0;
        for t in window.clone() {
            let mut part =
                parts.get(&(t, WHOLE)).and_then(|parts| parts.first()).cloned().unwrap_or_default();
            let mut targets = part.present;
            if let Some(seen) = self.job.seen {
                targets = seen.targets;
                (part.own, part.present, part.edges) = (seen.rows, seen.rows, seen.edges);
            }
            seconds += self.structure_seconds(&part) + self.row_seconds(targets);
            self.workers[worker].cells += part.present;
            self.workers[worker].edges += part.edges;
        }
        self.workers[worker].seconds += seconds;
        seconds
    }

    /// Rows that every worker sends and receives along a route.
    fn route(&mut self, shares: &Shares, from: &Ownership, to: &Ownership) -> Option<Vec<[u64; 2]>> {
        let key = [from.key(), to.key()];
        if key[0] == key[1] {
            return None;
        }
        let rows = |route: Route| [route.rows_sent() as u64, route.rows_received() as u64];
        let all =
            || (0..shares.workers()).filter_map(|rank| shares.route(from, to, rank).map(rows)).collect();
        Some(self.routes.entry(key).or_insert_with(all).clone())
    }

    /// A window that all workers do together; its seconds.
    fn window(&mut self, shares: &Shares, parts: &Parts, window: &Range<Step>) -> f64 {
        let workers = self.job.workers;
        let moves = shares.moves(window);
        let (mut busy, mut one_after_the_other) = (vec![0.0; workers], 0.0);
        let mut sent = vec![Sent::default(); workers];
        let mut before: Option<[Ownership; 2]> = None;
        let (mut exchanges, mut waves, mut wire) = (0, 0, 0.0);
        let shuffled = vec![Cell::new([0; 2]); workers];
        for (t, movements) in window.clone().zip(&self.job.work.steps) {
            let places = [shares.structure(window, t), shares.rows(window, t)];
            let here = parts.get(&(t, places[0].key())).cloned().unwrap_or_default();
            let (mut slowest, owned): (f64, _) = (0.0, self.owned(shares, &places[1], t));
            for (worker, part) in here.iter().enumerate() {
                // Rows are computed where they are then, which need not be where structure was.
                let rows = self.row_seconds(owned.get(worker).copied().unwrap_or(0));
                let structure = self.structure_seconds(part);
                busy[worker] += structure;
                self.workers[worker].seconds += structure + rows;
                self.workers[worker].cells += part.present;
                self.workers[worker].edges += part.edges;
                match moves {
                    true => slowest = slowest.max(rows),
                    false => busy[worker] += rows,
                }
            }
            one_after_the_other += slowest;
            let along = [
                before.as_ref().and_then(|before| self.route(shares, &before[0], &places[0])),
                before
                    .as_ref()
                    .filter(|_| moves)
                    .and_then(|before| self.route(shares, &before[1], &places[1])),
                self.route(shares, &places[0], &places[1]),
            ];
            for movement in movements {
                // The busiest wire, in either direction: what goes out on the way there comes in on the way
                // back.
                let busiest = Cell::new(0);
                // Steps are shuffled side by side where different workers have them; all else goes step by
                // step.
                let together = matches!(movement.moves, Moves::Shuffled | Moves::Restored);
                let times = if movement.back { 2 } else { 1 };
                match together {
                    true => waves = waves.max(times),
                    false => exchanges += times,
                }
                for worker in 0..workers {
                    let bytes = |rows: [u64; 2]| {
                        let [out, inwards] = rows.map(|rows| 4 * movement.columns as u64 * rows);
                        match together {
                            true => {
                                let [all_out, all_in] = shuffled[worker].get();
                                shuffled[worker].set([all_out + out, all_in + inwards]);
                            }
                            false => busiest.set(busiest.get().max(out).max(inwards)),
                        }
                        out + if movement.back { inwards } else { 0 }
                    };
                    let of =
                        |route: &Option<Vec<[u64; 2]>>| route.as_ref().map_or(0, |all| bytes(all[worker]));
                    let sent = &mut sent[worker];
                    match movement.moves {
                        Moves::Neighbours => {
                            sent.neighbours += here.get(worker).map_or(0, |part| bytes(part.rows))
                        }
                        Moves::Carried => sent.states += of(&along[0]),
                        Moves::Handed => sent.states += of(&along[1]),
                        Moves::Shuffled => sent.shuffled += of(&along[2]),
                        // The same route in the other direction.
                        Moves::Restored => {
                            let back = |all: &Vec<[u64; 2]>| bytes([all[worker][1], all[worker][0]]);
                            sent.shuffled += along[2].as_ref().map_or(0, back);
                        }
                        Moves::Collected(count) => {
                            let rows = |worker: usize| here[worker].own.min(count as u64);
                            let others = (0..workers).filter(|&other| other != worker).map(rows).sum();
                            let away = rows(worker) * (workers as u64 - 1);
                            sent.collected += bytes([away, others]);
                            sent.named += 4 * away;
                        }
                    }
                }
                wire += busiest.get() as f64 * if movement.back { 2.0 } else { 1.0 } / self.rates.wire;
            }
            before = Some(places);
        }
        let most = shuffled.iter().flat_map(Cell::get).max().unwrap_or(0);
        wire += 2.0 * most as f64 / self.rates.wire;
        let slowest = busy.iter().copied().fold(0.0, f64::max);
        for (share, sent) in self.workers.iter_mut().zip(sent) {
            share.sent.neighbours += sent.neighbours;
            share.sent.states += sent.states;
            share.sent.shuffled += sent.shuffled;
            share.sent.collected += sent.collected;
            share.sent.named += sent.named;
        }
        slowest + one_after_the_other + wire + self.rates.latency * f64::from(exchanges + waves)
    }

    /// Rows of the other ends of pairs: each goes once to every worker that asks about it.
    fn pairs(&mut self, shares: &Shares, window: &Window) -> Result<()> {
        let bytes = 4 * self.job.work.paired as u64;
        for (t, pairs) in (self.job.pairs)(window)? {
            let place = shares.rows(&window.steps, t);
            let owners = place.owners();
            let elsewhere = |&(first, second): &(Vertex, Vertex)| {
                let (at, from) = (owners.of(first), owners.of(second));
                (at != from).then_some((at, from, second))
            };
            let moved: BTreeSet<(usize, usize, Vertex)> = pairs.iter().filter_map(elsewhere).collect();
            for (at, from, _) in moved {
                // There and, as a gradient, back.
                self.workers[from].sent.pairs += bytes;
                self.workers[at].sent.pairs += bytes;
            }
        }
        Ok(())
    }

    /// What the window before left behind, which no gradient goes back through.
    fn brought(&mut self, shares: &Shares, window: &Window) {
        let Some(before) = window.number.checked_sub(1).filter(|_| self.job.follows) else { return };
        let (before, window) = (&self.job.windows[before], &window.steps);
        for movement in &self.job.work.brought {
            let place = |window: &Range<Step>, t: Step| match movement.moves {
                Moves::Carried => shares.structure(window, t),
                _ => shares.rows(window, t),
            };
            let (from, to) = (place(before, before.end.saturating_sub(1)), place(window, window.start));
            for (worker, rows) in self.route(shares, &from, &to).into_iter().flatten().enumerate() {
                self.workers[worker].sent.states += 4 * movement.columns as u64 * rows[0];
            }
        }
    }

    /// The sum of gradients after an iteration: each worker sums a slice and sends it to all others.
    fn reduce(&mut self) {
        let (numbers, size) = (self.job.work.reduced as u64, self.job.workers as u64);
        if size < 2 {
            return;
        }
        for (rank, share) in (0..).zip(&mut self.workers) {
            let slice = numbers * (rank + 1) / size - numbers * rank / size;
            share.sent.gradients += 4 * (numbers - slice) + 4 * slice * (size - 1);
        }
    }
}
