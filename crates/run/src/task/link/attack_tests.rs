//! Rules that know nothing about links, held against every way of judging: what they reach by one of them
//! says nothing about a model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kymo_graph::snapshot::{Step, Vertex};
use kymo_model::metric::{self, Metric};

use super::fixture::{Steps, edges, history_of, store_of};
use super::goal::{LinkPrediction, Links};
use super::history::History;
use super::judge::Scorer;
use super::rules::Rule;
use super::sample::Sampler;
use crate::config::{LINK_PREDICTION, Settings};
use crate::data::Part;
use crate::task::{Tallies, Task};

/// A graph whose vertices are replaced: in each step, sources link to vertices that nobody linked to before.
fn replaced(steps: usize, each: u32) -> Steps {
    let step = |t: usize| (0..each).map(|n| (n % 7, 7 + t as u32 * each + n)).collect();
    (0..steps).map(step).collect()
}

/// A graph whose links follow nothing: of each step's links, the given share is to a new vertex, the others
/// are to vertices that links were to before, in no order.
fn aimless(steps: usize, each: u32, new: f64) -> Steps {
    let mut targets = 60;
    let mut word = 1u64;
    let mut draw = |below: u32| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) as u32 % below
    };
    let mut all = vec![(0..targets).map(|target| (target, (target + 1) % targets)).collect()];
    for _ in 1..steps {
        let mut edges = BTreeSet::new();
        let before = targets;
        for n in 0..each {
            let is_new = f64::from(n) < new * f64::from(each);
            targets += u32::from(is_new);
            let target = if is_new { targets - 1 } else { draw(before) };
            edges.insert((draw(before), target));
        }
        all.push(edges);
    }
    all
}

/// What a rule looks at: the past, the last step that is known, a target.
type Look = fn(&History, Step, Vertex) -> f32;

/// Rules that say the same of a target whatever the source is.
const ATTACKS: [(&str, Look); 6] = [
    ("new first", |history, t, target| f32::from(u8::from(!history.seen_targets(t).contains(&target)))),
    ("popular first", |history, t, target| links_to(history, 0..t + 1, target)),
    ("popular lately first", |history, t, target| links_to(history, t.saturating_sub(2)..t + 1, target)),
    ("degree", |history, t, target| {
        history.known_targets(target, t).len() as f32 + links_to(history, 0..t + 1, target)
    }),
    ("late ids first", |_, _, target| target as f32),
    ("early ids first", |_, _, target| -(target as f32)),
];

fn links_to(history: &History, steps: std::ops::Range<Step>, target: Vertex) -> f32 {
    let pairs = history.pairs_within(steps).filter(|pair| pair.1 == target);
    pairs.map(|pair| pair.2 as f32).sum()
}

struct Attack(Vec<f32>);

impl Rule for Attack {
    fn score(&self, _: Vertex, target: Vertex) -> f32 {
        self.0[target as usize]
    }
}

/// What every rule comes to by every metric of links on the test part, by names.
fn reached(steps: &Steps) -> BTreeMap<(&'static str, &'static str), f64> {
    let vertices = steps.iter().flatten().map(|&(u, v)| u.max(v) as usize + 1).max().unwrap_or(0);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(store_of(folder.path(), vertices, steps, true));
    let mut settings = Settings::default();
    settings.task.name = LINK_PREDICTION.into();
    let links = Links::open(&store, &settings).unwrap();
    let of_links = |metric: &&&dyn Metric| LinkPrediction.shows().contains(&metric.needs());
    let metrics: Vec<&'static dyn Metric> = metric::ALL.iter().filter(of_links).copied().collect();
    let mut all = BTreeMap::new();
    for (attack, look) in ATTACKS {
        let mut tallies = Tallies::new(&metrics);
        for t in links.split.samples(Part::Test) {
            let scores = (0..vertices as Vertex).map(|target| look(&links.pasts.along, t, target)).collect();
            let scorer = |_| Ok(Scorer::Rule(Box::new(Attack(scores))));
            links.judge_by(Part::Test, t, scorer, &mut tallies).unwrap();
        }
        assert_eq!(tallies.values().len(), metrics.len(), "every metric judges");
        all.extend(tallies.values().into_iter().map(|(metric, value)| ((attack, metric), value)));
    }
    all
}

/// What the best of these rules comes to by a metric.
fn best(all: &BTreeMap<(&'static str, &'static str), f64>, metric: &str, rules: &[&str]) -> f64 {
    let of = |rule: &&str| all.iter().find(|((attack, name), _)| attack == rule && *name == metric);
    rules.iter().map(|rule| *of(rule).unwrap().1).fold(0.0, f64::max)
}

/// The most that any of the rules may reach on graphs whose links follow nothing, by ranks. To know which
/// targets are new, or popular, or to believe in ids, is worth little by every one of them.
#[test]
fn rules_that_know_nothing_reach_little_where_links_follow_nothing() {
    let names = ATTACKS.map(|(name, _)| name);
    for new in [0.0, 0.25] {
        let all = reached(&aimless(20, 40, new));
        let most = [
            ("mrr-tgb", 0.1),
            ("mrr-balanced", 0.1),
            ("mrr-roland", 0.04),
            ("mrr-evolvegcn", 0.1),
            ("map", 0.02),
            ("auc", 0.6),
            ("average-precision", 0.65),
        ];
        for (metric, most) in most {
            let found = best(&all, metric, &names);
            assert!(found < most, "{metric} with {new} new targets: {found}");
        }
        assert_eq!(all.len(), most.len() * names.len(), "a metric has no bound here");
    }
}

/// Where all targets are replaced at every step, those of the last steps are the only ones among all that
/// were never one before: by TGB's protocol, which draws from all targets of the data set, that is worth
/// something at its end, and by all that looks at the same pairs. Balanced pairs give nothing away, and
/// ranks among all vertices little.
#[test]
fn new_targets_first_gains_nothing_where_pairs_are_balanced() {
    let all = reached(&replaced(20, 40));
    let names = ATTACKS.map(|(name, _)| name);
    let tgb = best(&all, "mrr-tgb", &["new first"]);
    assert!((0.2..0.5).contains(&tgb), "{tgb}");
    assert!(best(&all, "auc", &["new first"]) > 0.9 && best(&all, "average-precision", &["new first"]) > 0.9);
    for (metric, most) in [("mrr-balanced", 0.1), ("mrr-roland", 0.15), ("mrr-evolvegcn", 0.06)] {
        let found = best(&all, metric, &names);
        assert!(found < most, "{metric}: {found}");
    }
}

/// As large a share of the balanced pairs has a new target as of the links.
#[test]
fn balanced_targets_are_as_often_new_as_those_of_links() {
    let steps = aimless(8, 60, 0.25);
    let vertices = steps.iter().flatten().map(|&(u, v)| u.max(v) as usize + 1).max().unwrap();
    let history = history_of(vertices, &steps);
    let sampler = Sampler { history: &history, recent: None, vertices, seed: 3 };
    for t in 2..steps.len() - 1 {
        let links = edges(&steps[t + 1]);
        let absent = sampler.balanced(t, &links, links.clone(), 100, 0.5).targets;
        let is_new = |target: Vertex| usize::from(!history.seen_targets(t).contains(&target));
        let new = links.iter().map(|link| is_new(link.target())).sum::<usize>() as f64 / links.len() as f64;
        let drawn = absent.iter().map(|&target| is_new(target)).sum::<usize>() as f64 / absent.len() as f64;
        assert!(new > 0.2 && (new - drawn).abs() < 0.01, "{new} {drawn}");
    }
}
