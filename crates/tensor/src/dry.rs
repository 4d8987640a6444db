//! Tapes that compute nothing: what a GPU would have to hold, found out by going through the same operations with shapes alone.
//!
//! A [`Ledger`] counts what a tape on a GPU would take, in the same sizes, from the first operation to the end of the way back, and what stays
//! there from tape to tape: features, sparse matrices, kept products. Only rooms that kernels take for a moment are left out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cuda::room;
use crate::error::Result;
use crate::op::{Op, Shape};
use crate::tape::{Gradients, Numbers, Tape, Value, Var};

/// Bytes that would be taken.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    now: usize,
    most: usize,
    /// What stays, by where it is on the host.
    held: BTreeMap<usize, usize>,
}

impl Ledger {
    /// Nothing taken.
    pub fn new() -> Arc<Ledger> {
        Arc::default()
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, bytes: usize) {
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

    /// Numbers of the host that would be brought to the GPU once and stay there.
    pub(crate) fn hold<T>(&self, values: &[T], numbers: usize) {
        if numbers > 0 && self.count().held.insert(values.as_ptr().addr(), numbers).is_none() {
            self.add(room(4 * numbers));
        }
    }
}

/// So many numbers that would be taken.
#[derive(Debug)]
pub struct Lot {
    ledger: Arc<Ledger>,
    length: usize,
}

impl Lot {
    pub(crate) fn new(ledger: &Arc<Ledger>, length: usize) -> Lot {
        if length > 0 {
            ledger.add(room(4 * length));
        }
        Lot { ledger: ledger.clone(), length }
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

impl Drop for Lot {
    fn drop(&mut self) {
        if self.length > 0 {
            self.ledger.count().now -= room(4 * self.length);
        }
    }
}

impl<'a> Tape<'a> {
    pub(crate) fn apply_dry(
        &mut self,
        ledger: &Arc<Ledger>,
        op: Box<dyn Op + 'a>,
        inputs: &[Var],
        shapes: &[Shape],
        shape: Shape,
    ) -> Var {
        op.holds(ledger, false);
        for input in inputs {
            let node = &self.nodes[input.0];
            // What a GPU makes itself or has already is not brought there.
            if !matches!(node.value, Value::Made(Numbers::Dry(_)) | Value::Resident(_) | Value::Shared(_)) {
                node.lot.get_or_init(|| Lot::new(ledger, node.shape.len()));
            }
        }
        if op.waits() {
            return self.waiting(op, inputs, shape);
        }
        let made = [shape.len(), op.saved(shapes)].map(|length| Numbers::Dry(Lot::new(ledger, length)));
        let [values, saved] = made;
        self.applied(op, inputs, shape, (values, saved))
    }

    pub(crate) fn backward_dry(&self, ledger: &Arc<Ledger>, from: Var) -> Result<Gradients<'a>> {
        let mut all: Vec<Option<Lot>> = self.nodes.iter().map(|_| None).collect();
        all[from.0] = Some(Lot::new(ledger, self.shape(from).len()));
        for index in (0..=from.0).rev() {
            let node = &self.nodes[index];
            let Some(op) = node.op.as_ref().filter(|_| node.wants_gradient) else { continue };
            let Some(_upstream) = all[index].take() else { continue };
            let wanted = node.inputs.iter().any(|input| self.nodes[input.0].wants_gradient);
            op.holds(ledger, wanted);
            for input in node.inputs.iter().filter(|input| self.nodes[input.0].wants_gradient) {
                all[input.0].get_or_insert_with(|| Lot::new(ledger, self.nodes[input.0].shape.len()));
            }
            let shapes: Vec<Shape> = node.inputs.iter().map(|&input| self.shape(input)).collect();
            Lot::new(ledger, op.scratch(&shapes));
        }
        let all = all.into_iter().map(|gradient| gradient.map(Numbers::Dry)).collect();
        Ok(Gradients { arena: self.arena, all })
    }
}
