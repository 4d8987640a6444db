//! The loss of a window: on the tape already, or a sum over rows that is still to be taken, by itself or
//! together with those of other windows.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use kymo_model::{Bound, Exchanged, Model, Passed, loss_by_rows};
use kymo_tensor::{Result, Tape, Var};

use super::{Matrices, keep};

/// The loss of some rows at a place of a window: gets the number of the place, the rows, their embeddings and
/// the parameters that were asked for.
pub type OfStep<'a> =
    dyn Fn(&mut Tape<'_>, usize, Range<usize>, Var, &[Var]) -> Result<Var> + Send + Sync + 'a;

/// The loss of a window.
pub enum Loss<'a> {
    /// It is on the tape.
    Taken(Var),
    /// It is a sum over rows.
    OfRows(RowsLoss<'a>),
}

/// A sum over rows, at some places of a window.
pub struct RowsLoss<'a> {
    /// Parameters that are needed besides those of the model.
    pub names: &'static [&'static str],
    /// The places.
    pub places: Vec<usize>,
    /// What is summed up.
    pub of_step: Arc<OfStep<'a>>,
    /// Where what the rows leave behind is put, if it is wanted.
    pub after: Option<&'a Mutex<Matrices>>,
}

/// Takes the losses of windows that are run together, block by block where they are sums over rows; their
/// sum.
pub fn take<'a>(
    tape: &mut Tape<'a>,
    model: &'a dyn Model,
    params: &Bound<'a>,
    windows: Vec<(Exchanged<'_>, Loss<'a>)>,
) -> Result<Var> {
    let (mut taken, mut exchanged, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    for (window, loss) in windows {
        match loss {
            Loss::Taken(var) => taken.push(var),
            Loss::OfRows(loss) => {
                let only_last = loss.places.iter().all(|place| place + 1 == window.steps.len());
                exchanged.push(Exchanged { only_last, ..window });
                losses.push(loss);
            }
        }
    }
    if !losses.is_empty() {
        // One task asks for the same parameters in all windows.
        let names = losses.first().map_or(&[][..], |loss| loss.names);
        let extra = names.iter().map(|name| params.get(name)).collect::<Result<Vec<_>>>()?;
        let lengths: Vec<usize> = exchanged.iter().map(|window| window.steps.len()).collect();
        let body = move |tape: &mut Tape<'_>, rows: Range<usize>, passed: &[Passed], extra: &[Var]| {
            let mut sums = Vec::new();
            for ((loss, length), passed) in losses.iter().zip(&lengths).zip(passed) {
                if let Some(after) = loss.after {
                    keep(tape, &rows, &passed.after, after)?;
                }
                // The first ones are missing where nobody reads them.
                let missing = length - passed.steps.len();
                for (number, &place) in loss.places.iter().enumerate() {
                    let step = passed.steps[place - missing];
                    sums.push((loss.of_step)(tape, number, rows.clone(), step, extra)?);
                }
            }
            tape.add_all(&sums)
        };
        taken.push(loss_by_rows(tape, model, params, &exchanged, &extra, body)?);
    }
    match taken[..] {
        [one] => Ok(one),
        _ => tape.add_all(&taken),
    }
}
