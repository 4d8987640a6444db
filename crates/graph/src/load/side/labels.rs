//! Classes of vertices and the published split: `node class [split]`, or with a header that names a step or a
//! time, classes that hold at that step alone.

use super::names_vertices;
use crate::error::Result;
use crate::load::row::{Fields, Lines, Row, Separator};
use crate::load::{Intake, Source};
use crate::snapshot::Vertex;

/// Which part of a published split a vertex belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// To learn from.
    Train,
    /// To choose settings by.
    Validation,
    /// To report.
    Test,
}

/// What a file of labels says besides the classes, which go to the intake.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// The part of the split of each vertex that has one, as numbered while reading.
    pub splits: Vec<(Vertex, Split)>,
    /// Classes by time: when, which vertex, which class of the intake.
    pub timed: Vec<(f64, Vertex, u32)>,
    /// Rows without a class.
    pub unlabelled: u64,
}

/// Which field of a row is what.
#[derive(Clone, Copy)]
struct Columns {
    vertex: usize,
    class: usize,
    split: Option<usize>,
    time: Option<usize>,
}

impl Columns {
    /// Those of a file without header.
    const PLAIN: Columns = Columns { vertex: 0, class: 1, split: Some(2), time: None };

    /// Those that a first row names, where it does.
    fn named(row: &Row<'_, '_>) -> Option<Columns> {
        let find = |names: &[&[u8]]| {
            row.fields().position(|field| names.iter().any(|name| field.eq_ignore_ascii_case(name)))
        };
        let vertex = row.fields().position(names_vertices)?;
        let time = find(&[b"step", b"snapshot", b"time", b"timestamp", b"ts", b"t", b"date"]);
        let split = find(&[b"split"]);
        let class = find(&[b"class", b"label", b"category", b"y"]);
        let rest = |index: &usize| *index != vertex && Some(*index) != time && Some(*index) != split;
        Some(Columns { vertex, class: class.or_else(|| (0..row.len()).find(rest))?, split, time })
    }
}

/// Reads `node class [split]` with any separator and an optional header. A class is a number or a name; `-1`
/// or nothing is no class. Vertices that have no edge become vertices here. A column called step or time in
/// the header makes the classes hold at that step alone.
pub fn read_labels(source: &mut Source, intake: &mut Intake) -> Result<Labels> {
    let (mut lines, mut fields) = (Lines::new(source), Fields::new(intake.style));
    let mut labels = Labels::default();
    let mut layout = None;
    while let Some(line) = lines.line()? {
        if line.is_remark() {
            continue;
        }
        let is_first = layout.is_none();
        let (separator, _) = *layout.get_or_insert_with(|| (Separator::guess(line.text), Columns::PLAIN));
        let row = line.split(separator, &mut fields);
        if is_first && let Some(columns) = Columns::named(&row) {
            layout = Some((separator, columns));
            continue;
        }
        let columns = layout.map_or(Columns::PLAIN, |(_, columns)| columns);
        if let Some(time) = columns.time {
            let time = row.time(time, "time", intake.unit)?;
            let vertex = intake.known_or_new(&row, columns.vertex)?;
            match row.field(columns.class) {
                b"" | b"-1" => labels.unlabelled += 1,
                class => labels.timed.push((time, vertex, intake.classes.number(class))),
            }
            continue;
        }
        if row.is_empty() || row.len() > 3 {
            let found = row.len();
            return Err(row.problem(format!("found {found} field(s), expected 1 to 3: node [class [split]]")));
        }
        let vertex = intake.known_or_new(&row, columns.vertex)?;
        labels.unlabelled += u64::from(!intake.classify(vertex, &row, columns.class)?);
        let split = match columns.split.map_or(&b""[..], |index| row.field(index)) {
            b"" | b"-" => continue,
            b"train" => Split::Train,
            b"val" | b"valid" | b"validation" => Split::Validation,
            b"test" => Split::Test,
            _ => return Err(row.error(columns.split.unwrap_or(2), "split", "train, val, test or -")),
        };
        labels.splits.push((vertex, split));
    }
    Ok(labels)
}
