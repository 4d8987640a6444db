//! What products with consecutive snapshots cost, each made from nothing or out of the one before: a cost
//! curve that is fitted on this machine (REAL, section 4.1.1 and appendix B).
//!
//! Both ways are measured on made-up snapshots of two densities and three rates of change, forward and
//! backward, and two linear models are fitted to the seconds: from nothing, `a N + b E` for vertices and
//! edges; out of another, `c N + d U + e E`, where `U` counts the entries that are added: all edges are
//! compared, few are summed. It is as fast either way where `d U = (b - e) E - (c - a) N`.

use std::sync::Arc;
use std::time::Instant;

use kymo_tensor::{Arena, Change, Costs, Pattern, Resident, Shape, Tape, Var};
use serde::{Deserialize, Serialize};

use super::{DEGREES, PASSES, VERTICES, fit, numbers, snapshots, with_threads};
use crate::error::{Error, Result};

/// The parts of the edges that change from one snapshot to the next.
const CHANGES: [f64; 3] = [0.01, 0.1, 0.3];
/// How many snapshots there are.
const STEPS: usize = 4;

/// What was measured of some snapshots: of those after the first, which is made from nothing either way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Vertices of all of them.
    pub vertices: f64,
    /// Their edges.
    pub edges: f64,
    /// Entries that are added where products are made out of each other.
    pub added: f64,
    /// Seconds from nothing, and out of each other.
    pub seconds: [f64; 2],
}

/// What was fitted to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SumCurve {
    /// Seconds of a vertex and of an edge, from nothing.
    pub whole: [f64; 2],
    /// Seconds of a vertex, of an entry that is added, and of an edge that is compared.
    pub update: [f64; 3],
    /// How far off the seconds are on average, relative to those that were measured.
    pub error: f64,
}

impl SumCurve {
    /// Fits relative errors; nothing where it would never be faster to make products out of each other.
    pub fn fit(measured: &[Measured]) -> Option<SumCurve> {
        let of = |which: usize, inputs: &dyn Fn(&Measured) -> Vec<f64>| {
            let samples: Vec<_> = measured.iter().map(|one| (inputs(one), one.seconds[which])).collect();
            fit(&samples)
        };
        let (whole, error_of_whole) = of(0, &|one| vec![one.vertices, one.edges])?;
        let (update, error_of_update) = of(1, &|one| vec![one.vertices, one.added, one.edges])?;
        let error = (error_of_whole + error_of_update) / 2.0;
        let curve = SumCurve { whole: whole.try_into().ok()?, update: update.try_into().ok()?, error };
        let costs = curve.costs();
        (costs.entry > 0.0 && costs.entry.is_finite() && costs.row.is_finite()).then_some(curve)
    }

    /// What a change costs, in edges of a product that is made from nothing.
    pub fn costs(&self) -> Costs {
        let ([a, b], [c, d, e]) = (self.whole, self.update);
        let thousandths = |number: f64| (1e3 * number).round() / 1e3;
        Costs { entry: thousandths(d / (b - e)), row: thousandths((c - a) / (b - e)) }
    }

    /// Measures this machine with this many threads, which takes some seconds.
    pub fn of_machine(columns: usize, threads: usize) -> Result<SumCurve> {
        with_threads(threads, || {
            let mut measured = Vec::new();
            for degree in DEGREES {
                for change in CHANGES {
                    measured.push(measure(&snapshots(degree, change, STEPS, false)?, columns)?);
                }
            }
            SumCurve::fit(&measured).ok_or_else(|| {
                let problem = "no costs can be fitted on this machine; say two numbers, such as 1.6,1.5";
                Error::settings("parallel.change_costs", problem)
            })
        })
    }
}

/// A matrix that takes means.
fn mean(pattern: Arc<Pattern>) -> (Arc<Pattern>, Arc<Resident>) {
    let mut values = vec![0.0; pattern.entries()];
    for pair in pattern.starts().windows(2) {
        values[pair[0] as usize..pair[1] as usize].fill(1.0 / (pair[1] - pair[0]).max(1) as f32);
    }
    (pattern, Arc::new(values.into()))
}

