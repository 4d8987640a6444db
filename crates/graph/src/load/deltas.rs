//! Snapshots as changes: `snapshot op source target`, where op 1 adds an edge and -1 takes it back.

use super::row::Separator;
use super::sample::Sample;
use super::table::{columns, no_more, read};
use super::{Format, Head, Hints, Intake, Nature, Source, is_id};
use crate::error::Result;

pub struct Deltas;

const COLUMNS: &[&str] = &["snapshot", "op", "source", "target"];

impl Format for Deltas {
    fn name(&self) -> &'static str {
        "deltas"
    }

    fn about(&self) -> &'static str {
        "changes from snapshot to snapshot: snapshot op source target, op 1 or -1"
    }

    fn example(&self) -> &'static str {
        "0\t1\t1\t3\n0\t1\t1\t6\n1\t-1\t1\t3\n1\t1\t6\t3\n"
    }

    fn nature(&self) -> Nature {
        Nature::Changes
    }

    fn recognises(&self, head: &Head<'_>) -> bool {
        // The first snapshot starts from nothing and has number 0, and something disappears before long: that
        // tells this from an edge list whose first rows all have a 1 there.
        let starts = head.rows().next().is_some_and(|row| row.split_ascii_whitespace().next() == Some("0"));
        let removes = head.text.lines().any(|row| row.split_ascii_whitespace().nth(1) == Some("-1"));
        starts
            && removes
            && head.all_rows(
                |row| row.split_ascii_whitespace().collect(),
                |fields| match fields {
                    [snapshot, op, source, target] => {
                        is_id(snapshot) && matches!(*op, "1" | "-1") && is_id(source) && is_id(target)
                    }
                    _ => false,
                },
            )
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        let sample = Sample::of(source, hints)?;
        read(source, hints, intake, sample.as_ref(), |_| Separator::Blank, columns(COLUMNS), no_more)
    }
}
