//! What holds for every simulated epoch: it adds up, it is the plan where nothing disturbs it, and it is the
//! same every time.
#![allow(clippy::unwrap_used)]

use kymo_plan::EpochPlan;
use kymo_plan::schedule::{Instance, Limit, Reuse, Schedule, find};
use kymo_sim::{AllReduce, Cluster, Shape, Stragglers, simulate, simulate_with_timeline};
use kymo_trace::{Kind, TimeSummary};
use proptest::prelude::*;

fn plan(name: &str, instance: &Instance) -> Schedule {
    find(name).unwrap().schedule(instance, &Limit::default()).unwrap().schedule
}

fn all_reduces() -> impl Strategy<Value = AllReduce> {
    let shape = prop_oneof![Just(Shape::Ring), Just(Shape::Halving)];
    let some = (shape, 0.0..1e-2_f64, 1e6..1e9_f64, 0..1_000_000_u64)
        .prop_map(|(shape, latency, bandwidth, bytes)| AllReduce { shape, latency, bandwidth, bytes });
    prop_oneof![Just(AllReduce::FREE), some]
}

/// An epoch with its schedule, by one of the quick schedulers.
fn epochs() -> impl Strategy<Value = (Instance, Schedule, AllReduce)> {
    let costs = prop::collection::vec(prop_oneof![Just(0.0), 0.001..10.0_f64], 0..40);
    let shared = prop::option::of(0.0..1.0_f64);
    let names = prop::sample::select(vec!["psg", "blad", "fold", "dygnex-g", "real-g", "match", "runs"]);
    (costs, 1..7_usize, 1..4_usize, shared, names, all_reduces()).prop_map(
        |(costs, workers, most, shared, name, all_reduce)| {
            let windows: Vec<_> = (0..costs.len()).map(|start| start..start + 3).collect();
            let reuse =
                shared.map_or(Reuse::None, |ratio| Reuse::from_ratio(ratio, &windows, &costs).unwrap());
            let overhead = all_reduce.seconds(workers);
            let instance = Instance { most, overhead, reuse, ..Instance::new(costs, workers) };
            let schedule = plan(name, &instance);
            (instance, schedule, all_reduce)
        },
    )
}

fn clusters() -> impl Strategy<Value = (f64, Stragglers, u64)> {
    let noise = prop_oneof![Just(0.0), 0.0..0.5_f64];
    let stragglers = (0.0..=1.0_f64, 1.0..3.0_f64).prop_map(|(share, factor)| Stragglers { share, factor });
    (noise, prop_oneof![Just(Stragglers::NONE), stragglers], any::<u64>())
}

proptest! {
    #[test]
    fn undisturbed_an_epoch_takes_what_was_planned((instance, schedule, all_reduce) in epochs()) {
        let (plan, cluster) = (EpochPlan::of_schedule(&schedule), Cluster::new(instance.workers, all_reduce));
        let found = simulate(&instance, &plan, &cluster).unwrap();
        // To the last bit.
        prop_assert_eq!(found.seconds, schedule.seconds(&instance));
        prop_assert_eq!(found.iterations, schedule.optimiser_steps());
        prop_assert_eq!(found.all_reduce, found.iterations as f64 * all_reduce.seconds(instance.workers));
        prop_assert!((found.efficiency - schedule.efficiency(&instance)).abs() < 1e-12);
        prop_assert_eq!(found.imbalance, schedule.imbalance(&instance));
        // What the instance says of its overhead does not matter: the cluster says what closes an iteration.
        let other = Instance { overhead: 7.0, ..instance.clone() };
        let again = simulate(&other, &plan, &cluster).unwrap();
        prop_assert_eq!(again, found);
    }

    #[test]
    fn every_second_of_every_worker_is_accounted_for(
        (instance, schedule, all_reduce) in epochs(),
        (noise, stragglers, seed) in clusters(),
    ) {
        let cluster = Cluster { noise, stragglers, seed, ..Cluster::new(instance.workers, all_reduce) };
        let found = simulate_with_timeline(&instance, &EpochPlan::of_schedule(&schedule), &cluster).unwrap();
        let slack = 1e-9 * (1.0 + found.seconds);
        for (busy, waiting) in found.busy.iter().zip(&found.waiting) {
            prop_assert!((busy + waiting + found.all_reduce - found.seconds).abs() < slack);
        }
        prop_assert!((0.0..=1.0 + 1e-9).contains(&found.efficiency));
        prop_assert!((1.0 - 1e-9..=instance.workers as f64 + 1e-9).contains(&found.imbalance));

        let timeline = found.timeline.clone().unwrap();
        prop_assert_eq!(timeline.len(), instance.workers);
        for (trace, busy) in timeline.iter().zip(&found.busy) {
            // Spans follow each other without gaps, in whole nanoseconds.
            let ends = std::iter::once(0).chain(trace.spans.iter().map(|span| span.end));
            prop_assert!(ends.zip(&trace.spans).all(|(end, span)| end == span.start));
            prop_assert_eq!(trace.wall, (found.seconds * 1e9).round() as u64);
            prop_assert_eq!(trace.totals.busy() + trace.totals.waiting(), trace.wall);
            // Each end of a span is rounded by itself.
            let rounding = 1e-9 * (2 + trace.spans.len()) as f64 + slack;
            let computed = trace.totals.of(Kind::Compute).time as f64 / 1e9;
            prop_assert!((computed - busy).abs() <= rounding, "{} {}", computed, busy);
            let reduced = trace.totals.of(Kind::AllReduce).time as f64 / 1e9;
            prop_assert!((reduced - found.all_reduce).abs() <= rounding);
        }
        let groups: u64 = timeline.iter().map(|trace| trace.totals.of(Kind::Compute).count).sum();
        prop_assert_eq!(groups, instance.groups() as u64);
        let without = simulate(&instance, &EpochPlan::of_schedule(&schedule), &cluster).unwrap();
        let again = simulate(&instance, &EpochPlan::of_schedule(&schedule), &cluster).unwrap();
        prop_assert_eq!(again, without.clone());
        prop_assert_eq!(without, kymo_sim::Simulated { timeline: None, ..found });
    }

    #[test]
    fn stragglers_waste_time_and_do_no_more_work((instance, schedule, all_reduce) in epochs(), seed: u64) {
        let plain = Cluster { seed, ..Cluster::new(instance.workers, all_reduce) };
        let slow = Cluster { stragglers: Stragglers { share: 1.0, factor: 2.0 }, ..plain.clone() };
        let run = |cluster| simulate(&instance, &EpochPlan::of_schedule(&schedule), cluster).unwrap();
        let (plain, slow) = (run(&plain), run(&slow));
        let (planned, found) = (plain.seconds - plain.all_reduce, slow.seconds - slow.all_reduce);
        prop_assert!((found - 2.0 * planned).abs() < 1e-9 * (1.0 + slow.seconds));
        prop_assert!(slow.efficiency <= plain.efficiency);
    }
}