/// Both ways, forward and backward; transposes and changes are found anew in every pass, as for snapshots
/// that pass through memory.
fn measure(patterns: &[Arc<Pattern>], columns: usize) -> Result<Measured> {
    let rows = numbers(columns);
    let (arena, mut seconds, mut added) = (Arena::new(), [[f64::MAX; 2]; 2], 0);
    for _ in 0..=PASSES {
        for (updates, least) in [false, true].into_iter().zip(&mut seconds) {
            // The first alone, and all: the difference is what those after the first take.
            for (count, least) in [1, patterns.len()].into_iter().zip(least) {
                let begun;
                let mut entries = 0;
                {
                    let anew = |one: &Arc<Pattern>| {
                        let (starts, places) = (one.starts().to_vec(), one.places().to_vec());
                        Ok(mean(Arc::new(Pattern::new(VERTICES, starts, places)?)))
                    };
                    let matrices = patterns[..count].iter().map(anew).collect::<Result<Vec<_>>>()?;
                    begun = Instant::now();
                    let mut tape = Tape::new(&arena);
                    let x = tape.parameter(Shape::new(VERTICES, columns), &rows)?;
                    let mut products: Vec<Var> = Vec::new();
                    for (number, (pattern, values)) in matrices.iter().enumerate() {
                        let before = number.checked_sub(1).filter(|_| updates).map(|at| &matrices[at]);
                        let change = match before {
                            Some((old, was)) => Change::always((old, was), (pattern, values))?,
                            None => None,
                        };
                        let product = match (change, products.last()) {
                            (Some(change), Some(&before)) => {
                                entries += change.entries();
                                tape.increment(change, x, before)?
                            }
                            _ => tape.spmm_fixed(pattern.clone(), values.clone(), x)?,
                        };
                        products.push(product);
                    }
                    let sums = products.into_iter().map(|product| tape.sum(product));
                    let sums = sums.collect::<kymo_tensor::Result<Vec<Var>>>()?;
                    let sum = tape.add_all(&sums)?;
                    tape.backward(sum)?;
                }
                *least = least.min(begun.elapsed().as_secs_f64());
                added = added.max(entries);
            }
        }
    }
    let later = patterns.get(1..).unwrap_or_default();
    Ok(Measured {
        vertices: (VERTICES * later.len()) as f64,
        edges: later.iter().map(|pattern| pattern.entries() as f64).sum(),
        added: added as f64,
        // The clock may say that the first alone took as long.
        seconds: seconds.map(|[first, all]| (all - first).max(1e-6)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURVE: SumCurve = SumCurve { whole: [2e-8, 1e-8], update: [3e-8, 1.6e-8, 2e-9], error: 0.0 };

    #[test]
    fn costs_come_back_and_both_ways_take_as_long_where_they_break_even() {
        let one = |(vertices, degree, share): (f64, f64, f64)| {
            let (edges, added) = (vertices * degree, vertices * degree * share);
            let ([a, b], [c, d, e]) = (CURVE.whole, CURVE.update);
            let seconds = [a * vertices + b * edges, c * vertices + d * added + e * edges];
            Measured { vertices, edges, added, seconds }
        };
        let measured =
            [(3e4, 6.0, 0.01), (3e4, 6.0, 0.3), (3e4, 40.0, 0.1), (3e4, 40.0, 0.5)].map(one).to_vec();
        let curve = SumCurve::fit(&measured).unwrap();
        assert!(curve.error < 1e-3, "{curve:?}");
        let costs = curve.costs();
        assert!((costs.entry - 2.0).abs() < 0.01 && (costs.row - 1.25).abs() < 0.01, "{costs:?}");
        let even = (1e6 - costs.row * 1e5) / costs.entry;
        let [whole, update] = one((1e5, 10.0, even / 1e6)).seconds;
        assert!((whole / update - 1.0).abs() < 0.01, "{whole} {update}");
        assert_eq!(SumCurve::fit(&[]), None);
        // Where comparing an edge takes as long as adding one, nothing is gained by it.
        let slow = |one: &Measured| Measured { seconds: [one.seconds[0], 10.0 * one.seconds[0]], ..*one };
        assert_eq!(SumCurve::fit(&measured.iter().map(slow).collect::<Vec<_>>()), None);
    }

    /// What both ways compute, and how much of it is counted.
    #[test]
    fn snapshots_are_measured_both_ways() {
        let all = snapshots(6, 0.1, STEPS, false).unwrap();
        let one = measure(&all, 8).unwrap();
        let edges: usize = all[1..].iter().map(|pattern| pattern.entries()).sum();
        assert_eq!((one.vertices, one.edges), (3e4, edges as f64));
        // A tenth of the edges goes and comes, and short rows are summed anew.
        let share = one.added / one.edges;
        assert!((0.05..0.6).contains(&share), "{share}");
        assert!(one.seconds.iter().all(|seconds| (1e-6..60.0).contains(seconds)));
    }
}
