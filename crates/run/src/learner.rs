//! A model with its data, its parameters and its optimiser: one step of training, and what it says at a sample.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use kymo_graph::{Step, Store};
use kymo_model::{Exchanged, Frame, Memory, Model, Params, zoo};
use kymo_tensor::optim::{Adam, AdamSettings, Decay, Optimiser, Schedule, Sgd, SgdSettings, clip_norm};
use kymo_tensor::{Arena, Buffer, Shape, Tape};

use crate::clock::{Clock, Work};
use crate::error::{Error, Result};
use crate::frames::{Frames, Loaded, memory};
use crate::inputs::Inputs;
use crate::pass::{Matrices, Pass};
use crate::random::Random;
use crate::settings::{Mode, Settings};
use crate::split::{Part, Split};
use crate::task::{self, Goal};

/// The stream of random numbers that drops.
const DROPOUT: u64 = 0xD40F;

/// What a model left behind after a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// Of the exchange.
    pub exchange: Matrices,
    /// Of the rows.
    pub rows: Matrices,
}

/// Everything that learns.
pub struct Learner {
    /// What decides what is computed.
    pub settings: Settings,
    /// The task on the data.
    pub goal: Box<dyn Goal>,
    /// What is learnt.
    pub params: Params,
    /// How it is learnt.
    pub optimiser: Box<dyn Optimiser>,
    /// What the last training window left behind, where windows are handed over.
    pub carried: Option<Carried>,
    /// Where the time goes.
    pub clock: Clock,
    frames: Frames,
    model: Box<dyn Model>,
    memory: Option<Memory>,
    schedule: Schedule,
    arena: Arena,
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
    /// A learner before its first step; fails where settings and data do not go together.
    pub fn open(settings: Settings, store: Arc<Store>) -> Result<Learner> {
        settings.check()?;
        task::metrics_of(&settings)?;
        let memory_bytes = memory(&settings.run.memory)?;
        let recipe = zoo::find(&settings.model.name)?;
        let goal = task::find(&settings.task.name)?.open(&store, &settings)?;
        let window = match settings.train.mode {
            Mode::Sequence => goal.split().samples(Part::Train).len(),
            _ => settings.train.window,
        };
        let inputs = Inputs::new(&store, &settings, goal.split().samples(Part::Train))?;
        let model = recipe.build(&settings.config(inputs.width(), window))?;
        let memory = model.memory();
        if settings.train.mode == Mode::Truncated && memory.is_none() {
            let problem =
                format!("{} sees a window at a time and hands nothing over; choose windows", recipe.name);
            return Err(Error::settings("train.mode", problem));
        }
        let slots = [model.slots(), inputs.slots(), goal.slots(model.width())].concat();
        let windows = goal.split().windows(&settings).len();
        Ok(Learner {
            params: Params::new(slots, settings.train.seed)?,
            optimiser: optimiser(&settings),
            schedule: schedule(&settings, windows as u64),
            frames: Frames::new(store, inputs, window, memory_bytes),
            carried: None,
            clock: Clock::default(),
            arena: Arena::new(),
            settings,
            goal,
            model,
            memory,
        })
    }

    /// The snapshots.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Which samples are for what.
    pub fn split(&self) -> &Split {
        self.goal.split()
    }

    /// Numbers that are learnt.
    pub fn parameters(&self) -> usize {
        self.params.len()
    }

    /// The rate of the next step.
    pub fn rate(&self) -> f32 {
        self.schedule.rate(self.optimiser.state().steps)
    }

    /// Bytes of the buffers that steps take turns in.
    pub fn buffer_bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Edges of a window, each counted at every step it is there.
    pub fn edges(&mut self, window: Range<Step>) -> Result<usize> {
        Ok(self.load(window)?.iter().map(|loaded| loaded.graph.edges()).sum())
    }

    fn load(&mut self, window: Range<Step>) -> Result<Vec<Arc<Loaded>>> {
        let frames = &self.frames;
        self.clock.time(Work::Load, || window.map(|t| frames.load(t)).collect())
    }

