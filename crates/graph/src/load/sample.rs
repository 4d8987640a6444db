//! A look at a table before it is read: pieces of it from beginning to end, its separator, its header, and
//! facts about every column.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::column::Column;
use super::roles::{Role, roles};
use super::row::{Fields, Lines, Separator};
use super::value::{Style, is_missing};
use super::{Hints, Source, is_number};
use crate::error::Result;

/// Bytes of an input that are looked at where it can be read only once, and of each piece elsewhere.
const AHEAD: usize = 4 << 20;
const PIECE: usize = 32 << 10;

/// Pieces that are looked at.
const PIECES: usize = 24;

/// More columns are not told apart: no table of edges has them.
const MOST_COLUMNS: usize = 64;

/// What a look at a table found.
pub struct Sample {
    /// What is between fields.
    pub separator: Separator,
    /// The names of the columns, where the table has them, in its first row or in a remark above it.
    pub header: Option<Vec<String>>,
    /// Whether the names are in the first row, which is then no data.
    pub headed: bool,
    /// The columns.
    pub columns: Vec<Column>,
    /// How many rows were looked at.
    pub rows: usize,
}

impl Sample {
    /// Looks at a table; `None` where the input is none: its rows differ in length, or there are none.
    pub fn of(source: &mut Source, hints: &Hints) -> Result<Option<Sample>> {
        let pieces = pieces(source)?;
        let Some(separator) = hints.separator().or_else(|| separator(&pieces, hints.style)) else {
            return Ok(None);
        };
        let mut rows = Vec::new();
        let mut remark = None;
        for (index, piece) in pieces.into_iter().enumerate() {
            let part = split(piece, separator, hints.style, (index == 0).then_some(&mut remark))?;
            if index == 0 && part.is_empty() {
                return Ok(None);
            }
            rows.push(part);
        }
        let width = rows.first().and_then(|part| part.first()).map_or(0, Vec::len);
        if !(2..=MOST_COLUMNS).contains(&width) {
            return Ok(None);
        }
        // What does not fit is left to the reader, which says where it is.
        rows.iter_mut().for_each(|part| part.retain(|row| row.len() == width));
        let first = rows[0].remove(0);
        let mut columns: Vec<Column> = (0..width)
            .map(|index| Column::of(rows.iter().map(|part| cells(part, index)), hints.style))
            .collect();
        let headed = is_header(&first, &columns);
        if !headed {
            rows[0].insert(0, first.clone());
            columns = (0..width)
                .map(|index| Column::of(rows.iter().map(|part| cells(part, index)), hints.style))
                .collect();
        }
        let named = |names: &Vec<String>| names.len() == width && ends(names);
        let header = if headed { Some(first) } else { remark.filter(named) };
        Ok(Some(Sample { separator, header, headed, columns, rows: rows.iter().map(Vec::len).sum() }))
    }
}

fn cells(part: &[Vec<String>], index: usize) -> impl Iterator<Item = &str> {
    part.iter().map(move |row| row.get(index).map_or("", String::as_str))
}

/// Whether names tell both ends of an edge.
fn ends(names: &[String]) -> bool {
    let found = roles(names);
    [Role::Source, Role::Target].iter().all(|role| found.iter().flatten().any(|(other, _)| other == role))
}

/// Whether the first row names the columns: some field of it is a word where all others are numbers or dates,
/// or its words are names of columns that we know.
fn is_header(first: &[String], rest: &[Column]) -> bool {
    let word = |text: &str| {
        text.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && !is_missing(text.as_bytes())
            && !is_number(text)
    };
    let stands_out =
        first.iter().zip(rest).any(|(text, column)| column.rows > 0 && column.is_plain() && word(text));
    let all_words = first.iter().all(|text| text.is_empty() || word(text.trim_matches('"')));
    all_words && (stands_out || ends(first))
}

/// Pieces of an input in its order: all of a short one, or its beginning, and where it is a plain file
/// stretches from everywhere.
fn pieces(source: &mut Source) -> Result<Vec<Vec<u8>>> {
    source.look_ahead(AHEAD)?;
    let head = source.head();
    let whole_lines = |piece: &[u8], from_start: bool, to_end: bool| {
        let begin =
            if from_start { 0 } else { memchr::memchr(b'\n', piece).map_or(piece.len(), |at| at + 1) };
        let end = if to_end { piece.len() } else { memchr::memrchr(b'\n', piece).map_or(begin, |at| at + 1) };
        piece[begin..end.max(begin)].to_vec()
    };
    let ended = source.is_all_at_hand();
    if head.len() <= PIECE * PIECES {
        return Ok(vec![whole_lines(head, true, ended)]);
    }
    if let Some((path, length)) = source.plain().filter(|_| !ended)
        && let Ok(mut file) = File::open(path)
    {
        let mut stretches = vec![whole_lines(&head[..PIECE], true, false)];
        let mut piece = vec![0; PIECE];
        for index in 1..PIECES as u64 {
            let offset = (length - PIECE as u64) / (PIECES as u64 - 1) * index;
            let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut piece));
            if read.is_ok() {
                stretches.push(whole_lines(&piece, false, false));
            }
        }
        return Ok(stretches);
    }
    let stretch = |index: usize| {
        let offset = (head.len() - PIECE) / (PIECES - 1) * index;
        whole_lines(&head[offset..offset + PIECE], index == 0, false)
    };
    Ok((0..PIECES).map(stretch).collect())
}

