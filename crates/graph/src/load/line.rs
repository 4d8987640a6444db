//! Lines and the fields in them. A quoted field may hold separators, quotes (doubled) and line ends.

use crate::error::{Error, Place, Result};
use crate::load::row::Row;
use crate::load::separator::Separator;
use crate::load::source::Source;
use crate::load::value::Style;

/// Lines of a source: line ends of either kind and a byte-order mark are taken off.
pub struct Lines<'a> {
    source: &'a mut Source,
    block: Vec<u8>,
    at: usize,
    /// The text of the line that spans blocks or is made of several; else it is in the block.
    joined: Vec<u8>,
    is_joined: bool,
    /// Where in either of them the line stands.
    span: (usize, usize),
    number: u64,
}

/// A line longer than this is not a row of anything: an unbounded one would fill the memory.
const LONGEST: usize = 64 << 20;

/// A quoted field longer than this has lost its closing quote.
const LONGEST_QUOTED: usize = 1 << 20;

const MARK: &[u8] = b"\xef\xbb\xbf";

impl<'a> Lines<'a> {
    /// The lines from where the source stands.
    pub fn new(source: &'a mut Source) -> Self {
        let (block, joined) = (Vec::new(), Vec::new());
        Lines { source, block, at: 0, joined, is_joined: false, span: (0, 0), number: 0 }
    }

    /// The next line, with its place.
    #[inline]
    pub fn line(&mut self) -> Result<Option<Line<'_>>> {
        let number = self.number + 1;
        Ok(if self.advance()? {
            Some(Line::new(self.text(), number, self.source.name(), true))
        } else {
            None
        })
    }

    /// The next line with the lines that its quoted fields reach into, and what `separator` says of it.
    #[inline]
    pub fn record(
        &mut self,
        separator: impl FnOnce(&[u8]) -> Separator,
    ) -> Result<Option<(Line<'_>, Separator)>> {
        let number = self.number + 1;
        if !self.advance()? {
            return Ok(None);
        }
        let (separator, mut quotes) = (separator(self.text()), true);
        if let Separator::Byte(byte) = separator {
            quotes = memchr::memchr(b'"', self.text()).is_some();
            if quotes {
                self.join(byte)?;
            }
        }
        Ok(Some((Line::new(self.text(), number, self.source.name(), quotes), separator)))
    }

    #[inline]
    fn text(&self) -> &[u8] {
        let (start, end) = self.span;
        if self.is_joined { &self.joined[start..end] } else { &self.block[start..end] }
    }

    /// Goes to the next line; whether there is one.
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        if let Some(length) = memchr::memchr(b'\n', &self.block[self.at..]) {
            self.span = (self.at, self.at + length);
            self.at += length + 1;
            self.is_joined = false;
            self.number += 1;
            return Ok(true);
        }
        self.advance_joined()
    }

    /// Goes to a line that spans blocks, as the first one seems to, or to the last one.
    fn advance_joined(&mut self) -> Result<bool> {
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
        let mark = if self.number == 0 && self.joined.starts_with(MARK) { MARK.len() } else { 0 };
        (self.span, self.is_joined) = ((mark, self.joined.len()), true);
        let found = !self.joined.is_empty() || ended;
        self.number += u64::from(found);
        Ok(found)
    }

    /// Adds the lines that the last, quoted field of this one reaches into. Remarks may hold any quotes.
    #[cold]
    fn join(&mut self, separator: u8) -> Result<()> {
        let remark = matches!(self.text().first(), Some(b'#' | b'%'));
        if remark || quoting(self.text(), separator, false) != Quoting::Open {
            return Ok(());
        }
        let place = Place::line(self.source.name(), self.number);
        let mut whole = self.text().to_vec();
        loop {
            let found = self.advance()?;
            whole.push(b'\n');
            whole.extend_from_slice(if found { self.text() } else { b"" });
            let state = quoting(if found { self.text() } else { b"" }, separator, true);
            if !found || whole.len() > LONGEST_QUOTED || state == Quoting::Torn {
                let problem = "a quoted field begins on this line, and no quote before a separator or a line \
                               end closes it; close it, or take off the quote it begins with";
                return Err(Error::input(place, problem));
            }
            if state == Quoting::Closed {
                break;
            }
        }
        (self.span, self.is_joined, self.joined) = ((0, whole.len()), true, whole);
        Ok(())
    }

    /// A complaint about the whole input.
    pub fn error(&self, problem: impl Into<String>) -> Error {
        Error::input(Place::file(self.source.name()), problem)
    }
}

