//! A signal by step: a header of vertices, then one row a step with one value for each of them.

use rustc_hash::FxHashSet;

use crate::error::{Result, listed};
use crate::load::row::{Fields, Lines, Row, Separator, digits};
use crate::load::{IdKind, Intake, Source};
use crate::snapshot::Vertex;

/// Reads a signal, which becomes both what is known of each step and what is to be predicted.
///
/// The header names the vertices, each once, in any order. A graph whose vertices are numbers from 0 only
/// because of the place of their rows, such as a matrix, has no names of its own: where none of the columns
/// is called like a vertex, they belong to the vertices in their order, and the vertices take their names.
pub fn read_signal(source: &mut Source, intake: &mut Intake) -> Result<()> {
    let (mut lines, mut fields) = (Lines::new(source), Fields::new(intake.style));
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
fn columns(row: &Row<'_, '_>, intake: &mut Intake) -> Result<Vec<Vertex>> {
    let value = |field: &[u8]| {
        digits(field).is_none() && std::str::from_utf8(field).is_ok_and(|text| text.parse::<f64>().is_ok())
    };
    if let Some(index) = (0..row.len()).find(|&index| value(row.field(index))) {
        return Err(row.error(index, "header", "the id of a vertex: the first row names the columns"));
    }
    let known = |field| std::str::from_utf8(field).ok().and_then(|id| intake.ids.find(id));
    let found: Vec<Option<Vertex>> = row.fields().map(known).collect();
    let counts = (row.len(), intake.ids.len());
    if counts.0 == counts.1 && intake.id_kind == IdKind::Number && found.iter().all(Option::is_none) {
        return by_order(row, intake);
    }
    let mut seen = vec![false; counts.1];
    for (index, vertex) in found.iter().enumerate() {
        if let Some(vertex) = vertex
            && std::mem::replace(&mut seen[*vertex as usize], true)
        {
            return Err(row.error(index, "header", "each vertex once"));
        }
    }
    let vertices: Vec<Vertex> = found.iter().copied().flatten().collect();
    if vertices.len() == counts.0 && counts.0 == counts.1 {
        return Ok(vertices);
    }
    let (columns, expected) = counts;
    let mut problem = format!("found {columns} column(s), expected one for each of {expected} vertices");
    let unknown = row.texts().into_iter().zip(&found).filter(|(_, vertex)| vertex.is_none());
    let unknown: Vec<String> = unknown.map(|(name, _)| name).collect();
    let without = intake.ids.names_where(|vertex| !seen[vertex as usize]);
    for (names, what) in [(unknown, "no vertex is called"), (without, "no column is called")] {
        if !names.is_empty() {
            problem += &format!("; {what} {}", listed(names));
        }
    }
    Err(row.problem(problem))
}

/// The vertices in their order, which take the names of the columns.
fn by_order(row: &Row<'_, '_>, intake: &mut Intake) -> Result<Vec<Vertex>> {
    let order = intake.ids.order();
    let mut names: Vec<&[u8]> = vec![b""; order.len()];
    let mut taken = FxHashSet::default();
    for (index, (&vertex, name)) in order.iter().zip(row.fields()).enumerate() {
        if name.is_empty() || !taken.insert(name) {
            return Err(row.error(index, "header", "a name that no other column has"));
        }
        names[vertex as usize] = name;
    }
    if !intake.bipartite {
        intake.ids.name_all(&names);
        intake.id_kind = IdKind::Text;
    }
    Ok(order)
}
