//! Rules that know nothing about links, held against every way of judging: what they reach by one of them
//! says nothing about a model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kymo_graph::snapshot::Vertex;
use kymo_model::metric::{self, Metric};

use super::attacks::{self, CHANCE};
use super::fixture::{Steps, edges, history_of, store_of};
use super::goal::{LinkPrediction, Links};
use super::sample::Sampler;
use crate::config::{LINK_PREDICTION, Settings, Weigh};
use crate::data::Part;
use crate::random::Random;
use crate::task::{Goal, Says, Tallies, Task};

/// Random numbers one after the other.
struct Draws(Random, u64);

impl Draws {
    fn new(seed: u64) -> Draws {
        Draws(Random::new(seed), 0)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.1 += 1;
        self.0.below(bound as usize, self.1) as u32
    }

    /// A number below the bound, small ones far more often than large ones.
    fn skewed(&mut self, bound: u32) -> u32 {
        self.1 += 1;
        (f64::from(bound) * self.0.share(self.1).powi(3)) as u32
    }
}

/// A graph whose vertices are replaced: in each step, sources link to vertices that nobody linked to before.
fn replaced(steps: usize, each: u32) -> Steps {
    let step = |t: usize| (0..each).map(|n| (n % 7, 7 + t as u32 * each + n)).collect();
    (0..steps).map(step).collect()
}

/// A graph whose links follow nothing: of each step's links, the given share is to a new vertex, numbered by
/// its arrival, the others are to vertices that links were to before, in no order.
fn aimless(steps: usize, each: u32, new: f64) -> Steps {
    let (mut targets, mut draws) = (60, Draws::new(1));
    let mut all = vec![(0..targets).map(|target| (target, (target + 1) % targets)).collect()];
    for _ in 1..steps {
        let mut edges = BTreeSet::new();
        let before = targets;
        for n in 0..each {
            let is_new = f64::from(n) < new * f64::from(each);
            targets += u32::from(is_new);
            let target = if is_new { targets - 1 } else { draws.below(before) };
            edges.insert((draws.below(before), target));
        }
        all.push(edges);
    }
    all
}

/// A graph of users and pages, half of each step's pages new ones; users have the lower numbers. Who edits
/// which page follows nothing, but some pages are far more popular than others.
fn two_sides(steps: usize, each: u32) -> Steps {
    let (users, mut pages, mut draws) = (400, 40, Draws::new(2));
    let mut all = Vec::new();
    for _ in 0..steps {
        let before = pages;
        pages += each / 4;
        let mut edges = BTreeSet::new();
        for _ in 0..each {
            let page = match draws.below(2) {
                0 => draws.skewed(before),
                _ => before + draws.below(each / 4),
            };
            edges.insert((draws.below(users), users + page));
        }
        all.push(edges);
    }
    all
}

/// The same popular vertices at every step, and links to them from anywhere.
fn popular(steps: usize, each: u32) -> Steps {
    let mut draws = Draws::new(3);
    let step = |_| (0..each).map(|_| (draws.below(300), draws.skewed(300))).collect();
    (0..steps).map(step).collect()
}

/// What every attack comes to on the test part, by names of the metric and the attack.
type Reached = BTreeMap<(&'static str, &'static str), f64>;

/// That by every metric of links.
fn reached(steps: &Steps) -> Reached {
    reached_by(steps, Weigh::Edges)
}

fn reached_by(steps: &Steps, weigh: Weigh) -> Reached {
    let vertices = steps.iter().flatten().map(|&(u, v)| u.max(v) as usize + 1).max().unwrap_or(0);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(store_of(folder.path(), vertices, steps, true));
    let mut settings = Settings::default();
    settings.task.name = LINK_PREDICTION.into();
    settings.link.weigh = weigh;
    let links = Links::open(&store, &settings).unwrap();
    let of_links = |metric: &&&dyn Metric| LinkPrediction.shows().contains(&metric.needs());
    let metrics: Vec<&'static dyn Metric> = metric::ALL.iter().filter(of_links).copied().collect();
    let mut all = BTreeMap::new();
    for attack in attacks::names() {
        let mut tallies = Tallies::new(&metrics);
        for t in links.split.samples(Part::Test) {
            links.judge(Part::Test, t, Says::Baseline(attack), &mut tallies).unwrap();
        }
        assert_eq!(tallies.values().len(), metrics.len(), "every metric judges");
        all.extend(tallies.values().into_iter().map(|(metric, value)| ((metric, attack), value)));
    }
    all
}

