//! What a layout costs: the load of each worker, and the edges that lead from one worker to another.
//!
//! The load of a cell is 1 + its in-degree: one row of its own to be computed, and one row added in for each
//! neighbour. Where vertices come and go, a vertex that is absent at a step has no row there, and no load
//! (DGC, section 2.2.1).

use std::ops::Range;

use kymo_graph::{Presence, Step, Store, Vertex};

use crate::error::{Error, Result};
use crate::layout::{Layout, Owners};

/// Edges whose ends belong to different workers, summed over the steps.
pub fn edge_cut(store: &Store, layout: &Layout, steps: Range<Step>) -> Result<u64> {
    check(store, layout, &steps)?;
    let mut cut = 0;
    for step in steps {
        if let owners @ Owners::Each(_) = layout.owners(step) {
            let snapshot = store.snapshot(step)?;
            let between = |edge: &&kymo_graph::Edge| owners.of(edge.source()) != owners.of(edge.target());
            cut += snapshot.edges.iter().filter(between).count() as u64;
        }
    }
    Ok(cut)
}

/// Which vertices are present at a step: all of them, unless it is told.
pub(crate) fn present(
    presence: Option<&Presence>,
    vertices: usize,
    step: Step,
) -> impl Iterator<Item = Vertex> + '_ {
    (0..vertices as Vertex).filter(move |&vertex| presence.is_none_or(|presence| presence.has(vertex, step)))
}

/// How many they are.
pub(crate) fn present_count(presence: Option<&Presence>, vertices: usize, step: Step) -> u64 {
    match presence {
        Some(_) => present(presence, vertices, step).count() as u64,
        None => vertices as u64,
    }
}

/// The load of each worker, summed over the steps; of cells of vertices that are present.
pub fn loads(
    store: &Store,
    layout: &Layout,
    steps: Range<Step>,
    presence: Option<&Presence>,
) -> Result<Vec<u64>> {
    check(store, layout, &steps)?;
    let mut loads = vec![0; layout.workers()];
    let vertices = store.vertices();
    for step in steps {
        let snapshot = store.snapshot(step)?;
        match layout.owners(step) {
            Owners::One(worker) => {
                loads[worker] += present_count(presence, vertices, step) + snapshot.len() as u64
            }
            owners @ Owners::Each(_) => {
                present(presence, vertices, step).for_each(|vertex| loads[owners.of(vertex)] += 1);
                snapshot.edges.iter().for_each(|edge| loads[owners.of(edge.target())] += 1);
            }
        }
    }
    Ok(loads)
}

/// The load of each vertex, summed over the steps at which it is present.
pub fn vertex_loads(
    store: &Store,
    steps: impl IntoIterator<Item = Step>,
    presence: Option<&Presence>,
) -> Result<Vec<u64>> {
    let mut loads = vec![0; store.vertices()];
    for step in steps {
        present(presence, store.vertices(), step).for_each(|vertex| loads[vertex as usize] += 1);
        store.snapshot(step)?.edges.iter().for_each(|edge| loads[edge.target() as usize] += 1);
    }
    Ok(loads)
}

/// The load of each of the steps, in order; of cells of vertices that are present.
pub fn step_loads(
    store: &Store,
    steps: impl IntoIterator<Item = Step>,
    presence: Option<&Presence>,
) -> Result<Vec<u64>> {
    let load = |step| Ok(present_count(presence, store.vertices(), step) + store.edges(step)? as u64);
    steps.into_iter().map(load).collect()
}

fn check(store: &Store, layout: &Layout, steps: &Range<Step>) -> Result<()> {
    let (found, expected) = ((layout.vertices(), layout.steps()), (store.vertices(), store.steps()));
    if found != expected {
        let problem = format!(
            "the layout is for {} vertices and {} steps, the store has {} and {}; make the layout anew",
            found.0, found.1, expected.0, expected.1
        );
        return Err(Error::settings("layout", problem));
    }
    check_steps(store, steps)
}

/// Whether the store has these steps.
pub(crate) fn check_steps(store: &Store, steps: &Range<Step>) -> Result<()> {
    if steps.start <= steps.end && steps.end <= store.steps() {
        return Ok(());
    }
    let problem = format!("found {steps:?}, but the store has the steps 0..{}", store.steps());
    Err(Error::settings("steps", problem))
}
