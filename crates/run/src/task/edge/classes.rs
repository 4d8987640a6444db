//! Which classes the weights of edges stand for: their signs, or the weights themselves where these are few.
//! Decided by the training part alone; a weight that it does not have counts as the nearest that it has.

use kymo_graph::Store;

use super::survey::{MOST, Survey};
use crate::config::EdgeClasses;
use crate::error::{Error, Result};

/// Classes of weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The weight that each class stands for, ascending; `None`: below 0, and the others.
    values: Option<Vec<f32>>,
    /// The share of each in training.
    pub shares: Vec<f32>,
}

impl Classes {
    /// The classes of the training part; fails where it has fewer than two, or too many.
    pub fn new(survey: &Survey, choice: EdgeClasses, store: &Store) -> Result<Classes> {
        let has_both = survey.negative > 0 && survey.negative < survey.count;
        let by_sign = match choice {
            EdgeClasses::Auto => has_both,
            EdgeClasses::Sign => true,
            EdgeClasses::Values => false,
        };
        let problem = |problem: String| {
            let place = store.path().display();
            Err(Error::settings("edge.classes", format!("{place}: {problem}; or choose edge-regression")))
        };
        if survey.count == 0 {
            // Refused with the counts of all parts (`check_parts`).
            return Ok(Classes { values: None, shares: vec![0.5; 2] });
        }
        let share = |count: u64| count as f32 / survey.count as f32;
        if by_sign && !has_both {
            let sign = if survey.negative == 0 { "0 or more" } else { "below 0" };
            return problem(format!(
                "all edges of the training part weigh {sign}, which is one class of signs; set \
                 edge.classes=values where weights are few"
            ));
        }
        if by_sign {
            let negative = share(survey.negative);
            return Ok(Classes { values: None, shares: vec![negative, 1.0 - negative] });
        }
        if survey.has_more {
            let otherwise = if has_both { "set edge.classes=sign" } else { "ingest classes as weights" };
            return problem(format!(
                "edges of the training part have more than {MOST} different weights, expected at most {MOST} \
                 classes; {otherwise}"
            ));
        }
        let (values, counts): (Vec<f32>, Vec<u64>) = survey.distinct.iter().copied().unzip();
        Ok(Classes { values: Some(values), shares: counts.into_iter().map(share).collect() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.shares.len()
    }

    /// The class of a weight.
    pub fn of(&self, weight: f32) -> usize {
        let Some(values) = &self.values else { return usize::from(weight >= 0.0) };
        let above = values.partition_point(|&value| value < weight);
        match (above.checked_sub(1), values.get(above)) {
            // Half way between two it is the lower one.
            (Some(below), Some(&value)) if weight - values[below] <= value - weight => below,
            (Some(below), None) => below,
            _ => above,
        }
    }

    /// What a class is called.
    pub fn name(&self, class: usize) -> String {
        match &self.values {
            None => ["negative", "positive"].get(class).copied().unwrap_or("none").to_owned(),
            Some(values) => values.get(class).map_or_else(|| "none".to_owned(), f32::to_string),
        }
    }

    /// As plain numbers: whether classes are values, then the shares, then the values.
    pub fn numbers(&self) -> Vec<f32> {
        let is_of_values = if self.values.is_some() { 1.0 } else { 0.0 };
        let values = self.values.iter().flatten();
        std::iter::once(&is_of_values).chain(&self.shares).chain(values).copied().collect()
    }

    /// What [`Classes::numbers`] were made of.
    pub fn from_numbers(numbers: &[f32]) -> Option<Classes> {
        let (&kind, rest) = numbers.split_first()?;
        let (shares, values) = match kind == 1.0 {
            true if rest.len().is_multiple_of(2) => rest.split_at(rest.len() / 2),
            false if kind == 0.0 && rest.len() == 2 => (rest, &[][..]),
            _ => return None,
        };
        let are_shares = shares.iter().all(|share| (0.0..=1.0).contains(share));
        let are_values =
            values.windows(2).all(|pair| pair[0] < pair[1]) && values.iter().all(|v| v.is_finite());
        let is_known = (2..=MOST).contains(&shares.len()) && are_shares && are_values;
        is_known.then(|| Classes { values: (kind == 1.0).then(|| values.to_vec()), shares: shares.to_vec() })
    }
}
