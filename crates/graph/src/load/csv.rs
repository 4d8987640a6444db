//! Tables: columns go by the names in the first row, by what the user says, or by what is written in them.

use super::column::Column;
use super::infer::{Reading, infer};
use super::roles::{Role, roles};
use super::row::{Row, Separator};
use super::sample::Sample;
use super::table::{self, First, Layout};
use super::value::date_advice;
use super::{EdgeFeatures, Format, Hints, IdKind, Intake, Nature, Source};
use crate::error::{Error, Place, Result, listed};
use crate::time::TimeUnit;

pub struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "tables: source, target, time or step, and perhaps weight, in any order, with or without a header"
    }

    fn example(&self) -> &'static str {
        "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,1029,3.0,1260759179\n2,31,4.0,835355493\n"
    }

    fn nature(&self) -> Nature {
        Nature::Events
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        let Some(sample) = Sample::of(source, hints)? else { return read_untold(source, hints, intake) };
        let layout = match &hints.columns {
            Some(given) => told(given, &hints.edge_features)?,
            None => Layout::named(&reading(source.name(), &sample, hints, false)?.words())
                .map_err(|problem| Error::input(Place::file(source.name()), problem))?,
        };
        if intake.ids.is_empty() && hints.ids.is_none() {
            let names = |index: usize| sample.columns.get(index).is_some_and(|column| column.names);
            let text = layout.vertices().into_iter().any(names);
            intake.id_kind = if text { IdKind::Text } else { intake.id_kind };
        }
        let first = |_: &Row<'_, '_>, _: &Intake| {
            Ok(if sample.headed { First::Header(layout) } else { First::Row(layout) })
        };
        table::read(source, hints, intake, Some(&sample), |_| sample.separator, first, table::no_more)
    }
}

/// Reads what is no table at first sight: there are no rows, or one of them will say what is wrong.
fn read_untold(source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
    let first = |row: &Row<'_, '_>, _: &Intake| match &hints.columns {
        Some(given) => told(given, &hints.edge_features).map(First::Row),
        None => Layout::named(&row.texts()).map(First::Header).map_err(|problem| {
            row.problem(format!(
                "{problem}; or name all columns, as in --columns source,target,time (_ skips one)"
            ))
        }),
    };
    table::read(source, hints, intake, None, Separator::guess, first, table::no_more)
}

/// The layout of columns that the user names. A name that says nothing is a mistake, unless it is `_` or that
/// of a feature.
fn told(given: &[String], features: &EdgeFeatures) -> Result<Layout> {
    let is_feature = |name: &String| matches!(features, EdgeFeatures::Named(names) if names.contains(name));
    let unknown = given
        .iter()
        .zip(roles(given))
        .find(|(name, role)| role.is_none() && !["", "_"].contains(&name.trim()) && !is_feature(name));
    if let Some((name, _)) = unknown {
        let again = roles(&[name])[0].is_some();
        let problem = if again { "means what one before it means" } else { "is not the name of a column" };
        let known = "source, target, time, step, weight, source_label, target_label, op, what \
                     --edge-features names, and _ for one to skip";
        return Err(Error::settings("--columns", format!("'{name}' {problem}; known are {known}")));
    }
    Layout::named(given).map_err(|problem| Error::settings("--columns", problem))
}

/// What the columns of a table mean.
pub fn reading(name: &str, sample: &Sample, hints: &Hints, konect: bool) -> Result<Reading> {
    let timed = hints.timed || hints.unit().is_some();
    let names: Vec<&str> = sample.header.iter().flatten().map(String::as_str).collect();
    let features = hints.edge_features.named(&names, sample.columns.len(), name)?.unwrap_or_default();
    let reading = infer(sample, timed, konect, &features)
        .map_err(|likely| unrecognised(name, &doubt(sample, &likely)))?;
    match unread_time(sample, &reading) {
        Some(problem) => Err(unrecognised(name, &problem)),
        None => Ok(reading),
    }
}

/// What to say where several readings are about as likely, or none is possible.
fn doubt(sample: &Sample, likely: &[Reading]) -> String {
    if !likely.is_empty() {
        let say = |reading: &Reading| format!("--columns {}", reading.words().join(","));
        let ways: Vec<String> = likely.iter().take(3).map(say).collect();
        let problem = "nothing in its columns tells which of them mean what; say";
        return format!("{problem} {} (_ skips one)", ways.join(" or "));
    }
    let count = sample.columns.len();
    let names = sample.header.as_ref().map_or(String::new(), |names| format!(" ({})", listed(names)));
    let skipped = ",_".repeat(count.saturating_sub(3));
    format!(
        "found {count} columns{names}, expected a source and a target of edges among them, whole numbers or \
         names; name all columns, as in --columns source,target,time{skipped} (_ skips one)"
    )
}

/// What to say where a column that is not read looks like times, or times of day stand apart from dates.
fn unread_time(sample: &Sample, reading: &Reading) -> Option<String> {
    let columns = &sample.columns;
    let Some(when) = reading.place(Role::Time).or(reading.place(Role::Step)) else {
        let unread = |&index: &usize| reading.roles[index].is_none() && columns[index].is_like_dates();
        let column = (0..columns.len()).find(unread)?;
        let example = &columns[column].example;
        let advice = date_advice(example.as_bytes()).unwrap_or_else(|| {
            "; write them as 2012-03-01, as 2012-03-01T17:30:00Z or as numbers, or name the columns with \
             --columns, _ for this one, to do without"
                .into()
        });
        return Some(format!(
            "column {} ('{example}') looks like times that cannot be read{advice}",
            column + 1
        ));
    };
    let clock = columns.iter().position(Column::is_clock)?;
    (columns[when].unit() == Some(TimeUnit::Date)).then(|| {
        format!(
            "dates are in column {} and times of day in column {}; put both into one column, as \
             2012-03-01T17:30:00, or name the columns with --columns to do without the time of day",
            when + 1,
            clock + 1
        )
    })
}

fn unrecognised(name: &str, problem: &str) -> Error {
    Error::input(Place::file(name), problem)
}
