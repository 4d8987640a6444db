//! `kymo plan`: what an epoch would cost with several workers.

use std::io::Write;

use clap::Args;
use kymo_graph::Store;
use kymo_plan::plan::readable;
use kymo_plan::{Plan as Priced, strategy};
use kymo_run::schedule::{Division, is_possible};
use kymo_run::{Error, Result, RunContext};

use super::choices::Choices;
use super::console::Console;
use super::{cannot_print, print_json};

/// Show what an epoch would cost with several workers, without training
///
/// Says for every worker how many cells (vertices x steps) and edges it would work on, what it would need and
/// what it would send. Bytes are exact, unless windows are scheduled by measured times: the first epoch sends
/// as many. Several strategies, or all of them, are compared in one table; the schedule of a single one is
/// drawn as a chart.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Plan {
    #[command(flatten)]
    choices: Choices,
    /// Share of a snapshot's cost that a window saves where the window before it on the same worker had the
    /// snapshot, too. Schedulers that know reuse count it; training does not reuse anything yet
    #[arg(long, value_name = "RATIO")]
    reuse: Option<f64>,
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
    let context = RunContext::open(settings, store.into())?;
    let names: Vec<&str> = match asked.as_str() {
        // What is not possible is left out unless it was named.
        "all" => strategy::ALL
            .iter()
            .filter(|strategy| is_possible(strategy, &context.settings, workers))
            .map(|strategy| strategy.name)
            .collect(),
        names => names.split(',').map(str::trim).collect(),
    };
    let plan =
        |name: &&str| Division::new(&context, name, workers)?.plan(&context, name, workers, args.reuse);
    let plans: Vec<Priced> = names.iter().map(plan).collect::<Result<_>>()?;
    if args.json {
        return Ok(print_json(out, &plans)?);
    }
    let text = match &plans[..] {
        [one] => format!("{one}\n"),
        several => comparison(several),
    };
    let each = |plan: &Priced| format!("\n{}, {}", plan.strategy, plan.epoch);
    let iterations: String = plans.iter().filter(|_| args.iterations).map(each).collect();
    let text = out.fit(&(text + &iterations));
    Ok(write!(out, "{text}").map_err(cannot_print)?)
}

/// One line for each plan.
fn comparison(plans: &[Priced]) -> String {
    let heads =
        ["strategy", "epoch", "sent", "neighbours", "states", "shuffled", "gradients", "memory", "imbalance"];
    let mut rows = vec![heads.map(String::from)];
    for plan in plans {
        let sent = |of: fn(&kymo_plan::plan::Sent) -> u64| {
            readable(plan.workers.iter().map(|share| of(&share.sent)).sum())
        };
        rows.push([
            plan.strategy.clone(),
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
    text.push_str(&format!(
        "{workers} workers; epoch is estimated, bytes are exact unless windows are scheduled by measurement; \
         memory is the most a worker needs at once\n"
    ));
    text
}
