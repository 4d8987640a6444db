//! A snapshot of a window, and what is kept of it from window to window.
//!
//! The features of a snapshot do not change while a model is trained, so neither does what a first layer hears: `A_t X` is
//! computed once and kept as long as a budget of memory allows, across windows and epochs (the type I and type II reuse of
//! REAL are two uses of this). Kept or computed, the bits are the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use kymo_tensor::{Numbers, Of, Result, Shape, Tape, Var};

use crate::around::Around;
use crate::graph::{Graph, Normalisation, Weighted};

/// A matrix of a snapshot that rows are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// That of graph convolution.
    Normalised(Normalisation),
    /// The mean over in-neighbours.
    Mean,
    /// The random walk along the edges.
    Along,
    /// The random walk against the edges.
    Against,
}

impl Matrix {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// Its number among all.
    pub fn number(self) -> usize {
        match self {
            Matrix::Normalised(kind) => kind as usize,
            Matrix::Mean => 3,
            Matrix::Along => 4,
            Matrix::Against => 5,
        }
    }

    /// The matrix in this graph.
    pub fn of(self, graph: &Graph) -> Result<Weighted> {
        match self {
            Matrix::Normalised(kind) => graph.normalised(kind),
            Matrix::Mean => graph.mean(),
            Matrix::Along => graph.diffusion().map(|[along, _]| along),
            Matrix::Against => graph.diffusion().map(|[_, against]| against),
        }
    }
}

/// Bytes that may still be kept.
#[derive(Debug, Default)]
pub struct Budget(AtomicUsize);