    /// Trains on one window: forward, backward, one step of the optimiser. The loss, or `None` where nothing is labelled.
    pub fn step(&mut self, window: Range<Step>, salt: u64) -> Result<Option<f32>> {
        let loaded = self.load(window.clone())?;
        let begun = std::time::Instant::now();
        let at: Vec<(usize, Step)> = window.clone().enumerate().collect();
        let at = if self.settings.loss_at_all() { &at[..] } else { &at[at.len() - 1..] };
        let hand_over = self.settings.train.mode == Mode::Truncated;
        let carried = self.carried.take();
        let look = Look { before: carried.as_ref(), hand_over };
        let random = Random::new(self.settings.train.seed).stream(DROPOUT);
        let dropout = (self.settings.model.dropout as f32, random.word(salt));
        let (done, after) = self.pass(&loaded, look, true, |goal, mut pass| {
            pass.dropout = dropout;
            let Some(loss) = goal.loss(&mut pass, at, salt)? else {
                // The state goes on, whether there is something to learn or not.
                goal.outputs(&mut pass)?;
                return Ok(None);
            };
            let value = pass.tape.value(loss)[0];
            if !value.is_finite() {
                return Ok(Some((value, Vec::new())));
            }
            let mut gradients = pass.tape.backward(loss)?;
            let take = |&var| gradients.take(var).unwrap_or_default();
            Ok(Some((value, pass.params.vars().iter().map(take).collect::<Vec<Buffer>>())))
        })?;
        self.carried = after;
        let loss = match done {
            None => None,
            Some((loss, gradients)) => {
                self.follow(loss, gradients, &window)?;
                Some(loss)
            }
        };
        self.clock.add(Work::Train, begun.elapsed());
        Ok(loss)
    }

    /// Changes the parameters by their gradients.
    fn follow(&mut self, loss: f32, mut gradients: Vec<Buffer>, window: &Range<Step>) -> Result<()> {
        let largest = if self.settings.train.clip > 0.0 { self.settings.train.clip as f32 } else { f32::MAX };
        let norm = if loss.is_finite() { clip_norm(&mut gradients, largest)? } else { f32::NAN };
        if !norm.is_finite() {
            let problem = format!(
                "the loss became {loss} (its gradient {norm}) in the window of steps {} to {}; nothing of it was kept. Lower \
                 train.learning_rate, set train.clip, or look for extreme values in the data",
                window.start,
                window.end - 1
            );
            return Err(Error::Diverged(problem));
        }
        let slices: Vec<&[f32]> = gradients.iter().map(|gradient| &**gradient).collect();
        let rate = self.schedule.rate(self.optimiser.state().steps);
        self.optimiser.step(&mut self.params.values, &slices, rate)?;
        gradients.into_iter().for_each(|gradient| self.arena.give(gradient));
        Ok(())
    }

