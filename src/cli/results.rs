//! Results as tables: a model above its baselines, and both on parts of what was judged.

use kymo_run::RunContext;
use kymo_run::config::{EDGE_CLASSIFICATION, EDGE_REGRESSION, LINK_PREDICTION};
use kymo_trace::schema::{Evaluation, Metrics, Slice};

use super::train::number;

/// The baseline that tells new targets from old ones and nothing else.
const KNOWS_NOTHING: &str = "new-first";

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
    if let Some(gamed) = gamed(context, evaluation) {
        text.push_str(&format!("{gamed}\n"));
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

/// What is to be said where a rule that knows nothing about links comes to half of what the model does: then
/// the metric says little about links on this data.
fn gamed(context: &RunContext, evaluation: &Evaluation) -> Option<String> {
    let name = context.deciding().name();
    let reached = *evaluation.baselines.get(KNOWS_NOTHING)?.get(name)?;
    let model = *evaluation.metrics.get(name)?;
    // Others than ranks are not near zero by chance.
    if !name.starts_with("mrr") || reached < model / 2.0 {
        return None;
    }
    let advice = match name == "mrr-balanced" {
        true => "look at the parts below",
        false => "--metrics mrr-balanced has candidates that are as new",
    };
    Some(format!(
        "{KNOWS_NOTHING} knows nothing about links and comes to {} by {name}: on this data the metric \
         rewards telling new targets from old ones; {advice}",
        number(reached)
    ))
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
