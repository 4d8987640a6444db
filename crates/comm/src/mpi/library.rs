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

use crate::error::{Error, Result};
use crate::remote::spare::Spare;
use crate::remote::wire::{Arrival, Lane, Wire};

/// Numbers of a message from which on the wire is what takes the time.
const MUCH: usize = 1 << 14;

/// What is being received.
struct Arriving {
    request: ffi::MPI_Request,
    lane: Lane,
    words: Vec<f32>,
}

/// MPI, opened.
pub struct Library {
    rank: usize,
    size: usize,
    comm: ffi::MPI_Comm,
    /// What is being sent; buffers stay where they are until it is.
    leaving: Vec<(ffi::MPI_Request, Vec<f32>)>,
    /// Messages behind a large one that is on its way: they would share the wire with it, and both would come
    /// late.
    queued: VecDeque<(usize, Vec<f32>)>,
    /// By sender, in the order in which messages were announced.
    arriving: Vec<VecDeque<Arriving>>,
    spare: Spare,
    /// The sum under way: what it adds, and what it comes to.
    summing: Option<(ffi::MPI_Request, Vec<f32>, Vec<f32>)>,
}

// SAFETY: handles of MPI may be used by any thread, one at a time.
unsafe impl Send for Library {}

/// What a function of MPI returned.
fn check(what: &str, code: c_int) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0 as c_char; 1024];
    let mut length = 0;
    // SAFETY: the text is as long as any message of MPI.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr(), &mut length) };
    let text: Vec<u8> = text.iter().take(length.max(0) as usize).map(|&byte| byte as u8).collect();
    Err(Error::usage(format!("{what}: {}", String::from_utf8_lossy(&text))))
}

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
            let arriving = (0..size).map(|_| VecDeque::new()).collect();
            Ok(Library {
                rank,
                size,
                comm,
                leaving: Vec::new(),
                queued: VecDeque::new(),
                arriving,
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
        self.leaving.iter().any(|(_, words)| words.len() > MUCH)
    }

    /// Begins to send.
    fn begin(&mut self, to: usize, lane: Lane, words: Vec<f32>) -> Result<()> {
        let count = c_int::try_from(words.len()).map_err(|_| {
            Error::usage(format!("a message of {} numbers is more than MPI carries at once", words.len()))
        })?;
        let mut request = MaybeUninit::uninit();
        // SAFETY: the buffer is kept, and not touched, until the request is done.
        let request = unsafe {
            let place = words.as_ptr().cast::<c_void>();
            let code = ffi::MPI_Isend(
                place,
                count,
                ffi::RSMPI_FLOAT,
                to as c_int,
                lane as c_int,
                self.comm,
                request.as_mut_ptr(),
            );
            check("MPI_Isend", code)?;
            request.assume_init()
        };
        self.leaving.push((request, words));
        Ok(())
    }

    /// Begins to receive the next message that was announced; whether there was one.
    fn next(&mut self) -> Result<bool> {
        let mut status = MaybeUninit::<ffi::MPI_Status>::uninit();
        let (mut found, mut message, mut count) = (0, MaybeUninit::uninit(), 0);
        // SAFETY: places to write to; status and message are written where one was found.
        let (status, message) = unsafe {
            let (source, tag) = (ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_ANY_TAG);
            let code = ffi::MPI_Improbe(
                source,
                tag,
                self.comm,
                &mut found,
                message.as_mut_ptr(),
                status.as_mut_ptr(),
            );
            check("MPI_Improbe", code)?;
            if found == 0 {
                return Ok(false);
            }
            let status = status.assume_init();
            check("MPI_Get_count", ffi::MPI_Get_count(&status, ffi::RSMPI_FLOAT, &mut count))?;
            (status, message.assume_init())
        };
        let mut message = message;
        let from = status.MPI_SOURCE as usize;
        let lane = Lane::ALL.get(status.MPI_TAG as usize).copied();
        let (Some(queue), Some(lane)) = (self.arriving.get_mut(from), lane) else {
            return Err(Error::usage("MPI announced a message that nobody here has sent"));
        };
        let mut words = self.spare.take(count.max(0) as usize);
        words.resize(count.max(0) as usize, 0.0);
        let mut request = MaybeUninit::uninit();
        // SAFETY: the buffer has as many numbers as were announced, and stays where it is while it is kept.
        let request = unsafe {
            let place = words.as_mut_ptr().cast::<c_void>();
            let code = ffi::MPI_Imrecv(place, count, ffi::RSMPI_FLOAT, &mut message, request.as_mut_ptr());
            check("MPI_Imrecv", code)?;
            request.assume_init()
        };
        queue.push_back(Arriving { request, lane, words });
        Ok(true)
    }
}

/// Whether a request is done.
fn is_done(request: &mut ffi::MPI_Request) -> Result<bool> {
    let mut done = 0;
    // SAFETY: a request that was begun, and is not asked for again once it is done.
    let code = unsafe { ffi::MPI_Test(request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
    check("MPI_Test", code)?;
    Ok(done != 0)
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
        while self.next()? {}
        for (from, queue) in self.arriving.iter_mut().enumerate() {
            // In the order in which they were announced, however they end.
            while let Some(first) = queue.front_mut() {
                if !is_done(&mut first.request)? {
                    break;
                }
                arrived.extend(queue.pop_front().map(|Arriving { lane, words, .. }| Arrival {
                    from,
                    lane,
                    words,
                }));
            }
        }
        let mut index = 0;
        while index < self.leaving.len() {
            match is_done(&mut self.leaving[index].0)? {
                true => {
                    let (_, words) = self.leaving.swap_remove(index);
                    self.spare.give(words);
                }
                false => index += 1,
            }
        }
        while !self.queued.is_empty() && !self.is_busy() {
            if let Some((to, words)) = self.queued.pop_front() {
                self.begin(to, Lane::Messages, words)?;
            }
        }
        Ok(!self.leaving.is_empty() || self.arriving.iter().any(|queue| !queue.is_empty()))
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
        let (values, mut sums) = (values.to_vec(), vec![0.0f32; values.len()]);
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
        Ok(self.summing.take().map(|(_, _, sums)| sums))
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
