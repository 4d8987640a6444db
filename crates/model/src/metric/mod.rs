//! Metrics: what a prediction is worth, one file each and one line in [`ALL`].
//!
//! A metric gathers over the steps of a split what each step shows. The three mean reciprocal ranks that the
//! literature calls by one name differ in what a link is ranked against, so each has the name of the work it
//! comes from. A score that is not a number is below every number: a model that diverged is ranked last, and
//! nothing panics.

mod accuracy;
mod auc;
mod average_precision;
mod confusion;
mod macro_f1;
mod mae;
mod map;
mod mean;
mod micro_f1;
mod mrr_evolvegcn;
mod mrr_roland;
mod mrr_tgb;
mod mse;
mod ranking;
mod rmse;

pub use accuracy::Accuracy;
pub use auc::Auc;
pub use average_precision::AveragePrecision;
pub use macro_f1::MacroF1;
pub use mae::Mae;
pub use map::Map;
pub use micro_f1::MicroF1;
pub use mrr_evolvegcn::MrrEvolveGcn;
pub use mrr_roland::MrrRoland;
pub use mrr_tgb::MrrTgb;
pub use mse::Mse;
pub use rmse::Rmse;

use kymo_tensor::{Error, Result};

/// All metrics, in the order in which they are listed.
pub const ALL: &[&dyn Metric] = &[
    &Mse,
    &Mae,
    &Rmse,
    &Accuracy,
    &MicroF1,
    &MacroF1,
    &Auc,
    &AveragePrecision,
    &Map,
    &MrrTgb,
    &MrrEvolveGcn,
    &MrrRoland,
];

/// The metric called `name`.
pub fn find(name: &str) -> Result<&'static dyn Metric> {
    ALL.iter().copied().find(|metric| metric.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|metric| metric.name()).collect();
        let problem = format!("there is no metric '{name}'; known are {}", names.join(", "));
        Error::settings("metrics", problem)
    })
}

/// What a metric must be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Predicted and true values.
    Values,
    /// Scores of classes and the true class.
    Classes,
    /// Links, each with pairs sampled for it.
    Sampled,
    /// Links by source, each source with pairs sampled for it.
    PerSource,
    /// The scores of all pairs.
    AllPairs,
}

/// What one step shows. The lengths must fit each other as described.
#[derive(Clone, Copy)]
pub enum Evidence<'a> {
    /// Regression.
    Values {
        /// The prediction for each labelled vertex.
        predicted: &'a [f32],
        /// Its true value.
        truth: &'a [f32],
    },
    /// Classification.
    Classes {
        /// A score for each class of each labelled vertex, row after row.
        scores: &'a [f32],
        /// How many classes there are.
        classes: usize,
        /// The class of each labelled vertex.
        truth: &'a [u32],
    },
    /// Links and pairs that are not: the same number of pairs for each link.
    Sampled {
        /// A score for each link that appears.
        present: &'a [f32],
        /// Scores of sampled pairs that do not: row `i` belongs to `present[i]`.
        absent: &'a [f32],
    },
    /// Links by source: the same number of pairs for each source.
    PerSource {
        /// Source `i` has the scores `starts[i]..starts[i + 1]` of `present`.
        starts: &'a [usize],
        /// A score for each link that appears.
        present: &'a [f32],
        /// Scores of sampled pairs that do not: row `i` belongs to source `i`.
        absent: &'a [f32],
    },
    /// All pairs of vertices, a vertex with itself included.
    AllPairs {
        /// How many vertices there are.
        vertices: usize,
        /// The targets of source `u` are `starts[u]..starts[u + 1]` of `targets`.
        starts: &'a [usize],
        /// The targets, ascending and distinct for each source.
        targets: &'a [u32],
        /// Writes the scores of sources against every vertex, source after source; the same whenever it is
        /// asked.
        scores: &'a (dyn Fn(&[u32], &mut [f32]) + Sync),
    },
}

/// A measure of predictions.
pub trait Metric: Sync {
    /// What it is called in settings and results.
    fn name(&self) -> &'static str;

    /// Its definition in one line.
    fn about(&self) -> &'static str;

    /// What it must be shown.
    fn needs(&self) -> Needs;

