//! A file of named arrays in the safetensors format: written whole under a temporary name, read by mapping.
//!
//! Arrays are laid out with the widest elements first, so that every one of them is aligned in the mapped
//! file and can be used where it lies. The checksum of the file is verified once, when it is first opened.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use kymo_files::write_whole;
use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensors};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Bytes that are gone through before their pages are let go: where everything is looked at once, what was
/// looked at need not stay.
pub const STRETCH: usize = 8 << 20;

/// A file of a store, as the manifest records it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its name within the store.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32 of all of it, as in zlib.
    pub crc32: u32,
}

/// An array about to be written.
pub struct Array<'a> {
    name: &'static str,
    dtype: &'static str,
    width: usize,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

/// Element types a store uses.
pub trait Element: Pod {
    /// The name safetensors gives the type.
    const NAME: &'static str;
    /// The type as the safetensors crate knows it.
    const DTYPE: Dtype;
    /// How many numbers of that type make one element here.
    const PER: usize = 1;
}

macro_rules! element {
    ($($type:ty => $name:literal, $dtype:ident, $per:literal;)*) => {
        $(impl Element for $type {
            const NAME: &'static str = $name;
            const DTYPE: Dtype = Dtype::$dtype;
            const PER: usize = $per;
        })*
    };
}

element! {
    u8 => "U8", U8, 1;
    u32 => "U32", U32, 1;
    u64 => "U64", U64, 1;
    i32 => "I32", I32, 1;
    f32 => "F32", F32, 1;
    f64 => "F64", F64, 1;
    [f32; 2] => "F32", F32, 2;
    [f64; 2] => "F64", F64, 2;
    // An edge is its two ends: source, then target.
    crate::snapshot::Edge => "U32", U32, 2;
}

impl<'a> Array<'a> {
    /// An array of `values`, in rows of `columns` where that is more than one.
    pub fn new<T: Element>(name: &'static str, values: &'a [T], columns: usize) -> Self {
        let columns = columns * T::PER;
        let numbers = values.len() * T::PER;
        let shape = if columns == 1 { vec![numbers] } else { vec![numbers / columns, columns] };
        Array { name, dtype: T::NAME, width: size_of::<T>(), shape, bytes: bytemuck::cast_slice(values) }
    }
}

#[derive(Serialize)]
struct Info<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    data_offsets: [usize; 2],
}

/// Writes the arrays into `folder` under `name`; the file appears whole or not at all.
pub fn write(folder: &Path, name: String, mut arrays: Vec<Array<'_>>) -> Result<FileEntry> {
    arrays.sort_by_key(|array| std::cmp::Reverse(array.width));
    let mut offset = 0;
    let mut infos = BTreeMap::new();
    for array in &arrays {
        let data_offsets = [offset, offset + array.bytes.len()];
        infos.insert(array.name, Info { dtype: array.dtype, shape: &array.shape, data_offsets });
        offset = data_offsets[1];
    }
    let mut header = serde_json::to_vec(&infos).map_err(|error| {
        Error::settings("store", format!("cannot describe the arrays of {name}: {error}"))
    })?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = (header.len() as u64).to_le_bytes();
    let mut pieces: Vec<&[u8]> = vec![&length, &header];
    pieces.extend(arrays.iter().map(|array| array.bytes));
    let mut hasher = crc32fast::Hasher::new();
    for piece in &pieces {
        hasher.update(piece);
    }
    write_whole(&folder.join(&name), |file| pieces.iter().try_for_each(|piece| file.write_all(piece)))?;
    let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
    Ok(FileEntry { name, bytes, crc32: hasher.finalize() })
}

/// A mapped file of arrays whose checksum has been verified.
pub struct Arrays {
    path: PathBuf,
    map: Mmap,
    metadata: Metadata,
    start: usize,
}

impl Arrays {
    /// Maps the file of this entry and checks that it is what was written.
    pub fn open(folder: &Path, entry: &FileEntry) -> Result<Arrays> {
        let (path, map) = Arrays::map(folder, entry)?;
        let mut hasher = crc32fast::Hasher::new();
        for (number, stretch) in map.chunks(STRETCH).enumerate() {
            hasher.update(stretch);
            if map.len() > STRETCH {
                release(&map, number * STRETCH, stretch.len());
            }
        }
        if hasher.finalize() != entry.crc32 {
            return Err(Error::store(&path, "the file is damaged: its checksum is not that of the manifest"));
        }
        Arrays::described(path, map)
    }

    /// Maps the file without a look at what is in its arrays, which may be anything: for counts.
    pub fn peek(folder: &Path, entry: &FileEntry) -> Result<Arrays> {
        let (path, map) = Arrays::map(folder, entry)?;
        Arrays::described(path, map)
    }

    fn map(folder: &Path, entry: &FileEntry) -> Result<(PathBuf, Mmap)> {
        let path = folder.join(&entry.name);
        let file = File::open(&path).map_err(Error::resource("cannot open", &path))?;
        let map = map(&file, &path)?;
        if map.len() as u64 != entry.bytes {
            let how =
                if (map.len() as u64) < entry.bytes { "truncated" } else { "longer than it was written" };
            let problem =
                format!("the file is {how}: {} bytes, the manifest says {}", map.len(), entry.bytes);
            return Err(Error::store(&path, problem));
        }
        Ok((path, map))
    }

