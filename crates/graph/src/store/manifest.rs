//! The manifest of a store: what is in it, where it came from, and which files make it up.

use std::io::Write;
use std::path::Path;

use kymo_files::write_whole;
use serde::{Deserialize, Serialize};

use super::arrays::FileEntry;
use crate::error::{Error, Result};
use crate::snapshot::Vertex;
use crate::time::TimeUnit;

/// The name of the manifest within a store.
pub const NAME: &str = kymo_files::place::MANIFEST;

/// What a manifest calls itself.
const FORMAT: &str = kymo_files::place::STORE_FORMAT;

/// The version this program writes and reads.
pub const VERSION: u32 = 1;

/// Everything about a store but its arrays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always `kymo-store`.
    pub format: String,
    /// The version of the layout.
    pub version: u32,
    /// How many vertices there are.
    pub vertices: u64,
    /// Of them, in a bipartite graph, those on the left side, which come first.
    pub left: Option<u64>,
    /// How many steps there are.
    pub steps: u64,
    /// Edges summed over the steps; in an undirected graph an edge and its opposite count once.
    pub edges: u64,
    /// Input rows.
    pub events: u64,
    /// Input rows that join a vertex to itself, whether they were kept or not.
    pub self_loops: u64,
    /// Whether an edge and its opposite are two different things.
    pub directed: bool,
    /// What times count.
    pub time_unit: TimeUnit,
    /// The features of vertices.
    pub features: FeatureFacts,
    /// Whether steps have values to be predicted.
    pub targets: bool,
    /// The classes of vertices.
    pub labels: LabelFacts,
    /// The files with the original ids, in order.
    pub ids: Vec<FileEntry>,
    /// The file with facts about vertices that hold for all steps, where there are any.
    pub fixed: Option<FileEntry>,
    /// The files with the steps, in order.
    pub parts: Vec<PartEntry>,
    /// Where the data came from and how it was treated.
    pub provenance: serde_json::Value,
    /// The CRC-32 of this manifest with 0 in this place.
    pub crc32: u32,
}

/// What the features of vertices are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureFacts {
    /// How they are kept.
    pub kind: FeatureKind,
    /// Columns a vertex has.
    pub width: u64,
    /// Segments a row is split into; only changed segments are stored.
    pub segments: u64,
}

/// How features are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureKind {
    /// There are none.
    #[default]
    None,
    /// In- and out-degree, computed from each snapshot.
    Degrees,
    /// Rows of numbers that may change from step to step.
    Dense,
    /// Rows with few non-zeros that never change.
    Sparse,
}

/// What the classes of vertices are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelFacts {
    /// Whether vertices have a class that holds for all steps.
    pub fixed: bool,
    /// Whether steps list classes of vertices.
    pub per_step: bool,
    /// The names of the classes, in the order of their numbers.
    pub classes: Vec<String>,
}

/// A file of consecutive steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartEntry {
    /// The file.
    pub file: FileEntry,
    /// How many steps it holds; they follow those of the part before.
    pub steps: u64,
}

#[derive(Deserialize)]
struct Preamble {
    format: Option<String>,
    version: Option<u32>,
}

impl Manifest {
    /// An empty manifest of the current version.
    pub fn new() -> Self {
        Manifest { format: FORMAT.into(), version: VERSION, directed: true, ..Self::default() }
    }

