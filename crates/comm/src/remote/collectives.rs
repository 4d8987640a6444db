//! What workers do together, made of messages.
//!
//! Every part says which collective it is for, by number and by call, so that workers that disagree find out
//! instead of waiting for each other.

use std::time::Instant;

use super::inbox::seal;
use super::wire::Lane;
use super::{Remote, lock};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::packing::{packed, unpacked};
use crate::traffic::{all_reduce_bytes, slice};

/// Numbers of all workers together up to which each sums everything itself: one way instead of two.
const FEW: usize = 8192;

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
        if self.native_sums && self.sum_natively(values)? {
            return Ok(());
        }
        if numbers.saturating_mul(size) <= FEW {
            return self.sum_all(values, number, call);
        }
        for to in self.others() {
            let part = &values[slice(numbers, size, to)];
            let mut words = self.room(part.len());
            words.extend_from_slice(part);
            self.give(to, number, call, words)?;
        }
        // In the order of ranks, whoever comes first: sums of floats depend on it.
        let own = slice(numbers, size, self.rank);
        let mut sums: Vec<f32> = Vec::new();
        for rank in 0..size {
            match (rank == self.rank, rank) {
                (true, 0) => sums.extend_from_slice(&values[own.clone()]),
                (true, _) => add(&mut sums, &values[own.clone()]),
                (false, 0) => sums = self.expected(rank, number, call, own.len())?,
                (false, _) => add(&mut sums, &self.expected(rank, number, call, own.len())?),
            }
        }
        for to in self.others() {
            let mut words = self.room(sums.len());
            words.extend_from_slice(&sums);
            self.give(to, number, call, words)?;
        }
        values[own].copy_from_slice(&sums);
        for rank in self.others() {
            let theirs = slice(numbers, size, rank);
            let sums = self.expected(rank, number, call, theirs.len())?;
            values[theirs].copy_from_slice(&sums);
        }
        Ok(())
    }

    /// Everybody sends everything to everybody.
    fn sum_all(&self, values: &mut [f32], number: u64, call: Call) -> Result<()> {
        for to in self.others() {
            let mut words = self.room(values.len());
            words.extend_from_slice(values);
            self.give(to, number, call, words)?;
        }
        let mine = values.to_vec();
        for rank in 0..self.size {
            let theirs = match rank == self.rank {
                true => mine.clone(),
                false => self.expected(rank, number, call, mine.len())?,
            };
            match rank {
                0 => values.copy_from_slice(&theirs),
                _ => add(values, &theirs),
            }
        }
        Ok(())
    }

    /// A part of a known length.
    fn expected(&self, from: usize, number: u64, call: Call, numbers: usize) -> Result<Vec<f32>> {
        let part = self.part(from, number, call)?;
        if part.len() == numbers {
            return Ok(part);
        }
        Err(Error::peer(from, format!("sent {} numbers where {numbers} were expected", part.len())))
    }

    /// The carrier's own sum; whether it has one.
    fn sum_natively(&self, values: &mut [f32]) -> Result<bool> {
        if !lock(&self.shared.wire).begin_sum(values)? {
            return Ok(false);
        }
        let begun = Instant::now();
        loop {
            if let Some(sums) = lock(&self.shared.wire).sum()? {
                values.copy_from_slice(&sums);
                return Ok(true);
            }
            if let Some(error) = self.shared.failed() {
                return Err(error.clone());
            }
            self.patience.pause(begun.elapsed());
        }
    }

    fn room(&self, numbers: usize) -> Vec<f32> {
        Vec::with_capacity(numbers + super::TRAILER)
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
        let (mut sent, mut received) = (0, 0);
        let mut all = vec![Vec::new(); self.size];
        for (to, part) in mine.into_iter().enumerate() {
            sent += self.bytes(to, part.len());
            match to == self.rank {
                true => all[to] = part,
                false => self.give(to, number, call, part)?,
            }
        }
        for from in self.others() {
            all[from] = self.part(from, number, call)?;
            received += self.bytes(from, all[from].len());
        }
        self.counters.messages(sent, received);
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
        for to in self.others() {
            self.give(to, number, Call::Barrier, Vec::new())?;
        }
        self.others().try_for_each(|from| self.part(from, number, Call::Barrier).map(drop))
    }
}

fn add(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

fn cut_off(from: usize) -> Error {
    Error::peer(from, "sent a message that is cut off")
}
