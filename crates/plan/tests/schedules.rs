//! What holds for every scheduler of the registry: valid schedules, proven bounds, and the optimum where it
//! can be known.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use kymo_plan::schedule::{ALL, Instance, Limit, Reuse, Schedule, Scheduled, find};
use proptest::prelude::*;

/// Time enough for every search to end by itself, and few moves, since they follow from it.
const LIMIT: Limit = Limit { time: Duration::from_millis(40), seed: 3, gap: 0.0, clock: true };

/// Schedulers that can run here: integer programs only where the solver was built in.
fn runnable() -> impl Iterator<Item = &'static str> {
    let built = |name: &&str| cfg!(feature = "ilp") || !name.ends_with("-l");
    ALL.iter().map(|scheduler| scheduler.name()).filter(built)
}

fn schedule(name: &str, instance: &Instance) -> Scheduled {
    find(name).unwrap().schedule(instance, &LIMIT).unwrap()
}

/// Whether an integer program made this answer or proved that none is faster, for the instance as it is.
fn is_solved(name: &str, found: &Scheduled, instance: &Instance) -> bool {
    let knows = name == "real-l" || (name == "dygnex-l" && instance.reuse == Reuse::None);
    knows && found.complete && !found.by.ends_with("-g")
}

/// What two numbers that are sums in different orders may differ by.
fn slack(seconds: f64) -> f64 {
    1e-9 * (1.0 + seconds)
}

/// The fastest epoch, by trying every schedule: each group goes to any worker of any iteration, at any place
/// of its bin. Unlike the schedulers, this knows nothing of sorting and cutting.
fn optimum(instance: &Instance) -> f64 {
    let most = instance.groups().div_ceil(instance.workers);
    let empty = Schedule { iterations: vec![vec![Vec::new(); instance.workers]; most] };
    let mut best = f64::INFINITY;
    place(instance, empty, 0, &mut best);
    best
}

fn place(instance: &Instance, schedule: Schedule, group: usize, best: &mut f64) {
    // More groups never make it faster, since none saves more than it costs.
    if schedule.seconds(instance) >= *best {
        return;
    }
    if group == instance.groups() {
        *best = schedule.seconds(instance);
        return;
    }
    for iteration in 0..schedule.iterations.len() {
        for worker in 0..instance.workers {
            let bin = &schedule.iterations[iteration][worker];
            let (length, fresh) = (bin.len(), bin.is_empty());
            if length < instance.most {
                for at in 0..=length {
                    let mut next = schedule.clone();
                    next.iterations[iteration][worker].insert(at, group);
                    place(instance, next, group + 1, best);
                }
            }
            // Workers with nothing to do are alike.
            if fresh {
                break;
            }
        }
        // And so are iterations.
        if schedule.iterations[iteration].iter().all(Vec::is_empty) {
            break;
        }
    }
}

