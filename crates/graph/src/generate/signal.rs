//! Features, and targets that can be learnt from them to a known limit.
//!
//! The features of a vertex are cut into segments (DistDy, section 3). The first one is live: a share of the
//! vertices has it drawn anew at each step. The others never change. Let `z_t(v)` be the first feature of `v`
//! at step `t` (twice the feature minus 1 where features are 0 or 1) and `m_t(v)` its mean over the
//! in-neighbours of `v`, 0 without any. From step 2 on every vertex has the target
//!
//! > `y_{t+1}(v) = a m_t(v) + b (m_t(v) - m_{t-1}(v)) + noise`
//!
//! and the class 1 if the target is positive, else 0. The constants scale both terms to a variance of 1 at
//! step 1.
//!
//! A model that sees one snapshot can learn the first term alone: the second one depends on which edges and
//! features *changed*, and the change leaves no trace in the later snapshot beyond a weak correlation. So the
//! error of such a model keeps most of the variance of the second term, while one that remembers the step
//! before can reach a mean squared error of `noise` squared. No model can go lower on steps it was not
//! trained on, because the noise is independent of all else: that is the floor.

use rayon::prelude::*;

use super::Params;
use super::random::{Purpose, random};
use crate::snapshot::{Edge, Step, Vertex};
use crate::step::{FeatureChange, StepData};

/// The rule that the targets follow.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Signal {
    /// Factor of the mean over the in-neighbours.
    pub a: f64,
    /// Factor of the change of that mean since the step before.
    pub b: f64,
    /// Standard deviation of the noise.
    pub noise: f64,
}

impl Signal {
    /// The lowest mean squared error that a model can hope for.
    pub fn floor(&self) -> f64 {
        self.noise * self.noise
    }
}

/// The vertices of one piece of work.
const PIECE: usize = 1 << 12;

/// What of the features and of the past the next targets depend on.
pub(super) struct Features {
    params: Params,
    /// Columns of the live segment.
    live: usize,
    /// `z` of the step made last.
    first: Vec<f32>,
    /// `m` of the step made last, and of the one before.
    means: [Vec<f32>; 2],
    signal: Option<Signal>,
}

impl Features {
    /// Before the first step; `params` must have features.
    pub(super) fn new(params: Params) -> Self {
        let live = params.features.div_ceil(params.segments);
        Self { params, live, first: Vec::new(), means: [Vec::new(), Vec::new()], signal: None }
    }

    /// The rule, known once step 1 is made.
    pub(super) fn signal(&self) -> Option<Signal> {
        self.signal
    }

    /// Adds features and targets to the step, which has these edges and must be the next one.
    pub(super) fn advance(&mut self, step: Step, edges: &[Edge], data: &mut StepData) {
        data.features = self.draw(step);
        if let Some(signal) = self.signal {
            data.targets = self.targets(signal, step);
            data.labels = data.targets.iter().map(|&(v, target)| (v, u32::from(target > 0.0))).collect();
        }
        self.means.swap(0, 1);
        self.means[0] = means(&self.first, edges);
        if step == 1 {
            let [now, before] = &self.means;
            let change: Vec<f32> = now.iter().zip(before).map(|(now, before)| now - before).collect();
            self.signal = Some(Signal { a: scale(now), b: scale(&change), noise: self.params.noise });
        }
    }

    fn draw(&mut self, step: Step) -> FeatureChange {
        let width = self.params.features;
        let fill = |vertices: &[Vertex]| {
            let mut rows = vec![0.0; vertices.len() * width];
            rows.par_chunks_mut(width).zip(vertices).for_each(|(row, &v)| self.fill(row, v, step));
            rows
        };
        let redraw = random(self.params.seed, Purpose::Redraw).stream(step as u64);
        let redrawn = |v: &Vertex| step == 0 || redraw.share(u64::from(*v)) < self.params.feature_change;
        let vertices: Vec<Vertex> =
            (0..self.params.vertices as Vertex).into_par_iter().filter(redrawn).collect();
        let rows = fill(&vertices);
        self.first.resize(self.params.vertices, 0.0);
        for (&v, row) in vertices.iter().zip(rows.chunks(width)) {
            self.first[v as usize] = if self.params.binary { 2.0 * row[0] - 1.0 } else { row[0] };
        }
        match vertices.len() {
            _ if step == 0 => FeatureChange::All(rows),
            0 => FeatureChange::Same,
            _ => FeatureChange::Rows(vertices, rows),
        }
    }

