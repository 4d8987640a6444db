//! Workers that are threads of one process.
//!
//! A message is moved into the mailbox of its receiver, so nothing is copied. Collectives are meetings: each
//! worker shows what it has, waits until all have come, and reads what the others show. Since every worker
//! says which collective it came for, workers that call different collectives all get an error instead of
//! waiting for each other.
//!
//! A worker should own its endpoint: an endpoint that is dropped, also by a panic, is how the others learn
//! that its worker has gone.

mod board;
mod mailbox;
mod meeting;
mod pool;
mod waiting;

use std::sync::{Arc, Mutex};

use board::{Board, read, show};
use mailbox::Mailbox;
use meeting::Meeting;
use pool::Pool;
use waiting::{Patience, Roll, lock};

use crate::call::Call;
use crate::error::{Error, Result};
use crate::traffic::{Counters, Traffic, all_reduce_bytes, bytes_of, slice};
use crate::{Comm, Tag};

/// Numbers of all workers together up to which each sums everything itself: cheaper than to meet a second
/// time.
const FEW: usize = 8192;

/// Numbers summed over all workers before the next are: they stay in the nearest cache.
const BLOCK: usize = 2048;

struct Shared {
    roll: Roll,
    mailboxes: Vec<Mailbox>,
    meeting: Meeting,
    boards: Vec<Board>,
    pool: Pool,
    patience: Patience,
}

/// The endpoint of one worker.
pub struct Threads {
    rank: usize,
    shared: Arc<Shared>,
    counters: Counters,
    /// Held during a collective: a worker is in one at a time, however many threads it has.
    turn: Mutex<()>,
}

/// The endpoints of `size` workers, in the order of their ranks.
pub fn threads(size: usize) -> Vec<Threads> {
    let shared = Arc::new(Shared {
        roll: Roll::new(size),
        mailboxes: (0..size).map(|_| Mailbox::default()).collect(),
        meeting: Meeting::new(size),
        boards: (0..size).map(|_| Board::default()).collect(),
        pool: Pool::new(size),
        patience: Patience::for_workers(size),
    });
    let endpoint =
        |rank| Threads { rank, shared: shared.clone(), counters: Counters::default(), turn: Mutex::new(()) };
    (0..size).map(endpoint).collect()
}

impl Threads {
    /// An error where there is no worker `rank`.
    fn check(&self, rank: usize) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        let last = self.size() - 1;
        Err(Error::usage(format!(
            "there is no worker {rank}: worker {last} is the last; name one that is there"
        )))
    }

    fn attend(&self, call: Call) -> Result<()> {
        self.shared.meeting.attend(self.rank, call, &self.shared.roll, &self.shared.patience)
    }

    /// The bytes of `numbers` numbers to or from `other`: none where that is this worker.
    fn wire(&self, other: usize, numbers: usize) -> u64 {
        if other == self.rank { 0 } else { bytes_of(numbers) }
    }

    /// The sum over workers of what they show for `meeting`, from number `start` on.
    fn sum(&self, meeting: u64, start: usize, sums: &mut [f32]) {
        for (index, block) in sums.chunks_mut(BLOCK).enumerate() {
            let start = start + index * BLOCK;
            for (rank, board) in self.shared.boards.iter().enumerate() {
                let shown = read(board.numbers.at(meeting));
                let shown = &shown[start..start + block.len()];
                if rank == 0 {
                    block.copy_from_slice(shown);
                } else {
                    block.iter_mut().zip(shown).for_each(|(sum, value)| *sum += value);
                }
            }
        }
    }
}

