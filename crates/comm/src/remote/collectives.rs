//! What workers do together, made of messages.
//!
//! Every part says which collective it is for, by number and by call, so that workers that disagree find out
//! instead of waiting for each other.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::health::BEAT;
use super::inbox::seal;
use super::neighbours::LOOK;
use super::wire::{Lane, Order};
use super::{Remote, lock};
use crate::Comm;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::packing::{packed, unpacked};
use crate::traffic::{all_reduce_bytes, slice};

/// Numbers of all workers together up to which each sums everything itself: one way instead of two.
const FEW: usize = 8192;

/// Numbers that workers of one machine sum at a time: what is copied, sent and added stays in the cache of a
/// core.
const PIECE: usize = 1 << 17;

/// Numbers that the carrier adds at a time where others cannot be heard meanwhile: a fraction of a second.
const AT_ONCE: usize = 1 << 24;

/// Numbers from which on the carrier's own sum is worth it on one machine.
const ENOUGH: usize = 1 << 12;

/// Numbers from which on the wire is what takes the time.
const MUCH: usize = 1 << 14;

impl Remote {
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        // Each begins with its neighbour, so that not all send to the same one at a time.
        let (rank, size) = (self.rank, self.size);
        (1..size).map(move |offset| (rank + offset) % size)
    }

    fn give(&self, to: usize, number: u64, call: Call, words: Vec<f32>) -> Result<()> {
        self.post(to, Lane::Collectives, seal(words, (number, call.code())))
    }

    /// The next part of a collective from a worker; an error where that worker means another one.
    fn part(&self, from: usize, number: u64, call: Call) -> Result<Vec<f32>> {
        let (theirs, words) = self.wait(from, || lock(&self.shared.inbox).part(number, from))?;
        if theirs == call.code() {
            return Ok(words);
        }
        let theirs = Call::of(theirs).map_or("something else".to_owned(), |call| call.to_string());
        Err(Error::usage(format!(
            "workers do not agree: worker {} calls {call}, worker {from} calls {theirs}; all must make the \
             same calls in the same order",
            self.rank
        )))
    }

    /// Begins a collective: its number, while it lasts.
    fn begin(&self, call: Call, turn: &mut u64) -> Result<u64> {
        *turn += 1;
        match call.problem(self.size) {
            Some(problem) => Err(Error::usage(problem)),
            None => Ok(*turn),
        }
    }

    pub(super) fn sum(&self, values: &mut [f32]) -> Result<()> {
        let (numbers, size) = (values.len(), self.size);
        let call = Call::AllReduce { numbers };
        let mut turn = lock(&self.turn);
        let number = self.begin(call, &mut turn)?;
        self.counters.all_reduce(all_reduce_bytes(numbers, size, self.rank));
        let summed = match self.watched {
            // Where they are few, to come together for the carrier's own sum would take as long as to sum.
            true => numbers > ENOUGH && self.sum_together(values, number, call)?,
            false => self.native_sums && self.sum_meanwhile(values, number, call)?,
        };
        if summed {
            return Ok(());
        }
        if numbers.saturating_mul(size) <= FEW {
            return self.sum_all(values, number, call);
        }
        // Over a wire of several machines one large piece takes less than many: each waits for its turn.
        let piece = if self.local { PIECE / size * size } else { numbers };
        values.chunks_mut(piece.max(size)).try_for_each(|piece| self.sum_slices(piece, number, call))
    }

    /// Each worker sums a slice, and sends it to all others. Whole pieces have slices of the same length, so
    /// that a sum sends as many bytes in pieces as at once.
    fn sum_slices(&self, values: &mut [f32], number: u64, call: Call) -> Result<()> {
        let (numbers, size) = (values.len(), self.size);
        let own = slice(numbers, size, self.rank);
        let parts = self.trade(number, call, |to| self.copied(&values[slice(numbers, size, to)]))?;
        let sums = self.added(&values[own.clone()], parts)?;
        let parts = self.trade(number, call, |_| self.copied(&sums))?;
        values[own].copy_from_slice(&sums);
        self.recycle(sums);
        for (rank, part) in parts.into_iter().enumerate().filter(|(rank, _)| *rank != self.rank) {
            let theirs = slice(numbers, size, rank);
            expect(rank, part.len(), theirs.len())?;
            values[theirs].copy_from_slice(&part);
            self.recycle(part);
        }
        Ok(())
    }

    /// Everybody sends everything to everybody.
    fn sum_all(&self, values: &mut [f32], number: u64, call: Call) -> Result<()> {
        let parts = self.trade(number, call, |_| self.copied(values))?;
        let sums = self.added(values, parts)?;
        values.copy_from_slice(&sums);
        self.recycle(sums);
        Ok(())
    }

    /// The sum of what this worker has and what came from others, in the order of ranks, not of arrival: sums
    /// of floats depend on it.
    fn added(&self, mine: &[f32], parts: Vec<Vec<f32>>) -> Result<Vec<f32>> {
        let mut sums = self.buffer(mine.len());
        for (rank, part) in parts.into_iter().enumerate() {
            let values = if rank == self.rank { mine } else { &part[..] };
            expect(rank, values.len(), mine.len())?;
            match rank {
                0 => sums.extend_from_slice(values),
                _ => sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
            }
            self.recycle(part);
        }
        Ok(sums)
    }

    fn copied(&self, values: &[f32]) -> Vec<f32> {
        let mut words = self.buffer(values.len());
        words.extend_from_slice(values);
        words
    }

    /// Sends every other worker something, and takes what they send; nothing from oneself. Where it is much,
    /// one goes out and one comes in at a time: several would share the wire, and get in each other's way.
    fn trade(&self, number: u64, call: Call, part: impl Fn(usize) -> Vec<f32>) -> Result<Vec<Vec<f32>>> {
        let mut parts = vec![Vec::new(); self.size];
        let mut open = Vec::new();
        for offset in 1..self.size {
            let (to, from) = ((self.rank + offset) % self.size, (self.rank + self.size - offset) % self.size);
            let words = part(to);
            let much = words.len() > MUCH;
            self.give(to, number, call, words)?;
            match much {
                true => parts[from] = self.part(from, number, call)?,
                false => open.push(from),
            }
        }
        for from in open {
            parts[from] = self.part(from, number, call)?;
        }
        Ok(parts)
    }

    /// The carrier's own sum of workers of one machine; whether it has one. All come together before it: whom
    /// they wait for is known by then, and those who came for something else find out.
    fn sum_together(&self, values: &mut [f32], number: u64, call: Call) -> Result<bool> {
        for piece in values.chunks_mut(AT_ONCE) {
            self.come_together(number, call)?;
            if !self.sum_at_once(piece)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same between machines, whose sum is asked for again and again: the wire is needed for signs of
    /// life.
    fn sum_meanwhile(&self, values: &mut [f32], number: u64, call: Call) -> Result<bool> {
        self.come_together(number, call)?;
        if !lock(&self.shared.wire).begin_sum(values)? {
            return Ok(false);
        }
        let begun = Instant::now();
        loop {
            if let Some(sums) = lock(&self.shared.wire).sum()? {
                values.copy_from_slice(&sums);
                self.recycle(sums);
                return Ok(true);
            }
            if let Some(error) = self.shared.failed() {
                return Err(error.clone());
            }
            self.patience.pause(begun.elapsed(), true);
        }
    }

    /// A sum that returns when it is done. The thread beside this one, which cannot send anything meanwhile,
    /// watches it by the clock.
    fn sum_at_once(&self, values: &mut [f32]) -> Result<bool> {
        let (shared, begun) = (&self.shared, Instant::now());
        // Before the wire is taken: who does not get it must know why.
        shared.summing.store(shared.begun.elapsed().as_nanos().max(1) as u64, Ordering::Release);
        let order = if self.native_sums { Order::Any } else { Order::Ranks };
        let summed = lock(&shared.wire).sum_at_once(values, order);
        if begun.elapsed() > BEAT {
            lock(&shared.health).listen_anew();
        }
        shared.summing.store(0, Ordering::Release);
        if begun.elapsed() > LOOK {
            *lock(&shared.stalled) = None;
        }
        summed
    }

    /// Returns when all have come here.
    fn come_together(&self, number: u64, call: Call) -> Result<()> {
        self.others().try_for_each(|to| self.give(to, number, call, Vec::new()))?;
        self.others().try_for_each(|from| self.part(from, number, call).map(drop))
    }

    pub(super) fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut turn = lock(&self.turn);
        let number = self.begin(Call::AllGather, &mut turn)?;
        for to in self.others() {
            self.give(to, number, Call::AllGather, packed(mine))?;
        }
        let mut all = vec![Vec::new(); self.size];
        for from in self.others() {
            let words = self.part(from, number, Call::AllGather)?;
            all[from] = unpacked(&words).ok_or_else(|| cut_off(from))?;
        }
        let received: usize = all.iter().map(Vec::len).sum();
        all[self.rank] = mine.to_vec();
        let peers = self.size as u64 - 1;
        self.counters.collectives(mine.len() as u64 * peers, received as u64);
        Ok(all)
    }

    pub(super) fn exchange(&self, mine: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>> {
        let call = Call::AllToAll { parts: mine.len() };
        let mut turn = lock(&self.turn);
        let number = self.begin(call, &mut turn)?;
        let bytes =
            |parts: &[Vec<f32>]| parts.iter().enumerate().map(|(at, part)| self.bytes(at, part.len())).sum();
        let sent = bytes(&mine);
        let mine: Vec<Cell<Vec<f32>>> = mine.into_iter().map(Cell::new).collect();
        let mut all = self.trade(number, call, |to| mine[to].take())?;
        all[self.rank] = mine[self.rank].take();
        self.counters.messages(sent, bytes(&all));
        Ok(all)
    }

    pub(super) fn tell_all(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let call = Call::Broadcast { root };
        let mut turn = lock(&self.turn);
        let number = self.begin(call, &mut turn)?;
        if root != self.rank {
            let words = self.part(root, number, call)?;
            let told = unpacked(&words).ok_or_else(|| cut_off(root))?;
            self.counters.collectives(0, told.len() as u64);
            return Ok(told);
        }
        for to in self.others() {
            self.give(to, number, call, packed(&bytes))?;
        }
        self.counters.collectives(bytes.len() as u64 * (self.size as u64 - 1), 0);
        Ok(bytes)
    }

    pub(super) fn meet(&self) -> Result<()> {
        let mut turn = lock(&self.turn);
        let number = self.begin(Call::Barrier, &mut turn)?;
        self.come_together(number, Call::Barrier)
    }
}

/// Fails unless as many numbers came as were expected.
fn expect(from: usize, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::peer(from, format!("sent {found} numbers where {expected} were expected")))
}

