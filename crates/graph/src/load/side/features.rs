//! Static features of vertices, dense or sparse: line i belongs to the vertex with id i, unless a header says
//! that the first column holds the id.

use std::str::FromStr;

use super::names_vertices;
use crate::error::{Error, Result};
use crate::load::row::{Fields, Lines, Row, Separator, digits};
use crate::load::{Head, IdKind, Intake, Source};
use crate::snapshot::Vertex;

/// How features are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureLayout {
    /// Look at the first lines. Sparse is where a `:` stands, where lines differ in length, or where every
    /// line is made of ascending whole numbers.
    #[default]
    Auto,
    /// Every value, column after column.
    Dense,
    /// The indices of the values that are not 0: `index`, meaning 1, or `index:value`.
    Sparse,
}

impl FromStr for FeatureLayout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(FeatureLayout::Auto),
            "dense" => Ok(FeatureLayout::Dense),
            "sparse" => Ok(FeatureLayout::Sparse),
            _ => Err(Error::settings(
                "--feature-layout",
                format!("found '{text}', expected auto, dense or sparse"),
            )),
        }
    }
}

/// Features by vertex, as vertices were numbered while reading. Vertices that are not listed have none.
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureTable {
    /// Every value.
    Dense {
        /// Values a vertex has.
        width: usize,
        /// Whose row is whose.
        vertices: Vec<Vertex>,
        /// Row after row.
        values: Vec<f32>,
    },
    /// The values that are not 0.
    Sparse {
        /// One more than the largest index.
        width: usize,
        /// Whose row is whose.
        vertices: Vec<Vertex>,
        /// Where each row begins, and where the last one ends.
        starts: Vec<usize>,
        /// The columns, in the order of the file.
        indices: Vec<u32>,
        /// The values in them.
        values: Vec<f32>,
    },
}

/// A larger index is taken for a mistake: a matrix that wide would be allocated.
const WIDEST: u64 = 1 << 24;

/// Reads features. Vertices that have no edge become vertices here.
pub fn read_features(
    source: &mut Source,
    layout: FeatureLayout,
    intake: &mut Intake,
) -> Result<FeatureTable> {
    let shape = Shape::look(source, layout);
    let (mut lines, mut fields) = (Lines::new(source), Fields::new(intake.style));
    let (mut vertices, mut values, mut indices, mut starts) = (Vec::new(), Vec::new(), Vec::new(), vec![0]);
    let (mut width, mut skip_header, mut number) = (0, shape.has_ids, 0);
    while let Some(line) = lines.line()? {
        if line.text.starts_with(b"#") || line.text.starts_with(b"%") || shape.has_ids && line.is_blank() {
            continue;
        }
        if std::mem::take(&mut skip_header) {
            continue;
        }
        let row = line.split(shape.separator, &mut fields);
        vertices.push(if shape.has_ids {
            intake.known_or_new(&row, 0)?
        } else {
            by_line(&row, number, intake)?
        });
        number += 1;
        let columns = usize::from(shape.has_ids)..row.len();
        if shape.sparse {
            for column in columns.filter(|&column| !row.field(column).is_empty()) {
                let (index, value) = sparse_entry(&row, column)?;
                width = width.max(index as usize + 1);
                indices.push(index);
                values.push(value);
            }
            starts.push(indices.len());
            continue;
        }
        if number == 1 {
            width = columns.len();
        }
        if columns.len() != width || line.is_blank() {
            let found = if line.is_blank() { 0 } else { columns.len() };
            return Err(row.problem(format!(
                "found {found} feature(s), expected {width} as in the first row (for lists of indices pass \
                 --feature-layout sparse)"
            )));
        }
        for column in columns {
            values.push(row.value(column, "feature")?);
        }
    }
    Ok(match shape.sparse {
        true => FeatureTable::Sparse { width, vertices, starts, indices, values },
        false => FeatureTable::Dense { width, vertices, values },
    })
}

/// The vertex a line belongs to when lines do not say. Where vertices have names, one must be called like the
/// number.
fn by_line(row: &Row<'_, '_>, number: usize, intake: &mut Intake) -> Result<Vertex> {
    if intake.id_kind == IdKind::Text && intake.ids.find(&number.to_string()).is_none() {
        return Err(row.problem(format!(
            "found no vertex called '{number}' for this line, expected a header whose first name is id, and \
             the \
             vertex first in each line"
        )));
    }
    match intake.ids.find(&number.to_string()) {
        Some(vertex) => Ok(vertex),
        None => intake.numbered(number),
    }
}

fn sparse_entry(row: &Row<'_, '_>, column: usize) -> Result<(u32, f32)> {
    let error = || {
        let expected = format!("the index of a feature below {WIDEST}, or index:value with a finite value");
        row.error(column, "feature", &expected)
    };
    let field = row.field(column);
    let (index, value) = match memchr::memchr(b':', field) {
        None => (field, Some(1.0)),
        Some(at) => {
            let value = std::str::from_utf8(&field[at + 1..]).ok().and_then(|text| text.parse::<f32>().ok());
            (&field[..at], value.filter(|value| value.is_finite()))
        }
    };
    let index = digits(index).filter(|&index| index < WIDEST).ok_or_else(error)?;
    Ok((index as u32, value.ok_or_else(error)?))
}

/// What the first lines tell about all of them.
struct Shape {
    separator: Separator,
    has_ids: bool,
    sparse: bool,
}

impl Shape {
    fn look(source: &Source, layout: FeatureLayout) -> Shape {
        let head = Head::new(source.head());
        let first = head.rows().next().unwrap_or_default();
        let separator = Separator::guess_loosely(first.as_bytes());
        let split = |row| match separator {
            Separator::Blank => str::split_ascii_whitespace(row).collect::<Vec<_>>(),
            Separator::Byte(byte) => row.split(byte as char).map(str::trim).collect(),
        };
        let has_ids = split(first).first().is_some_and(|name| names_vertices(name.as_bytes()));
        let ids = usize::from(has_ids);
        let rows: Vec<Vec<&str>> =
            head.rows().skip(ids).map(|row| split(row).into_iter().skip(ids).collect()).collect();
        let sparse = match layout {
            FeatureLayout::Dense => false,
            FeatureLayout::Sparse => true,
            FeatureLayout::Auto => looks_sparse(&rows),
        };
        Shape { separator, has_ids, sparse }
    }
}

fn looks_sparse(rows: &[Vec<&str>]) -> bool {
    let ascending = |row: &Vec<&str>| {
        let indices: Option<Vec<u64>> = row.iter().map(|token| digits(token.as_bytes())).collect();
        indices.is_some_and(|indices| indices.is_sorted_by(|a, b| a < b))
    };
    rows.iter().flatten().any(|token| token.contains(':'))
        || rows.windows(2).any(|pair| pair[0].len() != pair[1].len())
        || rows.iter().all(ascending)
}