    /// Whether more is better.
    fn higher_is_better(&self) -> bool;

    /// An empty tally, to be shown the steps of a split in order.
    fn tally(&self) -> Box<dyn Tally>;
}

/// What a metric gathers over the steps of a split.
pub trait Tally: Send {
    /// Takes a step into account; evidence of a kind the metric does not need is ignored.
    fn add(&mut self, step: &Evidence<'_>);

    /// The metric so far; `None` where nothing was judged.
    fn value(&self) -> Option<f64>;
}

/// The value of a metric after these steps.
#[cfg(test)]
fn value(metric: &dyn Metric, steps: &[Evidence<'_>]) -> Option<f64> {
    let mut tally = metric.tally();
    steps.iter().for_each(|step| tally.add(step));
    tally.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &[f32] = &[];

    fn silent(_: &[u32], rows: &mut [f32]) {
        rows.fill(f32::NAN);
    }

    /// One step of every kind, with these scores wherever a score is shown.
    fn every_kind(score: f32) -> [(Needs, Evidence<'static>); 5] {
        let row: &'static [f32] = Box::leak(Box::new([score; 4]));
        [
            (Needs::Values, Evidence::Values { predicted: row, truth: row }),
            (Needs::Classes, Evidence::Classes { scores: row, classes: 2, truth: &[0, 1] }),
            (Needs::Sampled, Evidence::Sampled { present: &row[..2], absent: row }),
            (Needs::PerSource, Evidence::PerSource { starts: &[0, 1, 2], present: &row[..2], absent: row }),
            (
                Needs::AllPairs,
                Evidence::AllPairs { vertices: 2, starts: &[0, 1, 1], targets: &[1], scores: &silent },
            ),
        ]
    }

    #[test]
    fn names_are_found_and_distinct() {
        for metric in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name() == metric.name()).count(), 1);
            assert_eq!(find(metric.name()).unwrap().about(), metric.about());
            assert!(!metric.about().contains('\n') && !metric.about().is_empty());
        }
        assert!(find("mrr").is_err());
    }

    #[test]
    fn only_what_a_metric_needs_is_judged() {
        for metric in ALL {
            assert_eq!(value(*metric, &[]), None, "{}", metric.name());
            for (kind, evidence) in every_kind(0.5) {
                let judged = value(*metric, &[evidence]).is_some();
                assert_eq!(judged, kind == metric.needs(), "{} of {kind:?}", metric.name());
            }
        }
    }

    #[test]
    fn empty_steps_are_skipped() {
        let empty = [
            Evidence::Values { predicted: NONE, truth: NONE },
            Evidence::Classes { scores: NONE, classes: 3, truth: &[] },
            Evidence::Classes { scores: NONE, classes: 0, truth: &[] },
            Evidence::Sampled { present: NONE, absent: NONE },
            Evidence::Sampled { present: &[1.0], absent: NONE },
            Evidence::PerSource { starts: &[0], present: NONE, absent: NONE },
            Evidence::PerSource { starts: &[], present: NONE, absent: NONE },
            Evidence::PerSource { starts: &[0, 0], present: NONE, absent: &[1.0] },
            Evidence::AllPairs { vertices: 2, starts: &[0, 0, 0], targets: &[], scores: &silent },
            Evidence::AllPairs { vertices: 0, starts: &[0], targets: &[], scores: &silent },
            Evidence::AllPairs { vertices: 0, starts: &[], targets: &[], scores: &silent },
        ];
        for metric in ALL {
            assert_eq!(value(*metric, &empty), None, "{}", metric.name());
            for (_, evidence) in every_kind(0.25) {
                let alone = value(*metric, &[evidence]);
                let among: Vec<_> = empty.iter().copied().chain([evidence]).chain(empty).collect();
                assert_eq!(value(*metric, &among), alone, "{}", metric.name());
            }
        }
    }

    #[test]
    fn scores_that_are_no_numbers_do_not_panic() {
        for metric in ALL {
            for (kind, evidence) in every_kind(f32::NAN) {
                assert_eq!(
                    value(*metric, &[evidence]).is_some(),
                    kind == metric.needs(),
                    "{}",
                    metric.name()
                );
            }
        }
    }
}
