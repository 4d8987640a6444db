//! Tables with named columns: names come from the first row, or from the user.

use super::row::{Row, Separator};
use super::table::{self, First, Layout};
use super::{Format, Head, Hints, Intake, Nature, Source, is_id};
use crate::error::{Error, Result};

pub struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "tables with named columns: source, target, time or step, and perhaps weight"
    }

    fn example(&self) -> &'static str {
        "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,1029,3.0,1260759179\n2,31,4.0,835355493\n"
    }

    fn nature(&self) -> Nature {
        Nature::Events
    }

    fn recognises(&self, head: &Head<'_>) -> bool {
        header(head).is_some()
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        let given = hints.columns.as_deref().map(|names| {
            let layout = Layout::named(names).and_then(with_times);
            layout.map(|layout| (names, layout)).map_err(|problem| Error::settings("--columns", problem))
        });
        let given = given.transpose()?;
        let first = |row: &Row<'_, '_>, _: &Intake| {
            let names = row.texts();
            if let Some((given, layout)) = given {
                let same = names.len() == given.len()
                    && names.iter().zip(given).all(|(a, b)| a.eq_ignore_ascii_case(b.trim()));
                return Ok(if same { First::Header(layout) } else { First::Row(layout) });
            }
            let layout = Layout::named(&names).and_then(with_times);
            layout.map(First::Header).map_err(|problem| {
                row.problem(format!(
                    "{problem}; where the table has no header, pass --columns with a name for each column"
                ))
            })
        };
        table::read(source, hints, intake, Separator::guess, first, table::no_more)
    }
}

fn with_times(layout: Layout) -> Result<Layout, String> {
    match layout.nature() {
        Nature::Fixed => Err("found neither a time nor a step among the columns, and expected one of them \
                              (for a graph without times there is --format static)"
            .into()),
        _ => Ok(layout),
    }
}

/// The layout that the first row names, where it is the header of a table of events or steps.
pub fn header(head: &Head<'_>) -> Option<Layout> {
    let first = head.rows().next()?;
    Layout::named(&fields(first, first)).and_then(with_times).ok()
}

/// Whether the vertices of all looked-at rows are numbers.
pub fn numbered(head: &Head<'_>, layout: &Layout) -> bool {
    let first = head.rows().next().unwrap_or_default();
    head.rows().skip(1).all(|row| {
        let fields = fields(row, first);
        layout.vertices().iter().all(|&index| fields.get(index).is_some_and(|field| is_id(field)))
    })
}

/// The fields of a row in a table that begins with `first`. Quotes are taken off, but commas inside them
/// split: this is only for a first look.
pub fn fields<'a>(row: &'a str, first: &str) -> Vec<&'a str> {
    let trim = |field: &'a str| field.trim().trim_matches('"');
    match Separator::guess(first.as_bytes()) {
        Separator::Blank => row.split_ascii_whitespace().map(trim).collect(),
        Separator::Byte(byte) => row.split(byte as char).map(trim).collect(),
    }
}
