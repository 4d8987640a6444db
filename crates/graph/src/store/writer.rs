//! Writing a store: a new one, or steps behind those of an existing one.
//!
//! A new store is written into a hidden folder beside its final place and renamed when it is complete. Steps
//! are appended as new files and become visible when the manifest is replaced, so that readers see the store
//! as it was or as it is, never between. What is not finished is taken away again when the writer is dropped,
//! or by the next writer.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kymo_files::{Lock, NewFolder};

use super::Store;
use super::additive::{Additive, Split, cost};
use super::arrays::{Array, FileEntry, write};
use super::manifest::{FeatureFacts, FeatureKind, Manifest, PartEntry};
use super::output::{check_free, check_outside, exists, is_ours};
use super::pending::Pending;
use crate::delta::Delta;
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::snapshot::Snapshot;
use crate::step::{StepData, StepEdges};
use crate::time::TimeUnit;

/// Bytes of waiting steps that make a part.
const PART: usize = 64 << 20;

/// Facts about vertices that hold for all steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fixed {
    /// The class of each vertex, or -1; empty where there are no classes.
    pub classes: Vec<i32>,
    /// The part of the split each vertex is in (0 none, 1 train, 2 validation, 3 test); empty where there is
    /// none.
    pub splits: Vec<u8>,
    /// Features with few non-zeros.
    pub sparse: Option<SparseFeatures>,
}

/// Rows with few non-zeros.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseFeatures {
    /// Columns a row has.
    pub width: usize,
    /// Row `v` is `starts[v]..starts[v + 1]` of the other arrays.
    pub starts: Vec<u64>,
    /// The columns of the non-zeros, ascending within a row.
    pub columns: Vec<u32>,
    /// The non-zeros.
    pub values: Vec<f32>,
}

/// What a new store is to be.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether an edge and its opposite are two different things.
    pub directed: bool,
    /// In a bipartite graph, vertices on the left side.
    pub left: Option<usize>,
    /// What times count.
    pub time_unit: TimeUnit,
    /// The kind, width and segments of features.
    pub features: FeatureFacts,
    /// Names of classes.
    pub classes: Vec<String>,
    /// Bytes a part may take before it is written; 0 for the usual size.
    pub part_bytes: usize,
}

/// A store being written.
pub struct Writer {
    folder: PathBuf,
    place: Place,
    manifest: Manifest,
    pending: Pending,
    current: Snapshot<'static>,
    stored_since: usize,
    features: Option<Additive>,
    part_bytes: usize,
}

/// Where the result goes.
enum Place {
    /// A new store: its final path as it was given, and whether a store that is there may be replaced.
    New { folder: NewFolder, path: PathBuf, replace: bool },
    /// An existing store: the lock that keeps other writers out, and the files written so far.
    Existing { _lock: Lock, files: Vec<PathBuf> },
    /// Finished: there is nothing to take away.
    Done,
}

impl Writer {
    /// Begins a new store at `path`, which must not exist unless it is a store that may be replaced. Fails
    /// while another process writes a store there, and in the folder of another store or of a run.
    pub fn create(path: &Path, replace: bool) -> Result<Writer> {
        check_outside(path)?;
        Writer::create_within(path, replace)
    }

    /// The same also inside other folders of Kymo: for data that a run makes for itself.
    pub fn create_within(path: &Path, replace: bool) -> Result<Writer> {
        check_free(path, replace)?;
        if path.file_name().is_none() {
            return Err(Error::settings("output", "is not the name of a folder"));
        }
        let folder = NewFolder::begin(path, is_ours)?;
        // Again: another writer may have come to its end, or a dead one have left a store that is back now.
        check_free(path, replace)?;
        Ok(Writer {
            folder: folder.partial().into(),
            place: Place::New { folder, path: path.into(), replace },
            manifest: Manifest::new(),
            pending: Pending::default(),
            current: Snapshot::default(),
            stored_since: 0,
            features: None,
            part_bytes: PART,
        })
    }

