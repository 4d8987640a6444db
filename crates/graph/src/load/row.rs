//! Lines, fields and numbers: what every text reader is made of, with errors that say where.

use crate::error::{Error, Place, Result, listed, shortened};
use crate::load::intake::MOST_STEPS;
use crate::load::source::Source;
use crate::snapshot::Step;
use crate::time::TimeUnit;

/// What stands between two fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// Any run of spaces and tabs; leading and trailing ones do not count.
    Blank,
    /// Exactly one of this byte; fields may be empty and quoted with `"`.
    Byte(u8),
}

impl Separator {
    /// The separator a line uses: a comma, tab, semicolon or bar where there is one, else blanks.
    pub fn guess(line: &[u8]) -> Separator {
        let found = [b',', b'\t', b';', b'|'].into_iter().find(|byte| line.contains(byte));
        found.map_or(Separator::Blank, Separator::Byte)
    }

    /// As [`Separator::guess`], but tabs count as blanks: for columns of numbers, which files often align
    /// with both.
    pub fn guess_loosely(line: &[u8]) -> Separator {
        match Separator::guess(line) {
            Separator::Byte(b'\t') => Separator::Blank,
            separator => separator,
        }
    }

    fn describe(self) -> String {
        match self {
            Separator::Blank => "separated by blanks".into(),
            Separator::Byte(b'\t') => "separated by tabs".into(),
            Separator::Byte(byte) => format!("separated by '{}'", byte as char),
        }
    }
}

/// Lines of a source: line ends of either kind and a byte-order mark are taken off.
pub struct Lines<'a> {
    source: &'a mut Source,
    block: Vec<u8>,
    at: usize,
    joined: Vec<u8>,
    number: u64,
}

/// A line longer than this is not a row of anything: an unbounded one would fill the memory.
const LONGEST: usize = 64 << 20;

impl<'a> Lines<'a> {
    /// The lines from where the source stands.
    pub fn new(source: &'a mut Source) -> Self {
        Lines { source, block: Vec::new(), at: 0, joined: Vec::new(), number: 0 }
    }

    /// The next line, with its place.
    #[inline]
    pub fn line(&mut self) -> Result<Option<Line<'_>>> {
        if let Some(length) = memchr::memchr(b'\n', &self.block[self.at..]) {
            let start = self.at;
            self.at += length + 1;
            self.number += 1;
            return Ok(Some(Line::new(&self.block[start..start + length], self.number, self.source.name())));
        }
        self.next_joined()
    }

    /// A line that spans blocks, or the last one.
    fn next_joined(&mut self) -> Result<Option<Line<'_>>> {
        self.joined.clear();
        self.joined.extend_from_slice(&self.block[self.at..]);
        self.at = self.block.len();
        let mut ended = false;
        while !ended {
            let Some(block) = self.source.next_block()? else { break };
            self.block = block;
            let length = memchr::memchr(b'\n', &self.block);
            ended = length.is_some();
            self.joined.extend_from_slice(&self.block[..length.unwrap_or(self.block.len())]);
            self.at = length.map_or(self.block.len(), |length| length + 1);
            if self.joined.len() > LONGEST {
                let problem = format!("the line is longer than {} MiB; is this a text table?", LONGEST >> 20);
                return Err(Error::input(Place::line(self.source.name(), self.number + 1), problem));
            }
        }
        if self.joined.is_empty() && !ended {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(Line::new(&self.joined, self.number, self.source.name())))
    }

    /// A complaint about the whole input.
    pub fn error(&self, problem: impl Into<String>) -> Error {
        Error::input(Place::file(self.source.name()), problem)
    }
}

/// One line and where it stands.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// The text without its end.
    pub text: &'a [u8],
    /// Its number, from 1.
    pub number: u64,
    file: &'a str,
}

impl<'a> Line<'a> {
    #[inline]
    fn new(mut text: &'a [u8], number: u64, file: &'a str) -> Self {
        if let Some(rest) = text.strip_suffix(b"\r") {
            text = rest;
        }
        if number == 1
            && let Some(rest) = text.strip_prefix(b"\xef\xbb\xbf")
        {
            text = rest;
        }
        Line { text, number, file }
    }

    /// Whether there is nothing but blanks.
    pub fn is_blank(&self) -> bool {
        self.text.iter().all(u8::is_ascii_whitespace)
    }

    /// Whether the line is empty or a remark (`#` or `%` first).
    #[inline]
    pub fn is_remark(&self) -> bool {
        match self.text.first() {
            Some(b'0'..=b'9') => false,
            Some(b'#' | b'%') | None => true,
            _ => self.is_blank(),
        }
    }

    /// A complaint about this line.
    pub fn error(&self, problem: impl Into<String>) -> Error {
        Error::input(Place::line(self.file, self.number), problem)
    }

