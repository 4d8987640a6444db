//! What lies around the rows that a worker has: neighbours elsewhere, and states that come from elsewhere.
//!
//! A model never names a worker. Where it is run over a part of the vertices, each frame comes with a
//! [`HaloView`], through which rows of other workers arrive; their gradients go back the same way.

use kymo_tensor::{Result, Tape, Var};

use crate::frame::Matrix;
use crate::graph::Graph;

/// The way to the rows of others, at one step.
pub trait Halo: Send + Sync {
    /// `A x` for the rows of `graph`, where `x` has the rows that are here; those of neighbours elsewhere are
    /// fetched while the product with those that are here is computed.
    fn product<'a>(&'a self, tape: &mut Tape<'a>, graph: &'a Graph, matrix: Matrix, x: Var) -> Result<Var>;

    /// The rows that are here, then those of neighbours elsewhere, as the columns of the graph have them.
    fn extend<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var>;

    /// A state after the step before, from where its vertices were to where they are now.
    fn carry<'a>(&'a self, tape: &mut Tape<'a>, state: Var) -> Result<Var>;

    /// Some of the rows of every worker, at most `count` of each, in the order of their vertices: `rows` are
    /// those of this one, by their number among the rows that are here.
    fn collect<'a>(&'a self, tape: &mut Tape<'a>, x: Var, rows: &[u32], count: usize) -> Result<Var>;

    /// What structure made of the vertices, from where it is encoded to where rows are computed.
    fn shuffle<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var>;

    /// A state that rows left at the step before, from where its vertices were computed then to where they
    /// are computed now.
    fn hand<'a>(&'a self, tape: &mut Tape<'a>, state: Var) -> Result<Var>;

    /// What rows made of the vertices, from where they are computed back to where structure is encoded.
    fn restore<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var>;
}

/// What lies around the rows of a frame.
#[derive(Clone, Copy)]
pub struct HaloView<'a> {
    /// The features of the vertices here and of their neighbours elsewhere, where they are known without
    /// asking: what another model made of them is not.
    pub features: Option<Var>,
    /// The way to everything else.
    pub halo: &'a dyn Halo,
}
