//! What carries messages between processes. Everything above it, collectives, heartbeats and names of
//! messages, is the same for every carrier, and is tested with one that needs nothing to be installed.

use crate::error::Result;

/// Messages of one lane from one worker arrive in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// From one worker to another.
    Messages,
    /// Parts of collectives.
    Collectives,
    /// Who is there, and who has gone.
    Health,
}

impl Lane {
    /// All lanes, in the order of their numbers.
    pub const ALL: [Lane; 3] = [Lane::Messages, Lane::Collectives, Lane::Health];
}

/// A message that has arrived whole.
#[derive(Debug, PartialEq)]
pub struct Arrival {
    /// Who sent it.
    pub from: usize,
    /// On which lane.
    pub lane: Lane,
    /// What it says.
    pub words: Vec<f32>,
}

/// A worker's end of a carrier. Nothing here waits: callers ask again, and look at the clock.
pub trait Wire: Send {
    /// This worker's number, from 0.
    fn rank(&self) -> usize;

    /// How many workers there are.
    fn size(&self) -> usize;

    /// Hands a message over.
    fn send(&mut self, to: usize, lane: Lane, words: Vec<f32>) -> Result<()>;

    /// Moves what is under way, and adds what has arrived. Whether anything is still under way.
    fn poll(&mut self, arrived: &mut Vec<Arrival>) -> Result<bool>;

    /// Learns which workers are on this machine: what goes to others may be carried in another way.
    fn meet(&mut self, _near: Vec<bool>) {}

    /// An empty buffer with this capacity, if possible one that was used before.
    fn buffer(&mut self, numbers: usize) -> Vec<f32> {
        Vec::with_capacity(numbers)
    }

    /// Takes a buffer back.
    fn recycle(&mut self, words: Vec<f32>) {
        drop(words);
    }

    /// Begins the carrier's own sum over workers, where it has one.
    fn begin_sum(&mut self, _values: &[f32]) -> Result<bool> {
        Ok(false)
    }

    /// The sum that was begun, once it is there.
    fn sum(&mut self) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }

    /// Ends the connection. Where a worker was lost, others are not waited for.
    fn close(&mut self, in_order: bool);
}
