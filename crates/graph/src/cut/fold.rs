//! The rows of one step folded into its edges: sorted, each once, with one weight.
//!
//! Sums are taken in double precision in the order of time, whether the rows were sorted in memory or on
//! disk.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::snapshot::{Edge, Vertex};

/// What the weight of an edge is when a step has several rows for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightRule {
    /// The sum of the weights of the rows; a row without one counts 1.
    #[default]
    Sum,
    /// The number of rows.
    Count,
    /// The weight of the last row.
    Last,
    /// Always 1.
    None,
}

/// What a step says about an edge.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Folded {
    /// The edge.
    pub edge: Edge,
    /// Its weight so far.
    pub value: f64,
    flags: u64,
}

/// The edge is there at the end of the step.
const PRESENT: u64 = 1;
/// The edge was taken back in the step: what earlier steps said about it no longer counts.
const CLEARED: u64 = 2;

impl Folded {
    fn of(edge: Edge, event: &Event, rule: WeightRule) -> Self {
        if event.is_removal() {
            return Folded { edge, value: 0.0, flags: CLEARED };
        }
        let value = match rule {
            WeightRule::Sum | WeightRule::Last => event.weight.into(),
            WeightRule::Count | WeightRule::None => 1.0,
        };
        Folded { edge, value, flags: PRESENT }
    }

    /// Whether the edge is there.
    pub fn is_present(&self) -> bool {
        self.flags & PRESENT != 0
    }

    /// Whether earlier steps no longer count.
    pub fn is_cleared(&self) -> bool {
        self.flags & CLEARED != 0
    }

    /// What this and then `later` say together.
    #[inline]
    pub fn then(self, later: Folded, rule: WeightRule) -> Folded {
        if later.is_cleared() || !self.is_present() {
            return Folded { flags: later.flags | (self.flags & CLEARED), ..later };
        }
        let value = match rule {
            WeightRule::Sum | WeightRule::Count => self.value + later.value,
            WeightRule::Last | WeightRule::None => later.value,
        };
        Folded { value, flags: later.flags | self.flags, ..self }
    }
}

/// How rows become edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folder<'a> {
    /// The rule for weights.
    pub rule: WeightRule,
    /// Whether every row counts in both directions.
    pub undirected: bool,
    /// Whether rows that join a vertex to itself are left out.
    pub drop_self_loops: bool,
    /// The final number of each vertex as it was numbered while reading.
    pub ranks: &'a [Vertex],
}

impl Folder<'_> {
    /// The edges of these rows, which are in the order of time.
    pub fn fold(&self, events: &[Event]) -> Vec<Folded> {
        fold_sorted(self.sort(events).into_iter(), self.rule)
    }

    /// What each row says, by edge and then by time.
    pub fn sort(&self, events: &[Event]) -> Vec<Folded> {
        let mut order: Vec<(Edge, u32)> = Vec::with_capacity(events.len() << u32::from(self.undirected));
        for (index, event) in (0..).zip(events) {
            let edge = Edge::new(self.ranks[event.source as usize], self.ranks[event.target as usize]);
            if edge.is_self_loop() && self.drop_self_loops {
                continue;
            }
            order.push((edge, index));
            if self.undirected && !edge.is_self_loop() {
                order.push((edge.reversed(), index));
            }
        }
        order.sort_unstable();
        order.into_iter().map(|(edge, index)| Folded::of(edge, &events[index as usize], self.rule)).collect()
    }
}

/// Combines neighbours that speak of the same edge.
fn fold_sorted(entries: impl Iterator<Item = Folded>, rule: WeightRule) -> Vec<Folded> {
    let mut folded: Vec<Folded> = Vec::with_capacity(entries.size_hint().0);
    for entry in entries {
        match folded.last_mut() {
            Some(last) if last.edge == entry.edge => *last = last.then(entry, rule),
            _ => folded.push(entry),
        }
    }
    folded
}

/// A step that is larger than memory: its rows are sorted in pieces, written, merged and only then folded, so
/// that the result is that of folding them all at once.
pub struct Pieces {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl Pieces {
    /// No piece yet; those to come are written into `folder`.
    pub fn new(folder: &Path) -> Self {
        Pieces { folder: folder.into(), files: Vec::new() }
    }

    /// Whether no piece was put aside.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Puts the sorted rows of a piece aside; pieces come in the order of time.
    pub fn put(&mut self, piece: &[Folded]) -> Result<()> {
        let path = self.folder.join(format!("piece-{}", self.files.len()));
        let write = || File::create(&path)?.write_all(bytemuck::cast_slice(piece));
        write().map_err(Error::resource("cannot write", &path))?;
        self.files.push(path);
        Ok(())
    }

