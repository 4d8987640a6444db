//! The tape: operations in the order in which they were applied, and the way back.
//!
//! The way back follows the list from its end, not pointers between tensors: the order is the same on every worker, which
//! operations that take part in an exchange rely on.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::arena::{Arena, Buffer};
use crate::clock::{Clock, Of};
use crate::cuda::{Held, Memory, Slice};
use crate::dry::Lot;
use crate::error::{Error, Result};
use crate::op::{Back, Op, Shape, View};

/// A matrix on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Var(pub(crate) usize);

/// Numbers that a tape made, where it works.
#[derive(Debug)]
pub enum Numbers {
    /// In the memory of the host.
    Host(Buffer),
    /// In the memory of a GPU.
    Device(Memory),
    /// Nowhere: nothing is computed.
    Dry(Lot),
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers::Host(Buffer::default())
    }
}

impl Numbers {
    /// Those in the memory of the host, or none.
    pub fn host(&self) -> &[f32] {
        match self {
            Numbers::Host(values) => values,
            Numbers::Device(_) | Numbers::Dry(_) => &[],
        }
    }

    /// Those in the memory of the host, to be kept.
    pub(crate) fn into_host(self) -> Option<Buffer> {
        match self {
            Numbers::Host(values) => Some(values),
            Numbers::Device(_) | Numbers::Dry(_) => None,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Host(values) => values.len(),
            Numbers::Device(memory) => memory.len(),
            Numbers::Dry(lot) => lot.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives memory back to where it came from.
    pub fn give(self, arena: &Arena) {
        if let Numbers::Host(buffer) = self {
            arena.give(buffer);
        }
    }
}

pub(crate) enum Value<'a> {
    Made(Numbers),
    Borrowed(&'a [f32]),
    /// Numbers that are on the GPU already.
    Resident(Slice<'a>),
    /// Numbers that are on the GPU already and are held by others, too.
    Shared(Arc<Memory>),
    /// The same number everywhere, on a tape that works on a GPU.
    Filled(f32),
    /// What the operation will come to when somebody reads it, on a tape that works on a GPU.
    Waiting,
}

impl Value<'_> {
    /// The numbers, as far as they are in the memory of the host.
    pub(crate) fn host(&self) -> &[f32] {
        match self {
            Value::Made(numbers) => numbers.host(),
            Value::Borrowed(values) => values,
            Value::Resident(_) | Value::Shared(_) | Value::Filled(_) | Value::Waiting => &[],
        }
    }
}

pub(crate) struct Node<'a> {
    pub(crate) op: Option<Box<dyn Op + 'a>>,
    pub(crate) inputs: Vec<Var>,
    pub(crate) shape: Shape,
    pub(crate) value: Value<'a>,
    /// What was brought to the GPU of a value of the host.
    pub(crate) brought: OnceLock<Memory>,
    /// What would be brought there, where nothing is computed.
    pub(crate) lot: OnceLock<Lot>,
    pub(crate) saved: Numbers,
    pub(crate) wants_gradient: bool,
    /// The snapshot it belongs to, where a clock is on.
    pub(crate) of: Of,
}

impl<'a> Node<'a> {
    fn input(shape: Shape, value: Value<'a>, wants_gradient: bool) -> Self {
        Node {
            op: None,
            inputs: Vec::new(),
            shape,
            value,
            brought: OnceLock::new(),
            lot: OnceLock::new(),
            saved: Numbers::default(),
            wants_gradient,
            of: Of::Nothing,
        }
    }
}

/// Operations and their values, from the first to the last.
pub struct Tape<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) nodes: Vec<Node<'a>>,
    /// Where the time goes, if anybody wants to know.
    pub(crate) clock: Option<RefCell<Clock>>,
}

impl<'a> Tape<'a> {
    /// An empty tape that takes its buffers from `arena`.
    pub fn new(arena: &'a Arena) -> Self {
        Tape { arena, nodes: Vec::new(), clock: None }
    }

