//! Batches of some vertices in some windows (DynaHB, section 3): which models, tasks and settings they go
//! with. All windows and all vertices are its full batches, some windows batches of snapshots, some vertices
//! batches of vertices, and some of both hybrid ones. A strategy may decide which of them it trains, and give
//! each worker targets of its own.

use kymo_graph::Store;
use kymo_model::Model;
use kymo_plan::strategy::{self, Batches, Strategy};
use kymo_plan::{Drawn, Neighbourhood, Scheme, Targets, VertexBatches};

use crate::config::{Mode, Settings};
use crate::error::{Error, Result};
use crate::task::Goal;

/// A batch has this part of the vertices where a strategy trains batches of some and nobody says of how many:
/// the 5 % of the paper's section 6.1.
const USUAL_PARTS: usize = 20;

/// How large batches are, with all vertices or windows where they have as many.
struct Sizes {
    vertices: usize,
    windows: usize,
}

impl Sizes {
    /// Those of a strategy, by what the settings say and among all that there are.
    fn of(settings: &Settings, strategy: &Strategy, all: Sizes) -> Result<Sizes> {
        let (vertices, windows) = (settings.train.batch, settings.train.batch_windows);
        let or_all = |size: usize, all: usize| if size == 0 { all } else { size };
        let name = strategy.name;
        // A batch of one window is what nobody asked for.
        let of_vertices = matches!(strategy.batches, Batches::Vertices | Batches::VerticesAgain);
        if windows > 1 && (of_vertices || is_full(strategy)) {
            let problem =
                format!("{name} has all windows in a batch, found {windows}; choose 1 or 0, or dynahb");
            return Err(Error::settings("train.batch_windows", problem));
        }
        if vertices > 0 && (strategy.batches == Batches::Snapshots || is_full(strategy)) {
            let problem =
                format!("{name} has all vertices in a batch, found {vertices}; choose 0, or dbov or dynahb");
            return Err(Error::settings("train.batch", problem));
        }
        let some = or_all(vertices, all.vertices.div_ceil(USUAL_PARTS));
        let windows = or_all(windows, all.windows);
        Ok(match strategy.batches {
            Batches::Full if is_full(strategy) => all,
            Batches::AsSet | Batches::Full => Sizes { vertices: or_all(vertices, all.vertices), windows },
            Batches::Snapshots => Sizes { vertices: all.vertices, windows },
            Batches::Vertices | Batches::VerticesAgain => Sizes { vertices: some, windows: all.windows },
            Batches::Hybrid => Sizes { vertices: some, windows },
        })
    }
}

/// Whether a batch of a strategy is everything: others that train full batches put windows together to one
/// step, each a batch of its own.
fn is_full(strategy: &Strategy) -> bool {
    strategy.batches == Batches::Full && strategy.scheme == Scheme::Targets
}

/// The batches that the settings ask for: nothing where each is one window with all vertices.
pub fn batches(
    settings: &Settings,
    store: &Store,
    model: &dyn Model,
    goal: &dyn Goal,
) -> Result<Option<VertexBatches>> {
    let (strategy, workers) = (strategy::find(&settings.parallel.strategy)?, settings.parallel.workers);
    let all = Sizes { vertices: store.vertices(), windows: goal.split().windows(settings).len().max(1) };
    let vertices = all.vertices;
    let Sizes { vertices: batch, windows } = Sizes::of(settings, strategy, all)?;
    let owners = (strategy.scheme == Scheme::Targets).then_some(workers);
    let has_all = batch >= vertices;
    let is_whole = has_all && owners.is_none_or(|owners| owners == 1);
    if is_whole && windows == 1 {
        return Ok(None);
    }
    let (setting, instead, other) = match (owners, has_all) {
        (Some(_), _) => ("parallel.strategy", "another strategy", "another strategy"),
        (None, true) => ("train.batch_windows", "0", "1"),
        (None, false) => ("train.batch", "0", "0"),
    };
    let refuse = |problem: String| Err(Error::settings(setting, problem));
    let (name, task) = (&settings.model.name, &settings.task.name);
    if settings.train.mode != Mode::Windows {
        return refuse(match (owners, has_all) {
            (Some(_), _) => {
                let problem = "trains batches of sliding windows; choose train.mode=windows";
                format!("{} {problem}, or {other}", strategy.name)
            }
            (None, true) => {
                format!("only sliding windows make batches; choose train.mode=windows, or {other}")
            }
            (None, false) => {
                "a state that is handed over is one of all vertices; choose train.mode=windows".into()
            }
        });
    }
    if !matches!(strategy.scheme, Scheme::Groups | Scheme::Targets) {
        let problem = "does not give whole windows to workers in turns; choose psg";
        return refuse(format!("the strategy {} {problem}", strategy.name));
    }
    let (seed, again) = (settings.train.seed, strategy.batches == Batches::VerticesAgain);
    if is_whole {
        return Ok(Some(VertexBatches { parts: 1, windows, hops: 0, seed, owners: None, again }));
    }
    if goal.holds_all_rows() {
        return refuse(format!(
            "{task} looks at pairs of vertices, which may be in different batches; choose {instead}"
        ));
    }
    if settings.run.device != "cpu" {
        return refuse(format!(
            "batches of some vertices are put together in the memory of the host; choose {instead}"
        ));
    }
    let Some(hops) = model.hops() else {
        let problem =
            "sees farther with every step of a window, or looks at all vertices: none can be left out";
        return refuse(format!("{name} {problem}; choose {instead}"));
    };
    let parts = if has_all { 1 } else { vertices.div_ceil(batch.max(1)) };
    Ok(Some(VertexBatches { parts, windows, hops, seed, owners, again }))
}

/// The part with this number of all vertices, of as many as a batch has in training.
pub fn part(batches: &VertexBatches, part: usize) -> (Targets, Neighbourhood) {
    let drawn = Drawn { part, parts: batches.division(), seed: batches.seed };
    (Targets::Drawn(drawn), Neighbourhood::Hops(batches.hops))
}
