//! Dynamic graph neural networks: structure encoders, time encoders, and the ways to weave them into models.
//!
//! A model never names a worker and never owns its parameters: the caller does, who averages, splits and
//! saves them. What a model computes falls into two phases. In the *exchange* vertices look at each other
//! (aggregation, attention over neighbours); in the *rows* phase every vertex is by itself (products with
//! weights, cells over time). The second can be run for a block of vertices at a time, from the aggregation
//! to the loss and back, which is what makes it fast.

pub mod frame;
pub mod graph;
pub mod halo;
pub mod memory;
pub mod metric;
pub mod params;
pub mod reuse;
pub mod structure;
pub mod time;
pub mod together;
pub mod weave;
pub mod zoo;

pub use frame::{Frame, Matrix, Reuse};
pub use graph::{Asked, Graph, Normalisation, PartEdges, Rows};
pub use halo::{Halo, HaloView};
pub use kymo_tensor::{Error, Result};
pub use memory::{Extent, Memory, Passed};
pub use params::{Bound, Params, Slot};
pub use reuse::{Budget, Input, Kept, Nearby, ReuseSlots, SlotKey, Version};
pub use together::{Common, Increments, Together, Update};
pub use zoo::{Config, Recipe};

use std::ops::Range;

use kymo_tensor::{Tape, Var};

/// A network over a window of snapshots.
pub trait Model: Send + Sync {
    /// Its parameters.
    fn slots(&self) -> Vec<Slot>;

    /// Columns of its outputs.
    fn width(&self) -> usize;

    /// Whether vertices look along their edges in both directions, and not only at those whose edges come in.
    fn uses_out_edges(&self) -> bool {
        false
    }

    /// Along how many edges a vertex sees others within a window, at most; `None` where that grows with the
    /// steps of the window, or everything is seen.
    fn hops(&self) -> Option<usize> {
        None
    }

    /// What it hands from one window to the next; `None` where it can only see a window at a time.
    fn memory(&self) -> Option<Memory>;

    /// What is made of all snapshots of a tape at once, before the windows that they are in: their exchange
    /// finds it there.
    fn ahead<'a>(&self, _: &mut Tape<'a>, _: &Bound<'_>, _: &[Frame<'a>]) -> Result<()> {
        Ok(())
    }

    /// The phase in which vertices look at each other: for every snapshot the matrices that the rows phase
    /// starts from.
    ///
    /// `before` is what [`Memory::exchange`] lists, as the window before left it, or nothing at the
    /// beginning.
    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
        before: &[Var],
    ) -> Result<Passed>;

    /// The phase in which every vertex is by itself: for every snapshot the embedding of the given rows.
    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed>;

    /// Both phases from the beginning: for every snapshot the embedding of all vertices.
    fn forward<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, window: &[Frame<'a>]) -> Result<Vec<Var>> {
        let exchanged = self.exchange(tape, params, window, &[])?;
        Ok(self.rows(tape, params, Exchanged::first(&exchanged))?.steps)
    }
}

/// What the rows phase starts from.
#[derive(Clone, Copy)]
pub struct Exchanged<'v> {
    /// What the exchange gave for every snapshot, or some rows of it.
    pub steps: &'v [Var],
    /// What it gave besides, whole.
    pub shared: &'v [Var],
    /// What [`Memory::rows`] lists, or nothing at the beginning.
    pub before: &'v [Var],
    /// What it shares with other windows, where several are run together.
    pub together: Option<&'v Together>,
    /// Whether nobody reads what comes of the steps before the last one: it may be left out, then.
    pub only_last: bool,
}

impl<'v> Exchanged<'v> {
    /// What was exchanged in a window that follows another, which left `before`.
    pub fn after(exchanged: &'v Passed, before: &'v [Var]) -> Self {
        Exchanged {
            steps: &exchanged.steps,
            shared: &exchanged.shared,
            before,
            together: None,
            only_last: false,
        }
    }

    /// What was exchanged in the first window.
    pub fn first(exchanged: &'v Passed) -> Self {
        Exchanged::after(exchanged, &[])
    }
}

