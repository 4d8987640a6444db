//! Blocks above each other: each is a model of its own, structure then time, and reads what the one below
//! made of every vertex at every step (REAL and DynaHB call such a block a layer).
//!
//! The phases of the last block are those of the whole. What a block below it does, rows phase included,
//! belongs to the exchange: the block above looks at neighbours, so all rows have to be there before it
//! begins.

use kymo_tensor::{Result, Tape, Var};

use crate::frame::{Frame, each};
use crate::memory::{Extent, Memory, Passed, handed};
use crate::params::{Bound, Slot};
use crate::{Exchanged, Model, rows_by_step};

/// Models above each other.
pub struct Blocks {
    /// All but the last: the first reads features, each other one what the one before it made.
    pub below: Vec<Box<dyn Model>>,
    /// The last.
    pub last: Box<dyn Model>,
    /// What they are called.
    pub name: &'static str,
}

impl Blocks {
    /// What the names of a block's parameters begin with.
    fn prefix(&self, number: usize) -> String {
        format!("{}.{number}.", self.name)
    }
}

/// The next matrices of those that were handed over, if any were.
fn next<'v>(before: &mut &'v [Var], count: usize) -> &'v [Var] {
    let (mine, rest) = before.split_at(count.min(before.len()));
    *before = rest;
    mine
}

/// The rows phase of a block that another stands on: of whole matrices, each step from where its structure
/// was encoded to where its rows are computed and back.
fn rows<'a>(
    block: &dyn Model,
    tape: &mut Tape<'a>,
    params: &Bound<'_>,
    window: &[Frame<'a>],
    exchanged: &Passed,
    before: &[Var],
) -> Result<Passed> {
    let together = window.first().and_then(|frame| frame.common?.of_several());
    let memory = block.memory();
    // Where rows hand nothing on, every step is by itself and stays where it is.
    let stays = memory.as_ref().is_some_and(|memory| memory.rows.is_empty());
    if stays || window.iter().all(|frame| frame.halo.is_none()) {
        return block.rows(tape, params, Exchanged { together, ..Exchanged::after(exchanged, before) });
    }
    let steps = each(tape, window, |tape, t, frame| frame.shuffle(tape, exchanged.steps[t]))?;
    let moved = Exchanged { steps: &steps, together, ..Exchanged::after(exchanged, before) };
    let passed = match memory {
        None => block.rows(tape, params, moved)?,
        Some(_) => rows_by_step(tape, block, params, moved, |tape, t, state| window[t].hand(tape, state))?,
    };
    let steps = each(tape, window, |tape, t, frame| frame.restore(tape, passed.steps[t]))?;
    Ok(Passed { steps, ..passed })
}

impl Model for Blocks {
    fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (number, block) in self.below.iter().chain([&self.last]).enumerate() {
            let named = |slot: Slot| Slot { name: format!("{}{}", self.prefix(number), slot.name), ..slot };
            slots.extend(block.slots().into_iter().map(named));
        }
        slots
    }

    fn width(&self) -> usize {
        self.last.width()
    }

    fn uses_out_edges(&self) -> bool {
        self.below.iter().chain([&self.last]).any(|block| block.uses_out_edges())
    }

    fn hops(&self) -> Option<usize> {
        let blocks = self.below.iter().chain([&self.last]).map(|block| block.hops());
        blocks.sum()
    }

    fn memory(&self) -> Option<Memory> {
        let mut exchange = Vec::new();
        for block in &self.below {
            let memory = block.memory()?;
            exchange.extend(memory.exchange);
            exchange.extend(memory.rows.into_iter().map(Extent::Rows));
        }
        let last = self.last.memory()?;
        exchange.extend(last.exchange);
        Some(Memory { exchange, rows: last.rows })
    }

    fn ahead<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, frames: &[Frame<'a>]) -> Result<()> {
        // What the others read follows from time.
        self.below.first().map_or(Ok(()), |block| block.ahead(tape, &params.within(&self.prefix(0)), frames))
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
        before: &[Var],
    ) -> Result<Passed> {
        let kept = self.memory().map_or(0, |memory| memory.exchange.len());
        let mut before = handed(before, kept)?.unwrap_or_default();
        let (mut window, mut after) = (window.to_vec(), Vec::with_capacity(kept));
        for (number, block) in self.below.iter().enumerate() {
            let params = params.within(&self.prefix(number));
            let memory = block.memory().unwrap_or_default();
            let mine = next(&mut before, memory.exchange.len());
            let exchanged = block.exchange(tape, &params, &window, mine)?;
            let mine = next(&mut before, memory.rows.len());
            let passed = rows(&**block, tape, &params, &window, &exchanged, mine)?;
            window = window.iter().zip(&passed.steps).map(|(frame, &made)| frame.above(made)).collect();
            after.extend(exchanged.after);
            after.extend(passed.after);
        }
        let last =
            self.last.exchange(tape, &params.within(&self.prefix(self.below.len())), &window, before)?;
        after.extend(last.after);
        Ok(Passed { after, ..last })
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed> {
        // What the last block reads follows from the window: nobody shares it.
        let alone = Exchanged { together: None, ..exchanged };
        self.last.rows(tape, &params.within(&self.prefix(self.below.len())), alone)
    }
}
