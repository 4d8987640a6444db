//! A checkpoint: named arrays of `f32` and facts about them in one safetensors file.
//!
//! The header is written here, because its order must not change: the same content gives the same bytes. Its
//! metadata holds the version of the format, the facts as JSON text, and a checksum over the facts and the
//! name, shape and bytes of every array in the order of names. Any program that reads safetensors can read
//! the arrays.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata};
use serde::Serialize;
use serde_json::Value;

use kymo_files::write_whole;

use crate::error::{Error, Result};

/// What this program writes and reads.
const VERSION: &str = "checkpoint 1";

/// The one name an array cannot have: safetensors keeps its metadata there.
const RESERVED: &str = "__metadata__";

/// Bytes a header may have, as other readers of safetensors have it: a damaged length must not ask for all
/// memory.
const LONGEST_HEADER: u64 = 100_000_000;

/// Values that are turned into bytes at a time.
const BLOCK: usize = 1 << 14;

/// An array: its values row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    /// How long it is in each direction; their product is the number of values.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Vec<f32>,
}

/// A file of named arrays and facts about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// Whatever else must be known to go on, as JSON; floats come back exactly.
    pub facts: Value,
    /// The arrays by name.
    pub arrays: BTreeMap<String, Array>,
}

#[derive(Serialize)]
struct Header<'a> {
    #[serde(rename = "__metadata__")]
    about: About<'a>,
    #[serde(flatten)]
    arrays: BTreeMap<&'a str, Info<'a>>,
}

#[derive(Serialize)]
struct About<'a> {
    kymo: &'static str,
    facts: &'a str,
    checksum: String,
}

#[derive(Serialize)]
struct Info<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    data_offsets: [usize; 2],
}

impl Checkpoint {
    /// Writes the file; it appears whole or not at all, and replaces what was there.
    pub fn write(&self, path: &Path) -> Result<()> {
        let unwritable =
            |error| Error::file(path, format!("cannot describe the checkpoint as JSON: {error}"));
        let facts = serde_json::to_string(&self.facts).map_err(unwritable)?;
        let mut checksum = Checksum::of(&facts);
        let mut buffer = Vec::new();
        let mut arrays = BTreeMap::new();
        let mut offset = 0;
        for (name, Array { shape, values }) in &self.arrays {
            if name == RESERVED {
                return Err(Error::settings(name, "is not a name an array of a checkpoint can have"));
            }
            let expected = shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
            if expected != Some(values.len()) {
                let problem =
                    format!("has {} values, which do not make an array of shape {shape:?}", values.len());
                return Err(Error::settings(name, problem));
            }
            checksum.array(name, shape);
            for block in values.chunks(BLOCK) {
                checksum.bytes(encode(block, &mut buffer));
            }
            let data_offsets = [offset, offset + size_of_val(values.as_slice())];
            arrays.insert(name.as_str(), Info { dtype: "F32", shape, data_offsets });
            offset = data_offsets[1];
        }
        let about = About { kymo: VERSION, facts: &facts, checksum: checksum.finish() };
        let mut header = serde_json::to_vec(&Header { about, arrays }).map_err(unwritable)?;
        // Blanks at the end of the header put the arrays where they are aligned when the file is mapped.
        header.resize(header.len().next_multiple_of(8), b' ');
        if header.len() as u64 > LONGEST_HEADER {
            return Err(Error::file(
                path,
                "the facts and names of the checkpoint are too long; keep less in them",
            ));
        }
        Ok(write_whole(path, |file| {
            file.write_all(&(header.len() as u64).to_le_bytes())?;
            file.write_all(&header)?;
            for block in self.arrays.values().flat_map(|array| array.values.chunks(BLOCK)) {
                file.write_all(encode(block, &mut buffer))?;
            }
            Ok(())
        })?)
    }

    /// Reads a file and checks that it is what was written.
    pub fn read(path: &Path) -> Result<Checkpoint> {
        Checkpoint::from_source(Source::open(path)?)
    }

