//! How fast a worker is, from a run that there was: `kymo plan --pace RUN`.

use std::path::Path;

use kymo_plan::Plan;
use kymo_plan::price::Rates;
use kymo_run::artifact::Folder;
use kymo_run::config::overlay;
use kymo_run::schedule::{measured_stage, work};
use kymo_run::{Error, Result, RunContext, Settings};
use kymo_trace::schema::{ProfileRecord, RunFolder};

/// Rates at which workers would have been as fast as they were in a run; `alone` is the plan of one worker at
/// other rates.
///
/// Where the run has a profile, edges and rows have a pace each: strategies divide them differently, so that
/// one number for both is right for none but those that divide neither.
pub fn of(
    run: &Path,
    context: &RunContext,
    rates: Rates,
    alone: impl Fn(Rates) -> Result<Plan>,
) -> Result<Rates> {
    let refuse = |problem: String| Err(Error::settings("--pace", format!("{}: {problem}", run.display())));
    let files = RunFolder::open(run)?;
    let then: Settings = overlay::resolve(Some(&Folder::settings_of(run)), &[])?;
    let now = &context.settings;
    if then.model != now.model || then.train.window != now.train.window || then.task.name != now.task.name {
        return refuse("it had another model, window or task than what is planned".into());
    }
    let usual = alone(rates)?;
    if let Some(profile) = files.profile()? {
        if profile.seconds.len() != usual.windows {
            let (found, expected) = (profile.seconds.len(), usual.windows);
            return refuse(format!("its profile.json has {found} windows, expected {expected}"));
        }
        let rows = alone(Rates { aggregated: f64::INFINITY, ..rates })?.seconds;
        let [through_edges, others] = divided(&profile, context)?;
        let slower = |measured: f64, planned: f64| if planned > 0.0 { measured / planned } else { 1.0 };
        let edges = slower(through_edges, usual.seconds - rows).max(f64::MIN_POSITIVE);
        let rows = slower(others, rows).max(f64::MIN_POSITIVE);
        return Ok(Rates { aggregated: rates.aggregated / edges, products: rates.products / rows, ..rates });
    }
    if then.parallel.workers != 1 {
        return refuse(format!(
            "it had {} workers and no profile.json, expected one worker or a scheduler such as dygnex",
            then.parallel.workers
        ));
    }
    let Some(pace) = median_pace(&files)? else {
        return refuse("it has less than two epochs; train it longer".into());
    };
    let edges: u64 = usual.workers.iter().map(|share| share.edges).sum();
    let slower = edges as f64 / pace / usual.seconds.max(1e-12);
    Ok(Rates { products: rates.products / slower, aggregated: rates.aggregated / slower, ..rates })
}

/// Edges a second of the epoch in the middle, or between the two that are there: of few epochs the faster
/// half says too much. The first epoch reads the data as well.
fn median_pace(files: &RunFolder) -> Result<Option<f64>> {
    let epochs = files.epochs()?;
    let mut paces: Vec<f64> = epochs.iter().skip(1).map(|epoch| epoch.edges_per_second).collect();
    paces.sort_by(f64::total_cmp);
    let middle = [paces.len().saturating_sub(1) / 2, paces.len() / 2].map(|place| paces.get(place));
    let pace = middle.into_iter().flatten().sum::<f64>() / 2.0;
    Ok((pace > 0.0).then_some(pace))
}

/// Seconds of an epoch that follow edges, forward and backward, and those of everything else but reading.
///
/// The backward pass is measured as a whole; an aggregation takes as long there as in the forward pass, as
/// far as gradients go back through it.
fn divided(profile: &ProfileRecord, context: &RunContext) -> Result<[f64; 2]> {
    let of = |name: &str| measured_stage(profile, name);
    let all: f64 = profile.stages.iter().filter(|name| *name != "load").map(|name| of(name)).sum();
    let [forward, backward] = work(context)?.aggregated.map(|numbers| numbers as f64);
    // Where the plan has nothing that follows edges, because products are kept, it is all of rows.
    let times = if forward > 0.0 { 1.0 + backward / forward } else { 0.0 };
    let through_edges = (of("aggregation") * times).min(all);
    Ok([through_edges, all - through_edges])
}
