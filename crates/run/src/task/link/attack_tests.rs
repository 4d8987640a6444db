//! Rules that know nothing about links, held against the ways of judging: what they reach by one of them says
//! nothing about a model.

use std::collections::BTreeSet;

use kymo_graph::snapshot::{Step, Vertex};
use kymo_model::metric::{Evidence, Metric, MrrBalanced, MrrTgb};

use super::fixture::{Steps, edges, history_of};
use super::history::History;
use super::sample::{Purpose, Sampler};

/// A graph whose vertices are replaced: in each step, sources link to vertices that nobody linked to before.
fn replaced(steps: usize, each: u32) -> Steps {
    let step = |t: usize| (0..each).map(|n| (n % 7, 7 + t as u32 * each + n)).collect();
    (0..steps).map(step).collect()
}

/// A graph that grows: of each step's links, every fourth is to a new vertex, the others to vertices that
/// links were to before, in no order.
fn growing(steps: usize, each: u32) -> Steps {
    let mut targets = 20;
    let mut word = 1u64;
    let mut draw = |below: u32| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) as u32 % below
    };
    let mut all = Vec::new();
    for _ in 0..steps {
        let mut edges = BTreeSet::new();
        let before = targets;
        for n in 0..each {
            targets += u32::from(n % 4 == 0);
            let target = if n % 4 == 0 { targets - 1 } else { draw(before) };
            edges.insert((draw(before), target));
        }
        all.push(edges);
    }
    all
}

/// What a rule comes to by a metric over all steps, with 100 pairs for each link.
fn reached(
    steps: &Steps,
    metric: &dyn Metric,
    balanced: bool,
    score: impl Fn(&History, Step, Vertex) -> f32,
) -> f64 {
    let vertices = steps.iter().flatten().map(|&(u, v)| u.max(v) as usize + 1).max().unwrap_or(0);
    let history = history_of(vertices, steps);
    let sampler = Sampler { history: &history, recent: None, vertices, seed: 3 };
    let mut tally = metric.tally();
    for t in 2..steps.len() - 1 {
        let (edges, each) = (edges(&steps[t + 1]), 100);
        let links = sampler.choose(&edges, 0, Purpose::Judge, t);
        let mut absent = Vec::new();
        sampler.absent_targets(t, &edges, &links, each, 0.5, &mut absent);
        if balanced {
            sampler.balance(t, &edges, &links, each, &mut absent);
        }
        let present: Vec<f32> = links.iter().map(|link| score(&history, t, link.target())).collect();
        let absent: Vec<f32> = absent.iter().map(|&target| score(&history, t, target)).collect();
        tally.add(&Evidence::Sampled { present: &present, absent: &absent });
    }
    tally.value().unwrap()
}

fn new_first(history: &History, t: Step, target: Vertex) -> f32 {
    f32::from(u8::from(!history.seen_targets(t).contains(&target)))
}

fn late_ids_first(_: &History, _: Step, target: Vertex) -> f32 {
    target as f32
}

/// Guards the protocol: to know which targets are new, or to believe in ids that follow each other, is worth
/// next to nothing where the pairs are balanced, and everything where they are not.
#[test]
fn new_targets_first_gains_nothing_where_pairs_are_balanced() {
    let steps = replaced(10, 40);
    assert!(reached(&steps, &MrrTgb, false, new_first) > 0.99);
    let fair = reached(&steps, &MrrBalanced, true, new_first);
    assert!(fair < 0.03, "{fair}");

    let steps = growing(12, 40);
    let gamed = reached(&steps, &MrrTgb, false, new_first);
    let fair = reached(&steps, &MrrBalanced, true, new_first);
    assert!(gamed > 0.25 && fair < 0.06, "{gamed} {fair}");
    let [gamed, fair] = [(false, &MrrTgb as &dyn Metric), (true, &MrrBalanced)]
        .map(|(balanced, metric)| reached(&steps, metric, balanced, late_ids_first));
    assert!(fair < gamed, "{gamed} {fair}");
}

/// As large a share of the pairs has a new target as of the links, and none of them is a link.
#[test]
fn targets_are_as_often_new_as_those_of_links() {
    let steps = growing(8, 60);
    let counted = std::cell::Cell::new([0usize; 2]);
    reached(&steps, &MrrBalanced, true, |history, t, target| {
        let [new, all] = counted.get();
        counted.set([new + usize::from(!history.seen_targets(t).contains(&target)), all + 1]);
        0.0
    });
    let [new, all] = counted.get();
    let share = new as f64 / all as f64;
    // A fourth of the links before those that came twice were taken out.
    assert!((0.22..0.33).contains(&share), "{share}");
}