    /// Where buffers come from.
    pub fn arena(&self) -> &'a Arena {
        self.arena
    }

    /// A matrix that needs no gradient.
    pub fn constant(&mut self, shape: Shape, values: &'a [f32]) -> Result<Var> {
        self.input(shape, values, false)
    }

    /// A matrix whose gradient is wanted.
    pub fn parameter(&mut self, shape: Shape, values: &'a [f32]) -> Result<Var> {
        self.input(shape, values, true)
    }

    fn input(&mut self, shape: Shape, values: &'a [f32], wants_gradient: bool) -> Result<Var> {
        if shape.len() != values.len() {
            return Err(Error::shape("input", format!("{} values were given for {shape}", values.len())));
        }
        Ok(self.push(Node::input(shape, Value::Borrowed(values), wants_gradient)))
    }

    /// A matrix that does not change from tape to tape: a tape on a GPU finds it there.
    pub fn held(&mut self, shape: Shape, values: &'a Held) -> Result<Var> {
        if let Some(ledger) = self.arena.ledger() {
            ledger.hold(values, values.len());
            return Ok(self.push(Node::input(shape, Value::Resident(Slice::nowhere(shape.len())), false)));
        }
        match self.arena.device() {
            None => self.constant(shape, values),
            Some(device) => self.resident(shape, values.on(device)?, false),
        }
    }

    /// Some rows of a matrix that does not change from tape to tape, for as long as this tape lives: copied on the host, found on a
    /// GPU, where all rows are asked for.
    pub fn held_rows(&mut self, columns: usize, values: &Held, rows: Range<usize>) -> Result<Var> {
        let shape = Shape::new(rows.len(), columns);
        match self.arena.device() {
            Some(device) if shape.len() == values.len() => {
                let memory = values.shared(device)?.clone();
                Ok(self.push(Node::input(shape, Value::Shared(memory), false)))
            }
            _ => self.copied(shape, values.get(rows.start * columns..rows.end * columns).unwrap_or_default()),
        }
    }

    /// A matrix that a tape made and that was kept ([`Tape::copy_of`]).
    pub fn kept(&mut self, shape: Shape, values: &'a Numbers) -> Result<Var> {
        match values {
            Numbers::Host(values) => self.constant(shape, values),
            Numbers::Device(memory) => self.resident(shape, memory.all(), false),
            Numbers::Dry(lot) => self.resident(shape, Slice::nowhere(lot.len()), false),
        }
    }

    /// A copy of a matrix that outlives the tape, where the tape works.
    pub fn copy_of(&self, var: Var) -> Result<Numbers> {
        if let Some(ledger) = self.arena.ledger() {
            return Ok(Numbers::Dry(Lot::new(ledger, self.shape(var).len())));
        }
        let Some(device) = self.arena.device() else {
            return Ok(Numbers::Host(Buffer::from(self.value(var))));
        };
        let values = self.slice(device, var)?;
        let copy = device.take(values.len())?;
        device.copy(values, copy.all())?;
        Ok(Numbers::Device(copy))
    }

    /// A matrix that is on the GPU already, where this tape works.
    pub fn resident(&mut self, shape: Shape, values: Slice<'a>, wants_gradient: bool) -> Result<Var> {
        if shape.len() != values.len() {
            return Err(Error::shape("input", format!("{} values were given for {shape}", values.len())));
        }
        Ok(self.push(Node::input(shape, Value::Resident(values), wants_gradient)))
    }

    /// A matrix that needs no gradient, copied: for values that do not live as long as the tape.
    pub fn copied(&mut self, shape: Shape, values: &[f32]) -> Result<Var> {
        if shape.len() != values.len() {
            return Err(Error::shape("input", format!("{} values were given for {shape}", values.len())));
        }
        let copy = self.arena.copied(values);
        Ok(self.push(Node::input(shape, Value::Made(Numbers::Host(copy)), false)))
    }

    /// A constant matrix of one number.
    pub fn filled(&mut self, shape: Shape, value: f32) -> Var {
        if self.arena.is_elsewhere() {
            return self.push(Node::input(shape, Value::Filled(value), false));
        }
        let mut values = self.arena.take(shape.len());
        values.fill(value);
        self.push(Node::input(shape, Value::Made(Numbers::Host(values)), false))
    }

    pub(crate) fn push(&mut self, node: Node<'a>) -> Var {
        self.nodes.push(Node { of: self.now(), ..node });
        Var(self.nodes.len() - 1)
    }

    /// Applies an operation.
    pub fn apply(&mut self, op: impl Op + 'a, inputs: &[Var]) -> Result<Var> {
        let begun = self.begun();
        let var = self.apply_anywhere(op, inputs)?;
        self.count(var, begun)?;
        Ok(var)
    }

    fn apply_anywhere(&mut self, op: impl Op + 'a, inputs: &[Var]) -> Result<Var> {
        let shapes: Vec<Shape> = inputs.iter().map(|&input| self.shape(input)).collect();
        let shape = op.shape(&shapes)?;
        if let Some(device) = self.arena.device() {
            return self.apply_on(device, Box::new(op), inputs, &shapes, shape);
        }
        if let Some(ledger) = self.arena.ledger() {
            return Ok(self.apply_dry(ledger, Box::new(op), inputs, &shapes, shape));
        }
        let mut values = self.arena.take(shape.len());
        let mut saved = self.arena.take(op.saved(&shapes));
        let views: Vec<View<'_>> = inputs.iter().map(|&input| self.view(input)).collect();
        op.forward(&views, &mut values, &mut saved)?;
        let made = (Numbers::Host(values), Numbers::Host(saved));
        Ok(self.applied(Box::new(op), inputs, shape, made))
    }

    pub(crate) fn applied(
        &mut self,
        op: Box<dyn Op + 'a>,
        inputs: &[Var],
        shape: Shape,
        (values, saved): (Numbers, Numbers),
    ) -> Var {
        self.noted(op, inputs, shape, (Value::Made(values), saved))
    }

    /// Notes an operation that waits to be computed.
    pub(crate) fn waiting(&mut self, op: Box<dyn Op + 'a>, inputs: &[Var], shape: Shape) -> Var {
        self.noted(op, inputs, shape, (Value::Waiting, Numbers::default()))
    }

    fn noted(
        &mut self,
        op: Box<dyn Op + 'a>,
        inputs: &[Var],
        shape: Shape,
        (value, saved): (Value<'a>, Numbers),
    ) -> Var {
        self.push(Node {
            op: Some(op),
            inputs: inputs.to_vec(),
            shape,
            value,
            brought: OnceLock::new(),
            lot: OnceLock::new(),
            saved,
            wants_gradient: inputs.iter().any(|input| self.nodes[input.0].wants_gradient),
            of: Of::Nothing,
        })
    }

    /// The shape of a matrix.
    pub fn shape(&self, var: Var) -> Shape {
        self.nodes[var.0].shape
    }

    /// The numbers of a matrix on a tape that works in the memory of the host; [`Tape::read`] works everywhere.
    pub fn value(&self, var: Var) -> &[f32] {
        self.nodes[var.0].value.host()
    }

    /// The numbers of a matrix, brought back from the GPU where they are there.
    pub fn read(&self, var: Var) -> Result<Cow<'_, [f32]>> {
        if self.arena.ledger().is_some() {
            return Ok(Cow::Owned(vec![0.0; self.shape(var).len()]));
        }
        match self.arena.device() {
            None => Ok(Cow::Borrowed(self.value(var))),
            Some(device) => Ok(Cow::Owned(device.read(self.slice(device, var)?)?)),
        }
    }

    /// A matrix to be read.
    pub fn view(&self, var: Var) -> View<'_> {
        View { shape: self.shape(var), values: self.value(var) }
    }

    /// Whether a gradient flows through a matrix.
    pub fn wants_gradient(&self, var: Var) -> bool {
        self.nodes[var.0].wants_gradient
    }

    /// The gradients of one number with respect to all parameters before it.
    ///
    /// The number should be the last that is computed: collective operations behind it are not undone.
    pub fn backward(&self, from: Var) -> Result<Gradients<'a>> {
        if self.shape(from) != Shape::SCALAR {
            let problem = format!("the gradient of {} was asked for, expected one number", self.shape(from));
            return Err(Error::shape("backward", problem));
        }
        self.backward_with(from, &[1.0])
    }

    /// The gradients of `sum(seed * from)`.
    pub fn backward_with(&self, from: Var, seed: &[f32]) -> Result<Gradients<'a>> {
        if let Some(device) = self.arena.device() {
            return self.backward_on(device, from, seed);
        }
        if let Some(ledger) = self.arena.ledger() {
            return self.backward_dry(ledger, from);
        }
        self.backward_onto(from, seed, [])
    }

    /// The gradients of `sum(seed * from)`, added to those that are given: they are found where gradients of their matrices are.
    pub(crate) fn backward_onto(
        &self,
        from: Var,
        seed: &[f32],
        begun: impl IntoIterator<Item = (Var, Buffer)>,
    ) -> Result<Gradients<'a>> {
        let mut all: Vec<Option<Buffer>> = self.nodes.iter().map(|_| None).collect();
        begun.into_iter().for_each(|(var, sum)| all[var.0] = Some(sum));
        all[from.0] = Some(self.arena.copied(seed));
        for index in (0..=from.0).rev() {
            let node = &self.nodes[index];
            let Some(op) = node.op.as_ref().filter(|_| node.wants_gradient) else { continue };
            let upstream = match all[index].take() {
                Some(upstream) => upstream,
                None if op.collective() => self.arena.zeros(node.shape.len()),
                None => continue,
            };
            let begun = self.begun();
            // An input that is used twice gets a second buffer for its second use.
            let mut buffers: Vec<Option<Buffer>> = Vec::with_capacity(node.inputs.len());
            let mut ready = vec![false; node.inputs.len()];
            for (number, input) in node.inputs.iter().enumerate() {
                let wanted = self.nodes[input.0].wants_gradient;
                let mut fresh = || {
                    let made = op.ready(number, &upstream);
                    ready[number] = made.is_some();
                    made.unwrap_or_else(|| self.arena.zeros(self.nodes[input.0].shape.len()))
                };
                buffers.push(wanted.then(|| all[input.0].take().unwrap_or_else(&mut fresh)));
            }
            let views: Vec<View<'_>> = node.inputs.iter().map(|&input| self.view(input)).collect();
            let slots = buffers.iter_mut().zip(&ready);
            let mut slots: Vec<Option<&mut [f32]>> =
                slots.map(|(buffer, ready)| buffer.as_deref_mut().filter(|_| !ready)).collect();
            let shapes: Vec<Shape> = views.iter().map(|view| view.shape).collect();
            let mut scratch = self.arena.take(op.scratch(&shapes));
            op.backward(Back {
                inputs: &views,
                output: View { shape: node.shape, values: node.value.host() },
                saved: node.saved.host(),
                upstream: &upstream,
                scratch: &mut scratch,
                gradients: &mut slots,
            })?;
            for (input, buffer) in node.inputs.iter().zip(buffers) {
                let Some(buffer) = buffer else { continue };
                match &mut all[input.0] {
                    Some(sum) => {
                        sum.iter_mut().zip(buffer.iter()).for_each(|(sum, value)| *sum += value);
                        self.arena.give(buffer);
                    }
                    none => *none = Some(buffer),
                }
            }
            self.arena.give(scratch);
            self.arena.give(upstream);
            self.count_back(index, begun)?;
        }
        let all = all.into_iter().map(|gradient| gradient.map(Numbers::Host)).collect();
        Ok(Gradients { arena: self.arena, all })
    }
}

