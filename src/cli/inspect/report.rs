//! The report of `kymo inspect`: the facts of a store on one screen.

use std::collections::BTreeMap;

use kymo_graph::error::listed as named;
use kymo_graph::stats::{ClassStats, Sizes, Spread, Stats, StepStats};
use kymo_graph::store::FeatureKind;
use kymo_graph::time::{TimeUnit, civil};

use kymo_run::task::CHANCE;
use kymo_trace::schema::Metrics;

use super::InMemory;
use crate::cli::layout::wrap;
use crate::cli::numbers::{bytes, count, exact, percent, plural};
use crate::cli::plot::{between, chart, sparkline};
use crate::cli::results::{found, listed};
use crate::cli::train::number;

/// Columns before what is said of a fact.
const MARGIN: usize = 20;
/// The fewest characters of a line of blocks that has something beside it.
const NARROWEST: usize = 12;
/// Rows of the chart.
const HEIGHT: usize = 7;
/// Classes that are named.
const CLASSES: usize = 8;
/// The share of links that lead to new targets from which on it is worth a warning.
const MUCH: f64 = 0.1;
/// Nouns that occur often, for one and for many.
const VERTICES: [&str; 2] = ["vertex", "vertices"];
const STEPS: [&str; 2] = ["step", "steps"];
/// Seconds since 1970 from which a time is taken as a date: March 1973. Times that count from the first event
/// of a dataset stay below.
const DATED: f64 = 1e8;

/// The report on a store called `name`, in lines of at most this many columns.
pub fn report(name: &str, stats: &Stats, memory: Option<InMemory>, columns: usize) -> String {
    let mut text = String::new();
    let title = format!(
        "{name}: {}, {}, {}",
        plural(stats.vertices, VERTICES),
        plural(stats.steps, STEPS),
        plural(stats.edges, ["edge", "edges"])
    );
    wrap(&title, columns, 2, &mut text);
    text.push('\n');
    let mut fact = |name: &str, what: String| say(name, &what, columns, &mut text);
    if let (Some(begin), Some(end)) = (stats.begin, stats.end) {
        fact("time", time_range(begin, end, stats.time_unit));
    }
    fact("graph", graph(stats));
    if let Some(left) = stats.left {
        let right = stats.vertices.saturating_sub(left);
        let left = plural(left, VERTICES);
        fact("bipartite", format!("{left} on the left, {} on the right", exact(right)));
    }
    fact("events", events(stats));
    if stats.steps > 1 {
        fact("distinct edges", exact(stats.distinct_edges));
    }
    fact("edges, bytes", sizes(stats.structure, stats.steps, "as full snapshots"));
    features(stats, &mut fact);
    labels(stats, &mut fact);
    if let Some(what) = sequences(stats) {
        fact("sequences", what);
    }
    fact("on disk", bytes(stats.bytes));
    if let Some(InMemory { whole, held }) = memory {
        fact(
            "in memory",
            format!(
                "{} as whole snapshots, {} as graph convolution has them held",
                bytes(whole),
                bytes(held)
            ),
        );
    }
    if stats.steps > 1 {
        course(stats, columns, &mut text);
    }
    if let Some(found) = by_chance(&stats.per_step) {
        text.push('\n');
        let warning = format!(
            "Of the links of the last steps {} lead to vertices that were never a target before. A rule that \
             ranks such vertices first, and knows nothing else, finds them: compare with the baseline \
             new-first, or judge links by mrr-balanced (--metrics mrr-balanced), where others are as new.",
            percent(found)
        );
        wrap(&warning, columns, 0, &mut text);
    }
    text
}

/// What is to be said where rules that know nothing about links reach much by metrics of links; nothing where
/// they do not.
pub fn warning(attacks: &BTreeMap<String, Metrics>, columns: usize) -> String {
    let mut text = String::new();
    let Some(chance) = attacks.get(CHANCE) else { return text };
    let line = |(metric, chance): (&String, &f64)| {
        let rules = found(attacks, metric, None);
        let told = || format!("{metric}: {} (chance {})", listed(&rules, 1), number(*chance));
        (!rules.is_empty()).then(told)
    };
    let lines: Vec<String> = chance.iter().filter_map(line).collect();
    if lines.is_empty() {
        return text;
    }
    let title = "Rules that know nothing about links, on some of the last steps; what a model reaches by \
                 these metrics says little where it is not far ahead; mrr-balanced is made to withstand such \
                 rules:";
    text.push('\n');
    wrap(title, columns, 0, &mut text);
    lines.iter().for_each(|line| wrap(&format!("  {line}"), columns, 4, &mut text));
    text
}

/// The share of links that a rule without knowledge finds in the part of the steps that models are usually
/// tested on, where it is much.
fn by_chance(steps: &[StepStats]) -> Option<f64> {
    let last = &steps[steps.len() - steps.len() * 3 / 20..];
    let edges: u64 = last.iter().map(|step| step.edges).sum();
    let new = last.iter().map(|step| step.new_targets.unwrap_or(0.0) * step.edges as f64);
    Some(new.sum::<f64>() / edges as f64).filter(|share| *share >= MUCH)
}

