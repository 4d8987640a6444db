//! Compressed inputs, recognised by their first bytes: each is read as the text inside it.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

/// The most memory a stream may ask for to look back into: what `zstd --long` and `xz -9e` need, doubled.
const MOST_WINDOW: u64 = 256 << 20;

impl Packing {
    /// How an input that begins with these bytes is compressed.
    pub fn of(head: &[u8]) -> Packing {
        match head {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            // A frame to be skipped, which some tools put first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => Packing::Bzip2,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, ..] => Packing::Bzip2,
            _ => Packing::Plain,
        }
    }

    /// Its name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Plain => "",
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
            Packing::Xz => "xz",
            Packing::Bzip2 => "bzip2",
        }
    }

    /// The text inside: of several members, streams or frames all of them.
    pub fn unpack(self, packed: impl Read + Send + 'static) -> Box<dyn Read + Send> {
        match self {
            Packing::Plain => Box::new(packed),
            Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Packing::Zstd => Box::new(Frames::new(packed)),
            Packing::Xz => {
                Box::new(XzReader::new_mem_limit(BufReader::new(packed), true, (MOST_WINDOW >> 10) as u32))
            }
            Packing::Bzip2 => Box::new(MultiBzDecoder::new(BufReader::new(packed))),
        }
    }
}

/// The frames of a zstd stream one after the other, with their checksums compared.
struct Frames<R> {
    packed: BufReader<R>,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: Read> Frames<R> {
    fn new(packed: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MOST_WINDOW);
        Frames { packed: BufReader::new(packed), decoder, inside: false }
    }

    /// Goes to the next frame, past those to be skipped; whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.packed).take(length.into()), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(failure(error)),
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside && !self.begin()? {
                return Ok(0);
            }
            self.inside = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.packed, one).map_err(failure)?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            let expected = self.decoder.get_checksum_from_data();
            if expected.is_some() && expected != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum does not fit"));
            }
            self.inside = false;
        }
    }
}

/// A stream that ends too soon is told from a damaged one by what the decoder says lies at the bottom.
fn failure(error: FrameDecoderError) -> io::Error {
    if let FrameDecoderError::WindowSizeTooBig { .. } = error {
        return io::Error::new(io::ErrorKind::OutOfMemory, error.to_string());
    }
    let mut below: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(cause) = below {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return io::Error::new(cause.kind(), cause.to_string());
        }
        below = cause.source();
    }
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::Write;

    pub const ALL: [Packing; 4] = [Packing::Gzip, Packing::Zstd, Packing::Xz, Packing::Bzip2];

    impl Packing {
        /// The text compressed.
        pub fn pack(self, text: &[u8]) -> Vec<u8> {
            match self {
                Packing::Plain => text.to_vec(),
                Packing::Gzip => {
                    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                    packer.write_all(text).unwrap();
                    packer.finish().unwrap()
                }
                Packing::Zstd => {
                    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
                }
                Packing::Xz => {
                    let options = lzma_rust2::XzOptions::with_preset(1);
                    let mut packer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
                    packer.write_all(text).unwrap();
                    packer.finish().unwrap()
                }
                Packing::Bzip2 => {
                    let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                    packer.write_all(text).unwrap();
                    packer.finish().unwrap()
                }
            }
        }
    }

    fn unpacked(packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        Packing::of(&packed).unpack(io::Cursor::new(packed)).read_to_end(&mut text).map(|_| text)
    }

    #[test]
    fn frames_to_be_skipped_are_and_an_empty_stream_is_an_empty_text() {
        let skip = [&[0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"notes"].concat();
        let one = Packing::Zstd.pack(b"1 2 3\n");
        assert_eq!(unpacked([&skip[..], &one, &skip, &one].concat()).unwrap(), b"1 2 3\n1 2 3\n");
        assert_eq!(unpacked(skip[..10].to_vec()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for packing in ALL {
            assert_eq!(unpacked(packing.pack(b"")).unwrap(), b"", "{packing:?}");
        }
    }

    #[test]
    fn a_window_that_would_fill_the_memory_is_refused() {
        // A frame header that asks for a window of 2^40 bytes.
        let zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 30 << 3, 1, 0, 0];
        assert_eq!(unpacked(zstd).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        // The size of the dictionary is the last property of the block header, which a checksum guards.
        let mut xz = Packing::Xz.pack(b"1 2 3\n");
        let header = 12..12 + (usize::from(xz[12]) + 1) * 4;
        let property = header.start + 4;
        assert_eq!(xz[property - 2..property], [0x21, 1], "the filter is LZMA2 with one property");
        xz[property] = 40;
        let sum = crc32fast::hash(&xz[header.start..header.end - 4]);
        xz[header.end - 4..header.end].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(unpacked(xz).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }
}
