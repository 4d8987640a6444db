//! `kymo plan`: what an epoch would cost with several workers.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use kymo_graph::{Progress, Store};
use kymo_plan::plan::readable;
use kymo_plan::price::Rates;
use kymo_plan::{Plan as Priced, Strategy, strategy};
use kymo_run::config::memory;
use kymo_run::schedule::{Division, Question, Sample, is_possible};
use kymo_run::{Error, Result, RunContext};

use super::choices::Choices;
use super::console::Console;
use super::watch::Watch;
use super::{cannot_print, pace, print_json};

/// Show what an epoch would cost with several workers, without training
///
/// Says for every worker how many cells (vertices x steps) and edges it would work on, what it would need and
/// what it would send. Bytes are exact, unless windows are scheduled by measured times: the first epoch sends
/// as many. Of large stores a sample of the steps is looked at, and figures are estimates; the output says
/// so. Several strategies, or all of them, are compared in one table, with one worker beside them and a
/// recommendation below; the schedule of a single one is drawn as a chart.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Plan {
    #[command(flatten)]
    choices: Choices,
    /// Share of a snapshot's cost that a window saves where the window before it on the same worker had the
    /// snapshot, too. Schedulers that know reuse count it; training measures it for itself
    #[arg(long, value_name = "RATIO")]
    reuse: Option<f64>,
    /// Look at all steps, however long that takes, and let METIS have all links
    #[arg(long)]
    exact: bool,
    /// Take the pace of the run in RUN: the same model, and the threads that each worker will have; one
    /// worker, or several whose windows a scheduler measured, which tells edges and rows apart
    #[arg(long, value_name = "RUN")]
    pace: Option<PathBuf>,
    /// What the wire between workers carries, as in 1Gbit/s or 500MB/s [default: threads of one process]
    #[arg(long, value_name = "RATE", value_parser = wire)]
    wire: Option<f64>,
    /// Seconds that a message takes whatever its size [default: 0.00002]
    #[arg(long, value_name = "SECONDS", value_parser = latency)]
    latency: Option<f64>,
    /// Print who trains which windows in each iteration of the first epoch, too
    #[arg(long)]
    iterations: bool,
    /// Print JSON, iterations included
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    let names: Vec<&str> = strategy::ALL.iter().map(|strategy| strategy.name).collect();
    format!(
        "Strategies: {}, or all\n\n\
         Examples:\n  \
         kymo plan demo --workers 8 --strategy pts --model t-gcn\n  \
         kymo plan demo --workers 4 --strategy pss,pts,pss-ts --layers 2 --json",
        names.join(", ")
    )
}

/// Prints the plan.
pub fn run(args: &Plan, out: &mut Console) -> Result<()> {
    let mut typed = args.choices.typed()?;
    // Several names, or all of them, are no setting.
    let asked = typed.iter().rfind(|(key, _, _)| key == "parallel.strategy");
    let asked = asked.map_or("all".to_owned(), |(_, names, _)| names.trim_matches('"').to_owned());
    typed.retain(|(key, _, _)| key != "parallel.strategy");
    let settings = args.choices.settings(&typed)?;
    if settings.data.store.is_empty() {
        return Err(Error::settings("STORE", "none was given; kymo generate or kymo ingest makes one"));
    }
    let store = Store::open(settings.data.store.as_ref())?;
    let workers = settings.parallel.workers;
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "planning", out);
    let plans = priced(args, &asked, RunContext::open_to_plan(settings, store.into())?, workers, &progress);
    drop(watch);
    let Plans { asked: plans, alone, left_out, each } = plans?;
    if args.json {
        return Ok(print_json(out, &plans)?);
    }
    let text = match &plans[..] {
        [one] => format!("{one}\n"),
        several => comparison(several, &alone),
    };
    let left_out = left_out.map_or(String::new(), |text| text + "\n");
    let recommended = if workers > 1 { recommendation(&plans, &alone, each) + "\n" } else { String::new() };
    let of_plan = |plan: &Priced| format!("\n{}, {}", plan.strategy, plan.epoch);
    let iterations: String = plans.iter().filter(|_| args.iterations).map(of_plan).collect();
    let text = out.fit(&(text + &left_out + &recommended + &iterations));
    Ok(write!(out, "{text}").map_err(cannot_print)?)
}

/// What was asked for, what one worker would do, and what was left out.
struct Plans {
    asked: Vec<Priced>,
    alone: Priced,
    left_out: Option<String>,
    /// Bytes that each worker may use.
    each: u64,
}

