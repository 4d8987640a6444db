//! Forecasts that need no model: what one has to beat.
//!
//! A forecast takes in step after step, never a later one than it is asked at, and is fitted, where it has
//! something to fit, on what a model is trained on. A new one is a file and its line in [`ALL`].

use std::ops::Range;

use kymo_graph::Step;

use super::{autoregression, blend, latest, seasonal, usual};
use crate::error::Result;

/// A kind of forecast.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Fits it on the training part.
    pub fit: fn(&Signal<'_>) -> Result<Box<dyn Forecast>>,
}

/// Every forecast there is, the usual yardstick first.
pub const ALL: &[Kind] = &[
    Kind { name: "last-value", fit: latest::last_value },
    Kind { name: "mean", fit: latest::mean },
    Kind { name: "vertex-mean", fit: latest::vertex_mean },
    Kind { name: "blend", fit: blend::fit },
    Kind { name: "seasonal", fit: seasonal::fit },
    Kind { name: "seasonal-mean", fit: usual::fit },
    Kind { name: "autoregression", fit: autoregression::fit },
];

/// A forecast at work.
pub trait Forecast: Send {
    /// Takes in the next step, from the first one on.
    fn learn(&mut self, step: Step, known: &Known<'_>);

    /// What it says of every vertex, the horizon after the last step that it has taken in.
    fn predict(&self, signal: &Signal<'_>) -> Result<Vec<f32>>;
}

/// The values of a step: vertices that have one, and what it is.
pub type Known<'a> = (&'a [u32], Vec<f32>);

/// The values that are forecast.
pub struct Signal<'a> {
    /// How many vertices there are.
    pub vertices: usize,
    /// Steps from the last one that is known to the one that is asked for.
    pub horizon: usize,
    /// Samples that may be fitted on: what is known at one of them, and the truth the horizon later.
    pub train: Range<Step>,
    /// Steps of a model's window.
    pub window: usize,
    /// The mean of all values of training.
    pub mean: f32,
    /// The values of a step.
    pub known: &'a (dyn Fn(Step) -> Result<Known<'a>> + 'a),
}

impl Signal<'_> {
    /// Walks over the samples to be fitted on: `look` sees what a forecast knew at each of them, and the
    /// truth.
    pub fn walk<F: Forecast>(&self, mut forecast: F, mut look: impl FnMut(&F, &Known<'_>)) -> Result<()> {
        for step in 0..self.train.end {
            forecast.learn(step, &(self.known)(step)?);
            if self.train.contains(&step) {
                look(&forecast, &(self.known)(step + self.horizon)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of each step: vertices that have one, and what it is.
    type Steps = Vec<(Vec<u32>, Vec<f32>)>;

    /// Every vertex has this value at every step.
    fn all(steps: usize, vertices: u32, value: impl Fn(Step, u32) -> f32) -> Steps {
        let step = |t| ((0..vertices).collect(), (0..vertices).map(|vertex| value(t, vertex)).collect());
        (0..steps).map(step).collect()
    }

    /// What a forecast says after the steps up to `sample`, fitted on the first `train` samples.
    fn says(name: &str, steps: &Steps, train: usize, sample: Step, horizon: usize) -> Vec<f32> {
        let known = |step: Step| Ok((&steps[step].0[..], steps[step].1.clone()));
        let vertices = steps.iter().flat_map(|step| &step.0).max().unwrap() + 1;
        let seen: Vec<f32> = steps[horizon..train + horizon].iter().flat_map(|step| step.1.clone()).collect();
        let signal = Signal {
            vertices: vertices as usize,
            horizon,
            train: 0..train,
            window: 4,
            mean: seen.iter().sum::<f32>() / seen.len() as f32,
            known: &known,
        };
        let kind = ALL.iter().find(|kind| kind.name == name).unwrap();
        let mut forecast = (kind.fit)(&signal).unwrap();
        (0..=sample).for_each(|step| forecast.learn(step, &known(step).unwrap()));
        forecast.predict(&signal).unwrap()
    }

    fn is_near(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-2, "{found} instead of {expected}");
        }
    }

    #[test]
    fn what_is_missing_is_the_last_value_or_the_mean() {
        let steps: Steps = vec![
            (vec![0, 2], vec![1.0, 5.0]),
            (vec![0], vec![3.0]),
            (vec![0, 1], vec![2.0, 9.0]),
            (vec![0], vec![7.0]),
        ];
        // Of training there are 3, 2 and 9; vertex 1 has no value before step 2.
        let mean = 14.0 / 3.0;
        assert_eq!(says("last-value", &steps, 2, 1, 1), [3.0, mean, 5.0]);
        assert_eq!(says("last-value", &steps, 2, 2, 1), [2.0, 9.0, 5.0]);
        assert_eq!(says("vertex-mean", &steps, 2, 1, 1), [2.0, mean, 5.0]);
        assert_eq!(says("vertex-mean", &steps, 2, 3, 1), [13.0 / 4.0, 9.0, 5.0]);
        assert_eq!(says("mean", &steps, 2, 3, 1), [mean; 3]);
    }

    #[test]
    fn a_season_is_found_for_any_horizon() {
        let value = |t: Step, vertex: u32| ((t + vertex as usize) % 5) as f32 * 2.0 - vertex as f32;
        let steps = all(60, 4, value);
        for horizon in [1, 3, 7] {
            let expected: Vec<f32> = (0..4).map(|vertex| value(45 + horizon, vertex)).collect();
            assert_eq!(says("seasonal", &steps, 30, 45, horizon), expected, "{horizon}");
        }
    }

    #[test]
    fn before_the_first_season_there_is_the_last_value() {
        let steps = all(40, 2, |t, vertex| (t % 8) as f32 + vertex as f32);
        assert_eq!(says("seasonal", &steps, 30, 3, 1), [3.0, 4.0]);
    }

    #[test]
    fn weights_of_the_last_steps_are_found() {
        // Two waves of one length: the next value follows from the last two.
        let value = |t: Step, vertex: u32| (0.7 * t as f32 + vertex as f32).sin() * (1.0 + vertex as f32);
        let steps = all(80, 3, value);
        let expected: Vec<f32> = (0..3).map(|vertex| value(61, vertex)).collect();
        is_near(&says("autoregression", &steps, 50, 60, 1), &expected);
    }

    #[test]
    fn a_blend_takes_what_is_worth_more() {
        // Values that jump around the mean of their vertex: the last one says nothing.
        let noise = |t: Step, vertex: u32| if (t * 7 + vertex as usize * 3) % 4 < 2 { 1.0 } else { -1.0 };
        let steps = all(60, 5, |t, vertex| 10.0 * vertex as f32 + noise(t, vertex));
        let blend = says("blend", &steps, 50, 51, 1);
        for (vertex, found) in blend.iter().enumerate() {
            assert!((found - 10.0 * vertex as f32).abs() < 0.8, "{blend:?}");
        }
        // Values that stay where they are: both say the same.
        let steps = all(20, 3, |_, vertex| vertex as f32);
        is_near(&says("blend", &steps, 10, 12, 1), &[0.0, 1.0, 2.0]);
    }
}
