//! How large batches of some vertices are, found out by looking at a sample of them: as far as edges lead
//! from a target depends on the graph, and an average degree says little about it.

use std::collections::BTreeSet;
use std::ops::Range;

use kymo_graph::store::Cursor;
use kymo_graph::{Step, Vertex};
use kymo_plan::price::Seen;
use kymo_plan::{Drawn, VertexBatches};
use rayon::prelude::*;

use super::context::RunContext;
use crate::error::Result;

/// Places in time that are looked at, spread from the first to the last.
const PLACES: usize = 4;

/// Parts that are looked at of each.
const PARTS: usize = 3;

/// How large the largest batch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Vertices whose outputs count.
    pub targets: u64,
    /// Vertices that are seen, those included.
    pub rows: u64,
    /// Edges that are seen, of all snapshots together.
    pub edges: u64,
    /// Snapshots.
    pub steps: u64,
}

impl Extent {
    /// What the largest batch sees of a snapshot.
    pub fn of_step(&self) -> Seen {
        let Extent { targets, rows, edges, steps } = *self;
        Seen { targets, rows, edges: edges.div_ceil(steps.max(1)) }
    }

    /// The largest of a sample of the batches, each number by itself.
    pub fn of(batches: &VertexBatches, context: &RunContext) -> Result<Extent> {
        let spans = spans(context);
        let last = spans.len().saturating_sub(1);
        let places: BTreeSet<usize> = (0..PLACES).map(|place| place * last / (PLACES - 1)).collect();
        let mut largest = Extent::default();
        let mut cursor = Cursor::new(context.store.clone());
        for steps in places.iter().filter_map(|&place| spans.get(place)) {
            for found in look(batches, context, steps.clone(), &mut cursor)? {
                largest = Extent {
                    targets: largest.targets.max(found.targets),
                    rows: largest.rows.max(found.rows),
                    edges: largest.edges.max(found.edges),
                    steps: largest.steps.max(found.steps),
                };
            }
        }
        Ok(largest)
    }
}

/// The steps of what is run together, in the order of time.
fn spans(context: &RunContext) -> Vec<Range<Step>> {
    let windows = context.windows();
    let [most, _] = context.together;
    let span = |windows: &[Range<Step>]| {
        windows.first().map_or(0, |first| first.start)..windows.last().map_or(0, |last| last.end)
    };
    windows.chunks(most.max(1)).map(span).collect()
}

/// How large some batches of these steps are.
fn look(
    batches: &VertexBatches,
    context: &RunContext,
    steps: Range<Step>,
    cursor: &mut Cursor,
) -> Result<Vec<Extent>> {
    let (vertices, portions) = (context.store.vertices(), context.portions()?);
    struct Batch {
        found: Vec<bool>,
        next: Vec<bool>,
        extent: Extent,
    }
    let batch = |number: usize| {
        let seed = batches.seed ^ steps.start as u64;
        let targets: Vec<Vertex> = match portions {
            // Of one owner after the other, each another part.
            Some(portions) => {
                let (owner, part) = (number % portions.owners(), number / portions.owners());
                portions
                    .part(owner, &Drawn { part: (owner + part) % batches.parts, parts: batches.parts, seed })
            }
            None => Drawn { part: number, parts: batches.parts, seed }.of(vertices),
        };
        let mut found = vec![false; vertices];
        targets.iter().for_each(|&vertex| found[vertex as usize] = true);
        let extent = Extent { targets: targets.len() as u64, steps: steps.len() as u64, ..Extent::default() };
        Batch { next: found.clone(), found, extent }
    };
    let mut all: Vec<Batch> = (0..PARTS.min(batches.division())).map(batch).collect();
    for _ in 0..batches.hops {
        all.iter_mut().for_each(|batch| batch.extent.edges = 0);
        for step in steps.clone() {
            let rows = cursor.go_to(step)?;
            all.par_iter_mut().for_each(|Batch { found, next, extent }| {
                for (row, _) in rows.starts.windows(2).zip(&*found).filter(|(_, is_found)| **is_found) {
                    let sources = &rows.columns[row[0] as usize..row[1] as usize];
                    extent.edges += sources.len() as u64;
                    sources.iter().for_each(|&source| next[source as usize] = true);
                }
            });
        }
        all.iter_mut().for_each(|batch| batch.found.clone_from(&batch.next));
    }
    let counted = |Batch { found, extent, .. }: Batch| {
        let rows = found.iter().filter(|&&is_found| is_found).count() as u64;
        Extent { rows, ..extent }
    };
    Ok(all.into_iter().map(counted).collect())
}
