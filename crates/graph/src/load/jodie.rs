//! JODIE's tables: `user,item,time,label,features…`, and DyGLib's variant with an index before and after.
//!
//! The header names the features with one word, so the first row decides how many there are.

use super::carried::{announce, read as read_features};
use super::row::{Row, Separator};
use super::table::{self, First, Layout, Meaning};
use super::{EdgeFeatures, Format, Head, Hints, Intake, Nature, Source};
use crate::error::{Error, Result, listed};
use crate::time::TimeUnit;

pub struct Jodie;

/// Labels beyond this are no classes: each class up to the highest label is kept.
const MOST_CLASSES: u32 = 1_000_000;

/// From here on there must be more rows than classes up to the highest label.
const FEW_CLASSES: u32 = 1000;

const COLUMNS: &[&str] = &["source", "target", "time", "label"];

/// What the four columns are called in the header.
const HEADERS: &[[&str; 4]] =
    &[["user_id", "item_id", "timestamp", "state_label"], ["u", "i", "ts", "label"]];

impl Format for Jodie {
    fn name(&self) -> &'static str {
        "jodie"
    }

    fn about(&self) -> &'static str {
        "JODIE and DyGLib: user_id,item_id,timestamp,state_label,features..."
    }

    fn example(&self) -> &'static str {
        "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n\
         0,0,0.0,0,-0.175,0.25\n1,1,36.0,0,-0.5,0\n1,0,77.0,1,1.5,2\n"
    }

    fn nature(&self) -> Nature {
        Nature::Events
    }

    fn bipartite(&self) -> bool {
        true
    }

    fn recognises(&self, head: &Head<'_>) -> bool {
        head.rows().next().is_some_and(|first| {
            shape(&first.split(',').map(|name| name.trim().trim_matches('"')).collect::<Vec<_>>()).is_some()
        })
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        // Columns before the user, and whether features follow the label: found in the header, used in every
        // row.
        let shape_of_rows = std::cell::Cell::new((0, true));
        let (header, input) = (std::cell::RefCell::new(Vec::new()), source.name().to_owned());
        let first = |row: &Row<'_, '_>, _: &Intake| {
            let names = row.texts();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let Some((before, has_features)) = shape(&names) else {
                let expected = "expected a header that begins with user_id,item_id,timestamp,state_label";
                return Err(row.problem(format!("found the columns {}, {expected}", listed(&names))));
            };
            if !has_features && matches!(hints.edge_features, EdgeFeatures::Named(_)) {
                let problem = format!("{input} has no features, but an index behind its labels");
                return Err(Error::settings("--edge-features", problem));
            }
            shape_of_rows.set((before, has_features));
            header.replace(names.iter().map(|name| (*name).to_owned()).collect());
            let mut columns = [&[""; 1][..before], COLUMNS].concat();
            if !has_features {
                columns.push("idx");
            }
            let layout = Layout::named(&columns).map_err(|problem| row.problem(problem))?;
            // The data sets of this format all count seconds.
            let layout = layout.in_unit(TimeUnit::S);
            Ok(First::Header(if has_features { layout.or_more() } else { layout }))
        };
        let (mut width, mut features, mut carried) = (None, Vec::new(), Vec::new());
        let (mut rows, mut highest) = (0, None);
        let each = |row: &Row<'_, '_>, intake: &mut Intake| {
            let (before, has_features) = shape_of_rows.get();
            let label = before + 3;
            if width.is_none() {
                let header = header.take();
                let named = if header.len() == row.len() { header.as_slice() } else { &[] };
                features = columns_of(hints, named, has_features.then_some(label + 1), row.len(), &input)?;
                let name = |&index: &usize| {
                    named.get(index).cloned().unwrap_or_else(|| format!("f{}", index - label - 1))
                };
                announce(intake, &input, true, features.iter().map(name).collect())?;
                describe(intake, label, named, &features, row.len());
            }
            let expected = *width.get_or_insert(row.len());
            if row.len() != expected {
                let found = row.len();
                return Err(
                    row.problem(format!("found {found} field(s), expected {expected} as in the rows before"))
                );
            }
            let class = row.class(label, "label", MOST_CLASSES)?;
            rows += 1;
            if let Some(class) = class.filter(|&class| class >= FEW_CLASSES)
                && highest.as_ref().is_none_or(|&(other, _)| class > other)
            {
                let expected = "a class below 1000, or below the number of rows";
                highest = Some((class, row.error(label, "label", expected)));
            }
            carried.clear();
            carried.push(class.map_or(-1.0, |class| class as f32));
            read_features(row, &features, &mut carried)?;
            intake.carry(&carried)
        };
        table::read(source, hints, intake, None, |_| Separator::Byte(b','), first, each)?;
        match highest {
            Some((class, error)) if class >= rows => Err(error),
            _ => Ok(()),
        }
    }
}

/// The columns with features: all from `first` on, unless the user says otherwise.
fn columns_of(
    hints: &Hints,
    names: &[String],
    first: Option<usize>,
    width: usize,
    input: &str,
) -> Result<Vec<usize>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let named = hints.edge_features.named(&names, width, input)?;
    let Some(first) = first.filter(|_| hints.edge_features != EdgeFeatures::None) else {
        return Ok(Vec::new());
    };
    if let Some(column) = named.iter().flatten().find(|&&column| column < first) {
        let problem = format!("column {} of {input} says which edge it is, when, or its label", column + 1);
        let expected = format!("features begin with column {}", first + 1);
        return Err(Error::settings("--edge-features", format!("{problem}; {expected}")));
    }
    Ok(named.unwrap_or_else(|| (first..width).collect()))
}

/// Notes what the columns from the label on were taken for.
fn describe(intake: &mut Intake, label: usize, names: &[String], features: &[usize], width: usize) {
    intake.read_as.truncate(label);
    for column in label..width {
        let name = names.get(column).cloned();
        let carries = match () {
            () if column == label => Some("label"),
            () if features.contains(&column) => Some("feature"),
            () => None,
        };
        intake.read_as.push(Meaning::beside(column, name, carries));
    }
}

/// How many columns stand before the user, and whether features follow the label; `None` for another header.
fn shape(names: &[&str]) -> Option<(usize, bool)> {
    let before = usize::from(names.first()?.is_empty());
    let four = names.get(before..before + 4)?;
    let known = HEADERS.iter().any(|header| header.iter().zip(four).all(|(a, b)| a.eq_ignore_ascii_case(b)));
    known.then(|| (before, names.get(before + 4) != Some(&"idx")))
}
