//! Damaged inputs never make a reader panic, hang or fill the memory: thousands of mutations of every
//! example.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{columns, good};
use kymo_graph::Result;
use kymo_graph::load::row::Style;
use kymo_graph::load::side::{FeatureLayout, read_features, read_labels, read_signal};
use kymo_graph::load::{self, Hints, Intake, Source};
use kymo_graph::time::DateOrder;

/// Mutations of every example.
const TIMES: u64 = 10_000;

/// A small generator: the same mutations in every run.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Pieces that mean something to one reader or another.
const PIECES: &[&str] = &[
    "\n",
    "\r\n",
    "\t",
    " ",
    ",",
    ";",
    "|",
    "\"",
    "-",
    "-1",
    ".",
    "e",
    "9999999999",
    "1e999",
    "nan",
    "inf",
    ":",
    "0",
    "%",
    "#",
    "{",
    "}",
    "[",
    "]",
    "[]",
    "null",
    "\u{feff}",
    "2012-03-01",
    "4294967295",
    "18446744073709551615",
    "9e99",
    "2e38",
    "3,5",
    "01/02/2020 5:30 PM",
    "\"\"",
    "NA",
];

fn damage(text: &[u8], random: &mut Xorshift) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=random.below(4) {
        let (at, length) = (random.below(bytes.len() + 1), bytes.len());
        match random.below(7) {
            0 if at < length => bytes[at] ^= 1 << random.below(8),
            1 => bytes.insert(at, random.below(256) as u8),
            2 if at < length => drop(bytes.remove(at)),
            3 => {
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            4 => {
                let end = (at + random.below(12)).min(length);
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                let lines: Vec<Vec<u8>> =
                    bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
                let line = lines.get(random.below(lines.len())).cloned().unwrap_or_default();
                bytes.splice(at..at, line);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Calls `read` with mutations of `text`, and with the input at hand when it panics.
fn try_all(name: &str, text: &str, read: impl Fn(Vec<u8>) -> Result<()>) {
    let (mut random, mut accepted) = (Xorshift(0x9e37_79b9_7f4a_7c15), 0);
    for _ in 0..TIMES {
        let bytes = damage(text.as_bytes(), &mut random);
        let result = catch_unwind(AssertUnwindSafe(|| read(bytes.clone())));
        match result {
            Ok(Ok(())) => accepted += 1,
            Ok(Err(error)) => assert!(!error.to_string().is_empty()),
            Err(_) => panic!("{name} panicked on {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
    assert!(accepted > 0, "{name}: no mutation was mild enough to be read");
}

#[test]
fn readers_survive_damaged_examples() {
    let folder = std::env::temp_dir();
    let style = Style { decimal_comma: true, dates: Some(DateOrder::Dmy) };
    let written = Hints { style, ..Hints::default() };
    let others = [
        ("pygt", good::BY_DAY, Hints::default()),
        ("pygt", good::NODES, Hints::default()),
        ("pygt", good::NUMBERED, Hints::default()),
        ("csv", "step;op;src;dst;w\n0;1;\"5\";6;2\n3;-1;6;5;1\n", Hints::default()),
        (
            "csv",
            "2012-03-01 7 8 3B 4A\n2012-03-02 8 9 4A 3B\n",
            columns("date,u,v,source_label,target_label"),
        ),
        ("konect", "% sym\n1,2\n3,4\n", Hints::default()),
        ("csv", "u;v;date;w\n\"5\";6;31.12.2012 17:30;2,5\n6;7;1/2/2013;\"3\"\n", written),
    ];
    let examples = load::ALL.iter().map(|format| (format.name(), format.example(), Hints::default()));
    for (name, text, hints) in examples.chain(others) {
        let format = load::find(name).unwrap();
        try_all(name, text, |bytes| {
            let mut source = Source::from_bytes("f", bytes.clone())?;
            load::detect(&mut source, &Hints::default()).map(drop).ok();
            load::read_bytes(format, &hints, "f", bytes, &folder).map(drop)
        });
    }
}

#[test]
fn readers_of_side_files_survive_damaged_examples() {
    let intake = || -> Result<Intake> {
        let static_edges = load::find("static")?;
        load::read_bytes(static_edges, &Hints::default(), "g", "0 1\n1 2\n".into(), &std::env::temp_dir())
    };
    try_all("labels", "node class split\n0 a train\n1 b -\n2 -1 test\n", |bytes| {
        read_labels(&mut Source::from_bytes("f", bytes)?, &mut intake()?).map(drop)
    });
    for text in ["0 3:0.5 7\n1\n\n2 4\n", "id,f1,f2\n0,0.5,1\n2,3,4\n", "0.5 1\n2 3\n4 1e-3\n"] {
        try_all("features", text, |bytes| {
            read_features(&mut Source::from_bytes("f", bytes)?, FeatureLayout::Auto, &mut intake()?).map(drop)
        });
    }
    try_all("signal", "0,1,2\n0.5,1,2\n3,4,5\n", |bytes| {
        read_signal(&mut Source::from_bytes("f", bytes)?, &mut intake()?).map(drop)
    });
}

#[test]
fn damaged_compressed_files_are_errors_or_other_texts() {
    let zstd: &[u8] = b"\
        (\xb5/\xfd\x00X1\x00\x001 2 3\x0a";
    let xz: &[u8] = b"\
        \xfd7zXZ\x00\x00\x04\xe6\xd6\xb4F\x02\x00!\x01\x16\x00\x00\x00t/\xe5\xa3\x01\x00\x051 2 \
        3\x0a\x00\x00\x00\xe3M:]\x05\xc7\x88F\x00\x01\x1e\x06\xc1/\xa4\x1d\x1f\xb6\xf3}\x01\x00\
        \x00\x00\x00\x04YZ";
    let bzip2: &[u8] = b"\
        BZh91AY&SY\xf4\xaa\xfb\xef\x00\x00\x01\xd8\x00\x00\x10@\x008\x00 \x00!\x83A\x9a\x03\x18\
        \x5c]\xc9\x14\xe1BC\xd2\xab\xef\xbc";
    for (name, packed) in [("zstd", zstd), ("xz", xz), ("bzip2", bzip2)] {
        let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
        let read = |bytes| Source::from_bytes("f", bytes).and_then(|mut source| source.read_all(1 << 20));
        assert_eq!(read(packed.to_vec()).unwrap(), b"1 2 3\n", "{name}");
        for _ in 0..TIMES / 10 {
            let bytes = damage(packed, &mut random);
            let result = read(bytes.clone());
            let panicked = result.is_err_and(|error| error.to_string().contains("has stopped"));
            assert!(!panicked, "{name} panicked on {bytes:?}");
        }
    }
}
