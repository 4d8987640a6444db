//! The allocator of the command: where memory ends it says so and ends the process, instead of an abort.
//!
//! It belongs to the command, not to the library: other programs keep theirs. Those who could do without what
//! they ask for (`try_reserve`: the standard library when it reads files, decoders) would only have said the
//! same, with the same exit code.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kymo::cli::process::{end_without_memory, without_memory};
use signal_hook::consts::SIGABRT;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator { ended: AtomicBool::new(false) };

/// From now on an abort for lack of memory is an error, too: the C library aborts where it has none for a
/// thread that begins. Other aborts stay what they are.
pub fn watch_aborts() {
    // SAFETY: it maps memory, writes a line from the stack and exits, all of which a handler may do.
    // Where it cannot be set, an abort is one.
    let _ = unsafe { signal_hook::low_level::register(SIGABRT, end_without_memory) };
}

/// Bytes from which on memory goes back to the system as soon as it is free.
const LARGE: i32 = 1 << 20;

/// Bytes that may be free at the end of the library's memory before they go back to the system.
const SPARE: i32 = 16 << 20;

/// From now on large arrays go back to the system when they are free. The C library of GNU would keep those
/// of up to 32 MiB among others in use: a process held twice what it was counted to hold, and with a limit of
/// 8 MiB still an eighth more where workers share snapshots, whose parts are arrays of all sizes. What is
/// needed again and again is used again by those who need it, and small arrays stay with the library.
///
/// The library gives back what is free at the end of its memory as well, from 128 KiB on unless it is told
/// otherwise: what a step makes for itself would then cost a page fault every four kilobytes, every time.
pub fn return_large_arrays() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn mallopt(parameter: i32, value: i32) -> i32;
        }
        const MMAP_THRESHOLD: i32 = -3;
        const TRIM_THRESHOLD: i32 = -1;
        // SAFETY: it sets numbers of the allocator, before there are other threads. It is advice: where it
        // is not taken, more memory is kept, or less.
        let _ = unsafe { (mallopt(MMAP_THRESHOLD, LARGE), mallopt(TRIM_THRESHOLD, SPARE)) };
    }
}

/// The system's, and whether it had nothing left once.
struct Allocator {
    ended: AtomicBool,
}

impl Allocator {
    /// The memory that was got, if any was.
    fn got(&self, memory: *mut u8, bytes: usize) -> *mut u8 {
        if !memory.is_null() {
            return memory;
        }
        if !self.ended.swap(true, Ordering::Relaxed) {
            without_memory(bytes);
        }
        // Another thread is saying it.
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

// SAFETY: everything is forwarded as it came, and only what the system returned is returned.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.got(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.got(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.got(unsafe { System.realloc(memory, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }
}
