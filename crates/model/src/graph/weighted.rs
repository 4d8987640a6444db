//! A sparse matrix with its values, and how those come from the weights of edges.

use std::sync::Arc;

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Resident, Result, Tape, Var};

/// How the weights of incoming edges are scaled before they are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalisation {
    /// By the square roots of the degrees of both ends (Kipf and Welling, 2017).
    #[default]
    Both,
    /// By the degree of the target: the mean over what comes in.
    Right,
    /// Not at all.
    None,
}

impl Normalisation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Normalisation; 3] = [Normalisation::Both, Normalisation::Right, Normalisation::None];
}

/// The share of a weight in a sum; nothing of nothing.
pub(super) fn share(weight: f32, sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { weight / sum }
}

/// A sparse matrix: where its entries are, and what they are.
#[derive(Clone)]
pub struct Weighted {
    /// Where.
    pub pattern: Arc<Pattern>,
    /// What, in the order of the pattern.
    pub values: Arc<Resident>,
}

impl Weighted {
    /// The product with `x`.
    pub fn times(self, tape: &mut Tape<'_>, x: Var) -> Result<Var> {
        tape.spmm_fixed(self.pattern, self.values, x)
    }

    /// The entries in the first `count` columns, and those in the others, which are then counted from zero.
    pub fn split(&self, count: usize) -> Result<[Weighted; 2]> {
        let half = |inside: bool| {
            let (mut starts, mut places, mut values) = (vec![0], Vec::new(), Vec::new());
            for row in self.pattern.starts().windows(2) {
                for index in row[0] as usize..row[1] as usize {
                    let place = self.pattern.places()[index] as usize;
                    if (place < count) == inside {
                        places.push(if inside { place } else { place - count } as u32);
                        values.push(self.values[index]);
                    }
                }
                starts.push(places.len() as u64);
            }
            let columns = if inside { count } else { self.pattern.columns() - count };
            Ok(Weighted {
                pattern: Arc::new(Pattern::new(columns, starts, places)?),
                values: Arc::new(values.into()),
            })
        };
        Ok([half(true)?, half(false)?])
    }
}