#[test]
fn noise_keeps_the_mean() {
    let costs: Vec<f64> = (0..4000).map(|group| 1.0 + f64::from(group % 7) / 7.0).collect();
    let instance = Instance::new(costs.clone(), 1);
    let schedule = plan("psg", &instance);
    let planned: f64 = costs.iter().sum();
    let noise = 0.2;
    // The deviation of a sum of independent times.
    let deviation = noise * costs.iter().map(|cost| cost * cost).sum::<f64>().sqrt();
    let seconds = |seed| {
        let cluster = Cluster { noise, seed, ..Cluster::new(1, AllReduce::FREE) };
        simulate(&instance, &EpochPlan::of_schedule(&schedule), &cluster).unwrap().seconds
    };
    let runs: Vec<f64> = (0..30).map(seconds).collect();
    assert!(runs.iter().all(|run| (run - planned).abs() < 4.5 * deviation));
    let mean = runs.iter().sum::<f64>() / 30.0;
    assert!((mean - planned).abs() < 4.0 * deviation / 30.0_f64.sqrt(), "{mean} {planned}");
    assert!(runs[0] != runs[1]);
    // One worker never waits, whatever its luck; many wait for the unluckiest.
    let many = Instance { workers: 100, ..instance };
    let schedule = plan("fold", &many);
    let cluster = Cluster { noise, ..Cluster::new(100, AllReduce::FREE) };
    let (calm, noisy) = (Cluster { noise: 0.0, ..cluster.clone() }, cluster);
    let efficiency =
        |cluster| simulate(&many, &EpochPlan::of_schedule(&schedule), cluster).unwrap().efficiency;
    assert!(efficiency(&noisy) < efficiency(&calm) - 0.05);
}

#[test]
fn a_summary_of_the_timeline_says_the_same() {
    let instance = Instance::new(vec![4.0, 3.0, 2.0, 1.0, 2.5], 2);
    let schedule = plan("fold", &instance);
    let cluster = Cluster::new(2, AllReduce { latency: 0.01, ..AllReduce::FREE });
    let found = simulate_with_timeline(&instance, &EpochPlan::of_schedule(&schedule), &cluster).unwrap();
    let summary = TimeSummary::of(found.timeline.as_ref().unwrap(), None);
    assert!((summary.wall - found.seconds).abs() < 1e-8);
    assert!((summary.efficiency.unwrap() - found.efficiency).abs() < 1e-8);
    assert!((summary.imbalance.unwrap() - found.imbalance).abs() < 1e-8);
}

#[test]
fn imbalance_is_that_of_the_busiest_worker_to_the_mean() {
    let found = |iterations: Vec<Vec<Vec<usize>>>, stragglers| {
        let instance = Instance::new(vec![2.0, 2.0, 2.0], 3);
        let cluster = Cluster { stragglers, ..Cluster::new(3, AllReduce::FREE) };
        simulate(&instance, &EpochPlan::of_schedule(&Schedule { iterations }), &cluster).unwrap().imbalance
    };
    assert_eq!(found(vec![vec![vec![0], vec![1], vec![2]]], Stragglers::NONE), 1.0);
    assert_eq!(found(vec![vec![vec![0, 1], vec![2], vec![]]], Stragglers::NONE), 2.0);
    // One of three takes four seconds instead of two.
    let straggler = Stragglers { share: 0.34, factor: 2.0 };
    assert_eq!(found(vec![vec![vec![0], vec![1], vec![2]]], straggler), 4.0 / (8.0 / 3.0));
    let nothing = Instance::new(Vec::new(), 3);
    let idle = simulate(&nothing, &EpochPlan::default(), &Cluster::new(3, AllReduce::FREE)).unwrap();
    assert_eq!(idle.imbalance, 1.0);
}

#[test]
fn what_does_not_fit_is_refused() {
    let instance = Instance::new(vec![1.0; 4], 2);
    let schedule = plan("psg", &instance);
    let error = simulate(&instance, &EpochPlan::of_schedule(&schedule), &Cluster::new(3, AllReduce::FREE))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "workers: the schedule is for 2, the cluster has 3; make a schedule for the cluster"
    );
    let empty = simulate(&instance, &EpochPlan::default(), &Cluster::new(2, AllReduce::FREE)).unwrap_err();
    assert!(empty.to_string().contains("group 0 runs 0 times"), "{empty}");
    let noisy = Cluster { noise: f64::NAN, ..Cluster::new(2, AllReduce::FREE) };
    assert!(simulate(&instance, &EpochPlan::of_schedule(&schedule), &noisy).is_err());
}