    /// Says what the new store is to be; comes before its first step.
    pub fn plan(&mut self, plan: Plan) {
        self.features =
            (plan.features.kind == FeatureKind::Dense).then(|| Additive::new(split(&plan.features)));
        self.manifest.directed = plan.directed;
        self.manifest.left = plan.left.map(|left| left as u64);
        self.manifest.time_unit = plan.time_unit;
        self.manifest.features = plan.features;
        self.manifest.labels.classes = plan.classes;
        if plan.part_bytes > 0 {
            self.part_bytes = plan.part_bytes;
        }
    }

    /// Goes on with the store at `path`; fails while another writer does.
    pub fn append(path: &Path) -> Result<Writer> {
        Manifest::read(path)?;
        let lock = kymo_files::lock(path)?;
        // Read again under the lock: another writer may have finished in between.
        let store = Store::open(path)?;
        let manifest = store.manifest().clone();
        let (mut current, mut stored_since, mut features) = (Snapshot::default(), 0, None);
        if let Some(last) = store.steps().checked_sub(1) {
            current = store.snapshot(last)?.into_owned();
            stored_since = store.entries_since_full(last)?;
        }
        if manifest.features.kind == FeatureKind::Dense {
            let split = split(&manifest.features);
            features = Some(match store.steps().checked_sub(1) {
                Some(last) => {
                    let stored = cost(store.records_since_full(last)?, split);
                    Additive::resume(split, store.features(last)?.into_owned(), stored)
                }
                None => Additive::new(split),
            });
        }
        Ok(Writer {
            folder: path.into(),
            place: Place::Existing { _lock: lock, files: Vec::new() },
            manifest,
            pending: Pending::default(),
            current,
            stored_since,
            features,
            part_bytes: PART,
        })
    }

    /// A folder for temporary files, which disappears with the writer.
    pub fn scratch(&self) -> &Path {
        &self.folder
    }

    /// The original ids of the vertices known so far, read back from disk.
    pub fn ids(&self) -> Result<Ids> {
        super::read_ids(&self.folder, &self.manifest)
    }

    /// How many vertices are known.
    pub fn vertices(&self) -> usize {
        self.manifest.vertices as usize
    }

    /// How many steps there are.
    pub fn steps(&self) -> usize {
        self.manifest.steps as usize + self.pending.steps()
    }

