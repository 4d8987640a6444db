//! Memory that all workers of a machine share, through which they sum: nothing is announced, matched or
//! copied twice, and who waits for others is where it can be told that one is lost.
//!
//! Every worker has an area: how far it is, what it was called for, and room for numbers, twice. It writes
//! its numbers, then that it is one phase further (`posted`), and reads those of others once they are, too.
//! Rooms take turns: who writes to one again has seen all others a phase further than when they read it.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use memmap2::MmapRaw;

use super::inbox::About;
use crate::traffic::slice;

/// Numbers that are summed at a time: what is written and read stays in the cache of a core.
pub const ROOM: usize = 1 << 16;

/// Names that are tried for it.
#[cfg(target_os = "linux")]
const NAMES: u32 = 100;

/// How far a worker is; alone in its lines of the cache.
#[repr(C, align(128))]
struct Head {
    posted: AtomicU64,
    /// Of this phase and of the one before: the number of a collective, and what was called.
    about: [[AtomicU64; 2]; 2],
}

/// Bytes of an area.
const AREA: usize = size_of::<Head>() + 2 * ROOM * size_of::<f32>();

/// A worker's view of the memory.
pub struct Board {
    rank: usize,
    size: usize,
    memory: MmapRaw,
    /// The room that comes next: they take turns.
    turn: AtomicUsize,
}

impl Board {
    /// Memory of zeros for this many workers, and the name by which processes of the machine find it. Nothing
    /// is left of it once all have ended, however they do.
    #[cfg(target_os = "linux")]
    pub fn create(size: usize) -> std::io::Result<(std::fs::File, String)> {
        use std::io::Write;
        use std::os::fd::AsRawFd;

        let process = std::process::id();
        // A name that somebody has for this moment, or was killed with, is passed over.
        let make = |number: u32| {
            let path = format!("/dev/shm/kymo-{process}-{number}");
            let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
            std::fs::remove_file(&path).map(|()| file)
        };
        let is_taken = |made: &std::io::Result<std::fs::File>| {
            made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
        };
        let mut file = (0..NAMES).map(make).find(|made| !is_taken(made)).unwrap_or_else(|| make(NAMES))?;
        // Written, not only made as long: where there is no room for it, this is where it is found out.
        for _ in 0..size {
            file.write_all(&vec![0; AREA])?;
        }
        let name = format!("/proc/{process}/fd/{}", file.as_raw_fd());
        Ok((file, name))
    }

    /// Not where memory cannot be named.
    #[cfg(not(target_os = "linux"))]
    pub fn create(_: usize) -> std::io::Result<(std::fs::File, String)> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// The memory of that name, as worker `rank` of `size`.
    pub fn open(name: &str, rank: usize, size: usize) -> std::io::Result<Board> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(name)?;
        if file.metadata()?.len() != (size * AREA) as u64 || rank >= size {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        Ok(Board { rank, size, memory: MmapRaw::map_raw(&file)?, turn: AtomicUsize::new(0) })
    }

    fn area(&self, rank: usize) -> *mut u8 {
        assert!(rank < self.size, "there is no worker {rank}");
        // SAFETY: the memory has an area for each of `size` workers.
        unsafe { self.memory.as_mut_ptr().add(rank * AREA) }
    }

    fn head(&self, rank: usize) -> &Head {
        // SAFETY: an area begins with it, pages are aligned, an area is a multiple of its alignment, and
        // zeros, which it begins with, are atomic numbers.
        unsafe { &*self.area(rank).cast::<Head>() }
    }

    fn room(&self, rank: usize) -> *mut f32 {
        // SAFETY: behind the head there are two rooms, and the turn is the number of one of them.
        unsafe {
            self.area(rank).add(size_of::<Head>()).cast::<f32>().add(self.turn.load(Ordering::Relaxed) * ROOM)
        }
    }

