//! What workers do together, made of messages.
//!
//! Every part says which collective it is for, by number and by call, so that workers that disagree find out
//! instead of waiting for each other.

use std::cell::Cell;
use std::time::Instant;

use super::board::{self, Board};
use super::inbox::seal;
use super::wire::Lane;
use super::{Remote, lock};
use crate::Comm;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::packing::{packed, unpacked};
use crate::traffic::{all_reduce_bytes, slice};

/// Numbers of all workers together up to which each sums everything itself: one way instead of two.
const FEW: usize = 8192;

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
        let (theirs, words) = self.wait(from, || {
            // Who has come to a sum instead sends nothing.
            let at_board = || self.board.as_ref()?.latest(from).filter(|about| about.0 == number);
            let elsewhere = || at_board().map(|(_, theirs)| (theirs, Vec::new()));
            lock(&self.shared.inbox).part(number, from).or_else(elsewhere)
        })?;
        if theirs == call.code() { Ok(words) } else { Err(self.disagreement(call, from, theirs)) }
    }

    fn disagreement(&self, call: Call, from: usize, theirs: u64) -> Error {
        let theirs = Call::of(theirs).map_or("something else".to_owned(), |call| call.to_string());
        Error::usage(format!(
            "workers do not agree: worker {} calls {call}, worker {from} calls {theirs}; all must make the \
             same calls in the same order",
            self.rank
        ))
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
        if let Some(board) = &self.board {
            return self.sum_at_board(board, values, number, call);
        }
        if self.native_sums && self.sum_meanwhile(values, number, call)? {
            return Ok(());
        }
        if numbers.saturating_mul(size) <= FEW {
            return self.sum_all(values, number, call);
        }
        self.sum_slices(values, number, call)
    }

    /// Sums through memory that all share, as much as there is room for at a time.
    fn sum_at_board(&self, board: &Board, values: &mut [f32], number: u64, call: Call) -> Result<()> {
        // Also where there is nothing to sum, all come here.
        if values.is_empty() {
            return self.at_board(board, number, call);
        }
        let meet = || self.at_board(board, number, call);
        values.chunks_mut(board::ROOM).try_for_each(|values| {
            // Two read as much of each other whether they sum all or halves.
            let all = self.size <= 2 || values.len().saturating_mul(self.size) <= FEW;
            board.sum(values, all, meet)
        })
    }

    /// Comes to the next phase at the memory that all share, and returns when all others have.
    fn at_board(&self, board: &Board, number: u64, call: Call) -> Result<()> {
        let phase = board.post((number, call.code()));
        for from in self.others() {
            let here = || board.posted(from, phase);
            let about = match self.patience.look(here) {
                Some(about) => about,
                // Who has come to something else sends a part of it.
                None => self.wait(from, || {
                    let elsewhere = || lock(&self.shared.inbox).part(number, from);
                    here().or_else(|| elsewhere().map(|(theirs, _)| (number, theirs)))
                })?,
            };
            if about != (number, call.code()) {
                return Err(self.disagreement(call, from, about.1));
            }
        }
        Ok(())
    }

    /// Each worker sums a slice, and sends it to all others.
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

    /// The carrier's own sum over workers of several machines, where it has one; whether it was taken. It is
    /// asked for again and again: the wire is needed for signs of life.
    fn sum_meanwhile(&self, values: &mut [f32], number: u64, call: Call) -> Result<bool> {
        self.come_together(number, call)?;
        if !lock(&self.shared.wire).begin_sum(values)? {
            return Ok(false);
        }
        let begun = Instant::now();
        loop {
            // The wire is free again before the buffer goes back to it.
            let summed = lock(&self.shared.wire).sum()?;
            if let Some(sums) = summed {
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
        match &self.board {
            Some(board) => self.at_board(board, number, Call::Barrier),
            None => self.come_together(number, Call::Barrier),
        }
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
    use super::super::wire::{Arrival, Wire};
    use super::super::{Options, Remote};
    use crate::Comm;
    use crate::error::Result;

    /// A worker alone, whose carrier comes to sums that nobody else would come to.
    #[derive(Default)]
    struct Sums(Option<Vec<f32>>);

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

        fn begin_sum(&mut self, values: &[f32]) -> Result<bool> {
            self.0 = Some(values.iter().map(|value| value + 100.0).collect());
            Ok(true)
        }

        fn sum(&mut self) -> Result<Option<Vec<f32>>> {
            Ok(self.0.take())
        }

        fn close(&mut self, _: bool) {}
    }

    /// Guards `parallel.sums`: the carrier sums where that was asked for.
    #[test]
    fn sums_are_the_carriers_where_they_may_be() {
        for (native_sums, expected) in [(true, 103.0), (false, 3.0)] {
            let options = Options { native_sums, ..Options::default() };
            let comm = Remote::connect(Box::new(Sums::default()), "here", options).unwrap();
            let mut values = vec![3.0; 1000];
            comm.all_reduce(&mut values).unwrap();
            assert!(values.iter().all(|value| *value == expected), "{native_sums}");
        }
    }
}
