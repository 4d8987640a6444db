//! Opening an input: a file or standard input, plain or compressed, read ahead by a thread of its own.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::container;
use super::unpack::Packing;
use crate::error::{Error, Place, Result};
use crate::progress::Progress;

/// Bytes handed from the reading thread to the parser at a time: large enough to make the hand-over free,
/// small enough to stay in the second-level cache.
const BLOCK: usize = 256 << 10;

/// Blocks read ahead of the parser.
const AHEAD: usize = 4;

/// Bytes looked at to tell how an input is compressed.
const MAGIC: usize = 16;

/// An opened input: decompressed bytes, block by block.
pub struct Source {
    name: String,
    blocks: Receiver<io::Result<Vec<u8>>>,
    head: Vec<u8>,
    head_taken: bool,
    packing: Packing,
    ended: bool,
    plain: Option<(PathBuf, u64)>,
}

impl Source {
    /// Opens `path`, where `-` is standard input.
    pub fn open(path: &Path, progress: &Progress) -> Result<Source> {
        if path == Path::new("-") {
            return Self::new("standard input".into(), Box::new(io::stdin()), progress);
        }
        let file = File::open(path).map_err(Error::resource("cannot open", path))?;
        let facts = file.metadata().map_err(Error::resource("cannot open", path))?;
        if facts.is_dir() {
            let problem = "is a folder; name the files in it";
            return Err(Error::input(Place::file(path.display().to_string()), problem));
        }
        progress.announce(facts.len());
        let mut source = Self::new(path.display().to_string(), Box::new(file), progress)?;
        source.plain = facts.is_file().then(|| (path.to_path_buf(), facts.len()));
        Ok(source)
    }

    /// Reads `bytes` as though they were a file called `name`.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Source> {
        if bytes.len() <= BLOCK && Packing::of(&bytes) == Packing::Plain {
            // The only block is at hand: there is nothing for a thread to do.
            return Self {
                name: name.into(),
                blocks: sync_channel(0).1,
                head: bytes,
                head_taken: false,
                packing: Packing::Plain,
                ended: true,
                plain: None,
            }
            .checked();
        }
        Self::new(name.into(), Box::new(io::Cursor::new(bytes)), &Progress::silent())
    }

    fn new(name: String, raw: Box<dyn Read + Send>, progress: &Progress) -> Result<Source> {
        let mut counted = Counted { raw, progress: progress.clone() };
        let mut magic = [0; MAGIC];
        let plain = Packing::Plain;
        let got = read_full(&mut counted, &mut magic).map_err(|error| unreadable(&name, plain, &error))?;
        let packing = Packing::of(&magic[..got]);
        let whole = io::Cursor::new(magic).take(got as u64).chain(counted);
        let (sender, blocks) = sync_channel(AHEAD);
        std::thread::Builder::new()
            .name("read".into())
            .spawn(move || pump(packing.unpack(whole), &sender))
            .map_err(Error::resource("cannot start a thread to read", Path::new(&name)))?;
        let mut source =
            Source { name, blocks, head: Vec::new(), head_taken: true, packing, ended: false, plain: None };
        source.head = source.next_block()?.unwrap_or_default();
        source.head_taken = false;
        source.checked()
    }

    /// Refuses an input whose beginning is not that of a text.
    fn checked(self) -> Result<Source> {
        if self.head.is_empty() {
            return Err(Error::input(Place::file(&self.name), "is empty; expected at least one row"));
        }
        if let Some(problem) = container::refusal(&self.head) {
            return Err(Error::input(Place::file(&self.name), problem));
        }
        if let Some(offset) = memchr::memchr(0, &self.head) {
            let problem = format!("is not text: found a zero byte at offset {offset}");
            return Err(Error::input(Place::file(&self.name), problem));
        }
        Ok(self)
    }

    /// The name to use in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first bytes of the input, for a reader to recognise its format.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Reads on until at least this many bytes are at hand, or all of them.
    pub fn look_ahead(&mut self, bytes: usize) -> Result<()> {
        while !self.head_taken && self.head.len() < bytes && !self.ended {
            match self.blocks.recv() {
                Ok(Ok(block)) => {
                    self.ended = block.is_empty();
                    self.head.extend_from_slice(&block);
                }
                Ok(Err(error)) => return Err(unreadable(&self.name, self.packing, &error)),
                Err(_) => return Err(self.stopped()),
            }
        }
        Ok(())
    }

    /// Whether the first bytes are all there is.
    pub fn is_all_at_hand(&self) -> bool {
        self.ended
    }

    /// Where the input is, and its length, if it is a file that can be read anywhere.
    pub fn plain(&self) -> Option<(&Path, u64)> {
        self.plain
            .as_ref()
            .filter(|_| self.packing == Packing::Plain)
            .map(|(path, length)| (path.as_path(), *length))
    }

    /// The next block, or `None` at the end.
    pub fn next_block(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.head_taken {
            self.head_taken = true;
            return Ok(Some(std::mem::take(&mut self.head)));
        }
        if self.ended {
            return Ok(None);
        }
        match self.blocks.recv() {
            Ok(Ok(block)) => {
                self.ended = block.is_empty();
                Ok(Some(block).filter(|block| !block.is_empty()))
            }
            Ok(Err(error)) => Err(unreadable(&self.name, self.packing, &error)),
            Err(_) => Err(self.stopped()),
        }
    }

    /// The thread is gone without having said that this is the end.
    fn stopped(&self) -> Error {
        let problem = "the thread that reads it has stopped";
        unreadable(&self.name, self.packing, &io::Error::new(io::ErrorKind::InvalidData, problem))
    }

    /// Everything up to the end, if it is not more than `most` bytes.
    pub fn read_all(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(block) = self.next_block()? {
            if bytes.len() + block.len() > most {
                let problem =
                    format!("is longer than {} MiB, expected less: it is read as a whole", most >> 20);
                return Err(Error::input(Place::file(&self.name), problem));
            }
            bytes.extend_from_slice(&block);
        }
        Ok(bytes)
    }
}

