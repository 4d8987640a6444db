//! The tape: operations in the order in which they were applied, their values, and where these are.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use crate::arena::{Arena, Buffer};
use crate::clock::{Clock, Of};
use crate::cuda::{Memory, Slice};
use crate::error::{Error, Result};
use crate::estimate::Reserved;
use crate::indexed::Indexed;
use crate::op::{Few, Op, Shape, View};
use crate::ops::{Lazy, Repeats};

/// Where numbers are, in words.
pub(crate) const HOST: &str = "in the memory of the host";
pub(crate) const DEVICE: &str = "in the memory of a GPU";

/// Nodes that a new tape has room for: those of a short window, so that it need not grow.
const NODES: usize = 64;

/// A matrix on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Var(pub(crate) usize);

/// Numbers that a tape made, where it works.
#[derive(Debug)]
pub enum Numbers {
    /// In the memory of the host.
    Host(Buffer),
    /// In the memory of a GPU.
    Device(Memory),
    /// Nowhere: nothing is computed.
    Estimated(Reserved),
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers::Host(Buffer::default())
    }
}

impl Numbers {
    /// Those in the memory of the host; fails where they are elsewhere.
    pub fn host(&self) -> Result<&[f32]> {
        match self {
            Numbers::Host(values) => Ok(values),
            Numbers::Device(_) | Numbers::Estimated(_) => Err(self.elsewhere("host numbers", HOST)),
        }
    }

    /// Those in the memory of the host, to be kept; fails where they are elsewhere.
    pub(crate) fn into_host(self) -> Result<Buffer> {
        match self {
            Numbers::Host(values) => Ok(values),
            Numbers::Device(_) | Numbers::Estimated(_) => Err(self.elsewhere("host numbers", HOST)),
        }
    }

    /// The complaint that they are not where `op` expected them.
    pub(crate) fn elsewhere(&self, op: &'static str, expected: &'static str) -> Error {
        let found = match self {
            Numbers::Host(_) => HOST,
            Numbers::Device(_) => DEVICE,
            Numbers::Estimated(_) => "not computed",
        };
        Error::Place { op, found, expected }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Host(values) => values.len(),
            Numbers::Device(memory) => memory.len(),
            Numbers::Estimated(reserved) => reserved.len(),
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
    /// Numbers that an earlier tape made and that are held by others, too.
    Kept(Arc<Numbers>),
    /// The same number everywhere, on a tape that works on a GPU.
    Filled(f32),
    /// What the operation will come to when it is read, on a tape that works on a GPU.
    Waiting,
    /// Rows that are put together when an operation reads them ([`Tape::indexed`]).
    Indexed(Indexed<'a>),
    /// A matrix that is computed when an operation reads it, or row by row.
    Lazy(Lazy<'a>),
}

impl Value<'_> {
    /// The numbers in the memory of the host; fails where they are elsewhere.
    pub(crate) fn host(&self) -> Result<&[f32]> {
        match self {
            Value::Made(numbers) => numbers.host(),
            Value::Kept(numbers) => numbers.host(),
            Value::Borrowed(values) => Ok(values),
            Value::Resident(_) | Value::Shared(_) | Value::Filled(_) | Value::Waiting => {
                Err(Error::Place { op: "host values", found: DEVICE, expected: HOST })
            }
            Value::Indexed(_) | Value::Lazy(_) => {
                Err(Error::Place { op: "host values", found: "not put together", expected: HOST })
            }
        }
    }
}

pub(crate) struct Node<'a> {
    pub(crate) op: Option<Box<dyn Op + 'a>>,
    pub(crate) inputs: Few<Var>,
    pub(crate) shape: Shape,
    pub(crate) value: Value<'a>,
    /// What was brought to the GPU of a value of the host.
    pub(crate) brought: OnceLock<Memory>,
    /// What would be brought there, where nothing is computed.
    pub(crate) reserved: OnceLock<Reserved>,
    pub(crate) saved: Numbers,
    pub(crate) wants_gradient: bool,
    /// The snapshot it belongs to, where a clock is on.
    pub(crate) of: Of,
}

impl<'a> Node<'a> {
    pub(crate) fn input(shape: Shape, value: Value<'a>, wants_gradient: bool) -> Self {
        Node {
            op: None,
            inputs: Few::new(),
            shape,
            value,
            brought: OnceLock::new(),
            reserved: OnceLock::new(),
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
    alike: bool,
    /// Whether layers look for rows that they had before, in blocks of rows.
    pub(crate) expects_repeats: bool,
    /// Whether products look for rows that the one before has, there.
    pub(crate) expects_same_rows: bool,
    /// What was applied, where they do.
    pub(crate) repeats: Option<Repeats>,
}

impl<'a> Tape<'a> {
    /// An empty tape that takes its buffers from `arena`.
    pub fn new(arena: &'a Arena) -> Self {
        Tape {
            arena,
            nodes: Vec::with_capacity(NODES),
            clock: None,
            alike: false,
            expects_repeats: false,
            expects_same_rows: false,
            repeats: None,
        }
    }

    /// Whether it works in the memory of the host.
    pub fn is_on_host(&self) -> bool {
        !self.arena.is_elsewhere()
    }

    /// Says that rows of a product are often those of the one before, made of the same entries: where rows
    /// are computed block by block, they are looked for and copied, with the same bits.
    pub fn expect_same_rows(&mut self) {
        self.expects_same_rows = true;
    }

    /// Says that the snapshots on it have most edges in common: it is worth looking for them.
    pub fn expect_alike(&mut self) {
        self.alike = true;
    }

    /// Whether the snapshots on it have most edges in common.
    pub fn is_alike(&self) -> bool {
        self.alike
    }

    /// How many matrices are on it.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
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
        expect_values(shape, values.len())?;
        Ok(self.push(Node::input(shape, Value::Borrowed(values), wants_gradient)))
    }

    /// A matrix that a tape made and that was kept ([`Tape::copy_of`]).
    pub fn kept(&mut self, shape: Shape, values: Arc<Numbers>) -> Result<Var> {
        expect_values(shape, values.len())?;
        Ok(self.push(Node::input(shape, Value::Kept(values), false)))
    }

    /// A copy of a matrix that outlives the tape, where the tape works.
    pub fn copy_of(&self, var: Var) -> Result<Numbers> {
        if let Some(estimate) = self.arena.estimate() {
            return Ok(Numbers::Estimated(Reserved::new(estimate, self.shape(var).len())));
        }
        let Some(device) = self.arena.device() else {
            return Ok(Numbers::Host(Buffer::from(self.value(var)?)));
        };
        let values = self.slice(device, var)?;
        let copy = device.take(values.len())?;
        device.copy(values, copy.all())?;
        Ok(Numbers::Device(copy))
    }

    /// A matrix that is on the GPU already, where this tape works.
    pub fn resident(&mut self, shape: Shape, values: Slice<'a>, wants_gradient: bool) -> Result<Var> {
        expect_values(shape, values.len())?;
        Ok(self.push(Node::input(shape, Value::Resident(values), wants_gradient)))
    }

    /// A matrix that needs no gradient, copied: for values that do not live as long as the tape.
    pub fn copied(&mut self, shape: Shape, values: &[f32]) -> Result<Var> {
        expect_values(shape, values.len())?;
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

    pub(crate) fn push(&mut self, mut node: Node<'a>) -> Var {
        node.of = self.now();
        self.nodes.push(node);
        Var(self.nodes.len() - 1)
    }

    /// Applies an operation.
    pub fn apply(&mut self, op: impl Op + 'a, inputs: &[Var]) -> Result<Var> {
        self.put_together(inputs, op.computes_products())?;
        let begun = self.begun();
        let var = self.apply_anywhere(op, inputs)?;
        self.count(var, begun)?;
        Ok(var)
    }

    fn apply_anywhere(&mut self, op: impl Op + 'a, inputs: &[Var]) -> Result<Var> {
        let shapes: Few<Shape> = inputs.iter().map(|&input| self.shape(input)).collect();
        let shape = op.shape(&shapes)?;
        if let Some(device) = self.arena.device() {
            return self.apply_on(device, Box::new(op), inputs, &shapes, shape);
        }
        if let Some(estimate) = self.arena.estimate() {
            return Ok(self.apply_estimated(estimate, Box::new(op), inputs, &shapes, shape));
        }
        let mut saved = self.arena.take(op.saved(&shapes));
        let values = match op.made() {
            Some(values) => values,
            None => {
                let mut values = self.arena.take(shape.len());
                op.forward(&self.views(inputs)?, &mut values, &mut saved)?;
                values
            }
        };
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
            inputs: inputs.into(),
            shape,
            value,
            brought: OnceLock::new(),
            reserved: OnceLock::new(),
            saved,
            wants_gradient: inputs.iter().any(|input| self.nodes[input.0].wants_gradient),
            of: Of::Nothing,
        })
    }

