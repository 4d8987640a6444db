//! The rows of one step folded into its edges: sorted, each once, with one weight.
//!
//! Sums are taken in double precision in the order of time, so they do not depend on how the rows were split for
//! sorting on disk.

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
        let mut folded: Vec<Folded> = Vec::with_capacity(order.len());
        for (edge, index) in order {
            let entry = Folded::of(edge, &events[index as usize], self.rule);
            match folded.last_mut() {
                Some(last) if last.edge == edge => *last = last.then(entry, self.rule),
                _ => folded.push(entry),
            }
        }
        folded
    }
}

/// Folds a step that may be larger than memory: pieces are folded, written, and merged at the end.
pub struct Pieces {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl Pieces {
    /// No piece yet; those to come are written into `folder`.
    pub fn new(folder: &Path) -> Self {
        Pieces { folder: folder.into(), files: Vec::new() }
    }

    /// Puts a folded piece aside; pieces come in the order of time.
    pub fn put(&mut self, piece: &[Folded]) -> Result<()> {
        let path = self.folder.join(format!("piece-{}", self.files.len()));
        let write = || File::create(&path)?.write_all(bytemuck::cast_slice(piece));
        write().map_err(Error::resource("cannot write", &path))?;
        self.files.push(path);
        Ok(())
    }

    /// All pieces and the last one, which was not put aside, as one.
    pub fn merge(&mut self, last: Vec<Folded>, rule: WeightRule) -> Result<Vec<Folded>> {
        let mut whole: Vec<Folded> = Vec::new();
        // Earlier pieces first: the order in which equal edges are combined is the order of time.
        for path in self.files.drain(..) {
            whole = merge_two(whole, &mut read_piece(&path)?, rule)?;
            std::fs::remove_file(&path).map_err(Error::resource("cannot remove", &path))?;
        }
        if whole.is_empty() {
            return Ok(last);
        }
        merge_two(whole, &mut last.into_iter().map(Ok), rule)
    }
}

fn read_piece(path: &Path) -> Result<impl Iterator<Item = Result<Folded>>> {
    let file = File::open(path).map_err(Error::resource("cannot read back", path))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let path = path.to_path_buf();
    Ok(std::iter::from_fn(move || {
        let mut bytes = [0; size_of::<Folded>()];
        match reader.read_exact(&mut bytes) {
            Ok(()) => Some(Ok(bytemuck::pod_read_unaligned(&bytes))),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => None,
            Err(error) => Some(Err(Error::resource("cannot read back", &path)(error))),
        }
    }))
}

/// Two folded lists as one: `later` is combined onto `earlier`.
pub fn merge_two(
    earlier: Vec<Folded>,
    later: &mut dyn Iterator<Item = Result<Folded>>,
    rule: WeightRule,
) -> Result<Vec<Folded>> {
    let mut whole = Vec::with_capacity(earlier.len());
    let mut earlier = earlier.into_iter().peekable();
    for entry in later {
        let entry = entry?;
        while let Some(before) = earlier.next_if(|before| before.edge < entry.edge) {
            whole.push(before);
        }
        match earlier.next_if(|before| before.edge == entry.edge) {
            Some(before) => whole.push(before.then(entry, rule)),
            None => whole.push(entry),
        }
    }
    whole.extend(earlier);
    Ok(whole)
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
        fn folding_is_going_through_the_rows(rows in rows(), rule in 0usize..4, undirected: bool, drop_self_loops: bool) {
            let ranks = [0, 1, 2, 3, 4];
            let folder = Folder { rule: RULES[rule], undirected, drop_self_loops, ranks: &ranks };
            prop_assert_eq!(plain(&folder.fold(&rows)), by_table(&rows, &folder));
        }

        #[test]
        fn pieces_on_disk_fold_to_the_same(rows in rows(), rule in 0usize..4, size in 1usize..20) {
            let ranks = [0, 1, 2, 3, 4];
            let folder = Folder { rule: RULES[rule], undirected: true, drop_self_loops: false, ranks: &ranks };
            let scratch = tempfile::tempdir().unwrap();
            let mut pieces = Pieces::new(scratch.path());
            for piece in rows.chunks(size) {
                pieces.put(&folder.fold(piece)).unwrap();
            }
            let (merged, whole) = (pieces.merge(Vec::new(), RULES[rule]).unwrap(), folder.fold(&rows));
            prop_assert_eq!(merged.len(), whole.len());
            for (a, b) in merged.iter().zip(&whole) {
                prop_assert_eq!((a.edge, a.is_present(), a.is_cleared()), (b.edge, b.is_present(), b.is_cleared()));
                // Pieces are summed before they are added up, which rounds differently in the last bits of a double.
                prop_assert!((a.value - b.value).abs() <= 1e-12);
            }
        }
    }
}
