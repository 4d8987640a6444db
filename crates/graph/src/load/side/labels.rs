//! Classes of vertices and the published split: `node class [split]`.

use super::names_vertices;
use crate::error::Result;
use crate::load::row::{Fields, Lines, Separator};
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// The part of the split of each vertex that has one, as numbered while reading.
    pub splits: Vec<(Vertex, Split)>,
    /// Rows without a class.
    pub unlabelled: u64,
}

/// Reads `node class [split]` with any separator and an optional header. A class is a number or a name; `-1` or nothing
/// is no class. Vertices that have no edge become vertices here.
pub fn read_labels(source: &mut Source, intake: &mut Intake) -> Result<Labels> {
    let (mut lines, mut fields, mut labels) = (Lines::new(source), Fields::default(), Labels::default());
    let mut separator = None;
    while let Some(line) = lines.line()? {
        if line.is_remark() {
            continue;
        }
        let is_first = separator.is_none();
        let separator = *separator.get_or_insert_with(|| Separator::guess(line.text));
        let row = line.split(separator, &mut fields);
        if is_first && names_vertices(row.field(0)) {
            continue;
        }
        if row.is_empty() || row.len() > 3 {
            let found = row.len();
            return Err(row.problem(format!("found {found} field(s), expected 1 to 3: node [class [split]]")));
        }
        let vertex = intake.known_or_new(&row, 0)?;
        labels.unlabelled += u64::from(!intake.classify(vertex, &row, 1)?);
        let split = match row.field(2) {
            b"" | b"-" => continue,
            b"train" => Split::Train,
            b"val" | b"valid" | b"validation" => Split::Validation,
            b"test" => Split::Test,
            _ => return Err(row.error(2, "split", "train, val, test or -")),
        };
        labels.splits.push((vertex, split));
    }
    Ok(labels)
}
