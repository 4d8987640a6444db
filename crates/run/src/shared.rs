//! What all workers of a process share: the data, the task on it, the inputs and the model.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::{Step, Store};
use kymo_model::{Memory, Model, Slot, zoo};

use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::random::{Random, shuffle};
use crate::settings::{Mode, Settings};
use crate::split::Part;
use crate::task::{self, Goal};

/// The stream of random numbers that shuffles windows.
const WINDOWS: u64 = 0x3194;

/// Everything that does not change while a model is trained.
pub struct Shared {
    /// What decides what is computed.
    pub settings: Settings,
    /// The data.
    pub store: Arc<Store>,
    /// The task on the data.
    pub goal: Box<dyn Goal>,
    /// What is known of the vertices.
    pub inputs: Arc<Inputs>,
    /// The model.
    pub model: Box<dyn Model>,
    /// What it hands from one window to the next.
    pub memory: Option<Memory>,
    /// Steps of a window.
    pub window: usize,
}

impl Shared {
    /// Opens everything; fails where settings and data do not go together.
    pub fn open(settings: Settings, store: Arc<Store>) -> Result<Arc<Shared>> {
        settings.check()?;
        task::metrics_of(&settings)?;
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
        Ok(Arc::new(Shared { settings, store, goal, inputs: Arc::new(inputs), model, memory, window }))
    }

    /// Everything that is learnt.
    pub fn slots(&self) -> Vec<Slot> {
        [self.model.slots(), self.inputs.slots(), self.goal.slots(self.model.width())].concat()
    }

    /// The windows of an epoch.
    pub fn windows(&self) -> Vec<Range<Step>> {
        self.goal.split().windows(&self.settings)
    }

    /// Edges of each step.
    pub fn edges(&self) -> Result<Vec<f64>> {
        (0..self.store.steps()).map(|t| Ok(self.store.snapshot(t)?.len() as f64)).collect()
    }

    /// The windows of an epoch in the order in which they are trained on.
    pub fn order(&self, epoch: usize) -> Vec<Range<Step>> {
        let mut order = self.windows();
        // A state that is handed over follows time.
        if self.settings.train.mode == Mode::Windows {
            shuffle(&mut order, Random::new(self.settings.train.seed).stream(WINDOWS).stream(epoch as u64));
        }
        order
    }

    /// The places of a window at which its loss is taken, and their steps.
    pub fn losses_at(&self, window: &Range<Step>) -> Vec<(usize, Step)> {
        let mut at: Vec<(usize, Step)> = window.clone().enumerate().collect();
        if !self.settings.loss_at_all() {
            at.drain(..at.len().saturating_sub(1));
        }
        at
    }

    /// Whether samples are looked at by going through all steps from the first, instead of through a window each.
    pub fn goes_through(&self) -> bool {
        self.settings.train.mode != Mode::Windows && self.memory.is_some()
    }
}
