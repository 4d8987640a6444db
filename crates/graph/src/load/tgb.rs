//! The tables of the Temporal Graph Benchmark: a header, the time first, then source and target as text.

use super::roles::{Role, roles};
use super::row::{Row, Separator};
use super::sample::Sample;
use super::table::{self, First, Layout};
use super::{EdgeFeatures, Format, Hints, IdKind, Intake, Nature, Source};
use crate::error::{Result, listed};

pub struct Tgb;

impl Format for Tgb {
    fn name(&self) -> &'static str {
        "tgb"
    }

    fn about(&self) -> &'static str {
        "TGB tables with a header: time,source,target[,weight][,features...], vertices as text"
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
        let sample = Sample::of(source, hints)?;
        let first = |row: &Row<'_, '_>, _: &Intake| {
            let names = row.texts();
            let [time, _, _, rest @ ..] = names.as_slice() else {
                let found = listed(&names);
                return Err(row.problem(format!(
                    "found the columns {found}, expected time, source, target[, weight][, features]"
                )));
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
            let features = sample.as_ref().map_or(Vec::new(), |sample| numbers(sample, &columns));
            let features = if hints.edge_features == EdgeFeatures::Usual { features } else { Vec::new() };
            let layout = Layout::named(&columns).map_err(|problem| row.problem(problem))?;
            Ok(First::Header(layout.with_features(features)))
        };
        table::read(source, hints, intake, sample.as_ref(), Separator::guess, first, table::no_more)
    }
}

/// The columns without a role in which there are numbers and nothing else, as far as was looked: features of
/// edges. Rows that are counted say nothing of their edges.
fn numbers(sample: &Sample, columns: &[&str]) -> Vec<usize> {
    let all = sample.columns.iter().zip(columns).enumerate();
    all.filter(|(_, (column, name))| {
        **name == "_" && column.numbers == sample.rows && column.numbers > 0 && !column.counts_rows
    })
    .map(|(index, _)| index)
    .collect()
}

/// Whether a column of this name has this role.
fn is(name: &str, role: Role) -> bool {
    roles(&[name])[0].is_some_and(|(other, _)| other == role)
}
