//! Messages on their way, whole or in pieces.
//!
//! A large message to another machine goes in pieces that need not be asked for. Open MPI asks the receiver
//! before it sends more than 64 KiB, and the answer waits behind what the receiver itself is sending on the
//! same connection: two workers that exchange much would send one after the other, each at half the rate.

use std::collections::VecDeque;
use std::ffi::c_int;

use mpi_sys as ffi;

use super::calls::{self, Announced};
use crate::error::{Error, Result};
use crate::remote::spare::Spare;
use crate::remote::wire::Lane;

/// Numbers that are sent without asking: 64 KiB without what MPI writes before them.
pub const PIECE: usize = 15_000;

/// Pieces under way at a time: enough to keep a wire busy, and few enough that signs of life, which come
/// after them, do not come late.
const WINDOW: usize = 16;

/// What is in a message of MPI; its tag has that and the lane.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    /// How many numbers will come in pieces.
    Length,
    Piece,
}

const LANES: usize = Lane::ALL.len();

impl Part {
    const ALL: [Part; 3] = [Part::Whole, Part::Length, Part::Piece];

    fn tag(self, lane: Lane) -> c_int {
        (self as usize * LANES + lane as usize) as c_int
    }

    fn of(tag: usize) -> Option<(Part, Lane)> {
        Some((*Part::ALL.get(tag / LANES)?, Lane::ALL[tag % LANES]))
    }
}

/// A message that is being sent; its numbers stay where they are until it is.
pub struct Leaving {
    to: usize,
    lane: Lane,
    /// How many there are, where MPI can read it.
    length: Vec<f32>,
    /// What it says.
    pub words: Vec<f32>,
    begun: usize,
    requests: VecDeque<ffi::MPI_Request>,
}

impl Leaving {
    /// A message that nothing was sent of.
    pub fn new(to: usize, lane: Lane, words: Vec<f32>) -> Leaving {
        let count = words.len() as u64;
        let length = [count as u32, (count >> 32) as u32].map(f32::from_bits).to_vec();
        Leaving { to, lane, length, words, begun: 0, requests: VecDeque::new() }
    }

    /// Begins to send it, in pieces where it is to be.
    pub fn begin(&mut self, comm: ffi::MPI_Comm, in_pieces: bool) -> Result<()> {
        let (part, words) = match in_pieces && self.words.len() > PIECE {
            true => (Part::Length, &self.length[..]),
            false => {
                self.begun = self.words.len();
                (Part::Whole, &self.words[..])
            }
        };
        // SAFETY: both are on the heap, and kept until the requests are done, or for ever.
        self.requests.push_back(unsafe { calls::send(comm, self.to, part.tag(self.lane), words)? });
        Ok(())
    }

    /// Sends more of it; whether it has gone.
    fn go_on(&mut self, comm: ffi::MPI_Comm) -> Result<bool> {
        while self.begun < self.words.len() && self.requests.len() < WINDOW {
            let end = self.words.len().min(self.begun + PIECE);
            let (tag, piece) = (Part::Piece.tag(self.lane), &self.words[self.begun..end]);
            // SAFETY: as above.
            self.requests.push_back(unsafe { calls::send(comm, self.to, tag, piece)? });
            self.begun = end;
        }
        Ok(calls::are_done(&mut self.requests)? && self.begun == self.words.len())
    }
}

/// Sends more of the messages under way, and takes those away that have gone. Pieces say nothing of the
/// message that they are of: those of one worker and lane go one message after the other.
pub fn send_more(leaving: &mut Vec<Leaving>, comm: ffi::MPI_Comm, spare: &mut Spare) -> Result<()> {
    let (mut index, mut taken) = (0, Vec::new());
    while index < leaving.len() {
        let message = &mut leaving[index];
        let way = (message.to, message.lane);
        let gone = !taken.contains(&way) && message.go_on(comm)?;
        if message.begun < message.words.len() {
            taken.push(way);
        }
        match gone {
            true => spare.give(leaving.remove(index).words),
            false => index += 1,
        }
    }
    Ok(())
}

/// A message that is being received.
pub struct Arriving {
    /// What it says, once it is there.
    pub words: Vec<f32>,
    begun: usize,
    requests: VecDeque<ffi::MPI_Request>,
}

impl Arriving {
    /// Whether all of it is there.
    pub fn is_here(&mut self) -> Result<bool> {
        Ok(calls::are_done(&mut self.requests)? && self.begun == self.words.len())
    }
}

/// Messages of one worker that are being received, by lane, in the order in which they were announced.
pub type Sender = [VecDeque<Arriving>; LANES];

/// Begins to receive what was announced.
pub fn receive(announced: Announced, senders: &mut [Sender], spare: &mut Spare) -> Result<()> {
    let (from, count) = (announced.from, announced.count);
    let known = senders.get_mut(from).zip(Part::of(announced.tag));
    let strange = || Error::usage("MPI announced a message that nobody here has sent");
    let (sender, (part, lane)) = known.ok_or_else(strange)?;
    let queue = &mut sender[lane as usize];
    let mut place = |numbers: usize| {
        let mut words = spare.take(numbers);
        words.resize(numbers, 0.0);
        Arriving { words, begun: 0, requests: VecDeque::new() }
    };
    match part {
        Part::Whole => {
            let mut whole = place(count);
            // SAFETY: numbers on the heap, which are kept until the request is done, or for ever.
            whole.requests.push_back(unsafe { calls::receive(announced, &mut whole.words)? });
            whole.begun = count;
            queue.push_back(whole);
        }
        Part::Length => {
            let mut length = [0.0; 2];
            // SAFETY: the numbers stay until the request is done: so short a message is here already.
            let mut request = unsafe { calls::receive(announced, &mut length)? };
            while !calls::is_done(&mut request)? {}
            let [low, high] = length.map(|word| u64::from(word.to_bits()));
            queue.push_back(place((low | high << 32) as usize));
        }
        Part::Piece => {
            let open = queue.iter_mut().find(|message| message.begun < message.words.len());
            let open = open.ok_or_else(strange)?;
            let end = open.begun + count;
            let words = open.words.get_mut(open.begun..end).ok_or_else(strange)?;
            // SAFETY: as above.
            open.requests.push_back(unsafe { calls::receive(announced, words)? });
            open.begun = end;
        }
    }
    Ok(())
}