    /// The features of the vertex if its live segment is drawn at this step: a function of both, so that no
    /// matrix has to be kept.
    fn fill(&self, row: &mut [f32], v: Vertex, step: Step) {
        let random = random(self.params.seed, Purpose::Features);
        let (live, constant) = (random.stream(step as u64), random.stream(0));
        let start = u64::from(v) * row.len() as u64;
        for (position, (column, value)) in (start..).zip(row.iter_mut().enumerate()) {
            let random = if column < self.live { live } else { constant };
            *value = if self.params.binary {
                (random.word(position) >> 63) as f32
            } else {
                random.normal(position) as f32
            };
        }
    }

    fn targets(&self, Signal { a, b, noise }: Signal, step: Step) -> Vec<(Vertex, f32)> {
        let random = random(self.params.seed, Purpose::Noise).stream(step as u64);
        let [now, before] = &self.means;
        let target = |v: usize| {
            let (now, before) = (f64::from(now[v]), f64::from(before[v]));
            let target = a * now + b * (now - before) + noise * f64::from(random.normal(v as u64) as f32);
            (v as Vertex, target as f32)
        };
        (0..now.len()).into_par_iter().map(target).collect()
    }
}

/// The mean of `values` over the in-neighbours of every vertex, 0 without any.
fn means(values: &[f32], edges: &[Edge]) -> Vec<f32> {
    let mut means = vec![0.0; values.len()];
    means.par_chunks_mut(PIECE).enumerate().for_each(|(piece, means)| {
        let first = (piece * PIECE) as u64;
        let (low, high) = (first, first + means.len() as u64);
        let from = edges.partition_point(|edge| u64::from(edge.target()) < low);
        let to = edges.partition_point(|edge| u64::from(edge.target()) < high);
        for row in edges[from..to].chunk_by(|a, b| a.target() == b.target()) {
            let sum: f64 = row.iter().map(|edge| f64::from(values[edge.source() as usize])).sum();
            means[row[0].target() as usize - piece * PIECE] = (sum / row.len() as f64) as f32;
        }
    });
    means
}

