//! What a model will move and compute, found out by running it on a single vertex.
//!
//! How many rows move depends on the graph and on who owns what; which movements there are, how wide they are
//! and whether gradients come back follows from the model alone. So it is run once where everything has one
//! row, through a halo that takes notes: no second description of each model has to be kept in step with it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kymo_model::graph::Weighted;
use kymo_model::{Exchanged, Extent, Frame, Graph, Halo, HaloView, Matrix, Params, rows_by_step};
use kymo_plan::{Movement, Moves, Work};
use kymo_tensor::{Arena, Result, Shape, Tape, Var};

use crate::merge::GradientSum;
use crate::step::RunContext;

/// Takes notes of what moves at one step, and of the matrices whose columns are needed apart, here and
/// elsewhere: of each, whether gradients go back through it.
#[derive(Default)]
struct Notes {
    movements: Mutex<Vec<Movement>>,
    apart: Mutex<BTreeMap<usize, bool>>,
}

impl Notes {
    fn take(&self, tape: &Tape<'_>, moves: Moves, x: Var) {
        let movement = Movement { moves, columns: tape.shape(x).columns, back: tape.wants_gradient(x) };
        locked(&self.movements).push(movement);
    }
}

fn locked<T>(notes: &Mutex<T>) -> MutexGuard<'_, T> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Halo for Notes {
    fn product<'a>(&'a self, tape: &mut Tape<'a>, graph: &'a Graph, matrix: Matrix, x: Var) -> Result<Var> {
        self.take(tape, Moves::Neighbours, x);
        *locked(&self.apart).entry(matrix.number()).or_default() |= tape.wants_gradient(x);
        matrix.of(graph)?.times(tape, x)
    }

    fn extend<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        self.take(tape, Moves::Neighbours, x);
        Ok(x)
    }

    fn carry<'a>(&'a self, tape: &mut Tape<'a>, state: Var) -> Result<Var> {
        self.take(tape, Moves::Carried, state);
        Ok(state)
    }

    fn collect<'a>(&'a self, tape: &mut Tape<'a>, x: Var, _: &[u32], count: usize) -> Result<Var> {
        self.take(tape, Moves::Collected(count), x);
        Ok(x)
    }

    fn shuffle<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        self.take(tape, Moves::Shuffled, x);
        Ok(x)
    }

    fn hand<'a>(&'a self, tape: &mut Tape<'a>, state: Var) -> Result<Var> {
        self.take(tape, Moves::Handed, state);
        Ok(state)
    }

    fn restore<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        self.take(tape, Moves::Restored, x);
        Ok(x)
    }
}

/// What the model does to a window of its usual length.
pub fn work(context: &RunContext) -> crate::error::Result<Work> {
    let (arena, graph) = (Arena::new(), Graph::new(vec![0, 1], vec![0], None)?);
    let params = Params::new(context.model.slots(), 1)?;
    let notes: Vec<Notes> = (0..context.window).map(|_| Notes::default()).collect();
    let width = context.inputs.width();
    let values = vec![1.0; width];
    let mut tape = Tape::new(&arena);
    let bound = params.bind(&mut tape)?;
    let is_learnt = !context.inputs.slots().is_empty();
    let mut frames = Vec::with_capacity(notes.len());
    for notes in &notes {
        let shape = Shape::new(1, width);
        let features =
            if is_learnt { tape.parameter(shape, &values)? } else { tape.constant(shape, &values)? };
        // Not the same matrix: what is made of features is told from what is made of others by it.
        let all = tape.scale(features, 1.0)?;
        let halo = Some(HaloView { features: Some(all), halo: notes });
        frames.push(Frame { halo, ..Frame::new(&graph, features) });
    }
    let exchanged = context.model.exchange(&mut tape, &bound, &frames, &[])?;
    for (frame, &step) in frames.iter().zip(&exchanged.steps) {
        frame.shuffle(&mut tape, step)?;
    }
    if context.memory.is_some() {
        let first = Exchanged::first(&exchanged);
        rows_by_step(&mut tape, &*context.model, &bound, first, |tape, t, state| {
            frames[t].hand(tape, state)
        })?;
    }
    drop(frames);
    let steps: Vec<Vec<Movement>> = notes.iter().map(|notes| locked(&notes.movements).clone()).collect();
    // All steps are alike but for the first, which may have nothing to carry.
    let apart = notes.last().map(|notes| locked(&notes.apart).clone()).unwrap_or_default();
    let memory = context.memory.clone().unwrap_or_default();
    let carried = memory.exchange.iter().filter_map(|extent| match extent {
        Extent::Vertices(columns) => Some((Moves::Carried, *columns)),
        Extent::Rows(columns) => Some((Moves::Handed, *columns)),
        Extent::Matrix(_) => None,
    });
    let handed = memory.rows.iter().map(|&columns| (Moves::Handed, columns));
    let neighbours = |movement: &&Movement| movement.moves == Moves::Neighbours;
    let last = || steps.last().into_iter().flatten().filter(neighbours);
    let forward: usize = last().map(|movement| movement.columns).sum();
    let backward: usize = last().filter(|movement| movement.back).map(|movement| movement.columns).sum();
    // Products of features that are not learnt are the same in every epoch, and none goes back through them.
    let of_features = match (is_learnt, context.settings.run.keep && context.reused()? > 0) {
        (true, _) => [width; 2],
        (false, true) => [0; 2],
        (false, false) => [width, 0],
    };
    let slots = context.slots();
    let numbers: usize = slots.iter().map(|slot| slot.shape.len()).sum();
    let (asked, weighted) = (context.asked()?, context.store.has_weights()?);
    let held = |vertices: u64, edges: u64| asked.bytes(vertices, edges, weighted);
    // Of matrices that are needed apart there are two halves besides, with a loop at every vertex; gradients
    // go back through those, then.
    let asked_of_parts = if apart.is_empty() { asked } else { asked.untransposed() };
    let in_part = |vertices: u64, edges: u64| {
        let of = |&back: &bool| Weighted::bytes_of([2 * vertices, vertices], vertices + edges, back);
        asked_of_parts.bytes(vertices, edges, weighted) + apart.values().map(of).sum::<u64>()
    };
    let of_each = |bytes: &dyn Fn(u64, u64) -> u64| [bytes(1, 2) - bytes(1, 1), bytes(2, 1) - bytes(1, 1)];
    Ok(Work {
        held: Some(of_each(&held)),
        held_in_part: Some(of_each(&in_part)),
        brought: carried
            .chain(handed)
            .map(|(moves, columns)| Movement { moves, columns, back: false })
            .collect(),
        paired: context.model.width(),
        reduced: GradientSum::length(numbers),
        features: context.inputs.constant_width(),
        aggregated: [of_features[0] + forward, of_features[1] + backward],
        products: context.model.slots().iter().map(|slot| slot.shape.len()).sum(),
        buffers: context.buffers()?,
        reused: context.reused()?,
        // Themselves, their gradients, the sum of those, and two averages that the optimiser keeps.
        replicated: 5 * 4 * numbers,
        steps,
    })
}
