//! SNAP's temporal edge lists: `source target time`, separated by blanks.

use super::row::Separator;
use super::table::{columns, no_more, read};
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
        read(source, hints, intake, |_| Separator::Blank, columns(COLUMNS), no_more)
    }
}
