//! Events and their order: a log that sorts by time, on disk when memory runs short.
//!
//! The sort is stable: rows with the same time keep the order of the input. Runs are sorted in memory,
//! written one after the other and merged, the earlier run first among equals, which is the same order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::snapshot::Vertex;

/// One row of input: an edge at a time. Twenty-four bytes, in memory and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Event {
    /// When, in the unit of the input.
    pub time: f64,
    /// From which vertex.
    pub source: Vertex,
    /// To which vertex.
    pub target: Vertex,
    /// With which weight.
    pub weight: f32,
    mark: u32,
}

const PLAIN: u32 = 0;
const REMOVAL: u32 = u32::MAX;

impl Event {
    /// An edge appears, or is seen again.
    #[inline]
    pub fn new(source: Vertex, target: Vertex, time: f64, weight: f32) -> Self {
        Event { time, source, target, weight, mark: PLAIN }
    }

    /// An edge disappears.
    pub fn removal(source: Vertex, target: Vertex, time: f64) -> Self {
        Event { time, source, target, weight: 0.0, mark: REMOVAL }
    }

    /// Whether the edge disappears.
    #[inline]
    pub fn is_removal(&self) -> bool {
        self.mark == REMOVAL
    }

    /// The row of annotations that belongs to this event, if any.
    pub fn annotation(&self) -> Option<u32> {
        (self.mark != PLAIN && self.mark != REMOVAL).then(|| self.mark - 1)
    }

    /// The event with a row of annotations; `None` when rows have run out of numbers.
    pub fn annotated(self, row: u32) -> Option<Self> {
        (row < REMOVAL - 1).then(|| Event { mark: row + 1, ..self })
    }
}

/// Collects events and hands them back in the order of time.
pub struct EventLog {
    events: Vec<Event>,
    latest: f64,
    in_order: bool,
    runs: Vec<PathBuf>,
    folder: PathBuf,
    count: u64,
}

impl EventLog {
    /// An empty log that may write its runs into `folder`.
    pub fn new(folder: &Path) -> Self {
        EventLog {
            events: Vec::new(),
            latest: f64::NEG_INFINITY,
            in_order: true,
            runs: Vec::new(),
            folder: folder.into(),
            count: 0,
        }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.in_order &= event.time >= self.latest;
        self.latest = event.time;
        self.count += 1;
        self.events.push(event);
    }

    /// How many events were added.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The event added last, to be completed.
    pub fn last_mut(&mut self) -> Option<&mut Event> {
        self.events.last_mut()
    }

    /// Bytes of memory the log needs if it is asked to sort now: a stable sort wants as much again.
    pub fn bytes(&self) -> usize {
        self.events.capacity() * size_of::<Event>() * if self.in_order { 1 } else { 2 }
    }

    /// Bytes of memory that adding one more event may need at its peak: a full list is copied into one twice
    /// as long.
    #[inline]
    pub fn bytes_to_push(&self) -> usize {
        if self.events.len() < self.events.capacity() { 0 } else { self.bytes() + 2 * self.bytes() }
    }

    fn sort(&mut self) {
        if !self.in_order {
            self.events.par_sort_by(|a, b| a.time.total_cmp(&b.time));
        }
        self.in_order = true;
        self.latest = f64::NEG_INFINITY;
    }

    /// Writes what is in memory to disk as a sorted run.
    pub fn spill(&mut self) -> Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.sort();
        let path = self.folder.join(format!("run-{}", self.runs.len()));
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(bytemuck::cast_slice(&self.events))
        };
        write().map_err(Error::resource("cannot write", &path))?;
        self.runs.push(path);
        self.events.clear();
        Ok(())
    }

    /// All events in order, read back through at most `memory` bytes of buffers.
    pub fn sorted(mut self, memory: usize) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(Sorted::Memory(self.events.into_iter()));
        }
        self.spill()?;
        drop(std::mem::take(&mut self.events));
        let buffer =
            (memory / self.runs.len()).clamp(1 << 16, 1 << 22) / size_of::<Event>() * size_of::<Event>();
        let mut heap = BinaryHeap::with_capacity(self.runs.len());
        for (index, path) in self.runs.iter().enumerate() {
            let file = File::open(path).map_err(Error::resource("cannot read back", path))?;
            let mut run = Run {
                path: path.clone(),
                reader: BufReader::with_capacity(buffer, file),
                index,
                next: Event::zeroed(),
            };
            if run.advance()? {
                heap.push(run);
            }
        }
        Ok(Sorted::Merged(heap))
    }
}

/// Events in the order of time.
pub enum Sorted {
    /// They all fit in memory.
    Memory(std::vec::IntoIter<Event>),
    /// They are merged from runs on disk.
    Merged(BinaryHeap<Run>),
}

impl Sorted {
    /// Takes the next event.
    #[inline]
    pub fn take(&mut self) -> Result<Option<Event>> {
        match self {
            Sorted::Memory(events) => Ok(events.next()),
            Sorted::Merged(heap) => {
                let Some(mut run) = heap.peek_mut() else { return Ok(None) };
                let event = run.next;
                if !run.advance()? {
                    std::collections::binary_heap::PeekMut::pop(run);
                }
                Ok(Some(event))
            }
        }
    }
}

/// A sorted run on disk, and the next event of it.
pub struct Run {
    path: PathBuf,
    reader: BufReader<File>,
    index: usize,
    next: Event,
}

impl Run {
    fn advance(&mut self) -> Result<bool> {
        let mut bytes = [0; size_of::<Event>()];
        match self.reader.read_exact(&mut bytes) {
            Ok(()) => {
                self.next = bytemuck::pod_read_unaligned(&bytes);
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Error::resource("cannot read back", &self.path)(error)),
        }
    }
}

impl Ord for Run {
    /// The heap's largest is the run to read next: the earliest event, of equals the earliest run.
    fn cmp(&self, other: &Self) -> Ordering {
        other.next.time.total_cmp(&self.next.time).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Run {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(mut sorted: Sorted) -> Vec<Event> {
        std::iter::from_fn(|| sorted.take().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn sorting_on_disk_is_the_stable_sort_in_memory(
            times in prop::collection::vec(0u8..20, 0..300),
            every in 1usize..80,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut log = EventLog::new(folder.path());
            let mut plain: Vec<Event> = Vec::new();
            for (i, &time) in times.iter().enumerate() {
                let event = Event::new(i as u32, 0, time.into(), 1.0);
                log.push(event);
                plain.push(event);
                if i % every == every - 1 {
                    log.spill().unwrap();
                }
            }
            plain.sort_by(|a, b| a.time.total_cmp(&b.time));
            prop_assert_eq!(log.len(), times.len() as u64);
            prop_assert_eq!(drain(log.sorted(1 << 16).unwrap()), plain);
        }
    }

    #[test]
    fn marks_do_not_collide() {
        let event = Event::new(1, 2, 3.0, 4.0);
        assert!(!event.is_removal() && event.annotation().is_none());
        assert!(Event::removal(1, 2, 3.0).is_removal() && Event::removal(1, 2, 3.0).annotation().is_none());
        assert_eq!(event.annotated(0).unwrap().annotation(), Some(0));
        assert_eq!(event.annotated(u32::MAX - 2).unwrap().annotation(), Some(u32::MAX - 2));
        assert!(event.annotated(u32::MAX - 1).is_none());
    }
}
