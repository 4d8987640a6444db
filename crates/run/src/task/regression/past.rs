//! The last values of every vertex, as numbers that a prediction is made of beside the embedding: what
//! baselines know, a model knows, too.
//!
//! They are read where they lie, as of a step, and nothing later is looked at. Features may have them
//! already, as those of a signal that was ingested without others have.

use kymo_graph::store::FeatureKind;
use kymo_graph::{Step, Store};

use super::forecast::Known;
use crate::config::{Features, Settings};
use crate::data::{Part, Split};
use crate::error::Result;

/// Past values where the data decides: a few at least, also below short windows.
const USUAL: std::ops::RangeInclusive<usize> = 8..=16;

/// Steps and vertices that are looked at to find out whether the values are among the features.
const STEPS: usize = 4;
const VERTICES: usize = 64;

/// How many past values there are to be.
pub fn count(store: &Store, split: &Split, settings: &Settings) -> Result<usize> {
    Ok(match settings.task.past_values()? {
        Some(count) => count,
        None if among_features(store, split, settings)? => 0,
        None => settings.train.window.clamp(*USUAL.start(), *USUAL.end()),
    })
}

/// Whether a column of the features that a model gets has the values, by some of those of training.
fn among_features(store: &Store, split: &Split, settings: &Settings) -> Result<bool> {
    let features = &store.manifest().features;
    let uses_stored = matches!(settings.data.features, Features::Auto | Features::Stored | Features::Both);
    if !uses_stored || features.kind != FeatureKind::Dense {
        return Ok(false);
    }
    let train = split.samples(Part::Train);
    let mut may_be = vec![true; features.width as usize];
    let mut looked_at = 0;
    for number in 0..STEPS {
        let step = train.start + number * train.len() / STEPS;
        let (vertices, values) = store.targets(step)?;
        let stride = vertices.len().div_ceil(VERTICES).max(1);
        for (&vertex, &value) in vertices.iter().zip(values).step_by(stride) {
            looked_at += 1;
            let row = store.feature_row(step, vertex)?;
            may_be.iter_mut().zip(row).for_each(|(may_be, feature)| *may_be &= feature == value);
        }
    }
    Ok(looked_at > 0 && may_be.contains(&true))
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