/// The rows phase one step after the other: `hand` takes a state that the step before left to where its
/// vertices are at a step, which is told by its number.
pub fn rows_by_step<'a>(
    tape: &mut Tape<'a>,
    model: &dyn Model,
    params: &Bound<'_>,
    exchanged: Exchanged<'_>,
    mut hand: impl FnMut(&mut Tape<'a>, usize, Var) -> Result<Var>,
) -> Result<Passed> {
    let Exchanged { steps, shared, before, .. } = exchanged;
    let mut passed = Passed { after: before.to_vec(), ..Passed::default() };
    for (t, &step) in steps.iter().enumerate() {
        let before = passed.after.iter().map(|&state| hand(tape, t, state)).collect::<Result<Vec<Var>>>()?;
        let shared = if shared.len() == steps.len() { &shared[t..t + 1] } else { shared };
        let next = Exchanged { steps: &[step], shared, before: &before, ..exchanged };
        let next = model.rows(tape, params, next)?;
        passed.steps.extend(next.steps);
        passed.after = next.after;
    }
    Ok(passed)
}

/// The sum of a loss over the vertices, with the rows phase and the loss run block by block: of one window,
/// or of several that are run together and share what they have in common.
///
/// `extra` are shared matrices the loss needs besides (a head's weights); `loss` gets the rows it is asked
/// about, the embeddings of those rows for every snapshot of every window with what they leave behind, and
/// the extra matrices, and gives the sum over the rows.
pub fn loss_by_rows<'a, F>(
    tape: &mut Tape<'a>,
    model: &'a dyn Model,
    params: &Bound<'a>,
    windows: &[Exchanged<'_>],
    extra: &[Var],
    loss: F,
) -> Result<Var>
where
    F: Fn(&mut Tape<'_>, Range<usize>, &[Passed], &[Var]) -> Result<Var> + Send + Sync + 'a,
{
    let vertices = windows.iter().find_map(|window| window.steps.first());
    let vertices = vertices.map_or(0, |&step| tape.shape(step).rows);
    // Each matrix once, however many windows it is in.
    let (mut by_row, mut whole) = (Vec::new(), Vec::new());
    let places: Vec<([Vec<usize>; 3], bool)> = windows
        .iter()
        .map(|window| {
            let place = |all: &mut Vec<Var>, vars: &[Var]| -> Vec<usize> {
                vars.iter().map(|&var| place_of(all, var)).collect()
            };
            let steps = place(&mut by_row, window.steps);
            let (before, shared) = (place(&mut by_row, window.before), place(&mut whole, window.shared));
            ([steps, before, shared], window.only_last)
        })
        .collect();
    let all = [params.vars(), &whole, extra].concat();
    let (params, count, whole) = (params.clone(), params.vars().len(), whole.len());
    tape.sum_by_rows(vertices, &by_row, &all, move |tape, rows, by_row, all| {
        let (vars, rest) = all.split_at(count);
        let (whole, extra) = rest.split_at(whole);
        let params = params.renewed(vars.to_vec());
        let together = Together::default();
        let together = (places.len() > 1).then_some(&together);
        let mut passed = Vec::with_capacity(places.len());
        for ([steps, before, shared], only_last) in &places {
            let at = |vars: &[Var], places: &[usize]| -> Vec<Var> {
                places.iter().map(|&place| vars[place]).collect()
            };
            let (steps, before, shared) = (at(by_row, steps), at(by_row, before), at(whole, shared));
            let only_last = *only_last;
            let exchanged =
                Exchanged { steps: &steps, shared: &shared, before: &before, together, only_last };
            passed.push(model.rows(tape, &params, exchanged)?);
        }
        loss(tape, rows, &passed, extra)
    })
}

/// The place of a matrix among others, where it is put if it is not there.
fn place_of(all: &mut Vec<Var>, var: Var) -> usize {
    all.iter().position(|&other| other == var).unwrap_or_else(|| {
        all.push(var);
        all.len() - 1
    })
}
