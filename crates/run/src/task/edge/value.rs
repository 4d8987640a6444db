//! Edge regression: the weight of every edge of the next step, given that the edge exists.
//!
//! The decoder begins with the weights of facts that did best in training by least squares, and with nothing
//! of the hidden layer: a model begins as good as the additive baseline and learns what that leaves over.

use std::sync::{Arc, OnceLock};

use kymo_graph::Store;
use kymo_model::metric::{Evidence, Needs};
use kymo_tensor::{Result as Computed, Shape, Tape, Var};

use super::super::least_squares::LeastSquares;
use super::super::{Goal, Task, one_horizon};
use super::facts::Known;
use super::goal::{Edges, trained_on};
use super::survey::Survey;
use super::{Asked, Kind, Rows};
use crate::config::{EDGE_REGRESSION, Errors, Settings, Target};
use crate::data::Split;
use crate::error::{Error, Result};

/// The task.
pub struct EdgeRegression;

impl Task for EdgeRegression {
    fn name(&self) -> &'static str {
        EDGE_REGRESSION
    }

    fn about(&self) -> &'static str {
        "the weight of every edge of the next step, given that it exists; baselines: the mean of training, \
         the last weight of the edge, the mean of its target, and that with an offset for its source"
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["mse", "mae", "rmse"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Values]
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        one_horizon(self, settings)?;
        let split = Split::of_store(store, 1, settings)?;
        Survey::new(store, trained_on(&split))?.check(store, "values")?;
        let values = Values::measure(store, &split, settings)?;
        Ok(Box::new(Edges::open(store, settings, split, Box::new(values))?))
    }
}

/// How weights are read as values.
struct Values {
    logarithm: bool,
    is_absolute: bool,
    /// The mean of the training values.
    mean: [f32; 1],
    deviation: f32,
    /// What is subtracted from a value, and what it is then divided by.
    scale: (f32, f32),
    /// What the means of target and source weigh in the additive baseline, and what is added.
    additive: OnceLock<Vec<f64>>,
}

const MEAN: &str = "mean";
const LAST: &str = "last-value";
const OF_TARGET: &str = "target-mean";
const ADDITIVE: &str = "source-target-mean";

impl Values {
    fn measure(store: &Store, split: &Split, settings: &Settings) -> Result<Values> {
        let mut values = Values {
            logarithm: settings.task.target == Target::Log,
            is_absolute: match settings.task.errors {
                Errors::Auto => {
                    settings.task.metrics.first().is_some_and(|name| name == "mae" || name == "mape")
                }
                Errors::Squared => false,
                Errors::Absolute => true,
            },
            mean: [0.0],
            deviation: 1.0,
            scale: (0.0, 1.0),
            additive: OnceLock::new(),
        };
        let (mut count, mut sum, mut squares) = (0usize, 0.0f64, 0.0f64);
        for step in trained_on(split) {
            let snapshot = store.snapshot(step)?;
            for edge in 0..snapshot.len() {
                let value = f64::from(values.truth(snapshot.weight(edge)));
                (count, sum, squares) = (count + 1, sum + value, squares + value * value);
            }
        }
        if count == 0 {
            // Refused with the counts of all parts (`check_parts`).
            return Ok(values);
        }
        let mean = sum / count as f64;
        let variance = squares / count as f64 - mean * mean;
        values.mean = [mean as f32];
        values.deviation = if variance > 1e-12 { variance.sqrt() as f32 } else { 1.0 };
        if settings.task.target == Target::Standardised {
            values.scale = (values.mean[0], values.deviation);
        }
        Ok(values)
    }

    /// The mean of the edges of a vertex so far.
    fn mean_of(&self, count: f64, sum: f64) -> Option<f32> {
        (count > 0.0).then(|| (sum / count) as f32)
    }
}

impl Kind for Values {
    fn numbers(&self) -> usize {
        1
    }

    fn encode(&self, weight: f32, factor: f64, numbers: &mut [f64]) {
        numbers[0] += factor * f64::from(self.truth(weight));
    }

    fn centre(&self) -> (&[f32], f32) {
        (&self.mean, 1.0 / self.deviation)
    }

    fn scores(&self) -> usize {
        1
    }

    fn truth(&self, weight: f32) -> f32 {
        if self.logarithm { weight.max(-0.999).ln_1p() } else { weight }
    }

    fn weight(&self, _: f32) -> f32 {
        1.0
    }

