//! The store: a folder that holds a dynamic graph, written once and read by mapping.
//!
//! Steps are kept as changes, and from time to time whole, so that any step can be viewed at a cost of at
//! most twice its own size. `docs/store.md` describes the files. Law:
//! `snapshot(t) = snapshot(t - 1) + delta(t)`.

mod additive;
mod around;
mod arrays;
mod change;
mod cursor;
mod fates;
mod feature_change;
mod manifest;
mod output;
mod part;
mod pending;
mod rows;
mod way;
mod window;
mod writer;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use additive::Split;
use arrays::{Arrays, STRETCH};
use part::{Part, Records};

pub use around::EdgesAround;
pub use change::{EdgeChange, EdgeList};
pub use cursor::{Cursor, NewArrays, SharedRows};
pub use feature_change::{ChangeCounts, ChangedSegments, StoredFeatures};
pub use manifest::{FeatureFacts, FeatureKind, LabelFacts, Manifest, VERSION};
pub use window::FeatureWindow;
pub use writer::{Fixed, Plan, SparseFeatures, Writer};

use crate::delta::{Change, Delta};
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::snapshot::{Edge, Snapshot, Step, Vertex};

/// An opened store. Any number of readers may have it open, also while steps are appended: they see it as it
/// was.
pub struct Store {
    path: PathBuf,
    manifest: Manifest,
    parts: Vec<OnceLock<Part>>,
    firsts: Vec<usize>,
    split: Split,
    /// Bytes that were read since all pages were let go.
    read: AtomicUsize,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store at `path`. The arrays are checked when they are first used.
    pub fn open(path: &Path) -> Result<Store> {
        kymo_files::restore(path, output::is_ours)?;
        let manifest = Manifest::read(path)?;
        let files = manifest.parts.iter().map(|part| &part.file).chain(&manifest.ids).chain(&manifest.fixed);
        for entry in files {
            let file = path.join(&entry.name);
            let found = file.metadata().map_err(Error::resource("cannot open", &file))?.len();
            if found != entry.bytes {
                let problem =
                    format!("the file has {found} bytes, the manifest says {}: it is damaged", entry.bytes);
                return Err(Error::store(&file, problem));
            }
        }
        let firsts = manifest.parts.iter().scan(0, |next, part| {
            let first = *next;
            *next += part.steps as usize;
            Some(first)
        });
        Ok(Store {
            firsts: firsts.collect(),
            read: AtomicUsize::new(0),
            parts: manifest.parts.iter().map(|_| OnceLock::new()).collect(),
            split: Split::new(manifest.features.width as usize, manifest.features.segments as usize),
            path: path.into(),
            manifest,
        })
    }