    /// Reads and checks the manifest of the store at `folder`.
    pub fn read(folder: &Path) -> Result<Manifest> {
        let path = folder.join(NAME);
        let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound if folder.is_dir() => {
                Error::store(folder, "is a folder but not a store: it has no manifest.json")
            }
            std::io::ErrorKind::NotFound => {
                Error::store(folder, "there is no such store; make one with `kymo ingest` or `kymo generate`")
            }
            std::io::ErrorKind::NotADirectory => {
                Error::store(folder, "is a file, not a store; read it with `kymo ingest` first")
            }
            _ => Error::resource("cannot read", &path)(error),
        })?;
        let damaged = |why: String| Error::store(&path, format!("the manifest is damaged: {why}"));
        let preamble: Preamble =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if preamble.format.as_deref() != Some(FORMAT) {
            return Err(Error::store(
                &path,
                format!("is not the manifest of a store: its format is not \"{FORMAT}\""),
            ));
        }
        match preamble.version {
            Some(VERSION) => {}
            Some(other) => {
                let advice = if other > VERSION { "use a newer Kymo" } else { "make the store again" };
                let problem =
                    format!("the store has version {other}, this Kymo reads version {VERSION}; {advice}");
                return Err(Error::store(&path, problem));
            }
            None => return Err(damaged("it has no version".into())),
        }
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if manifest.checksum().map_err(&damaged)? != manifest.crc32 {
            return Err(damaged("its checksum does not fit".into()));
        }
        let steps: u64 = manifest.parts.iter().map(|part| part.steps).fold(0, u64::saturating_add);
        if steps != manifest.steps {
            return Err(damaged(format!("it counts {} steps, its parts have {steps}", manifest.steps)));
        }
        let outside = |file: &FileEntry| Path::new(&file.name).file_name() != Some(file.name.as_ref());
        let files = manifest.parts.iter().map(|part| &part.file).chain(&manifest.ids).chain(&manifest.fixed);
        if let Some(file) = files.into_iter().find(|file| outside(file)) {
            return Err(damaged(format!("the file name '{}' leads out of the store", file.name)));
        }
        manifest.check_sizes().map_err(damaged)?;
        Ok(manifest)
    }

    /// Fails where sizes are more than the files can hold: what is made of them must not be asked of memory.
    fn check_sizes(&self) -> std::result::Result<(), String> {
        let bytes = |files: &mut dyn Iterator<Item = &FileEntry>| {
            files.map(|file| file.bytes).fold(0, u64::saturating_add)
        };
        let (ids, parts) =
            (bytes(&mut self.ids.iter()), bytes(&mut self.parts.iter().map(|part| &part.file)));
        let rows = self.vertices.saturating_mul(self.features.width).saturating_mul(4);
        let dense = self.features.kind == FeatureKind::Dense && self.steps > 0;
        let limits = [
            ("vertices", self.vertices, u64::from(Vertex::MAX)),
            // An id takes eight bytes, or its name does.
            ("vertices", self.vertices, ids / 8),
            ("vertices on the left", self.left.unwrap_or(0), self.vertices),
            // A step has a time, which takes sixteen.
            ("steps", self.steps, parts / 16),
            // An edge takes eight bytes, and may be there at every step.
            ("edges", self.edges, (parts / 8).saturating_mul(self.steps)),
            ("columns of features", self.features.width, u64::from(u32::MAX)),
            // Vertices that come later have no features before: so at least one row must be there.
            (
                "columns of features",
                if dense { rows.min(self.features.width.saturating_mul(4)) } else { 0 },
                parts,
            ),
        ];
        match limits.into_iter().find(|(_, found, most)| found > most) {
            Some((what, found, most)) => {
                Err(format!("it counts {found} {what}, its files have room for {most}"))
            }
            None => Ok(()),
        }
    }

    /// Writes the manifest into `folder`, replacing an older one in one instant.
    pub fn write(mut self, folder: &Path) -> Result<Manifest> {
        let fail = |why: String| Error::store(folder, format!("cannot describe the store: {why}"));
        self.crc32 = self.checksum().map_err(fail)?;
        let mut text = serde_json::to_vec_pretty(&self).map_err(|error| fail(error.to_string()))?;
        text.push(b'\n');
        write_whole(&folder.join(NAME), |file| file.write_all(&text))?;
        Ok(self)
    }

    fn checksum(&self) -> std::result::Result<u32, String> {
        let blank = Manifest { crc32: 0, ..self.clone() };
        serde_json::to_vec_pretty(&blank)
            .map(|text| crc32fast::hash(&text))
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_and_any_change_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let provenance = serde_json::json!({"command": "ingest", "noise": 0.1, "list": [1, 2]});
        let ids = vec![FileEntry { name: "ids".into(), bytes: 56, crc32: 0 }];
        let manifest =
            Manifest { vertices: 7, ids, provenance, ..Manifest::new() }.write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), manifest);

        let path = folder.path().join(NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        let error = |from: &str, to: &str| {
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            Manifest::read(folder.path()).unwrap_err().to_string()
        };
        assert!(error("\"vertices\": 7", "\"vertices\": 8").contains("its checksum does not fit"));
        assert!(
            error("\"version\": 1", "\"version\": 2")
                .contains("version 2, this Kymo reads version 1; use a newer")
        );
        assert!(error("kymo-store", "other").contains("is not the manifest of a store"));
        assert!(error("{", "").contains("damaged"));
        assert!(error("\"directed\"", "\"indirected\"").contains("unknown field"));
    }

    /// A forger of a size can forge the checksum, too, but not the files that would have to hold it.
    #[test]
    fn sizes_that_the_files_cannot_hold_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |bytes| FileEntry { name: "x".into(), bytes, crc32: 0 };
        let good = Manifest {
            vertices: 10,
            steps: 2,
            edges: 12,
            features: FeatureFacts { kind: FeatureKind::Dense, width: 3, segments: 3 },
            ids: vec![file(90)],
            parts: vec![PartEntry { file: file(200), steps: 2 }],
            ..Manifest::new()
        };
        good.clone().write(folder.path()).unwrap();
        Manifest::read(folder.path()).unwrap();
        let wide = FeatureFacts { width: 1_000_000_000, ..good.features };
        let forged = [
            ("1000000000 vertices", Manifest { vertices: 1_000_000_000, ..good.clone() }),
            ("room for 11", Manifest { vertices: 12, ..good.clone() }),
            (
                "room for 4294967295",
                Manifest { vertices: 1 << 40, ids: vec![file(u64::MAX)], ..good.clone() },
            ),
            ("11 vertices on the left", Manifest { left: Some(11), ..good.clone() }),
            ("51 edges", Manifest { edges: 51, ..good.clone() }),
            ("columns of features", Manifest { features: wide, ..good.clone() }),
            (
                "columns of features",
                Manifest {
                    features: FeatureFacts { kind: FeatureKind::Sparse, width: 1 << 40, segments: 1 },
                    ..good.clone()
                },
            ),
            (
                "1000000000 steps",
                Manifest {
                    steps: 1_000_000_000,
                    parts: vec![PartEntry { file: file(200), steps: 1_000_000_000 }],
                    ..good.clone()
                },
            ),
        ];
        for (hint, manifest) in forged {
            manifest.write(folder.path()).unwrap();
            let error = Manifest::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains("the manifest is damaged") && error.contains(hint), "{error}");
        }
    }
}
