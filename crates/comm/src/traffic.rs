//! How many bytes go between workers, by kind.
//!
//! Counted is the content of messages as a network would carry it, also where workers share memory and
//! nothing is carried: a plan's prediction can then be checked on one machine. What a worker says to itself
//! counts nothing.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// From one worker to another: messages and `all_to_all`.
    pub messages: u64,
    /// `all_reduce`.
    pub all_reduce: u64,
    /// The other collectives: `all_gather` and `broadcast`.
    pub collectives: u64,
}

impl Bytes {
    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.messages + self.all_reduce + self.collectives
    }

    fn since(&self, earlier: Bytes) -> Bytes {
        Bytes {
            messages: self.messages.saturating_sub(earlier.messages),
            all_reduce: self.all_reduce.saturating_sub(earlier.all_reduce),
            collectives: self.collectives.saturating_sub(earlier.collectives),
        }
    }

    fn and(&self, other: Bytes) -> Bytes {
        Bytes {
            messages: self.messages + other.messages,
            all_reduce: self.all_reduce + other.all_reduce,
            collectives: self.collectives + other.collectives,
        }
    }
}

/// What one worker sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Sent to other workers.
    pub sent: Bytes,
    /// Received from other workers.
    pub received: Bytes,
}

impl Traffic {
    /// What was added since `earlier`, a reading of the same endpoint.
    pub fn since(&self, earlier: Traffic) -> Traffic {
        Traffic { sent: self.sent.since(earlier.sent), received: self.received.since(earlier.received) }
    }

    /// Both together.
    pub fn and(&self, other: Traffic) -> Traffic {
        Traffic { sent: self.sent.and(other.sent), received: self.received.and(other.received) }
    }

    /// Everything that was sent.
    pub fn total_sent(&self) -> u64 {
        self.sent.total()
    }

    /// Everything that was received.
    pub fn total_received(&self) -> u64 {
        self.received.total()
    }
}

/// Which of `numbers` numbers worker `rank` sums in an `all_reduce`; nothing for a rank that is not there.
pub fn slice(numbers: usize, size: usize, rank: usize) -> Range<usize> {
    if rank >= size {
        return numbers..numbers;
    }
    // The product of two lengths may not fit where the quotient does.
    let border = |rank: usize| (numbers as u128 * rank as u128 / size as u128) as usize;
    border(rank)..border(rank + 1)
}

/// The bytes that worker `rank` of `size` sends and receives in an `all_reduce` of `numbers` numbers.
///
/// Each worker sends the others the parts that they sum, and then its own sum to all of them. A rank that is
/// not there sends and receives nothing.
pub fn all_reduce_bytes(numbers: usize, size: usize, rank: usize) -> (u64, u64) {
    if rank >= size {
        return (0, 0);
    }
    let own = slice(numbers, size, rank).len() as u64;
    let others = numbers as u64 - own;
    let peers = size as u64 - 1;
    (4 * others + 4 * own * peers, 4 * own * peers + 4 * others)
}

/// Bytes of this many numbers.
pub(crate) fn bytes_of(numbers: usize) -> u64 {
    4 * numbers as u64
}

/// What an endpoint counts with.
#[derive(Default)]
pub(crate) struct Counters {
    sent: Direction,
    received: Direction,
}

#[derive(Default)]
struct Direction {
    messages: AtomicU64,
    all_reduce: AtomicU64,
    collectives: AtomicU64,
}

impl Direction {
    fn read(&self) -> Bytes {
        Bytes {
            messages: self.messages.load(Ordering::Relaxed),
            all_reduce: self.all_reduce.load(Ordering::Relaxed),
            collectives: self.collectives.load(Ordering::Relaxed),
        }
    }
}

impl Counters {
    pub(crate) fn messages(&self, sent: u64, received: u64) {
        self.sent.messages.fetch_add(sent, Ordering::Relaxed);
        self.received.messages.fetch_add(received, Ordering::Relaxed);
    }

    pub(crate) fn all_reduce(&self, (sent, received): (u64, u64)) {
        self.sent.all_reduce.fetch_add(sent, Ordering::Relaxed);
        self.received.all_reduce.fetch_add(received, Ordering::Relaxed);
    }

    pub(crate) fn collectives(&self, sent: u64, received: u64) {
        self.sent.collectives.fetch_add(sent, Ordering::Relaxed);
        self.received.collectives.fetch_add(received, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Traffic {
        Traffic { sent: self.sent.read(), received: self.received.read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_counts() {
        // 10 numbers over 4 workers: slices of 2, 3, 2 and 3.
        let lengths: Vec<usize> = (0..4).map(|rank| slice(10, 4, rank).len()).collect();
        assert_eq!(lengths, [2, 3, 2, 3]);
        assert_eq!(all_reduce_bytes(10, 4, 0), (4 * 8 + 4 * 2 * 3, 4 * 2 * 3 + 4 * 8));
        assert_eq!(all_reduce_bytes(10, 4, 1), (4 * 7 + 4 * 3 * 3, 4 * 3 * 3 + 4 * 7));
        assert_eq!(all_reduce_bytes(10, 1, 0), (0, 0));
        assert_eq!(all_reduce_bytes(0, 3, 2), (0, 0));
        assert_eq!(all_reduce_bytes(10, 4, 4), (0, 0));
        assert_eq!(all_reduce_bytes(10, 0, 0), (0, 0));
    }

    #[test]
    fn differences_are_taken_kind_by_kind() {
        let counters = Counters::default();
        counters.messages(8, 4);
        let earlier = counters.read();
        counters.messages(1, 2);
        counters.all_reduce((3, 4));
        counters.collectives(5, 6);
        let since = counters.read().since(earlier);
        assert_eq!(since.sent, Bytes { messages: 1, all_reduce: 3, collectives: 5 });
        assert_eq!(since.received, Bytes { messages: 2, all_reduce: 4, collectives: 6 });
        assert_eq!((since.total_sent(), since.total_received()), (9, 12));
        assert_eq!(counters.read().total_sent(), 17);
    }

    proptest! {
        #[test]
        fn slices_follow_each_other_and_all_that_is_sent_is_received(
            numbers in 0usize..1000,
            size in 1usize..12,
        ) {
            let mut end = 0;
            let (mut sent, mut received) = (0, 0);
            for rank in 0..size {
                let part = slice(numbers, size, rank);
                prop_assert_eq!(part.start, end);
                end = part.end;
                let (out, inwards) = all_reduce_bytes(numbers, size, rank);
                sent += out;
                received += inwards;
            }
            prop_assert_eq!(end, numbers);
            prop_assert_eq!(sent, received);
            // Both halves move every number to all workers but one.
            prop_assert_eq!(sent, 2 * 4 * numbers as u64 * (size as u64 - 1));
        }
    }
}