/// What scales the values to a standard deviation of 1; 0 where they are all the same.
fn scale(values: &[f32]) -> f64 {
    let mean =
        |of: &dyn Fn(f64) -> f64| values.iter().map(|&x| of(x.into())).sum::<f64>() / values.len() as f64;
    let centre = mean(&|x| x);
    let deviation = mean(&|x| (x - centre).powi(2)).sqrt();
    if deviation > 0.0 { 1.0 / deviation } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::presets::ARXIV;
    use crate::generate::tests::{Replay, replay};
    use crate::generate::uniform::Uniform;
    use crate::generate::{Generator, generate};

    /// The mean squared error of the best linear predictor of `y` from `x`, with an intercept.
    fn least_squares(rows: &[(Vec<f64>, f64)]) -> f64 {
        let with_one = |x: &[f64]| -> Vec<f64> { x.iter().copied().chain([1.0]).collect() };
        let width = rows[0].0.len() + 1;
        // The normal equations, augmented by the right-hand side, solved by elimination.
        let mut system = vec![vec![0.0; width + 1]; width];
        for (x, y) in rows {
            let x = with_one(x);
            for i in 0..width {
                (0..width).for_each(|j| system[i][j] += x[i] * x[j]);
                system[i][width] += x[i] * y;
            }
        }
        for pivot in 0..width {
            let row = system[pivot].clone();
            for other in (0..width).filter(|&other| other != pivot) {
                let factor = system[other][pivot] / row[pivot];
                system[other].iter_mut().zip(&row).for_each(|(value, from)| *value -= factor * from);
            }
        }
        let weights: Vec<f64> = (0..width).map(|i| system[i][width] / system[i][i]).collect();
        let error = |(x, y): &(Vec<f64>, f64)| {
            (with_one(x).iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>() - y).powi(2)
        };
        rows.iter().map(error).sum::<f64>() / rows.len() as f64
    }

    /// Errors of the predictors that see (this and the last mean) and (this feature and this mean).
    fn errors(kind: &dyn Generator, params: &Params) -> (f64, f64) {
        let steps = replay(kind, params);
        // Means from the definition, by looking at every edge.
        let mean = |step: &Replay| -> Vec<f64> {
            let mut sums = vec![(0.0, 0.0); params.vertices];
            for edge in step.snapshot.edges.iter() {
                let (sum, count) = &mut sums[edge.target() as usize];
                *sum += z(params, step, edge.source());
                *count += 1.0;
            }
            sums.into_iter().map(|(sum, count)| if count > 0.0 { sum / count } else { 0.0 }).collect()
        };
        let means: Vec<Vec<f64>> = steps.iter().map(mean).collect();
        let (mut dynamic, mut still) = (Vec::new(), Vec::new());
        for t in 1..steps.len() - 1 {
            for &(v, y) in &steps[t + 1].data.targets {
                let (now, before) = (means[t][v as usize], means[t - 1][v as usize]);
                dynamic.push((vec![now, before], f64::from(y)));
                still.push((vec![z(params, &steps[t], v), now], f64::from(y)));
            }
        }
        (least_squares(&dynamic), least_squares(&still))
    }

    fn z(params: &Params, step: &Replay, v: Vertex) -> f64 {
        let value = f64::from(step.features[v as usize * params.features]);
        if params.binary { 2.0 * value - 1.0 } else { value }
    }

    #[test]
    fn a_dynamic_predictor_reaches_the_floor_and_a_static_one_does_not() {
        let uniform = Params { steps: 12, features: 4, ..Uniform.defaults().scaled(0.1) };
        let binary = Params { binary: true, undirected: true, ..uniform.clone() };
        let arxiv = Params { steps: 12, features: 4, ..ARXIV.defaults().scaled(0.01) };
        for (kind, params) in [(&Uniform as &dyn Generator, uniform), (&Uniform, binary), (&ARXIV, arxiv)] {
            let (dynamic, still) = errors(kind, &params);
            let floor = params.noise * params.noise;
            assert!((dynamic / floor - 1.0).abs() < 0.05, "dynamic {dynamic}, floor {floor}");
            assert!(still > 3.0 * floor, "static {still}, floor {floor}");
        }
    }

    #[test]
    fn the_rule_is_known_after_step_1_and_targets_begin_at_step_2() {
        let mut generated =
            generate(&Uniform, &Params { steps: 5, ..Uniform.defaults().scaled(0.1) }).unwrap();
        for step in 0..5 {
            let data = generated.next().unwrap().unwrap();
            assert_eq!(data.targets.len(), if step < 2 { 0 } else { 1000 });
            assert!(
                data.targets
                    .iter()
                    .zip(&data.labels)
                    .all(|(y, label)| y.0 == label.0 && (y.1 > 0.0) == (label.1 == 1))
            );
            assert_eq!(generated.signal().is_some(), step >= 1);
        }
        let signal = generated.signal().unwrap();
        assert!(signal.a > 1.0 && signal.b > 1.0 && signal.floor() == 0.09, "{signal:?}");
    }

    #[test]
    fn only_the_live_segment_changes_and_for_the_share_asked_for() {
        for binary in [false, true] {
            let params = Params { steps: 6, features: 10, binary, ..Uniform.defaults().scaled(0.2) };
            let steps = replay(&Uniform, &params);
            let variance =
                steps[0].features.iter().map(|x| x * x).sum::<f32>() / steps[0].features.len() as f32;
            assert!((variance - if binary { 0.5 } else { 1.0 }).abs() < 0.05, "{variance}");
            for pair in steps.windows(2) {
                let FeatureChange::Rows(vertices, _) = &pair[1].data.features else { panic!("rows change") };
                let share = vertices.len() as f64 / params.vertices as f64;
                assert!((share - 0.3).abs() < 0.04, "{share}");
                for (v, (old, new)) in (0..).zip(pair[0].features.chunks(10).zip(pair[1].features.chunks(10)))
                {
                    // Four segments of ten columns are of three columns each, the last one shorter.
                    assert_eq!(old[3..], new[3..]);
                    assert!(vertices.binary_search(&v).is_ok() || old == new);
                    assert!(binary || vertices.binary_search(&v).is_err() || old[0] != new[0]);
                }
            }
        }
    }
}
