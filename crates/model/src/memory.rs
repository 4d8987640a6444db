//! What a model hands from one window to the next, so that a long sequence can be worked through in pieces.

use kymo_tensor::{Error, Result, Shape, Tape, Var};

/// How large a matrix is that a model keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A row of this many columns for each vertex.
    Vertices(usize),
    /// The same, but of the rows phase of a block below others: where windows are shared, its rows may be
    /// elsewhere than those of structure.
    Rows(usize),
    /// One matrix for all.
    Matrix(Shape),
}

impl Extent {
    /// Its shape in a graph of this many vertices.
    pub fn shape(self, vertices: usize) -> Shape {
        match self {
            Extent::Vertices(columns) | Extent::Rows(columns) => Shape::new(vertices, columns),
            Extent::Matrix(shape) => shape,
        }
    }
}

/// What a model keeps, phase by phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the exchange needs.
    pub exchange: Vec<Extent>,
    /// Columns of the matrices that the rows phase needs; each has a row for each vertex.
    pub rows: Vec<usize>,
}

/// What a phase gives: a matrix for every step, and what the next window begins with.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// One for every step, or for the last ones alone where nobody reads the others.
    pub steps: Vec<Var>,
    /// Matrices that the rows phase sees whole, whichever rows it is asked about.
    pub shared: Vec<Var>,
    /// What it leaves behind, as its [`Memory`] lists it.
    pub after: Vec<Var>,
}

/// What was handed over: nothing at the beginning, otherwise one matrix for each that is kept.
pub(crate) fn handed(before: &[Var], kept: usize) -> Result<Option<&[Var]>> {
    match before.len() {
        0 => Ok(None),
        length if length == kept => Ok(Some(before)),
        length => {
            Err(Error::settings("memory", format!("{length} matrices were handed over, expected {kept}")))
        }
    }
}

/// The last matrices of all that are known, those of a window included: what a function of the last steps
/// hands over. Before the first there are zeros.
pub(crate) fn recent(tape: &mut Tape<'_>, known: &[Var], window: &[Var], count: usize) -> Result<Vec<Var>> {
    let (_, shape) = last(tape, window)?;
    let missing = count.saturating_sub(known.len());
    let mut after: Vec<Var> = (0..missing).map(|_| tape.filled(shape, 0.0)).collect();
    after.extend(&known[known.len() - (count - missing)..]);
    Ok(after)
}

/// Fails unless there is at least one step: a window without any has nothing to leave behind.
pub(crate) fn last(tape: &Tape<'_>, steps: &[Var]) -> Result<(Var, Shape)> {
    let last = steps.last().copied();
    let last = last.ok_or_else(|| Error::settings("window", "it is empty, expected at least one step"))?;
    Ok((last, tape.shape(last)))
}
