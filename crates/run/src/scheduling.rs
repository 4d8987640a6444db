//! From what windows cost to who trains them: measured for some epochs, scheduled by the first worker, told to all.
//!
//! REAL 5.4: training begins in turns (cold start), goes on while it is measured, and changes to the schedule at the end of an
//! epoch. A scheduler gets twice the time of an epoch at most. The schedule is part of the checkpoint: what is resumed goes on
//! with it.

use std::time::Duration;

use kymo_plan::schedule::{Limit, Schedule, Scheduled};
use kymo_trace::Kind;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::learner::Learner;
use crate::profile::{Profile, STAGES, Stages};

/// The longest that a scheduler may look, however long an epoch takes.
const LONGEST: Duration = Duration::from_secs(60);

/// What is known of a schedule, as it is written beside the profile.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The strategy.
    pub strategy: String,
    /// The scheduler whose answer it is.
    pub by: &'static str,
    /// Predicted seconds of an epoch.
    pub seconds: f64,
    /// Seconds that no schedule can beat.
    pub bound: f64,
    /// The proven gap between the two.
    pub gap: f64,
    /// Steps of the optimiser in an epoch.
    pub optimiser_steps: usize,
    /// Milliseconds it took to find.
    pub milliseconds: f64,
    /// Who trains which windows, by iteration and worker.
    pub iterations: Vec<Vec<Vec<usize>>>,
}

/// Takes in what was measured in an epoch, and schedules the windows once enough is known.
///
/// `seconds` is how long the epoch took. All workers come here together.
pub fn schedule(
    learner: &mut Learner,
    profile: &mut Profile,
    seconds: f64,
    epochs: usize,
    folder: &Option<Folder>,
) -> Result<()> {
    let measured = std::mem::take(&mut learner.measured);
    let parallel = learner.settings().parallel.clone();
    let Some(scheduler) = learner.settings().scheduler().filter(|_| learner.scheduled.is_none()) else {
        return Ok(());
    };
    let begun = std::time::Instant::now();
    // The first epoch reads and makes what later ones find: it tells little, unless it is all there is.
    if epochs > 1 || parallel.profile_epochs == 1 {
        gather(learner, profile, &measured, seconds)?;
    }
    if epochs < parallel.profile_epochs {
        return Ok(());
    }
    let mut told = Vec::new();
    if learner.team.leads() {
        profile.fit(&edges(learner)?);
        let limit = Limit {
            time: Duration::from_secs_f64(2.0 * seconds.max(1e-3)).min(LONGEST),
            seed: learner.settings().train.seed,
            gap: 0.001,
        };
        let found = profile.schedule(scheduler, parallel.workers, parallel.groups, &limit)?;
        if let Some(folder) = folder {
            folder.write_json("profile.json", profile)?;
            folder.write_json("schedule.json", &facts(&parallel.strategy, &found))?;
        }
        let text = serde_json::to_vec(&found.schedule.iterations);
        told = text.map_err(|error| Error::settings("schedule", error.to_string()))?;
    }
    let told = learner.team.from_leader(told)?;
    let iterations = serde_json::from_slice(&told)
        .map_err(|error| kymo_tensor::Error::Peer(format!("the first worker sent no schedule: {error}")))?;
    learner.scheduled = Some(Schedule { iterations });
    learner.team.recorder.record(Kind::Plan, "schedule", begun, 0);
    Ok(())
}

/// What all workers measured, at every worker.
fn gather(
    learner: &Learner,
    profile: &mut Profile,
    measured: &[(usize, Stages)],
    seconds: f64,
) -> Result<()> {
    let windows = learner.shared.windows();
    let bytes: Vec<u8> = measured
        .iter()
        .flat_map(|(start, stages)| std::iter::once(*start as u64).chain(stages.map(f64::to_bits)))
        .flat_map(u64::to_le_bytes)
        .collect();
    let told = learner.team.from_all(&bytes)?;
    let mut longest: f64 = 0.0;
    for bytes in &told {
        let word = |word: &[u8]| word.iter().rev().fold(0u64, |all, &byte| (all << 8) | u64::from(byte));
        let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        let mut busy = 0.0;
        for one in words.chunks_exact(1 + STAGES.len()) {
            let stages: Stages = std::array::from_fn(|stage| f64::from_bits(one[1 + stage]));
            busy += stages.iter().sum::<f64>();
            profile.add(windows.partition_point(|window| window.start < one[0] as usize), stages);
        }
        longest = longest.max(busy);
    }
    // What is left of the epoch of the busiest worker closes its iterations.
    let iterations = learner.shared.windows().len().div_ceil(learner.settings().windows_at_once().max(1));
    profile.closing = ((seconds - longest) / iterations.max(1) as f64).max(0.0).min(seconds);
    Ok(())
}

/// Edges of each window, each counted at every step.
fn edges(learner: &Learner) -> Result<Vec<f64>> {
    let store = &learner.shared.store;
    let steps =
        (0..store.steps()).map(|t| Ok(store.snapshot(t)?.len() as f64)).collect::<Result<Vec<f64>>>()?;
    Ok(learner.shared.windows().into_iter().map(|window| steps[window].iter().sum()).collect())
}

fn facts(strategy: &str, found: &Scheduled) -> Facts {
    Facts {
        strategy: strategy.into(),
        by: found.by,
        seconds: found.seconds,
        bound: found.bound,
        gap: found.gap(),
        optimiser_steps: found.schedule.optimiser_steps(),
        milliseconds: found.took.as_secs_f64() * 1e3,
        iterations: found.schedule.iterations.clone(),
    }
}
