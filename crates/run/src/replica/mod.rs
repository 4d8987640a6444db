//! One worker's copy of what is learnt: parameters and optimiser, in the memory of the host or of a GPU.
//! Touches the engine alone; what the gradients are and how workers agree on them is decided elsewhere.

pub(crate) mod optimiser;

use kymo_model::{Bound, Params, Slot};
use kymo_tensor::optim::{DeviceParams, Optimiser, clip_norm};
use kymo_tensor::{Device, Numbers, Tape};

use crate::config::Settings;
use crate::error::Result;

/// Parameters and the optimiser that changes them.
pub struct Replica {
    /// What is learnt. While it is on a GPU, this copy is out of date.
    pub params: Params,
    /// How it is learnt.
    pub optimiser: Box<dyn Optimiser>,
    on_device: Option<DeviceParams>,
    /// The largest norm that a gradient may have.
    largest: f32,
}

impl Replica {
    /// Before the first step.
    pub fn new(slots: Vec<Slot>, settings: &Settings) -> Result<Replica> {
        let clip = settings.train.clip as f32;
        Ok(Replica {
            params: Params::new(slots, settings.train.seed)?,
            optimiser: optimiser::optimiser(settings),
            on_device: None,
            largest: if clip > 0.0 { clip } else { f32::MAX },
        })
    }

    /// Steps of the optimiser so far: the version of the parameters.
    pub fn version(&self) -> u64 {
        self.optimiser.state().steps
    }

    /// Bytes of parameters, their gradients and what the optimiser remembers.
    pub fn bytes(&self) -> usize {
        let remembered = self.optimiser.state().buffers.iter().map(Vec::len).sum::<usize>();
        4 * (2 * self.params.len() + remembered)
    }

    /// Sends the parameters to the GPU, where there is one and they are not there yet.
    pub fn send_to(&mut self, device: Option<&Device>) -> Result<()> {
        if let (Some(device), None) = (device, &self.on_device) {
            let (state, copies) = (self.optimiser.state(), self.optimiser.copies());
            self.on_device = Some(DeviceParams::send(device, &self.params.values, state, copies)?);
        }
        Ok(())
    }

    /// Brings the parameters and what the optimiser remembers back from the GPU, if they are there: to be
    /// read or saved.
    pub fn bring_home(&mut self) -> Result<()> {
        if let Some(on_device) = self.on_device.take() {
            let steps = self.version();
            let state = on_device.bring_home(&mut self.params.values, steps)?;
            self.optimiser.restore(state);
        }
        Ok(())
    }

    /// The parameters on a tape, to be learnt or only to be read.
    pub fn bind<'a>(&'a self, tape: &mut Tape<'a>, learning: bool) -> Result<Bound<'a>> {
        Ok(match &self.on_device {
            Some(on_device) => self.params.bind_on_device(tape, on_device, learning)?,
            None if learning => self.params.bind(tape)?,
            None => self.params.bind_constant(tape)?,
        })
    }

    /// Adds gradients to those on the GPU, or replaces them; false where parameters are on the host, which
    /// has the sums.
    pub fn add_on_device(&self, gradients: &[Numbers], adds: bool) -> Result<bool> {
        match &self.on_device {
            Some(on_device) => on_device.add(gradients, adds).map(|()| true).map_err(Into::into),
            None => Ok(false),
        }
    }

    /// One step of the optimiser along the mean gradient of `windows` windows, unless its norm, which is
    /// returned, is not finite: then nothing changes.
    pub fn step(&mut self, mut gradients: Vec<&mut [f32]>, windows: usize, rate: f32) -> Result<f32> {
        let largest = self.largest;
        if let Some(on_device) = &self.on_device {
            // Those on a GPU are summed there, and are still sums.
            let norm = on_device.norm()? / windows as f32;
            if norm.is_finite() {
                let factor = if norm > largest { largest / norm } else { 1.0 };
                self.optimiser.step_on(on_device, factor / windows as f32, rate)?;
            }
            return Ok(norm);
        }
        let norm = clip_norm(&mut gradients, largest)?;
        if norm.is_finite() {
            let slices: Vec<&[f32]> = gradients.into_iter().map(|slice| &*slice).collect();
            self.optimiser.step(&mut self.params.values, &slices, rate)?;
        }
        Ok(norm)
    }
}
