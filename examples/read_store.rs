//! Makes a small store and reads it: snapshots, changes, features. `cargo run --example read_store`

#![allow(clippy::print_stdout)]

use std::path::Path;

use kymo::graph::{Progress, generate};
use kymo::{Result, Store};

/// Reads a store that is made in this folder, which must be new.
pub fn run(folder: &Path) -> Result<()> {
    // `kymo ingest` makes stores of your own data; here one is generated.
    let kind = generate::find("uniform")?;
    let params = generate::Params { vertices: 100, edges: 400, steps: 5, features: 8, ..kind.defaults() };
    generate::write(kind, &params, folder, false, &Progress::silent())?;

    // Files are mapped, not read: opening a store of any size takes no time.
    let store = Store::open(folder)?;
    println!("{} vertices, {} steps, {} bytes", store.vertices(), store.steps(), store.bytes());

    // From step to step: each change is applied to the snapshot before, so no step is read from scratch.
    let mut walk = store.walk();
    while let Some(stop) = walk.step()? {
        let (added, removed) = (stop.delta.added.len(), stop.delta.removed.len());
        println!("step {}: {} edges; {added} came, {removed} went", stop.step, stop.snapshot.len());
    }

    // Any step by itself. Edges are sorted by target, so a row of the compressed form is an in-neighbourhood.
    let last = store.snapshot(store.steps() - 1)?;
    let ids = store.ids()?;
    let names: Vec<String> =
        last.by_target(store.vertices()).row(0).iter().map(|&vertex| ids.name(vertex)).collect();
    println!("edges arrive at vertex {} from {}", ids.name(0), names.join(", "));

    // Features at a step: a row for each vertex, one after the other.
    let features = store.features(store.steps() - 1)?;
    println!("its features are {:?}", &features[..params.features]);
    Ok(())
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("kymo-read-store-{}", std::process::id()));
    let done = run(&folder);
    std::fs::remove_dir_all(&folder).ok();
    done
}
