//! The few functions of MPI that are used, as a [`Wire`]. All of them return at once.
//!
//! One thread at a time is in here, whichever it is: that is what was asked of MPI at the beginning
//! (`MPI_THREAD_SERIALIZED`), and `&mut self` sees to it.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use mpi_sys as ffi;

use super::calls::{self, check, is_done};
use super::parcel::{self, Leaving, Sender};
use crate::error::{Error, Result};
use crate::remote::spare::Spare;
use crate::remote::wire::{Arrival, Lane, Wire};

/// Numbers of a message from which on the wire is what takes the time.
const MUCH: usize = 1 << 14;

/// MPI, opened.
pub struct Library {
    rank: usize,
    size: usize,
    comm: ffi::MPI_Comm,
    /// What is being sent.
    leaving: Vec<Leaving>,
    /// Messages behind a large one that is on its way: they would share the wire with it, and both would come
    /// late.
    queued: VecDeque<(usize, Vec<f32>)>,
    /// What is being received, by sender.
    arriving: Vec<Sender>,
    /// Who is on this machine.
    near: Vec<bool>,
    spare: Spare,
    /// The sum under way: what it adds, and what it comes to.
    summing: Option<(ffi::MPI_Request, Vec<f32>, Vec<f32>)>,
}

// SAFETY: handles of MPI may be used by any thread, one at a time.
unsafe impl Send for Library {}

impl Library {
    /// Begins MPI; once in a process.
    pub fn open() -> Result<Library> {
        // SAFETY: constants of the library, and calls in the order that it asks for, with places to write to.
        unsafe {
            let mut provided = 0;
            let needed = ffi::RSMPI_THREAD_SERIALIZED;
            let code = ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), needed, &mut provided);
            check("MPI_Init_thread", code)?;
            if provided < needed {
                return Err(Error::usage(
                    "this MPI does not let several threads take turns (MPI_THREAD_SERIALIZED); use one that \
                     does",
                ));
            }
            let comm = ffi::RSMPI_COMM_WORLD;
            // Errors come back here instead of ending the process.
            check("MPI_Comm_set_errhandler", ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN))?;
            let (mut rank, mut size) = (0, 0);
            check("MPI_Comm_rank", ffi::MPI_Comm_rank(comm, &mut rank))?;
            check("MPI_Comm_size", ffi::MPI_Comm_size(comm, &mut size))?;
            let (rank, size) = (rank as usize, size as usize);
            let arriving = (0..size).map(|_| Sender::default()).collect();
            Ok(Library {
                rank,
                size,
                comm,
                leaving: Vec::new(),
                queued: VecDeque::new(),
                arriving,
                near: vec![false; size],
                spare: Spare::default(),
                summing: None,
            })
        }
    }

    /// The name of this machine.
    pub fn host(&self) -> String {
        let mut name = [0 as c_char; 1024];
        let mut length = 0;
        // SAFETY: the name is as long as any that MPI gives.
        let code = unsafe { ffi::MPI_Get_processor_name(name.as_mut_ptr(), &mut length) };
        let length = if check("", code).is_ok() { length.max(0) as usize } else { 0 };
        let name: Vec<u8> = name.iter().take(length).map(|&byte| byte as u8).collect();
        String::from_utf8_lossy(&name).into_owned()
    }

    /// Whether a large message is on its way.
    fn is_busy(&self) -> bool {
        self.leaving.iter().any(|leaving| leaving.words.len() > MUCH)
    }

    /// Begins to send.
    fn begin(&mut self, to: usize, lane: Lane, words: Vec<f32>) -> Result<()> {
        let mut leaving = Leaving::new(to, lane, words);
        let far = !self.near.get(to).copied().unwrap_or(false);
        leaving.begin(self.comm, far)?;
        self.leaving.push(leaving);
        parcel::send_more(&mut self.leaving, self.comm, &mut self.spare)
    }
}