    /// The fields, split by `separator` into `fields`, which is reused from line to line.
    #[inline]
    pub fn split<'f>(self, separator: Separator, fields: &'f mut Fields) -> Row<'a, 'f> {
        fields.bounds.clear();
        match separator {
            Separator::Blank => split_blank(self.text, &mut fields.bounds),
            Separator::Byte(byte) if !self.text.contains(&b'"') => {
                let mut start = 0;
                for end in memchr::memchr_iter(byte, self.text) {
                    fields.bounds.push(trimmed(self.text, start, end));
                    start = end + 1;
                }
                fields.bounds.push(trimmed(self.text, start, self.text.len()));
            }
            Separator::Byte(byte) => split_quoted(self.text, byte, &mut fields.bounds),
        }
        Row { line: self, separator, bounds: &fields.bounds }
    }
}

/// The bounds of a field without the blanks around it.
#[inline]
fn trimmed(text: &[u8], mut start: usize, mut end: usize) -> (usize, usize) {
    while start < end && text[start].is_ascii_whitespace() {
        start += 1;
    }
    while start < end && text[end - 1].is_ascii_whitespace() {
        end -= 1;
    }
    (start, end)
}

fn split_blank(text: &[u8], bounds: &mut Vec<(usize, usize)>) {
    let mut at = 0;
    while at < text.len() {
        while at < text.len() && (text[at] == b' ' || text[at] == b'\t') {
            at += 1;
        }
        let start = at;
        while at < text.len() && text[at] != b' ' && text[at] != b'\t' {
            at += 1;
        }
        if at > start {
            bounds.push((start, at));
        }
    }
}

/// Quoted fields may hold the separator; the quotes are not part of the field. A doubled quote inside a field
/// stays doubled: fields are slices of the line.
fn split_quoted(text: &[u8], separator: u8, bounds: &mut Vec<(usize, usize)>) {
    let mut at = 0;
    loop {
        let quoted = text.get(at) == Some(&b'"');
        let mut end = at;
        let mut inside = false;
        while end < text.len() && (inside || text[end] != separator) {
            inside ^= quoted && text[end] == b'"';
            end += 1;
        }
        let closed = quoted && end >= at + 2 && text[end - 1] == b'"';
        let (start, stop) = if closed { (at + 1, end - 1) } else { (at, end) };
        bounds.push(trimmed(text, start, stop));
        if end >= text.len() {
            return;
        }
        at = end + 1;
    }
}

/// Where the fields of a line are; kept between lines to save the allocation.
#[derive(Default)]
pub struct Fields {
    bounds: Vec<(usize, usize)>,
}

/// A line cut into fields.
#[derive(Clone, Copy)]
pub struct Row<'a, 'f> {
    line: Line<'a>,
    separator: Separator,
    bounds: &'f [(usize, usize)],
}

impl<'a> Row<'a, '_> {
    /// How many fields there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// The field at `index`, without blanks around it; empty where the row is too short.
    #[inline]
    pub fn field(&self, index: usize) -> &'a [u8] {
        let &(start, end) = self.bounds.get(index).unwrap_or(&(0, 0));
        &self.line.text[start..end]
    }

    /// All fields.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (0..self.len()).map(|index| self.field(index))
    }

    /// All fields as text, for headers.
    pub fn texts(&self) -> Vec<String> {
        self.fields().map(|field| String::from_utf8_lossy(field).into_owned()).collect()
    }

    /// Fails unless the row has as many fields as `columns`, or at least that number.
    #[inline]
    pub fn has_columns<S: AsRef<str>>(&self, columns: &[S], exact: bool) -> Result<()> {
        if self.len() == columns.len() || !exact && self.len() > columns.len() {
            return Ok(());
        }
        Err(self.unexpected(columns, exact))
    }

    #[cold]
    fn unexpected<S: AsRef<str>>(&self, columns: &[S], exact: bool) -> Error {
        let least = if exact { "" } else { "at least " };
        self.line.error(format!(
            "found {} field(s) {}, expected {least}{}: {}",
            self.len(),
            self.separator.describe(),
            columns.len(),
            listed(columns)
        ))
    }

    /// A complaint about the whole row.
    pub fn problem(&self, problem: impl Into<String>) -> Error {
        self.line.error(problem)
    }

    /// A complaint about the field at `index`, the column called `name`.
    #[cold]
    pub fn error(&self, index: usize, name: &str, expected: &str) -> Error {
        let found = shortened(&String::from_utf8_lossy(self.field(index)));
        let place = Place::line(self.line.file, self.line.number).column(format!("{} ({name})", index + 1));
        let found = if found.is_empty() { "nothing".into() } else { format!("'{found}'") };
        Error::input(place, format!("found {found}, expected {expected}"))
    }

    /// A vertex id: a whole number from 0.
    #[inline]
    pub fn id(&self, index: usize, name: &str) -> Result<u64> {
        let text = self.field(index);
        digits(text).ok_or_else(|| {
            let whole = text.strip_prefix(b"-").unwrap_or(text);
            let number = !whole.is_empty() && whole.iter().all(u8::is_ascii_digit);
            let expected = match (number, whole.len() == text.len()) {
                (true, false) => "a vertex id, which cannot be negative (for names pass --ids text)",
                (true, true) => "a vertex id below 2^64 (for longer names pass --ids text)",
                _ => "a vertex id, a whole number from 0 (for names pass --ids text)",
            };
            self.error(index, name, expected)
        })
    }

    /// A finite number.
    #[inline]
    pub fn number(&self, index: usize, name: &str) -> Result<f64> {
        let text = self.field(index);
        if let Some(whole) = digits(text).filter(|&whole| whole < 1 << 53) {
            return Ok(whole as f64);
        }
        let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        parsed.filter(|number| number.is_finite()).ok_or_else(|| self.error(index, name, "a finite number"))
    }

    /// A finite number that fits the precision weights and features are kept in.
    #[inline]
    pub fn value(&self, index: usize, name: &str) -> Result<f32> {
        let value = self.number(index, name)? as f32;
        if value.is_finite() { Ok(value) } else { Err(self.error(index, name, "a number below 3.4e38")) }
    }

    /// The number of a step.
    #[inline]
    pub fn step(&self, index: usize, name: &str) -> Result<Step> {
        let step = digits(self.field(index)).and_then(|step| Step::try_from(step).ok());
        step.filter(|&step| step < MOST_STEPS).ok_or_else(|| {
            self.error(index, name, &format!("a step, a whole number from 0 and below {MOST_STEPS}"))
        })
    }

    /// A time in the given unit: a number, or a date where the unit says so.
    #[inline]
    pub fn time(&self, index: usize, name: &str, unit: TimeUnit) -> Result<f64> {
        if unit != TimeUnit::Date {
            return self.number(index, name);
        }
        let text = std::str::from_utf8(self.field(index)).ok();
        let seconds = text.and_then(crate::time::parse_date);
        seconds.ok_or_else(|| self.error(index, name, "a date such as 2012-03-01 or 2012-03-01T17:30:00Z"))
    }
}

