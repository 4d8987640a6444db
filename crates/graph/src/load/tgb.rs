//! The tables of the Temporal Graph Benchmark: a header, the time first, then source and target as text.

use super::roles::{Role, roles};
use super::row::{Row, Separator};
use super::sample::Sample;
use super::table::{self, First, Layout};
use super::{Format, Hints, IdKind, Intake, Nature, Source};
use crate::error::{Result, listed};

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

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        let first = |row: &Row<'_, '_>, _: &Intake| {
            let names = row.texts();
            let [time, _, _, rest @ ..] = names.as_slice() else {
                let found = listed(&names);
                return Err(row
                    .problem(format!("found the columns {found}, expected time, source, target[, weight]")));
            };
            if !is(time, Role::Time) {
                let expected = "the name of the time, such as time, ts, day or year";
                return Err(row.error(0, "time", expected));
            }
            // The name of the time may state its unit; the other columns count by their place.
            let mut columns = vec![time.as_str(), "source", "target"];
            columns.extend(
                rest.iter()
                    .enumerate()
                    .map(|(i, name)| if i == 0 && is(name, Role::Weight) { "weight" } else { "_" }),
            );
            Layout::named(&columns).map(First::Header).map_err(|problem| row.problem(problem))
        };
        let sample = Sample::of(source, hints)?;
        table::read(source, hints, intake, sample.as_ref(), Separator::guess, first, table::no_more)
    }
}

/// Whether a column of this name has this role.
fn is(name: &str, role: Role) -> bool {
    roles(&[name])[0].is_some_and(|(other, _)| other == role)
}