fn unreadable(name: &str, packing: Packing, error: &io::Error) -> Error {
    let (packed, kind) = (packing.name(), error.kind());
    let problem = match kind {
        _ if packing == Packing::Plain => format!("cannot be read: {error}"),
        io::ErrorKind::UnexpectedEof => format!("the {packed} stream ends early: the file is truncated"),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
            format!("the {packed} stream is damaged: {error}")
        }
        io::ErrorKind::OutOfMemory => {
            format!("the {packed} stream asks for too much memory; unpack it first, or pack it with less")
        }
        _ => format!("cannot be read: {error}"),
    };
    Error::input(Place::file(name), problem)
}

fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Sends blocks, an empty one at the end, until there is an error or the parser loses interest.
fn pump(mut reader: impl Read, blocks: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut block = vec![0; BLOCK];
        let message = read_full(&mut reader, &mut block).map(|count| {
            block.truncate(count);
            block
        });
        let last = message.as_ref().map_or(true, Vec::is_empty);
        if blocks.send(message).is_err() || last {
            return;
        }
    }
}

/// Tells the progress display how many bytes of the file have gone by, compressed ones where it is
/// compressed.
struct Counted {
    raw: Box<dyn Read + Send>,
    progress: Progress,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.progress.advance(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::unpack::tests::ALL;
    use super::*;

    fn whole(bytes: Vec<u8>) -> Result<Vec<u8>> {
        Source::from_bytes("x", bytes).and_then(|mut source| source.read_all(1 << 30))
    }

    fn error(bytes: Vec<u8>) -> String {
        whole(bytes).unwrap_err().to_string()
    }

    /// Text that does not compress to nothing.
    fn text() -> Vec<u8> {
        (0..200_000u32).flat_map(|i| i.wrapping_mul(2654435761).to_string().into_bytes()).collect()
    }

    #[test]
    fn compression_is_transparent_and_several_members_are_one_text() {
        let text = text();
        assert_eq!(whole(text.clone()).unwrap(), text);
        let (one, two) = text.split_at(500_000);
        for packing in ALL {
            let packed = [packing.pack(one), packing.pack(two)].concat();
            assert!(whole(packed).unwrap() == text, "{packing:?}");
        }
    }

    #[test]
    fn truncated_and_damaged_streams_are_named() {
        let text = text();
        for packing in ALL {
            let (packed, name) = (packing.pack(&text), packing.name());
            for length in [packed.len() / 2, packed.len() - 2] {
                let expected = format!("x: the {name} stream ends early: the file is truncated");
                assert_eq!(error(packed[..length].to_vec()), expected, "{length} bytes");
            }
            for at in [packed.len() / 2, packed.len() - 40, packed.len() / 3] {
                let mut damaged = packed.clone();
                damaged[at] ^= 0x55;
                let said = error(damaged);
                assert!(said.starts_with(&format!("x: the {name} stream is damaged")), "{at}: {said}");
            }
        }
    }

    #[test]
    fn bad_inputs_are_named() {
        assert_eq!(error(vec![]), "x: is empty; expected at least one row");
        assert_eq!(error(b"ab\0".to_vec()), "x: is not text: found a zero byte at offset 2");
        for packing in ALL {
            assert_eq!(error(packing.pack(b"")), "x: is empty; expected at least one row");
            assert!(error(packing.pack(b"PAR1\x15\x04")).contains("is a Parquet file"));
        }
        let long = Source::from_bytes("x", text()).unwrap().read_all(1 << 20).unwrap_err();
        assert_eq!(long.to_string(), "x: is longer than 1 MiB, expected less: it is read as a whole");
    }
}
