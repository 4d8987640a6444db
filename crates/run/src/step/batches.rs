//! Batches of some vertices (DynaHB, section 3): which models, tasks and settings they go with.

use kymo_graph::Store;
use kymo_model::Model;
use kymo_plan::{Drawn, Neighbourhood, Scheme, Targets, VertexBatches, strategy};

use crate::config::{Mode, Settings};
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

/// The part with this number.
pub fn part(batches: &VertexBatches, part: usize) -> (Targets, Neighbourhood) {
    let drawn = Drawn { part, parts: batches.parts, seed: batches.seed };
    (Targets::Drawn(drawn), Neighbourhood::Hops(batches.hops))
}
