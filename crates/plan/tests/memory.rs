//! The memory of workers: every scheduler stays within it, or refuses with the group and what it lacks.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use kymo_plan::schedule::{ALL, Instance, Limit, Reuse};
use proptest::prelude::*;

/// Few moves, since they follow from the time.
const LIMIT: Limit = Limit { time: Duration::from_millis(20), seed: 3, gap: 0.0, clock: true };

/// Groups of these costs and bytes; neighbours save each other a fifth of the cheaper one.
fn instance(groups: &[(f64, u64)], workers: usize, budget: u64) -> Instance {
    let costs: Vec<f64> = groups.iter().map(|(cost, _)| *cost).collect();
    let mut saved: Vec<Vec<f64>> = costs.windows(2).map(|pair| vec![0.2 * pair[0].min(pair[1])]).collect();
    saved.push(Vec::new());
    let reuse = Reuse::Band { width: 1, saved };
    let memory = groups.iter().map(|(_, bytes)| *bytes).collect();
    Instance { reuse, ..Instance::new(costs, workers) }.with_memory(memory, budget)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_scheduler_stays_within_memory_or_names_the_shortfall(
        groups in prop::collection::vec((0.0..10.0_f64, 0..=1000_u64), 1..=30),
        workers in 1..=4_usize,
        budget in prop_oneof![0..=1500_u64, Just(1000)],
    ) {
        let instance = instance(&groups, workers, budget);
        let largest = *instance.memory.iter().max().unwrap();
        for scheduler in ALL {
            let (name, answer) = (scheduler.name(), scheduler.schedule(&instance, &LIMIT));
            if largest > budget {
                // Also those that were not built in: the instance is checked first.
                let error = answer.unwrap_err().to_string();
                let short = largest - budget;
                let words = format!("needs {largest} bytes and a worker has {budget}, {short} too few");
                prop_assert!(error.contains(&words), "{error}");
                let named = |group: &usize| error.contains(&format!("group {group} needs"));
                let bytes = (0..groups.len()).find(named).map(|group| instance.memory[group]);
                prop_assert_eq!(bytes, Some(largest), "{}: {}", name, error);
            } else if scheduler.is_there() {
                let found = answer.unwrap();
                found.schedule.check(&instance).unwrap();
                let bins = found.schedule.iterations.iter().flatten();
                // The groups of a worker run one after the other, but for those of BLAD's pipeline.
                let at_once = |bin: &Vec<usize>| match name {
                    "blad" => bin.iter().map(|&group| instance.memory[group]).sum::<u64>(),
                    _ => bin.iter().map(|&group| instance.memory[group]).max().unwrap_or(0),
                };
                prop_assert!(bins.map(at_once).all(|bytes| bytes <= budget), "{}", name);
            }
        }
    }
}

#[test]
fn memory_that_suffices_changes_nothing() {
    let groups: Vec<(f64, u64)> =
        (0..25_u64).map(|group| ((group * 7 % 11) as f64, group * 13 % 17)).collect();
    let roomy = instance(&groups, 3, u64::MAX);
    let tight = instance(&groups, 3, 16);
    // A pipeline of two groups needs more than 16 bytes at times.
    for scheduler in ALL.iter().filter(|scheduler| scheduler.is_there() && scheduler.name() != "blad") {
        let (one, other) =
            (scheduler.schedule(&roomy, &LIMIT).unwrap(), scheduler.schedule(&tight, &LIMIT).unwrap());
        // What the clock cut short may differ, and the clock decides no test.
        assert!(!(one.complete && other.complete) || one.schedule == other.schedule, "{}", scheduler.name());
    }
}

#[test]
fn one_figure_is_needed_for_each_group() {
    let instance = Instance::new(vec![1.0; 3], 2).with_memory(vec![1, 2], 8);
    for scheduler in ALL {
        let error = scheduler.schedule(&instance, &LIMIT).unwrap_err().to_string();
        assert!(error.contains("found 2 for 3 groups"), "{error}");
    }
}
