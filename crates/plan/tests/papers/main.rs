//! The greedy schedulers against the papers: `dygnex-g` and `real-g` beside line-by-line transcriptions.
//!
//! The transcriptions are in `printed.rs`. The fast code in `schedule/greedy.rs` leaves the papers in two
//! places to be faster, and with reuse in a third to gain something by it; `printed.rs` can be told to do so
//! as well (`Departures`):
//! - *one search*: the papers search again after each pair; the fast code takes several pairs of one search.
//!   The second search can meet pairs that the first did not, so schedules may differ from three workers on;
//! - *sampled targets*: the papers try every group as partner of the costliest one; the fast code tries at
//!   most 64, evenly spaced by cost, so schedules may differ while more than 64 groups are left;
//! - *neighbours*: groups that overlap come first, as targets and as pairs, and what pairs save counts
//!   against what an iteration wastes. Where nothing overlaps this changes nothing.
//!
//! So the fast code must give the very schedule of the papers without reuse for one or two workers and up to
//! 64 groups, and the very schedule of the transcription with its departures everywhere. With reuse `real-g`
//! sorts its pairs by load, and answers with the groups of `dygnex-g`, `blad`, `match` or `runs` where those
//! are faster; so does the test.
//!
//! All numbers are whole, so sums are exact in every order and ties are real. Longer lists have no ties:
//! there the fast code sorts with an unstable sort, and the standard library decides which of two equal pairs
//! comes first.
#![allow(clippy::unwrap_used)]

mod printed;

use std::time::Duration;

use kymo_plan::schedule::{Instance, Limit, Reuse, Schedule, find};
use printed::{Departures, dygnex_g, real_g};
use proptest::prelude::*;

/// Far more than any instance here takes.
const LIMIT: Limit = Limit { time: Duration::from_secs(600), seed: 0, gap: 0.0, clock: true };

fn fast(name: &str, instance: &Instance) -> Schedule {
    let found = find(name).unwrap().schedule(instance, &LIMIT).unwrap();
    assert!(found.complete);
    found.schedule.check(instance).unwrap();
    assert_eq!(found.by == name, found.note.is_none());
    assert!(found.by == name || name == "real-g" && instance.reuse != Reuse::None);
    found.schedule
}

/// Epochs of whole numbers of seconds below `highest`, with savings of whole seconds between near groups, or
/// none.
fn instances(
    groups: std::ops::RangeInclusive<usize>,
    workers: std::ops::RangeInclusive<usize>,
    highest: u64,
) -> impl Strategy<Value = Instance> {
    let costs = prop::collection::vec(0..highest, groups);
    // Up to four neighbours share a part in 8 of the cheaper one's time.
    let parts = prop::collection::vec(prop::collection::vec(0..=8_u64, 4), 0..=40);
    (costs, workers, 1..=3_usize, 0..=4_usize, parts).prop_map(|(costs, workers, most, width, parts)| {
        let saved = |first: usize, second: usize| {
            let part = parts.get(first % parts.len().max(1)).map_or(0, |row| row[second - first - 1]);
            (costs[first].min(costs[second]) * part / 8) as f64
        };
        let near = |first: usize| first + 1..costs.len().min(first + 1 + width);
        let row = |first: usize| near(first).map(|second| saved(first, second)).collect();
        let band = (0..costs.len()).map(row).collect();
        let reuse = if width == 0 { Reuse::None } else { Reuse::Band { width, saved: band } };
        let costs = costs.iter().map(|&cost| cost as f64).collect();
        Instance { most, reuse, ..Instance::new(costs, workers) }
    })
}

/// The transcription of the paper that has this name, with all departures.
fn slow(name: &str, instance: &Instance) -> Schedule {
    let plain = real_g(instance, &Reuse::None, Departures::ALL);
    if name == "dygnex-g" || instance.reuse == Reuse::None {
        return plain;
    }
    // The first of the fastest, each sorted by load and cut into iterations.
    let sorted = |schedule: Schedule| Schedule::from_bins(instance, schedule.iterations.concat());
    let mut best = sorted(real_g(instance, &instance.reuse, Departures::ALL));
    let immediate = ["blad", "match", "runs"].map(|name| fast(name, instance));
    for other in [plain].into_iter().chain(immediate).map(sorted) {
        if other.seconds(instance) < best.seconds(instance) {
            best = other;
        }
    }
    best
}

