//! Masked self-attention over time (DySAT, Sankar et al., WSDM 2020, section 4.2): a step looks at itself and
//! at those before it, then a feed-forward layer with residual connections.

use kymo_tensor::{Error, Result, Shape, Tape};

use super::{Sequence, Time};
use crate::memory::Passed;
use crate::params::{Bound, Initial, Slot};

/// One layer of attention.
pub struct Attention {
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes and gives.
    pub width: usize,
    /// Heads.
    pub heads: usize,
    /// The longest window it has a position for.
    pub window: usize,
}

impl Time for Attention {
    fn slots(&self) -> Vec<Slot> {
        let (name, width) = (&self.name, self.width);
        let square = |what: &str| Slot::weight(format!("{name}.{what}"), width, width);
        vec![
            Slot {
                name: format!("{name}.position"),
                shape: Shape::new(self.window, width),
                initial: Initial::Glorot,
            },
            square("query"),
            square("key"),
            square("value"),
            square("feed.weight"),
            Slot::bias(format!("{name}.feed.bias"), width),
        ]
    }

    fn width(&self) -> usize {
        self.width
    }

    fn memory(&self) -> Option<Vec<usize>> {
        None
    }

    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, sequence: Sequence<'_>) -> Result<Passed> {
        // Positions are those in the window: no two windows have the same rows.
        let steps = sequence.steps;
        if steps.len() > self.window {
            let problem = format!("{} steps were given, it has positions for {}", steps.len(), self.window);
            return Err(Error::settings("window", problem));
        }
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        let positions = of("position")?;
        let (mut rows, mut queries, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (t, &step) in steps.iter().enumerate() {
            let position = tape.slice_rows(positions, t..t + 1)?;
            let row = tape.add_row(step, position)?;
            queries.push(tape.matmul(row, of("query")?)?);
            keys.push(tape.matmul(row, of("key")?)?);
            values.push(tape.matmul(row, of("value")?)?);
            rows.push(row);
        }
        let seen = tape.attention(&queries, &keys, &values, self.heads, true)?;
        let mut outputs = Vec::with_capacity(steps.len());
        for (t, row) in rows.into_iter().enumerate() {
            let seen = tape.slice_columns(seen, t * self.width..(t + 1) * self.width)?;
            let fed = tape.linear(seen, of("feed.weight")?, of("feed.bias")?)?;
            let fed = tape.relu(fed)?;
            outputs.push(tape.add_all(&[fed, seen, row])?);
        }
        Ok(Passed { steps: outputs, ..Passed::default() })
    }
}
