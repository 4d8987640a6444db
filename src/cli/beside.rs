//! What a schedule predicted beside what was done: two groups of timelines in one `trace.json`.

use std::path::Path;

use kymo_plan::EpochPlan;
use kymo_plan::schedule::{Instance, Schedule};
use kymo_run::schedule::measured_costs;
use kymo_run::{Error, Result};
use kymo_sim::{AllReduce, Cluster, simulate_with_timeline};
use kymo_trace::schema::{RunFolder, folder};
use kymo_trace::{Kind, WorkerTrace, chrome, merge};

/// Puts the predicted epoch of a run beside its timelines, from where the schedule began; nothing happens
/// where there is none.
pub fn predicted_beside_done(run: &Path) -> Result<()> {
    let files = RunFolder::open(run)?;
    let (Some(measured), Some(schedule)) = (files.profile()?, files.schedule()?) else { return Ok(()) };
    let schedule = Schedule { iterations: schedule.iterations };
    let done = merge(run)?;
    let workers = done.len();
    if workers < 2 {
        return Ok(());
    }
    let mut instance = Instance::new(measured_costs(&measured), workers);
    instance.most = schedule.iterations.iter().flatten().map(Vec::len).max().unwrap_or(1).max(1);
    // A ring that closes an iteration in the time that was measured.
    let latency = measured.closing / (2 * (workers - 1)) as f64;
    let cluster = Cluster::new(workers, AllReduce { latency, bytes: 0, ..AllReduce::default() });
    let foretold = simulate_with_timeline(&instance, &EpochPlan::of_schedule(&schedule), &cluster)
        .map_err(|error| Error::file(&run.join(folder::SCHEDULE), error.to_string()))?;
    let began = |trace: &WorkerTrace| {
        // A schedule is looked for at the end of several epochs, and found at the last of them.
        trace.spans.iter().rfind(|span| span.kind == Kind::Plan).map_or(0, |span| span.end)
    };
    let begin = done.first().map_or(0, began);
    let mut foretold = foretold.timeline.unwrap_or_default();
    for span in foretold.iter_mut().flat_map(|trace| &mut trace.spans) {
        (span.start, span.end) = (span.start + begin, span.end + begin);
    }
    Ok(chrome::export_beside(&[("done", &done), ("predicted", &foretold)], &run.join(folder::CHROME_TRACE))?)
}
