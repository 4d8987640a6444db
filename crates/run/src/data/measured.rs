//! What was measured of the data that a model was trained on, and that its parameters go with: where it is
//! applied to other data, that is seen as the model has learnt to see it.

use std::path::PathBuf;

use kymo_graph::Ids;
use rayon::prelude::*;

use super::features::Inputs;
use super::scale::Scales;
use crate::error::{Error, Result};

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Constant columns of a step.
    pub columns: usize,
    /// What is subtracted from each of them; none where they stay as they are.
    pub means: Vec<f32>,
    /// What each is then multiplied by.
    pub factors: Vec<f32>,
    /// What the task measured.
    pub task: Vec<f32>,
    /// The file that says so; none where it was measured here.
    pub from: PathBuf,
}

impl Measured {
    /// What a run measured, its task included.
    pub fn of(inputs: &Inputs, task: Vec<f32>) -> Measured {
        let Scales { means, factors } = inputs.scales.clone();
        Measured { columns: inputs.constant.columns(), means, factors, task, from: PathBuf::new() }
    }

    /// How these columns are scaled, if they are; fails where the model has learnt from another number of
    /// them.
    pub(super) fn scales(&self, columns: usize, is_scaled: bool) -> Result<Scales> {
        if columns != self.columns {
            let problem = format!(
                "the store has {columns} columns of features, and the model was trained with {}; ingest the \
                 same columns",
                self.columns
            );
            return Err(Error::settings("data.store", problem));
        }
        let expected = if is_scaled { columns } else { 0 };
        let all = || self.means.iter().chain(&self.factors);
        if [self.means.len(), self.factors.len()] != [expected; 2] || !all().all(|value| value.is_finite()) {
            return Err(self.damaged("columns"));
        }
        Ok(Scales { means: self.means.clone(), factors: self.factors.clone() })
    }

    /// What is to be said where a file does not say what was measured of the `what` that there are.
    pub fn damaged(&self, what: &str) -> Error {
        let problem = format!("what it says was measured of {what} does not go with the run: it is damaged");
        Error::file(&self.from, problem)
    }
}

/// Numbers that stand for a vertex: checkpoints hold single precision, which has 24 bits.
pub const NUMBERS: usize = 3;

/// The numbers that stand for each vertex by its name, whatever the store it is in (FNV-1a).
pub fn known_by(ids: &Ids) -> Vec<f32> {
    let number = |bits: u64| (bits & 0xFF_FFFF) as f32;
    let of_vertex = |vertex: usize| {
        let name = ids.name(vertex as u32);
        let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        let sum = name.bytes().fold(0xCBF2_9CE4_8422_2325, fold);
        [number(sum), number(sum >> 24), number(sum >> 48)]
    };
    (0..ids.len()).into_par_iter().flat_map_iter(of_vertex).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_are_known_by_their_names_wherever_they_are() {
        let text = Ids::Text(vec!["foobar".into(), "".into(), "7".into()]);
        let known = known_by(&text);
        assert_eq!(known.len(), 3 * NUMBERS);
        // The published sum of "foobar" is 85944171f73967e8, that of nothing cbf29ce484222325.
        assert_eq!(known[..3], [0x3967E8 as f32, 0x4171F7 as f32, 0x8594 as f32]);
        assert_eq!(known[3..6], [0x222325 as f32, 0x9CE484 as f32, 0xCBF2 as f32]);
        assert_eq!(known_by(&Ids::Number(vec![9, 7]))[3..], known[6..]);
    }
}
