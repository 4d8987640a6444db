//! Parameters on a GPU: one after the other in one memory, with their gradient and what the optimiser
//! remembers of them.
//!
//! While they are away, what the host has of them is out of date; [`DeviceParams::bring_home`] mends that.

use super::State;
use crate::cuda::{Argument, Device, Launch, Memory, Slice, Source};
use crate::error::{Error, Result};
use crate::tape::{DEVICE, Numbers};

/// The kernels of all optimisers.
pub(crate) const UPDATE: Source = Source { name: "update", text: include_str!("update.cu"), samples: &[&[]] };

/// Shares of the numbers that are summed side by side for a norm.
const SHARES: usize = 256;

/// Parameters on a GPU.
pub struct DeviceParams {
    device: Device,
    /// Where each parameter begins, and the end of the last.
    starts: Vec<usize>,
    starts_on: Memory,
    parameters: Memory,
    gradient: Memory,
    /// What the optimiser remembers, a copy after the other, each as long as all parameters.
    remembered: Vec<Memory>,
    /// Room for a norm and its parts.
    norm: Memory,
}

impl DeviceParams {
    /// Sends parameters to a GPU, and what an optimiser remembers: `copies` numbers for each of theirs.
    pub fn send(
        device: &Device,
        parameters: &[Vec<f32>],
        state: &State,
        copies: usize,
    ) -> Result<DeviceParams> {
        let mut starts = vec![0];
        for parameter in parameters {
            starts.push(starts[starts.len() - 1] + parameter.len());
        }
        let all = starts[starts.len() - 1];
        let flat = |vectors: &[Vec<f32>]| device.upload(&vectors.concat());
        let remembered = match state.buffers.is_empty() {
            true => (0..copies)
                .map(|_| {
                    let memory = device.take(all)?;
                    device.clear(memory.all())?;
                    Ok(memory)
                })
                .collect::<Result<Vec<Memory>>>()?,
            false => state.buffers.chunks(parameters.len().max(1)).map(flat).collect::<Result<_>>()?,
        };
        if remembered.len() != copies || remembered.iter().any(|memory| memory.len() != all) {
            return Err(Error::shape("optimiser", "its state belongs to other parameters"));
        }
        Ok(DeviceParams {
            parameters: flat(parameters)?,
            gradient: device.take(all)?,
            starts_on: device.upload(&starts.iter().map(|&start| start as i64).collect::<Vec<_>>())?,
            norm: device.take(2 * SHARES + 1)?,
            starts,
            remembered,
            device: device.clone(),
        })
    }

    /// Where a parameter is.
    pub fn parameter(&self, number: usize) -> Slice<'_> {
        self.parameters.all().range(self.starts[number]..self.starts[number + 1])
    }

    /// Takes the gradients of all parameters over, or adds them to those before. An empty one stands for
    /// zeros; one that is not on the GPU is an error.
    pub fn add(&self, gradients: &[Numbers], adds: bool) -> Result<()> {
        let address = |gradient: &Numbers| match gradient {
            Numbers::Device(memory) => Ok(memory.all().at()),
            nothing if nothing.is_empty() => Ok(0),
            other => Err(other.elsewhere("gradients", DEVICE)),
        };
        let addresses: Vec<u64> = gradients.iter().map(address).collect::<Result<_>>()?;
        let addresses = self.device.upload(&addresses)?;
        let arguments = [
            Argument::from(gradients.len() as i32),
            self.starts_on.all().into(),
            addresses.all().into(),
            self.gradient.all().into(),
            adds.into(),
        ];
        self.device.each(&UPDATE, "collect", self.gradient.len(), &arguments)
    }

    /// The norm of the gradient.
    pub fn norm(&self) -> Result<f32> {
        let [norm, parts] = [self.norm.all().range(2 * SHARES..2 * SHARES + 1), self.norm.all()];
        let (count, gradient) = (self.gradient.len(), self.gradient.all());
        let launch = Launch::blocks(SHARES);
        self.device.run(&UPDATE, "squares", &[], launch, &[count.into(), gradient.into(), parts.into()])?;
        let arguments = [SHARES.into(), parts.into(), norm.into()];
        self.device.run(&UPDATE, "norm_of_squares", &[], Launch::blocks(1), &arguments)?;
        Ok(self.device.read(norm)?[0])
    }

    /// Runs the kernel of an optimiser over all parameters, with these numbers as its last arguments.
    pub(super) fn update(&self, kernel: &'static str, copies: usize, numbers: &[f32]) -> Result<()> {
        let mut arguments: Vec<Argument> = vec![self.parameters.all().into(), self.gradient.all().into()];
        arguments.extend(self.remembered[..copies].iter().map(|memory| Argument::from(memory.all())));
        arguments.extend(numbers.iter().map(|&number| Argument::from(number)));
        self.device.each(&UPDATE, kernel, self.parameters.len(), &arguments)
    }

    /// The parameters, and what the optimiser remembers of them, as they are now.
    pub fn bring_home(&self, parameters: &mut [Vec<f32>], steps: u64) -> Result<State> {
        let values = self.device.read(self.parameters.all())?;
        for (parameter, range) in parameters.iter_mut().zip(self.starts.windows(2)) {
            parameter.copy_from_slice(&values[range[0]..range[1]]);
        }
        let mut buffers = Vec::with_capacity(self.remembered.len() * parameters.len());
        for memory in &self.remembered {
            let values = self.device.read(memory.all())?;
            buffers.extend(self.starts.windows(2).map(|range| values[range[0]..range[1]].to_vec()));
        }
        Ok(State { steps, buffers: if steps == 0 { Vec::new() } else { buffers } })
    }
}
