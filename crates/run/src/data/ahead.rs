//! Readers: threads that prepare snapshots before their turn comes.
//!
//! They take the steps of the next windows one after the other, as long as there is room for them. An error
//! is left to the one who needs the step: it meets it again when its turn comes, and reports it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use kymo_graph::Step;
use kymo_trace::Kind;

use super::snapshots::Shared;

/// The threads that read ahead; none until they are first needed.
#[derive(Default)]
pub(super) struct Readers(Mutex<Vec<JoinHandle<()>>>);

impl Readers {
    /// Sees to it that readers are there.
    pub fn wake(&self, shared: &Arc<Shared>) {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while threads.len() < shared.room.readers {
            let mine = shared.clone();
            // Where there is no thread for it, snapshots are read when their turn comes.
            let Ok(thread) = Builder::new().name("reader".into()).spawn(move || read(&mine)) else { return };
            threads.push(thread);
        }
    }

    /// Waits until all have noticed that it is over.
    pub fn join(&self) {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A reader that panicked has said so; what it was to read is read by others.
            let _ = thread.join();
        }
    }
}

/// Reads what is wanted until it is over, a window after the other.
fn read(shared: &Shared) {
    let (mut on, mut last): (Option<Range<Step>>, Option<Step>) = (None, None);
    let mut state = shared.state();
    while !state.ended {
        let wish = shared.wish(&mut state, last, on.as_ref());
        let window = wish.as_ref().map(|(_, window)| window.clone());
        if on != window {
            let before = on.take();
            state.taken.retain(|taken| Some(taken) != before.as_ref());
            state.taken.extend(window.clone());
            on = window;
        }
        let Some((t, window)) = wish else {
            state = shared.wait(state);
            continue;
        };
        drop(state);
        last = Some(t);
        let begun = Instant::now();
        let read = shared.get(t, &window);
        shared.recorder.record(Kind::Prepare, "snapshot", begun, 0);
        state = shared.state();
        // Where it fails, nobody should try again and again before its turn comes.
        if read.is_err() {
            state.next.clear();
            state.now.clear();
        }
    }
}
