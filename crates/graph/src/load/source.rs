//! Opening an input: a file or standard input, plain or gzipped, read ahead by a thread of its own.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Place, Result};
use crate::progress::Progress;

/// Bytes handed from the reading thread to the parser at a time: large enough to make the hand-over free,
/// small enough to stay in the second-level cache.
const BLOCK: usize = 256 << 10;

/// Blocks read ahead of the parser.
const AHEAD: usize = 4;

/// How gzip files begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// An opened input: decompressed bytes, block by block.
pub struct Source {
    name: String,
    blocks: Receiver<io::Result<Vec<u8>>>,
    head: Vec<u8>,
    head_taken: bool,
    gzip: bool,
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
        if bytes.len() <= BLOCK && !bytes.starts_with(&GZIP) {
            // The only block is at hand: there is nothing for a thread to do.
            return Self {
                name: name.into(),
                blocks: sync_channel(0).1,
                head: bytes,
                head_taken: false,
                gzip: false,
                ended: true,
                plain: None,
            }
            .checked();
        }
        Self::new(name.into(), Box::new(io::Cursor::new(bytes)), &Progress::silent())
    }

    fn new(name: String, raw: Box<dyn Read + Send>, progress: &Progress) -> Result<Source> {
        let mut counted = Counted { raw, progress: progress.clone() };
        let mut magic = [0; 2];
        let got = read_full(&mut counted, &mut magic).map_err(|error| unreadable(&name, false, &error))?;
        let gzip = got == 2 && magic == GZIP;
        let whole = io::Cursor::new(magic).take(got as u64).chain(counted);
        let (sender, blocks) = sync_channel(AHEAD);
        std::thread::Builder::new()
            .name("read".into())
            .spawn(
                move || if gzip { pump(MultiGzDecoder::new(whole), &sender) } else { pump(whole, &sender) },
            )
            .map_err(Error::resource("cannot start a thread to read", Path::new(&name)))?;
        let mut source =
            Source { name, blocks, head: Vec::new(), head_taken: true, gzip, ended: false, plain: None };
        source.head = source.next_block()?.unwrap_or_default();
        source.head_taken = false;
        source.checked()
    }

    /// Refuses an input whose beginning is not that of a text.
    fn checked(self) -> Result<Source> {
        if self.head.is_empty() {
            return Err(Error::input(Place::file(&self.name), "is empty; expected at least one row"));
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
                Ok(Ok(block)) => self.head.extend_from_slice(&block),
                Ok(Err(error)) => return Err(unreadable(&self.name, self.gzip, &error)),
                Err(_) => self.ended = true,
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
        self.plain.as_ref().filter(|_| !self.gzip).map(|(path, length)| (path.as_path(), *length))
    }

    /// The next block, or `None` at the end.
    pub fn next_block(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.head_taken {
            self.head_taken = true;
            return Ok(Some(std::mem::take(&mut self.head)));
        }
        match self.blocks.recv() {
            Ok(Ok(block)) => Ok(Some(block)),
            Ok(Err(error)) => Err(unreadable(&self.name, self.gzip, &error)),
            Err(_) => Ok(None),
        }
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

fn unreadable(name: &str, gzip: bool, error: &io::Error) -> Error {
    let problem = match error.kind() {
        io::ErrorKind::UnexpectedEof if gzip => "the gzip stream ends early: the file is truncated".into(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if gzip => {
            format!("the gzip stream is damaged: {error}")
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

/// Sends blocks until the end, an error, or the parser's loss of interest.
fn pump(mut reader: impl Read, blocks: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut block = vec![0; BLOCK];
        let (message, last) = match read_full(&mut reader, &mut block) {
            Ok(0) => return,
            Ok(count) => {
                block.truncate(count);
                (Ok(block), count < BLOCK)
            }
            Err(error) => (Err(error), true),
        };
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
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn zipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_transparent_and_several_members_are_one_text() {
        let text: Vec<u8> = (0..900_000u32).map(|i| b'a' + (i % 23) as u8).collect();
        assert_eq!(Source::from_bytes("x", text.clone()).unwrap().read_all(1 << 30).unwrap(), text);
        let two = [zipped(&text[..500_000]), zipped(&text[500_000..])].concat();
        assert_eq!(Source::from_bytes("x", two).unwrap().read_all(1 << 30).unwrap(), text);
    }

    #[test]
    fn bad_inputs_are_named() {
        let text: Vec<u8> =
            (0..900_000u32).flat_map(|i| i.wrapping_mul(2654435761).to_string().into_bytes()).collect();
        let whole = zipped(&text);
        let error = |bytes: Vec<u8>| {
            let read = Source::from_bytes("x", bytes).and_then(|mut source| source.read_all(1 << 30));
            read.unwrap_err().to_string()
        };
        assert_eq!(error(vec![]), "x: is empty; expected at least one row");
        assert_eq!(error(b"ab\0".to_vec()), "x: is not text: found a zero byte at offset 2");
        for length in [10, whole.len() / 2, whole.len() - 4] {
            assert_eq!(
                error(whole[..length].to_vec()),
                "x: the gzip stream ends early: the file is truncated"
            );
        }
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 0x55;
        assert!(error(damaged).contains("gzip stream is damaged"));
        let long = Source::from_bytes("x", whole).unwrap().read_all(1 << 20).unwrap_err();
        assert_eq!(long.to_string(), "x: is longer than 1 MiB, expected less: it is read as a whole");
    }
}
