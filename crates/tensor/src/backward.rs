//! The backward pass: one traversal of the tape from its end, for the host, for a GPU, and for memory
//! estimates.
//!
//! It follows the list of operations, not pointers between tensors: the order is the same on every worker,
//! and operations that take part in an exchange rely on that. A collective operation runs its backward even
//! without an upstream gradient, or its peers would wait for ever.

use std::borrow::Cow;

use crate::arena::{Arena, Buffer};
use crate::error::{Error, Result};
use crate::op::{Back, Few, Op, Shape, View};
use crate::tape::{Node, Numbers, Tape, Var};

/// What a gradient is made of where a tape works, and how an operation is undone there.
pub(crate) trait Place<'a> {
    /// The gradient of one matrix.
    type Sum: Into<Numbers>;

    /// A gradient of zeros.
    fn zeros(&self, tape: &Tape<'a>, length: usize) -> Result<Self::Sum>;

    /// Undoes an operation: of each input, the gradient so far with that of this operation added to it.
    fn undo(
        &self,
        tape: &Tape<'a>,
        at: Undone<'_, 'a>,
        upstream: &Self::Sum,
        inputs: Few<Wanted<Self::Sum>>,
    ) -> Result<Few<Option<Self::Sum>>>;

    /// Adds the gradient of a second use of a matrix to that of its first.
    fn add(&self, sum: &mut Self::Sum, other: Self::Sum, arena: &Arena) -> Result<()>;

    /// Gives memory back.
    fn release(&self, sum: Self::Sum, arena: &Arena);
}

/// The operation that is undone.
pub(crate) struct Undone<'t, 'a> {
    /// Where it is on the tape.
    pub var: Var,
    /// The operation.
    pub op: &'t dyn Op,
    /// Its inputs and its values.
    pub node: &'t Node<'a>,
}

/// The gradient of an input.
pub(crate) enum Wanted<Sum> {
    /// It is not wanted.
    No,
    /// It is wanted, and there is none yet.
    New,
    /// It is wanted, and added to this.
    Onto(Sum),
}

impl<'a> Tape<'a> {
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
            return self.traverse(device, from, device.upload(seed)?, []);
        }
        if let Some(estimate) = self.arena.estimate() {
            return self.traverse(estimate, from, estimate.reserve(self.shape(from).len()), []);
        }
        self.backward_onto(from, seed, [])
    }

    /// The gradients of `sum(seed * from)` on the host, added to those that are given: they are found where
    /// gradients of their matrices are.
    pub(crate) fn backward_onto(
        &self,
        from: Var,
        seed: &[f32],
        begun: impl IntoIterator<Item = (Var, Buffer)>,
    ) -> Result<Gradients<'a>> {
        self.traverse(&Host, from, self.arena.copied(seed), begun)
    }

    fn traverse<P: Place<'a>>(
        &self,
        place: &P,
        from: Var,
        seed: P::Sum,
        begun: impl IntoIterator<Item = (Var, P::Sum)>,
    ) -> Result<Gradients<'a>> {
        let mut all: Vec<Option<P::Sum>> = self.nodes.iter().map(|_| None).collect();
        begun.into_iter().for_each(|(var, sum)| all[var.0] = Some(sum));
        all[from.0] = Some(seed);
        for index in (0..=from.0).rev() {
            let node = &self.nodes[index];
            let Some(op) = node.op.as_deref().filter(|_| node.wants_gradient) else { continue };
            let upstream = match all[index].take() {
                Some(upstream) => upstream,
                None if op.collective() => place.zeros(self, node.shape.len())?,
                None => continue,
            };
            let started = self.begun();
            // An input that is used twice gets a second gradient for its second use.
            let wanted = |input: &Var| match self.nodes[input.0].wants_gradient {
                false => Wanted::No,
                true => all[input.0].take().map_or(Wanted::New, Wanted::Onto),
            };
            let inputs = node.inputs.iter().map(wanted).collect();
            let sums = place.undo(self, Undone { var: Var(index), op, node }, &upstream, inputs)?;
            for (input, sum) in node.inputs.iter().zip(sums) {
                let Some(sum) = sum else { continue };
                match &mut all[input.0] {
                    Some(first) => place.add(first, sum, self.arena)?,
                    none => *none = Some(sum),
                }
            }
            place.release(upstream, self.arena);
            self.count_back(index, started)?;
        }
        Ok(Gradients { arena: self.arena, all: all.into_iter().map(|sum| sum.map(Into::into)).collect() })
    }
}

/// The memory of the host.
struct Host;

impl From<Buffer> for Numbers {
    fn from(buffer: Buffer) -> Self {
        Numbers::Host(buffer)
    }
}

impl<'a> Place<'a> for Host {
    type Sum = Buffer;

    fn zeros(&self, tape: &Tape<'a>, length: usize) -> Result<Buffer> {
        Ok(tape.arena.zeros(length))
    }