    fn errors(&self, tape: &mut Tape<'_>, scores: Var, truth: &[f32], scale: f32) -> Computed<Var> {
        let (subtracted, divided) = self.scale;
        let truth: Vec<f32> = truth.iter().map(|value| (value - subtracted) / divided).collect();
        let truth = tape.copied(Shape::new(truth.len(), 1), &truth)?;
        match self.is_absolute {
            true => tape.mae(scores, truth, None, scale),
            false => tape.mse(scores, truth, None, scale),
        }
    }

    fn read(&self, scores: &mut [f32]) {
        let (mean, deviation) = self.scale;
        scores.iter_mut().for_each(|value| *value = *value * deviation + mean);
    }

    fn evidence<'a>(&self, said: &'a [f32], truth: &'a [f32], _: &'a mut Vec<u32>) -> (Needs, Evidence<'a>) {
        (Needs::Values, Evidence::Values { predicted: said, truth })
    }

    fn header(&self) -> &'static [&'static str] {
        &["value"]
    }

    fn cells(&self, said: &[f32]) -> Vec<String> {
        said.iter().map(f32::to_string).collect()
    }

    fn told(&self, truth: f32) -> String {
        truth.to_string()
    }

    fn baselines(&self) -> Vec<&'static str> {
        vec![MEAN, LAST, OF_TARGET, ADDITIVE]
    }

    fn baseline(
        &self,
        name: &str,
        Asked { known, source, target, t }: Asked<'_>,
        said: &mut Vec<f32>,
    ) -> bool {
        let mean_of = |received: bool, vertex| {
            let mut sum = [0.0];
            let sums = if received { &known.past.received } else { &known.past.given };
            let count = sums.up_to(vertex, t, &mut sum);
            self.mean_of(count, sum[0])
        };
        let [mean] = self.mean;
        said.push(match name {
            MEAN => mean,
            LAST => match known.past.last(source, target, t) {
                Some(weight) => self.truth(weight),
                None => mean_of(true, target).or_else(|| mean_of(false, source)).unwrap_or(mean),
            },
            OF_TARGET => mean_of(true, target).unwrap_or(mean),
            ADDITIVE => {
                let Some(weights) = self.additive.get() else { return false };
                let mut facts = Vec::with_capacity(known.facts());
                known.write(source, target, t, &mut facts);
                let inputs = additive_inputs(&facts, known.of_ends());
                let offset: f64 = weights.iter().zip(inputs).map(|(weight, input)| weight * input).sum();
                offset as f32 * self.deviation + mean
            }
            _ => return false,
        });
        true
    }

    fn fit(&self, name: &str, known: Known<'_>, rows: &Rows<'_>) -> Result<()> {
        if name != ADDITIVE || self.additive.get().is_some() {
            return Ok(());
        }
        let mut sums = LeastSquares::new(5);
        rows(&mut |facts, truth| {
            let inputs = additive_inputs(facts, known.of_ends());
            sums.add(&inputs, f64::from((truth - self.mean[0]) / self.deviation));
        })?;
        self.additive.get_or_init(|| sums.solve());
        Ok(())
    }

    fn start(&self, facts: usize, rows: &Rows<'_>) -> Result<[Vec<f32>; 2]> {
        let mut sums = LeastSquares::new(facts + 1);
        let mut inputs = vec![1.0; facts + 1];
        let (subtracted, divided) = self.scale;
        rows(&mut |known, truth| {
            inputs[..facts].iter_mut().zip(known).for_each(|(input, &fact)| *input = f64::from(fact));
            sums.add(&inputs, f64::from((truth - subtracted) / divided));
        })?;
        let mut weights: Vec<f32> = sums.solve().into_iter().map(|weight| weight as f32).collect();
        let bias = weights.pop().ok_or_else(|| Error::Bug("least squares found nothing".into()))?;
        Ok([weights, vec![bias]])
    }

    fn measured(&self) -> Vec<f32> {
        vec![self.mean[0], self.deviation, self.scale.0, self.scale.1]
    }

    fn adopt(&mut self, measured: &[f32]) -> bool {
        let &[mean, deviation, subtracted, divided] = measured else { return false };
        if !measured.iter().all(|number| number.is_finite()) || deviation <= 0.0 || divided <= 0.0 {
            return false;
        }
        (self.mean, self.deviation, self.scale) = ([mean], deviation, (subtracted, divided));
        true
    }
}

