//! Every scheduler on several kinds of epochs:
//! `cargo bench -p kymo-plan --bench schedule [--features ilp] [-- SECONDS [NAME...]]`.
//!
//! For each epoch and scheduler: its time over the bound that all share, the gap it has proven itself, the
//! milliseconds it took, and the iterations. L is how many groups a worker may have in an iteration. Nothing
//! here decides a test.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::Duration;

use kymo_plan::schedule::{ALL, Instance, Limit, Reuse};

/// How many snapshots a group has.
const WINDOW: usize = 4;
/// What a shared snapshot saves.
const RATIO: f64 = 0.3;

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let seconds = names.first().and_then(|seconds| seconds.parse().ok());
    names.drain(..usize::from(seconds.is_some()));
    let seconds = seconds.unwrap_or(1.0);
    let limit = Limit { time: Duration::from_secs_f64(seconds), seed: 7, gap: 0.0, clock: true };
    println!(
        "{:>6} {:>4} {:>2} {:8} {:>6} {:>5} | {:10} {:>8} {:>9} {:>10} {:>6} by",
        "n", "G", "L", "costs", "alpha", "reuse", "scheduler", "T/LB", "gap %", "ms", "steps"
    );
    for (groups, workers) in [(100, 4), (1000, 64), (10_000, 4), (10_000, 512)] {
        let kinds: &[&str] = if groups == 100 {
            &["uniform", "normal", "heavy", "trend", "equal"]
        } else {
            &["trend", "heavy"]
        };
        for kind in kinds {
            for (overhead, ratio) in [(0.0, 0.0), (0.05, 0.0), (0.0, RATIO), (0.05, RATIO)] {
                if groups == 100 || overhead > 0.0 {
                    let pairs = instance(groups, workers, kind, overhead, ratio);
                    table(&pairs, kind, &names, &limit);
                    if ratio > 0.0 && groups < 10_000 {
                        table(&Instance { most: 8, ..pairs }, kind, &names, &limit);
                    }
                }
            }
        }
    }
}

fn table(instance: &Instance, kind: &str, names: &[String], limit: &Limit) {
    let bound = instance.lower_bound();
    let reuse = if instance.reuse == Reuse::None { 0.0 } else { RATIO };
    let alpha = instance.overhead * instance.groups() as f64 / instance.costs.iter().sum::<f64>();
    for scheduler in ALL {
        if !names.is_empty() && !names.iter().any(|name| name == scheduler.name()) {
            continue;
        }
        // The quick ones are run a few times: the fastest run is the one least disturbed by others.
        let runs = if ["psg", "fold", "match", "runs"].contains(&scheduler.name()) { 5 } else { 1 };
        let found = (0..runs).filter_map(|_| scheduler.schedule(instance, limit).ok());
        let Some(found) = found.min_by_key(|found| found.took) else { continue };
        found.schedule.check(instance).unwrap();
        println!(
            "{:>6} {:>4} {:>2} {kind:8} {alpha:>6.2} {reuse:>5} | {:10} {:>8.4} {:>9.3} {:>10.2} {:>6} {}{}",
            instance.groups(),
            instance.workers,
            instance.most,
            scheduler.name(),
            found.seconds / bound,
            found.gap() * 100.0,
            found.took.as_secs_f64() * 1e3,
            found.schedule.optimiser_steps(),
            found.by,
            if found.complete { "" } else { " (cut short)" },
        );
    }
}

/// An epoch of windows over snapshots whose times follow a kind of distribution; the overhead is a part of
/// the mean cost.
fn instance(groups: usize, workers: usize, kind: &str, overhead: f64, ratio: f64) -> Instance {
    let mut random = Random(groups as u64 ^ 0x5eed);
    let count = groups + WINDOW - 1;
    let time = |step: usize| {
        let x = step as f64 / count as f64;
        match kind {
            "uniform" => 0.5 + random.unit(),
            "normal" => (1.0 + 0.25 * random.normal()).max(0.05),
            "heavy" => (1.0 - random.unit()).powf(-1.0 / 1.5),
            "trend" => (0.4 + 1.2 * x) * (0.12 * random.normal()).exp(),
            _ => 1.0,
        }
    };
    let steps: Vec<f64> = (0..count).map(time).collect();
    let windows: Vec<_> = (0..groups).map(|start| start..start + WINDOW).collect();
    let costs: Vec<f64> = windows.iter().map(|window| steps[window.clone()].iter().sum()).collect();
    let overhead = overhead * costs.iter().sum::<f64>() / groups as f64;
    let reuse = Reuse::from_snapshots(ratio, &windows, &steps).unwrap();
    Instance { overhead, reuse, ..Instance::new(costs, workers) }
}

/// Splitmix64, so that the epochs are the same everywhere.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * (1.0 - self.unit()).ln()).sqrt(), std::f64::consts::TAU * self.unit());
        radius * angle.cos()
    }
}