/// Appends what is said of `name`: beside it, or below it where that leaves no room.
fn say(name: &str, what: &str, columns: usize, text: &mut String) {
    let line = format!("  {name:<17} {what}");
    if line.chars().count() <= columns || margin(columns) == MARGIN {
        return wrap(&line, columns, MARGIN, text);
    }
    if !name.is_empty() {
        text.push_str(&format!("  {name}\n"));
    }
    wrap(&format!("{:w$}{what}", "", w = margin(columns)), columns, margin(columns), text);
}

/// Columns before what is said, where it takes several lines.
fn margin(columns: usize) -> usize {
    if columns < 2 * MARGIN { 4 } else { MARGIN }
}

fn graph(stats: &Stats) -> String {
    let lowest = stats.per_step.iter().filter_map(|step| step.weight_min).reduce(f32::min);
    let highest = stats.per_step.iter().filter_map(|step| step.weight_max).reduce(f32::max);
    let direction = if stats.directed { "directed" } else { "undirected" };
    match lowest.zip(highest) {
        Some((lowest, highest)) => format!("{direction}, weighted ({lowest} to {highest})"),
        None => format!("{direction}, unweighted"),
    }
}

fn events(stats: &Stats) -> String {
    let rows = plural(stats.events, ["input row", "input rows"]);
    match stats.self_loops {
        0 => rows,
        loops => format!("{rows}, {} of them from a vertex to itself", exact(loops)),
    }
}

fn features(stats: &Stats, fact: &mut impl FnMut(&str, String)) {
    let facts = stats.features.facts;
    let columns = plural(facts.width, ["column", "columns"]);
    let what = match facts.kind {
        FeatureKind::None => "none".into(),
        FeatureKind::Degrees => "in- and out-degree of each step".into(),
        FeatureKind::Dense if facts.segments > 1 => {
            format!("dense, {columns} in {} segments", facts.segments)
        }
        FeatureKind::Dense => format!("dense, {columns}"),
        FeatureKind::Sparse => format!("sparse, {columns}, the same at every step"),
    };
    fact("features", what);
    if !stats.features.of_edges.is_empty() {
        let names = &stats.features.of_edges;
        let count = plural(names.len() as u64, ["feature", "features"]);
        fact("of edges", format!("{count}, as means by vertex and step: {}", named(names)));
    }
    if stats.features.bytes.stored > 0 {
        fact("features, bytes", sizes(stats.features.bytes, stats.steps, "with all rows at every step"));
    }
}

fn labels(stats: &Stats, fact: &mut impl FnMut(&str, String)) {
    let with = |has: fn(&StepStats) -> bool| stats.per_step.iter().filter(|step| has(step)).count() as u64;
    if stats.targets > 0 {
        let steps = plural(with(|step| step.targets > 0), STEPS);
        fact("targets", format!("{} at {steps}", plural(stats.targets, ["value", "values"])));
    }
    let labels = &stats.labels;
    if labels.fixed > 0 {
        fact("labels", format!("{} with a class", plural(labels.fixed, VERTICES)));
    }
    if labels.per_step > 0 {
        let steps = plural(with(|step| step.labels > 0), STEPS);
        fact("labels by step", format!("{} at {steps}", plural(labels.per_step, ["label", "labels"])));
    }
    let size = |class: &ClassStats| if labels.fixed > 0 { class.fixed } else { class.per_step };
    let named = |class: &ClassStats| format!("{} ({})", class.name, exact(size(class)));
    let rest = labels.classes.len().saturating_sub(CLASSES);
    let names: Vec<String> = labels.classes.iter().take(CLASSES).map(named).collect();
    if !names.is_empty() {
        let title = plural(labels.classes.len() as u64, ["class", "classes"]);
        let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        fact(&title, names.join(", ") + &more);
    }
    if let Some(split) = stats.splits {
        let [train, validation, test] = [split.train, split.validation, split.test].map(exact);
        fact("split", format!("{train} train, {validation} validation, {test} test vertices"));
    }
}

/// At how many steps vertices are present; nothing where there is one step, where all are present at all
/// steps, or where none ever is.
fn sequences(stats: &Stats) -> Option<String> {
    let (sequences, steps) = (&stats.sequences, stats.steps);
    let (length, [first, half, third]) = (sequences.length?, sequences.quartiles?);
    let [never, always] =
        [sequences.lengths.first(), sequences.lengths.last()].map(|count| *count.unwrap_or(&0));
    if steps < 2 || always == stats.vertices {
        return None;
    }
    let never = match never {
        0 => String::new(),
        never => format!("; {} without an edge at any step", plural(never, VERTICES)),
    };
    Some(format!(
        "{} to {} of {steps} steps from first to last edge, mean {:.1}, quartiles {first}, {half}, {third}; \
         {} at all steps{never}",
        length.min,
        length.max,
        length.mean,
        plural(always, VERTICES)
    ))
}

/// Writes a figure.
type Label = fn(f64) -> String;