    /// The shape of a matrix.
    pub fn shape(&self, var: Var) -> Shape {
        self.nodes[var.0].shape
    }

    /// The numbers of a matrix on a tape that works in the memory of the host; [`Tape::read`] works
    /// everywhere.
    pub fn value(&self, var: Var) -> Result<&[f32]> {
        self.nodes[var.0].value.host()
    }

    /// The numbers of a matrix, brought back from the GPU where they are there.
    pub fn read(&self, var: Var) -> Result<Cow<'_, [f32]>> {
        if self.arena.estimate().is_some() {
            return Ok(Cow::Owned(vec![0.0; self.shape(var).len()]));
        }
        match self.arena.device() {
            None => Ok(Cow::Borrowed(self.value(var)?)),
            Some(device) => Ok(Cow::Owned(device.read(self.slice(device, var)?)?)),
        }
    }

    /// A matrix to be read on a tape that works in the memory of the host.
    pub fn view(&self, var: Var) -> Result<View<'_>> {
        Ok(View { shape: self.shape(var), values: self.value(var)? })
    }

    /// Matrices to be read by an operation; of a product that it computes itself, the shape alone.
    pub(crate) fn views(&self, vars: &[Var]) -> Result<Few<View<'_>>> {
        let mut views = Few::with_capacity(vars.len());
        for &var in vars {
            views.push(match self.nodes[var.0].value {
                Value::Lazy(_) => View { shape: self.shape(var), values: &[] },
                _ => self.view(var)?,
            });
        }
        Ok(views)
    }

    /// Whether a gradient flows through a matrix.
    pub fn wants_gradient(&self, var: Var) -> bool {
        self.nodes[var.0].wants_gradient
    }
}

fn expect_values(shape: Shape, found: usize) -> Result<()> {
    if shape.len() == found {
        return Ok(());
    }
    Err(Error::shape("input", format!("{found} values were given for {shape}")))
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