/// Instances of up to this number of groups: costs may be equal or zero, workers more than groups, and
/// neighbours may share.
fn instances(groups: usize, workers: usize, most: usize) -> impl Strategy<Value = Instance> {
    let costs = prop_oneof![
        prop::collection::vec(0.0..10.0_f64, 0..=groups),
        prop::collection::vec((0..3_u8).prop_map(f64::from), 0..=groups),
        prop::collection::vec((0.01..1.0_f64).prop_map(|x| 1.0 / x), 0..=groups),
    ];
    let overhead = prop_oneof![Just(0.0), 0.0..5.0_f64];
    let shared = prop::option::of((1..4_usize, 0.0..1.0_f64));
    (costs, 1..=workers, 1..=most, overhead, shared).prop_map(|(costs, workers, most, overhead, shared)| {
        let reuse = shared.map_or(Reuse::None, |(overlap, ratio)| {
            let windows: Vec<_> = (0..costs.len()).map(|start| start..start + overlap + 1).collect();
            Reuse::from_ratio(ratio, &windows, &costs).unwrap()
        });
        Instance { most, overhead, reuse, ..Instance::new(costs, workers) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_beats_the_optimum_and_the_bound_is_below_it(instance in instances(6, 3, 2)) {
        let optimum = optimum(&instance);
        let bound = instance.lower_bound();
        prop_assert!(bound <= optimum + slack(optimum), "bound {bound}, optimum {optimum}");
        for name in runnable() {
            let found = schedule(name, &instance);
            found.schedule.check(&instance).unwrap();
            prop_assert!(found.seconds >= optimum - slack(optimum), "{name}: {} < {optimum}", found.seconds);
            let above = found.bound - optimum;
            prop_assert!(above <= slack(optimum), "{name}: bound {} > {optimum}", found.bound);
            if ["dygnex", "real"].contains(&name) {
                let over = found.seconds - optimum;
                prop_assert!(over <= slack(optimum), "{name}: {} > {optimum}", found.seconds);
                prop_assert!(found.gap() <= 1e-9 && found.by == "exact");
            }
            // The solver stops within a millionth of the mean cost.
            if is_solved(name, &found, &instance) {
                let over = found.seconds - optimum;
                prop_assert!(over <= 1e-5 * (1.0 + optimum), "{name}: {} > {optimum}", found.seconds);
            }
        }
    }

    #[test]
    fn every_schedule_is_valid_and_the_best_is_the_best(instance in instances(40, 9, 3)) {
        let all: Vec<(&str, Scheduled)> = runnable().map(|name| (name, schedule(name, &instance))).collect();
        // Every schedule is one that no bound may exceed: here no brute force is needed.
        let fastest = all.iter().map(|(_, found)| found.seconds).fold(f64::INFINITY, f64::min);
        for (name, found) in &all {
            found.schedule.check(&instance).unwrap();
            prop_assert_eq!(found.seconds, found.schedule.seconds(&instance));
            prop_assert!(found.bound <= found.seconds && found.gap() >= 0.0);
            let above = found.bound - fastest;
            prop_assert!(above <= slack(fastest), "{name}: bound {} > {fastest}", found.bound);
            prop_assert!(found.schedule.spread(&instance) >= 1.0 - 1e-9, "{}", name);
            prop_assert!(found.schedule.efficiency(&instance) <= 1.0 + 1e-9);
            let imbalance = found.schedule.imbalance(&instance);
            let possible = 1.0 - 1e-9..=instance.workers as f64 + 1e-9;
            prop_assert!(possible.contains(&imbalance), "{name}: {imbalance}");
            prop_assert!(found.schedule.optimiser_steps() <= instance.groups());
        }
        let found = |wanted: &str| &all.iter().find(|(name, _)| *name == wanted).unwrap().1;
        let seconds = |wanted: &str| found(wanted).seconds;
        // One that the clock cut short may be worse, and the clock decides no test.
        for best in ["dygnex", "real"].into_iter().filter(|best| found(best).complete) {
            for (name, found) in all.iter().filter(|(_, found)| found.complete) {
                // The solver stops within a millionth of the mean cost.
                let factor = if name.ends_with("-l") { 1e4 } else { 1.0 };
                let slack = factor * slack(found.seconds);
                prop_assert!(seconds(best) <= found.seconds + slack, "{best} is worse than {name}");
            }
        }
        if instance.reuse == Reuse::None {
            prop_assert_eq!(seconds("match"), seconds("fold"));
            prop_assert_eq!(&found("real-g").schedule, &found("dygnex-g").schedule);
        }
    }

    #[test]
    fn with_reuse_reals_greedy_is_never_behind_dygnexs_or_plain_pairs_or_runs(
        instance in instances(150, 9, 9),
        ratio in 0.0..=1.0_f64,
        window in 2..16_usize,
    ) {
        let windows: Vec<_> = (0..instance.groups()).map(|start| start..start + window).collect();
        let reuse = Reuse::from_ratio(ratio, &windows, &instance.costs).unwrap();
        let instance = Instance { reuse, ..instance };
        // No clock: it decides no test.
        let limit = Limit { clock: false, ..LIMIT };
        let found = |name| find(name).unwrap().schedule(&instance, &limit).unwrap();
        let real = found("real-g");
        real.schedule.check(&instance).unwrap();
        for other in ["dygnex-g", "blad", "match", "runs"] {
            let seconds = found(other).seconds;
            prop_assert!(real.seconds <= seconds + slack(seconds), "{other} is faster");
        }
    }
}

/// Epochs whose fastest schedule is known: every worker of an iteration is busy until its end, with two
/// groups. Groups are told apart by nothing but their costs, and shuffled.
fn planted() -> impl Strategy<Value = (Instance, f64)> {
    let iteration = |workers| (1.0..10.0_f64, prop::collection::vec(0.0..=1.0_f64, workers));
    (1..=12_usize)
        .prop_flat_map(move |workers| (Just(workers), prop::collection::vec(iteration(workers), 1..=6)))
        .prop_flat_map(|(workers, iterations)| {
            let split = |(seconds, parts): &(f64, Vec<f64>)| -> Vec<f64> {
                parts.iter().flat_map(|part| [seconds * part, seconds * (1.0 - part)]).collect()
            };
            let costs: Vec<f64> = iterations.iter().flat_map(split).collect();
            let seconds: f64 = iterations.iter().map(|(seconds, _)| seconds).sum();
            (Just(costs).prop_shuffle(), Just((workers, seconds)))
        })
        .prop_map(|(costs, (workers, seconds))| (Instance::new(costs, workers), seconds))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn up_to_144_groups_are_bounded_by_a_schedule_without_waste((instance, optimum) in planted()) {
        let bound = instance.lower_bound();
        prop_assert!((bound - optimum).abs() <= slack(optimum), "bound {bound}, optimum {optimum}");
        for name in runnable() {
            let found = schedule(name, &instance);
            found.schedule.check(&instance).unwrap();
            prop_assert!(found.seconds >= optimum - slack(optimum), "{name}: {} < {optimum}", found.seconds);
            prop_assert!((found.bound - optimum).abs() <= slack(optimum), "{name}: {}", found.bound);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_bound_is_below_the_optimum(instance in instances(7, 3, 2)) {
        let (bound, optimum) = (instance.lower_bound(), optimum(&instance));
        prop_assert!(bound <= optimum + slack(optimum), "bound {bound}, optimum {optimum}");
    }

    #[test]
    fn the_bound_holds_with_more_groups_per_worker(instance in instances(5, 2, 4)) {
        let (bound, optimum) = (instance.lower_bound(), optimum(&instance));
        prop_assert!(bound <= optimum + slack(optimum), "bound {bound}, optimum {optimum}");
    }
}

/// Costs that grow with noise, as those of graphs that grow.
fn growing(groups: usize) -> Vec<f64> {
    let noise = |group: usize| ((group * 7919 + 13) % 101) as f64 / 101.0;
    (0..groups).map(|group| 0.5 + group as f64 / groups as f64 + 0.3 * noise(group)).collect()
}

#[test]
fn the_same_question_gets_the_same_answer() {
    let windows: Vec<_> = (0..60).map(|start| start..start + 4).collect();
    let costs = growing(60);
    for reuse in [Reuse::None, Reuse::from_ratio(0.3, &windows, &costs).unwrap()] {
        let instance = Instance { reuse, overhead: 0.05, ..Instance::new(costs.clone(), 4) };
        // Moves follow from the limit: few enough to end well before it on a busy machine.
        let limit = Limit { time: Duration::from_secs(20), seed: 5, gap: 0.02, clock: true };
        for name in ["psg", "blad", "dygnex-g", "real-g", "fold", "match", "runs"] {
            let run = || find(name).unwrap().schedule(&instance, &limit).unwrap();
            assert_eq!(run().schedule, run().schedule, "{name}");
        }
        let run =
            |seed| find("anneal").unwrap().schedule(&instance, &Limit { seed, ..limit.clone() }).unwrap();
        let (one, other) = (run(5), run(5));
        assert!(one.complete && other.complete);
        assert_eq!(one.schedule, other.schedule);
    }
}

/// Guards runs by costs that are told beforehand: the same costs must lead to the same bits on any machine.
#[test]
fn without_the_clock_no_search_is_cut_short_however_little_time_there_is() {
    let costs = growing(60);
    let windows: Vec<_> = (0..60).map(|start| start..start + 4).collect();
    for reuse in [Reuse::None, Reuse::from_ratio(0.3, &windows, &costs).unwrap()] {
        let instance = Instance { reuse, ..Instance::new(costs.clone(), 4) };
        let limit = Limit { time: Duration::from_micros(1), clock: false, ..LIMIT };
        for name in runnable() {
            let run = || find(name).unwrap().schedule(&instance, &limit).unwrap();
            let (one, other) = (run(), run());
            assert!(one.complete && other.complete, "{name}");
            assert_eq!(one.schedule, other.schedule, "{name}");
        }
    }
}

#[test]
fn a_hundred_groups_are_within_half_a_percent_proven() {
    let heavy: Vec<f64> = growing(100).iter().map(|cost| cost.powi(4)).collect();
    for costs in [growing(100), heavy, vec![1.0; 100]] {
        for overhead in [0.0, 0.05] {
            let instance = Instance { overhead, ..Instance::new(costs.clone(), 4) };
            let found =
                find("dygnex").unwrap().schedule(&instance, &Limit { gap: 0.004, ..Limit::default() });
            let found = found.unwrap();
            assert!(found.gap() <= 0.005, "{} {}", overhead, found.gap());
        }
    }
}

#[test]
fn a_hundred_groups_that_share_are_within_two_percent_proven() {
    let windows: Vec<_> = (0..100).map(|start| start..start + 4).collect();
    let heavy: Vec<f64> = growing(100).iter().map(|cost| cost.powi(4)).collect();
    for costs in [growing(100), heavy, vec![1.0; 100]] {
        let reuse = Reuse::from_ratio(0.3, &windows, &costs).unwrap();
        let instance = Instance { reuse, ..Instance::new(costs, 4) };
        // Moves follow from the limit, which is far more than a slow machine needs for them.
        let limit = Limit { gap: 0.008, time: Duration::from_secs(20), ..Limit::default() };
        let found = find("real").unwrap().schedule(&instance, &limit).unwrap();
        assert!(found.gap() <= 0.02, "{}", found.gap());
    }
}

#[test]
fn many_groups_on_many_workers_are_within_a_percent() {
    let instance = Instance::new(growing(10_000), 512);
    let found = schedule("fold", &instance);
    found.schedule.check(&instance).unwrap();
    assert!(found.gap() <= 0.01, "{}", found.gap());
    assert_eq!(found.schedule.optimiser_steps(), 10);
}

#[test]
fn reuse_is_used() {
    let windows: Vec<_> = (0..100).map(|start| start..start + 4).collect();
    let costs = growing(100);
    let reuse = Reuse::from_ratio(0.3, &windows, &costs).unwrap();
    let instance = Instance { reuse, ..Instance::new(costs, 4) };
    let seconds = |name| schedule(name, &instance).seconds;
    assert!(seconds("match") < seconds("fold") && seconds("real") <= seconds("match"));
    // REAL's greedy gains most of what its neighbours save, which is a ninth of the time here.
    assert!(seconds("real-g") < 0.95 * seconds("dygnex-g") && seconds("real-g") < 0.95 * seconds("blad"));
}

#[test]
fn every_scheduler_is_found_and_refuses_what_cannot_be() {
    let group_too_large = Instance::new(vec![1.0; 2], 2).with_memory(vec![2, 9], 8);
    for scheduler in ALL {
        assert_eq!(find(scheduler.name()).unwrap().name(), scheduler.name());
        assert!(!scheduler.about().is_empty() && !scheduler.about().contains('\n'));
        assert!(scheduler.schedule(&group_too_large, &LIMIT).is_err(), "{}", scheduler.name());
    }
    let error = find("by-luck").err().unwrap().to_string();
    assert!(ALL.iter().all(|scheduler| error.contains(scheduler.name())), "{error}");
}

#[cfg(not(feature = "ilp"))]
#[test]
fn integer_programs_say_what_to_build_with() {
    for name in ["dygnex-l", "real-l"] {
        let error = find(name).unwrap().schedule(&Instance::new(vec![1.0], 1), &LIMIT).unwrap_err();
        assert!(error.to_string().contains("--features ilp"), "{error}");
    }
}