    /// The edges of all pieces; afterwards there are none.
    pub fn fold(&mut self, rule: WeightRule) -> Result<Vec<Folded>> {
        let mut failure = None;
        let mut pieces = Vec::new();
        for path in &self.files {
            let file = File::open(path).map_err(Error::resource("cannot read back", path))?;
            pieces.push(BufReader::with_capacity(1 << 20, file));
        }
        let mut next = |index: usize| {
            let mut bytes = [0; size_of::<Folded>()];
            match pieces[index].read_exact(&mut bytes) {
                Ok(()) => Some(bytemuck::pod_read_unaligned::<Folded>(&bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => None,
                Err(error) => {
                    failure = Some(Error::resource("cannot read back", &self.files[index])(error));
                    None
                }
            }
        };
        // The heap holds edges and pieces, the smallest first: of equal edges the earliest piece.
        let mut heads: Vec<Option<Folded>> = (0..self.files.len()).map(&mut next).collect();
        let keyed =
            heads.iter().enumerate().filter_map(|(index, head)| Some(Reverse((head.as_ref()?.edge, index))));
        let mut heap: BinaryHeap<_> = keyed.collect();
        let merged = std::iter::from_fn(|| {
            let mut top = heap.peek_mut()?;
            let index = top.0.1;
            let entry = heads[index].take();
            heads[index] = next(index);
            match &heads[index] {
                Some(head) => *top = Reverse((head.edge, index)),
                None => drop(PeekMut::pop(top)),
            }
            entry
        });
        let folded = fold_sorted(merged, rule);
        for path in self.files.drain(..) {
            std::fs::remove_file(&path).map_err(Error::resource("cannot remove", &path))?;
        }
        failure.map_or(Ok(folded), Err)
    }
}

/// Two folded lists as one: `later` is combined onto `earlier`.
pub fn merge_two(earlier: Vec<Folded>, later: &[Folded], rule: WeightRule) -> Vec<Folded> {
    let mut whole = Vec::with_capacity(earlier.len().max(later.len()));
    let mut earlier = earlier.into_iter().peekable();
    for &entry in later {
        while let Some(before) = earlier.next_if(|before| before.edge < entry.edge) {
            whole.push(before);
        }
        match earlier.next_if(|before| before.edge == entry.edge) {
            Some(before) => whole.push(before.then(entry, rule)),
            None => whole.push(entry),
        }
    }
    whole.extend(earlier);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const RULES: [WeightRule; 4] = [WeightRule::Sum, WeightRule::Count, WeightRule::Last, WeightRule::None];

    /// The definition: go through the rows and keep a table.
    fn by_table(events: &[Event], folder: &Folder<'_>) -> Vec<(Edge, Option<f64>)> {
        let mut table: BTreeMap<Edge, Option<f64>> = BTreeMap::new();
        for event in events {
            let edge = Edge::new(event.source, event.target);
            if edge.is_self_loop() && folder.drop_self_loops {
                continue;
            }
            let both = [Some(edge), (folder.undirected && !edge.is_self_loop()).then(|| edge.reversed())];
            for edge in both.into_iter().flatten() {
                let slot = table.entry(edge).or_default();
                *slot = match folder.rule {
                    _ if event.is_removal() => None,
                    WeightRule::Sum => Some(slot.unwrap_or(0.0) + f64::from(event.weight)),
                    WeightRule::Count => Some(slot.unwrap_or(0.0) + 1.0),
                    WeightRule::Last => Some(event.weight.into()),
                    WeightRule::None => Some(1.0),
                };
            }
        }
        table.into_iter().collect()
    }

    fn rows() -> impl Strategy<Value = Vec<Event>> {
        let row = (0u32..5, 0u32..5, prop_oneof![4 => Just(false), 1 => Just(true)], -3i8..4);
        prop::collection::vec(row, 0..60).prop_map(|rows| {
            let event = |(u, v, removal, weight): (u32, u32, bool, i8)| {
                if removal {
                    Event::removal(u, v, 0.0)
                } else {
                    Event::new(u, v, 0.0, f32::from(weight) * 0.1)
                }
            };
            rows.into_iter().map(event).collect()
        })
    }

    fn plain(folded: &[Folded]) -> Vec<(Edge, Option<f64>)> {
        folded.iter().map(|f| (f.edge, f.is_present().then_some(f.value))).collect()
    }

    proptest! {
        #[test]
        fn folding_is_going_through_the_rows(
            rows in rows(),
            rule in 0usize..4,
            undirected: bool,
            drop_self_loops: bool,
        ) {
            let ranks = [0, 1, 2, 3, 4];
            let folder = Folder { rule: RULES[rule], undirected, drop_self_loops, ranks: &ranks };
            prop_assert_eq!(plain(&folder.fold(&rows)), by_table(&rows, &folder));
        }

        #[test]
        fn pieces_on_disk_fold_to_the_same(rows in rows(), rule in 0usize..4, size in 1usize..20) {
            let ranks = [0, 1, 2, 3, 4];
            let folder =
                Folder { rule: RULES[rule], undirected: true, drop_self_loops: false, ranks: &ranks };
            let scratch = tempfile::tempdir().unwrap();
            let mut pieces = Pieces::new(scratch.path());
            for piece in rows.chunks(size) {
                pieces.put(&folder.sort(piece)).unwrap();
            }
            prop_assert_eq!(pieces.fold(RULES[rule]).unwrap(), folder.fold(&rows));
            prop_assert!(pieces.is_empty());
        }
    }
}
