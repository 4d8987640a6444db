//! What a person wants to know about a dynamic graph before training on it, from one walk over its store.

mod degrees;
mod sequences;
mod step;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use sequences::SequenceStats;
pub use step::StepStats;

use crate::error::Result;
use crate::presence::Presence;
use crate::progress::Progress;
use crate::store::{FeatureFacts, FeatureKind, Store};
use crate::time::TimeUnit;
use step::Tracker;

/// A whole store. Edges are counted as a person does: in an undirected graph an edge and its opposite are
/// one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// How many vertices there are.
    pub vertices: u64,
    /// Of them, in a bipartite graph, those on the left side.
    pub left: Option<u64>,
    /// How many steps there are.
    pub steps: u64,
    /// Edges summed over the steps.
    pub edges: u64,
    /// Different edges among them.
    pub distinct_edges: u64,
    /// Input rows.
    pub events: u64,
    /// Input rows that join a vertex to itself, whether they were kept or not.
    pub self_loops: u64,
    /// Whether an edge and its opposite are two different things.
    pub directed: bool,
    /// Whether any edge has a weight other than 1.
    pub weighted: bool,
    /// What times count.
    pub time_unit: TimeUnit,
    /// When the first step begins.
    pub begin: Option<f64>,
    /// When the last step ends.
    pub end: Option<f64>,
    /// The features of vertices.
    pub features: FeatureStats,
    /// Values to be predicted, summed over the steps.
    pub targets: u64,
    /// The classes of vertices.
    pub labels: LabelStats,
    /// The split of the vertices, where the data came with one.
    pub splits: Option<SplitStats>,
    /// At how many steps vertices are present.
    pub sequences: SequenceStats,
    /// Bytes of all files on disk.
    pub bytes: u64,
    /// Bytes of the edges and weights, as a full snapshot for every step and as they are stored.
    pub structure: Sizes,
    /// The steps in brief.
    pub averages: Averages,
    /// The steps one by one.
    pub per_step: Vec<StepStats>,
}

/// The features of vertices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FeatureStats {
    /// Their kind, width and segments.
    #[serde(flatten)]
    pub facts: FeatureFacts,
    /// The names of the features of edges, whose means are among the columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub of_edges: Vec<String>,
    /// Bytes, with all rows at every step and as they are stored.
    pub bytes: Sizes,
}

/// The classes of vertices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LabelStats {
    /// Vertices with a class that holds for all steps.
    pub fixed: u64,
    /// Classes that steps list for vertices, summed over the steps.
    pub per_step: u64,
    /// The classes, in the order of their numbers.
    pub classes: Vec<ClassStats>,
}

/// One class.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassStats {
    /// What it is called.
    pub name: String,
    /// Vertices of this class at all steps.
    pub fixed: u64,
    /// How often steps list it.
    pub per_step: u64,
}

/// How many vertices each part of a split has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SplitStats {
    /// To train on.
    pub train: u64,
    /// To choose settings by.
    pub validation: u64,
    /// To report results on.
    pub test: u64,
}

/// Bytes of the same thing in two forms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// Everything at every step.
    pub full: u64,
    /// As it is stored.
    pub stored: u64,
    /// How many times smaller it is as stored.
    pub ratio: Option<f64>,
}

impl Sizes {
    fn new(full: u64, stored: u64) -> Self {
        Sizes { full, stored, ratio: ratio(full, stored) }
    }
}

/// The steps in brief; a step for which a figure means nothing does not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Averages {
    /// Edges of a step.
    pub edges: Option<Spread>,
    /// Active vertices of a step.
    pub active: Option<Spread>,
    /// See [`StepStats::change`].
    pub change: Option<Spread>,
    /// See [`StepStats::overlap`].
    pub overlap: Option<Spread>,
    /// See [`StepStats::turnover`].
    pub turnover: Option<Spread>,
    /// See [`StepStats::new_targets`].
    pub new_targets: Option<Spread>,
}

/// The lowest, the mean and the highest of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The lowest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Spread> {
        let (min, max) = (values.clone().reduce(f64::min)?, values.clone().reduce(f64::max)?);
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        Some(Spread { min, mean: sum / count, max })
    }
}