/// The rows of a piece, and the fields of the last remark above the first row.
fn split(
    piece: Vec<u8>,
    separator: Separator,
    style: Style,
    mut remark: Option<&mut Option<Vec<String>>>,
) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    if piece.is_empty() {
        return Ok(rows);
    }
    let mut source = Source::from_bytes("", piece)?;
    let (mut lines, mut fields) = (Lines::new(&mut source), Fields::new(style));
    // A piece may begin or end within quotes: what comes then is not looked at.
    while let Ok(Some((line, _))) = lines.record(|_| separator) {
        if line.is_remark() {
            if let Some(remark) = remark.as_mut().filter(|_| rows.is_empty()) {
                let text =
                    String::from_utf8_lossy(line.text).trim_start_matches(['#', '%']).trim().to_owned();
                let apart = |byte: u8| text.split(byte as char).map(|name| name.trim().to_owned()).collect();
                **remark = Some(match separator {
                    Separator::Byte(byte) if text.contains(byte as char) => apart(byte),
                    _ => text.split_ascii_whitespace().map(str::to_owned).collect(),
                });
            }
            continue;
        }
        rows.push(line.split(separator, &mut fields).texts());
    }
    Ok(rows)
}

/// What is between the fields of a table: the byte that splits its rows into equally many fields, the more
/// the better, or else blanks.
fn separator(pieces: &[Vec<u8>], style: Style) -> Option<Separator> {
    let bytes = [b',', b'\t', b';', b'|'].into_iter().filter(|&byte| !(byte == b',' && style.decimal_comma));
    let widths: Vec<_> = bytes.map(|byte| (width(pieces, Separator::Byte(byte), style), byte)).collect();
    // Of two with the same width the first one counts.
    let best =
        widths.iter().rev().filter_map(|&(width, byte)| Some((width?, byte))).max_by_key(|&(width, _)| width);
    match best {
        Some((_, byte)) => Some(Separator::Byte(byte)),
        None => width(pieces, Separator::Blank, style).map(|_| Separator::Blank),
    }
}

/// Into how many fields a separator splits the first row, where it does the same to nearly all others.
fn width(pieces: &[Vec<u8>], separator: Separator, style: Style) -> Option<usize> {
    let (mut first, mut odd, mut all) = (None, 0, 0);
    for piece in pieces {
        for row in split(piece.clone(), separator, style, None).ok()? {
            let width = *first.get_or_insert(row.len());
            // Fields that are several numbers say that something else is between fields; a comma in them may
            // be a decimal one.
            let several = |field: &String| {
                let mut words = field.split([' ', '\t', ';', '|']).filter(|word| !word.is_empty());
                separator != Separator::Blank && words.clone().count() > 1 && words.all(is_number)
            };
            odd += usize::from(row.len() != width || row.iter().any(several));
            all += 1;
        }
    }
    first.filter(|&width| width >= 2 && odd <= (all / 10).max(usize::from(all > 2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    /// Of a long file stretches from beginning to end are looked at, whole lines only; of a stream its
    /// beginning.
    #[test]
    fn pieces_come_from_everywhere_and_are_whole_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let rows: u32 = 1_000_000;
        let text: String = (0..rows).map(|row| format!("{row:07}\n")).collect();
        std::fs::write(file.path(), &text).unwrap();
        let firsts = |mut source: Source| -> Vec<u32> {
            let pieces = pieces(&mut source).unwrap();
            let whole = |piece: &Vec<u8>| piece.len().is_multiple_of(8) && piece.ends_with(b"\n");
            assert!(pieces.len() == PIECES && pieces.iter().all(whole));
            pieces.iter().map(|piece| std::str::from_utf8(&piece[..7]).unwrap().parse().unwrap()).collect()
        };
        let plain = firsts(Source::open(file.path(), &Progress::silent()).unwrap());
        assert!(plain[0] == 0 && plain.is_sorted() && plain[PIECES - 1] > rows / 20 * 19, "{plain:?}");
        let stream = firsts(Source::from_bytes("x", text.into()).unwrap());
        assert!(stream[0] == 0 && stream.is_sorted() && stream[PIECES - 1] < rows / 20 * 13, "{stream:?}");
    }

    #[test]
    fn what_is_between_fields_splits_all_rows_alike() {
        let guess = |text: &str, style| separator(&[text.as_bytes().to_vec()], style);
        let (plain, comma) = (Style::default(), Style { decimal_comma: true, ..Style::default() });
        for (text, expected) in [
            ("1 2 3\n4  5\t6\n", Separator::Blank),
            ("a b,c d\ne f,g h\n", Separator::Byte(b',')),
            ("1,2;3,4;5\n6,7;8,9;1\n", Separator::Byte(b';')),
            ("a b\tc\n\td\n", Separator::Byte(b'\t')),
            ("1 2 3,5\n2 3 4,5\n", Separator::Blank),
        ] {
            assert_eq!(guess(text, plain), Some(expected), "{text}");
        }
        assert_eq!(guess("1;2,5\n2;3,5\n", comma), Some(Separator::Byte(b';')));
        assert_eq!(guess("1 2\n1 2 3\n1 2 3 4\n", plain), None);
    }

    #[test]
    fn a_first_row_of_words_above_numbers_is_a_header() {
        let headed = |text: &str| {
            let mut source = Source::from_bytes("x", text.into()).unwrap();
            Sample::of(&mut source, &Hints::default()).unwrap().unwrap().headed
        };
        assert!(headed("this,that,when\nann,bob,3\nbob,ann,5\n"));
        assert!(headed("from,to\nann,bob\n"));
        assert!(!headed("this,that\nann,bob\n"));
        assert!(!headed("ann,bob,NA\nbob,ann,5\n"));
        assert!(!headed("ann,bob,3\nbob,ann,5\n"));
    }
}
