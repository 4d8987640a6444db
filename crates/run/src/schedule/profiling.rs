//! What is measured for a schedule: the times that all workers took, the linear model of them, and what
//! neighbouring windows save each other.

use std::ops::Range;

use kymo_graph::Step;
use kymo_plan::Epochs;

use super::controller::Tell;
use super::cost_cache::{self, CachedCosts, Key, STALE};
use super::profile::Profile;
use super::told::{times_from_text, times_to_text};
use crate::error::Result;
use crate::step::{WindowTimes, Worker};

/// Pairs of windows that are run to find out what they save each other.
const PAIRS: usize = 4;

/// Takes in what all workers measured in an epoch that took these seconds, at every worker.
pub(super) fn gather(
    profile: &mut Profile,
    epochs: &Epochs,
    worker: &Worker,
    measured: &[WindowTimes],
    seconds: f64,
) -> Result<()> {
    let windows = &epochs.windows;
    let mut longest: f64 = 0.0;
    for (rank, text) in worker.group.all_gather(&times_to_text(measured)?)?.iter().enumerate() {
        let mut busy = 0.0;
        for times in times_from_text(rank, text)? {
            busy += times.total().iter().sum::<f64>();
            profile.add(windows.partition_point(|window| window.start < times.start), times);
        }
        longest = longest.max(busy);
    }
    // What is left of the epoch of the busiest worker closes its iterations.
    let iterations = epochs.iterations().max(1);
    profile.add_closing(((seconds - longest) / iterations as f64).max(0.0));
    Ok(())
}

/// Finds out what neighbouring windows save that are run together, where they will be: some pairs are run
/// together and one by one, of which nothing is learnt.
pub(super) fn measure_savings(
    profile: &mut Profile,
    windows: &[Range<Step>],
    worker: &mut Worker,
    tell: &mut Tell<'_>,
) -> Result<()> {
    if !worker.settings().shares_windows() || windows.len() < 2 {
        return Ok(());
    }
    let firsts = (0..PAIRS).map(|pair| (windows.len() - 1) * (2 * pair + 1) / (2 * PAIRS));
    let mut saved = Vec::with_capacity(PAIRS);
    for first in firsts {
        let pair = [first, first + 1].map(|number| windows[number].clone());
        // Once to bring both into memory.
        worker.time(&pair)?;
        let alone = worker.time(&pair[..1])? + worker.time(&pair[1..])?;
        let together = worker.time(&pair)?;
        saved.push((first, 1.0 - together / alone.max(f64::MIN_POSITIVE)));
    }
    if let Some(ratio) = profile.add_savings(windows, &saved) {
        tell(&format!(
            "windows that are run together save {:.0} % of the time of each snapshot that they share",
            100.0 * ratio
        ));
    }
    Ok(())
}

/// Fits the linear model, and keeps it for later runs if they have none (`cached`) that is as good.
pub(super) fn fit(
    profile: &mut Profile,
    windows: &[Range<Step>],
    cached: Option<&CachedCosts>,
    worker: &Worker,
    tell: &mut Tell<'_>,
) -> Result<()> {
    let (vertices, edges) = (worker.context.store.vertices(), worker.context.edges()?);
    profile.fit(windows, &edges, vertices);
    let Some(model) = profile.model else { return Ok(()) };
    tell(&format!(
        "a snapshot of N vertices and E edges costs {:.2e} N + {:.2e} E + {:.2e} s, off by {:.1} % on {} \
         windows held \
         out",
        model.vertex,
        model.edge,
        model.snapshot,
        100.0 * model.error,
        model.held_out
    ));
    if !worker.settings().parallel.cached_costs {
        return Ok(());
    }
    let measured = profile.measured(windows, &edges);
    let off = cached.map(|cached| cached.model.error_on(&measured, vertices));
    if let Some(off) = off {
        let what = if off > STALE { "fitted anew" } else { "kept" };
        tell(&format!("the costs of earlier runs were off by {:.1} %: {what}", 100.0 * off));
    }
    if off.is_none_or(|off| off > STALE)
        && let Some(folder) = kymo_tensor::cache::folder()
    {
        let costs = CachedCosts { key: key(worker), model, closing: profile.closing };
        cost_cache::write(&folder, &costs).iter().for_each(|warning| tell(warning));
    }
    Ok(())
}

/// What the costs of this run are known by to later ones.
pub(super) fn key(worker: &Worker) -> Key {
    Key::new(&worker.context, rayon::current_num_threads())
}
