//! One forward pass, ready for a task: what the model exchanged is on the tape, the rows are still to be
//! computed. Touches the tape, the model and rows of other workers; knows no optimiser and no file.

mod loss;
mod outputs;
mod state;

use loss::OfStep;
pub use loss::{Loss, RowsLoss, take};
pub use outputs::{Outputs, Written};
pub use state::{RecurrentState, StateVars};

use std::ops::Range;
use std::sync::{Arc, Mutex};

use kymo_graph::Vertex;
use kymo_model::{Bound, Exchanged, Model, Passed, rows_by_step};
use kymo_plan::{Portion, Targets};
use kymo_tensor::ops::Places;
use kymo_tensor::{Result, Shape, Tape, Var};

use crate::halo::{self, Cells};

/// Matrices in plain memory.
pub type Matrices = Vec<Vec<f32>>;

/// A model that has done its exchange over a window.
pub struct Forward<'p, 'a> {
    /// Where everything is recorded.
    pub tape: &'p mut Tape<'a>,
    /// The model.
    pub model: &'a dyn Model,
    /// Its parameters, those of the task included.
    pub params: &'p Bound<'a>,
    /// What the rows phase starts from.
    pub exchanged: Exchanged<'p>,
    /// Where what the rows leave behind is put, if it is wanted: as many matrices as the model keeps, all
    /// rows long.
    pub after: Option<&'a Mutex<Matrices>>,
    /// Share of the embedding that is dropped, and what it follows from.
    pub dropout: (f32, u64),
    /// The cells of the window, where not all rows are here.
    pub cells: Option<(&'a Cells, &'a halo::Window)>,
    /// The vertices whose rows are here, ascending, where a batch has no others.
    pub batch: Option<&'p Arc<Vec<Vertex>>>,
    /// The vertices whose outputs count in the loss.
    pub targets: &'p Targets,
}

/// Some of the vertices that rows stand for.
#[derive(Clone, Debug)]
pub enum OwnRows {
    /// All of them, this many.
    All(usize),
    /// These, ascending.
    Some(Arc<Vec<Vertex>>),
}

impl OwnRows {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            OwnRows::All(count) => *count,
            OwnRows::Some(vertices) => vertices.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The vertex of a row.
    pub fn vertex(&self, row: usize) -> usize {
        match self {
            OwnRows::All(_) => row,
            OwnRows::Some(vertices) => vertices[row] as usize,
        }
    }

    /// Puts what was made of them where it belongs among that of all vertices.
    pub fn put(&self, rows: &[f32], all: &mut Vec<f32>, vertices: usize) {
        let width = rows.len() / self.len().max(1);
        all.resize(all.len().max(vertices * width), 0.0);
        for (row, made) in rows.chunks_exact(width.max(1)).enumerate() {
            all[self.vertex(row) * width..][..width].copy_from_slice(made);
        }
    }

    fn places(&self, rows: Range<usize>) -> Places<'_> {
        match self {
            OwnRows::All(_) => Places::From(rows.start),
            OwnRows::Some(vertices) => Places::Rows(&vertices[rows]),
        }
    }
}

impl<'p, 'a> Forward<'p, 'a> {
    /// The vertices whose rows are here at a place of the window.
    pub fn own(&self, place: usize) -> OwnRows {
        match (self.cells, self.batch) {
            (Some((_, window)), _) => OwnRows::Some(window.own[place].clone()),
            (None, Some(vertices)) => OwnRows::Some(vertices.clone()),
            (None, None) => {
                OwnRows::All(self.exchanged.steps.first().map_or(0, |&step| self.tape.shape(step).rows))
            }
        }
    }

