//! A snapshot of a window as a model sees it.

use kymo_tensor::{Change, Changed, Of, Result, Shape, Tape, Var};

use crate::graph::{Graph, Normalisation, Weighted};
use crate::halo::HaloView;
use crate::reuse::{Input, Kept, ReuseSlots, SlotKey, Version};
use crate::together::{Common, Update, once};

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

/// A snapshot of a window: its edges, and the features of its vertices on the tape.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The edges.
    pub graph: &'a Graph,
    /// The features: a row for each vertex.
    pub features: Var,
    /// Where products are kept; the features must be those it was first used with.
    pub reuse: Option<Reuse<'a>>,
    /// What lies elsewhere, where the rows are not all there are.
    pub halo: Option<HaloView<'a>>,
    /// What windows share of it that are run together, where several are.
    pub common: Option<Common<'a>>,
    /// The snapshot before it on the tape, where products may be made out of those with that one.
    pub before: Option<&'a Graph>,
}

/// Where products of a snapshot are kept.
#[derive(Clone, Copy)]
pub struct Reuse<'a> {
    /// The slots of the snapshot.
    pub slots: &'a ReuseSlots,
    /// Steps of the optimiser so far, where products that follow from the parameters are kept, too.
    pub parameters: Option<u64>,
}

impl<'a> Frame<'a> {
    /// A snapshot of which nothing is kept.
    pub fn new(graph: &'a Graph, features: Var) -> Frame<'a> {
        Frame { graph, features, reuse: None, halo: None, common: None, before: None }
    }

    /// The same snapshot as a block above another sees it, which made these rows of it: they change with the
    /// parameters, so nothing of them is kept, and those of neighbours elsewhere have to be asked for.
    pub fn above(&self, features: Var) -> Frame<'a> {
        let halo = self.halo.map(|view| HaloView { features: None, ..view });
        // Time has come in: no other window has these rows.
        Frame { features, reuse: None, halo, common: None, before: None, ..*self }
    }

    /// `x` with the rows of neighbours elsewhere, where it is the features and they are known.
    fn known(&self, x: Var) -> Option<Var> {
        self.halo.and_then(|view| view.features).filter(|_| x == self.features)
    }

    /// The slot of a product that may be kept: nothing that a gradient flows through is.
    fn slot(
        &self,
        tape: &Tape<'a>,
        input: Input,
        matrix: Matrix,
        x: Var,
    ) -> Option<(&'a ReuseSlots, SlotKey)> {
        let reuse = self.reuse.filter(|_| !tape.wants_gradient(x))?;
        let version = |count: u64| Version::Parameters(count);
        let (layer, version) = match input {
            _ if x == self.features => (0, Version::Constant),
            Input::Layer(layer) => (layer, version(reuse.parameters?)),
            Input::State => return None,
        };
        Some((reuse.slots, SlotKey::new(layer, matrix, version)))
    }

