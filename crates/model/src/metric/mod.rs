//! Metrics: what a prediction is worth, one file each and one line in [`ALL`].
//!
//! A metric gathers over the steps of a split what each step shows. The three mean reciprocal ranks that the
//! literature calls by one name differ in what a link is ranked against, so each has the name of the work it
//! comes from. A score that is not a number makes a metric NaN, whatever the other scores are: what is left
//! of a model that diverged must not be ranked, least of all above pairs whose scores are lost.

mod accuracy;
mod auc;
mod average_precision;
mod class_auc;
mod confusion;
mod macro_f1;
mod mae;
mod map;
mod mape;
mod mean;
mod micro_f1;
mod mrr_balanced;
mod mrr_evolvegcn;
mod mrr_roland;
mod mrr_tgb;
mod mse;
mod ranking;
mod rmse;

pub use accuracy::Accuracy;
pub use auc::Auc;
pub use average_precision::AveragePrecision;
pub use class_auc::ClassAuc;
pub use macro_f1::MacroF1;
pub use mae::Mae;
pub use map::Map;
pub use mape::Mape;
pub use micro_f1::MicroF1;
pub use mrr_balanced::MrrBalanced;
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
    &Mape,
    &Accuracy,
    &MicroF1,
    &MacroF1,
    &ClassAuc,
    &Auc,
    &AveragePrecision,
    &Map,
    &MrrTgb,
    &MrrBalanced,
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
    /// Links, each with pairs sampled for it as the Temporal Graph Benchmark does.
    Sampled,
    /// Links, each with pairs of which as many have a target that is new as links have.
    Balanced,
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
    /// Links and pairs that are not: each link has its own.
    Sampled {
        /// A score for each link that appears.
        present: &'a [f32],
        /// Link `i` has the scores `starts[i]..starts[i + 1]` of `absent`.
        starts: &'a [usize],
        /// Scores of sampled pairs that do not.
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
        rows.fill(0.0);
    }

    /// One step of every kind, with these scores wherever a score is shown.
    fn every_kind(score: f32) -> [(Needs, Evidence<'static>); 5] {
        let row: &'static [f32] = Box::leak(Box::new([score; 4]));
        [
            (Needs::Values, Evidence::Values { predicted: row, truth: row }),
            (Needs::Classes, Evidence::Classes { scores: row, classes: 2, truth: &[0, 1] }),
            (Needs::Sampled, Evidence::Sampled { present: &row[..2], starts: &[0, 2, 4], absent: row }),
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
                // Balanced pairs look like others: the task tells them apart.
                let needs = if metric.needs() == Needs::Balanced { Needs::Sampled } else { metric.needs() };
                assert_eq!(judged, kind == needs, "{} of {kind:?}", metric.name());
            }
        }
    }

    #[test]
    fn empty_steps_are_skipped() {
        let empty = [
            Evidence::Values { predicted: NONE, truth: NONE },
            Evidence::Classes { scores: NONE, classes: 3, truth: &[] },
            Evidence::Classes { scores: NONE, classes: 0, truth: &[] },
            Evidence::Sampled { present: NONE, starts: &[], absent: NONE },
            Evidence::Sampled { present: NONE, starts: &[0], absent: NONE },
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

    /// A score that is not a number, wherever it stands, may neither win nor lose: it must show.
    #[test]
    fn one_score_that_is_not_a_number_makes_every_metric_nan() {
        let good = [0.9, 0.1, 0.4, 0.3];
        for place in 0..4 {
            let mut scores = good;
            scores[place] = f32::NAN;
            let row = |sources: &[u32], rows: &mut [f32]| {
                for (&source, row) in sources.iter().zip(rows.chunks_exact_mut(2)) {
                    row.copy_from_slice(&scores[2 * source as usize..][..2]);
                }
            };
            let (starts, truth) = ([0, 1, 2], [0.5; 4]);
            let [present, absent] = [&scores[..2], &scores[2..]];
            let kinds = [
                Evidence::Values { predicted: &scores, truth: &truth },
                Evidence::Classes { scores: &scores, classes: 2, truth: &[0, 1] },
                Evidence::Sampled { present, starts: &starts, absent },
                Evidence::PerSource { starts: &starts, present, absent },
                Evidence::AllPairs { vertices: 2, starts: &starts, targets: &[0, 1], scores: &row },
            ];
            for metric in ALL {
                let name = metric.name();
                let judged: Vec<f64> = kinds.iter().filter_map(|kind| value(*metric, &[*kind])).collect();
                assert!(judged.len() == 1 && judged[0].is_nan(), "{name}, place {place}: {judged:?}");
                // Nor does a step before it or behind it hide it.
                for (kind, fine) in every_kind(0.5) {
                    if kind == metric.needs() && kind != Needs::AllPairs {
                        let of = kinds.iter().find(|step| value(*metric, &[**step]).is_some()).unwrap();
                        assert!(value(*metric, &[fine, *of, fine]).unwrap().is_nan(), "{name}");
                    }
                }
            }
        }
    }

    /// Where nothing tells the scores apart, a model is no better than chance, and nothing is divided by 0.
    #[test]
    fn equal_scores_and_equal_labels_give_a_finite_value() {
        for metric in ALL {
            for (kind, evidence) in every_kind(0.5) {
                if kind == metric.needs() && kind != Needs::AllPairs {
                    let found = value(*metric, &[evidence]).unwrap();
                    assert!(found.is_finite() && (0.0..=1.0).contains(&found), "{}: {found}", metric.name());
                }
            }
        }
        let one_class = Evidence::Classes { scores: &[1.0, 0.0, 1.0, 0.0], classes: 2, truth: &[0, 0] };
        let never = Evidence::Classes { scores: &[1.0, 0.0, 1.0, 0.0], classes: 2, truth: &[1, 1] };
        for metric in [&Accuracy as &dyn Metric, &MacroF1, &MicroF1] {
            assert_eq!(value(metric, &[one_class]), Some(1.0), "{}", metric.name());
            assert_eq!(value(metric, &[never]), Some(0.0), "{}", metric.name());
        }
        let all_linked = |_: &[u32], rows: &mut [f32]| rows.fill(0.5);
        let every_pair = Evidence::AllPairs {
            vertices: 2,
            starts: &[0, 2, 4],
            targets: &[0, 1, 0, 1],
            scores: &all_linked,
        };
        assert_eq!(value(&Map, &[every_pair]), Some(1.0));
        // A link that nothing is left to be compared with is the first of one.
        let alone = Evidence::Sampled { present: &[0.1], starts: &[0, 0], absent: NONE };
        assert_eq!([&MrrTgb as &dyn Metric, &Auc].map(|metric| value(metric, &[alone])), [Some(1.0), None]);
        assert!((value(&MrrEvolveGcn, &[every_pair]).unwrap() - 1.0 / 1.5).abs() < 1e-15);
    }
}
