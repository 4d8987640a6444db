//! Memory estimates: tapes that compute nothing and go through the same operations with shapes alone, to find
//! out what a GPU would have to hold.
//!
//! A [`MemoryEstimate`] counts what a tape on a GPU would take, in the same sizes, from the first operation
//! to the end of the backward pass, and what stays there from tape to tape: features, sparse matrices, kept
//! products. Only memory that kernels take for a moment is left out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::arena::Arena;
use crate::backward::{Place, Undone, Wanted};
use crate::cuda::room;
use crate::error::Result;
use crate::op::{Few, Op, Shape};
use crate::tape::{Numbers, Tape, Value, Var};

/// Bytes that would be taken.
#[derive(Debug, Default)]
pub struct MemoryEstimate(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    now: usize,
    most: usize,
    /// What stays, by where it is on the host.
    held: BTreeMap<usize, usize>,
}

impl MemoryEstimate {
    /// Nothing taken.
    pub fn new() -> Arc<MemoryEstimate> {
        Arc::default()
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: usize) {
        let mut count = self.count();
        count.now += bytes;
        count.most = count.most.max(count.now);
    }

    /// The most bytes that would have been taken at once.
    pub fn most(&self) -> usize {
        self.count().most
    }

    /// Forgets what was the most.
    pub fn forget_most(&self) {
        let mut count = self.count();
        count.most = count.now;
    }

    /// Bytes that are taken now: between tapes, those that stay.
    pub fn now(&self) -> usize {
        self.count().now
    }

    /// Numbers that would be taken now.
    pub(crate) fn reserve(self: &Arc<Self>, length: usize) -> Reserved {
        Reserved::new(self, length)
    }

    /// Numbers of the host that would be brought to the GPU once and stay there.
    pub(crate) fn hold<T>(&self, values: &[T], numbers: usize) {
        self.hold_named(values.as_ptr().addr(), numbers);
    }

    /// The same for numbers that an address stands for.
    pub(crate) fn hold_named(&self, address: usize, numbers: usize) {
        if numbers > 0 && self.count().held.insert(address, numbers).is_none() {
            self.take(room(4 * numbers));
        }
    }
}

/// Numbers that would be taken, until this is dropped.
#[derive(Debug)]
pub struct Reserved {
    estimate: Arc<MemoryEstimate>,
    length: usize,
}

impl Reserved {
    pub(crate) fn new(estimate: &Arc<MemoryEstimate>, length: usize) -> Reserved {
        if length > 0 {
            estimate.take(room(4 * length));
        }
        Reserved { estimate: estimate.clone(), length }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.length > 0 {
            self.estimate.count().now -= room(4 * self.length);
        }
    }
}

impl<'a> Tape<'a> {
    pub(crate) fn apply_estimated(
        &mut self,
        estimate: &Arc<MemoryEstimate>,
        op: Box<dyn Op + 'a>,
        inputs: &[Var],
        shapes: &[Shape],
        shape: Shape,
    ) -> Var {
        op.holds(estimate, false);
        for input in inputs {
            let node = &self.nodes[input.0];
            // What a GPU makes itself or has already is not brought there.
            if !matches!(
                node.value,
                Value::Made(Numbers::Estimated(_)) | Value::Resident(_) | Value::Shared(_) | Value::Kept(_)
            ) {
                node.reserved.get_or_init(|| Reserved::new(estimate, node.shape.len()));
            }
        }
        if op.waits() {
            return self.waiting(op, inputs, shape);
        }
        let made =
            [shape.len(), op.saved(shapes)].map(|length| Numbers::Estimated(Reserved::new(estimate, length)));
        let [values, saved] = made;
        self.applied(op, inputs, shape, (values, saved))
    }
}

impl<'a> Place<'a> for Arc<MemoryEstimate> {
    type Sum = Reserved;

    fn zeros(&self, _: &Tape<'a>, length: usize) -> Result<Reserved> {
        Ok(self.reserve(length))
    }

    fn undo(
        &self,
        tape: &Tape<'a>,
        Undone { op, node, .. }: Undone<'_, 'a>,
        _: &Reserved,
        inputs: Few<Wanted<Reserved>>,
    ) -> Result<Few<Option<Reserved>>> {
        op.holds(self, inputs.iter().any(|wanted| !matches!(wanted, Wanted::No)));
        let sum = |(wanted, &input): (Wanted<Reserved>, &Var)| match wanted {
            Wanted::No => None,
            Wanted::Onto(sum) => Some(sum),
            Wanted::New => Some(self.reserve(tape.shape(input).len())),
        };
        let sums = inputs.into_iter().zip(&node.inputs).map(sum).collect();
        let shapes: Vec<Shape> = node.inputs.iter().map(|&input| tape.shape(input)).collect();
        self.reserve(op.scratch(&shapes));
        Ok(sums)
    }

    fn add(&self, _: &mut Reserved, other: Reserved, _: &Arena) -> Result<()> {
        drop(other);
        Ok(())
    }

    fn release(&self, sum: Reserved, _: &Arena) {
        drop(sum);
    }
}

impl From<Reserved> for Numbers {
    fn from(reserved: Reserved) -> Self {
        Numbers::Estimated(reserved)
    }
}