    /// The vertices whose outputs count in the loss, ascending, where they are not all.
    pub fn some_targets(&self) -> Option<&'p [Vertex]> {
        match self.targets {
            // Of a part that was drawn, no other rows are here.
            Targets::All | Targets::Own | Targets::Drawn(_) | Targets::Portion(_) => None,
            Targets::Some(vertices) => Some(vertices),
        }
    }

    /// Among how many batches the vertices of a window are divided: each counts its own in a mean of all, as
    /// many times as there are batches, so that their mean is that of all. Owners add up what they have of a
    /// batch.
    pub fn parts(&self) -> usize {
        match self.targets {
            Targets::Drawn(drawn) | Targets::Portion(Portion { drawn, .. }) => drawn.parts,
            _ => 1,
        }
    }

    /// Whether the output of a vertex counts in the loss.
    pub fn counts(&self, vertex: Vertex) -> bool {
        self.some_targets().is_none_or(|targets| targets.binary_search(&vertex).is_ok())
    }

    /// A loss that is a sum over the vertices here, at some places of the window. `loss` gets the number of
    /// the place among those asked for, its rows, their embeddings, and the parameters called `names`. It is
    /// taken block by block, together with those of other windows where there are some.
    pub fn loss_of_rows<F>(
        &mut self,
        names: &'static [&'static str],
        places: &[usize],
        loss: F,
    ) -> Result<Loss<'a>>
    where
        F: Fn(&mut Tape<'_>, usize, Range<usize>, Var, &[Var]) -> Result<Var> + Send + Sync + 'a,
    {
        let (rate, seed) = self.dropout;
        let own: Vec<OwnRows> = places.iter().map(|&place| self.own(place)).collect();
        let all = places.to_vec();
        let of_step =
            move |tape: &mut Tape<'_>, number: usize, rows: Range<usize>, step: Var, extra: &[Var]| {
                tape.leave_steps();
                let seed = seed.wrapping_add(all[number] as u64);
                let step = tape.dropout(step, rate, seed, own[number].places(rows.clone()))?;
                loss(tape, number, rows, step, extra)
            };
        let of_step: Arc<OfStep<'a>> = Arc::new(of_step);
        if !self.is_chained() {
            let after = self.after;
            return Ok(Loss::OfRows(RowsLoss { names, places: places.to_vec(), of_step, after }));
        }
        let extra = names.iter().map(|name| self.params.get(name)).collect::<Result<Vec<_>>>()?;
        let steps = self.chain()?;
        let mut sums = Vec::with_capacity(places.len());
        for (number, &place) in places.iter().enumerate() {
            let of_step = of_step.clone();
            let rows = self.tape.shape(steps[place]).rows;
            let body = move |tape: &mut Tape<'_>, rows: Range<usize>, by_row: &[Var], extra: &[Var]| {
                of_step(tape, number, rows, by_row[0], extra)
            };
            sums.push(self.tape.sum_by_rows(rows, &steps[place..place + 1], &extra, body)?);
        }
        Ok(Loss::Taken(self.tape.add_all(&sums)?))
    }

    /// Takes the loss of this window by itself.
    pub fn take(&mut self, loss: Loss<'a>) -> Result<Var> {
        take(self.tape, self.model, self.params, vec![(self.exchanged, loss)])
    }

    /// The embeddings of all vertices here at every step of the window: for losses that are no sums over
    /// vertices.
    pub fn all_rows(&mut self) -> Result<Vec<Var>> {
        let mut steps = match self.is_chained() {
            true => self.chain()?,
            false => {
                let passed = self.model.rows(self.tape, self.params, self.exchanged)?;
                self.leave(&passed)?;
                passed.steps
            }
        };
        self.tape.leave_steps();
        let (rate, seed) = self.dropout;
        for (number, step) in steps.iter_mut().enumerate() {
            let own = self.own(number);
            let places = own.places(0..own.len());
            *step = self.tape.dropout(*step, rate, seed.wrapping_add(number as u64), places)?;
        }
        Ok(steps)
    }

    fn is_chained(&self) -> bool {
        self.cells.is_some_and(|(_, window)| window.moves)
    }

    /// The embeddings where vertices move from step to step: one step after the other, the state with its
    /// vertex.
    fn chain(&mut self) -> Result<Vec<Var>> {
        let Some((_, window)) = self.cells else { return Ok(Vec::new()) };
        let hand = |tape: &mut Tape<'a>, t: usize, state: Var| window.steps[t].hand(tape, state);
        let passed = rows_by_step(self.tape, self.model, self.params, self.exchanged, hand)?;
        self.leave(&passed)?;
        Ok(passed.steps)
    }

    /// Keeps what whole rows leave behind.
    fn leave(&self, passed: &Passed) -> Result<()> {
        match (self.after, passed.steps.last()) {
            (Some(after), Some(&last)) => {
                keep(self.tape, &(0..self.tape.shape(last).rows), &passed.after, after)
            }
            _ => Ok(()),
        }
    }

    /// What `head` makes of the embeddings at the last step: `width` numbers for each vertex here.
    pub fn last_rows<F>(
        &mut self,
        width: usize,
        names: &'static [&'static str],
        head: F,
    ) -> Result<Outputs<'a>>
    where
        F: Fn(&mut Tape<'_>, Var, &[Var]) -> Result<Var> + Send + Sync + 'a,
    {
        let last = self.exchanged.steps.len().saturating_sub(1);
        let written = Written::new(self.own(last).len() * width);
        let all = written.clone();
        let loss = self.loss_of_rows(names, &[last], move |tape, _, rows, step, extra| {
            let made = head(tape, step, extra)?;
            all.keep(tape, &rows, made)?;
            Ok(tape.filled(Shape::SCALAR, 0.0))
        })?;
        Ok(Outputs { loss, written })
    }
}

/// Copies blocks of rows to their places.
fn keep(tape: &Tape<'_>, rows: &Range<usize>, vars: &[Var], all: &Mutex<Matrices>) -> Result<()> {
    let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (matrix, &var) in all.iter_mut().zip(vars) {
        let columns = tape.shape(var).columns;
        if let Some(place) = matrix.get_mut(rows.start * columns..rows.end * columns) {
            place.copy_from_slice(&tape.read(var)?);
        }
    }
    Ok(())
}