/// A whole number without sign, or `None` where there is something else or too much of it.
#[inline]
pub fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value: u64 = 0;
    if text.len() < 20 {
        // Nineteen digits cannot overflow: the check per digit is only for what is not a digit.
        for &byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, separator: Separator) -> Vec<Vec<String>> {
        let mut source = Source::from_bytes("x", text.into()).unwrap();
        let (mut lines, mut fields, mut all) = (Lines::new(&mut source), Fields::default(), Vec::new());
        while let Some(line) = lines.line().unwrap() {
            let row = line.split(separator, &mut fields);
            all.push(row.fields().map(|f| String::from_utf8_lossy(f).into_owned()).collect());
        }
        all
    }

    #[test]
    fn line_ends_marks_and_blanks_are_taken_off() {
        let text = "\u{feff}1 2\r\n\t 3  4 \n\n5 6";
        assert_eq!(rows(text, Separator::Blank), [vec!["1", "2"], vec!["3", "4"], vec![], vec!["5", "6"]]);
    }

    #[test]
    fn quoted_fields_may_hold_the_separator() {
        let text = "a, b ,,\"c,d\"\n\"x\"\"y\",\"open,1";
        assert_eq!(
            rows(text, Separator::Byte(b',')),
            [vec!["a", "b", "", "c,d"], vec!["x\"\"y", "\"open,1"]]
        );
    }

    #[test]
    fn lines_may_span_blocks_and_the_last_needs_no_end() {
        let text: String = (0..200_000).map(|i| format!("{i} {}\n", i * 7)).collect();
        let all = rows(text.trim_end(), Separator::Blank);
        assert_eq!(all.len(), 200_000);
        assert!(all.iter().enumerate().all(|(i, row)| row == &[i.to_string(), (i * 7).to_string()]));
    }

    #[test]
    fn numbers_are_refused_with_their_place() {
        let mut source =
            Source::from_bytes("f.txt", "-3 99999999999999999999 x 1e400 nan 18446744073709551615".into())
                .unwrap();
        let (mut lines, mut fields) = (Lines::new(&mut source), Fields::default());
        let row = lines.line().unwrap().unwrap().split(Separator::Blank, &mut fields);
        let texts: Vec<String> = [
            row.id(0, "source").unwrap_err().to_string(),
            row.id(1, "source").unwrap_err().to_string(),
            row.id(2, "target").unwrap_err().to_string(),
            row.number(3, "time").unwrap_err().to_string(),
            row.number(4, "time").unwrap_err().to_string(),
        ]
        .into();
        assert!(
            texts[0].starts_with(
                "f.txt, line 1, column 1 (source): found '-3', expected a vertex id, which cannot"
            )
        );
        assert!(texts[1].contains("below 2^64"));
        assert!(texts[2].contains("a whole number from 0"));
        assert!(texts[3].ends_with("column 4 (time): found '1e400', expected a finite number"));
        assert!(texts[4].contains("found 'nan'"));
        assert_eq!(row.id(5, "source").unwrap(), u64::MAX);
    }
}
