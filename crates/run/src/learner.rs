//! A model with its data, its parameters and its optimiser: an iteration of training, and what it says at a sample.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use kymo_comm::Traffic;
use kymo_graph::{Step, Store};
use kymo_model::{Around, Exchanged, Extent, Frame, Params};
use kymo_plan::Shares;
use kymo_plan::schedule::Schedule;
use kymo_tensor::dry::Ledger;
use kymo_tensor::optim::{self, Away, Optimiser, clip_norm};
use kymo_tensor::{Arena, Device, Numbers, Of, Tape, Times};
use kymo_trace::Kind;

use crate::carried::Carried;
use crate::cells::{self, Cells, moved};
use crate::clock::{Clock, Work};
use crate::device;
use crate::error::{Error, Result};
use crate::frames::{Frames, Loaded, memory};
use crate::gradient::{Gradient, Iteration};
use crate::optimising::{optimiser, rates};
use crate::parallel::Sharing;
use crate::pass::{Matrices, Pass};
use crate::profile::WindowTimes;
use crate::random::Random;
use crate::settings::{Mode, Settings};
use crate::shared::Shared;
use crate::split::Split;
use crate::task::Goal;
use crate::team::Team;
use crate::turns::Turn;

/// The stream of random numbers that drops.
const DROPOUT: u64 = 0xD40F;

/// Everything that learns, at one worker.
pub struct Learner {
    /// What does not change.
    pub shared: Arc<Shared>,
    /// What is learnt.
    pub params: Params,
    /// How it is learnt.
    pub optimiser: Box<dyn Optimiser>,
    /// What the last training window left behind, where windows are handed over.
    pub carried: Option<Carried>,
    /// Where the time goes.
    pub clock: Clock,
    /// The worker among others.
    pub team: Arc<Team>,
    /// What went over the wire while training.
    pub trained: Traffic,
    /// Who trains which windows, once a scheduler has said so.
    pub scheduled: Option<Schedule>,
    /// Whether windows that are trained on are measured, operation by operation.
    pub measures: bool,
    /// What was measured; whoever reads it takes it out.
    pub measured: Vec<WindowTimes>,
    pub(crate) cells: Option<Arc<Cells>>,
    frames: Arc<Frames>,
    rates: optim::Schedule,
    gradient: Gradient,
    arena: Arena,
    /// The parameters while they are on a GPU: then those of the host, and the optimiser's state, are out of date.
    away: Option<Away>,
}

/// How a window is looked at.
#[derive(Clone, Copy)]
struct Look<'c> {
    /// What the window before left behind.
    before: Option<&'c Carried>,
    /// Whether what this one leaves behind is wanted.
    hand_over: bool,
}

impl Learner {
    /// A worker without others, before its first step; fails where settings and data do not go together.
    pub fn open(settings: Settings, store: Arc<Store>) -> Result<Learner> {
        Learner::join(Shared::open(settings, store)?, Team::alone(), &Sharing::Groups)
    }

    /// A worker among others, before its first step.
    pub fn join(shared: Arc<Shared>, team: Arc<Team>, sharing: &Sharing) -> Result<Learner> {
        let device = device::open(&shared.settings)?;
        let bytes = device.as_ref().map_or(usize::MAX, |device| device.budget() / 2);
        Learner::with(shared, team, sharing, device.map_or_else(Arena::new, Arena::on), bytes)
    }

    /// A worker that computes nothing, and counts what a GPU would have to hold, of which there are so many bytes.
    pub(crate) fn rehearsing(shared: Arc<Shared>, ledger: Arc<Ledger>, bytes: usize) -> Result<Learner> {
        Learner::with(shared, Team::alone(), &Sharing::Groups, Arena::dry(ledger), bytes / 2)
    }

