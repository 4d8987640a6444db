//! Random choices of a case, one after the other.

use kymo::graph::random::Random;

/// What all cases follow from.
const SEED: u64 = 20_261_116;

/// Choices that follow from the number of a case.
pub struct Draw {
    random: Random,
    drawn: u64,
    /// The number of the case.
    pub case: u64,
}

impl Draw {
    /// The choices of a case.
    pub fn of(case: u64) -> Draw {
        Draw { random: Random::new(SEED).stream(case), drawn: 0, case }
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.drawn += 1;
        self.random.word(self.drawn)
    }

    /// A number in `0..bound`; 0 where the bound is.
    pub fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        self.random.below(bound, self.drawn)
    }

    /// A number from 0 up to 1.
    pub fn share(&mut self) -> f64 {
        self.drawn += 1;
        self.random.share(self.drawn)
    }

    /// Whether something with one chance in `of` happens.
    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Changes bytes as an unsteady hand would: overwritten, cut out, doubled, or replaced by an extreme.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>, words: &[&str]) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + 1 + self.below(12)).min(bytes.len());
            let piece = match self.below(7) {
                0 => vec![self.word() as u8],
                1 => Vec::new(),
                2 => bytes[at..end].repeat(1 + self.below(50)),
                3 => bytes[..self.below(bytes.len() + 1)].to_vec(),
                4 => b"\n".to_vec(),
                _ => self.pick(words).as_bytes().to_vec(),
            };
            bytes.splice(at..end, piece);
        }
    }
}

/// Words that readers, settings and options may stumble over.
pub const WORDS: &[&str] = &[
    "",
    "0",
    "-1",
    "1",
    "-0",
    "+7",
    "007",
    "1e18",
    "1e308",
    "1e309",
    "-1e400",
    "1e-400",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "0x10",
    "1_000",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "9223372036854775807",
    "4294967296",
    "2147483648",
    "65536",
    "1000000000",
    "3.5",
    ".5",
    "5.",
    "1,5",
    "true",
    "false",
    "null",
    "[]",
    "[1,2]",
    "{}",
    "{\"a\":1}",
    "\"",
    "''",
    "\"\"",
    "a\"b",
    "\\",
    "\t",
    " ",
    ",",
    ";",
    "|",
    "\r\n",
    "\n\n",
    "#",
    "%",
    "\u{feff}",
    "\u{0}",
    "ä",
    "日本",
    "🦀",
    "\u{202e}",
    "e\u{301}",
    "2022-02-30",
    "2022-04-01",
    "2022-04-01T25:00:00Z",
    "9999-12-31",
    "0000-00-00",
    "-4000-01-01",
    "1969-12-31T23:59:60Z",
    "all",
    "auto",
    "none",
    "forever",
    "-",
    "--",
    "..",
    ".",
    "%s%n",
    "7d",
    "0s",
    "-1d",
    "1e300d",
    "month",
    "2GiB",
    "0B",
    "1e30GiB",
    "1:2",
    "0:0",
    "source",
    "target",
    "time",
    "step",
    "weight",
];
