//! The last values of every vertex, as numbers that a prediction is made of beside the embedding: what
//! baselines know, a model knows, too.
//!
//! They are read where they lie, as of a step, and nothing later is looked at. Where features have them, too,
//! they are worth having all the same: a window is often shorter, and what goes through structure is mixed
//! with neighbours.

use std::ops::RangeInclusive;

use kymo_graph::Step;

use super::forecast::Known;
use crate::config::Settings;
use crate::error::Result;

/// Past values unless another number is set: those of a window, but a few also below short ones.
const USUAL: RangeInclusive<usize> = 8..=16;

/// How many past values there are to be.
pub fn count(settings: &Settings) -> Result<usize> {
    let usual = || settings.train.window.clamp(*USUAL.start(), *USUAL.end());
    Ok(settings.task.past_values()?.unwrap_or_else(usual))
}

/// The last `count` values of every vertex as of `sample`, the newest first, scaled. One that is missing is
/// the one before it, or the `mean` where there is none among them.
pub fn values<'a>(
    (count, vertices): (usize, usize),
    sample: Step,
    known: impl Fn(Step) -> Result<Known<'a>>,
    mean: f32,
    (subtracted, divided): (f32, f32),
) -> Result<Vec<f32>> {
    let mut all = vec![(mean - subtracted) / divided; count * vertices];
    let mut latest = vec![(mean - subtracted) / divided; vertices];
    for step in (sample + 1).saturating_sub(count)..sample + 1 {
        let (labelled, values) = known(step)?;
        for (&vertex, value) in labelled.iter().zip(values) {
            latest[vertex as usize] = (value - subtracted) / divided;
        }
        let places = all.iter_mut().skip(sample - step).step_by(count);
        places.zip(&latest).for_each(|(place, &value)| *place = value);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_last_ones_and_gaps_are_filled_from_before() {
        let steps = [
            (vec![0u32, 1], vec![1.0, 2.0]),
            (vec![0], vec![3.0]),
            (vec![1], vec![4.0]),
            (vec![0, 1, 2], vec![9.0, 9.0, 9.0]),
        ];
        let known = |step: Step| Ok((&steps[step].0[..], steps[step].1.clone()));
        let of = |count, sample| values((count, 3), sample, known, 7.0, (1.0, 2.0)).unwrap();
        // Scaled: 1 is 0, 2 is 0.5, 3 is 1, 4 is 1.5, and the mean is 3.
        assert_eq!(of(2, 2), [1.0, 1.0, 1.5, 3.0, 3.0, 3.0]);
        assert_eq!(of(3, 2), [1.0, 1.0, 0.0, 1.5, 0.5, 0.5, 3.0, 3.0, 3.0]);
        // Before the first step there is nothing.
        assert_eq!(of(3, 0), [0.0, 3.0, 3.0, 0.5, 3.0, 3.0, 3.0, 3.0, 3.0]);
        assert!(of(0, 2).is_empty());
    }
}