    /// Where the store is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the store says about itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.manifest.vertices as usize
    }

    /// How many steps there are.
    pub fn steps(&self) -> usize {
        self.manifest.steps as usize
    }

    /// Bytes of all files on disk.
    pub fn bytes(&self) -> u64 {
        let manifest = &self.manifest;
        let files = manifest.parts.iter().map(|part| &part.file).chain(&manifest.ids).chain(&manifest.fixed);
        files.map(|file| file.bytes).sum()
    }

    /// Bytes of the edges as they are stored, with the weights that are stored.
    pub fn structure_bytes(&self) -> Result<u64> {
        let edges = ["added", "removed", "reweighted"];
        let weights = ["added.weight", "removed.weight", "reweighted.weight"];
        Ok(self.part_bytes(&edges)? + self.part_bytes(&weights)?)
    }

    /// Bytes of the features as they are stored.
    pub fn feature_bytes(&self) -> Result<u64> {
        let steps =
            self.part_bytes(&["features.rows", "features.vertex", "features.segment", "features.value"])?;
        let Some(entry) = &self.manifest.fixed else { return Ok(steps) };
        let fixed = Arrays::open(&self.path, entry)?;
        Ok(steps + fixed.bytes(&["features.at", "features.column", "features.value"]))
    }

    fn part_bytes(&self, names: &[&str]) -> Result<u64> {
        self.firsts.iter().map(|&first| self.part(first).map(|(part, _)| part.bytes(names))).sum()
    }

    /// The part that holds step `t`, and the number of the step within it.
    fn part(&self, t: Step) -> Result<(&Part, usize)> {
        if t >= self.steps() {
            return Err(Error::settings(
                "step",
                format!("there is no step {t}: the store has {}", self.steps()),
            ));
        }
        let index = self.firsts.partition_point(|&first| first <= t) - 1;
        let part = match self.parts[index].get() {
            Some(part) => part,
            None => {
                let entry = &self.manifest.parts[index];
                let part = Part::open(&self.path, entry, self.manifest.vertices, self.split)?;
                // Checking it has gone through all of it; most of that is not needed soon.
                part.release();
                self.parts[index].get_or_init(|| part)
            }
        };
        Ok((part, t - self.firsts[index]))
    }

    /// The graph at step `t`: mapped where it is stored whole, else rebuilt.
    pub fn snapshot(&self, t: Step) -> Result<Snapshot<'_>> {
        let mut changes: Vec<Change> = Vec::new();
        for step in (0..=t).rev() {
            let change = self.edge_change(step)?;
            if let Some(whole) = change.snapshot() {
                if changes.is_empty() {
                    return Ok(whole);
                }
                changes.reverse();
                let delta = Delta::merged(changes).map_err(|problem| self.inconsistent(t, problem))?;
                return delta.apply(&whole).map_err(|problem| self.inconsistent(t, problem));
            }
            if let Some(delta) = change.delta() {
                let from = changes.len();
                changes.extend(delta.changes());
                changes[from..].reverse();
            }
        }
        Err(self.no_whole())
    }

    /// What step `t` stores of its edges, as it lies in the file.
    pub fn edge_change(&self, t: Step) -> Result<EdgeChange<'_>> {
        self.part(t).map(|(part, within)| part.change(within))
    }

    /// Lets go of the mapped pages that step `t` is read from. They come back from the file when they are
    /// used again: this changes what a process holds, never what it reads.
    pub fn release(&self, t: Step) {
        let last = self.firsts.partition_point(|&first| first <= t);
        for (part, first) in self.parts[..last].iter().zip(&self.firsts).rev() {
            let Some(part) = part.get() else { continue };
            part.release();
            // The step is rebuilt from the last whole one: nothing before that was read for it.
            if part.has_whole_up_to(t - first) {
                break;
            }
        }
    }

    /// The same of the pages with what step `t` stores of its edges, and of no other; small ones are let go
    /// together, once they are many.
    pub fn release_edges(&self, t: Step) -> Result<()> {
        let (part, within) = self.part(t)?;
        self.has_read(part.release_edges(within));
        Ok(())
    }

    /// The same of the pages with some of the edges that step `t` stores.
    pub(crate) fn release_list(&self, t: Step, edges: &[Edge]) {
        // A part that cannot be opened has no pages.
        if let Ok((part, _)) = self.part(t) {
            part.release_list(edges);
        }
    }

    /// Takes note that somebody is done with so much of the store, and lets go of all pages once that is
    /// enough to be worth it: each call to the system interrupts the other cores. Whether it did.
    pub fn has_read(&self, bytes: usize) -> bool {
        let enough = self.read.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= STRETCH;
        if enough {
            self.read.store(0, Ordering::Relaxed);
            self.release_all();
        }
        enough
    }

    /// Lets go of all mapped pages.
    pub fn release_all(&self) {
        self.parts.iter().filter_map(OnceLock::get).for_each(Part::release);
    }

    /// Whether weights are stored.
    pub fn has_weights(&self) -> Result<bool> {
        Ok(self.part_bytes(&["added.weight", "removed.weight", "reweighted.weight"])? > 0)
    }

    /// Whether all edges of a step are stored, and not what changed.
    pub fn is_whole(&self, t: Step) -> Result<bool> {
        let (part, within) = self.part(t)?;
        Ok(part.counts(within).2)
    }

    /// How many edges step `t` has, without a look at them.
    pub fn edges(&self, t: Step) -> Result<usize> {
        let (mut more, mut fewer) = (0, 0);
        for step in (0..=t).rev() {
            let (part, within) = self.part(step)?;
            let (added, removed, is_whole) = part.counts(within);
            (more, fewer) = (more + added, fewer + removed);
            if is_whole {
                return more
                    .checked_sub(fewer)
                    .ok_or_else(|| self.inconsistent(t, "more edges go than there are"));
            }
        }
        Err(self.no_whole())
    }

    /// What turns step `t - 1` into step `t`; for step 0, what turns nothing into it.
    pub fn delta(&self, t: Step) -> Result<Delta> {
        if let Some(delta) = self.edge_change(t)?.delta() {
            return Ok(delta);
        }
        let before = if t == 0 { Snapshot::default() } else { self.snapshot(t - 1)? };
        Ok(Delta::between(&before, &self.snapshot(t)?))
    }

    /// Goes through all steps in order, each with the change that leads to it.
    pub fn walk(&self) -> Walk<'_> {
        Walk { store: self, next: 0, current: Snapshot::default() }
    }

    /// When step `t` begins and ends, in the time unit of the manifest.
    pub fn time(&self, t: Step) -> Result<[f64; 2]> {
        self.part(t).map(|(part, within)| part.time(within))
    }

    /// Input rows step `t` was made from.
    pub fn events(&self, t: Step) -> Result<u64> {
        self.part(t).map(|(part, within)| part.events(within))
    }

    /// The values to be predicted at step `t`: vertices and their values.
    pub fn targets(&self, t: Step) -> Result<(&[Vertex], &[f32])> {
        self.part(t).map(|(part, within)| part.targets(within))
    }

    /// The classes to be predicted at step `t`: vertices and their classes.
    pub fn labels(&self, t: Step) -> Result<(&[Vertex], &[u32])> {
        self.part(t).map(|(part, within)| part.labels(within))
    }

    /// The features of all vertices at step `t`, row after row. Sparse features are in [`Store::fixed`].
    pub fn features(&self, t: Step) -> Result<Cow<'_, [f32]>> {
        let vertices = self.vertices();
        match self.manifest.features.kind {
            FeatureKind::None | FeatureKind::Sparse => Ok(Cow::Owned(Vec::new())),
            FeatureKind::Degrees => {
                let (inward, outward) = self.snapshot(t)?.degrees(vertices);
                Ok(Cow::Owned(
                    inward.iter().zip(&outward).flat_map(|(&i, &o)| [i as f32, o as f32]).collect(),
                ))
            }
            FeatureKind::Dense => {
                let (full, rows) = self.full_features(t)?;
                if full == t && rows.len() == vertices * self.split.width {
                    return Ok(Cow::Borrowed(rows));
                }
                let mut rows = rows.to_vec();
                rows.resize(vertices * self.split.width, 0.0);
                for step in full + 1..=t {
                    self.split.apply(self.records(step)?, &mut rows);
                }
                Ok(Cow::Owned(rows))
            }
        }
    }

    /// The features of one vertex at step `t`, read from the newest records of its segments on disk.
    pub fn feature_row(&self, t: Step, v: Vertex) -> Result<Vec<f32>> {
        let mut row = vec![0.0; self.split.width];
        let mut missing: Vec<bool> = vec![true; self.split.segments()];
        for step in (0..=t).rev() {
            let (part, within) = self.part(step)?;
            let rows = part.feature_rows(within);
            let records = part.feature_records(within);
            for (segment, missing) in missing.iter_mut().enumerate().filter(|(_, missing)| **missing) {
                let columns = self.split.columns(segment);
                let start = v as usize * self.split.width;
                let found = match rows {
                    Some(rows) => rows.get(start + columns.start..start + columns.end),
                    None => records
                        .find(v, segment as u32, self.split.segment)
                        .map(|values| &values[..columns.len()]),
                };
                if let Some(values) = found {
                    row[columns].copy_from_slice(values);
                    *missing = false;
                }
            }
            if rows.is_some() || missing.iter().all(|&missing| !missing) {
                break;
            }
        }
        Ok(row)
    }

    fn records(&self, t: Step) -> Result<Records<'_>> {
        self.part(t).map(|(part, within)| part.feature_records(within))
    }

    /// The last step up to `t` with all feature rows, and those rows.
    fn full_features(&self, t: Step) -> Result<(Step, &[f32])> {
        for step in (0..=t).rev() {
            let (part, within) = self.part(step)?;
            if let Some(rows) = part.feature_rows(within) {
                return Ok((step, rows));
            }
        }
        Err(Error::store(&self.path, "the store is damaged: its first step has no features"))
    }

    /// Changed segments stored since the last step with all rows.
    fn records_since_full(&self, t: Step) -> Result<usize> {
        let full = self.full_features(t)?.0;
        (full + 1..=t).map(|step| self.records(step).map(|records| records.vertices.len())).sum()
    }

    /// Edges stored since the last step that is stored whole.
    fn entries_since_full(&self, t: Step) -> Result<usize> {
        let mut entries = 0;
        for step in (0..=t).rev() {
            match self.edge_change(step)? {
                EdgeChange::Whole(_) => break,
                change => entries += change.len(),
            }
        }
        Ok(entries)
    }

    /// The original ids of the vertices, in the order of their numbers.
    pub fn ids(&self) -> Result<Ids> {
        read_ids(&self.path, &self.manifest)
    }

    /// What holds for all steps.
    pub fn fixed(&self) -> Result<Fixed> {
        let Some(entry) = &self.manifest.fixed else { return Ok(Fixed::default()) };
        let arrays = Arrays::open(&self.path, entry)?;
        let fixed = Fixed {
            classes: arrays.all("class")?.to_vec(),
            splits: arrays.all("split")?.to_vec(),
            sparse: match arrays.get::<u64>("features.at")? {
                None => None,
                Some(starts) => Some(SparseFeatures {
                    width: self.split.width,
                    starts: starts.to_vec(),
                    columns: arrays.all("features.column")?.to_vec(),
                    values: arrays.all("features.value")?.to_vec(),
                }),
            },
        };
        let rows = |length: usize| length == 0 || length == self.vertices();
        let sparse = fixed.sparse.as_ref().is_none_or(|sparse| {
            sparse.starts.len() == self.vertices() + 1
                && sparse.starts.is_sorted()
                && sparse.starts.last() == Some(&(sparse.columns.len() as u64))
                && sparse.values.len() == sparse.columns.len()
                && sparse.columns.iter().all(|&column| (column as usize) < sparse.width)
        });
        let classes = self.manifest.labels.classes.len() as i64;
        let known = fixed.classes.iter().all(|&class| (-1..classes).contains(&i64::from(class)));
        if !rows(fixed.classes.len()) || !rows(fixed.splits.len()) || !sparse || !known {
            return Err(arrays.damaged("its arrays do not fit the store"));
        }
        Ok(fixed)
    }

    /// Reads and checks everything.
    pub fn verify(&self) -> Result<()> {
        self.ids()?;
        self.fixed()?;
        let mut walk = self.walk();
        while walk.step()?.is_some() {}
        Ok(())
    }

    fn no_whole(&self) -> Error {
        Error::store(&self.path, "the store is damaged: its first step is not whole")
    }

    fn inconsistent(&self, t: Step, problem: impl std::fmt::Display) -> Error {
        Error::store(&self.path, format!("the store is damaged at step {t}: {problem}"))
    }
}