/// Whether a quoted field is open at the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    Open,
    Closed,
    /// The field that was open before closes in front of something other than a separator.
    Torn,
}

/// A field is quoted if it begins with a quote; `inside`: one is open already where the text begins.
fn quoting(text: &[u8], separator: u8, mut inside: bool) -> Quoting {
    let (mut quoted, mut begins, mut before) = (inside, !inside, inside);
    for (at, &byte) in text.iter().enumerate() {
        if byte == separator && !inside {
            (quoted, begins, before) = (false, true, false);
            continue;
        }
        quoted |= begins && byte == b'"';
        begins = false;
        if quoted && byte == b'"' {
            inside = !inside;
            let next = text.get(at + 1).copied().unwrap_or(separator);
            if before && !inside && next != separator && next != b'"' && next != b'\r' {
                return Quoting::Torn;
            }
        }
    }
    if inside { Quoting::Open } else { Quoting::Closed }
}

/// One line and where it stands.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// The text without its end.
    pub text: &'a [u8],
    /// Its number, from 1.
    pub number: u64,
    pub(super) file: &'a str,
    may_quote: bool,
}

impl<'a> Line<'a> {
    #[inline]
    fn new(text: &'a [u8], number: u64, file: &'a str, may_quote: bool) -> Self {
        Line { text: text.strip_suffix(b"\r").unwrap_or(text), number, file, may_quote }
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
    pub fn split<'f>(self, separator: Separator, fields: &'f mut Fields) -> Row<'f, 'f>
    where
        'a: 'f,
    {
        fields.bounds.clear();
        let mut text = self.text;
        match separator {
            Separator::Blank => split_blank(self.text, &mut fields.bounds),
            Separator::Byte(byte) if !self.may_quote || !self.text.contains(&b'"') => {
                let mut start = 0;
                for end in memchr::memchr_iter(byte, self.text) {
                    fields.bounds.push(trimmed(self.text, start, end));
                    start = end + 1;
                }
                fields.bounds.push(trimmed(self.text, start, self.text.len()));
            }
            Separator::Byte(byte) => {
                split_quoted(self.text, byte, fields);
                text = &fields.text;
            }
        }
        Row { line: self, text, separator, bounds: &fields.bounds, style: fields.style }
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

/// Copies the fields into `fields.text`: without the quotes around them, and with one quote for two inside. A
/// quoted field keeps its opening quote in front of its bounds, which is how it is told from a plain one.
fn split_quoted(text: &[u8], separator: u8, fields: &mut Fields) {
    fields.text.clear();
    let mut at = 0;
    loop {
        let quoted = text.get(at) == Some(&b'"');
        let mut end = at;
        let mut inside = false;
        while end < text.len() && (inside || text[end] != separator) {
            inside ^= quoted && text[end] == b'"';
            end += 1;
        }
        let start = fields.text.len();
        if quoted && end >= at + 2 && text[end - 1] == b'"' && !inside {
            fields.text.push(b'"');
            let mut rest = &text[at + 1..end - 1];
            while let Some(quote) = memchr::memmem::find(rest, b"\"\"") {
                fields.text.extend_from_slice(&rest[..=quote]);
                rest = &rest[quote + 2..];
            }
            fields.text.extend_from_slice(rest);
            fields.bounds.push(trimmed(&fields.text, start + 1, fields.text.len()));
        } else {
            fields.text.extend_from_slice(&text[at..end]);
            fields.bounds.push(trimmed(&fields.text, start, fields.text.len()));
        }
        if end >= text.len() {
            return;
        }
        at = end + 1;
    }
}

/// Where the fields of a line are, and how numbers are written in them; kept between lines to save the
/// allocation.
#[derive(Default)]
pub struct Fields {
    bounds: Vec<(usize, usize)>,
    text: Vec<u8>,
    style: Style,
}

impl Fields {
    /// Fields whose numbers and dates are written like this.
    pub fn new(style: Style) -> Self {
        Fields { style, ..Fields::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, separator: Separator) -> Vec<Vec<String>> {
        all(text, separator).unwrap()
    }

    fn all(text: &str, separator: Separator) -> Result<Vec<Vec<String>>> {
        let mut source = Source::from_bytes("x", text.into())?;
        let (mut lines, mut fields, mut all) = (Lines::new(&mut source), Fields::default(), Vec::new());
        while let Some((line, separator)) = lines.record(|_| separator)? {
            all.push(line.split(separator, &mut fields).texts());
        }
        Ok(all)
    }

    #[test]
    fn line_ends_marks_and_blanks_are_taken_off() {
        let text = "\u{feff}1 2\r\n\t 3  4 \n\n5 6";
        assert_eq!(rows(text, Separator::Blank), [vec!["1", "2"], vec!["3", "4"], vec![], vec!["5", "6"]]);
    }

    #[test]
    fn quoted_fields_may_hold_separators_quotes_and_line_ends() {
        let text = "\u{feff}\"a\nb\", c ,,\"d,e\"\r\n\"x\"\"y\"\"\",5\" pipe\n\
                    \"\",\"\"\"\"\n\"1\r\n2\n\n3\",4\r\n5,6";
        assert_eq!(
            rows(text, Separator::Byte(b',')),
            [
                vec!["a\nb", "c", "", "d,e"],
                vec!["x\"y\"", "5\" pipe"],
                vec!["", "\""],
                vec!["1\r\n2\n\n3", "4"],
                vec!["5", "6"]
            ]
        );
        // What is not closed as a whole stays as it is.
        assert_eq!(
            rows("\"Weird Al\" Y,1\n2,3", Separator::Byte(b',')),
            [["\"Weird Al\" Y", "1"], ["2", "3"]]
        );
    }

    #[test]
    fn numbers_of_lines_count_those_inside_quotes() {
        let mut source = Source::from_bytes("x", "\"a\nb\",1\n2,3\n".into()).unwrap();
        let mut lines = Lines::new(&mut source);
        let comma = |_: &[u8]| Separator::Byte(b',');
        assert_eq!(lines.record(comma).unwrap().unwrap().0.number, 1);
        assert_eq!(lines.record(comma).unwrap().unwrap().0.number, 3);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_an_error_and_swallows_no_rows() {
        let long = format!("1,2\n3,\"{}\"\n", "x\n".repeat(1 << 20));
        for text in ["1,2\n3,\"4\n5,6\n", "1,2\n3,\"Heroes\n5,\"Helden\n", long.as_str()] {
            let error = all(text, Separator::Byte(b',')).unwrap_err().to_string();
            assert!(error.starts_with("x, line 2: a quoted field begins on this line"), "{error}");
        }
        // Where fields are not quoted, and in remarks, a quote is a character.
        assert_eq!(rows("1 \"2\n3 4\n", Separator::Blank), [["1", "\"2"], ["3", "4"]]);
        assert_eq!(rows("# a,\"b\n3,4\n", Separator::Byte(b','))[1], ["3", "4"]);
    }

    #[test]
    fn lines_may_span_blocks_and_the_last_needs_no_end() {
        for (separator, between, quote) in [(Separator::Blank, " ", ""), (Separator::Byte(b','), ",", "\"")] {
            let text: String =
                (0..100_000).map(|i| format!("{quote}{i}{quote}{between}{}\n", i * 7)).collect();
            let all = rows(text.trim_end(), separator);
            assert_eq!(all.len(), 100_000);
            assert!(all.iter().enumerate().all(|(i, row)| row == &[i.to_string(), (i * 7).to_string()]));
        }
    }
}
