//! Edge classification: the class of every edge of the next step, given that the edge exists.
//!
//! The decoder begins with the shares that classes have in training, and with nothing of the hidden layer.

use std::sync::Arc;

use kymo_graph::{Step, Store, Vertex};
use kymo_model::metric::{Evidence, Needs};
use kymo_tensor::{Result as Computed, Shape, Tape, Var};

use super::super::{Goal, Task, one_horizon};
use super::classes::Classes;
use super::goal::{Edges, trained_on};
use super::past::Sums;
use super::survey::Survey;
use super::{Asked, Kind, Rows};
use crate::config::{ClassWeights, EDGE_CLASSIFICATION, Settings};
use crate::data::Split;
use crate::error::Result;

/// The task.
pub struct EdgeClassification;

impl Task for EdgeClassification {
    fn name(&self) -> &'static str {
        EDGE_CLASSIFICATION
    }

    fn about(&self) -> &'static str {
        "the class of every edge of the next step, given that it exists: the sign of its weight, or the \
         weight itself where it is one of few (edge.classes); baselines: majority, the last class of the \
         edge, the most frequent one of its target, and of its source"
    }

    /// Where nine edges of ten are of one class, to say nothing else is right nine times of ten: a mean over
    /// classes decides.
    fn metrics(&self) -> &'static [&'static str] {
        &["macro-f1", "accuracy", "micro-f1", "class-auc"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Classes]
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        one_horizon(self, settings)?;
        let split = Split::of_store(store, 1, settings)?;
        let survey = Survey::new(store, trained_on(&split))?;
        survey.check(store, "classes")?;
        let classes = Classes::new(&survey, settings.edge.classes, store)?;
        let is_balanced = settings.task.class_weights == ClassWeights::Balanced;
        let kind = Told { classes, is_balanced };
        Ok(Box::new(Edges::open(store, settings, split, Box::new(kind))?))
    }
}

/// How weights are read as classes.
struct Told {
    classes: Classes,
    is_balanced: bool,
}

const MAJORITY: &str = "majority";
const LAST: &str = "last-class";
const OF_TARGET: &str = "target-majority";
const OF_SOURCE: &str = "source-majority";

/// How much the shares of training count where classes are equally frequent.
const TIE: f32 = 1e-3;

impl Told {
    /// Adds the shares that classes have among the edges of a vertex; false where it has none.
    fn shares(&self, sums: &Sums, vertex: Vertex, t: Step, said: &mut Vec<f32>) -> bool {
        let mut numbers = vec![0.0; self.numbers()];
        let count = sums.up_to(vertex, t, &mut numbers);
        if count == 0.0 {
            return false;
        }
        let last = count - numbers.iter().sum::<f64>();
        let all = numbers.into_iter().chain([last]).map(|sum| (sum / count) as f32);
        said.extend(all.zip(&self.classes.shares).map(|(share, usual)| share + TIE * usual));
        true
    }

    /// What a class weighs in the loss.
    fn class_weight(&self, class: usize) -> f32 {
        match self.classes.shares.get(class) {
            Some(&share) if self.is_balanced && share > 0.0 => 1.0 / (self.classes.len() as f32 * share),
            _ => 1.0,
        }
    }
}

impl Kind for Told {
    /// One for each class but the last, which is what the others leave.
    fn numbers(&self) -> usize {
        self.classes.len() - 1
    }

    fn encode(&self, weight: f32, factor: f64, numbers: &mut [f64]) {
        if let Some(number) = numbers.get_mut(self.classes.of(weight)) {
            *number += factor;
        }
    }

    fn centre(&self) -> (&[f32], f32) {
        (&self.classes.shares[..self.numbers()], 1.0)
    }

    fn scores(&self) -> usize {
        self.classes.len()
    }

    fn truth(&self, weight: f32) -> f32 {
        self.classes.of(weight) as f32
    }

    fn weight(&self, truth: f32) -> f32 {
        self.class_weight(truth as usize)
    }

