//! What the readers make of good inputs, of bad ones and of damaged ones.
#![allow(clippy::unwrap_used)]

mod bad;
mod damaged;
mod good;
mod messy;
mod side;
mod written;

use kymo_graph::Result;
use kymo_graph::load::{self, Hints, Intake};

/// Reads a text with the format of this name.
fn read(format: &str, hints: &Hints, text: &str) -> Result<Intake> {
    load::read_bytes(load::find(format)?, hints, "f", text.into(), &std::env::temp_dir())
}

/// The hints of a user who names the columns.
fn columns(names: &str) -> Hints {
    Hints { columns: Some(names.split(',').map(String::from).collect()), ..Hints::default() }
}

/// The edges of an intake in order of time: source, target, time and weight, a removal having the weight NaN.
fn edges(intake: Intake) -> Vec<(String, String, f64, f32)> {
    let mut sorted = intake.log.sorted(1 << 20).unwrap();
    let names = |vertex, order: &[u32], ids: &kymo_graph::Ids| ids.name(order[vertex as usize]);
    let (ids, _, ranks) = intake.ids.rank();
    let mut all = Vec::new();
    while let Some(event) = sorted.take().unwrap() {
        let weight = if event.is_removal() { f32::NAN } else { event.weight };
        let (source, target) = (names(event.source, &ranks, &ids), names(event.target, &ranks, &ids));
        all.push((source, target, event.time, weight));
    }
    all
}

/// The same, a line each: `source target time weight`.
fn shown(intake: Intake) -> Vec<String> {
    edges(intake)
        .into_iter()
        .map(|(source, target, time, weight)| format!("{source} {target} {time} {weight}"))
        .collect()
}