impl Wire for Library {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, lane: Lane, words: Vec<f32>) -> Result<()> {
        // Parts of collectives come one at a time as it is, and signs of life must not wait.
        let waits = !self.queued.is_empty() || words.len() > MUCH && self.is_busy();
        if lane == Lane::Messages && waits {
            self.queued.push_back((to, words));
            return Ok(());
        }
        self.begin(to, lane, words)
    }

    fn poll(&mut self, arrived: &mut Vec<Arrival>) -> Result<bool> {
        while let Some(announced) = calls::next(self.comm)? {
            parcel::receive(announced, &mut self.arriving, &mut self.spare)?;
        }
        for (from, sender) in self.arriving.iter_mut().enumerate() {
            for (lane, queue) in Lane::ALL.into_iter().zip(sender) {
                // In the order in which they were announced, however they end.
                while queue.front_mut().map_or(Ok(false), |first| first.is_here())? {
                    let words = queue.pop_front().map(|first| first.words);
                    arrived.extend(words.map(|words| Arrival { from, lane, words }));
                }
            }
        }
        parcel::send_more(&mut self.leaving, self.comm, &mut self.spare)?;
        while !self.queued.is_empty() && !self.is_busy() {
            if let Some((to, words)) = self.queued.pop_front() {
                self.begin(to, Lane::Messages, words)?;
            }
        }
        Ok(!self.leaving.is_empty() || self.arriving.iter().flatten().any(|queue| !queue.is_empty()))
    }

    fn meet(&mut self, near: Vec<bool>) {
        self.near = near;
    }

    fn buffer(&mut self, numbers: usize) -> Vec<f32> {
        let mut words = self.spare.take(numbers);
        words.clear();
        words
    }

    fn recycle(&mut self, words: Vec<f32>) {
        self.spare.give(words);
    }

    fn begin_sum(&mut self, values: &[f32]) -> Result<bool> {
        let Ok(count) = c_int::try_from(values.len()) else { return Ok(false) };
        let [mut copied, mut sums] = [self.buffer(values.len()), self.buffer(values.len())];
        copied.extend_from_slice(values);
        sums.resize(values.len(), 0.0);
        let values = copied;
        let mut request = MaybeUninit::uninit();
        // SAFETY: both buffers are kept until the request is done.
        let request = unsafe {
            let code = ffi::MPI_Iallreduce(
                values.as_ptr().cast::<c_void>(),
                sums.as_mut_ptr().cast::<c_void>(),
                count,
                ffi::RSMPI_FLOAT,
                ffi::RSMPI_SUM,
                self.comm,
                request.as_mut_ptr(),
            );
            check("MPI_Iallreduce", code)?;
            request.assume_init()
        };
        self.summing = Some((request, values, sums));
        Ok(true)
    }

    fn sum(&mut self) -> Result<Option<Vec<f32>>> {
        let Some((request, _, _)) = &mut self.summing else { return Ok(None) };
        if !is_done(request)? {
            return Ok(None);
        }
        Ok(self.summing.take().map(|(_, values, sums)| {
            self.spare.give(values);
            sums
        }))
    }

    fn close(&mut self, in_order: bool) {
        if in_order {
            // SAFETY: nothing of MPI is used after this. What it says is of no use to anybody any more.
            unsafe { ffi::MPI_Finalize() };
        }
        // Otherwise it would wait for the lost one. Buffers that MPI may still read or write are not freed:
        // the process is at its end.
        std::mem::forget(std::mem::take(&mut self.leaving));
        std::mem::forget(std::mem::take(&mut self.arriving));
        std::mem::forget(self.summing.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process by itself, as from afar: messages in pieces arrive whole, beside others, and in order.
    #[test]
    fn large_messages_go_in_pieces() {
        let mut wire = Library::open().unwrap();
        assert_eq!((wire.rank(), wire.size()), (0, 1), "start it without mpirun");
        let message = |numbers: usize, first: usize| (first..first + numbers).map(|n| n as f32).collect();
        let lengths = [100_000, 3, 2 * parcel::PIECE, parcel::PIECE + 1, parcel::PIECE, 0, 500_000];
        let messages: Vec<Vec<f32>> = lengths.iter().zip(1..).map(|(&n, first)| message(n, first)).collect();
        let lanes = [Lane::Collectives, Lane::Messages];
        for words in &messages {
            lanes.iter().for_each(|&lane| wire.send(0, lane, words.clone()).unwrap());
        }
        let mut arrived = Vec::new();
        while wire.poll(&mut arrived).unwrap() || arrived.len() < lanes.len() * messages.len() {}
        for lane in lanes {
            let found = arrived.iter().filter(|arrival| arrival.lane == lane);
            assert!(found.map(|arrival| &arrival.words).eq(&messages), "{lane:?}");
        }
        wire.close(true);
    }
}