fn priced(
    args: &Plan,
    asked: &str,
    context: Arc<RunContext>,
    workers: usize,
    progress: &Progress,
) -> Result<Plans> {
    // What is not possible is left out unless it was named.
    let (names, not_built): (Vec<&str>, Vec<&str>) = match asked {
        "all" => {
            let is_built = |strategy: &&Strategy| strategy.is_built();
            let (built, not_built): (Vec<&Strategy>, Vec<&Strategy>) =
                strategy::ALL.iter().partition(is_built);
            let possible = built.into_iter().filter(|one| is_possible(one, &context, workers));
            (possible.map(|one| one.name).collect(), not_built.iter().map(|one| one.name).collect())
        }
        names => (names.split(',').map(str::trim).collect(), Vec::new()),
    };
    let sample = if args.exact { None } else { Sample::of(&context, &names)? };
    let looked = sample.as_ref().map_or(context.store.steps(), |sample| sample.counts()[0]) as u64;
    progress.announce((names.len() as u64 + 1) * looked);
    let plan = |name: &str, workers: usize, rates: Rates| {
        progress.check()?;
        let division = Division::looking_at(&context, name, workers, sample.as_ref())?;
        let (reuse, sample) = (args.reuse, sample.as_ref());
        let question = Question { strategy: name, workers, reuse, sample, rates };
        let plan = division.plan(&context, &question)?;
        progress.advance(looked);
        (0..looked).for_each(|_| progress.add_step());
        Ok(plan)
    };
    let mut rates = Rates::default();
    rates.wire = args.wire.unwrap_or(rates.wire);
    rates.latency = args.latency.unwrap_or(rates.latency);
    if let Some(run) = &args.pace {
        rates = pace::of(run, &context, rates, |rates| plan("psg", 1, rates))?;
    }
    let plan = |name: &str, workers: usize| plan(name, workers, rates);
    let alone = plan("psg", 1)?;
    let asked = names.iter().map(|name| plan(name, workers)).collect::<Result<_>>()?;
    let left_out = (!not_built.is_empty()).then(|| {
        format!("left out, not in this build (cargo build --features ilp): {}", not_built.join(", "))
    });
    let each = (memory(&context.settings.run.memory)? / workers.max(1)) as u64;
    Ok(Plans { asked, alone, left_out, each })
}

/// Bytes a second, from what was typed.
fn wire(text: &str) -> std::result::Result<f64, String> {
    let wrong = || format!("found '{text}', expected a rate such as 1Gbit/s or 500MB/s");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| wrong())?;
    let unit = match text[end..].trim() {
        "Mbit/s" => 1e6 / 8.0,
        "Gbit/s" => 1e9 / 8.0,
        "MB/s" => 1e6,
        "GB/s" => 1e9,
        _ => return Err(wrong()),
    };
    if number > 0.0 { Ok(number * unit) } else { Err(wrong()) }
}

/// Seconds, from what was typed.
fn latency(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| format!("found '{text}', expected seconds, at least 0"))
}

/// Which of the plans to take, and why, in one line.
fn recommendation(plans: &[Priced], alone: &Priced, each: u64) -> String {
    let fits = |plan: &&Priced| plan.check_memory(each).is_ok();
    let fastest = plans.iter().filter(fits).min_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let caution = "estimated for one core a worker, nothing was measured; one worker uses all cores of a \
                   machine, too, so try both";
    match fastest {
        None => format!(
            "recommended: none of these, as each needs more memory than the {} that a worker may use \
             (run.memory)",
            readable(each)
        ),
        Some(best) if best.seconds < alone.seconds => format!(
            "recommended: {} with {} workers: {:.1} times as fast as one worker, imbalance {:.2}, {} sent an \
             epoch ({caution})",
            best.strategy,
            best.workers.len(),
            alone.seconds / best.seconds.max(1e-12),
            best.imbalance(),
            readable(best.bytes())
        ),
        Some(best) => format!(
            "recommended: one worker: {} with {} would take {:.1} times as long ({caution})",
            best.strategy,
            best.workers.len(),
            best.seconds / alone.seconds.max(1e-12)
        ),
    }
}

/// One line for each plan.
fn comparison(plans: &[Priced], alone: &Priced) -> String {
    let heads =
        ["strategy", "epoch", "sent", "neighbours", "states", "shuffled", "gradients", "memory", "imbalance"];
    let mut rows = vec![heads.map(String::from)];
    for (number, plan) in std::iter::once(alone).chain(plans).enumerate() {
        let sent = |of: fn(&kymo_plan::plan::Sent) -> u64| {
            readable(plan.workers.iter().map(|share| of(&share.sent)).sum())
        };
        rows.push([
            if number == 0 { "one worker".into() } else { plan.strategy.clone() },
            format!("{:.3} s", plan.seconds),
            readable(plan.bytes()),
            sent(|sent| sent.neighbours + sent.collected + sent.pairs + sent.named),
            sent(|sent| sent.states),
            sent(|sent| sent.shuffled),
            sent(|sent| sent.gradients),
            readable(plan.memory()),
            format!("{:.2}", plan.imbalance()),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let first = widths[0];
        text.push_str(&format!("{:first$}", row[0]));
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        text.push('\n');
    }
    let workers = plans.first().map_or(0, |plan| plan.workers.len());
    let figures = match alone.sampled {
        Some([looked, all]) => format!(
            "priced from {looked} of {all} steps: all figures are estimates (--exact looks at all steps)"
        ),
        None => "epoch is estimated, bytes are exact unless windows are scheduled by measurement".into(),
    };
    text.push_str(&format!("{workers} workers; {figures}; memory is the most a worker needs at once\n"));
    for plan in plans {
        if let Some(note) = &plan.note {
            text.push_str(&format!("{}: {note}\n", plan.strategy));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_wires_are_bytes_a_second() {
        let rates = ["1Gbit/s", "100Mbit/s", "2.5 GB/s", "500MB/s"].map(|text| wire(text).unwrap());
        assert_eq!(rates, [125e6, 12.5e6, 2.5e9, 500e6]);
        for wrong in ["", "fast", "1", "0Gbit/s", "-1GB/s", "1.2.3GB/s", "1gbit"] {
            assert!(wire(wrong).unwrap_err().contains("1Gbit/s"), "{wrong}");
        }
        assert_eq!(["0", "2e-4"].map(|text| latency(text).unwrap()), [0.0, 2e-4]);
        assert!(["-1", "nan", "inf", "", "1ms"].iter().all(|text| latency(text).is_err()));
    }
}
