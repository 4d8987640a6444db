//! Structure encoders: how a vertex aggregates its neighbours within one snapshot.

mod gat;
mod gcn;
mod mpnn;
mod polynomial;
mod sage;

pub use gat::Gat;
pub use gcn::{Gcn, aggregates_first};
pub use mpnn::Mpnn;
pub use polynomial::Polynomial;
pub use sage::{Gather, Sage};

use kymo_tensor::{Result, Tape, Var};

use crate::frame::Frame;
use crate::params::{Bound, Slot};

/// What a layer does to its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// The positive part.
    Relu,
    /// The exponential linear unit.
    Elu,
}

impl Activation {
    /// Applies it to `x w + b`.
    pub fn of_linear(self, tape: &mut Tape<'_>, x: Var, w: Var, b: Var) -> Result<Var> {
        if self == Activation::Relu {
            return tape.linear_relu(x, w, b);
        }
        let x = tape.linear(x, w, b)?;
        self.apply(tape, x)
    }

    /// Applies it.
    pub fn apply(self, tape: &mut Tape<'_>, x: Var) -> Result<Var> {
        match self {
            Activation::None => Ok(x),
            Activation::Relu => tape.relu(x),
            Activation::Elu => tape.elu(x),
        }
    }
}

/// An encoder of one snapshot, in two phases.
pub trait Structure: Send + Sync {
    /// Its parameters.
    fn slots(&self) -> Vec<Slot>;

    /// Columns of its output.
    fn width(&self) -> usize;

    /// Along how many edges a vertex sees others.
    fn hops(&self) -> usize {
        1
    }

    /// What is made of several snapshots at once, before they are gone through one by one: it is put where
    /// [`Frame::once`] finds it.
    fn ahead<'a>(&self, _: &mut Tape<'a>, _: &Bound<'_>, _: &[Frame<'a>]) -> Result<()> {
        Ok(())
    }

    /// The phase in which vertices look at each other.
    ///
    /// `x` are the features of the frame, or what the layer before made of them.
    fn exchange<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, frame: &Frame<'a>, x: Var)
    -> Result<Var>;

    /// The phase in which every vertex is by itself.
    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Var) -> Result<Var>;
}

/// Layers one after the other; the rows phase of the last one is that of the whole.
pub struct Layers(pub Vec<Box<dyn Structure>>);

impl Structure for Layers {
    fn slots(&self) -> Vec<Slot> {
        self.0.iter().flat_map(|layer| layer.slots()).collect()
    }

    fn width(&self) -> usize {
        self.0.last().map_or(0, |layer| layer.width())
    }

    fn hops(&self) -> usize {
        self.0.iter().map(|layer| layer.hops()).sum()
    }

    fn ahead<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, frames: &[Frame<'a>]) -> Result<()> {
        // The first layer alone reads rows that several snapshots have.
        self.0.first().map_or(Ok(()), |layer| layer.ahead(tape, params, frames))
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        frame: &Frame<'a>,
        mut x: Var,
    ) -> Result<Var> {
        for (number, layer) in self.0.iter().enumerate() {
            x = layer.exchange(tape, params, frame, x)?;
            if number + 1 < self.0.len() {
                x = layer.rows(tape, params, x)?;
            }
        }
        Ok(x)
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Var) -> Result<Var> {
        self.0.last().map_or(Ok(exchanged), |layer| layer.rows(tape, params, exchanged))
    }
}
