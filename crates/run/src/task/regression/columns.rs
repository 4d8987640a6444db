//! The values of steps as columns, one number for each vertex: what predictions are compared with, and, of
//! the last steps, what they are made of beside the embedding. What baselines know, a model knows, too.
//!
//! They are read where they lie, as of a step, and nothing later is looked at. Where features have them, too,
//! they are worth having all the same: a window is often shorter, and what goes through structure is mixed
//! with neighbours. Samples that follow each other share all of their columns but one, so those of a few
//! steps are kept, also on a GPU.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use kymo_graph::{Step, Vertex};
use kymo_tensor::Resident;
use rayon::prelude::*;

use crate::config::Settings;
use crate::error::Result;

/// Past values unless another number is set: those of a window, but a few also below short ones.
const USUAL: RangeInclusive<usize> = 8..=16;

/// Vertices that are one piece of work; fewer are not worth a second thread.
const PIECE: usize = 8192;

/// Bytes of columns that are kept in any case: all of a small graph.
const SMALL: usize = 16 << 20;

/// How many past values predictions are made of.
pub fn past(settings: &Settings) -> Result<usize> {
    let usual = || settings.train.window.clamp(*USUAL.start(), *USUAL.end());
    Ok(settings.task.past_values()?.unwrap_or_else(usual))
}

/// The values of a step.
#[derive(Debug)]
pub struct Column {
    /// The last one of every vertex.
    pub values: Arc<Resident>,
    /// One for the vertices that have a value at the step itself and zero for the others, if there are any.
    pub present: Option<Arc<Resident>>,
    /// How many have.
    pub count: usize,
}

/// How columns are made.
#[derive(Clone, Debug)]
pub struct Making {
    /// How many vertices there are.
    pub vertices: usize,
    /// How many steps, the one itself included, are looked at for a value.
    pub reach: usize,
    /// What stands for a value that is not found.
    pub missing: f32,
}

impl Making {
    /// The column of a step, each value `scaled`, out of the vertices that have a value at each step,
    /// ascending, and these values.
    pub fn column<'a>(
        &self,
        step: Step,
        known: impl Fn(Step) -> Result<(&'a [Vertex], &'a [f32])>,
        scaled: impl Fn(f32) -> f32 + Sync,
    ) -> Result<Column> {
        let (labelled, stored) = known(step)?;
        let count = labelled.len();
        if count == self.vertices {
            let mut values = vec![0.0; count];
            let scale = |(values, stored): (&mut [f32], &[f32])| {
                values.iter_mut().zip(stored).for_each(|(value, &stored)| *value = scaled(stored));
            };
            match count <= PIECE {
                true => scale((&mut values, stored)),
                false => values.par_chunks_mut(PIECE).zip(stored.par_chunks(PIECE)).for_each(scale),
            }
            return Ok(Column { values: Arc::new(values.into()), present: None, count });
        }
        // Values are numbers: one that is none is still to be found.
        let mut values = vec![f32::NAN; self.vertices];
        let mut present = vec![0.0; self.vertices];
        for (&vertex, &value) in labelled.iter().zip(stored) {
            (values[vertex as usize], present[vertex as usize]) = (scaled(value), 1.0);
        }
        let mut left = self.vertices - count;
        for earlier in ((step + 1).saturating_sub(self.reach)..step).rev() {
            if left == 0 {
                break;
            }
            let (labelled, stored) = known(earlier)?;
            for (&vertex, &value) in labelled.iter().zip(stored) {
                let place = &mut values[vertex as usize];
                if place.is_nan() {
                    (*place, left) = (scaled(value), left - 1);
                }
            }
        }
        values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = self.missing);
        Ok(Column { values: Arc::new(values.into()), present: Some(Arc::new(present.into())), count })
    }
}

/// The columns of the steps that were last asked for.
#[derive(Debug, Default)]
pub struct Columns {
    /// How many are kept.
    room: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Columns, and when each was last asked for.
    columns: BTreeMap<Step, (u64, Arc<Column>)>,
    asked: u64,
}

impl Columns {
    /// None yet, and in the end this many of this many vertices, or more where they are small.
    pub fn new(least: usize, vertices: usize, steps: usize) -> Columns {
        let small = SMALL / Columns::bytes(vertices).max(1);
        Columns { room: least.max(small).min(steps), kept: Mutex::default() }
    }

    /// Bytes of one: a value for each vertex, and a weight where some have none.
    pub fn bytes(vertices: usize) -> usize {
        8 * vertices
    }

    /// How many are kept at most.
    pub fn room(&self) -> usize {
        self.room
    }

