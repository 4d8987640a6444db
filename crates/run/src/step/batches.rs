//! Batches of some vertices (DynaHB, section 3): which models, tasks and settings they go with, what such a
//! batch sees of its snapshots, and how many rows that takes.

use std::sync::Arc;

use kymo_graph::{Store, Vertex};
use kymo_model::graph::Near;
use kymo_model::{Graph, Model};
use kymo_plan::{Drawn, Neighbourhood, Scheme, Targets, VertexBatches, strategy};
use rayon::prelude::*;

use crate::config::{Mode, Settings};
use crate::data::{Loaded, largest_step};
use crate::error::{Error, Result};
use crate::task::Goal;

/// The batches that the settings ask for: nothing where all vertices are in one.
pub fn batches(
    settings: &Settings,
    store: &Store,
    model: &dyn Model,
    goal: &dyn Goal,
) -> Result<Option<VertexBatches>> {
    let (batch, vertices) = (settings.train.batch, store.vertices());
    if batch == 0 || batch >= vertices {
        return Ok(None);
    }
    let refuse = |problem: String| Err(Error::settings("train.batch", problem));
    let (name, task) = (&settings.model.name, &settings.task.name);
    if settings.train.mode != Mode::Windows {
        return refuse(
            "a state that is handed over is one of all vertices; choose train.mode=windows".into(),
        );
    }
    if goal.holds_all_rows() {
        return refuse(format!(
            "{task} looks at pairs of vertices, which may be in different batches; choose 0"
        ));
    }
    if settings.run.device != "cpu" {
        return refuse(
            "batches of some vertices are put together in the memory of the host; choose 0".into(),
        );
    }
    let strategy = strategy::find(&settings.parallel.strategy)?;
    if strategy.scheme != Scheme::Groups {
        let problem = "does not give whole windows to workers in turns; choose psg";
        return refuse(format!("the strategy {} {problem}", strategy.name));
    }
    let Some(hops) = model.hops() else {
        let problem =
            "sees farther with every step of a window, or looks at all vertices: none can be left out";
        return refuse(format!("{name} {problem}; choose 0"));
    };
    Ok(Some(VertexBatches { parts: vertices.div_ceil(batch), hops, seed: settings.train.seed }))
}

/// About how many vertices a batch sees, itself included: as far as edges lead, by
/// how many a vertex has on average.
pub fn rows(batches: &VertexBatches, store: &Store) -> Result<u64> {
    let vertices = store.vertices() as u64;
    let degree = 1 + largest_step(store)?.div_ceil(vertices.max(1));
    let targets = vertices.div_ceil(batches.parts.max(1) as u64);
    let reach = (0..batches.hops).fold(targets, |rows, _| rows.saturating_mul(degree));
    Ok(reach.min(vertices))
}

/// What a batch sees of its snapshots.
pub struct Seen {
    /// Its vertices.
    pub near: Near,
    /// The vertices that count, ascending.
    pub targets: Arc<Vec<Vertex>>,
    /// The snapshots.
    pub graphs: Vec<Graph>,
}

impl Seen {
    /// What these targets see: nothing where they see everything.
    pub fn new(
        targets: &Targets,
        neighbourhood: &Neighbourhood,
        loaded: &[Arc<Loaded>],
    ) -> Result<Option<Seen>> {
        let (Targets::Drawn(drawn), &Neighbourhood::Hops(hops)) = (targets, neighbourhood) else {
            return Ok(None);
        };
        let graphs: Vec<&Graph> = loaded.iter().map(|loaded| &loaded.graph).collect();
        let targets = drawn.of(graphs.first().map_or(0, |graph| graph.vertices()));
        let near = Near::new(&targets, hops, &graphs)?;
        let graphs = graphs.par_iter().map(|graph| graph.near(&near)).collect::<Result<_, _>>()?;
        Ok(Some(Seen { near, targets: Arc::new(targets), graphs }))
    }
}

/// The part with this number.
pub fn part(batches: &VertexBatches, part: usize) -> (Targets, Neighbourhood) {
    let drawn = Drawn { part, parts: batches.parts, seed: batches.seed };
    (Targets::Drawn(drawn), Neighbourhood::Hops(batches.hops))
}