    fn undo(
        &self,
        tape: &Tape<'a>,
        Undone { op, node, .. }: Undone<'_, 'a>,
        upstream: &Buffer,
        inputs: Few<Wanted<Buffer>>,
    ) -> Result<Few<Option<Buffer>>> {
        let mut buffers: Few<Option<Buffer>> = Few::with_capacity(inputs.len());
        let mut ready: Few<bool> = inputs.iter().map(|_| false).collect();
        for (number, (wanted, input)) in inputs.into_iter().zip(&node.inputs).enumerate() {
            buffers.push(match wanted {
                Wanted::No => None,
                Wanted::Onto(sum) => Some(sum),
                Wanted::New => {
                    let made = op.ready(number, upstream);
                    ready[number] = made.is_some();
                    Some(made.unwrap_or_else(|| tape.arena.zeros(tape.shape(*input).len())))
                }
            });
        }
        let views = tape.views(&node.inputs)?;
        let slots = buffers.iter_mut().zip(&ready);
        let mut slots: Few<Option<&mut [f32]>> =
            slots.map(|(buffer, ready)| buffer.as_deref_mut().filter(|_| !ready)).collect();
        let shapes: Few<Shape> = views.iter().map(|view| view.shape).collect();
        let mut scratch = tape.arena.take(op.scratch(&shapes));
        op.backward(Back {
            inputs: &views,
            output: View { shape: node.shape, values: node.value.host()? },
            saved: node.saved.host()?,
            upstream,
            scratch: &mut scratch,
            gradients: &mut slots,
        })?;
        drop(slots);
        tape.arena.give(scratch);
        Ok(buffers)
    }

    fn add(&self, sum: &mut Buffer, other: Buffer, arena: &Arena) -> Result<()> {
        sum.iter_mut().zip(other.iter()).for_each(|(sum, value)| *sum += value);
        arena.give(other);
        Ok(())
    }

    fn release(&self, sum: Buffer, arena: &Arena) {
        arena.give(sum);
    }
}

/// Gradients of parameters.
pub struct Gradients<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) all: Vec<Option<Numbers>>,
}

impl Gradients<'_> {
    /// The gradient of a parameter, brought back from the GPU where it is there; `None` where nothing depends
    /// on it.
    pub fn read(&self, var: Var) -> Result<Option<Cow<'_, [f32]>>> {
        let Some(Some(numbers)) = self.all.get(var.0) else { return Ok(None) };
        Ok(Some(match numbers {
            Numbers::Host(values) => Cow::Borrowed(values),
            Numbers::Device(memory) => Cow::Owned(memory.device().read(memory.all())?),
            Numbers::Estimated(reserved) => Cow::Owned(vec![0.0; reserved.len()]),
        }))
    }

    /// Takes the gradient of a parameter out, so that it can outlive the tape, which borrows the parameters
    /// that an optimiser is about to change. It belongs to the arena, to which it is to be given back.
    pub fn take(&mut self, var: Var) -> Option<Numbers> {
        self.all.get_mut(var.0)?.take()
    }
}

impl Drop for Gradients<'_> {
    fn drop(&mut self) {
        self.all.drain(..).flatten().for_each(|numbers| numbers.give(self.arena));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::estimate::MemoryEstimate;

    /// `x` itself; writes down that its backward was run, and whether a gradient had arrived.
    struct Noted<'n> {
        collective: bool,
        seen: &'n Mutex<Vec<(&'static str, f32)>>,
        name: &'static str,
    }

    impl Op for Noted<'_> {
        fn name(&self) -> &'static str {
            self.name
        }

        fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
            Ok(inputs[0])
        }

        fn collective(&self) -> bool {
            self.collective
        }

        fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
            output.copy_from_slice(inputs[0].values);
            Ok(())
        }

        fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
            self.seen.lock().unwrap().push((self.name, back.upstream[0]));
            let upstream = back.upstream;
            if let Some(gradient) = back.take(0) {
                gradient.iter_mut().zip(upstream).for_each(|(sum, value)| *sum += value);
            }
            Ok(())
        }

        fn holds(&self, _: &MemoryEstimate, _: bool) {
            self.seen.lock().unwrap().push((self.name, -1.0));
        }
    }

    #[test]
    fn collective_operations_run_backward_without_a_gradient_on_the_host_and_in_estimates() {
        let estimate = MemoryEstimate::new();
        for arena in [Arena::new(), Arena::estimating(estimate.clone())] {
            let seen = Mutex::new(Vec::new());
            let noted = |name, collective| Noted { collective, seen: &seen, name };
            let value = [3.0];
            {
                let mut tape = Tape::new(&arena);
                let x = tape.parameter(Shape::SCALAR, &value).unwrap();
                let used = tape.apply(noted("used", false), &[x]).unwrap();
                let unused = tape.apply(noted("unused", false), &[x]).unwrap();
                tape.apply(noted("exchange", true), &[unused]).unwrap();
                let loss = tape.apply(noted("loss", false), &[used]).unwrap();
                seen.lock().unwrap().clear();
                let gradients = tape.backward(loss).unwrap();
                let expected = if arena.estimate().is_some() { 0.0 } else { 1.0 };
                assert_eq!(gradients.read(x).unwrap().unwrap()[0], expected);
            }
            let seen: Vec<&str> = seen.into_inner().unwrap().into_iter().map(|(name, _)| name).collect();
            // What the exchange hands on is undone, too: it is part of the same computation.
            assert_eq!(seen, ["loss", "exchange", "unused", "used"]);
        }
        assert_eq!(estimate.now(), 0);
    }

    #[test]
    fn numbers_that_are_elsewhere_are_an_error_not_zeros() {
        let estimate = MemoryEstimate::new();
        let arena = Arena::estimating(estimate);
        let mut tape = Tape::new(&arena);
        let x = tape.filled(Shape::SCALAR, 1.0);
        let y = tape.scale(x, 2.0).unwrap();
        let error = tape.value(y).unwrap_err().to_string();
        assert!(error.contains("expected in the memory of the host"), "{error}");
        let kept = tape.copy_of(y).unwrap();
        assert!(matches!(kept.host(), Err(Error::Place { found: "not computed", .. })));
        assert!(kept.into_host().is_err());
    }
}