    fn described(path: PathBuf, map: Mmap) -> Result<Arrays> {
        let (header, metadata) = SafeTensors::read_metadata(&map).map_err(|error| {
            Error::store(&path, format!("the file is not a valid safetensors file: {error}"))
        })?;
        Ok(Arrays { start: header + 8, path, map, metadata })
    }

    /// The array called `name`, or `None` where the file has none.
    pub fn get<T: Element>(&self, name: &str) -> Result<Option<&[T]>> {
        let Some(info) = self.metadata.info(name) else { return Ok(None) };
        let (from, to) = info.data_offsets;
        let bytes = self.map.get(self.start + from..self.start + to);
        let values =
            bytes.filter(|_| info.dtype == T::DTYPE).and_then(|bytes| bytemuck::try_cast_slice(bytes).ok());
        values.map(Some).ok_or_else(|| self.damaged(format!("the array {name} is not of type {}", T::NAME)))
    }

    /// The array called `name`, empty where the file has none.
    pub fn all<T: Element>(&self, name: &str) -> Result<&[T]> {
        Ok(self.get(name)?.unwrap_or_default())
    }

    /// Bytes of the arrays with these names; the file need not have them.
    pub fn bytes(&self, names: &[&str]) -> u64 {
        let lengths = names.iter().filter_map(|name| self.metadata.info(name)).map(|info| {
            let (from, to) = info.data_offsets;
            to - from
        });
        lengths.sum::<usize>() as u64
    }

    /// Tells the system that the mapped pages need not stay in this process.
    pub fn release(&self) {
        release(&self.map, 0, self.map.len());
    }

    /// The same of the pages of a part of an array of this file.
    pub fn release_slice<T>(&self, values: &[T]) {
        let from = values.as_ptr().addr().checked_sub(self.map.as_ptr().addr());
        let inside = |from: &usize| from + size_of_val(values) <= self.map.len();
        if let Some(from) = from.filter(inside).filter(|_| !values.is_empty()) {
            release(&self.map, from, size_of_val(values));
        }
    }

    /// A complaint about the contents of this file.
    pub fn damaged(&self, problem: impl Into<String>) -> Error {
        Error::store(&self.path, problem)
    }
}

/// Tells the system that these pages need not stay in this process.
#[allow(unsafe_code)]
fn release(map: &Mmap, from: usize, length: usize) {
    // SAFETY: the mapping is shared, read-only and of a file that never changes once it has its name (see
    // `map`), so that no page holds anything that is not in the file: the next access, also one that goes on
    // in another thread at this moment, brings back the same bytes.
    #[cfg(unix)]
    let advised = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, from, length) };
    // It is advice: a system that does not take it keeps the pages.
    #[cfg(unix)]
    drop(advised);
    #[cfg(not(unix))]
    let _ = (map, from, length);
}

#[allow(unsafe_code)]
fn map(file: &File, path: &Path) -> Result<Mmap> {
    // SAFETY: files of a store are never changed once they have their name: they are written under another
    // one, renamed, and later files are added beside them. Truncating a mapped file from outside ends this
    // process, as with any mapped file.
    unsafe { Mmap::map(file) }.map_err(Error::resource("cannot map", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Edge;

    #[test]
    fn arrays_come_back_as_they_were_whatever_their_order_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let (bytes, edges, values) =
            ([1u8, 2, 3], [Edge::new(1, 2), Edge::new(4, 3)], [0.5f32, -1.0, 2.0, 3.0]);
        let arrays = vec![
            Array::new("bytes", &bytes, 1),
            Array::new("values", &values, 2),
            Array::new("edges", &edges, 1),
            Array::new::<f64>("none", &[], 1),
        ];
        let entry = write(folder.path(), "x.safetensors".into(), arrays).unwrap();
        let read = Arrays::open(folder.path(), &entry).unwrap();
        assert_eq!(read.all::<u8>("bytes").unwrap(), bytes);
        assert_eq!(read.all::<Edge>("edges").unwrap(), edges);
        assert_eq!(read.all::<u32>("edges").unwrap(), [1, 2, 4, 3]);
        assert_eq!(read.all::<f32>("values").unwrap(), values);
        assert_eq!(read.get::<f64>("none").unwrap(), Some(&[][..]));
        assert_eq!(read.get::<u8>("absent").unwrap(), None);
        assert!(read.all::<f32>("bytes").unwrap_err().to_string().contains("is not of type F32"));
        assert_eq!(read.metadata.info("values").unwrap().shape, [2, 2]);
    }

    #[test]
    fn a_changed_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let values: Vec<u32> = (0..100).collect();
        let entry = write(folder.path(), "x".into(), vec![Array::new("values", &values, 1)]).unwrap();
        let path = folder.path().join("x");
        let whole = std::fs::read(&path).unwrap();
        let error = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Arrays::open(folder.path(), &entry).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(error(&whole[..whole.len() - 1]).contains("truncated"));
        assert!(error(&[]).contains("truncated"));
        assert!(error(&[&whole[..], b"x"].concat()).contains("longer"));
        for at in [0, 9, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert!(error(&flipped).contains("damaged"), "{at}");
        }
    }
}