/// How the figures move from step to step.
fn course(stats: &Stats, columns: usize, text: &mut String) {
    let steps = &stats.per_step;
    let edges: Vec<f64> = steps.iter().map(|step| step.edges as f64).collect();
    let last = format!("step {}", steps.len().saturating_sub(1));
    let spread = |spread: Spread| {
        format!(": {} to {}, mean {}", count(spread.min), count(spread.max), count(spread.mean))
    };
    let spread = stats.averages.edges.map(spread).unwrap_or_default();
    text.push('\n');
    wrap(&format!("Edges by step{spread}"), columns, 2, text);
    text.push_str(&chart(&edges, [columns, HEIGHT], count, ["step 0", &last]));
    text.push_str("\nFrom step to step\n");
    let averages = stats.averages;
    let share = |of: fn(&StepStats) -> Option<f64>| steps.iter().filter_map(of).collect::<Vec<f64>>();
    let lines: [(&str, Vec<f64>, Option<Spread>, Label); 8] = [
        ("present vertices", share(|step| Some(step.present as f64)), None, count),
        ("active vertices", share(|step| Some(step.active as f64)), averages.active, count),
        ("edges changed", share(|step| step.change), averages.change, percent),
        ("edge overlap", share(|step| step.overlap), averages.overlap, percent),
        ("vertex turnover", share(|step| step.turnover), averages.turnover, percent),
        ("new targets", share(|step| step.new_targets), averages.new_targets, percent),
        ("highest in-degree", share(|step| Some(step.max_in_degree.into())), None, count),
        ("in-degree skew", share(|step| step.degree_skew), None, |skew| format!("{skew:.2}")),
    ];
    let beside = |values: &[f64], mean: Option<Spread>, label: Label| {
        let mean = mean.map(|spread| format!(", mean {}", label(spread.mean))).unwrap_or_default();
        between(values, label) + &mean
    };
    let longest = lines.iter().map(|(_, values, mean, label)| beside(values, *mean, *label).chars().count());
    let left = columns.saturating_sub(MARGIN + 2 + longest.max().unwrap_or(0));
    let below = left < NARROWEST.min(steps.len());
    let width = if below { columns.saturating_sub(margin(columns)) } else { left }.min(steps.len());
    for (name, values, mean, label) in lines.into_iter().filter(|(_, values, ..)| !values.is_empty()) {
        let (blocks, beside) = (sparkline(&values, width, label), beside(&values, mean, label));
        // Where there is no room beside the blocks, the numbers stand below them.
        match below {
            true => {
                [(name, blocks), ("", beside)].iter().for_each(|(name, what)| say(name, what, columns, text))
            }
            false => say(name, &format!("{blocks}  {beside}"), columns, text),
        }
    }
}

/// What is stored, and how much it would be in full.
fn sizes(sizes: Sizes, steps: u64, full: &str) -> String {
    let stored = bytes(sizes.stored);
    if steps < 2 {
        return stored;
    }
    let gain = sizes.ratio.filter(|ratio| *ratio >= 1.05);
    let gain = gain.map(|ratio| format!(": {ratio:.1} times smaller")).unwrap_or_default();
    format!("{} {full}, {stored} as stored{gain}", bytes(sizes.full))
}

fn time_range(begin: f64, end: f64, unit: TimeUnit) -> String {
    let date = |time: f64| {
        let text = unit.per_second().and_then(|per_second| civil(time / per_second))?.to_string();
        let text = text.replace('T', " ");
        Some(text.strip_suffix(" 00:00:00").map(str::to_owned).unwrap_or(text))
    };
    let dated =
        unit == TimeUnit::Date || unit.per_second().is_some_and(|per_second| begin / per_second >= DATED);
    match (date(begin), date(end)) {
        (Some(begin), Some(end)) if dated => format!("{begin} to {end}"),
        _ if unit == TimeUnit::Step => format!("{begin} to {end}"),
        _ => format!("{begin} to {end} {unit}"),
    }
}

/// A line for every step.
pub fn table(steps: &[StepStats]) -> String {
    let names =
        ["step", "edges", "active", "added", "removed", "weights", "changed", "overlap", "max in", "skew"];
    let share = |value: Option<f64>| value.map(percent).unwrap_or_else(|| "-".into());
    let mut rows = vec![names.map(str::to_owned)];
    rows.extend(steps.iter().map(|step| {
        [
            step.step.to_string(),
            step.edges.to_string(),
            step.active.to_string(),
            step.added.to_string(),
            step.removed.to_string(),
            step.reweighted.to_string(),
            share(step.change),
            share(step.overlap),
            step.max_in_degree.to_string(),
            step.degree_skew.map(|skew| format!("{skew:.2}")).unwrap_or_else(|| "-".into()),
        ]
    }));
    let widths = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|column| rows.iter().map(|row| row[column].len()).max());
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>w$}", w = width.unwrap_or(0)));
        text.push_str(&format!("\n{}", cells.collect::<Vec<_>>().join("  ")));
    }
    text + "\n"
}