    /// A worker whose snapshots take at most so many bytes.
    fn with(
        shared: Arc<Shared>,
        team: Arc<Team>,
        sharing: &Sharing,
        arena: Arena,
        most: usize,
    ) -> Result<Learner> {
        let settings = &shared.settings;
        let bytes = memory(&settings.run.memory)? / team.size();
        // What is held of snapshots is held on a GPU, too, beside what a step computes there.
        let bytes = bytes.min(most);
        let cells = sharing.cells(&team).map(Arc::new);
        let frames = Arc::new(Frames::new(
            shared.store.clone(),
            shared.inputs.clone(),
            shared.window,
            bytes,
            cells.clone(),
        ));
        // Once windows are scheduled, iterations are as full as they can be.
        let at_once = match settings.scheduler() {
            Some(_) => settings.parallel.workers * settings.parallel.groups,
            None => settings.windows_at_once(),
        };
        let iterations = shared.windows().len().div_ceil(at_once);
        Ok(Learner {
            params: Params::new(shared.slots(), settings.train.seed)?,
            optimiser: optimiser(settings),
            rates: rates(settings, iterations as u64),
            frames,
            carried: None,
            clock: Clock::default(),
            gradient: Gradient::default(),
            arena,
            away: None,
            trained: Traffic::default(),
            scheduled: None,
            measures: false,
            measured: Vec::new(),
            team,
            cells,
            shared,
        })
    }

    /// What decides what is computed.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The task on the data.
    pub fn goal(&self) -> &dyn Goal {
        &*self.shared.goal
    }

    /// The snapshots.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Which samples are for what.
    pub fn split(&self) -> &Split {
        self.shared.goal.split()
    }

    /// Numbers that are learnt.
    pub fn parameters(&self) -> usize {
        self.params.len()
    }

    /// The rate of the next step.
    pub fn rate(&self) -> f32 {
        self.rates.rate(self.optimiser.state().steps)
    }

    /// Bytes of the buffers that steps take turns in.
    pub fn buffer_bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Bytes that the worker holds: its part of the snapshots, buffers, parameters and what the optimiser remembers.
    pub fn held_bytes(&self) -> usize {
        let remembered = self.optimiser.state().buffers.iter().map(Vec::len).sum::<usize>();
        self.frames.held_bytes() + self.arena.bytes() + 4 * (2 * self.params.len() + remembered)
    }

    /// Reads a window; the seconds that each of its steps took.
    fn load(&mut self, window: Range<Step>) -> Result<(Vec<Arc<Loaded>>, Vec<f64>)> {
        let (frames, recorder) = (&self.frames, &self.team.recorder);
        let one = |t: Step| {
            let begun = std::time::Instant::now();
            Ok((frames.load(t, &window)?, begun.elapsed().as_secs_f64()))
        };
        let all = || window.clone().map(one).collect::<Result<Vec<_>>>();
        let read = self.clock.time(Work::Load, || recorder.time(Kind::Load, "snapshots", all))?;
        Ok(read.into_iter().unzip())
    }

    /// Trains on one window: forward, backward, one step of the optimiser. The loss, or `None` where nothing is labelled.
    pub fn step(&mut self, window: Range<Step>, salt: u64) -> Result<Option<f32>> {
        let done = self.iterate(&[Turn { window, salt, worker: 0 }], false)?;
        Ok((done.losses > 0).then_some(done.loss as f32))
    }

