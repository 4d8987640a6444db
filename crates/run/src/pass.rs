//! One way through a model, ready for a task: what was exchanged is on the tape, the rows are still to be worked out.

use std::ops::Range;
use std::sync::Mutex;

use kymo_model::{Bound, Exchanged, Model, Passed, loss_by_rows};
use kymo_tensor::{Shape, Tape, Var};

/// Matrices in plain memory.
pub type Matrices = Vec<Vec<f32>>;

/// A model that has done its exchange over a window.
pub struct Pass<'p, 'a> {
    /// Where everything is recorded.
    pub tape: &'p mut Tape<'a>,
    /// The model.
    pub model: &'a dyn Model,
    /// Its parameters, those of the task included.
    pub params: &'p Bound<'a>,
    /// What the rows phase starts from.
    pub exchanged: Exchanged<'p>,
    /// Where what the rows leave behind is put, if it is wanted: as many matrices as the model keeps, all rows long.
    pub after: Option<&'a Mutex<Matrices>>,
    /// Share of the embedding that is dropped, and what it follows from.
    pub dropout: (f32, u64),
}

impl<'a> Pass<'_, 'a> {
    /// The sum of a loss over the vertices, block by block. `loss` gets its rows, their embeddings at every step of the
    /// window, and the parameters called `names`.
    pub fn sum_of_rows<F>(&mut self, names: &[&str], loss: F) -> kymo_tensor::Result<Var>
    where
        F: Fn(&mut Tape<'_>, Range<usize>, &[Var], &[Var]) -> kymo_tensor::Result<Var> + Send + Sync + 'a,
    {
        let extra =
            names.iter().map(|name| self.params.get(name)).collect::<kymo_tensor::Result<Vec<_>>>()?;
        let (after, (rate, seed)) = (self.after, self.dropout);
        let body = move |tape: &mut Tape<'_>, rows: Range<usize>, passed: &Passed, extra: &[Var]| {
            if let Some(after) = after {
                keep(tape, &rows, &passed.after, after);
            }
            let first = |var: Var, tape: &Tape<'_>| (rows.start * tape.shape(var).columns) as u64;
            let mut steps = passed.steps.clone();
            for (number, step) in steps.iter_mut().enumerate() {
                let first = first(*step, tape);
                *step = tape.dropout(*step, rate, seed.wrapping_add(number as u64), first)?;
            }
            loss(tape, rows, &steps, extra)
        };
        loss_by_rows(self.tape, self.model, self.params, self.exchanged, &extra, body)
    }

    /// The embeddings of all vertices at every step of the window: for losses that are no sums over vertices.
    pub fn all_rows(&mut self) -> kymo_tensor::Result<Vec<Var>> {
        let passed = self.model.rows(self.tape, self.params, self.exchanged)?;
        if let (Some(after), Some(&last)) = (self.after, passed.steps.last()) {
            keep(self.tape, &(0..self.tape.shape(last).rows), &passed.after, after);
        }
        let (rate, seed) = self.dropout;
        let mut steps = passed.steps;
        for (number, step) in steps.iter_mut().enumerate() {
            *step = self.tape.dropout(*step, rate, seed.wrapping_add(number as u64), 0)?;
        }
        Ok(steps)
    }

    /// What `head` makes of the embeddings at the last step: `width` numbers for each of the `vertices`.
    pub fn last_rows<F>(
        &mut self,
        vertices: usize,
        width: usize,
        names: &[&str],
        head: F,
    ) -> kymo_tensor::Result<Vec<f32>>
    where
        F: Fn(&mut Tape<'_>, Var, &[Var]) -> kymo_tensor::Result<Var> + Send + Sync + 'a,
    {
        let rows_of_all = std::sync::Arc::new(Mutex::new(vec![vec![0.0; vertices * width]]));
        let written = rows_of_all.clone();
        self.sum_of_rows(names, move |tape, rows, steps, extra| {
            if let Some(&last) = steps.last() {
                let made = head(tape, last, extra)?;
                keep(tape, &rows, &[made], &written);
            }
            Ok(tape.filled(Shape::SCALAR, 0.0))
        })?;
        let mut all = rows_of_all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(all.pop().unwrap_or_default())
    }
}

/// Copies blocks of rows to their places.
fn keep(tape: &Tape<'_>, rows: &Range<usize>, vars: &[Var], all: &Mutex<Matrices>) {
    let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (matrix, &var) in all.iter_mut().zip(vars) {
        let columns = tape.shape(var).columns;
        if let Some(place) = matrix.get_mut(rows.start * columns..rows.end * columns) {
            place.copy_from_slice(tape.value(var));
        }
    }
}
