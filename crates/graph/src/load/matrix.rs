//! Dense adjacency matrices: entry (i, j) is the weight of the edge from i to j, 0 where there is none.

use super::row::{Fields, Lines, Separator};
use super::{Format, Head, Hints, Intake, Nature, Source, is_number};
use crate::error::Result;
use crate::time::TimeUnit;

pub struct Matrix;

/// Smaller tables of numbers are not taken for matrices unless the user says so.
const RECOGNISED_FROM: usize = 7;

impl Format for Matrix {
    fn name(&self) -> &'static str {
        "matrix"
    }

    fn about(&self) -> &'static str {
        "a square adjacency matrix of weights, 0 where there is no edge"
    }

    fn example(&self) -> &'static str {
        "1,0,0,0.5,0,0,0\n0,1,0,0,0,0,0\n0,0,1,0,0,0.25,0\n0.5,0,0,1,0,0,0\n\
         0,0,0,0,1,0,0\n0,0,0.25,0,0,1,0\n0,0,0,0,0,0,1\n"
    }

    fn nature(&self) -> Nature {
        Nature::Fixed
    }

    /// Only wide rows of equally many numbers, zeros among them, and no more rows than columns.
    fn recognises(&self, head: &Head<'_>) -> bool {
        let columns = head.rows().next().unwrap_or_default().split(',').count();
        let zero = |row: &str| row.split(',').any(|field| field.trim().parse::<f64>() == Ok(0.0));
        columns >= RECOGNISED_FROM
            && head.text.lines().count() <= columns
            && head.all_rows(
                |row| row.split(',').map(str::trim).collect(),
                |fields| fields.len() == columns && fields.iter().all(|field| is_number(field)),
            )
            && head.rows().any(zero)
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        (intake.nature, intake.unit) = (self.nature(), TimeUnit::Step);
        let (mut lines, mut fields) = (Lines::new(source), Fields::new(hints.style));
        let (mut vertices, mut targets, mut separator) = (Vec::new(), Vec::new(), None);
        let mut count = 0;
        while let Some(line) = lines.line()? {
            if line.is_remark() {
                continue;
            }
            let separator =
                *separator.get_or_insert_with(|| hints.separator_of(line.text, Separator::guess_loosely));
            let row = line.split(separator, &mut fields);
            if count == 0 {
                for index in 0..row.len() {
                    vertices.push(intake.numbered(index)?);
                    targets.push(intake.numbered_target(index)?);
                }
            }
            if row.len() != vertices.len() {
                let (found, expected) = (row.len(), vertices.len());
                return Err(
                    row.problem(format!("found {found} field(s), expected {expected} as in the first row"))
                );
            }
            let Some(&source) = vertices.get(count) else {
                let problem = format!("found row {}, expected {count} rows for {count} columns", count + 1);
                return Err(row.problem(problem));
            };
            for (index, &target) in targets.iter().enumerate() {
                let weight = row.value(index, "weight")?;
                if weight != 0.0 {
                    intake.edge(source, target, 0.0, weight)?;
                }
            }
            count += 1;
        }
        if count < vertices.len() {
            let columns = vertices.len();
            let problem = format!("ends after row {count}, expected {columns} rows for {columns} columns");
            return Err(lines.error(problem));
        }
        Ok(())
    }
}