    /// One iteration: all workers together train on these windows, and all take the same step of the optimiser.
    ///
    /// With cells they do each window together. Without, each does those that are its own.
    pub fn iterate(&mut self, turns: &[Turn], stop: bool) -> Result<Iteration> {
        let before = self.team.traffic();
        self.send_away()?;
        let mut gradient = std::mem::take(&mut self.gradient);
        gradient.begin(self.params.values.iter().map(Vec::len));
        let mut edges = 0;
        let (size, rank) = (self.team.size(), self.team.rank());
        let is_mine = |turn: &&Turn| self.cells.is_some() || turn.worker % size == rank;
        let mine: Vec<&Turn> = turns.iter().filter(is_mine).collect();
        for (number, turn) in mine.iter().enumerate() {
            let next = mine.get(number + 1).map(|next| next.window.clone());
            edges += self.train_on(turn, next, &mut gradient)?;
        }
        let begun = std::time::Instant::now();
        gradient.add_facts(edges, stop);
        let done = gradient.mean(&self.team)?;
        self.trained = self.trained.and(self.team.traffic().since(before));
        if done.losses > 0 {
            self.follow(&done, &mut gradient, turns)?;
        }
        self.gradient = gradient;
        self.clock.add(Work::Train, begun.elapsed());
        Ok(done)
    }

    /// Adds the gradient of a window; its edges.
    ///
    /// A pipeline of two stages, as BLAD has it: the `next` window is read while this one is trained on. What cannot be read is
    /// said when its turn comes.
    fn train_on(&mut self, turn: &Turn, next: Option<Range<Step>>, gradient: &mut Gradient) -> Result<usize> {
        let (Turn { window, salt, .. }, frames) = (turn, self.frames.clone());
        let all = std::time::Instant::now();
        let (loaded, reads) = self.load(window.clone())?;
        let begun = std::time::Instant::now();
        let counted = std::thread::scope(|scope| {
            if let Some(next) = next {
                scope.spawn(move || next.clone().try_for_each(|t| frames.load(t, &next).map(drop)));
            }
            self.add_gradient(window, &loaded, *salt, gradient)
        })?;
        self.clock.add(Work::Train, begun.elapsed());
        if self.measures {
            let seconds = all.elapsed().as_secs_f64();
            self.measured.push(WindowTimes::new(window.start, &reads, &counted, seconds));
        }
        Ok(loaded.iter().map(|loaded| loaded.graph.edges()).sum())
    }

    /// Adds the gradient of one window; where the time went, if windows are measured.
    fn add_gradient(
        &mut self,
        window: &Range<Step>,
        loaded: &[Arc<Loaded>],
        salt: u64,
        gradient: &mut Gradient,
    ) -> Result<Times> {
        let mut times = Times::default();
        let at = self.shared.losses_at(window);
        let hand_over = self.settings().train.mode == Mode::Truncated;
        let carried = self.carried.take();
        let look = Look { before: carried.as_ref(), hand_over };
        let random = Random::new(self.settings().train.seed).stream(DROPOUT);
        let dropout = (self.settings().model.dropout as f32, random.word(salt));
        let recorder = self.team.recorder.clone();
        let computing = recorder.open(Kind::Compute, "window");
        let (done, after) = self.pass(window, loaded, look, true, |goal, mut pass| {
            pass.dropout = dropout;
            let Some(loss) = goal.loss(&mut pass, &at, salt)? else {
                // The state goes on, whether there is something to learn or not.
                goal.outputs(&mut pass)?;
                times = pass.tape.times();
                return Ok(None);
            };
            // Also where the loss is no number: peers wait for their part of the way back.
            let mut gradients = pass.tape.backward(loss)?;
            times = pass.tape.times();
            let take = |&var| gradients.take(var).unwrap_or_default();
            let taken = pass.params.vars().iter().map(take).collect::<Vec<Numbers>>();
            Ok(Some((pass.tape.read(loss)?[0], taken)))
        })?;
        drop(computing);
        self.carried = after;
        if let Some((loss, gradients)) = done {
            let is_first = gradient.is_new();
            gradient.add_loss(loss, self.cells.is_none() || self.team.leads());
            match &self.away {
                Some(away) => away.add(&gradients, !is_first)?,
                None => gradient.add(&gradients),
            }
            gradients.into_iter().for_each(|gradient| gradient.give(&self.arena));
        }
        Ok(times)
    }

