//! What a schedule predicted beside what was done: two groups of timelines in one `trace.json`.

use std::path::Path;

use kymo_plan::schedule::{Instance, Schedule};
use kymo_run::profile::Profile;
use kymo_run::{Error, Result};
use kymo_sim::{AllReduce, Cluster, simulate_with_timeline};
use kymo_trace::{Kind, WorkerTrace, chrome, merge};
use serde_json::Value;

fn read(path: &Path) -> Result<Option<Value>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Resource { action: "cannot read", path: path.into(), source }),
    };
    let wrong = |error: serde_json::Error| Error::file(path, format!("is no JSON: {error}"));
    serde_json::from_slice(&bytes).map(Some).map_err(wrong)
}

/// Puts the predicted epoch of a run beside its timelines, from where the schedule began; nothing happens where there is none.
pub fn predicted_beside_done(run: &Path) -> Result<()> {
    let (Some(profile), Some(schedule)) =
        (read(&run.join("profile.json"))?, read(&run.join("schedule.json"))?)
    else {
        return Ok(());
    };
    let of_profile = |error: serde_json::Error| {
        Error::file(&run.join("profile.json"), format!("does not hold a profile: {error}"))
    };
    let profile: Profile = serde_json::from_value(profile).map_err(of_profile)?;
    let path = run.join("schedule.json");
    let wrong = |error: serde_json::Error| Error::file(&path, format!("does not hold a schedule: {error}"));
    let schedule =
        Schedule { iterations: serde_json::from_value(schedule["iterations"].clone()).map_err(wrong)? };
    let done = merge(run)?;
    let workers = done.len();
    if workers < 2 {
        return Ok(());
    }
    let mut instance = Instance::new(profile.costs(), workers);
    instance.most = schedule.iterations.iter().flatten().map(Vec::len).max().unwrap_or(1).max(1);
    // A ring that closes an iteration in the time that was measured.
    let latency = profile.closing / (2 * (workers - 1)) as f64;
    let cluster = Cluster::new(workers, AllReduce { latency, bytes: 0, ..AllReduce::default() });
    let foretold = simulate_with_timeline(&instance, &schedule, &cluster)
        .map_err(|error| Error::file(&path, error.to_string()))?;
    let began = |trace: &WorkerTrace| {
        trace.spans.iter().find(|span| span.kind == Kind::Plan).map_or(0, |span| span.end)
    };
    let begin = done.first().map_or(0, began);
    let mut foretold = foretold.timeline.unwrap_or_default();
    for span in foretold.iter_mut().flat_map(|trace| &mut trace.spans) {
        (span.start, span.end) = (span.start + begin, span.end + begin);
    }
    Ok(chrome::export_beside(&[("done", &done), ("predicted", &foretold)], &run.join("trace.json"))?)
}
