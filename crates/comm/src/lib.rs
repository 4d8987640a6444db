//! Messages and collectives between workers.
//!
//! A run has workers with ranks `0..size`. Each holds one endpoint, and every endpoint is a `Comm`. What the
//! workers are, threads of one process or processes of many machines, is known only where the endpoints are
//! made.
//!
//! Collectives (`all_reduce`, `all_gather`, `all_to_all`, `broadcast`, `barrier`) are called by every worker,
//! in the same order. Where workers disagree, each of them gets an error and the group can go on.

mod call;
pub mod error;
pub mod measure;
pub mod mpi;
pub mod packing;
pub mod remote;
pub mod threads;
pub mod traffic;

pub use error::{Error, Result};
pub use threads::{Threads, threads};
pub use traffic::{Bytes, Traffic, all_reduce_bytes};

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What a message is about: a receiver asks for messages by their tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Why a group is at an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// What has happened.
    pub error: Error,
    /// What the worker exits with that has left for a reason of its own; 0 where one was lost.
    pub code: u8,
}

/// A worker's endpoint: how it talks to the others.
///
/// A peer that goes away, by dropping its endpoint or by a panic, turns what waits for it into `Error::Peer`.
pub trait Comm: Send + Sync {
    /// This worker's number, from 0.
    fn rank(&self) -> usize;

    /// How many workers there are.
    fn size(&self) -> usize;

    /// Sends without waiting for the receiver. Messages between two workers with the same tag arrive in
    /// order.
    ///
    /// A message to oneself is delivered like any other.
    fn send(&self, to: usize, tag: Tag, values: Vec<f32>) -> Result<()>;

    /// Waits for the next message of `from` with this tag.
    ///
    /// What a peer sent before it left is still delivered.
    fn receive(&self, from: usize, tag: Tag) -> Result<Vec<f32>>;

    /// The next message of `from` with this tag if it is there already.
    fn try_receive(&self, from: usize, tag: Tag) -> Result<Option<Vec<f32>>>;

    /// Sum over workers, in the order of ranks: the same bits on every worker and every run.
    fn all_reduce(&self, values: &mut [f32]) -> Result<()>;

    /// What every worker has, in the order of ranks (lengths may differ).
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// `mine[i]` goes to worker `i`; the result's `[i]` came from worker `i`.
    fn all_to_all(&self, mine: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>>;

    /// What worker `root` has; the bytes that others give are not looked at.
    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>>;

    /// Waits until every worker is here.
    fn barrier(&self) -> Result<()>;

    /// What went over the wire so far.
    fn traffic(&self) -> Traffic;

    /// Leaves the others for a reason of one's own, which they are told, and what this process exits with.
    fn leave(&self, _why: &str, _code: u8) {}

    /// The machine that a worker is on, where workers are on several.
    fn host(&self, _rank: usize) -> Option<&str> {
        None
    }

    /// How many workers are on this machine.
    fn beside(&self) -> usize {
        self.size()
    }

    /// The worker that this one has been waiting for, and for how long. Where that one waits, too, it is the
    /// one that all of them wait for, as far as this worker knows.
    fn waits_for(&self) -> Option<(usize, Duration)> {
        None
    }

    /// Where it is written why this group is at an end, once it is: for those who watch a worker that
    /// computes and looks at no messages meanwhile. Nothing is written for workers that are threads.
    fn end(&self) -> Option<Arc<OnceLock<End>>> {
        None
    }

    /// What to set where all may be ended soon because one of them has died: who that is, is then found at
    /// once. Nothing for workers that are threads.
    fn alarm(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// Takes the buffer that a received message came in, to be used for later messages.
    fn recycle(&self, values: Vec<f32>) {
        drop(values);
    }

    /// An empty buffer with this capacity.
    fn buffer(&self, numbers: usize) -> Vec<f32> {
        Vec::with_capacity(numbers)
    }
}