/// The same without reuse.
fn alone(instance: &Instance) -> Instance {
    Instance { reuse: Reuse::None, ..instance.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn few_groups_on_two_workers_are_scheduled_as_printed(instance in instances(0..=20, 1..=2, 12)) {
        prop_assert_eq!(fast("dygnex-g", &instance), dygnex_g(&instance));
        prop_assert_eq!(fast("real-g", &alone(&instance)), dygnex_g(&instance));
    }

    #[test]
    fn few_groups_on_many_workers_are_scheduled_as_printed_with_one_search(
        instance in instances(0..=20, 3..=8, 12),
    ) {
        for name in ["dygnex-g", "real-g"] {
            prop_assert_eq!(fast(name, &instance), slow(name, &instance));
        }
    }

    #[test]
    fn without_reuse_the_papers_agree(instance in instances(0..=24, 1..=8, 12)) {
        prop_assert_eq!(dygnex_g(&instance), real_g(&instance, &Reuse::None, Departures::NONE));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn up_to_64_groups_on_two_workers_are_scheduled_as_printed(
        instance in instances(21..=64, 1..=2, 1 << 40),
    ) {
        prop_assert_eq!(fast("dygnex-g", &instance), dygnex_g(&instance));
        prop_assert_eq!(fast("real-g", &alone(&instance)), dygnex_g(&instance));
    }

    #[test]
    fn many_workers_take_pairs_of_long_lists_as_printed_with_departures(
        instance in instances(120..=220, 12..=24, 1 << 40),
    ) {
        for name in ["dygnex-g", "real-g"] {
            prop_assert_eq!(fast(name, &instance), slow(name, &instance));
        }
    }

    #[test]
    fn more_groups_are_scheduled_as_printed_with_departures(
        instance in instances(21..=150, 1..=8, 1 << 40),
    ) {
        for name in ["dygnex-g", "real-g"] {
            prop_assert_eq!(fast(name, &instance), slow(name, &instance));
        }
    }
}

/// Windows of four snapshots whose times are spread evenly, which share a part of their time.
fn windows(groups: usize, workers: usize, ratio: f64) -> Instance {
    let steps: Vec<f64> = (0..groups + 3).map(|step| 50.0 + ((step * 7919 + 13) % 101) as f64).collect();
    let windows: Vec<_> = (0..groups).map(|start| start..start + 4).collect();
    let costs: Vec<f64> = windows.iter().map(|window| steps[window.clone()].iter().sum()).collect();
    let reuse = Reuse::from_snapshots(ratio, &windows, &steps).unwrap();
    Instance { reuse, ..Instance::new(costs, workers) }
}

#[test]
fn departures_depart() {
    // Otherwise the tests above would compare nothing but the printed algorithm.
    let differ = |groups, workers, departures| {
        let instance = windows(groups, workers, 0.25);
        real_g(&instance, &instance.reuse, departures) != real_g(&instance, &instance.reuse, Departures::NONE)
    };
    let (one_search, sampled) = (
        Departures { one_search: true, ..Departures::NONE },
        Departures { sampled_targets: true, ..Departures::NONE },
    );
    assert!(differ(60, 8, one_search) && !differ(60, 2, one_search));
    assert!(differ(100, 2, sampled) && !differ(64, 2, sampled));
    assert!(differ(60, 2, Departures { neighbours: true, ..one_search }));
}

#[test]
fn departures_cost_little_and_gain_by_reuse() {
    for (groups, workers) in [(40, 3), (64, 8), (100, 4), (150, 8)] {
        for (ratio, most) in [(0.0, 1.01), (0.25, 0.98)] {
            let instance = windows(groups, workers, ratio);
            let printed = real_g(&instance, &instance.reuse, Departures::NONE).seconds(&instance);
            let found = fast("real-g", &instance).seconds(&instance);
            assert!(found <= most * printed, "{groups} {workers} {ratio}: {found} s, printed {printed} s");
        }
    }
}