    /// Sends the parameters to the GPU, where there is one and they are not there yet.
    fn send_away(&mut self) -> Result<()> {
        if let (Some(device), None) = (self.arena.device(), &self.away) {
            let (state, copies) = (self.optimiser.state(), self.optimiser.copies());
            self.away = Some(Away::send(device, &self.params.values, state, copies)?);
        }
        Ok(())
    }

    /// Brings the parameters and what the optimiser remembers back from the GPU, if they are there: to be looked at or saved.
    pub fn bring_home(&mut self) -> Result<()> {
        if let Some(away) = self.away.take() {
            let steps = self.optimiser.state().steps;
            let state = away.bring_home(&mut self.params.values, steps)?;
            self.optimiser.restore(state);
        }
        Ok(())
    }

    /// The GPU that the work is done on, if it is.
    pub fn device(&self) -> Option<&Device> {
        self.arena.device()
    }

    /// Changes the parameters by their gradients.
    fn follow(&mut self, done: &Iteration, gradient: &mut Gradient, turns: &[Turn]) -> Result<()> {
        let (loss, windows) = (done.loss, done.losses);
        let clip = self.settings().train.clip;
        let largest = if clip > 0.0 { clip as f32 } else { f32::MAX };
        let mut slices = gradient.slices();
        let norm = match &self.away {
            _ if !loss.is_finite() => f32::NAN,
            Some(away) => away.norm()? / windows as f32,
            None => clip_norm(&mut slices, largest)?,
        };
        if !norm.is_finite() {
            let steps = |turn: &Turn| format!("{} to {}", turn.window.start, turn.window.end - 1);
            let windows: Vec<String> = turns.iter().map(steps).collect();
            let problem = format!(
                "the loss became {loss} (its gradient {norm}) in the window of steps {}; nothing of it was kept. Lower \
                 train.learning_rate, set train.clip, or look for extreme values in the data",
                windows.join(", ")
            );
            return Err(Error::Diverged(problem));
        }
        let rate = self.rate() * self.settings().rate_factor(turns.len());
        if let Some(away) = &self.away {
            let factor = if norm > largest { largest / norm } else { 1.0 };
            return Ok(self.optimiser.step_on(away, factor / windows as f32, rate)?);
        }
        let slices: Vec<&[f32]> = slices.into_iter().map(|slice| &*slice).collect();
        Ok(self.optimiser.step(&mut self.params.values, &slices, rate)?)
    }