    /// What a part of a model makes of `x`, which follows from the snapshot alone: once, however many windows
    /// that are run together have it.
    pub fn once(
        &self,
        part: (&'static str, usize),
        x: Var,
        make: impl FnOnce() -> Result<Var>,
    ) -> Result<Var> {
        match self.common {
            Some(common) => common.once(part, x, make),
            None => make(),
        }
    }

    /// What a part of a model makes of every row of `x` by itself: once, however many snapshots have these
    /// rows.
    pub fn once_of_rows(
        &self,
        part: (&'static str, usize),
        x: Var,
        make: impl FnOnce() -> Result<Var>,
    ) -> Result<Var> {
        once(self.common.map(|common| common.together), part, x, make)
    }

    /// `x` multiplied by a matrix of the snapshot; `input` says what `x` is.
    pub fn product(&self, tape: &mut Tape<'a>, input: Input, matrix: Matrix, x: Var) -> Result<Var> {
        self.once(Frame::part(matrix), x, || self.product_alone(tape, input, matrix, x))
    }

    /// What a product is called among what is made of a snapshot.
    fn part(matrix: Matrix) -> (&'static str, usize) {
        ("product", matrix.number())
    }

    /// A product that is made out of that with the snapshot before (REAL, section 4.1), where there is one
    /// with the same rows and few entries changed.
    fn increment(&self, tape: &mut Tape<'a>, matrix: Matrix, now: &Weighted, x: Var) -> Result<Option<Var>> {
        let (Some(before), Some(common)) = (self.before.filter(|_| tape.is_on_host()), self.common) else {
            return Ok(None);
        };
        let Some(earlier) = common.earlier(Frame::part(matrix), x) else { return Ok(None) };
        let old = matrix.of(before)?;
        let (old, new) = ((&old.pattern, &*old.values), (&now.pattern, &*now.values));
        let made = match common.update() {
            Update::Entries(costs) => match Change::between(old, new, costs)? {
                Some(change) => tape.increment(change, x, earlier)?,
                None => return Ok(None),
            },
            Update::Rows => match Changed::between(old, new) {
                Some(changed) => {
                    tape.refresh((now.pattern.clone(), now.values.clone()), changed, x, earlier)?
                }
                None => return Ok(None),
            },
        };
        common.count_increment(matrix == Matrix::Normalised(Normalisation::Both));
        Ok(Some(made))
    }

    fn product_alone(&self, tape: &mut Tape<'a>, input: Input, matrix: Matrix, x: Var) -> Result<Var> {
        let slot = self.slot(tape, input, matrix, x);
        if let Some(kept) = slot.and_then(|(slots, key)| slots.get(key)) {
            let shape = Shape::new(self.graph.vertices(), tape.shape(x).columns);
            return match kept {
                Kept::Whole(numbers) => tape.kept(shape, numbers),
                Kept::Rows(versions) => Ok(tape.versions(versions)),
            };
        }
        let columns = tape.shape(x).columns;
        let keeps = slot.is_some_and(|(slots, _)| slots.has_room(self.graph.vertices() * columns));
        let product = match self.halo {
            Some(view) if self.known(x).is_none() => view.halo.product(tape, self.graph, matrix, x)?,
            _ => {
                let (name, matrix) = (matrix, matrix.of(self.graph)?);
                let all = self.known(x).unwrap_or(x);
                // What is not kept need not be there whole.
                if x == self.features && !keeps && !tape.wants_gradient(all) {
                    return tape.product_later(matrix.pattern, matrix.values, all);
                }
                // What is kept must not depend on what was on the tape before it.
                let out_of_another = match slot {
                    None => self.increment(tape, name, &matrix, all)?,
                    Some(_) => None,
                };
                match out_of_another {
                    Some(product) => product,
                    None => matrix.times(tape, all)?,
                }
            }
        };
        if let Some((slots, key)) = slot {
            let numbers = (tape.shape(product).len(), tape.value(product).ok());
            slots.put(key, columns, numbers, || tape.copy_of(product))?;
        }
        Ok(product)
    }

    /// The rows of `x`, and below them those of neighbours elsewhere: as many as the graph has columns.
    pub fn extend(&self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        match (self.halo, self.known(x)) {
            (_, Some(all)) => Ok(all),
            (Some(view), None) => view.halo.extend(tape, x),
            (None, None) => Ok(x),
        }
    }

    /// Rows that a layer made of `x` by itself, and below them those of neighbours elsewhere. What is made of
    /// features is made of theirs, too, which costs less than asking for it.
    pub fn extend_layer(
        &self,
        tape: &mut Tape<'a>,
        x: Var,
        layer: impl Fn(&mut Tape<'a>, Var) -> Result<Var>,
    ) -> Result<Own> {
        match self.known(x) {
            Some(all) => {
                let all = layer(tape, all)?;
                Ok(Own { own: tape.slice_rows(all, 0..self.graph.vertices())?, all })
            }
            None => {
                let own = layer(tape, x)?;
                Ok(Own { own, all: self.extend(tape, own)? })
            }
        }
    }

    /// A state after the step before, with the rows of this step.
    pub fn carry(&self, tape: &mut Tape<'a>, state: Var) -> Result<Var> {
        self.halo.map_or(Ok(state), |view| view.halo.carry(tape, state))
    }

    /// What structure made of the step, with the rows that are computed here.
    pub fn shuffle(&self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        self.halo.map_or(Ok(x), |view| view.halo.shuffle(tape, x))
    }

    /// A state that rows left at the step before, with the rows that are computed here at this one.
    pub fn hand(&self, tape: &mut Tape<'a>, state: Var) -> Result<Var> {
        self.halo.map_or(Ok(state), |view| view.halo.hand(tape, state))
    }

    /// What rows made of the step, with the rows whose structure is encoded here.
    pub fn restore(&self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        self.halo.map_or(Ok(x), |view| view.halo.restore(tape, x))
    }

    /// The `count` rows of all vertices that score highest, as columns.
    pub fn summary(&self, tape: &mut Tape<'a>, x: Var, score: Var, count: usize) -> Result<Var> {
        let Some(view) = self.halo else { return tape.summary(x, score, count) };
        // The highest of all are among the highest of each worker.
        let rows = tape.highest(x, score, count)?;
        let all = view.halo.collect(tape, x, &rows, count)?;
        tape.summary(all, score, count)
    }
}

/// Goes through the snapshots of a window, from the first to the last, and gives what comes of each.
///
/// This is where a snapshot begins: operations recorded meanwhile count as that snapshot's where time is
/// measured.
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
    use kymo_tensor::{Arena, Costs};

    use super::*;
    use crate::reuse::Budget;
    use crate::together::{Increments, Together};

    #[test]
    fn products_of_features_are_kept_within_the_budget() {
        let graph = Graph::from_edges(3, &[(0, 1, 1.0), (2, 1, 3.0)]).unwrap();
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let arena = Arena::new();
        let budget = Budget::new(30);
        let slots = ReuseSlots::new(budget.clone());
        let (input, mean) = (Input::Layer(0), Matrix::Mean);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut tape = Tape::new(&arena);
            let features = tape.constant(Shape::new(3, 2), &values).unwrap();
            let reuse = Some(Reuse { slots: &slots, parameters: None });
            let frame = Frame { reuse, ..Frame::new(&graph, features) };
            let product = frame.product(&mut tape, input, mean, features).unwrap();
            seen.push(tape.value(product).unwrap().to_vec());
            // A second product does not fit any more.
            frame.product(&mut tape, input, Matrix::Along, features).unwrap();
            // Other rows than the features are not kept where the version of the parameters is not known.
            let other = tape.scale(features, 2.0).unwrap();
            let other = frame.product(&mut tape, Input::Layer(1), mean, other).unwrap();
            assert_eq!(tape.value(other).unwrap(), [0.0, 0.0, 6.0, 8.0, 0.0, 0.0]);
            assert_eq!((slots.bytes(), budget.left()), (24, 6));
        }
        assert_eq!(seen, vec![vec![0.0, 0.0, 3.0, 4.0, 0.0, 0.0]; 3]);
        drop(slots);
        assert_eq!(budget.left(), 30);
    }

    #[test]
    fn deeper_layers_are_kept_while_the_parameters_stay_the_same_and_states_never() {
        let graph = Graph::from_edges(2, &[(0, 1, 1.0)]).unwrap();
        let (arena, values) = (Arena::new(), [1.0, 2.0]);
        let slots = ReuseSlots::new(Budget::new(1000));
        let product = |parameters: u64, input: Input, factor: f32| {
            let mut tape = Tape::new(&arena);
            let features = tape.constant(Shape::new(2, 1), &values).unwrap();
            let reuse = Some(Reuse { slots: &slots, parameters: Some(parameters) });
            let frame = Frame { reuse, ..Frame::new(&graph, features) };
            let x = tape.scale(features, factor).unwrap();
            let product = frame.product(&mut tape, input, Matrix::Mean, x).unwrap();
            tape.value(product).unwrap().to_vec()
        };
        assert_eq!(product(1, Input::Layer(1), 2.0), [0.0, 2.0]);
        // Found, not computed: another input under the same name shows it.
        assert_eq!(product(1, Input::Layer(1), 5.0), [0.0, 2.0]);
        assert_eq!(product(1, Input::Layer(2), 5.0), [0.0, 5.0]);
        assert_eq!(product(1, Input::State, 7.0), [0.0, 7.0]);
        assert_eq!(product(2, Input::Layer(1), 5.0), [0.0, 5.0]);
    }

    /// Of the same rows, products with two snapshots one of whose edges differs: to rounding where entries
    /// are added, to the bit where rows are summed anew, whatever values follow from.
    #[test]
    fn products_are_made_out_of_those_with_the_snapshot_before() {
        // A ring in which every vertex sees the five before it, and one vertex sees a sixth.
        let graph = |at: usize| {
            let row = |vertex: usize| {
                let mut row: Vec<u32> = (1..6).map(|far| ((vertex + 40 - far) % 40) as u32).collect();
                row.extend((vertex == at).then(|| ((vertex + 20) % 40) as u32));
                row.sort_unstable();
                row
            };
            let rows: Vec<Vec<u32>> = (0..40).map(row).collect();
            let ends = rows.iter().scan(0, |end, row| {
                *end += row.len() as u64;
                Some(*end)
            });
            Graph::new([0].into_iter().chain(ends).collect(), rows.concat(), None).unwrap()
        };
        let graphs = [39, 20].map(graph);
        let values: Vec<f32> = (0..80).map(|at| (at as f32).sin()).collect();
        let (arena, costs) = (Arena::new(), Costs { entry: 0.5, row: 0.0 });
        for matrix in [Matrix::Mean, Matrix::Along, Matrix::Normalised(Normalisation::Both)] {
            let made = |update: Update, goes_on: bool| {
                let together = Together::new(false, update);
                let mut tape = Tape::new(&arena);
                let x = tape.parameter(Shape::new(40, 2), &values).unwrap();
                let mut products = Vec::new();
                for (snapshot, graph) in graphs.iter().enumerate() {
                    let common = Some(Common { together: &together, snapshot });
                    let before = (goes_on && snapshot > 0).then(|| &graphs[0]);
                    let frame = Frame { common, before, ..Frame::new(graph, x) };
                    products.push(frame.product(&mut tape, Input::Layer(0), matrix, x).unwrap());
                }
                let sum = tape.multiply(products[0], products[1]).unwrap();
                let sum = tape.sum(sum).unwrap();
                let found = tape.value(products[1]).unwrap().to_vec();
                let gradients = tape.backward(sum).unwrap();
                let gradient = gradients.read(x).unwrap().unwrap().to_vec();
                let Increments { of_rows, of_both_ends } = together.increments();
                (found, gradient, [of_rows, of_both_ends])
            };
            let is_of_both = matches!(matrix, Matrix::Normalised(_));
            let counted = [usize::from(!is_of_both), usize::from(is_of_both)];
            let whole = made(Update::Rows, false);
            assert_eq!(whole.2, [0, 0]);
            let rows = made(Update::Rows, true);
            assert_eq!(rows, (whole.0.clone(), whole.1.clone(), counted), "{matrix:?}");
            let entries = made(Update::Entries(costs), true);
            assert_eq!(entries.2, counted, "{matrix:?}");
            let close = |found: &[f32], exact: &[f32]| {
                found.iter().zip(exact).all(|(found, exact)| (found - exact).abs() < 1e-5)
            };
            assert!(close(&entries.0, &whole.0) && close(&entries.1, &whole.1), "{matrix:?}");
            assert!(entries.0 != whole.0, "{matrix:?}: the way that was meant");
            // What costs more than it saves is not done.
            let dear = made(Update::Entries(Costs { entry: 1.0, row: 100.0 }), true);
            assert_eq!(dear, (whole.0, whole.1, [0, 0]), "{matrix:?}");
        }
    }

    #[test]
    fn features_that_are_learnt_are_not_kept() {
        let graph = Graph::from_edges(2, &[(0, 1, 1.0)]).unwrap();
        let (arena, budget) = (Arena::new(), Budget::new(1000));
        let slots = ReuseSlots::new(budget.clone());
        let mut tape = Tape::new(&arena);
        let features = tape.parameter(Shape::new(2, 1), &[1.0, 2.0]).unwrap();
        let reuse = Some(Reuse { slots: &slots, parameters: Some(1) });
        let frame = Frame { reuse, ..Frame::new(&graph, features) };
        frame.product(&mut tape, Input::Layer(0), Matrix::Mean, features).unwrap();
        assert_eq!(budget.left(), 1000);
    }
}
