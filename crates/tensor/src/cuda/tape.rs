//! A tape that works on a GPU: the same list of operations, their values and gradients in its memory.
//!
//! Gradients are written where nothing was before and added to otherwise, so nothing is filled with zeros
//! first.

use super::call::{Back, Call, Slice, Sum, View};
use super::device::{Device, Launch};
use super::kernels::Source;
use super::memory::Memory;
use super::resident::resident;
use crate::arena::Arena;
use crate::backward::{Place, Undone, Wanted};
use crate::error::Result;
use crate::op::{Few, Op, Shape};
use crate::tape::{DEVICE, Numbers, Tape, Value, Var};

/// The kernel that fills memory with one number.
pub(crate) const FILL: Source = Source { name: "fill", text: include_str!("fill.cu"), samples: &[&[]] };

impl Device {
    /// Fills with one number.
    pub(crate) fn fill(&self, at: Slice<'_>, value: f32) -> Result<()> {
        if value.to_bits() == 0 {
            return self.clear(at);
        }
        self.each(&FILL, "fill", at.len(), &[at.into(), value.into()])
    }

    /// `sum += x`.
    fn accumulate(&self, sum: Slice<'_>, x: Slice<'_>) -> Result<()> {
        self.run(&FILL, "add", &[], Launch::each(x.len()), &[x.len().into(), x.into(), sum.into()])
    }
}

impl<'a> Tape<'a> {
    /// Where the numbers of a matrix are on the GPU; those of the host are brought there when they are first
    /// needed.
    pub(crate) fn slice(&self, device: &Device, var: Var) -> Result<Slice<'_>> {
        let node = &self.nodes[var.0];
        match &node.value {
            Value::Made(Numbers::Device(memory)) => Ok(memory.all()),
            Value::Resident(slice) => Ok(*slice),
            Value::Shared(memory) => Ok(memory.all()),
            Value::Kept(numbers) => match &**numbers {
                Numbers::Device(memory) => Ok(memory.all()),
                other => Err(other.elsewhere("kept", DEVICE)),
            },
            Value::Filled(value) => resident(&node.brought, || {
                let memory = device.take(node.shape.len())?;
                device.fill(memory.all(), *value)?;
                Ok(memory)
            }),
            Value::Waiting => resident(&node.brought, || {
                let output = device.take(node.shape.len())?;
                let (views, nothing) = (self.device_views(device, &node.inputs)?, device.take(0)?);
                if let Some(op) = &node.op {
                    op.cuda(Call { device, inputs: &views, output: output.all(), saved: nothing.all() })?;
                }
                Ok(output)
            }),
            value => resident(&node.brought, || device.upload(value.host()?)),
        }
    }

    fn device_views(&self, device: &Device, inputs: &[Var]) -> Result<Vec<View<'_>>> {
        let view = |&input| Ok(View { shape: self.shape(input), values: self.slice(device, input)? });
        inputs.iter().map(view).collect()
    }

    pub(crate) fn apply_on(
        &mut self,
        device: &Device,
        op: Box<dyn Op + 'a>,
        inputs: &[Var],
        shapes: &[Shape],
        shape: Shape,
    ) -> Result<Var> {
        if op.waits() {
            return Ok(self.waiting(op, inputs, shape));
        }
        let (output, saved) = (device.take(shape.len())?, device.take(op.saved(shapes))?);
        let views = self.device_views(device, inputs)?;
        op.cuda(Call { device, inputs: &views, output: output.all(), saved: saved.all() })?;
        let made = (Numbers::Device(output), Numbers::Device(saved));
        Ok(self.applied(op, inputs, shape, made))
    }
}

impl From<Memory> for Numbers {
    fn from(memory: Memory) -> Self {
        Numbers::Device(memory)
    }
}

impl<'a> Place<'a> for Device {
    type Sum = Memory;

    fn zeros(&self, _: &Tape<'a>, length: usize) -> Result<Memory> {
        let memory = self.take(length)?;
        self.clear(memory.all())?;
        Ok(memory)
    }

    fn undo(
        &self,
        tape: &Tape<'a>,
        Undone { var, op, node }: Undone<'_, 'a>,
        upstream: &Memory,
        inputs: Few<Wanted<Memory>>,
    ) -> Result<Few<Option<Memory>>> {
        let mut sums: Vec<Option<(Memory, bool)>> = Vec::with_capacity(inputs.len());
        for (wanted, &input) in inputs.into_iter().zip(&node.inputs) {
            sums.push(match wanted {
                Wanted::No => None,
                Wanted::Onto(sum) => Some((sum, true)),
                Wanted::New => Some((self.take(tape.shape(input).len())?, false)),
            });
        }
        let views = tape.device_views(self, &node.inputs)?;
        let shapes: Vec<Shape> = views.iter().map(|view| view.shape).collect();
        let scratch = self.take(op.scratch(&shapes))?;
        let (output, nothing) = (tape.slice(self, var)?, self.take(0)?);
        let saved = match &node.saved {
            Numbers::Device(saved) => saved,
            // Operations that wait to be computed save nothing.
            Numbers::Host(values) if values.is_empty() => &nothing,
            other => return Err(other.elsewhere(op.name(), DEVICE)),
        };
        let gradients: Vec<Option<Sum<'_>>> = sums
            .iter()
            .map(|sum| sum.as_ref().map(|(memory, adds)| Sum { values: memory.all(), adds: *adds }))
            .collect();
        op.cuda_back(Back {
            device: self,
            inputs: &views,
            output: View { shape: node.shape, values: output },
            saved: saved.all(),
            upstream: upstream.all(),
            scratch: scratch.all(),
            gradients: &gradients,
        })?;
        Ok(sums.into_iter().map(|sum| sum.map(|(memory, _)| memory)).collect())
    }

    fn add(&self, sum: &mut Memory, other: Memory, _: &Arena) -> Result<()> {
        self.accumulate(sum.all(), other.all())
    }

    fn release(&self, sum: Memory, _: &Arena) {
        drop(sum);
    }
}
