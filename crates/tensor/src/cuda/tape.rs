//! A tape that works on a GPU: the same list of operations, their values and gradients in its memory.
//!
//! Gradients are written where nothing was before and added to otherwise, so nothing is filled with zeros first.

use super::call::{Back, Call, Slice, Sum, View};
use super::device::{Device, Launch};
use super::kernels::Source;
use super::memory::Memory;
use super::resident::resident;
use crate::error::Result;
use crate::op::{Op, Shape};
use crate::tape::{Gradients, Numbers, Tape, Value, Var};

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
    fn add(&self, sum: Slice<'_>, x: Slice<'_>) -> Result<()> {
        self.run(&FILL, "add", &[], Launch::each(x.len()), &[x.len().into(), x.into(), sum.into()])
    }
}

impl<'a> Tape<'a> {
    /// Where the numbers of a matrix are on the GPU; those of the host are brought there when they are first needed.
    pub(crate) fn slice(&self, device: &Device, var: Var) -> Result<Slice<'_>> {
        let node = &self.nodes[var.0];
        match &node.value {
            Value::Made(Numbers::Device(memory)) => Ok(memory.all()),
            Value::Resident(slice) => Ok(*slice),
            Value::Shared(memory) => Ok(memory.all()),
            Value::Filled(value) => resident(&node.brought, || {
                let memory = device.take(node.shape.len())?;
                device.fill(memory.all(), *value)?;
                Ok(memory)
            }),
            Value::Waiting => resident(&node.brought, || {
                let output = device.take(node.shape.len())?;
                let (views, nothing) = (self.views(device, &node.inputs)?, device.take(0)?);
                if let Some(op) = &node.op {
                    op.cuda(Call { device, inputs: &views, output: output.all(), saved: nothing.all() })?;
                }
                Ok(output)
            }),
            value => resident(&node.brought, || device.upload(value.host())),
        }
    }

    fn views(&self, device: &Device, inputs: &[Var]) -> Result<Vec<View<'_>>> {
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
        let views = self.views(device, inputs)?;
        op.cuda(Call { device, inputs: &views, output: output.all(), saved: saved.all() })?;
        let made = (Numbers::Device(output), Numbers::Device(saved));
        Ok(self.applied(op, inputs, shape, made))
    }

    pub(crate) fn backward_on(&self, device: &Device, from: Var, seed: &[f32]) -> Result<Gradients<'a>> {
        let mut all: Vec<Option<Memory>> = self.nodes.iter().map(|_| None).collect();
        all[from.0] = Some(device.upload(seed)?);
        for index in (0..=from.0).rev() {
            let node = &self.nodes[index];
            let Some(op) = node.op.as_ref().filter(|_| node.wants_gradient) else { continue };
            let Some(upstream) = all[index].take() else { continue };
            let begun = self.begun();
            // An input that is used twice gets a second memory for its second use.
            let mut sums: Vec<Option<(Memory, bool)>> = Vec::with_capacity(node.inputs.len());
            for input in &node.inputs {
                let other = &self.nodes[input.0];
                sums.push(match (other.wants_gradient, all[input.0].take()) {
                    (false, _) => None,
                    (true, Some(sum)) => Some((sum, true)),
                    (true, None) => Some((device.take(other.shape.len())?, false)),
                });
            }
            let views = self.views(device, &node.inputs)?;
            let shapes: Vec<Shape> = views.iter().map(|view| view.shape).collect();
            let scratch = device.take(op.scratch(&shapes))?;
            let (output, nothing) = (self.slice(device, Var(index))?, device.take(0)?);
            let saved = match &node.saved {
                Numbers::Device(saved) => saved,
                Numbers::Host(_) | Numbers::Dry(_) => &nothing,
            };
            let gradients: Vec<Option<Sum<'_>>> = sums
                .iter()
                .map(|sum| sum.as_ref().map(|(memory, adds)| Sum { values: memory.all(), adds: *adds }))
                .collect();
            op.cuda_back(Back {
                device,
                inputs: &views,
                output: View { shape: node.shape, values: output },
                saved: saved.all(),
                upstream: upstream.all(),
                scratch: scratch.all(),
                gradients: &gradients,
            })?;
            for (input, sum) in node.inputs.iter().zip(sums) {
                let Some((memory, _)) = sum else { continue };
                match &all[input.0] {
                    Some(first) => device.add(first.all(), memory.all())?,
                    None => all[input.0] = Some(memory),
                }
            }
            self.count_back(index, begun)?;
        }
        let all = all.into_iter().map(|gradient| gradient.map(Numbers::Device)).collect();
        Ok(Gradients { arena: self.arena, all })
    }
}
