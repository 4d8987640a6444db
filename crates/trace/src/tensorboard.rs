//! Event files for TensorBoard: scalars over steps.
//!
//! A file is a list of records: a length, its checksum, the content, its checksum. The content is an `Event`
//! in the encoding of protocol buffers, of which this needs four kinds of field, so it is written by hand.
//! TensorBoard follows the file while it grows, so it has its final name from the beginning; a kill costs at
//! most what was not flushed and one cut record, which TensorBoard skips.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// What the first event of every file says.
const VERSION: &str = "brain.Event:2";

/// Files of one name that may begin in the same second.
const ATTEMPTS: usize = 100;

/// An event file being written.
///
/// What was not flushed when it is dropped is written then, but errors are lost; `flush` reports them.
pub struct EventFile {
    path: PathBuf,
    file: BufWriter<File>,
    record: Vec<u8>,
}

impl EventFile {
    /// Creates `events.out.tfevents.<seconds>.<name>` in `folder`, which is made where it is missing.
    ///
    /// `begun` counts seconds since 1970 and is also the time of the first event. Characters of `name` that
    /// are not safe in the name of a file become `_`. A file that is there already stays: the new one gets a
    /// number after its name, and TensorBoard reads both, one after the other.
    pub fn create(folder: &Path, name: &str, begun: f64) -> Result<EventFile> {
        std::fs::create_dir_all(folder).map_err(Error::resource("cannot create", folder))?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        // The conversion maps times before 1970 and NaN to 0.
        let stem = format!("events.out.tfevents.{:010}.{name}", begun as u64);
        for attempt in 0..ATTEMPTS {
            let path = folder.join(if attempt == 0 { stem.clone() } else { format!("{stem}.{attempt}") });
            let file = match File::create_new(&path) {
                Ok(file) => BufWriter::new(file),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Error::resource("cannot create", &path)(error)),
            };
            let mut events = EventFile { path, file, record: Vec::new() };
            events.write(&version_event(begun))?;
            events.flush()?;
            return Ok(events);
        }
        let problem =
            format!("{ATTEMPTS} runs began here in the same second; wait a second or choose another folder");
        Err(Error::file(&folder.join(stem), problem))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the value of `tag` at `step`; `wall_time` counts seconds since 1970.
    pub fn scalar(&mut self, tag: &str, step: i64, value: f32, wall_time: f64) -> Result<()> {
        self.write(&scalar_event(tag, step, value, wall_time))
    }

    /// Hands everything to the operating system, where TensorBoard sees it.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(Error::resource("cannot write", &self.path))
    }

    /// Adds a record. It goes into the buffer in one piece, so that what reaches the file are whole records.
    fn write(&mut self, event: &[u8]) -> Result<()> {
        let length = (event.len() as u64).to_le_bytes();
        self.record.clear();
        self.record.extend_from_slice(&length);
        self.record.extend_from_slice(&masked(&length).to_le_bytes());
        self.record.extend_from_slice(event);
        self.record.extend_from_slice(&masked(event).to_le_bytes());
        self.file.write_all(&self.record).map_err(Error::resource("cannot write", &self.path))
    }
}

fn version_event(wall_time: f64) -> Vec<u8> {
    let mut event = Vec::new();
    double(&mut event, 1, wall_time);
    bytes(&mut event, 3, VERSION.as_bytes());
    event
}

fn scalar_event(tag: &str, step: i64, value: f32, wall_time: f64) -> Vec<u8> {
    let mut entry = Vec::new();
    bytes(&mut entry, 1, tag.as_bytes());
    float(&mut entry, 2, value);
    let mut summary = Vec::new();
    bytes(&mut summary, 1, &entry);
    let mut event = Vec::new();
    double(&mut event, 1, wall_time);
    // A field's key is its number and its kind: 0 for a varint, 1 for eight bytes, 2 for a length and bytes,
    // 5 for four bytes.
    varint(&mut event, 2 << 3);
    // Negative steps are their two's complement, as the format has it for int64.
    varint(&mut event, step as u64);
    bytes(&mut event, 5, &summary);
    event
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    varint(out, field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn float(out: &mut Vec<u8>, field: u64, value: f32) {
    varint(out, field << 3 | 5);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Seven bits a byte, the lowest first; the high bit says that more follow.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The checksum as records have it: rotated and offset, so that a checksum of checksums is no special case.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32 with Castagnoli's polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

/// What each byte does to the checksum.
const TABLE: &[u32; 256] = &table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests;
