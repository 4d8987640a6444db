//! Dynamic graph neural networks: structure encoders, time encoders, and the ways to weave them into models.
//!
//! A model never names a worker and never owns its parameters: the caller does, who averages, splits and saves them. What a
//! model computes falls into two phases. In the *exchange* vertices look at each other (aggregation, attention over
//! neighbours); in the *rows* phase every vertex is by itself (products with weights, cells over time). The second can be
//! run for a block of vertices at a time, from the aggregation to the loss and back, which is what makes it fast.

pub mod graph;
pub mod metric;
pub mod params;
pub mod structure;
pub mod time;
pub mod weave;
pub mod zoo;

pub use graph::{Frame, Graph, Normalisation};
pub use kymo_tensor::{Error, Result};
pub use params::{Bound, Params, Slot};
pub use zoo::{Config, Recipe};

use kymo_tensor::{Tape, Var};

/// A network over a window of snapshots.
pub trait Model: Send + Sync {
    /// Its parameters.
    fn slots(&self) -> Vec<Slot>;

    /// Columns of its outputs.
    fn width(&self) -> usize;

    /// The phase in which vertices look at each other: for every snapshot the matrices that the rows phase starts from.
    fn exchange<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, window: &[Frame<'a>])
    -> Result<Vec<Var>>;

    /// The phase in which every vertex is by itself: for every snapshot the embedding of the given rows.
    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: &[Var]) -> Result<Vec<Var>>;

    /// Both phases: for every snapshot the embedding of all vertices.
    fn forward<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, window: &[Frame<'a>]) -> Result<Vec<Var>> {
        let exchanged = self.exchange(tape, params, window)?;
        self.rows(tape, params, &exchanged)
    }
}

/// The sum of a loss over the vertices, with the rows phase and the loss run block by block.
///
/// `extra` are shared matrices the loss needs besides (a head's weights); `loss` gets the rows it is asked about, the
/// embeddings of those rows for every snapshot, and the extra matrices, and gives the sum over the rows.
pub fn loss_by_rows<'a, F>(
    tape: &mut Tape<'a>,
    model: &'a dyn Model,
    params: &Bound<'a>,
    window: &[Frame<'a>],
    extra: &[Var],
    loss: F,
) -> Result<Var>
where
    F: Fn(&mut Tape<'_>, std::ops::Range<usize>, &[Var], &[Var]) -> Result<Var> + Send + Sync + 'a,
{
    let vertices = window.first().map_or(0, |frame| frame.graph.vertices());
    let exchanged = model.exchange(tape, params, window)?;
    let shared = [params.vars(), extra].concat();
    let (names, count) = (params.names(), params.vars().len());
    tape.sum_by_rows(vertices, &exchanged, &shared, move |tape, rows, exchanged, shared| {
        let (vars, extra) = shared.split_at(count);
        let outputs = model.rows(tape, &Bound::new(names, vars.to_vec()), exchanged)?;
        loss(tape, rows, &outputs, extra)
    })
}
