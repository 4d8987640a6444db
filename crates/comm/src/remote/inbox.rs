//! Messages that have arrived and wait to be asked for, and what there is to a message beside its numbers.

use std::collections::{HashMap, VecDeque};

use super::wire::{Arrival, Lane};
use crate::error::{Error, Result};

/// Words behind the numbers of a message: what it is about.
pub const TRAILER: usize = 4;

/// What a message is about: its tag, or the number of a collective and what was called.
pub type About = (u64, u64);

/// Writes what a message is about behind its numbers.
pub fn seal(mut words: Vec<f32>, (first, second): About) -> Vec<f32> {
    let halves = [first, second].into_iter().flat_map(|number| [number as u32, (number >> 32) as u32]);
    words.extend(halves.map(f32::from_bits));
    words
}

/// The numbers of a message, and what it is about.
fn open(mut words: Vec<f32>, from: usize) -> Result<(Vec<f32>, About)> {
    let Some(numbers) = words.len().checked_sub(TRAILER) else {
        return Err(Error::peer(from, "sent a message that is cut off"));
    };
    let word = |at: usize| u64::from(words[numbers + at].to_bits());
    let about = (word(0) | word(1) << 32, word(2) | word(3) << 32);
    words.truncate(numbers);
    Ok((words, about))
}

/// A part of a collective, and what its sender called.
type Part = (u64, Vec<f32>);

/// Messages that nobody has asked for yet.
#[derive(Default)]
pub struct Inbox {
    messages: HashMap<(usize, u64), VecDeque<Vec<f32>>>,
    /// By number and sender: what was called, and a part of it.
    collectives: HashMap<(u64, usize), VecDeque<Part>>,
}

impl Inbox {
    /// Puts a message where it will be looked for.
    pub fn put(&mut self, Arrival { from, lane, words }: Arrival) -> Result<()> {
        let (numbers, (first, second)) = open(words, from)?;
        match lane {
            Lane::Collectives => {
                self.collectives.entry((first, from)).or_default().push_back((second, numbers));
            }
            _ => self.messages.entry((from, first)).or_default().push_back(numbers),
        }
        Ok(())
    }

    /// The next message of a worker with this tag.
    pub fn take(&mut self, from: usize, tag: u64) -> Option<Vec<f32>> {
        next(&mut self.messages, (from, tag))
    }

    /// The next part of a collective from a worker, and what that worker called.
    pub fn part(&mut self, number: u64, from: usize) -> Option<Part> {
        next(&mut self.collectives, (number, from))
    }
}

/// The first of a queue; empty queues are not kept.
fn next<K: std::hash::Hash + Eq, V>(queues: &mut HashMap<K, VecDeque<V>>, key: K) -> Option<V> {
    let queue = queues.get_mut(&key)?;
    let first = queue.pop_front();
    if queue.is_empty() {
        queues.remove(&key);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_by_sender_and_tag_in_order() {
        let mut inbox = Inbox::default();
        let about = [(7, 0), (u64::MAX, 1), (7, 0)];
        for (value, about) in (1u8..).zip(about) {
            let words = seal(vec![f32::from(value)], about);
            inbox.put(Arrival { from: 2, lane: Lane::Messages, words }).unwrap();
        }
        assert_eq!(inbox.take(1, 7), None);
        assert_eq!(inbox.take(2, 7), Some(vec![1.0]));
        assert_eq!(inbox.take(2, u64::MAX), Some(vec![2.0]));
        assert_eq!((inbox.take(2, 7), inbox.take(2, 7)), (Some(vec![3.0]), None));
        assert!(inbox.messages.is_empty());
        let words = seal(vec![], (4, 1 << 40));
        inbox.put(Arrival { from: 0, lane: Lane::Collectives, words }).unwrap();
        assert_eq!((inbox.part(3, 0), inbox.part(4, 0)), (None, Some((1 << 40, vec![]))));
        let cut = Arrival { from: 5, lane: Lane::Messages, words: vec![0.0; 3] };
        assert!(matches!(inbox.put(cut), Err(Error::Peer { rank: 5, .. })));
    }
}