    /// Runs the exchange of a window and hands the rest to `finish`; what the window leaves behind, if wanted.
    fn pass<T>(
        &self,
        window: &Range<Step>,
        loaded: &[Arc<Loaded>],
        look: Look<'_>,
        learning: bool,
        finish: impl FnOnce(&dyn Goal, Pass<'_, '_>) -> Result<T>,
    ) -> Result<(T, Option<Carried>)> {
        let vertices = self.shared.store.vertices();
        let kept = self.shared.memory.clone().unwrap_or_default();
        let cells = match &self.cells {
            None => None,
            Some(cells) => {
                let neighbours = loaded.iter().filter_map(|loaded| loaded.neighbours.clone()).collect();
                Some((&**cells, cells.window(window, neighbours)))
            }
        };
        let cells = cells.as_ref().map(|(cells, window)| (*cells, window));
        let count = cells.map_or(vertices, |(_, window)| window.own.last().map_or(0, |own| own.len()));
        let rows: Matrices = kept.rows.iter().map(|columns| vec![0.0; count * columns]).collect();
        let after = Mutex::new(if look.hand_over { rows } else { Vec::new() });
        let (done, exchange) = {
            let mut tape = Tape::new(&self.arena);
            if learning && self.measures {
                tape.start_clock();
            }
            let params = match &self.away {
                Some(away) => self.params.bind_away(&mut tape, away, learning)?,
                None if learning => self.params.bind(&mut tape)?,
                None => self.params.bind_constant(&mut tape)?,
            };
            let frames = self.on_tape(&mut tape, &params, loaded, cells)?;
            let (mut before, mut before_rows) = (Vec::new(), Vec::new());
            if let Some(carried) = look.before {
                for (&extent, values) in kept.exchange.iter().zip(&carried.exchange) {
                    before.push(match extent {
                        Extent::Vertices(columns) => {
                            let place = Shares::structure;
                            self.brought(&mut tape, window, carried, (columns, values), place)?
                        }
                        Extent::Matrix(shape) => tape.copied(shape, values)?,
                    });
                }
                for (&columns, values) in kept.rows.iter().zip(&carried.rows) {
                    let place = Shares::rows;
                    before_rows.push(self.brought(&mut tape, window, carried, (columns, values), place)?);
                }
            }
            let mut exchanged = self.shared.model.exchange(&mut tape, &params, &frames, &before)?;
            if let Some((cells, window)) = cells {
                for (step, route) in exchanged.steps.iter_mut().zip(&window.moves) {
                    if let Some(route) = route {
                        *step = moved(&mut tape, &cells.team, route, *step)?;
                    }
                }
            }
            let pass = Pass {
                tape: &mut tape,
                model: &*self.shared.model,
                params: &params,
                exchanged: Exchanged::after(&exchanged, &before_rows),
                after: look.hand_over.then_some(&after),
                dropout: (0.0, 0),
                cells,
            };
            let done = finish(&*self.shared.goal, pass)?;
            let exchange: Matrices = match look.hand_over {
                true => {
                    let read = |&var| Ok(tape.read(var)?.into_owned());
                    exchanged.after.iter().map(read).collect::<Result<_>>()?
                }
                false => Vec::new(),
            };
            (done, exchange)
        };
        let rows = after.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let window = self.cells.as_ref().map(|_| window.clone());
        Ok((done, look.hand_over.then_some(Carried { exchange, rows, window })))
    }

    /// The steps of a window on a tape.
    fn on_tape<'a>(
        &'a self,
        tape: &mut Tape<'a>,
        params: &kymo_model::Bound<'_>,
        loaded: &'a [Arc<Loaded>],
        cells: Option<(&'a Cells, &'a cells::Window)>,
    ) -> Result<Vec<Frame<'a>>> {
        let inputs = &self.shared.inputs;
        let learnt = inputs.learnt(tape, params)?;
        let mut frames = Vec::with_capacity(loaded.len());
        for (number, loaded) in loaded.iter().enumerate() {
            // Learnt columns change with every step of training, also where they are looked at as constants.
            let kept = learnt.is_empty().then_some(&loaded.kept);
            let columns =
                |tape: &mut Tape<'a>| inputs.columns(tape, &loaded.rows, &learnt, loaded.vertices.as_ref());
            let all = tape.during(Of::Step(number), columns)?;
            let Some((_, window)) = cells else {
                frames.push(Frame { graph: &loaded.graph, features: all, kept, around: None });
                continue;
            };
            let features = tape.slice_rows(all, 0..loaded.graph.vertices())?;
            let around = Some(Around { features: all, beyond: &window.steps[number] });
            frames.push(Frame { graph: &loaded.graph, features, kept, around });
        }
        Ok(frames)
    }

    pub(crate) fn look(
        &mut self,
        window: Range<Step>,
        before: Option<&Carried>,
        hand_over: bool,
    ) -> Result<(Vec<f32>, Option<Carried>)> {
        let (loaded, _) = self.load(window.clone())?;
        let begun = std::time::Instant::now();
        let look = Look { before, hand_over };
        let recorder = self.team.recorder.clone();
        let looking = recorder.open(Kind::Evaluate, "window");
        let done = self.pass(&window, &loaded, look, false, |goal, mut pass| goal.outputs(&mut pass));
        drop(looking);
        self.clock.add(Work::Predict, begun.elapsed());
        done
    }
}