impl Budget {
    /// So many bytes.
    pub fn new(bytes: usize) -> Arc<Budget> {
        Arc::new(Budget(AtomicUsize::new(bytes)))
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes so many bytes, if there are.
    pub fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Gives them back.
    pub fn give(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What is kept of one snapshot: its features multiplied by its matrices.
pub struct Kept {
    products: [OnceLock<Numbers>; Matrix::COUNT],
    budget: Arc<Budget>,
}

impl Kept {
    /// Nothing yet; what is kept is taken from this budget, and given back in the end.
    pub fn new(budget: Arc<Budget>) -> Kept {
        Kept { products: Default::default(), budget }
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.products.iter().filter_map(OnceLock::get).map(|values| 4 * values.len()).sum()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.give(self.bytes());
    }
}

/// A snapshot of a window: its edges, and the features of its vertices on the tape.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The edges.
    pub graph: &'a Graph,
    /// The features: a row for each vertex.
    pub features: Var,
    /// Where products of the features are kept; the features must be those it was first used with.
    pub kept: Option<&'a Kept>,
    /// What lies elsewhere, where the rows are not all there are.
    pub around: Option<Around<'a>>,
}

impl<'a> Frame<'a> {
    /// A snapshot of which nothing is kept.
    pub fn new(graph: &'a Graph, features: Var) -> Frame<'a> {
        Frame { graph, features, kept: None, around: None }
    }

    /// `x` multiplied by a matrix of the snapshot.
    pub fn product(&self, tape: &mut Tape<'a>, matrix: Matrix, x: Var) -> Result<Var> {
        let kept = self.kept.filter(|_| x == self.features && !tape.wants_gradient(x));
        let slot = kept.map(|kept| &kept.products[matrix.number()]);
        if let Some(values) = slot.and_then(OnceLock::get) {
            let shape = Shape::new(self.graph.vertices(), tape.shape(x).columns);
            return tape.kept(shape, values);
        }
        let product = match self.around {
            Some(around) if x != self.features => return around.beyond.product(tape, self.graph, matrix, x),
            Some(around) => matrix.of(self.graph)?.times(tape, around.features)?,
            None => matrix.of(self.graph)?.times(tape, x)?,
        };
        if let (Some(kept), Some(slot)) = (kept, slot) {
            let bytes = 4 * tape.shape(product).len();
            // A second thread may have been faster: then its values, which are the same, stay.
            if kept.budget.take(bytes) && slot.set(tape.copy_of(product)?).is_err() {
                kept.budget.give(bytes);
            }
        }
        Ok(product)
    }

    /// The rows of `x`, and below them those of neighbours elsewhere: as many as the graph has columns.
    pub fn extend(&self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        match self.around {
            None => Ok(x),
            Some(around) if x == self.features => Ok(around.features),
            Some(around) => around.beyond.extend(tape, x),
        }
    }

    /// Rows that a layer made of `x` by itself, and below them those of neighbours elsewhere. What is made of features is made
    /// of theirs, too, which costs less than asking for it.
    pub fn extend_layer(
        &self,
        tape: &mut Tape<'a>,
        x: Var,
        layer: impl Fn(&mut Tape<'a>, Var) -> Result<Var>,
    ) -> Result<Own> {
        match self.around {
            Some(around) if x == self.features => {
                let all = layer(tape, around.features)?;
                Ok(Own { own: tape.slice_rows(all, 0..self.graph.vertices())?, all })
            }
            _ => {
                let own = layer(tape, x)?;
                Ok(Own { own, all: self.extend(tape, own)? })
            }
        }
    }

    /// A state after the step before, with the rows of this step.
    pub fn carry(&self, tape: &mut Tape<'a>, state: Var) -> Result<Var> {
        self.around.map_or(Ok(state), |around| around.beyond.carry(tape, state))
    }

    /// The `count` rows of all vertices that score highest, as columns.
    pub fn summary(&self, tape: &mut Tape<'a>, x: Var, score: Var, count: usize) -> Result<Var> {
        let Some(around) = self.around else { return tape.summary(x, score, count) };
        // The highest of all are among the highest of each worker.
        let rows = tape.highest(x, score, count)?;
        let all = around.beyond.collect(tape, x, &rows, count)?;
        tape.summary(all, score, count)
    }
}

/// Goes through the snapshots of a window, from the first to the last, and gives what comes of each.
///
/// This is where a snapshot begins: what is recorded meanwhile is for that snapshot, where time is counted.
pub fn each<'a, T>(
    tape: &mut Tape<'a>,
    window: &[Frame<'a>],
    mut act: impl FnMut(&mut Tape<'a>, usize, &Frame<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let numbered = window.iter().enumerate();
    numbered.map(|(number, frame)| tape.during(Of::Step(number), |tape| act(tape, number, frame))).collect()
}

/// What a layer made of the rows here, and of those here and of neighbours elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Of those here.
    pub own: Var,
    /// Of both.
    pub all: Var,
}

#[cfg(test)]
mod tests {
    use kymo_tensor::Arena;

    use super::*;

    #[test]
    fn products_of_features_are_kept_within_the_budget() {
        let graph = Graph::from_edges(3, &[(0, 1, 1.0), (2, 1, 3.0)]).unwrap();
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let arena = Arena::new();
        let budget = Budget::new(30);
        let kept = Kept::new(budget.clone());
        let mean = Matrix::Mean;
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut tape = Tape::new(&arena);
            let features = tape.constant(Shape::new(3, 2), &values).unwrap();
            let frame = Frame { kept: Some(&kept), ..Frame::new(&graph, features) };
            let product = frame.product(&mut tape, mean, features).unwrap();
            seen.push(tape.value(product).to_vec());
            // A second product does not fit any more.
            frame.product(&mut tape, Matrix::Along, features).unwrap();
            // Other rows than the features are never kept.
            let other = tape.scale(features, 2.0).unwrap();
            let other = frame.product(&mut tape, mean, other).unwrap();
            assert_eq!(tape.value(other), [0.0, 0.0, 6.0, 8.0, 0.0, 0.0]);
            assert_eq!((kept.bytes(), budget.left()), (24, 6));
        }
        assert_eq!(seen, vec![vec![0.0, 0.0, 3.0, 4.0, 0.0, 0.0]; 3]);
        drop(kept);
        assert_eq!(budget.left(), 30);
    }

    #[test]
    fn features_that_are_learnt_are_not_kept() {
        let graph = Graph::from_edges(2, &[(0, 1, 1.0)]).unwrap();
        let (arena, budget) = (Arena::new(), Budget::new(1000));
        let kept = Kept::new(budget.clone());
        let mut tape = Tape::new(&arena);
        let features = tape.parameter(Shape::new(2, 1), &[1.0, 2.0]).unwrap();
        let frame = Frame { kept: Some(&kept), ..Frame::new(&graph, features) };
        frame.product(&mut tape, Matrix::Mean, features).unwrap();
        assert_eq!(budget.left(), 1000);
    }
}
