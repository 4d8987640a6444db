//! The last values of every vertex, as numbers that a prediction is made of beside the embedding: what
//! baselines know, a model knows, too.
//!
//! They are read where they lie, as of a step, and nothing later is looked at. Where features have them, too,
//! they are worth having all the same: a window is often shorter, and what goes through structure is mixed
//! with neighbours.

use std::ops::RangeInclusive;

use kymo_graph::{Step, Vertex};
use rayon::prelude::*;

use crate::config::Settings;
use crate::error::Result;

/// Past values unless another number is set: those of a window, but a few also below short ones.
const USUAL: RangeInclusive<usize> = 8..=16;

/// Vertices whose rows are one piece of work: they stay in the cache while steps are gone through.
const PIECE: usize = 4096;

/// How many past values there are to be.
pub fn count(settings: &Settings) -> Result<usize> {
    let usual = || settings.train.window.clamp(*USUAL.start(), *USUAL.end());
    Ok(settings.task.past_values()?.unwrap_or_else(usual))
}

/// The last `count` values of every vertex as of `sample`, the newest first, `scaled`. One that is missing is
/// the one before it, or `missing` where there is none among them.
pub fn values<'a>(
    (count, vertices): (usize, usize),
    sample: Step,
    known: impl Fn(Step) -> Result<(&'a [Vertex], &'a [f32])>,
    missing: f32,
    scaled: impl Fn(f32) -> f32 + Sync,
) -> Result<Vec<f32>> {
    let steps = (sample + 1).saturating_sub(count)..sample + 1;
    let newest_first = steps.rev().map(known).collect::<Result<Vec<_>>>()?;
    let mut all = vec![missing; count * vertices];
    let pieces = all.par_chunks_mut((PIECE * count).max(1)).enumerate();
    pieces.for_each(|(number, rows)| {
        let first = (number * PIECE) as Vertex;
        let count_here = rows.len() / count;
        let mut latest = vec![missing; count_here];
        for (place, (labelled, values)) in newest_first.iter().enumerate().rev() {
            let from = labelled.partition_point(|&vertex| vertex < first);
            let known = labelled[from..].iter().map(|vertex| (vertex - first) as usize).zip(&values[from..]);
            for (row, &value) in known.take_while(|(row, _)| *row < count_here) {
                latest[row] = scaled(value);
            }
            let places = rows.iter_mut().skip(place).step_by(count);
            places.zip(&latest).for_each(|(place, &value)| *place = value);
        }
    });
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
        let known = |step: Step| Ok((&steps[step].0[..], &steps[step].1[..]));
        let scaled = |value: f32| (value - 1.0) / 2.0;
        let of = |count, sample| values((count, 3), sample, known, 3.0, scaled).unwrap();
        // Scaled: 1 is 0, 2 is 0.5, 3 is 1, 4 is 1.5, and the mean is 3.
        assert_eq!(of(2, 2), [1.0, 1.0, 1.5, 3.0, 3.0, 3.0]);
        assert_eq!(of(3, 2), [1.0, 1.0, 0.0, 1.5, 0.5, 0.5, 3.0, 3.0, 3.0]);
        // Before the first step there is nothing.
        assert_eq!(of(3, 0), [0.0, 3.0, 3.0, 0.5, 3.0, 3.0, 3.0, 3.0, 3.0]);
        assert!(of(0, 2).is_empty());
    }

    /// Vertices in several pieces, of which some have no value at some steps.
    #[test]
    fn pieces_are_as_one() {
        let (vertices, count) = (2 * PIECE + 100, 3);
        let value = |step: Step, vertex: usize| (step * 100_000 + vertex) as f32;
        let has = |step: Step, vertex: usize| !(vertex + step).is_multiple_of(3);
        let steps: Vec<(Vec<Vertex>, Vec<f32>)> = (0..5)
            .map(|step| {
                let labelled = (0..vertices).filter(|&vertex| has(step, vertex));
                labelled.map(|vertex| (vertex as Vertex, value(step, vertex))).unzip()
            })
            .collect();
        let known = |step: Step| Ok((&steps[step].0[..], &steps[step].1[..]));
        let found = values((count, vertices), 3, known, -1.0, |value| value).unwrap();
        for vertex in 0..vertices {
            for place in 0..count {
                let seen = (1..=3 - place).rev().find(|&step| has(step, vertex));
                let expected = seen.map_or(-1.0, |step| value(step, vertex));
                assert_eq!(found[vertex * count + place], expected, "vertex {vertex}, {place} steps ago");
            }
        }
    }
}
