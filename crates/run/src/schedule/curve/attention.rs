//! What attention costs over several snapshots, at each of them or at once: a cost curve that is fitted on
//! this machine (REAL, section 4.1.1 and appendix B).
//!
//! Both ways are measured on made-up snapshots of two densities and two rates of change, and two linear
//! models are fitted to the seconds: snapshot by snapshot, `a N + b E` for the vertices and edges of all;
//! at once, `c N + d E + e U`, where `U` counts each edge once. The paper's curve `T(N, d)` for one operation
//! has the degree in it because sparse rows cost more; here the vertices are a term of their own, and the
//! break-even between the two ways has the degree below the line.
//!
//! The two ways differ in rounding: see [`super`].

use std::sync::Arc;
use std::time::Instant;

use kymo_tensor::{Arena, Pattern, Shape, Spans, Tape, Var};
use serde::{Deserialize, Serialize};

use super::{DEGREES, PASSES, VERTICES, fit, numbers, snapshots, with_threads};
use crate::config::BreakEven;
use crate::error::{Error, Result};

/// The parts of their edges that change from one to the next.
const CHANGES: [f64; 2] = [0.02, 0.5];
/// How many there are.
const STEPS: [usize; 2] = [3, 6];

/// What was measured of some snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Vertices of all of them.
    pub vertices: f64,
    /// Edges of all of them.
    pub edges: f64,
    /// Edges, each counted once.
    pub once: f64,
    /// Seconds of each by itself, and of all at once.
    pub seconds: [f64; 2],
}

/// What was fitted to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Seconds of a vertex and of an edge, snapshot by snapshot.
    pub each: [f64; 2],
    /// Seconds of a vertex, of an edge, and of one of those that are counted once, of all at once.
    pub at_once: [f64; 3],
    /// How far off the seconds are on average, relative to those that were measured.
    pub error: f64,
}

impl Curve {
    /// Fits relative errors; nothing where edges that are counted once seem to cost nothing.
    pub fn fit(measured: &[Measured]) -> Option<Curve> {
        let of = |which: usize, inputs: &dyn Fn(&Measured) -> Vec<f64>| {
            let samples: Vec<_> = measured.iter().map(|one| (inputs(one), one.seconds[which])).collect();
            fit(&samples)
        };
        let (each, error_of_each) = of(0, &|one| vec![one.vertices, one.edges])?;
        let (at_once, error_at_once) = of(1, &|one| vec![one.vertices, one.edges, one.once])?;
        let (each, at_once) = (each.try_into().ok()?, <[f64; 3]>::try_from(at_once).ok()?);
        let error = (error_of_each + error_at_once) / 2.0;
        (at_once[2] > 0.0).then_some(Curve { each, at_once, error })
    }

    /// Seconds of each snapshot by itself, and of all at once.
    pub fn seconds(&self, vertices: f64, edges: f64, once: f64) -> [f64; 2] {
        let ([a, b], [c, d, e]) = (self.each, self.at_once);
        [a * vertices + b * edges, c * vertices + d * edges + e * once]
    }

    /// The share of the edges where both ways take the same time.
    pub fn break_even(&self) -> BreakEven {
        let ([a, b], [c, d, e]) = (self.each, self.at_once);
        let thousandths = |number: f64| (1e3 * number).round() / 1e3;
        BreakEven { share: thousandths((b - d) / e), by_degree: thousandths((a - c) / e) }
    }

    /// Measures this machine with this many threads, which takes some seconds.
    pub fn of_machine(columns: usize, heads: usize, threads: usize) -> Result<Curve> {
        with_threads(threads, || {
            let mut measured = Vec::new();
            for degree in DEGREES {
                for change in CHANGES {
                    let steps = STEPS.into_iter().max().unwrap_or(1);
                    let all = snapshots(degree, change, steps, true)?;
                    for steps in STEPS {
                        measured.push(measure(&all[..steps.min(all.len())], columns, heads)?);
                    }
                }
            }
            Curve::fit(&measured).ok_or_else(|| {
                let problem = "no costs can be fitted on this machine; say a share, such as 0.334";
                Error::settings("parallel.break_even", problem)
            })
        })
    }
}

