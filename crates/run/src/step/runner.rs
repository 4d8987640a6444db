//! Runs windows at one worker: snapshots onto a tape, the model's exchange, then whatever a task asks of the
//! rows.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kymo_graph::Step;
use kymo_model::{Bound, Common, Exchanged, Frame, HaloView, Memory, Reuse, Together};
use kymo_plan::{Neighbourhood, Targets};
use kymo_tensor::{Arena, Device, Of, Shape, Tape, Var};

use super::context::RunContext;
use super::extraction::{Extraction, Seen};
use crate::data::{Loaded, Snapshots};
use crate::error::Result;
use crate::forward::{self, Forward, Loss, Matrices, RecurrentState, StateVars};
use crate::halo::{self, Cells, Pass};
use crate::replica::Replica;
use crate::task::Goal;

/// What runs windows.
pub struct Runner {
    context: Arc<RunContext>,
    snapshots: Arc<Snapshots>,
    cells: Option<Arc<Cells>>,
    arena: Arena,
    extraction: Mutex<Extraction>,
}

/// Windows to be run on one tape.
#[derive(Clone, Copy)]
pub struct WindowRun<'r> {
    /// All steps of theirs.
    pub steps: &'r Range<Step>,
    /// Their snapshots.
    pub loaded: &'r [Arc<Loaded>],
    /// The windows: one has all the steps, several are run together.
    pub windows: &'r [Range<Step>],
    /// The vertices whose outputs count.
    pub targets: &'r Targets,
    /// What these see of the snapshots.
    pub neighbourhood: &'r Neighbourhood,
    /// The state that the window before left; there is none where several are run together.
    pub before: Option<&'r RecurrentState>,
    /// Whether the state that this one leaves is wanted.
    pub hand_over: bool,
    /// What it is run for.
    pub pass: Pass,
    /// Whether its operations are timed.
    pub measures: bool,
}

/// A window's snapshots, and the seconds that it took to read each.
pub type Read = (Vec<Arc<Loaded>>, Vec<f64>);

impl Runner {
    /// A runner that works where its arena is.
    pub fn new(
        context: Arc<RunContext>,
        snapshots: Arc<Snapshots>,
        cells: Option<Arc<Cells>>,
        arena: Arena,
        extraction: Extraction,
    ) -> Runner {
        Runner { context, snapshots, cells, arena, extraction: Mutex::new(extraction) }
    }

    /// The snapshots.
    pub fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    /// The cells, where workers share windows.
    pub fn cells(&self) -> Option<&Cells> {
        self.cells.as_deref()
    }

    /// The buffers that windows take turns in.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// What takes batches of some vertices out of snapshots.
    pub fn extraction(&self) -> MutexGuard<'_, Extraction> {
        // A panic while it is held leaves tables that the next batch begins anew.
        self.extraction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The GPU that windows are run on, if there is one.
    pub fn device(&self) -> Option<&Device> {
        self.arena.device()
    }

    /// Reads a window.
    pub fn load(&self, window: &Range<Step>) -> Result<Read> {
        self.snapshots.window(window)
    }

