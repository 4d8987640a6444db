//! Batches of some vertices in some windows (DynaHB, section 3): which models, tasks and settings they go
//! with. All windows and all vertices are its full batches, some windows batches of snapshots, some vertices
//! batches of vertices, and some of both hybrid ones.

use kymo_graph::Store;
use kymo_model::Model;
use kymo_plan::{Drawn, Neighbourhood, Scheme, Targets, VertexBatches, strategy};

use crate::config::{Mode, Settings};
use crate::error::{Error, Result};
use crate::task::Goal;

/// The batches that the settings ask for: nothing where each is one window with all vertices.
pub fn batches(
    settings: &Settings,
    store: &Store,
    model: &dyn Model,
    goal: &dyn Goal,
) -> Result<Option<VertexBatches>> {
    let (batch, vertices) = (settings.train.batch, store.vertices());
    let windows = match settings.train.batch_windows {
        0 => goal.split().windows(settings).len().max(1),
        windows => windows,
    };
    let is_whole = batch == 0 || batch >= vertices;
    if is_whole && windows == 1 {
        return Ok(None);
    }
    let setting = if is_whole { "train.batch_windows" } else { "train.batch" };
    let refuse = |problem: String| Err(Error::settings(setting, problem));
    let (name, task) = (&settings.model.name, &settings.task.name);
    if settings.train.mode != Mode::Windows {
        return refuse(match is_whole {
            true => "only sliding windows make batches; choose train.mode=windows, or 1".into(),
            false => "a state that is handed over is one of all vertices; choose train.mode=windows".into(),
        });
    }
    let strategy = strategy::find(&settings.parallel.strategy)?;
    if strategy.scheme != Scheme::Groups {
        let problem = "does not give whole windows to workers in turns; choose psg";
        return refuse(format!("the strategy {} {problem}", strategy.name));
    }
    if is_whole {
        return Ok(Some(VertexBatches { parts: 1, windows, hops: 0, seed: settings.train.seed }));
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
    let Some(hops) = model.hops() else {
        let problem =
            "sees farther with every step of a window, or looks at all vertices: none can be left out";
        return refuse(format!("{name} {problem}; choose 0"));
    };
    Ok(Some(VertexBatches { parts: vertices.div_ceil(batch), windows, hops, seed: settings.train.seed }))
}

/// The part with this number.
pub fn part(batches: &VertexBatches, part: usize) -> (Targets, Neighbourhood) {
    let drawn = Drawn { part, parts: batches.parts, seed: batches.seed };
    (Targets::Drawn(drawn), Neighbourhood::Hops(batches.hops))
}
