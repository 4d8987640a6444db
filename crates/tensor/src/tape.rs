//! The tape: operations in the order in which they were applied, and the way back.
//!
//! The way back follows the list from its end, not pointers between tensors: the order is the same on every worker, which
//! operations that take part in an exchange rely on.

use crate::arena::{Arena, Buffer};
use crate::error::{Error, Result};
use crate::op::{Back, Op, Shape, View};

/// A matrix on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Var(usize);

enum Value<'a> {
    Owned(Buffer),
    Borrowed(&'a [f32]),
}

impl Value<'_> {
    fn get(&self) -> &[f32] {
        match self {
            Value::Owned(values) => values,
            Value::Borrowed(values) => values,
        }
    }
}

struct Node<'a> {
    op: Option<Box<dyn Op + 'a>>,
    inputs: Vec<Var>,
    shape: Shape,
    value: Value<'a>,
    saved: Buffer,
    wants_gradient: bool,
}

/// Operations and their values, from the first to the last.
pub struct Tape<'a> {
    arena: &'a Arena,
    nodes: Vec<Node<'a>>,
}

impl<'a> Tape<'a> {
    /// An empty tape that takes its buffers from `arena`.
    pub fn new(arena: &'a Arena) -> Self {
        Tape { arena, nodes: Vec::new() }
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
        Ok(self.push(Node {
            op: None,
            inputs: Vec::new(),
            shape,
            value: Value::Borrowed(values),
            saved: Buffer::default(),
            wants_gradient,
        }))
    }

    /// A matrix that needs no gradient, copied: for values that do not live as long as the tape.
    pub fn copied(&mut self, shape: Shape, values: &[f32]) -> Result<Var> {
        if shape.len() != values.len() {
            return Err(Error::shape("input", format!("{} values were given for {shape}", values.len())));
        }
        let var = self.filled(shape, 0.0);
        if let Value::Owned(copy) = &mut self.nodes[var.0].value {
            copy.copy_from_slice(values);
        }
        Ok(var)
    }

    /// A constant matrix of one number.
    pub fn filled(&mut self, shape: Shape, value: f32) -> Var {
        let mut values = self.arena.take(shape.len());
        values.fill(value);
        self.push(Node {
            op: None,
            inputs: Vec::new(),
            shape,
            value: Value::Owned(values),
            saved: Buffer::default(),
            wants_gradient: false,
        })
    }

    fn push(&mut self, node: Node<'a>) -> Var {
        self.nodes.push(node);
        Var(self.nodes.len() - 1)
    }

    /// Applies an operation.
    pub fn apply(&mut self, op: impl Op + 'a, inputs: &[Var]) -> Result<Var> {
        let shapes: Vec<Shape> = inputs.iter().map(|&input| self.shape(input)).collect();
        let shape = op.shape(&shapes)?;
        let mut values = self.arena.take(shape.len());
        let mut saved = self.arena.take(op.saved(&shapes));
        let views: Vec<View<'_>> = inputs.iter().map(|&input| self.view(input)).collect();
        op.forward(&views, &mut values, &mut saved)?;
        let wants_gradient = inputs.iter().any(|input| self.nodes[input.0].wants_gradient);
        Ok(self.push(Node {
            op: Some(Box::new(op)),
            inputs: inputs.to_vec(),
            shape,
            value: Value::Owned(values),
            saved,
            wants_gradient,
        }))
    }

    /// The shape of a matrix.
    pub fn shape(&self, var: Var) -> Shape {
        self.nodes[var.0].shape
    }

    /// The numbers of a matrix.
    pub fn value(&self, var: Var) -> &[f32] {
        self.nodes[var.0].value.get()
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
            // An input that is used twice gets a second buffer for its second use.
            let mut buffers: Vec<Option<Buffer>> = Vec::with_capacity(node.inputs.len());
            for input in &node.inputs {
                let wanted = self.nodes[input.0].wants_gradient;
                buffers.push(wanted.then(|| {
                    all[input.0].take().unwrap_or_else(|| self.arena.zeros(self.nodes[input.0].shape.len()))
                }));
            }
            let views: Vec<View<'_>> = node.inputs.iter().map(|&input| self.view(input)).collect();
            let mut slots: Vec<Option<&mut [f32]>> =
                buffers.iter_mut().map(|buffer| buffer.as_deref_mut()).collect();
            let shapes: Vec<Shape> = views.iter().map(|view| view.shape).collect();
            let mut scratch = self.arena.take(op.scratch(&shapes));
            op.backward(Back {
                inputs: &views,
                output: View { shape: node.shape, values: node.value.get() },
                saved: &node.saved,
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
        }
        Ok(Gradients { arena: self.arena, all })
    }
}

impl Drop for Tape<'_> {
    fn drop(&mut self) {
        for node in self.nodes.drain(..) {
            if let Value::Owned(values) = node.value {
                self.arena.give(values);
            }
            self.arena.give(node.saved);
        }
    }
}

/// Gradients of parameters.
pub struct Gradients<'a> {
    arena: &'a Arena,
    all: Vec<Option<Buffer>>,
}

impl Gradients<'_> {
    /// The gradient of a parameter; `None` where nothing depends on it.
    pub fn of(&self, var: Var) -> Option<&[f32]> {
        self.all.get(var.0)?.as_deref()
    }

    /// Takes the gradient of a parameter out, so that it can outlive the tape, which borrows the parameters that an
    /// optimiser is about to change. It belongs to the arena, to which it is to be given back.
    pub fn take(&mut self, var: Var) -> Option<Buffer> {
        self.all.get_mut(var.0)?.take()
    }
}

impl Drop for Gradients<'_> {
    fn drop(&mut self) {
        for buffer in self.all.drain(..).flatten() {
            self.arena.give(buffer);
        }
    }
}
