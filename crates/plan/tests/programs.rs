//! The integer programs, DyGNeX-L and REAL-L: what they answer, and what they say about who made the answer.
#![cfg(feature = "ilp")]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use kymo_plan::schedule::{ALL, Instance, Limit, Reuse, Scheduled, find};

fn schedule(name: &str, instance: &Instance, limit: &Limit) -> Scheduled {
    let found = find(name).unwrap().schedule(instance, limit).unwrap();
    found.schedule.check(instance).unwrap();
    assert_eq!(found.seconds, found.schedule.seconds(instance));
    assert!(ALL.iter().any(|scheduler| scheduler.name() == found.by), "{}", found.by);
    found
}

/// Costs that grow with noise; windows of this length share what they overlap.
fn instance(groups: usize, window: usize, workers: usize) -> Instance {
    let noise = |group: usize| ((group * 7919 + 13) % 101) as f64 / 101.0;
    let costs: Vec<f64> =
        (0..groups).map(|group| 0.5 + group as f64 / groups as f64 + noise(group)).collect();
    let windows: Vec<_> = (0..groups).map(|start| start..start + window).collect();
    let reuse = Reuse::from_ratio(0.3, &windows, &costs).unwrap();
    Instance { reuse, overhead: 0.05, ..Instance::new(costs, workers) }
}

/// The answer is that of a greedy, and the note names the reason and both schedulers. With reuse REAL's
/// greedy may have taken the pairs of another.
fn is_fallback(found: &Scheduled, name: &str, greedy: &str, reason: &str, instance: &Instance) {
    let others: &[&str] = if greedy == "real-g" && instance.reuse != Reuse::None {
        &["blad", "dygnex-g", "match", "runs"]
    } else {
        &[]
    };
    assert!(found.by == greedy || others.contains(&found.by), "{}", found.by);
    let note = found.note.as_deref().unwrap();
    for word in [name, found.by, reason] {
        assert!(note.contains(word) && !note.contains('\n'), "{note}");
    }
    // Where the clock cut neither short, it is the very schedule that the greedy gives when asked directly.
    let asked = schedule(greedy, instance, &Limit { time: Duration::from_secs(60), ..Limit::default() });
    assert!(!(found.complete && asked.complete) || found.schedule == asked.schedule);
}

#[test]
fn beyond_its_size_a_program_falls_back_to_the_greedy_of_its_paper() {
    // The limit sets the moves of annealing: few, since they are not what is tested.
    let limit = Limit { time: Duration::from_millis(200), ..Limit::default() };
    // Wide windows make columns for reuse: 75 groups are as many as 290 that share nothing.
    let cases = [
        ("dygnex-l", "dygnex-g", Instance { reuse: Reuse::None, ..instance(290, 1, 4) }),
        ("dygnex-l", "dygnex-g", instance(290, 4, 4)),
        ("real-l", "real-g", Instance { reuse: Reuse::None, ..instance(290, 1, 4) }),
        ("real-l", "real-g", instance(75, 16, 4)),
    ];
    for (name, greedy, instance) in cases {
        let found = schedule(name, &instance, &limit);
        is_fallback(&found, name, greedy, "40000 columns", &instance);
        assert!(found.bound <= found.seconds && found.bound >= instance.lower_bound() - 1e-9);
    }
}

#[test]
fn what_a_program_cannot_express_falls_back_as_well() {
    let three = Instance { most: 3, ..instance(20, 4, 2) };
    let limit = Limit { time: Duration::from_millis(200), ..Limit::default() };
    let found = schedule("real-l", &three, &limit);
    is_fallback(&found, "real-l", "real-g", "at most 2 groups per worker, found 3", &three);
    // DyGNeX-L ignores reuse, so three groups are nothing special to it.
    assert_ne!(schedule("dygnex-l", &three, &limit).by, "dygnex-g");
}

#[test]
fn an_annealed_schedule_that_is_good_enough_is_named_as_such() {
    // A gap that any schedule here meets: the solver has nothing to do.
    let limit = Limit { time: Duration::from_millis(200), gap: 1.0, ..Limit::default() };
    for name in ["dygnex-l", "real-l"] {
        let found = schedule(name, &instance(30, 4, 3), &limit);
        assert_eq!(found.by, "anneal");
        let note = found.note.unwrap();
        assert!(note.contains(name) && note.contains("annealed") && note.contains("not needed"), "{note}");
    }
}

#[test]
fn within_its_size_an_answer_is_never_slower_than_the_annealed_one() {
    let limit = Limit { time: Duration::from_secs(2), ..Limit::default() };
    for workers in [2, 3] {
        let instance = instance(14, 4, workers);
        let annealed = schedule("anneal", &instance, &limit);
        let found = schedule("real-l", &instance, &limit);
        // One that the clock cut short may be worse, and the clock decides no test.
        assert!(!annealed.complete || !found.complete || found.seconds <= annealed.seconds);
        match found.by {
            "real-l" => assert_eq!(found.note, None),
            "anneal" => assert!(found.note.unwrap().contains("annealed")),
            other => panic!("made by {other}"),
        }
    }
}