    /// Sums the numbers of all workers, no more than there is [`ROOM`] for, in the order of ranks. `meet`
    /// comes to the next phase ([`Board::post`]) and returns when all others have, or with an error, after
    /// which nothing can be summed any more. Each sums everything, or its slice where `all` is not said, in
    /// which case there are two phases.
    pub fn sum<E>(&self, values: &mut [f32], all: bool, meet: impl Fn() -> Result<(), E>) -> Result<(), E> {
        let (numbers, size) = (values.len(), self.size);
        let slice_of = |rank: usize| if all { 0..numbers } else { slice(numbers, size, rank) };
        let meet = || {
            meet()?;
            assert!(self.are_here(), "a worker went on before all had come");
            Ok(())
        };
        // It is the other room's turn.
        self.turn.fetch_xor(1, Ordering::Relaxed);
        // SAFETY: the room was read two sums ago, and all have posted the one between since.
        unsafe { self.write(0, values) };
        meet()?;
        let own = slice_of(self.rank);
        let sums = &mut values[own.clone()];
        for rank in 0..size {
            // SAFETY: all have posted what they wrote. In the next phase each writes to its own slice alone,
            // which nobody else reads in this one.
            let theirs = unsafe { self.read(rank, own.clone()) };
            match rank {
                0 => sums.copy_from_slice(theirs),
                _ => sums.iter_mut().zip(theirs).for_each(|(sum, value)| *sum += value),
            }
        }
        if all {
            return Ok(());
        }
        // SAFETY: nobody else reads this slice before this worker has posted.
        unsafe { self.write(own.start, sums) };
        meet()?;
        for rank in (0..size).filter(|&rank| rank != self.rank) {
            let theirs = slice_of(rank);
            // SAFETY: all have posted their sums, and write to the other room next.
            values[theirs.clone()].copy_from_slice(unsafe { self.read(rank, theirs) });
        }
        Ok(())
    }

    /// Whether all workers have come to the phase that this one is in.
    fn are_here(&self) -> bool {
        let phase = self.head(self.rank).posted.load(Ordering::Relaxed);
        (0..self.size).all(|rank| self.head(rank).posted.load(Ordering::Acquire) >= phase)
    }

    /// Numbers that a worker has written in the room whose turn it is.
    ///
    /// # Safety
    ///
    /// It was seen to have posted since it wrote them, and writes no more of these until this worker has
    /// posted, too.
    unsafe fn read(&self, rank: usize, numbers: Range<usize>) -> &[f32] {
        assert!(numbers.start <= numbers.end && numbers.end <= ROOM, "a room has {ROOM} numbers");
        // SAFETY: within the room; nobody writes there, as the caller says.
        unsafe { std::slice::from_raw_parts(self.room(rank).add(numbers.start), numbers.len()) }
    }

    /// Writes numbers from a place of this worker's room on.
    ///
    /// # Safety
    ///
    /// All others have posted since they read what is there.
    unsafe fn write(&self, at: usize, numbers: &[f32]) {
        assert!(at <= ROOM && numbers.len() <= ROOM - at, "a room has {ROOM} numbers");
        // SAFETY: within the room; nobody reads there, as the caller says.
        unsafe {
            std::ptr::copy_nonoverlapping(numbers.as_ptr(), self.room(self.rank).add(at), numbers.len());
        }
    }

    /// This worker is one phase further; which one that is.
    pub fn post(&self, (number, call): About) -> u64 {
        let head = self.head(self.rank);
        let phase = head.posted.load(Ordering::Relaxed) + 1;
        let about = &head.about[phase as usize % 2];
        about[0].store(number, Ordering::Relaxed);
        about[1].store(call, Ordering::Relaxed);
        head.posted.store(phase, Ordering::Release);
        phase
    }

    /// What a worker was called for, once it has come to a phase.
    pub fn posted(&self, rank: usize, phase: u64) -> Option<About> {
        let head = self.head(rank);
        let about = &head.about[phase as usize % 2];
        let here = head.posted.load(Ordering::Acquire) >= phase;
        here.then(|| (about[0].load(Ordering::Relaxed), about[1].load(Ordering::Relaxed)))
    }

    /// What a worker was called for at last.
    pub fn latest(&self, rank: usize) -> Option<About> {
        let phase = self.head(rank).posted.load(Ordering::Acquire);
        self.posted(rank, phase).filter(|_| phase > 0)
    }
}