    /// The graph after the last step.
    pub fn current(&self) -> &Snapshot<'static> {
        &self.current
    }

    /// Adds vertices, which get the numbers after those known already.
    pub fn add_vertices(&mut self, ids: &Ids) -> Result<()> {
        let name = format!("vertices-{:04}.safetensors", self.manifest.ids.len());
        let text: (Vec<u64>, Vec<u8>);
        let arrays = match ids {
            Ids::Number(ids) => vec![Array::new("id", ids, 1)],
            Ids::Text(ids) => {
                let ends = ids.iter().scan(0, |end, id| {
                    *end += id.len() as u64;
                    Some(*end)
                });
                text = (std::iter::once(0).chain(ends).collect(), ids.concat().into_bytes());
                vec![Array::new("name", &text.1, 1), Array::new("name.at", &text.0, 1)]
            }
        };
        let entry = write(&self.folder, name, arrays)?;
        self.remember(&entry);
        self.manifest.ids.push(entry);
        self.manifest.vertices += ids.len() as u64;
        Ok(())
    }

    /// Sets what holds for all steps.
    pub fn fixed(&mut self, fixed: &Fixed) -> Result<()> {
        let mut arrays = Vec::new();
        if !fixed.classes.is_empty() {
            arrays.push(Array::new("class", &fixed.classes, 1));
            self.manifest.labels.fixed = true;
        }
        if !fixed.splits.is_empty() {
            arrays.push(Array::new("split", &fixed.splits, 1));
        }
        if let Some(sparse) = &fixed.sparse {
            arrays.push(Array::new("features.at", &sparse.starts, 1));
            arrays.push(Array::new("features.column", &sparse.columns, 1));
            arrays.push(Array::new("features.value", &sparse.values, 1));
        }
        if !arrays.is_empty() {
            let entry = write(&self.folder, "fixed.safetensors".into(), arrays)?;
            self.remember(&entry);
            self.manifest.fixed = Some(entry);
        }
        Ok(())
    }

    /// Adds a step.
    pub fn push(&mut self, step: StepData) -> Result<()> {
        let (next, delta) = match step.edges {
            StepEdges::All(next) => (next, None),
            StepEdges::Delta(delta) => {
                let next = delta.apply(&self.current).map_err(|mismatch| {
                    Error::settings(format!("step {}", self.steps()), mismatch.to_string())
                })?;
                (next, Some(delta))
            }
        };
        let changed = delta.as_ref().map_or_else(|| Delta::count_between(&self.current, &next), Delta::len);
        let known = self.vertices();
        let highest = next.edges.iter().map(|edge| edge.source().max(edge.target())).max();
        if let Some(vertex) = highest.filter(|&vertex| vertex as usize >= known) {
            let problem = format!("has an edge at vertex {vertex}, but only {known} vertices are known");
            return Err(Error::settings(format!("step {}", self.steps()), problem));
        }
        let records = match &mut self.features {
            Some(features) => features.change(step.features, known)?,
            None => Default::default(),
        };
        self.pending.begin([step.begin, step.end], step.events, known as u64);
        // All edges are stored where that is no longer than the change, and from time to time, so that no
        // step is far from one that is stored whole.
        self.stored_since += changed;
        if self.stored_since >= next.len() {
            self.stored_since = 0;
            self.pending.edges(&next);
        } else {
            self.pending.delta(&delta.unwrap_or_else(|| Delta::between(&self.current, &next)));
        }
        self.pending.vertices(records, &step.targets, &step.labels);
        self.manifest.events += step.events;
        self.manifest.edges += next.count(self.manifest.directed) as u64;
        self.manifest.targets |= !step.targets.is_empty();
        self.manifest.labels.per_step |= !step.labels.is_empty();
        self.current = next;
        if self.pending.bytes() >= self.part_bytes { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let steps = self.pending.steps() as u64;
        if steps == 0 {
            return Ok(());
        }
        let name = format!("steps-{:08}.safetensors", self.manifest.steps);
        let split = split(&self.manifest.features);
        let file = self.pending.write(&self.folder, name, split.width.max(1), split.segment)?;
        self.remember(&file);
        self.manifest.parts.push(PartEntry { file, steps });
        self.manifest.steps += steps;
        Ok(())
    }

    fn remember(&mut self, entry: &FileEntry) {
        if let Place::Existing { files, .. } = &mut self.place {
            files.push(self.folder.join(&entry.name));
        }
    }

    /// Says where the data came from; a later call replaces what an earlier one said.
    pub fn provenance(&mut self, provenance: serde_json::Value) {
        self.manifest.provenance = provenance;
    }

    /// Names the classes of labels.
    pub fn classes(&mut self, classes: Vec<String>) {
        self.manifest.labels.classes = classes;
    }

    /// Sets how many input rows join a vertex to itself.
    pub fn self_loops(&mut self, self_loops: u64) {
        self.manifest.self_loops = self_loops;
    }

    /// Writes what still waits and makes the store appear.
    pub fn finish(mut self) -> Result<Store> {
        self.flush()?;
        self.manifest.clone().write(&self.folder)?;
        let path = match std::mem::replace(&mut self.place, Place::Done) {
            Place::New { folder, path, replace } => {
                check_free(&path, replace)?;
                folder.finish(path.exists()).map_err(|error| match error.source.kind() {
                    ErrorKind::AlreadyExists => exists(&path),
                    _ => error.into(),
                })?;
                path
            }
            Place::Existing { .. } | Place::Done => self.folder.clone(),
        };
        Store::open(&path)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Place::Existing { files, .. } = &self.place {
            for file in files {
                // A failure here cannot be reported; what stays behind is unlisted, and harmless.
                let _ = std::fs::remove_file(file);
            }
        }
    }
}

fn split(features: &FeatureFacts) -> Split {
    Split::new(features.width as usize, features.segments as usize)
}
