//! Batches that have been taken out of their snapshots and will come again (DynaHB, section 5.2: the
//! reservoir of prepared batches), kept up to a number of bytes.
//!
//! The paper draws from its reservoir with probability `p = N_rsv / (N T / (N_S N_V) / N_A)` (Eq. 4), the
//! share of all batches of a size that are in it, and makes a new batch otherwise. Here the plan says
//! which batch is next, and one that is in the reservoir is taken from there: over an epoch that is the
//! same share, and what is computed does not depend on what was kept. Training goes round and round, so
//! the first that fit are kept, and none makes room for another.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use kymo_graph::Step;
use kymo_plan::Portion;

use super::extraction::Seen;

/// What a batch is known by: its first and its last step, whose vertices it has, which part of how many, and
/// what the division follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key([u64; 6]);

impl Key {
    /// That of a portion in these steps.
    pub fn new(steps: &Range<Step>, portion: &Portion) -> Key {
        let drawn = &portion.drawn;
        // A division into one part is the same whatever it follows from.
        let seed = if drawn.parts <= 1 { 0 } else { drawn.seed };
        let [start, end] = [steps.start, steps.end].map(|step| step as u64);
        let [owner, part, parts] = [portion.owner, drawn.part, drawn.parts].map(|number| number as u64);
        Key([start, end, owner, part, parts, seed])
    }
}

/// How often batches were there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Batches that were taken from the reservoir.
    pub found: u64,
    /// Batches that were taken out of their snapshots.
    pub made: u64,
    /// Bytes of those that are kept.
    pub bytes: usize,
}

/// Batches that are kept.
#[derive(Default)]
pub struct Reservoir {
    room: usize,
    batches: BTreeMap<Key, Arc<Seen>>,
    kept: Kept,
}

impl Reservoir {
    /// One that keeps batches of this many bytes.
    pub fn new(room: usize) -> Reservoir {
        Reservoir { room, ..Reservoir::default() }
    }

    /// The batch of this key, if it is here.
    pub fn find(&mut self, key: &Key) -> Option<Arc<Seen>> {
        let found = self.batches.get(key).cloned();
        match found {
            Some(_) => self.kept.found += 1,
            None => self.kept.made += 1,
        }
        found
    }

    /// Whether a batch stays here: it does where there is room, or has come from here.
    pub fn keep(&mut self, key: Key, seen: &Arc<Seen>) -> bool {
        if self.batches.contains_key(&key) {
            return true;
        }
        let bytes = seen.bytes();
        let fits = self.kept.bytes.saturating_add(bytes) <= self.room;
        if fits {
            self.kept.bytes += bytes;
            self.batches.insert(key, seen.clone());
        }
        fits
    }

    /// What it has done so far.
    pub fn kept(&self) -> Kept {
        self.kept
    }
}
