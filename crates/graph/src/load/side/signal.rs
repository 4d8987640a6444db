//! A signal by step: a header of vertices, then one row a step with one value for each of them.

use crate::error::Result;
use crate::load::row::{Fields, Lines, Row, Separator, digits};
use crate::load::{Intake, Source};
use crate::snapshot::Vertex;

/// Reads a signal, which becomes both what is known of each step and what is to be predicted.
///
/// The names in the header are those of vertices where all of them are known. Where they are not, but there
/// are as many as vertices, columns belong to the vertices in their order: a graph given as a matrix has no
/// names of its own.
pub fn read_signal(source: &mut Source, intake: &mut Intake) -> Result<()> {
    let (mut lines, mut fields) = (Lines::new(source), Fields::default());
    let (mut header, mut step) = (None, 0);
    while let Some(line) = lines.line()? {
        if line.is_remark() {
            continue;
        }
        let Some((separator, vertices)) = &header else {
            let separator = Separator::guess_loosely(line.text);
            let vertices = columns(&line.split(separator, &mut fields), intake)?;
            header = Some((separator, vertices));
            continue;
        };
        let row = line.split(*separator, &mut fields);
        if row.len() != vertices.len() {
            let (found, expected) = (row.len(), vertices.len());
            return Err(row.problem(format!("found {found} value(s), expected {expected} as in the header")));
        }
        let mut values = vec![0.0; vertices.len()];
        for (column, &vertex) in vertices.iter().enumerate() {
            values[vertex as usize] = row.value(column, "value")?;
        }
        intake.targets.set(step, 1, values.clone())?;
        intake.signal.set(step, 1, values)?;
        step += 1;
    }
    Ok(())
}

/// The vertex of each column: every vertex once.
fn columns(row: &Row<'_, '_>, intake: &Intake) -> Result<Vec<Vertex>> {
    let value = |field: &[u8]| {
        digits(field).is_none() && std::str::from_utf8(field).is_ok_and(|text| text.parse::<f64>().is_ok())
    };
    if let Some(index) = (0..row.len()).find(|&index| value(row.field(index))) {
        return Err(row.error(index, "header", "the id of a vertex: the first row names the columns"));
    }
    let (count, expected) = (row.len(), intake.ids.len());
    if count != expected {
        return Err(
            row.problem(format!("found {count} column(s), expected one for each of {expected} vertices"))
        );
    }
    let known = |field| std::str::from_utf8(field).ok().and_then(|id| intake.ids.find(id));
    let Some(vertices) = row.fields().map(known).collect::<Option<Vec<Vertex>>>() else {
        return Ok(intake.ids.order());
    };
    let mut seen = vec![false; count];
    for (index, &vertex) in vertices.iter().enumerate() {
        if std::mem::replace(&mut seen[vertex as usize], true) {
            return Err(row.error(index, "header", "each vertex once"));
        }
    }
    Ok(vertices)
}