impl Drop for Tape<'_> {
    fn drop(&mut self) {
        for node in self.nodes.drain(..) {
            if let Value::Made(values) = node.value {
                values.give(self.arena);
            }
            node.saved.give(self.arena);
        }
    }
}

/// Gradients of parameters.
pub struct Gradients<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) all: Vec<Option<Numbers>>,
}

impl Gradients<'_> {
    /// The gradient of a parameter, on a tape that works in the memory of the host; `None` where nothing depends on it.
    pub fn of(&self, var: Var) -> Option<&[f32]> {
        Some(self.all.get(var.0)?.as_ref()?.host())
    }

    /// The gradient of a parameter, brought back from the GPU where it is there; `None` where nothing depends on it.
    pub fn read(&self, var: Var) -> Result<Option<Cow<'_, [f32]>>> {
        Ok(match self.all.get(var.0) {
            Some(Some(Numbers::Host(values))) => Some(Cow::Borrowed(values)),
            Some(Some(Numbers::Device(memory))) => Some(Cow::Owned(memory.device().read(memory.all())?)),
            _ => None,
        })
    }

    /// Takes the gradient of a parameter out, so that it can outlive the tape, which borrows the parameters that an
    /// optimiser is about to change. It belongs to the arena, to which it is to be given back.
    pub fn take(&mut self, var: Var) -> Option<Numbers> {
        self.all.get_mut(var.0)?.take()
    }
}

impl Drop for Gradients<'_> {
    fn drop(&mut self) {
        self.all.drain(..).flatten().for_each(|numbers| numbers.give(self.arena));
    }
}