    /// Runs windows together: `lose` says what the loss of each is, told by its number, after its exchange;
    /// `learn` gets the sum of all and how many there are, or nothing where there is none. What it makes of
    /// them, and the state that is left, if it is wanted.
    pub fn learn<T>(
        &self,
        replica: &Replica,
        run: WindowRun<'_>,
        mut lose: impl for<'p, 'a> FnMut(&dyn Goal, Forward<'p, 'a>, usize) -> Result<Option<Loss<'a>>>,
        learn: impl FnOnce(&mut Tape<'_>, &Bound<'_>, Option<(Var, usize)>) -> Result<T>,
    ) -> Result<(T, Option<RecurrentState>)> {
        let memory = self.context.memory.clone().unwrap_or_default();
        let cut = self.cells.as_deref().map(|cells| {
            let neighbours = run.loaded.iter().filter_map(|loaded| loaded.neighbours.clone()).collect();
            (cells, cells.window(run.steps, run.pass, neighbours))
        });
        let cells = cut.as_ref().map(|(cells, window)| (*cells, window));
        let after = Mutex::new(self.room(&memory, run.hand_over, cells));
        let several = run.windows.len() > 1;
        let snapshots = Together::new(several, self.context.update);
        let together = several.then_some(&snapshots);
        let portions = self.context.portions()?;
        let seen = self.extraction().see(portions, run.steps, run.targets, run.neighbourhood, run.loaded)?;
        let (done, exchange) = {
            let mut tape = Tape::new(&self.arena);
            if run.measures {
                tape.start_clock();
            }
            if self.context.alike && cells.is_none() {
                tape.expect_alike();
            }
            if self.context.settings.parallel.increments {
                tape.expect_same_rows();
            }
            // Rows that are multiplied among others may be rounded differently.
            if self.context.settings.parallel.increments && !self.context.settings.parallel.recompute {
                tape.expect_repeats();
            }
            let params = replica.bind(&mut tape, run.pass.trains)?;
            let frames = match &seen {
                Some(seen) => self.frames_of(&mut tape, &params, run.loaded, seen, &snapshots)?,
                None => self.frames(&mut tape, &params, run.loaded, cells, &snapshots)?,
            };
            let before = match run.before {
                Some(state) => state.on_tape(&mut tape, &memory, run.steps, cells)?,
                None => StateVars::default(),
            };
            let model = &*self.context.model;
            model.ahead(&mut tape, &params, &frames)?;
            let mut all = Vec::with_capacity(run.windows.len());
            for window in run.windows {
                let first = window.start - run.steps.start;
                let frames = &frames[first..first + window.len()];
                let mut exchanged = model.exchange(&mut tape, &params, frames, &before.exchange)?;
                // Steps that are here go out before those of others are waited for: all send at a time.
                // Gradients come back in the reverse order, and do the same.
                let mut places: Vec<usize> = (0..frames.len()).collect();
                places.sort_by_key(|&place| tape.shape(exchanged.steps[place]).rows == 0);
                for place in places {
                    let step = &mut exchanged.steps[place];
                    *step = match &seen {
                        Some(seen) => tape.slice_rows(*step, 0..seen.targets.len())?,
                        None => frames[place].shuffle(&mut tape, *step)?,
                    };
                }
                all.push(exchanged);
            }
            let mut losses = Vec::with_capacity(all.len());
            for (number, exchanged) in all.iter().enumerate() {
                let exchanged = Exchanged { together, ..Exchanged::after(exchanged, &before.rows) };
                let forward = Forward {
                    tape: &mut tape,
                    model,
                    params: &params,
                    exchanged,
                    after: run.hand_over.then_some(&after),
                    dropout: (0.0, 0),
                    cells,
                    batch: seen.as_ref().map(|seen| &seen.targets),
                    targets: run.targets,
                };
                let loss = lose(&*self.context.goal, forward, number)?;
                losses.extend(loss.map(|loss| (exchanged, loss)));
            }
            let count = losses.len();
            let sum = match count {
                0 => None,
                _ => Some((forward::take(&mut tape, model, &params, losses)?, count)),
            };
            let done = learn(&mut tape, &params, sum)?;
            let read = |&var| Ok(tape.read(var)?.into_owned());
            let exchange: Matrices = match (run.hand_over, all.last()) {
                (true, Some(exchanged)) => exchanged.after.iter().map(read).collect::<Result<_>>()?,
                _ => Vec::new(),
            };
            (done, exchange)
        };
        seen.into_iter().for_each(|seen| self.extraction().take_back(seen));
        let rows = after.into_inner().unwrap_or_else(PoisonError::into_inner);
        let window = self.cells.as_ref().map(|_| run.steps.clone());
        Ok((done, run.hand_over.then_some(RecurrentState { exchange, rows, window })))
    }

