//! Memory that all workers of a machine share, through which they sum: nothing is announced, matched or
//! copied twice, and who waits for others is where it can be told that one is lost.
//!
//! Every worker has an area: how far it is, what it was called for, and room for numbers, twice. It writes
//! its numbers, then that it is one phase further (`posted`), and reads those of others once they are, too.
//! Rooms take turns: who writes to one again has seen all others a phase further than when they read it.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use memmap2::MmapRaw;

use super::inbox::About;

/// Numbers that are summed at a time: what is written and read stays in the cache of a core.
pub const ROOM: usize = 1 << 16;

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

        static MADE: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = format!("/dev/shm/kymo-{process}-{number}");
        // What another process of this number may have left is nobody's.
        let _ = std::fs::remove_file(&path);
        let mut file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
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

    /// Numbers that a worker has written in the room whose turn it is.
    ///
    /// # Safety
    ///
    /// It was seen to have posted since it wrote them, and writes no more of these until this worker has
    /// posted, too.
    pub unsafe fn read(&self, rank: usize, numbers: std::ops::Range<usize>) -> &[f32] {
        assert!(numbers.start <= numbers.end && numbers.end <= ROOM, "a room has {ROOM} numbers");
        // SAFETY: within the room; nobody writes there, as the caller says.
        unsafe { std::slice::from_raw_parts(self.room(rank).add(numbers.start), numbers.len()) }
    }

    /// Writes numbers from a place of this worker's room on.
    ///
    /// # Safety
    ///
    /// All others have posted since they read what is there.
    pub unsafe fn write(&self, at: usize, numbers: &[f32]) {
        assert!(at <= ROOM && numbers.len() <= ROOM - at, "a room has {ROOM} numbers");
        // SAFETY: within the room; nobody reads there, as the caller says.
        unsafe {
            std::ptr::copy_nonoverlapping(numbers.as_ptr(), self.room(self.rank).add(at), numbers.len());
        }
    }

    /// It is the other room's turn.
    pub fn turn(&self) {
        self.turn.fetch_xor(1, Ordering::Relaxed);
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