/// What the additive baseline weighs: the means of target and source, and one.
fn additive_inputs(facts: &[f32], of_ends: [usize; 4]) -> [f64; 5] {
    let [a, b, c, d] = of_ends.map(|at| f64::from(facts.get(at).copied().unwrap_or(0.0)));
    [a, b, c, d, 1.0]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::fixture::{VERTICES, Weighted, by_hand, open, refused, said, settings, store};
    use super::*;

    /// Of training: -1 and 4, 5, four times 1, and 1 at each of four more steps.
    const MEAN_BY_HAND: f32 = 16.0 / 11.0;

    #[test]
    fn baselines_say_what_a_person_would() {
        let goal = open(&EdgeRegression, &by_hand(), &settings()).unwrap();
        let says = |name, expected: [f32; 4]| {
            let found = said(&*goal, 2, name);
            for (pair, expected) in [(0, 1), (4, 1), (2, 5), (5, 4)].iter().zip(expected) {
                let found: f32 = found[pair].parse().unwrap();
                assert!((found - expected).abs() < 1e-5, "{name} of {pair:?}: {found} and {expected}");
            }
        };
        says(MEAN, [MEAN_BY_HAND; 4]);
        // Vertex 1 was given -2, 4 and -1; vertex 2 gave -1 and 5; nobody knows 5 and 4.
        says(OF_TARGET, [1.0 / 3.0, 1.0 / 3.0, MEAN_BY_HAND, MEAN_BY_HAND]);
        says(LAST, [4.0, 1.0 / 3.0, 2.0, MEAN_BY_HAND]);
        // Edges that stay count at every step: vertex 5 was given 1 at each.
        assert_eq!(said(&*goal, 6, OF_TARGET)[&(4, 5)], "1");
        assert_eq!(goal.baselines(), [MEAN, LAST, OF_TARGET, ADDITIVE]);
        let unknown = goal.table(2, super::super::super::Says::Baseline("guess"), 1).err().unwrap();
        assert_eq!(unknown.to_string(), "baseline: there is none called guess");
    }

    #[test]
    fn facts_are_means_drawn_towards_that_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(store(folder.path(), &by_hand(), true));
        let split = Split::by_time(10, &settings()).unwrap();
        let values = Values::measure(&store, &split, &settings()).unwrap();
        let deviation = values.deviation;
        let squares: f32 = [16.0, 1.0, 25.0, 8.0].iter().sum();
        assert!((deviation - (squares / 11.0 - MEAN_BY_HAND * MEAN_BY_HAND).sqrt()).abs() < 1e-5);
        let edges = Edges::open(&store, &settings(), split, Box::new(values)).unwrap();
        let (known, mut facts) = (edges.known(), Vec::new());
        known.write(4, 1, 2, &mut facts);
        assert_eq!(facts.len(), known.facts());
        let centred =
            |sum: f32, count: f32, others: f32| (sum - count * MEAN_BY_HAND) / deviation / (count + others);
        // Two steps ago -2, one step ago 4 and -1, of which the further counts less.
        let lately = centred(0.81 * -2.0 + 0.9 * 3.0, 0.81 + 1.8, 2.0);
        let target = [centred(1.0, 3.0, 1.0), centred(1.0, 3.0, 16.0), lately, 0.25 * 4.0f32.ln()];
        let expected = [[0.0; 2].as_slice(), &target, &[0.0; 4], &[0.0; 10]].concat();
        for (place, (found, expected)) in facts.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 1e-5, "fact {place}: {found} and {expected}");
        }
        assert_eq!(known.of_ends(), [2, 3, 6, 7]);
        facts.clear();
        // The other way round there is a past.
        known.write(1, 0, 2, &mut facts);
        assert_eq!(facts[..2], [0.0; 2]);
        assert!((facts[10] - (4.0 - MEAN_BY_HAND) / deviation).abs() < 1e-5 && facts[11] == 1.0);
    }

    /// Guards against a leak that tests of later steps do not see: in training, too, what an edge weighs is
    /// no fact about it.
    #[test]
    fn facts_that_are_trained_on_do_not_know_what_is_predicted() {
        let seen = |steps: &Weighted| {
            let folder = tempfile::tempdir().unwrap();
            let store = Arc::new(store(folder.path(), steps, true));
            let split = Split::by_time(10, &settings()).unwrap();
            let mut values = Values::measure(&store, &split, &settings()).unwrap();
            // Not what was measured of all steps.
            assert!(values.adopt(&[0.0, 1.0, 0.0, 1.0]));
            let edges = Edges::open(&store, &settings(), split, Box::new(values)).unwrap();
            let (mut facts, mut truths) = (Vec::new(), Vec::new());
            edges
                .rows(&mut |known, truth| {
                    facts.push(known.to_vec());
                    truths.push(truth);
                })
                .unwrap();
            let drawn = edges.drawn(6, 5).unwrap();
            ((facts, drawn.facts), (truths, drawn.truth))
        };
        let mut other = by_hand();
        // The last step that is trained on.
        other[7] = BTreeMap::from([((4, 5), -7.0)]);
        let (one, other) = (seen(&by_hand()), seen(&other));
        assert_eq!(one.0, other.0);
        assert!(one.1.0 != other.1.0 && one.1.1 != other.1.1);
    }

    /// Where edges have no direction, the other one tells nothing new.
    #[test]
    fn facts_of_an_undirected_graph_are_those_of_one_direction() {
        let folder = tempfile::tempdir().unwrap();
        let both = |((source, target), weight)| [((source, target), weight), ((target, source), weight)];
        let steps: Vec<BTreeMap<_, _>> =
            by_hand().into_iter().map(|step| step.into_iter().flat_map(both).collect()).collect();
        let store = Arc::new(store(folder.path(), &steps, false));
        let split = Split::by_time(10, &settings()).unwrap();
        let values = Values::measure(&store, &split, &settings()).unwrap();
        assert!((values.mean[0] - MEAN_BY_HAND).abs() < 1e-6, "{}", values.mean[0]);
        let edges = Edges::open(&store, &settings(), split, Box::new(values)).unwrap();
        let (known, mut there, mut back) = (edges.known(), Vec::new(), Vec::new());
        known.write(0, 1, 2, &mut there);
        known.write(1, 0, 2, &mut back);
        assert_eq!((there.len(), known.facts()), (10, 10));
        assert_eq!(there[..2], back[..2], "the pair is the same");
        assert_eq!((&there[2..6], &there[6..]), (&back[6..], &back[2..6]), "the ends change places");
    }

    /// Every source adds something of its own, and every target does.
    #[test]
    fn offsets_of_both_ends_are_found() {
        let weight =
            |source: u32, target: u32| [3.0, -1.0, 2.0][source as usize] - [0.5, 4.0, 1.0][target as usize];
        let step = |t: u32| {
            let pairs = (0..3).map(|source| (source, 3 + (source * 2 + t) % 3));
            pairs.map(|(source, target)| ((source, target), weight(source, target - 3))).collect()
        };
        let steps: Vec<BTreeMap<_, _>> = (0..80).map(step).collect();
        let goal = open(&EdgeRegression, &steps, &settings()).unwrap();
        for ((source, target), found) in said(&*goal, 75, ADDITIVE) {
            let (found, expected): (f32, f32) = (found.parse().unwrap(), weight(source, target - 3));
            assert!((found - expected).abs() < 0.3, "{source} -> {target}: {found} and {expected}");
        }
        assert_eq!(VERTICES, 6);
    }

    #[test]
    fn weights_that_say_nothing_are_refused() {
        let all = |weight: f32| {
            by_hand().into_iter().map(|step| step.into_keys().map(|pair| (pair, weight)).collect()).collect()
        };
        let error = refused(&EdgeRegression, &all(1.0), &settings());
        assert!(
            error.contains("has no weights in the training part") && error.contains("--columns"),
            "{error}"
        );
        let error = refused(&EdgeRegression, &all(2.5), &settings());
        assert!(error.contains("has edges that all weigh 2.5"), "{error}");
        assert!(error.ends_with("or choose link-prediction"), "{error}");
        let mut broken = by_hand();
        broken[9].insert((0, 3), f32::NAN);
        let error = refused(&EdgeRegression, &broken, &settings());
        assert!(error.contains("the edge 0 -> 3 at step 9, expected a finite number"), "{error}");
    }

    #[test]
    fn what_comes_next_is_not_known() {
        let goal = open(&EdgeRegression, &by_hand(), &settings()).unwrap();
        let error = goal.table(10, super::super::super::Says::Baseline(MEAN), 1).err().unwrap().to_string();
        assert!(
            error.starts_with("step: step 11 is not in the store") && error.contains("--split test"),
            "{error}"
        );
    }
}