    /// Room for the rows that a window leaves behind, if they are wanted.
    fn room(&self, memory: &Memory, wanted: bool, cells: Option<(&Cells, &halo::Window)>) -> Matrices {
        let vertices = self.context.store.vertices();
        let count = cells.map_or(vertices, |(_, window)| window.own.last().map_or(0, |own| own.len()));
        let columns = memory.rows.iter().filter(|_| wanted);
        columns.map(|columns| vec![0.0; count * columns]).collect()
    }

    /// What a batch of some vertices sees of the steps of a window, on a tape.
    fn frames_of<'a>(
        &'a self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        loaded: &'a [Arc<Loaded>],
        Seen { near, graphs, .. }: &'a Seen,
        together: &'a Together,
    ) -> Result<Vec<Frame<'a>>> {
        let (inputs, vertices) = (&self.context.inputs, &near.vertices);
        let learnt = inputs.learnt(tape, params)?;
        let mut frames: Vec<Frame<'a>> = Vec::with_capacity(loaded.len());
        for (number, (now, graph)) in loaded.iter().zip(graphs).enumerate() {
            let common = Some(Common { together, snapshot: number });
            let columns = |tape: &mut Tape<'a>| {
                let constant = match inputs.constant_width() {
                    0 => None,
                    width => Some(now.rows.some_on_tape(tape, now.step, width, vertices)?),
                };
                inputs.columns(tape, constant, &learnt, Some(vertices))
            };
            let before = number.checked_sub(1).map(|before| &loaded[before]);
            let is_same = |before: &&Arc<Loaded>| now.rows.are_those_of(now.step, &before.rows, before.step);
            let features = match (before.filter(is_same), frames.last()) {
                (Some(_), Some(frame)) => frame.features,
                _ => tape.during(Of::Step(number), columns)?,
            };
            frames.push(Frame { common, ..Frame::new(graph, features) });
        }
        Ok(frames)
    }

    /// The steps of a window on a tape.
    fn frames<'a>(
        &'a self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        loaded: &'a [Arc<Loaded>],
        cells: Option<(&'a Cells, &'a halo::Window)>,
        together: &'a Together,
    ) -> Result<Vec<Frame<'a>>> {
        let inputs = &self.context.inputs;
        let learnt = inputs.learnt(tape, params)?;
        let mut frames: Vec<Frame<'a>> = Vec::with_capacity(loaded.len());
        let mut before: Option<&Loaded> = None;
        for (number, loaded) in loaded.iter().enumerate() {
            let common = Some(Common { together, snapshot: number });
            // Learnt columns change with every step of training, also where they are constants on this tape.
            let reuse = learnt.is_empty().then_some(Reuse { slots: &loaded.slots, parameters: None });
            let columns = |tape: &mut Tape<'a>| {
                let constant = match inputs.constant_width() {
                    0 => None,
                    width => {
                        let shape = Shape::new(loaded.graph.columns(), width);
                        Some(loaded.rows.on_tape(tape, loaded.step, shape)?)
                    }
                };
                inputs.columns(tape, constant, &learnt, loaded.vertices.as_ref())
            };
            // Rows that do not change from step to step are one matrix: what is made of it is made once.
            let is_same = |before: &&Loaded| {
                // Learnt columns alone are the same at every step.
                inputs.constant_width() == 0
                    || loaded.rows.are_those_of(loaded.step, &before.rows, before.step)
            };
            let same = before.filter(|_| cells.is_none()).filter(is_same);
            let all = match (same, frames.last()) {
                (Some(_), Some(frame)) => frame.features,
                _ => tape.during(Of::Step(number), columns)?,
            };
            let earlier = same.filter(|_| self.context.increments.is_some());
            before = Some(loaded);
            let graph = &loaded.graph;
            frames.push(match cells {
                None => {
                    let before = earlier.map(|earlier| &earlier.graph);
                    Frame { graph, features: all, reuse, halo: None, common, before }
                }
                Some((_, window)) => {
                    let features = tape.slice_rows(all, 0..graph.vertices())?;
                    let halo = Some(HaloView { features: Some(all), halo: &*window.steps[number] });
                    Frame { graph, features, reuse, halo, common, before: None }
                }
            });
        }
        Ok(frames)
    }
}
