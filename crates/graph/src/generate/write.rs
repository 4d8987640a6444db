//! A generated graph on its way into a store.

use std::path::Path;

use serde_json::{Value, json};

use super::{Generated, Generator, Params, Trend, default_edges, from_static, generate};
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::progress::Progress;
use crate::step::FeatureChange;
use crate::store::{FeatureFacts, FeatureKind, Plan, Store, Writer};
use crate::time::TimeUnit;

/// What `from-static` is asked for; what is `None` follows from the static graph.
#[derive(Clone, Debug)]
pub struct FromStatic {
    /// Mean edges of a step.
    pub edges: Option<usize>,
    /// Number of steps.
    pub steps: usize,
    /// Edges added and removed between consecutive steps, over the edges of the earlier one.
    pub edge_change: f64,
    /// How the number of edges moves.
    pub trend: Trend,
    /// What all random numbers follow from.
    pub seed: u64,
}

/// Writes a graph of this kind into a new store.
pub fn write(
    kind: &dyn Generator,
    params: &Params,
    path: &Path,
    replace: bool,
    progress: &Progress,
) -> Result<Store> {
    write_into(kind, params, || Writer::create(path, replace), progress)
}

/// Writes the data that a run makes for itself into a folder of the run, where nothing else may be written.
pub fn write_within_run(
    kind: &dyn Generator,
    params: &Params,
    path: &Path,
    progress: &Progress,
) -> Result<Store> {
    write_into(kind, params, || Writer::create_within(path, true), progress)
}

fn write_into(
    kind: &dyn Generator,
    params: &Params,
    create: impl FnOnce() -> Result<Writer>,
    progress: &Progress,
) -> Result<Store> {
    let steps = generate(kind, params)?;
    let mut writer = create()?;
    let features = match params.features {
        0 => FeatureFacts { kind: FeatureKind::Degrees, width: 2, segments: 0 },
        width => {
            FeatureFacts { kind: FeatureKind::Dense, width: width as u64, segments: params.segments as u64 }
        }
    };
    let classes = if params.features > 0 { vec!["below".into(), "above".into()] } else { Vec::new() };
    writer.plan(Plan {
        directed: !params.undirected,
        time_unit: TimeUnit::Step,
        features,
        classes,
        ..Plan::default()
    });
    writer.add_vertices(&Ids::Number((0..params.vertices as u64).collect()))?;
    let provenance = json!({
        "command": "generate",
        "kymo": env!("CARGO_PKG_VERSION"),
        "kind": kind.name(),
        "params": params,
    });
    fill(writer, steps, FeatureChange::Same, provenance, progress)
}

/// Writes snapshots made by deleting edges of the last step of `graph` into a new store. Features, classes
/// and the split of the vertices come along.
pub fn write_from_static(
    graph: &Store,
    ask: &FromStatic,
    path: &Path,
    replace: bool,
    progress: &Progress,
) -> Result<Store> {
    let last = graph
        .steps()
        .checked_sub(1)
        .ok_or_else(|| Error::store(graph.path(), "has no step to start from"))?;
    let manifest = graph.manifest();
    let snapshot = graph.snapshot(last)?.into_owned();
    let undirected = !manifest.directed;
    let params = Params {
        vertices: graph.vertices(),
        edges: ask.edges.unwrap_or_else(|| default_edges(&snapshot, undirected, ask.trend)),
        steps: ask.steps,
        edge_change: ask.edge_change,
        trend: ask.trend,
        undirected,
        seed: ask.seed,
        ..Params::GENERIC
    };
    let steps = from_static(snapshot, graph.vertices(), &params)?;
    let mut writer = Writer::create(path, replace)?;
    writer.plan(Plan {
        directed: manifest.directed,
        left: manifest.left.map(|left| left as usize),
        time_unit: TimeUnit::Step,
        features: manifest.features,
        classes: manifest.labels.classes.clone(),
        part_bytes: 0,
    });
    writer.add_vertices(&graph.ids()?)?;
    writer.fixed(&graph.fixed()?)?;
    let features = match manifest.features.kind {
        FeatureKind::Dense => FeatureChange::All(graph.features(last)?.into_owned()),
        FeatureKind::None | FeatureKind::Degrees | FeatureKind::Sparse => FeatureChange::Same,
    };
    let provenance = json!({
        "command": "generate",
        "kymo": env!("CARGO_PKG_VERSION"),
        "kind": "from-static",
        "edges": params.edges,
        "steps": params.steps,
        "edge_change": params.edge_change,
        "trend": params.trend,
        "seed": params.seed,
        "graph": manifest.provenance,
    });
    fill(writer, steps, features, provenance, progress)
}

fn fill(
    mut writer: Writer,
    mut steps: Generated,
    features: FeatureChange,
    mut provenance: Value,
    progress: &Progress,
) -> Result<Store> {
    progress.announce(steps.steps as u64);
    let mut features = Some(features).filter(|features| *features != FeatureChange::Same);
    for step in steps.by_ref() {
        let mut step = step?;
        if let Some(features) = features.take() {
            step.features = features;
        }
        writer.push(step)?;
        progress.add_step();
        progress.advance(1);
        progress.check()?;
    }
    if let Some(signal) = steps.signal() {
        provenance["signal"] =
            json!({ "a": signal.a, "b": signal.b, "noise": signal.noise, "noise_floor": signal.floor() });
    }
    writer.provenance(provenance);
    writer.finish()
}
