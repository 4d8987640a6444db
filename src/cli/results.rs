//! Results as tables: a model above its baselines, and both on parts of what was judged.

use std::collections::BTreeMap;

use kymo_run::RunContext;
use kymo_run::config::{EDGE_CLASSIFICATION, EDGE_REGRESSION, LINK_PREDICTION};
use kymo_run::task::{CHANCE, stands_out};
use kymo_trace::schema::{Evaluation, Metrics, Slice};

use super::train::number;

/// Rules that are named where several do well.
const NAMED: usize = 3;

/// The metrics of a model above those of the baselines, the deciding one first.
pub fn table(context: &RunContext, evaluation: &Evaluation) -> String {
    let model = context.settings.model.name.as_str();
    let metrics: Vec<&str> = (context.metrics.iter())
        .map(|metric| metric.name())
        .filter(|name| evaluation.metrics.contains_key(*name))
        .collect();
    let name = std::iter::once(model).chain(evaluation.baselines.keys().map(String::as_str));
    let width = name.map(str::len).max().unwrap_or(0).max(evaluation.split.len()) + 2;
    let baselines = evaluation.baselines.iter().map(|(name, values)| (name.as_str(), values));
    let rows: Vec<(&str, &Metrics)> =
        std::iter::once((model, &evaluation.metrics)).chain(baselines).collect();
    let cell = |values: &Metrics, metric: &str| values.get(metric).map_or("-".into(), |value| number(*value));
    let widest = |metric: &str| rows.iter().map(|(_, values)| cell(values, metric).len()).max().unwrap_or(0);
    let columns: Vec<usize> =
        metrics.iter().map(|metric| metric.len().max(8).max(widest(metric)) + 2).collect();
    let mut text = format!("{:width$}", evaluation.split);
    for (metric, column) in metrics.iter().zip(&columns) {
        text.push_str(&format!("{metric:>column$}"));
    }
    text.push('\n');
    for (name, values) in &rows {
        text.push_str(&format!("{name:width$}"));
        for (metric, column) in metrics.iter().zip(&columns) {
            text.push_str(&format!("{:>column$}", cell(values, metric)));
        }
        text.push('\n');
    }
    if let Some(behind) = behind(context, evaluation) {
        text.push_str(&format!("{behind}\n"));
    }
    for line in gamed(model, &metrics, evaluation) {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&slices(context, evaluation));
    text
}

/// The metric that decides on each part of what was judged, beside the best baseline there; nothing where
/// there is one part only.
fn slices(context: &RunContext, evaluation: &Evaluation) -> String {
    let (metric, model) = (context.deciding(), context.settings.model.name.as_str());
    let parts: Vec<&Slice> =
        evaluation.slices.iter().filter(|slice| slice.metrics.contains_key(metric.name())).collect();
    if parts.len() < 2 {
        return String::new();
    }
    let value = |metrics: &Metrics| metrics.get(metric.name()).copied().unwrap_or(f64::NAN);
    let what = match context.settings.task.name.as_str() {
        LINK_PREDICTION => "links",
        EDGE_REGRESSION | EDGE_CLASSIFICATION => "edges",
        _ => "values",
    };
    let width = parts.iter().map(|slice| slice.name.len()).max().unwrap_or(0).max(metric.name().len()) + 2;
    let columns = [10, model.len().max(8) + 2];
    let [counted, reached] = columns;
    let mut text = format!("\n{:width$}{what:>counted$}{model:>reached$}  best baseline\n", metric.name());
    for slice in parts {
        let gain = |value: f64| if metric.higher_is_better() { value } else { -value };
        let baselines = slice.baselines.iter().map(|(name, metrics)| (name, value(metrics)));
        let best = baselines
            .filter(|(_, value)| value.is_finite())
            .max_by(|one, other| gain(one.1).total_cmp(&gain(other.1)));
        let best = best.map_or("-".into(), |(name, value)| format!("{} {name}", number(value)));
        let (count, value) = (slice.count, number(value(&slice.metrics)));
        text.push_str(&format!("{:width$}{count:>counted$}{value:>reached$}  {best}\n", slice.name));
    }
    text
}

/// A line for each metric by which rules that know nothing about links come to half of what the model gains
/// over chance, or more: then the metric says little about links on this data.
fn gamed(model: &str, metrics: &[&str], evaluation: &Evaluation) -> Vec<String> {
    let line = |metric: &&str| {
        let chance = *evaluation.attacks.get(CHANCE)?.get(*metric)?;
        let reached = *evaluation.metrics.get(*metric)?;
        let rules = found(&evaluation.attacks, metric, Some(reached));
        if rules.is_empty() {
            return None;
        }
        let advice = match metrics.contains(&"mrr-balanced") {
            true => "",
            false => "; see --metrics mrr-balanced",
        };
        Some(format!(
            "{metric} can be had without knowing links: {} ({model} {}, chance {}){advice}",
            listed(&rules, NAMED),
            number(reached),
            number(chance)
        ))
    };
    metrics.iter().filter_map(line).collect()
}

