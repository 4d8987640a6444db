//! The tables of the Temporal Graph Benchmark: a header, the time first, then source and target as text.

use super::csv::{fields, header, numbered};
use super::row::{Row, Separator};
use super::table::{self, First, Layout, is_time, is_weight};
use super::{Format, Head, Hints, IdKind, Intake, Nature, Source, is_number};
use crate::error::{Result, listed};
use crate::time::parse_date;

pub struct Tgb;

impl Format for Tgb {
    fn name(&self) -> &'static str {
        "tgb"
    }

    fn about(&self) -> &'static str {
        "TGB tables with a header: time,source,target[,weight], vertices as text"
    }

    fn example(&self) -> &'static str {
        "day,src,dst,weight\n2022-04-01,0xb2d8,0x1df4,4056.44\n\
         2022-04-01,0x54bb,0x17d6,1\n2022-04-02,0xb2d8,0x17d6,2.5\n"
    }

    fn nature(&self) -> Nature {
        Nature::Events
    }

    fn id_kind(&self) -> IdKind {
        IdKind::Text
    }

    fn recognises(&self, head: &Head<'_>) -> bool {
        let mut rows = head.rows();
        let Some(first) = rows.next() else { return false };
        let names = fields(first, first);
        let time = |row| {
            fields(row, first).first().is_some_and(|time| is_number(time) || parse_date(time).is_some())
        };
        // A table of numbers whose columns all have names we know is better read as one, with ids as numbers.
        let plain = header(head).is_some_and(|layout| numbered(head, &layout));
        names.len() >= 3 && is_time(names[0]) && !is_number(names[1]) && rows.all(time) && !plain
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        let first = |row: &Row<'_, '_>, _: &Intake| {
            let names = row.texts();
            let [time, _, _, rest @ ..] = names.as_slice() else {
                let found = listed(&names);
                return Err(row
                    .problem(format!("found the columns {found}, expected time, source, target[, weight]")));
            };
            if !is_time(time) {
                let expected = "the name of the time, such as time, ts, day or year";
                return Err(row.error(0, "time", expected));
            }
            // The name of the time may state its unit; the other columns count by their place.
            let mut columns = vec![time.as_str(), "source", "target"];
            columns.extend(
                rest.iter()
                    .enumerate()
                    .map(|(i, name)| if i == 0 && is_weight(name) { "weight" } else { "_" }),
            );
            Layout::named(&columns).map(First::Header).map_err(|problem| row.problem(problem))
        };
        table::read(source, hints, intake, Separator::guess, first, table::no_more)
    }
}
