//! What one step is like, and how it differs from the step before.

use serde::Serialize;

use super::degrees::Degrees;
use super::ratio;
use crate::delta::Delta;
use crate::diffmap::Diffmap;
use crate::error::Result;
use crate::snapshot::{Edge, Snapshot, Step};
use crate::store::{Stop, Store};

/// One step. Edges are counted as a person does: in an undirected graph an edge and its opposite are one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepStats {
    /// The step.
    pub step: Step,
    /// When it begins.
    pub begin: f64,
    /// When it ends.
    pub end: f64,
    /// Input rows it was made from.
    pub events: u64,
    /// Edges.
    pub edges: u64,
    /// Of them, those that join a vertex to itself.
    pub self_loops: u64,
    /// Vertices with an edge.
    pub active: u64,
    /// Vertices that are present: they have an edge at this step, or at one before and one after it.
    pub present: u64,
    /// Edges that were not there at the step before.
    pub added: u64,
    /// Edges of the step before that are gone.
    pub removed: u64,
    /// Edges of both steps whose weight differs.
    pub reweighted: u64,
    /// Edges added and removed over the edges of the step before: 0 to 2 in a graph of constant size.
    pub change: Option<f64>,
    /// Edges of both steps over edges of either (the Jaccard index): 1 where nothing came or left.
    pub overlap: Option<f64>,
    /// Vertices that are active and were not at the step before.
    pub appeared: u64,
    /// Vertices that were active at the step before and are not.
    pub disappeared: u64,
    /// Vertices that appeared or disappeared over vertices active at either step.
    pub turnover: Option<f64>,
    /// The share of edges (in both directions, where the graph is undirected) that lead to a vertex to which
    /// none led at any step before: who ranks such vertices first finds as many links without knowing any.
    pub new_targets: Option<f64>,
    /// Vertices with a changed incoming edge: what an incremental aggregation has to compute again.
    pub inward: u64,
    /// Vertices with a changed outgoing edge.
    pub outward: u64,
    /// Vertices whose in-degree changed.
    pub in_degree_changed: u64,
    /// Vertices whose out-degree changed.
    pub out_degree_changed: u64,
    /// The highest in-degree.
    pub max_in_degree: u32,
    /// The highest out-degree.
    pub max_out_degree: u32,
    /// Incoming edges of an active vertex, on average.
    pub mean_degree: Option<f64>,
    /// The Gini coefficient of the in-degrees of active vertices: 0 where all are equal, near 1 where one has
    /// all edges.
    pub degree_skew: Option<f64>,
    /// The lowest weight, where not all weights are 1.
    pub weight_min: Option<f32>,
    /// The highest weight, where not all weights are 1.
    pub weight_max: Option<f32>,
    /// Values to be predicted.
    pub targets: u64,
    /// Classes to be predicted.
    pub labels: u64,
}

/// What is remembered from step to step.
pub(super) struct Tracker<'a> {
    store: &'a Store,
    directed: bool,
    degrees: Degrees,
    seen: Seen,
    /// Of each vertex, whether an edge has led to it.
    reached: Vec<bool>,
    before: Option<Before>,
}

#[derive(Clone, Copy)]
struct Before {
    edges: u64,
    active: u64,
}

impl<'a> Tracker<'a> {
    /// Before the first step of `store`.
    pub fn new(store: &'a Store) -> Self {
        let (directed, degrees) = (store.manifest().directed, Degrees::new(store.vertices()));
        let reached = vec![false; store.vertices()];
        Tracker { store, directed, degrees, seen: Seen::default(), reached, before: None }
    }

    /// Describes a stop of the walk; every stop has to pass here, in order.
    pub fn describe(&mut self, stop: Stop<'_>) -> Result<StepStats> {
        let Stop { step, snapshot, delta } = stop;
        self.seen.add(&delta);
        self.degrees.follow(&delta);
        let degrees = self.degrees.summary();
        let map = Diffmap::of(delta, self.store.vertices());
        let delta = &map.delta;
        let [begin, end] = self.store.time(step)?;
        let edges = snapshot.count(self.directed) as u64;
        let added = count(delta.added.iter().map(|&(edge, _)| edge), self.directed);
        let removed = count(delta.removed.iter().map(|&(edge, _)| edge), self.directed);
        let [weight_min, weight_max] = weights(snapshot);
        // An edge to where none led before was not there before.
        let targets = || delta.added.iter().map(|&(edge, _)| edge.target() as usize);
        let new = targets().filter(|&target| !self.reached[target]).count() as u64;
        targets().for_each(|target| self.reached[target] = true);
        let before = self.before.replace(Before { edges, active: degrees.active });
        Ok(StepStats {
            step,
            begin,
            end,
            events: self.store.events(step)?,
            edges,
            self_loops: snapshot.self_loops() as u64,
            active: degrees.active,
            // Known when the last step is.
            present: 0,
            added,
            removed,
            reweighted: count(delta.reweighted.iter().map(|change| change.edge), self.directed),
            change: before.and_then(|before| ratio(added + removed, before.edges)),
            overlap: before.and_then(|before| ratio(edges - added, before.edges + added)),
            appeared: degrees.appeared,
            disappeared: degrees.disappeared,
            turnover: before.and_then(|before| {
                ratio(degrees.appeared + degrees.disappeared, before.active + degrees.appeared)
            }),
            new_targets: before.and_then(|_| ratio(new, snapshot.len() as u64)),
            inward: map.inward.len() as u64,
            outward: map.outward.len() as u64,
            in_degree_changed: map.in_degree.len() as u64,
            out_degree_changed: map.out_degree.len() as u64,
            max_in_degree: degrees.max_in,
            max_out_degree: degrees.max_out,
            mean_degree: ratio(snapshot.len() as u64, degrees.active),
            degree_skew: degrees.gini,
            weight_min,
            weight_max,
            targets: self.store.targets(step)?.0.len() as u64,
            labels: self.store.labels(step)?.0.len() as u64,
        })
    }

    /// Distinct edges of all steps so far.
    pub fn distinct_edges(mut self) -> u64 {
        self.seen.settle();
        count(self.seen.edges.iter().copied(), self.directed)
    }
}

/// Edges as [`Snapshot::count`] counts them.
fn count(edges: impl ExactSizeIterator<Item = Edge>, directed: bool) -> u64 {
    let all = edges.len();
    let edges = if directed { all } else { (all + edges.filter(|edge| edge.is_self_loop()).count()) / 2 };
    edges as u64
}

fn weights(snapshot: &Snapshot<'_>) -> [Option<f32>; 2] {
    let all = snapshot.weights.as_deref().unwrap_or_default().iter().copied();
    [all.clone().reduce(f32::min), all.reduce(f32::max)]
}

/// Every edge that was ever there.
#[derive(Default)]
struct Seen {
    edges: Vec<Edge>,
    distinct: usize,
}

impl Seen {
    fn add(&mut self, delta: &Delta) {
        self.edges.extend(delta.added.iter().map(|&(edge, _)| edge));
        // Edges that came back are listed twice for a while: dropping them whenever the list has doubled
        // bounds the memory and costs less than a merge at every step.
        if self.edges.len() > 2 * self.distinct {
            self.settle();
        }
    }

    fn settle(&mut self) {
        // The stable sort finds the sorted runs, of which there is one for every step, and merges them.
        self.edges.sort();
        self.edges.dedup();
        self.distinct = self.edges.len();
    }
}