impl Comm for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.boards.len()
    }

    /// Sending to a worker that has gone is an error: the message would never be read.
    fn send(&self, to: usize, tag: Tag, values: Vec<f32>) -> Result<()> {
        self.check(to)?;
        if self.shared.roll.has_gone(to) {
            return Err(self.shared.roll.error(to, format_args!("reading a message with tag {}", tag.0)));
        }
        self.counters.messages(self.wire(to, values.len()), 0);
        self.shared.mailboxes[to].put(self.rank, tag, values);
        Ok(())
    }

    fn receive(&self, from: usize, tag: Tag) -> Result<Vec<f32>> {
        self.check(from)?;
        let Shared { mailboxes, roll, patience, .. } = &*self.shared;
        let message = mailboxes[self.rank].take(from, tag, roll, patience)?;
        self.counters.messages(0, self.wire(from, message.len()));
        Ok(message)
    }

    fn try_receive(&self, from: usize, tag: Tag) -> Result<Option<Vec<f32>>> {
        self.check(from)?;
        let message = self.shared.mailboxes[self.rank].try_take(from, tag, &self.shared.roll)?;
        self.counters.messages(0, message.as_ref().map_or(0, |message| self.wire(from, message.len())));
        Ok(message)
    }

    /// After an error `values` may hold sums, inputs or both.
    fn all_reduce(&self, values: &mut [f32]) -> Result<()> {
        let size = self.size();
        let numbers = values.len();
        let call = Call::AllReduce { numbers };
        let _turn = lock(&self.turn);
        let Shared { meeting, boards, .. } = &*self.shared;
        let inputs = meeting.next();
        show(boards[self.rank].numbers.at(inputs), values);
        self.attend(call)?;
        if numbers.saturating_mul(size) <= FEW {
            self.sum(inputs, 0, values);
        } else {
            let own = slice(numbers, size, self.rank);
            self.sum(inputs, own.start, &mut values[own.clone()]);
            let sums = meeting.next();
            show(boards[self.rank].numbers.at(sums), &values[own]);
            self.attend(call)?;
            for (rank, board) in boards.iter().enumerate().filter(|(rank, _)| *rank != self.rank) {
                values[slice(numbers, size, rank)].copy_from_slice(&read(board.numbers.at(sums)));
            }
        }
        self.counters.all_reduce(all_reduce_bytes(numbers, size, self.rank));
        Ok(())
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let _turn = lock(&self.turn);
        let Shared { meeting, boards, .. } = &*self.shared;
        let number = meeting.next();
        show(boards[self.rank].bytes.at(number), mine);
        self.attend(Call::AllGather)?;
        let all: Vec<Vec<u8>> = boards.iter().map(|board| read(board.bytes.at(number)).clone()).collect();
        let received: usize = all.iter().map(Vec::len).sum();
        let peers = self.size() as u64 - 1;
        self.counters.collectives(mine.len() as u64 * peers, (received - mine.len()) as u64);
        Ok(all)
    }

    fn all_to_all(&self, mine: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>> {
        let _turn = lock(&self.turn);
        let Shared { meeting, boards, .. } = &*self.shared;
        let call = Call::AllToAll { parts: mine.len() };
        let sent = mine.iter().enumerate().map(|(to, part)| self.wire(to, part.len())).sum();
        let number = meeting.next();
        // What stands there is the list of an earlier call, emptied by those it was for.
        let mut all = std::mem::replace(&mut *lock(boards[self.rank].parts.at(number)), mine);
        all.clear();
        self.attend(call)?;
        for board in boards {
            all.push(std::mem::take(&mut lock(board.parts.at(number))[self.rank]));
        }
        let received = all.iter().enumerate().map(|(from, part)| self.wire(from, part.len())).sum();
        self.counters.messages(sent, received);
        Ok(all)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let _turn = lock(&self.turn);
        let Shared { meeting, boards, .. } = &*self.shared;
        let number = meeting.next();
        if root == self.rank {
            show(boards[root].bytes.at(number), &bytes);
        }
        self.attend(Call::Broadcast { root })?;
        if root == self.rank {
            self.counters.collectives(bytes.len() as u64 * (self.size() as u64 - 1), 0);
            return Ok(bytes);
        }
        let shown = read(boards[root].bytes.at(number)).clone();
        self.counters.collectives(0, shown.len() as u64);
        Ok(shown)
    }

    fn barrier(&self) -> Result<()> {
        let _turn = lock(&self.turn);
        self.attend(Call::Barrier)
    }

    fn traffic(&self) -> Traffic {
        self.counters.read()
    }

    fn recycle(&self, values: Vec<f32>) {
        self.shared.pool.give(values);
    }

    fn buffer(&self, numbers: usize) -> Vec<f32> {
        self.shared.pool.take(numbers)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.roll.leave(self.rank);
        self.shared.mailboxes.iter().for_each(Mailbox::wake);
        self.shared.meeting.wake();
    }
}