    /// Runs the exchange of a window and hands the rest to `finish`; what the window leaves behind, if wanted.
    fn pass<T>(
        &self,
        loaded: &[Arc<Loaded>],
        look: Look<'_>,
        learning: bool,
        finish: impl FnOnce(&dyn Goal, Pass<'_, '_>) -> Result<T>,
    ) -> Result<(T, Option<Carried>)> {
        let vertices = self.frames.store().vertices();
        let kept = self.memory.clone().unwrap_or_default();
        let rows: Matrices = kept.rows.iter().map(|columns| vec![0.0; vertices * columns]).collect();
        let after = Mutex::new(if look.hand_over { rows } else { Vec::new() });
        let (done, exchange) = {
            let mut tape = Tape::new(&self.arena);
            let params =
                if learning { self.params.bind(&mut tape)? } else { self.params.bind_constant(&mut tape)? };
            let learnt = self.frames.inputs().learnt(&mut tape, &params)?;
            let mut window = Vec::with_capacity(loaded.len());
            for loaded in loaded {
                let features = self.frames.inputs().columns(&mut tape, &loaded.rows, &learnt)?;
                // Learnt columns change with every step of training, also where they are looked at as constants.
                let kept = learnt.is_empty().then_some(&loaded.kept);
                window.push(Frame { graph: &loaded.graph, features, kept });
            }
            let (mut before, mut before_rows) = (Vec::new(), Vec::new());
            if let Some(carried) = look.before {
                for (extent, values) in kept.exchange.iter().zip(&carried.exchange) {
                    before.push(tape.copied(extent.shape(vertices), values)?);
                }
                for (&columns, values) in kept.rows.iter().zip(&carried.rows) {
                    before_rows.push(tape.copied(Shape::new(vertices, columns), values)?);
                }
            }
            let exchanged = self.model.exchange(&mut tape, &params, &window, &before)?;
            let pass = Pass {
                tape: &mut tape,
                model: &*self.model,
                params: &params,
                exchanged: Exchanged::after(&exchanged, &before_rows),
                after: look.hand_over.then_some(&after),
                dropout: (0.0, 0),
            };
            let done = finish(&*self.goal, pass)?;
            let exchange: Matrices = match look.hand_over {
                true => exchanged.after.iter().map(|&var| tape.value(var).to_vec()).collect(),
                false => Vec::new(),
            };
            (done, exchange)
        };
        let rows = after.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok((done, look.hand_over.then_some(Carried { exchange, rows })))
    }

    /// Whether samples are looked at by going through all steps from the first, instead of through a window each.
    fn goes_through(&self) -> bool {
        self.settings.train.mode != Mode::Windows && self.memory.is_some()
    }

    /// What the model says at each of the samples, in order.
    pub fn outputs(
        &mut self,
        samples: Range<Step>,
        mut each: impl FnMut(&mut Learner, Step, Vec<f32>) -> Result<()>,
    ) -> Result<()> {
        if !self.goes_through() {
            let length = match self.settings.train.mode {
                Mode::Sequence => self.split().samples(Part::Train).len(),
                _ => self.settings.train.window,
            };
            for sample in samples {
                let (outputs, _) = self.look((sample + 1).saturating_sub(length)..sample + 1, None, false)?;
                each(self, sample, outputs)?;
            }
            return Ok(());
        }
        let mut carried: Option<Carried> = None;
        for step in 0..samples.end {
            let (outputs, after) = self.look(step..step + 1, carried.as_ref(), true)?;
            carried = after;
            if samples.contains(&step) {
                each(self, step, outputs)?;
            }
        }
        Ok(())
    }

    fn look(
        &mut self,
        window: Range<Step>,
        before: Option<&Carried>,
        hand_over: bool,
    ) -> Result<(Vec<f32>, Option<Carried>)> {
        let loaded = self.load(window)?;
        let begun = std::time::Instant::now();
        let look = Look { before, hand_over };
        let done = self.pass(&loaded, look, false, |goal, mut pass| goal.outputs(&mut pass));
        self.clock.add(Work::Predict, begun.elapsed());
        done
    }
}

fn optimiser(settings: &Settings) -> Box<dyn Optimiser> {
    let decay = settings.train.weight_decay as f32;
    let adam = |decay| Box::new(Adam::new(AdamSettings { decay, ..AdamSettings::default() }));
    match settings.train.optimiser.as_str() {
        "sgd" => Box::new(Sgd::new(SgdSettings { momentum: 0.9, weight_decay: decay })),
        "adamw" => adam(Decay::Decoupled(decay)),
        _ => adam(Decay::InGradient(decay)),
    }
}

fn schedule(settings: &Settings, steps_per_epoch: u64) -> Schedule {
    let (rate, epochs) = (settings.train.learning_rate as f32, settings.train.epochs as u64);
    match settings.train.schedule.as_str() {
        "step" => {
            let every = steps_per_epoch * settings.train.schedule_every as u64;
            Schedule::Step { rate, every, factor: 0.5 }
        }
        "cosine" => Schedule::Cosine { rate, warm_up: 0, steps: steps_per_epoch * epochs, lowest: 0.0 },
        _ => Schedule::Constant { rate },
    }
}