/// The original ids of the vertices a manifest counts, from the files in `folder`.
fn read_ids(folder: &Path, manifest: &Manifest) -> Result<Ids> {
    let (mut numbers, mut names) = (Vec::new(), Vec::new());
    for entry in &manifest.ids {
        let arrays = Arrays::open(folder, entry)?;
        numbers.extend_from_slice(arrays.all::<u64>("id")?);
        let (text, at) = (arrays.all::<u8>("name")?, arrays.all::<u64>("name.at")?);
        for pair in at.windows(2) {
            let bytes = text.get(pair[0] as usize..pair[1] as usize);
            let name = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
            names.push(name.ok_or_else(|| arrays.damaged("the names of vertices are not text"))?.to_owned());
        }
    }
    let ids = if names.is_empty() { Ids::Number(numbers) } else { Ids::Text(names) };
    if ids.len() as u64 == manifest.vertices {
        return Ok(ids);
    }
    let problem = format!("{} ids for {} vertices: the store is damaged", ids.len(), manifest.vertices);
    Err(Error::store(folder, problem))
}

/// A walk over the steps of a store.
pub struct Walk<'a> {
    store: &'a Store,
    next: Step,
    current: Snapshot<'a>,
}

/// One stop of a walk.
pub struct Stop<'w> {
    /// The step.
    pub step: Step,
    /// Its graph.
    pub snapshot: &'w Snapshot<'w>,
    /// What changed since the step before.
    pub delta: Delta,
}

impl<'a> Walk<'a> {
    /// Goes to the next step; `None` behind the last.
    pub fn step(&mut self) -> Result<Option<Stop<'_>>> {
        let t = self.next;
        if t == self.store.steps() {
            return Ok(None);
        }
        let change = self.store.edge_change(t)?;
        let (next, delta): (Snapshot<'a>, Delta) = match change.snapshot() {
            Some(whole) => {
                let delta = Delta::between(&self.current, &whole);
                (whole, delta)
            }
            None => {
                let delta = change.delta().unwrap_or_default();
                (delta.apply(&self.current).map_err(|problem| self.store.inconsistent(t, problem))?, delta)
            }
        };
        self.current = next;
        self.next += 1;
        Ok(Some(Stop { step: t, snapshot: &self.current, delta }))
    }
}
