//! The stages of a run by measured costs (REAL, section 3.3), as its timeline names them.
//!
//! *Cold start* is the first epoch, whose times are not counted, *profiling* lasts from there until there is
//! a schedule, the search for it included, and *optimised* is what follows it.

use std::time::Instant;

use kymo_trace::Kind;

use crate::step::Worker;

/// The first epoch, in which things are read and made that later ones find.
pub(super) const COLD_START: &str = "cold start";
/// Epochs that are measured, and those while the schedule is looked for.
pub(super) const PROFILING: &str = "profiling";
/// The search for a schedule, within the stage before.
pub(super) const SCHEDULING: &str = "scheduling";
/// Epochs by a schedule.
pub(super) const OPTIMISED: &str = "optimised";

/// The stage under way.
#[derive(Default)]
pub(super) struct Stage(Option<(&'static str, Instant)>);

impl Stage {
    /// Ends the stage, if there is one, and begins the next, if there is one. The first worker records it.
    pub(super) fn enter(&mut self, worker: &Worker, next: Option<&'static str>) {
        if let Some((name, begun)) = self.0.take()
            && worker.group.leads()
        {
            worker.group.recorder.record(Kind::Stage, name, begun, 0);
        }
        self.0 = next.map(|name| (name, Instant::now()));
    }

    /// Whether this is the stage.
    pub(super) fn is(&self, name: &str) -> bool {
        self.0.is_some_and(|(stage, _)| stage == name)
    }
}
