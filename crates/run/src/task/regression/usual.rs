//! What is usual at a phase of the season: the mean of what a vertex had there in the seasons before. A value
//! of a season ago is one noisy sample of it.
//!
//! Everything that a mean is taken of came at least the furthest horizon before the step that it is about, so
//! it is known wherever that step is predicted from.

use std::ops::RangeInclusive;

use kymo_graph::{Step, Vertex};

use super::detect::detect;
use super::forecast::{Forecast, Known, Signal};
use super::latest::Latest;
use crate::error::Result;

/// Seasons that are looked back on at most.
const SEASONS: usize = 32;

/// Steps whose values are read for one mean, at most.
const READS: usize = 128;

/// Which values are those of a phase of the season.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usual {
    /// Steps of the season.
    pub season: usize,
    /// Steps on either side that count for a phase, too.
    pub width: usize,
}

impl Usual {
    /// The steps whose values are those of the phase of `step`, season by season, the newest first.
    pub fn steps(self, step: Step) -> impl Iterator<Item = RangeInclusive<Step>> {
        let seasons = (READS / (2 * self.width + 1)).clamp(1, SEASONS);
        (1..=seasons).map_while(move |ago| {
            let then = step.checked_sub(ago * self.season)?;
            Some(then.saturating_sub(self.width)..=then + self.width)
        })
    }

    /// The mean of each vertex at the phase of `step`, out of the vertices that have a value at each step,
    /// and these values as `scaled` makes them; NaN where there is none.
    pub fn means<'a, V: AsRef<[f32]>>(
        self,
        step: Step,
        vertices: usize,
        known: impl Fn(Step) -> Result<(&'a [Vertex], V)>,
        scaled: impl Fn(f32) -> f32,
    ) -> Result<Vec<f32>> {
        let (mut sums, mut counts) = (vec![0.0f64; vertices], vec![0u32; vertices]);
        for then in self.steps(step).flatten() {
            let (labelled, values) = known(then)?;
            for (&vertex, &value) in labelled.iter().zip(values.as_ref()) {
                sums[vertex as usize] += f64::from(scaled(value));
                counts[vertex as usize] += 1;
            }
        }
        let mean = |(sum, count): (f64, u32)| (sum / f64::from(count)) as f32;
        Ok(sums.into_iter().zip(counts).map(mean).collect())
    }
}

/// The baseline that knows as much: what is usual at this phase, or the mean of a vertex where there is no
/// season.
struct SeasonalMean {
    latest: Latest,
    usual: Option<Usual>,
    at: Option<Step>,
}

/// Finds the season.
pub fn fit(signal: &Signal<'_>) -> Result<Box<dyn Forecast>> {
    Ok(Box::new(SeasonalMean { latest: Latest::new(signal), usual: detect(signal)?, at: None }))
}

impl Forecast for SeasonalMean {
    fn learn(&mut self, step: Step, known: &Known<'_>) {
        self.latest.learn(step, known);
        self.at = Some(step);
    }

    fn predict(&self, signal: &Signal<'_>) -> Result<Vec<f32>> {
        let mut values = match self.usual {
            Some(usual) => {
                let asked = self.at.map_or(signal.horizon, |at| at + signal.horizon);
                usual.means(asked, signal.vertices, signal.known, |value| value)?
            }
            None => vec![f32::NAN; signal.vertices],
        };
        let missing = values.iter_mut().enumerate().filter(|(_, value)| value.is_nan());
        missing.for_each(|(vertex, value)| *value = self.latest.vertex_mean(vertex));
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_what_a_phase_had_in_the_seasons_before() {
        // A season of three steps; vertex 1 has a value at every other step, vertex 2 never.
        let steps: Vec<(Vec<u32>, Vec<f32>)> = (0..12u8)
            .map(|step| {
                let value = f32::from(step);
                match step % 2 {
                    0 => (vec![0, 1], vec![value, 10.0 * value]),
                    _ => (vec![0], vec![value]),
                }
            })
            .collect();
        let usual = |width, step| {
            let known = |step: Step| Ok((&steps[step].0[..], &steps[step].1));
            Usual { season: 3, width }.means(step, 3, known, |value| value + 0.5).unwrap()
        };
        // Of step 10: steps 7, 4 and 1.
        let found = usual(0, 10);
        assert_eq!(&found[..2], [4.5, 40.5]);
        assert!(found[2].is_nan());
        // One more on either side: 6 to 8, 3 to 5, 0 to 2.
        assert_eq!(&usual(1, 10)[..2], [4.5, 40.5]);
        assert_eq!(&usual(1, 3)[..2], [1.0, 0.5]);
        assert!(usual(0, 2).iter().all(|mean| mean.is_nan()), "nothing before the first season");
    }

    #[test]
    fn no_more_is_read_than_is_allowed_and_nothing_that_is_not_known_yet() {
        for (season, width) in [(7, 0), (48, 4), (288, 12), (512, 16)] {
            for step in [season, 10 * season + 3, 100 * season] {
                let all: Vec<Step> = Usual { season, width }.steps(step).flatten().collect();
                assert!(!all.is_empty() && all.len() <= READS.max(2 * width + 1));
                assert!(all.iter().all(|&then| then + season - width <= step));
            }
        }
    }
}