fn cut_off(from: usize) -> Error {
    Error::peer(from, "sent a message that is cut off")
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Arrival, Order, Wire};
    use super::super::{Options, Remote};
    use crate::Comm;
    use crate::error::Result;

    /// A worker alone, whose carrier comes to sums that nobody else would come to.
    struct Sums;

    impl Wire for Sums {
        fn rank(&self) -> usize {
            0
        }

        fn size(&self) -> usize {
            1
        }

        fn send(&mut self, _: usize, _: super::Lane, _: Vec<f32>) -> Result<()> {
            Ok(())
        }

        fn poll(&mut self, _: &mut Vec<Arrival>) -> Result<bool> {
            Ok(false)
        }

        fn sum_at_once(&mut self, values: &mut [f32], order: Order) -> Result<bool> {
            let more = if order == Order::Any { 100.0 } else { 200.0 };
            values.iter_mut().for_each(|value| *value += more);
            Ok(true)
        }

        fn close(&mut self, _: bool) {}
    }

    /// Guards `parallel.sums`: the carrier sums in the order that was asked for, where that is worth it.
    #[test]
    fn sums_are_the_carriers_where_they_may_be() {
        let much = super::AT_ONCE + 7;
        let cases = [(true, much, 103.0), (true, 2, 3.0), (false, much, 203.0), (false, 2, 3.0)];
        for (native_sums, numbers, expected) in cases {
            let options = Options { native_sums, ..Options::default() };
            let comm = Remote::connect(Box::new(Sums), "here", options).unwrap();
            let mut values = vec![3.0; numbers];
            comm.all_reduce(&mut values).unwrap();
            assert!(values.iter().all(|value| *value == expected), "{native_sums} {numbers}");
        }
    }
}
