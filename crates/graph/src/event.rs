//! Events and their order: a log that sorts by time, on disk when memory runs short.
//!
//! The sort is stable: rows with the same time keep the order of the input. Runs are sorted in memory,
//! written one after the other and merged, the earlier run first among equals, which is the same order. What
//! events carry beside their edge (a label, features) goes with them: on disk it is read in the order in
//! which it is needed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
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

    /// The row that this event carries among those in memory, if any.
    fn row(&self) -> Option<usize> {
        (self.mark != PLAIN && self.mark != REMOVAL).then(|| self.mark as usize - 1)
    }

    /// The event with a row to carry; `None` when rows have run out of numbers.
    fn with_row(self, row: usize) -> Option<Self> {
        let mark = u32::try_from(row + 1).ok().filter(|&mark| mark != REMOVAL)?;
        Some(Event { mark, ..self })
    }
}

/// Collects events, and what they carry beside their edge, and hands them back in the order of time.
pub struct EventLog {
    events: Vec<Event>,
    /// What the events in memory carry: rows of `width` numbers in the order in which they came.
    rows: Vec<f32>,
    width: usize,
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
            rows: Vec::new(),
            width: 0,
            latest: f64::NEG_INFINITY,
            in_order: true,
            runs: Vec::new(),
            folder: folder.into(),
            count: 0,
        }
    }

    /// Says how many numbers an event carries beside its edge; comes before the first event.
    pub fn carry(&mut self, width: usize) {
        self.width = width;
    }

    /// Numbers that an event carries beside its edge.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.in_order &= event.time >= self.latest;
        self.latest = event.time;
        self.count += 1;
        self.events.push(event);
    }

    /// Gives the event added last a row to carry, unless an edge disappears; false when rows in memory have
    /// run out of numbers.
    pub fn load(&mut self, row: &[f32]) -> bool {
        debug_assert_eq!(row.len(), self.width);
        let number = self.rows.len() / self.width.max(1);
        let Some(last) = self.events.last_mut().filter(|last| !last.is_removal()) else { return true };
        let Some(loaded) = last.with_row(number) else { return false };
        *last = loaded;
        self.rows.extend_from_slice(row);
        true
    }

    /// How many events were added.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of memory the log needs if it is asked to sort now: a stable sort wants as much again.
    pub fn bytes(&self) -> usize {
        self.events.capacity() * size_of::<Event>() * if self.in_order { 1 } else { 2 }
            + self.rows.capacity() * size_of::<f32>()
    }

    /// Bytes of memory that adding one more event may need at its peak: a full list is copied into one twice
    /// as long.
    #[inline]
    pub fn bytes_to_push(&self) -> usize {
        let full = self.events.len() == self.events.capacity();
        let rows_full = self.rows.len() + self.width > self.rows.capacity();
        if !full && !rows_full {
            return 0;
        }
        let rows = self.rows.capacity() * size_of::<f32>();
        self.bytes() + if full { 2 * (self.bytes() - rows) } else { 0 } + if rows_full { 2 * rows } else { 0 }
    }

    fn sort(&mut self) {
        if !self.in_order {
            self.events.par_sort_by(|a, b| a.time.total_cmp(&b.time));
        }
        self.in_order = true;
        self.latest = f64::NEG_INFINITY;
    }

    /// Writes what is in memory to disk as a sorted run: each event, and behind it what it carries.
    pub fn spill(&mut self) -> Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.sort();
        let path = self.folder.join(format!("run-{}", self.runs.len()));
        let write = || {
            let mut file = File::create_new(&path)?;
            if self.width == 0 {
                return file.write_all(bytemuck::cast_slice(&self.events));
            }
            let (mut file, nothing) = (BufWriter::with_capacity(1 << 20, file), vec![0.0; self.width]);
            for event in &self.events {
                file.write_all(bytemuck::bytes_of(event))?;
                let row = event.row().map(|row| &self.rows[row * self.width..(row + 1) * self.width]);
                file.write_all(bytemuck::cast_slice(row.unwrap_or(&nothing)))?;
            }
            file.flush()
        };
        write().map_err(Error::resource("cannot write", &path))?;
        self.runs.push(path);
        self.events.clear();
        self.rows.clear();
        Ok(())
    }

    /// All events in order, read back through at most `memory` bytes of buffers.
    pub fn sorted(mut self, memory: usize) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.sort();
            let from = Origin::Memory(self.events.into_iter(), self.rows);
            return Ok(Sorted { from, width: self.width, row: None, last: Vec::new() });
        }
        self.spill()?;
        drop((std::mem::take(&mut self.events), std::mem::take(&mut self.rows)));
        let record = size_of::<Event>() + self.width * size_of::<f32>();
        let buffer = (memory / self.runs.len()).clamp(1 << 16, 1 << 22) / record * record;
        let mut heap = BinaryHeap::with_capacity(self.runs.len());
        for (index, path) in self.runs.iter().enumerate() {
            let file = File::open(path).map_err(Error::resource("cannot read back", path))?;
            let mut run = Run {
                path: path.clone(),
                reader: BufReader::with_capacity(buffer.max(record), file),
                index,
                next: Event::zeroed(),
                row: vec![0.0; self.width],
            };
            match run.advance()? {
                true => heap.push(run),
                false => run.remove()?,
            }
        }
        let last = vec![0.0; self.width];
        Ok(Sorted { from: Origin::Merged(heap), width: self.width, row: None, last })
    }
}