    /// The column of a step, made unless it was kept. What was not asked for the longest makes room for it.
    pub fn get(&self, step: Step, make: impl FnOnce() -> Result<Column>) -> Result<Arc<Column>> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |kept: &mut Kept| {
            kept.asked += 1;
            let (asked, column) = kept.columns.get_mut(&step)?;
            *asked = kept.asked;
            Some(column.clone())
        };
        if let Some(column) = found(&mut lock()) {
            return Ok(column);
        }
        // Not under the lock: threads that help with it may themselves come here.
        let column = Arc::new(make()?);
        let mut kept = lock();
        let asked = kept.asked;
        kept.columns.insert(step, (asked, column.clone()));
        while kept.columns.len() > self.room.max(1) {
            let oldest = kept.columns.iter().min_by_key(|(_, (asked, _))| *asked).map(|(step, _)| *step);
            oldest.and_then(|step| kept.columns.remove(&step));
        }
        Ok(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(column: &Column) -> Vec<f32> {
        column.values.to_vec()
    }

    fn present(column: &Column) -> Option<Vec<f32>> {
        column.present.as_ref().map(|present| present.to_vec())
    }

    #[test]
    fn a_column_has_the_last_values_and_says_which_are_of_the_step() {
        let steps = [
            (vec![0u32, 1], vec![1.0, 2.0]),
            (vec![0], vec![3.0]),
            (vec![1], vec![4.0]),
            (vec![0, 1, 2], vec![9.0, 7.0, 5.0]),
        ];
        let known = |step: Step| Ok((&steps[step].0[..], &steps[step].1[..]));
        let scaled = |value: f32| (value - 1.0) / 2.0;
        let of =
            |reach, step| Making { vertices: 3, reach, missing: -8.0 }.column(step, known, scaled).unwrap();
        // Scaled: 1 is 0, 2 is 0.5, 3 is 1, 4 is 1.5.
        assert_eq!(values(&of(2, 2)), [1.0, 1.5, -8.0]);
        assert_eq!(values(&of(1, 2)), [-8.0, 1.5, -8.0]);
        assert_eq!(values(&of(2, 1)), [1.0, 0.5, -8.0]);
        assert_eq!((present(&of(2, 1)), of(2, 1).count), (Some(vec![1.0, 0.0, 0.0]), 1));
        // Before the first step there is nothing.
        assert_eq!(values(&of(3, 0)), [0.0, 0.5, -8.0]);
        // Where all have one, nothing else is looked at.
        assert_eq!((values(&of(3, 3)), present(&of(3, 3)), of(3, 3).count), (vec![4.0, 3.0, 2.0], None, 3));
    }

    /// Vertices in several pieces, with values at all steps or at some.
    #[test]
    fn pieces_are_as_one() {
        let (vertices, reach) = (2 * PIECE + 100, 3);
        let value = |step: Step, vertex: usize| (step * 100_000 + vertex) as f32;
        for every in [1, 3] {
            let has = |step: Step, vertex: usize| every == 1 || !(vertex + step).is_multiple_of(every);
            let steps: Vec<(Vec<Vertex>, Vec<f32>)> = (0..5)
                .map(|step| {
                    let labelled = (0..vertices).filter(|&vertex| has(step, vertex));
                    labelled.map(|vertex| (vertex as Vertex, value(step, vertex))).unzip()
                })
                .collect();
            let known = |step: Step| Ok((&steps[step].0[..], &steps[step].1[..]));
            let making = Making { vertices, reach, missing: -1.0 };
            let column = making.column(4, known, |value| value + 0.5).unwrap();
            for vertex in 0..vertices {
                let seen = (2..=4).rev().find(|&step| has(step, vertex));
                let expected = seen.map_or(-1.0, |step| value(step, vertex) + 0.5);
                assert_eq!(column.values[vertex], expected, "vertex {vertex}");
                assert_eq!(present(&column).is_none_or(|all| all[vertex] == 1.0), has(4, vertex));
            }
        }
    }

    #[test]
    fn all_are_kept_of_small_graphs_and_as_many_as_are_needed_of_others() {
        assert_eq!(Columns::new(3, 20, 500).room(), 500);
        assert_eq!(Columns::new(3, 1 << 19, 500).room(), 4);
        assert_eq!(Columns::new(3, 1 << 22, 500).room(), 3);
        assert_eq!(Columns::new(3, 1 << 22, 2).room(), 2);
    }

    #[test]
    fn those_asked_for_last_are_kept() {
        let made = Mutex::new(Vec::new());
        let known = |step: Step| -> Result<(&[Vertex], &[f32])> {
            made.lock().unwrap().push(step);
            Ok((&[0], &[1.5]))
        };
        let making = Making { vertices: 1, reach: 1, missing: 0.0 };
        let columns = Columns { room: 2, ..Columns::default() };
        for step in [0, 1, 0, 2, 0, 1, 2] {
            let column =
                columns.get(step, || making.column(step, known, |value| value * step as f32)).unwrap();
            assert_eq!(values(&column), [1.5 * step as f32]);
        }
        // 2 takes the place of 1, then 1 that of 2, and 2 that of 0.
        assert_eq!(*made.lock().unwrap(), [0, 1, 2, 1, 2]);
    }
}
