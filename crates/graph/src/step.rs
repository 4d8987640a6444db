//! Everything of one step, as a loader or a generator hands it to the store.

use crate::delta::Delta;
use crate::snapshot::{Snapshot, Vertex};

/// One step on its way into a store.
#[derive(Clone, Debug, Default)]
pub struct StepData {
    /// When the step begins, in the time unit of the store.
    pub begin: f64,
    /// When it ends.
    pub end: f64,
    /// How many input rows it was made from.
    pub events: u64,
    /// Its edges.
    pub edges: StepEdges,
    /// What it changes in the features of the vertices.
    pub features: FeatureChange,
    /// Values to be predicted, of some or all vertices, ascending by vertex.
    pub targets: Vec<(Vertex, f32)>,
    /// Classes to be predicted, of some or all vertices, ascending by vertex.
    pub labels: Vec<(Vertex, u32)>,
}

/// The edges of a step, in whichever form the maker has at hand.
#[derive(Clone, Debug)]
pub enum StepEdges {
    /// All of them.
    All(Snapshot<'static>),
    /// What changed since the step before.
    Delta(Delta),
}

impl Default for StepEdges {
    fn default() -> Self {
        Self::Delta(Delta::default())
    }
}

/// How the features of a step differ from those of the step before (before the first step all are zero).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum FeatureChange {
    /// Not at all.
    #[default]
    Same,
    /// These vertices, ascending, have these rows now; the rows lie one after the other.
    Rows(Vec<Vertex>, Vec<f32>),
    /// Every vertex has a row here, in order.
    All(Vec<f32>),
}