/// Describes a store in one walk over its steps, which are what `progress` reports.
pub fn stats(store: &Store, progress: &Progress) -> Result<Stats> {
    let manifest = store.manifest();
    progress.announce(manifest.steps);
    let mut tracker = Tracker::new(store);
    let mut labels = LabelStats {
        classes: manifest
            .labels
            .classes
            .iter()
            .map(|name| ClassStats { name: name.clone(), ..ClassStats::default() })
            .collect(),
        ..LabelStats::default()
    };
    let (mut per_step, mut full_structure): (Vec<StepStats>, u64) = (Vec::new(), 0);
    let mut walk = store.walk();
    while let Some(stop) = walk.step()? {
        progress.check()?;
        for &class in store.labels(stop.step)?.1 {
            labels.per_step += 1;
            if let Some(class) = labels.classes.get_mut(class as usize) {
                class.per_step += 1;
            }
        }
        let bytes = if stop.snapshot.weights.is_some() { 12 } else { 8 };
        full_structure += bytes * stop.snapshot.len() as u64;
        per_step.push(tracker.describe(stop)?);
        progress.advance(1);
    }
    let presence = Presence::by_edges(store, store.steps(), progress)?;
    for (step, present) in per_step.iter_mut().zip(presence.counts()) {
        step.present = present;
    }
    let fixed = store.fixed()?;
    for &class in fixed.classes.iter().filter(|&&class| class >= 0) {
        labels.fixed += 1;
        if let Some(class) = labels.classes.get_mut(class as usize) {
            class.fixed += 1;
        }
    }
    let part = |part: u8| fixed.splits.iter().filter(|&&split| split == part).count() as u64;
    let splits =
        (!fixed.splits.is_empty()).then(|| SplitStats { train: part(1), validation: part(2), test: part(3) });
    Ok(Stats {
        vertices: manifest.vertices,
        left: manifest.left,
        steps: manifest.steps,
        edges: per_step.iter().map(|step| step.edges).sum(),
        distinct_edges: tracker.distinct_edges(),
        events: manifest.events,
        self_loops: manifest.self_loops,
        directed: manifest.directed,
        weighted: per_step.iter().any(|step| step.weight_min.is_some()),
        time_unit: manifest.time_unit,
        begin: per_step.first().map(|step| step.begin),
        end: per_step.last().map(|step| step.end),
        features: features(store)?,
        targets: per_step.iter().map(|step| step.targets).sum(),
        labels,
        splits,
        sequences: SequenceStats::of(&presence),
        bytes: store.bytes(),
        structure: Sizes::new(full_structure, store.structure_bytes()?),
        averages: Averages {
            edges: Spread::of(per_step.iter().map(|step| step.edges as f64)),
            active: Spread::of(per_step.iter().map(|step| step.active as f64)),
            change: Spread::of(per_step.iter().filter_map(|step| step.change)),
            overlap: Spread::of(per_step.iter().filter_map(|step| step.overlap)),
            turnover: Spread::of(per_step.iter().filter_map(|step| step.turnover)),
            new_targets: Spread::of(per_step.iter().filter_map(|step| step.new_targets)),
        },
        per_step,
    })
}

fn features(store: &Store) -> Result<FeatureStats> {
    let (manifest, stored) = (store.manifest(), store.feature_bytes()?);
    let facts = manifest.features;
    let step = match facts.kind {
        FeatureKind::None => 0,
        // Sparse rows are sparse at every step, too.
        FeatureKind::Sparse => stored,
        FeatureKind::Degrees => manifest.vertices.saturating_mul(2 * 4),
        FeatureKind::Dense => manifest.vertices.saturating_mul(facts.width).saturating_mul(4),
    };
    let of_edges = manifest.provenance["edge_features"].as_array();
    let of_edges =
        of_edges.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    Ok(FeatureStats { facts, of_edges, bytes: Sizes::new(step.saturating_mul(manifest.steps), stored) })
}

/// A quotient, where there is one.
fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}
