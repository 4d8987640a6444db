//! Edge lists without times: `source target [weight]`, one graph for all steps.

use super::row::{Row, Separator};
use super::table::{First, Layout, no_more, read};
use super::{Format, Hints, IdKind, Intake, Nature, Source};
use crate::error::Result;

pub struct Static;

const COLUMNS: &[&str] = &["source", "target", "weight"];

impl Format for Static {
    fn name(&self) -> &'static str {
        "static"
    }

    fn about(&self) -> &'static str {
        "edges without times: source target [weight], with or without a header"
    }

    fn example(&self) -> &'static str {
        "0\t633\n0\t1862\n1\t2\n"
    }

    fn nature(&self) -> Nature {
        Nature::Fixed
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        let first = |row: &Row<'_, '_>, intake: &Intake| {
            let Some(columns) = COLUMNS.get(..row.len()).filter(|columns| columns.len() >= 2) else {
                let found = row.len();
                return Err(
                    row.problem(format!("found {found} field(s), expected 2 or 3: source target [weight]"))
                );
            };
            let layout = Layout::named(columns).map_err(|problem| row.problem(problem))?;
            let header = is_header(&row.texts(), intake.id_kind);
            Ok(if header { First::Header(layout) } else { First::Row(layout) })
        };
        read(source, hints, intake, None, Separator::guess_loosely, first, no_more)
    }
}

/// Whether the first row names its columns: where vertices are numbers, two words cannot be anything else.
fn is_header<S: AsRef<str>>(names: &[S], id_kind: IdKind) -> bool {
    let word = |index: usize| {
        names.get(index).is_some_and(|name| name.as_ref().starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    let known = || Layout::named(names).is_ok_and(|layout| layout.vertices() == [0, 1]);
    let third = names.get(2).is_none_or(|_| word(2));
    third && (known() || id_kind == IdKind::Number && word(0) && word(1))
}
