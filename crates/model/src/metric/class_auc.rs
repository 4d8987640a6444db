//! The area under the receiver operating characteristic of each class against the others.

use super::{Evidence, Metric, Needs, Tally};

/// The probability that something of a class has a higher probability of it than something of another class,
/// ties counted half; the mean over classes that were met beside others.
///
/// Probabilities of classes are comparable from step to step, so all steps are taken together.
pub struct ClassAuc;

impl Metric for ClassAuc {
    fn name(&self) -> &'static str {
        "class-auc"
    }

    fn about(&self) -> &'static str {
        "area under the ROC curve of each class against all others, by its probability, ties half, over all \
         steps; mean over classes"
    }

    fn needs(&self) -> Needs {
        Needs::Classes
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Gathered::default())
    }
}

/// Everything that was shown.
#[derive(Default)]
struct Gathered {
    classes: usize,
    /// The logarithm of the odds of each class, row after row.
    odds: Vec<f64>,
    truth: Vec<u32>,
}

impl Tally for Gathered {
    fn add(&mut self, step: &Evidence<'_>) {
        let &Evidence::Classes { scores, classes, truth } = step else { return };
        if truth.is_empty() || classes == 0 {
            return;
        }
        self.classes = classes;
        self.truth.extend_from_slice(truth);
        for row in scores.chunks_exact(classes) {
            self.odds.extend((0..classes).map(|class| odds(row, class)));
        }
    }

    fn value(&self) -> Option<f64> {
        if self.odds.iter().any(|odds| odds.is_nan()) {
            return Some(f64::NAN);
        }
        let areas: Vec<f64> = (0..self.classes).filter_map(|class| self.area(class)).collect();
        (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
    }
}

impl Gathered {
    /// The area of one class, where there is something of it and something else.
    fn area(&self, class: usize) -> Option<f64> {
        let of = self.odds.iter().skip(class).step_by(self.classes).zip(&self.truth);
        let mut all: Vec<(f64, bool)> = of.map(|(&odds, &truth)| (odds, truth as usize == class)).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        // Twice the number of others below, so that a tie is a whole number, too.
        let (mut below, mut wins, mut own) = (0u128, 0u128, 0u128);
        for tied in all.chunk_by(|one, other| one.0 == other.0) {
            let here = tied.iter().filter(|(_, is_own)| *is_own).count() as u128;
            let others = tied.len() as u128 - here;
            wins += here * (2 * below + others);
            (own, below) = (own + here, below + others);
        }
        (own > 0 && below > 0).then(|| wins as f64 / (2.0 * own as f64 * below as f64))
    }
}

/// The logarithm of the odds of a class: how much more it scores than all others together.
fn odds(row: &[f32], class: usize) -> f64 {
    if row.iter().any(|score| score.is_nan()) {
        return f64::NAN;
    }
    let own = f64::from(row[class]);
    let others = row.iter().enumerate().filter(|(other, _)| *other != class);
    let mut ahead: Vec<f64> = others.map(|(_, &score)| f64::from(score) - own).collect();
    // In order, so that the same odds are the same bits.
    ahead.sort_by(f64::total_cmp);
    let most = ahead.last().copied().unwrap_or(f64::NEG_INFINITY);
    let odds = -(most + ahead.iter().map(|ahead| (ahead - most).exp()).sum::<f64>().ln());
    // Of scores that are infinite, or of a single class, nothing is left to tell apart.
    if odds.is_nan() { 0.0 } else { odds }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::value;

    /// The number is that of scikit-learn's `roc_auc_score`.
    #[test]
    fn two_classes_are_as_one_against_the_other() {
        let wins = [0.1f32, 0.4, 0.35, 0.8];
        let scores: Vec<f32> = wins.iter().flat_map(|&score| [0.0, score]).collect();
        let step = Evidence::Classes { scores: &scores, classes: 2, truth: &[0, 0, 1, 1] };
        assert!((value(&ClassAuc, &[step]).unwrap() - 0.75).abs() < 1e-15);
        let turned = Evidence::Classes { scores: &scores, classes: 2, truth: &[1, 1, 0, 0] };
        assert!((value(&ClassAuc, &[turned]).unwrap() - 0.25).abs() < 1e-15);
    }

    #[test]
    fn steps_are_taken_together_and_classes_count_the_same() {
        let one = Evidence::Classes { scores: &[2.0, 0.0, 0.0], classes: 3, truth: &[0] };
        assert_eq!(value(&ClassAuc, &[one]), None);
        let other = Evidence::Classes { scores: &[0.0, 1.0, 0.0, 0.0, 2.0, 0.0], classes: 3, truth: &[1, 0] };
        // Class 0: one win and one loss; class 1: one win, one loss; class 2 was never met.
        assert_eq!(value(&ClassAuc, &[one, other]), Some(0.5));
    }

    proptest! {
        #[test]
        fn it_is_the_share_of_comparisons_won(
            rows in prop::collection::vec((prop::array::uniform3(-3i8..4), 0u32..3), 2..20),
        ) {
            let scores: Vec<f32> = rows.iter().flat_map(|(row, _)| row.map(f32::from)).collect();
            let truth: Vec<u32> = rows.iter().map(|(_, class)| *class).collect();
            let chance = |row: &[i8; 3], class: usize| {
                let sum: f64 = row.iter().map(|&score| f64::from(score).exp()).sum();
                f64::from(row[class]).exp() / sum
            };
            let mut areas = Vec::new();
            for class in 0..3 {
                let (mut won, mut count) = (0.0, 0.0);
                for (own, _) in rows.iter().filter(|(_, truth)| *truth as usize == class) {
                    for (other, _) in rows.iter().filter(|(_, truth)| *truth as usize != class) {
                        let gap = chance(own, class) - chance(other, class);
                        won += if gap.abs() < 1e-12 { 0.5 } else if gap > 0.0 { 1.0 } else { 0.0 };
                        count += 1.0;
                    }
                }
                areas.extend((count > 0.0).then(|| won / count));
            }
            let step = Evidence::Classes { scores: &scores, classes: 3, truth: &truth };
            let expected = (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64);
            match (value(&ClassAuc, &[step]), expected) {
                (Some(found), Some(expected)) => prop_assert!((found - expected).abs() < 1e-9),
                (found, expected) => prop_assert_eq!(found, expected),
            }
        }
    }
}