/// Events in the order of time.
pub struct Sorted {
    from: Origin,
    width: usize,
    /// The row that the event taken last carries, where it carries one.
    row: Option<usize>,
    /// That row, where it was read back from disk.
    last: Vec<f32>,
}

enum Origin {
    /// They all fit in memory.
    Memory(std::vec::IntoIter<Event>, Vec<f32>),
    /// They are merged from runs on disk.
    Merged(BinaryHeap<Run>),
}

impl Sorted {
    /// Takes the next event.
    #[inline]
    pub fn take(&mut self) -> Result<Option<Event>> {
        let event = match &mut self.from {
            Origin::Memory(events, _) => events.next(),
            Origin::Merged(heap) => match heap.peek_mut() {
                None => None,
                Some(mut run) => {
                    let event = run.next;
                    std::mem::swap(&mut self.last, &mut run.row);
                    if !run.advance()? {
                        PeekMut::pop(run).remove()?;
                    }
                    Some(event)
                }
            },
        };
        self.row = event.and_then(|event| event.row());
        Ok(event)
    }

    /// What the event taken last carries, if anything.
    #[inline]
    pub fn carried(&self) -> Option<&[f32]> {
        let row = self.row?;
        Some(match &self.from {
            Origin::Memory(_, rows) => &rows[row * self.width..(row + 1) * self.width],
            Origin::Merged(_) => &self.last,
        })
    }
}

/// A sorted run on disk, and the next event of it with what it carries.
struct Run {
    path: PathBuf,
    reader: BufReader<File>,
    index: usize,
    next: Event,
    row: Vec<f32>,
}

impl Run {
    fn advance(&mut self) -> Result<bool> {
        let mut bytes = [0; size_of::<Event>()];
        match self.reader.read_exact(&mut bytes) {
            Ok(()) => self.next = bytemuck::pod_read_unaligned(&bytes),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(Error::resource("cannot read back", &self.path)(error)),
        }
        let row = bytemuck::cast_slice_mut(&mut self.row);
        self.reader.read_exact(row).map_err(Error::resource("cannot read back", &self.path))?;
        Ok(true)
    }

    /// Ends the run: nothing of it stays in the folder, which becomes that of a store.
    fn remove(self) -> Result<()> {
        let Run { path, reader, .. } = self;
        drop(reader);
        std::fs::remove_file(&path).map_err(Error::resource("cannot remove", &path))
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

    /// All events, each with what it carries.
    fn drain(mut sorted: Sorted) -> Vec<(Event, Option<Vec<f32>>)> {
        let plain = |event: Event| if event.is_removal() { event } else { Event { mark: PLAIN, ..event } };
        let mut all = Vec::new();
        while let Some(event) = sorted.take().unwrap() {
            all.push((plain(event), sorted.carried().map(<[f32]>::to_vec)));
        }
        all
    }

    proptest! {
        #[test]
        fn sorting_on_disk_is_the_stable_sort_in_memory(
            times in prop::collection::vec(0u8..20, 0..300),
            every in 1usize..80,
            width in 0usize..4,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut log = EventLog::new(folder.path());
            log.carry(width);
            let mut plain: Vec<(Event, Option<Vec<f32>>)> = Vec::new();
            for (i, &time) in times.iter().enumerate() {
                let event = match i % 5 {
                    4 => Event::removal(i as u32, 0, time.into()),
                    _ => Event::new(i as u32, 0, time.into(), 1.0),
                };
                log.push(event);
                let row = (width > 0 && i % 5 < 3).then(|| vec![i as f32 + 0.5; width]);
                prop_assert!(row.as_ref().is_none_or(|row| log.load(row)));
                plain.push((event, row));
                if i % every == every - 1 {
                    log.spill().unwrap();
                }
            }
            plain.sort_by(|a, b| a.0.time.total_cmp(&b.0.time));
            prop_assert_eq!(log.len(), times.len() as u64);
            prop_assert_eq!(drain(log.sorted(1 << 16).unwrap()), plain);
            prop_assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        }
    }

    #[test]
    fn marks_do_not_collide() {
        let event = Event::new(1, 2, 3.0, 4.0);
        assert!(!event.is_removal() && event.row().is_none());
        assert!(Event::removal(1, 2, 3.0).is_removal() && Event::removal(1, 2, 3.0).row().is_none());
        let last = u32::MAX as usize - 2;
        assert_eq!(event.with_row(0).unwrap().row(), Some(0));
        assert_eq!(event.with_row(last).unwrap().row(), Some(last));
        assert!(event.with_row(last + 1).is_none());
    }
}