/// The attacks that reach much by a metric, beside what the model does where there is one; the best first.
pub fn found<'a>(
    attacks: &'a BTreeMap<String, Metrics>,
    metric: &str,
    model: Option<f64>,
) -> Vec<(&'a str, f64)> {
    let value = |metrics: &Metrics| metrics.get(metric).copied();
    let Some(chance) = attacks.get(CHANCE).and_then(value) else { return Vec::new() };
    let all = attacks.iter().filter(|(name, _)| *name != CHANCE);
    let all = all.filter_map(|(name, metrics)| Some((name.as_str(), value(metrics)?)));
    let mut rules: Vec<(&str, f64)> = all.filter(|rule| stands_out(rule.1, chance, model)).collect();
    rules.sort_by(|one, other| other.1.total_cmp(&one.1));
    rules
}

/// Rules with what they reach, this many of them by name.
pub fn listed(rules: &[(&str, f64)], names: usize) -> String {
    let named = rules.iter().take(names).map(|(name, value)| format!("{name} {}", number(*value)));
    let named = named.collect::<Vec<_>>().join(", ");
    match rules.len().saturating_sub(names) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// What is to be said where baselines are no worse than the model, by the metric that decides.
fn behind(context: &RunContext, evaluation: &Evaluation) -> Option<String> {
    let metric = context.deciding();
    let of = |metrics: &Metrics| metrics.get(metric.name()).copied().filter(|value| value.is_finite());
    let model = of(&evaluation.metrics)?;
    let gain = |value: f64| if metric.higher_is_better() { value - model } else { model - value };
    let all = evaluation.baselines.iter().filter_map(|(name, metrics)| Some((name, of(metrics)?)));
    let ahead: Vec<(&String, f64)> = all.filter(|(_, value)| gain(*value) >= 0.0).collect();
    let (best, value) = ahead.iter().max_by(|one, other| gain(one.1).total_cmp(&gain(other.1)))?;
    Some(format!(
        "{} does not beat {} by {}: {} against {}{}",
        context.settings.model.name,
        best,
        metric.name(),
        number(model),
        number(*value),
        match ahead.len() - 1 {
            0 => String::new(),
            others => format!("; nor {others} of the other baselines"),
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(values: [f64; 2]) -> Metrics {
        ["mrr-tgb", "auc"].map(str::to_owned).into_iter().zip(values).collect()
    }

    #[test]
    fn attacks_that_reach_much_are_told_metric_by_metric() {
        let attacks = [
            (CHANCE, [0.05, 0.5]),
            ("new-first", [0.5, 0.51]),
            ("degree", [0.1, 0.52]),
            ("popular", [0.7, 0.6]),
            ("new-then-popular", [0.6, 0.4]),
            ("low-ids-first", [0.4, 0.5]),
        ];
        let of = |model| Evaluation {
            metrics: metrics(model),
            attacks: attacks.into_iter().map(|(name, values)| (name.to_owned(), metrics(values))).collect(),
            ..Evaluation::default()
        };
        let told = gamed("gcn", &["mrr-tgb", "auc"], &of([0.65, 0.95]));
        let expected = "mrr-tgb can be had without knowing links: popular 0.7000, new-then-popular 0.6000, \
                        new-first 0.5000 and 1 more (gcn 0.6500, chance 0.0500); see --metrics mrr-balanced";
        assert_eq!(told, [expected]);
        let told = gamed("gcn", &["mrr-tgb", "auc"], &of([0.99, 0.65]));
        let [ranks, areas] = &told[..] else { panic!("{told:?}") };
        assert!(ranks.contains("popular 0.7000, new-then-popular 0.6000 (gcn 0.9900"), "{ranks}");
        assert!(areas.starts_with("auc can be had without knowing links: popular 0.6000 (gcn"), "{areas}");
        let asked = gamed("gcn", &["mrr-tgb", "mrr-balanced"], &of([0.6, 0.9]));
        assert!(asked.len() == 1 && asked[0].ends_with("chance 0.0500)"), "{asked:?}");
        assert!(
            gamed("gcn", &["mrr-tgb"], &Evaluation { attacks: BTreeMap::new(), ..of([0.1, 0.1]) }).is_empty()
        );
    }
}