/// Both ways, forward and backward; what a pattern finds out about its edges once is not counted.
fn measure(patterns: &[Arc<Pattern>], columns: usize, heads: usize) -> Result<Measured> {
    let (scores, rows) = (numbers(heads), numbers(columns));
    let spans = Arc::new(Spans::new(patterns)?);
    let (arena, mut seconds) = (Arena::new(), [f64::MAX; 2]);
    // The first pass makes what later ones use again.
    for pass in 0..=PASSES {
        for (at_once, least) in [false, true].into_iter().zip(&mut seconds) {
            let begun = Instant::now();
            let mut tape = Tape::new(&arena);
            let left = tape.parameter(Shape::new(VERTICES, heads), &scores)?;
            let right = tape.parameter(Shape::new(VERTICES, heads), &scores)?;
            let x = tape.parameter(Shape::new(VERTICES, columns), &rows)?;
            let together = match at_once {
                true => tape.graph_attention_of_spans(spans.clone(), [left, right, x], 0.2)?,
                false => None,
            };
            let of_each = |tape: &mut Tape<'_>| {
                let one = |pattern: &Arc<Pattern>| tape.graph_attention(pattern.clone(), left, right, x, 0.2);
                patterns.iter().map(one).collect::<kymo_tensor::Result<Vec<Var>>>()
            };
            let steps = match together {
                Some(steps) => steps,
                None => of_each(&mut tape)?,
            };
            let sums = steps.into_iter().map(|step| tape.sum(step));
            let sums = sums.collect::<kymo_tensor::Result<Vec<Var>>>()?;
            let sum = tape.add_all(&sums)?;
            tape.backward(sum)?;
            if pass > 0 {
                *least = least.min(begun.elapsed().as_secs_f64());
            }
        }
    }
    let edges: usize = patterns.iter().map(|pattern| pattern.entries()).sum();
    Ok(Measured {
        vertices: (VERTICES * patterns.len()) as f64,
        edges: edges as f64,
        once: spans.pattern().entries() as f64,
        seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURVE: Curve = Curve { each: [3e-8, 5e-8], at_once: [1e-8, 2e-8, 1e-7], error: 0.0 };

    fn measured(curve: &Curve) -> Vec<Measured> {
        let one = |(vertices, degree, share): (f64, f64, f64)| {
            let (edges, once) = (vertices * degree, vertices * degree * share);
            Measured { vertices, edges, once, seconds: curve.seconds(vertices, edges, once) }
        };
        [(3e4, 6.0, 0.34), (6e4, 6.0, 0.7), (3e4, 40.0, 0.6), (6e4, 40.0, 0.18)].map(one).to_vec()
    }

    #[test]
    fn costs_come_back_and_both_ways_take_as_long_where_they_break_even() {
        let curve = Curve::fit(&measured(&CURVE)).unwrap();
        assert!(curve.error < 1e-3, "{curve:?}");
        let even = curve.break_even();
        assert!((even.share - 0.3).abs() < 0.005 && (even.by_degree - 0.2).abs() < 0.02, "{even}");
        for degree in [5.0, 50.0] {
            let [each, at_once] = CURVE.seconds(1e4, 1e4 * degree, 1e4 * degree * even.at(degree));
            assert!((each / at_once - 1.0).abs() < 0.02, "{each} {at_once}");
        }
        assert_eq!(Curve::fit(&[]), None);
        // Where edges that are counted once cost nothing, no share of them breaks even.
        let free = Curve { at_once: [1e-8, 2e-8, -1e-8], ..CURVE };
        assert_eq!(Curve::fit(&measured(&free)), None);
    }

    /// What both ways compute, and how much of it is counted.
    #[test]
    fn snapshots_are_measured_both_ways() {
        let all = snapshots(6, 0.5, 6, true).unwrap();
        assert_eq!(all.len(), 6);
        let one = measure(&all[..3], 8, 2).unwrap();
        assert_eq!((one.vertices, one.edges), (3e4, all[..3].iter().map(|p| p.entries() as f64).sum()));
        // A half of the edges of each of two steps is new, beside those of the first.
        let share = one.once / one.edges;
        assert!((0.4..0.67).contains(&share), "{share}");
        assert!(one.seconds.iter().all(|seconds| (1e-6..60.0).contains(seconds)));
    }
}
