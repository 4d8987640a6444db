//! SNAP's temporal edge lists: `source target time`, separated by blanks.

use super::row::{Fields, Lines, Separator};
use super::{Format, Head, Hints, Intake, Nature, Source, is_id, is_number};
use crate::error::Result;

pub struct Snap;

const COLUMNS: &[&str] = &["source", "target", "time"];

impl Format for Snap {
    fn name(&self) -> &'static str {
        "snap"
    }

    fn about(&self) -> &'static str {
        "SNAP temporal edges: source target time, separated by blanks"
    }

    fn example(&self) -> &'static str {
        "1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n"
    }

    fn nature(&self) -> Nature {
        Nature::Events
    }

    fn recognises(&self, head: &Head<'_>) -> bool {
        head.all_rows(
            |row| row.split_ascii_whitespace().collect(),
            |fields| fields.len() == 3 && is_id(fields[0]) && is_id(fields[1]) && is_number(fields[2]),
        )
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        intake.unit = hints.time_unit.unwrap_or_default();
        let separator = hints.delimiter.map_or(Separator::Blank, Separator::Byte);
        let (mut lines, mut fields) = (Lines::new(source), Fields::default());
        while let Some(line) = lines.next()? {
            if line.is_remark() {
                continue;
            }
            let row = line.split(separator, &mut fields);
            row.expect(COLUMNS, true)?;
            let (source, target) = (intake.source(&row, 0)?, intake.target(&row, 1)?);
            let time = row.time(2, COLUMNS[2], intake.unit)?;
            intake.edge(source, target, time, 1.0)?;
        }
        Ok(())
    }
}
