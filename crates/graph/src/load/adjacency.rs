//! Adjacency lists: line i holds the successors of vertex i; an empty line is a vertex without any.

use super::row::{Fields, Lines, Separator};
use super::{Format, Head, Hints, Intake, Nature, Source, row};
use crate::error::Result;
use crate::time::TimeUnit;

pub struct Adjacency;

impl Format for Adjacency {
    fn name(&self) -> &'static str {
        "adjacency"
    }

    fn about(&self) -> &'static str {
        "adjacency lists: line i holds the successors of vertex i, from 0"
    }

    fn example(&self) -> &'static str {
        "1 2 3 4\n0 2\n\n0\n1 3\n"
    }

    fn nature(&self) -> Nature {
        Nature::Fixed
    }

    /// Only lists in ascending order with a long line among them, and only where the first two lines differ
    /// in length: two lines of the same two to four fields are more likely edges.
    fn recognises(&self, head: &Head<'_>) -> bool {
        let mut lengths = Vec::new();
        let ascending = head.rows().all(|line| {
            let ids: Option<Vec<u64>> =
                line.split_ascii_whitespace().map(|field| row::digits(field.as_bytes())).collect();
            ids.is_some_and(|ids| {
                lengths.push(ids.len());
                ids.is_sorted_by(|a, b| a < b)
            })
        });
        let edges = lengths.iter().take(2).all(|length| (2..=4).contains(length))
            && lengths.first() == lengths.get(1);
        let varied = lengths.iter().any(|length| Some(length) != lengths.first());
        ascending && varied && !edges && lengths.iter().any(|&length| length >= 4)
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        (intake.nature, intake.unit) = (self.nature(), TimeUnit::Step);
        let separator = hints.separator().unwrap_or(Separator::Blank);
        let (mut lines, mut fields) = (Lines::new(source), Fields::default());
        let mut vertex = 0;
        while let Some(line) = lines.line()? {
            if line.text.starts_with(b"#") || line.text.starts_with(b"%") {
                continue;
            }
            let source = intake.numbered(vertex)?;
            vertex += 1;
            if line.is_blank() {
                continue;
            }
            let row = line.split(separator, &mut fields);
            for index in 0..row.len() {
                let target = intake.target(&row, index)?;
                intake.edge(source, target, 0.0, 1.0)?;
            }
        }
        Ok(())
    }
}