/// The attack that comes furthest by a metric, of those with such a name.
fn best(all: &Reached, metric: &str, of: impl Fn(&str) -> bool) -> (&'static str, f64) {
    let those = all.iter().filter(|((name, attack), _)| *name == metric && of(attack));
    those.map(|((_, attack), value)| (*attack, *value)).max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
}

/// Graphs on which attacks are tried.
fn graphs() -> [(&'static str, Steps); 6] {
    [
        ("aimless", aimless(20, 40, 0.0)),
        ("growing slowly", aimless(20, 40, 0.25)),
        ("growing", aimless(20, 400, 0.25)),
        ("replaced", replaced(20, 40)),
        ("two sides", two_sides(20, 200)),
        ("popular", popular(20, 200)),
    ]
}

/// By `mrr-balanced` no attack comes to much more than chance, whatever the graph is like: half of the pairs
/// have the targets of links, and what a rule can gain is the other half, that of a source's own past.
#[test]
fn balanced_pairs_withstand_every_attack() {
    for (graph, steps) in graphs() {
        let all = reached(&steps);
        let chance = all[&("mrr-balanced", CHANCE)];
        assert!((0.04..0.08).contains(&chance), "{graph}: {chance}");
        let (attack, found) = best(&all, "mrr-balanced", |attack| attack != CHANCE);
        assert!(found < 2.25 * chance, "{graph}: {attack} comes to {found}, chance to {chance}");
    }
}

/// Where a step has few links to new targets, those of later steps are beside them. Who knows that ids are
/// given in the order of arrival can tell them apart; rules that do not look at ids cannot.
#[test]
fn where_few_targets_are_new_ids_alone_give_them_away() {
    let arriving = (0..60).map(|t| (0..3).map(|n| ((5 * t + n) % 17, 17 + 3 * t + n)).collect()).collect();
    let all = reached(&arriving);
    let chance = all[&("mrr-balanced", CHANCE)];
    let (attack, found) = best(&all, "mrr-balanced", |attack| !attack.contains("ids") && attack != CHANCE);
    assert!(found < 2.25 * chance, "{attack}: {found}, chance {chance}");
    let (_, found) = best(&all, "mrr-balanced", |attack| attack.contains("ids"));
    assert!(found > 0.3, "{found}");
}

/// What every other protocol gives away, and to whom.
#[test]
fn other_protocols_are_reached_by_some() {
    let graphs = BTreeMap::from(graphs().map(|(graph, steps)| (graph, reached(&steps))));
    for (metric, graph, attack, least) in [
        ("mrr-tgb", "replaced", "new-then-low-ids", 0.6),
        ("mrr-tgb", "replaced", "new-first", 0.3),
        ("mrr-tgb", "two sides", "new-then-low-ids", 0.2),
        ("mrr-tgb", "popular", "popular", 0.2),
        ("auc", "replaced", "new-first", 0.9),
        ("auc", "two sides", "new-then-popular", 0.7),
        ("average-precision", "replaced", "new-first", 0.9),
        ("average-precision", "popular", "degree", 0.7),
        ("mrr-roland", "popular", "popular", 0.15),
        ("mrr-roland", "replaced", "high-ids-first", 0.1),
        ("mrr-evolvegcn", "popular", "degree", 0.15),
        ("map", "popular", "degree", 0.015),
    ] {
        let found = graphs[graph][&(metric, attack)];
        assert!(found > least, "{attack} comes to {found} by {metric} on {graph}");
        assert!(found > 2.0 * graphs[graph][&(metric, CHANCE)] || metric == "auc" || found > 0.7);
    }
}

/// Asked event by event, the protocols give away as much, and balanced pairs as little: they are the same.
#[test]
fn events_are_given_away_as_links_are() {
    let steps = replaced(20, 40);
    let [links, events] = [Weigh::Edges, Weigh::Events].map(|weigh| reached_by(&steps, weigh));
    for metric in ["mrr-tgb", "auc", "average-precision"] {
        let chance = events[&(metric, CHANCE)];
        let found = events[&(metric, "new-first")];
        assert!(found > 1.5 * chance, "{metric}: {found}, chance {chance}");
    }
    let balanced = |all: &Reached| best(all, "mrr-balanced", |_| true);
    assert_eq!(balanced(&links), balanced(&events));
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