    fn errors(&self, tape: &mut Tape<'_>, scores: Var, truth: &[f32], scale: f32) -> Computed<Var> {
        let truth = tape.copied(Shape::new(truth.len(), 1), truth)?;
        let weights = match self.is_balanced {
            true => {
                let weights: Vec<f32> =
                    (0..self.classes.len()).map(|class| self.class_weight(class)).collect();
                Some(tape.copied(Shape::new(1, weights.len()), &weights)?)
            }
            false => None,
        };
        tape.cross_entropy(scores, truth, weights, None, scale)
    }

    fn read(&self, _: &mut [f32]) {}

    fn evidence<'a>(
        &self,
        said: &'a [f32],
        truth: &'a [f32],
        classes: &'a mut Vec<u32>,
    ) -> (Needs, Evidence<'a>) {
        classes.clear();
        classes.extend(truth.iter().map(|&class| class as u32));
        (Needs::Classes, Evidence::Classes { scores: said, classes: self.classes.len(), truth: classes })
    }

    fn header(&self) -> &'static [&'static str] {
        &["class", "probability"]
    }

    fn cells(&self, said: &[f32]) -> Vec<String> {
        let most = said.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let class = said.iter().position(|&score| score == most).unwrap_or(0);
        let sum: f32 = said.iter().map(|score| (score - most).exp()).sum();
        vec![self.classes.name(class), (1.0 / sum).to_string()]
    }

    fn told(&self, truth: f32) -> String {
        self.classes.name(truth as usize)
    }

    fn baselines(&self) -> Vec<&'static str> {
        vec![MAJORITY, LAST, OF_TARGET, OF_SOURCE]
    }

    fn baseline(
        &self,
        name: &str,
        Asked { known, source, target, t }: Asked<'_>,
        said: &mut Vec<f32>,
    ) -> bool {
        let (received, given) = (&known.past.received, &known.past.given);
        let is_known = match name {
            MAJORITY => false,
            LAST => match known.past.last(source, target, t) {
                Some(weight) => {
                    let last = self.classes.of(weight);
                    said.extend((0..self.classes.len()).map(|class| f32::from(u8::from(class == last))));
                    true
                }
                None => self.shares(received, target, t, said),
            },
            OF_TARGET => self.shares(received, target, t, said),
            OF_SOURCE => self.shares(given, source, t, said),
            _ => return false,
        };
        if !is_known {
            said.extend_from_slice(&self.classes.shares);
        }
        true
    }

    fn start(&self, facts: usize, _: &Rows<'_>) -> Result<[Vec<f32>; 2]> {
        let bias = self.classes.shares.iter().map(|share| share.max(1e-6).ln()).collect();
        Ok([vec![0.0; facts * self.classes.len()], bias])
    }

    fn measured(&self) -> Vec<f32> {
        self.classes.numbers()
    }

    fn adopt(&mut self, measured: &[f32]) -> bool {
        match Classes::from_numbers(measured) {
            Some(classes) => self.classes = classes,
            None => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::fixture::{Weighted, by_hand, open, refused, said, settings};
    use super::*;
    use crate::config::EdgeClasses;

    #[test]
    fn baselines_say_what_a_person_would() {
        let mut steps = by_hand();
        // A source that gives nothing good.
        steps[1].insert((2, 0), -3.0);
        let goal = open(&EdgeClassification, &steps, &settings()).unwrap();
        let says = |name, expected: [&str; 4]| {
            let found = said(&*goal, 2, name);
            for (pair, expected) in [(0, 1), (4, 1), (2, 5), (5, 4)].iter().zip(expected) {
                assert_eq!(found[pair], expected, "{name} of {pair:?}");
            }
        };
        says(MAJORITY, ["positive"; 4]);
        // Vertex 1 was given -2, 4 and -1; 0 gave -2 and 4, which is a tie, and 2 gave -1, -3 and 5.
        says(LAST, ["positive", "negative", "positive", "positive"]);
        says(OF_TARGET, ["negative", "negative", "positive", "positive"]);
        says(OF_SOURCE, ["positive", "positive", "negative", "positive"]);
        assert_eq!(goal.baselines(), [MAJORITY, LAST, OF_TARGET, OF_SOURCE]);
    }

    #[test]
    fn classes_are_signs_or_weights() {
        let weights = |weights: [f32; 3]| -> Weighted {
            let step = |t: u32| (0..3).map(|k| ((k, 3 + (k + t) % 3), weights[k as usize])).collect();
            (0..11).map(step).collect()
        };
        let mut by_value = settings();
        by_value.edge.classes = EdgeClasses::Values;
        let mut by_sign = settings();
        by_sign.edge.classes = EdgeClasses::Sign;
        let scores = |steps: &Weighted, settings: &Settings| {
            let goal = open(&EdgeClassification, steps, settings).unwrap();
            goal.slots(4).iter().find(|slot| slot.name == "edge.out").unwrap().shape.columns
        };
        assert_eq!(scores(&weights([-2.0, 3.0, 3.5]), &settings()), 2);
        assert_eq!(scores(&weights([1.0, 3.0, 5.0]), &settings()), 3);
        assert_eq!(scores(&weights([-2.0, 3.0, 5.0]), &by_value), 3);
        let error = |steps: &Weighted, settings: &Settings| refused(&EdgeClassification, steps, settings);
        let said = error(&weights([1.0, 3.0, 5.0]), &by_sign);
        assert!(
            said.starts_with("edge.classes: ") && said.contains("weigh 0 or more, which is one class"),
            "{said}"
        );
        let said = error(&weights([1.0; 3]), &settings());
        assert!(said.contains("has no weights"), "{said}");
        let many = (0..80u32).map(|t| BTreeMap::from([((0, 1), t as f32)])).collect();
        let said = error(&many, &settings());
        assert!(said.contains("more than 32 different weights, expected at most 32 classes"), "{said}");
        let both = (0..80u32).map(|t| BTreeMap::from([((0, 1), t as f32 - 20.0)])).collect();
        let said = error(&both, &by_value);
        assert!(said.contains("set edge.classes=sign; or choose edge-regression"), "{said}");
        assert_eq!(scores(&both, &settings()), 2);
        // 32 are few, and a zero is one, whatever its sign.
        let many: Weighted = (0..80u32).map(|t| BTreeMap::from([((0, 1), (t % 32) as f32 / 2.0)])).collect();
        assert_eq!(scores(&many, &settings()), 32);
        assert_eq!(scores(&weights([0.0, -0.0, 1.5]), &settings()), 2);
    }

    #[test]
    fn weights_that_training_does_not_have_are_the_nearest_and_classes_are_read_back() {
        let whole = |values: &[f32]| {
            let shares = vec![1.0 / values.len() as f32; values.len()];
            Classes::from_numbers(&[&[1.0][..], &shares, values].concat())
        };
        let classes = whole(&[-1.0, 2.0, 5.0]).unwrap();
        let found = [-9.0, -1.0, 0.4, 0.5, 0.6, 2.0, 3.6, 5.0, 77.0].map(|weight| classes.of(weight));
        assert_eq!(found, [0, 0, 0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(Classes::from_numbers(&classes.numbers()), Some(classes.clone()));
        assert_eq!((classes.name(0), classes.name(7)), ("-1".into(), "none".into()));
        let signs = Classes::from_numbers(&[0.0, 0.25, 0.75]).unwrap();
        assert_eq!([-0.5, -0.0, 0.0, 3.0].map(|weight| signs.of(weight)), [0, 1, 1, 1]);
        assert_eq!(Classes::from_numbers(&signs.numbers()), Some(signs));
        for damaged in
            [&[][..], &[2.0, 0.5, 0.5], &[0.0, 0.5], &[1.0, 0.5, 0.5, 3.0], &[1.0, 0.5, 0.5, 3.0, 2.0]]
        {
            assert_eq!(Classes::from_numbers(damaged), None);
        }
        assert_eq!(whole(&[f32::NAN, 1.0]), None);
    }
}