    /// Reads the bytes of a file that another process has, at this path.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Checkpoint> {
        Checkpoint::from_source(Source { path, file: Box::new(bytes), length: bytes.len() as u64 })
    }

    fn from_source(mut source: Source<'_>) -> Result<Checkpoint> {
        let metadata = source.header()?;
        let entry = |name: &str| metadata.metadata().as_ref().and_then(|entries| entries.get(name));
        match entry("kymo") {
            Some(version) if version == VERSION => {}
            Some(version) => {
                return Err(
                    source.damaged(format!("says it is {version:?}, but this program reads {VERSION:?}"))
                );
            }
            None => return Err(source.damaged("has no mark of a checkpoint")),
        }
        let (Some(facts), Some(expected)) = (entry("facts"), entry("checksum")) else {
            return Err(source.damaged("has no facts or no checksum"));
        };
        let mut checksum = Checksum::of(facts);
        let mut arrays = BTreeMap::new();
        let mut offset = 0;
        for (name, info) in metadata.tensors().into_iter().collect::<BTreeMap<_, _>>() {
            let (from, to) = info.data_offsets;
            if info.dtype != Dtype::F32 || from != offset {
                return Err(
                    source.damaged(format!("has the array {name} of another type or at another place"))
                );
            }
            offset = to;
            checksum.array(&name, &info.shape);
            let values = source.values((to - from) / size_of::<f32>(), &mut checksum)?;
            arrays.insert(name, Array { shape: info.shape.clone(), values });
        }
        if checksum.finish() != *expected {
            return Err(source.damaged("does not have the content its checksum was made of"));
        }
        let facts = serde_json::from_str(facts)
            .map_err(|error| source.damaged(format!("has facts that are not valid JSON ({error})")))?;
        Ok(Checkpoint { facts, arrays })
    }
}

/// A file being read.
struct Source<'a> {
    path: &'a Path,
    file: Box<dyn Read + 'a>,
    length: u64,
}

impl Source<'_> {
    fn open(path: &Path) -> Result<Source<'_>> {
        let file = File::open(path).map_err(Error::resource("cannot open", path))?;
        let length = file.metadata().map_err(Error::resource("cannot open", path))?.len();
        Ok(Source { path, file: Box::new(BufReader::new(file)), length })
    }

    /// A complaint about the contents, with what to do about it.
    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        let problem =
            format!("{what}: it is damaged or not a checkpoint; start again or use another checkpoint");
        Error::file(self.path, problem)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.damaged("ends too early"),
            _ => Error::resource("cannot read", self.path)(error),
        })
    }

    /// The header, once its length and that of the arrays are known to fit the file.
    fn header(&mut self) -> Result<Metadata> {
        let mut length = [0; 8];
        self.fill(&mut length)?;
        let length = u64::from_le_bytes(length);
        let rest = self.length.saturating_sub(8).checked_sub(length);
        let Some(rest) = rest.filter(|_| length <= LONGEST_HEADER) else {
            return Err(
                self.damaged(format!("has {} bytes, too few for what its beginning says", self.length))
            );
        };
        let mut header = vec![0; length as usize];
        self.fill(&mut header)?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| self.damaged(format!("has a header that cannot be read ({error})")))?;
        let expected = metadata.data_len() as u64;
        if rest != expected {
            return Err(self.damaged(format!("has {rest} bytes of arrays where its header says {expected}")));
        }
        Ok(metadata)
    }

    /// The next `count` values, which also go into the checksum.
    fn values(&mut self, count: usize, checksum: &mut Checksum) -> Result<Vec<f32>> {
        let mut values = Vec::with_capacity(count);
        let mut buffer = vec![0; BLOCK.min(count) * size_of::<f32>()];
        while values.len() < count {
            let bytes = BLOCK.min(count - values.len()) * size_of::<f32>();
            let block = &mut buffer[..bytes];
            self.fill(block)?;
            checksum.bytes(block);
            values.extend(block.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
        }
        Ok(values)
    }
}

/// The bytes of a block of values.
fn encode<'a>(block: &[f32], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    buffer.clear();
    buffer.extend(block.iter().flat_map(|value| value.to_le_bytes()));
    buffer
}

/// The checksum of everything a checkpoint says. Lengths go in too, so that no two contents are the same
/// bytes.
struct Checksum(crc32fast::Hasher);

impl Checksum {
    fn of(facts: &str) -> Checksum {
        let mut checksum = Checksum(crc32fast::Hasher::new());
        checksum.text(facts);
        checksum
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: usize) {
        self.bytes(&(number as u64).to_le_bytes());
    }

    fn array(&mut self, name: &str, shape: &[usize]) {
        self.text(name);
        self.number(shape.len());
        for &length in shape {
            self.number(length);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> String {
        format!("{:08x}", self.0.finalize())
    }
}

#[cfg(test)]
mod tests;
