//! Tables whose rows are edges: which column means what, and the loop over the rows that most readers share.

use std::fmt;

use serde::Serialize;

use super::carried::{announce, read as read_features, unnamed};
use super::column::Column;
use super::roles::{Role, roles};
use super::row::{Fields, Lines, Row, Separator};
use super::sample::Sample;
use super::{Hints, Intake, Nature, Source};
use crate::error::{Error, Result, listed, shortened};
use crate::snapshot::Vertex;
use crate::time::TimeUnit;

/// Features that stand side by side are said one by one up to this number.
const MOST_APART: usize = 3;

/// Where in a row its time stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Never,
    Time(usize),
    Step(usize),
}

/// Which column means what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    columns: Vec<String>,
    exact: bool,
    source: usize,
    target: usize,
    when: When,
    change: Option<usize>,
    weight: Option<usize>,
    labels: [Option<usize>; 2],
    has_more: bool,
    unit: Option<TimeUnit>,
    features: Vec<usize>,
}

impl Layout {
    /// The layout of columns with these names, or what is wrong with them. Of two columns with the same
    /// meaning the first one counts.
    pub fn named<S: AsRef<str>>(columns: &[S]) -> Result<Layout, String> {
        let columns: Vec<String> = columns.iter().map(|name| name.as_ref().trim().into()).collect();
        let roles = roles(&columns);
        let find = |wanted| roles.iter().position(|role| role.is_some_and(|(role, _)| role == wanted));
        let need = |wanted, what| {
            find(wanted).ok_or_else(|| {
                let (found, names) = (listed(&columns), Role::names(wanted));
                format!(
                    "found the columns {found}; expected one with the {what} of \
                     the edge, called one of {names}"
                )
            })
        };
        let (source, target) = (need(Role::Source, "source")?, need(Role::Target, "target")?);
        let when = match (find(Role::Step), find(Role::Time)) {
            (Some(step), _) => When::Step(step),
            (None, Some(time)) => When::Time(time),
            (None, None) => When::Never,
        };
        let change = find(Role::Change);
        if change.is_some() && !matches!(when, When::Step(_)) {
            return Err("found a column op, which needs a column step beside it".into());
        }
        let unit = match when {
            When::Time(time) => roles[time].and_then(|(_, unit)| unit),
            _ => Some(TimeUnit::Step),
        };
        let (weight, labels) = (find(Role::Weight), [find(Role::SourceLabel), find(Role::TargetLabel)]);
        let has_more = change.is_some() || labels != [None, None];
        Ok(Layout {
            columns,
            exact: true,
            source,
            target,
            when,
            change,
            weight,
            labels,
            has_more,
            unit,
            features: Vec::new(),
        })
    }

    /// The same layout with times that count this, unless the name of their column says otherwise.
    pub fn in_unit(self, unit: TimeUnit) -> Layout {
        Layout { unit: self.unit.or(Some(unit)), ..self }
    }

    /// The same layout with features of edges in these columns.
    pub fn with_features(self, features: Vec<usize>) -> Layout {
        Layout { features, ..self }
    }

    /// The column of times.
    pub fn time(&self) -> Option<usize> {
        match self.when {
            When::Time(index) => Some(index),
            When::Never | When::Step(_) => None,
        }
    }

    /// What each column was taken for; `header` has the names that the table gives them.
    pub fn describe(&self, header: Option<&[String]>, yearly: bool) -> Vec<Meaning> {
        let roles = self.roles();
        let meaning = |index: usize| {
            let role = roles.iter().find(|(place, _)| *place == Some(index)).map(|&(_, role)| role);
            let name = header.and_then(|names| names.get(index)).filter(|name| !name.is_empty());
            let unit = match role {
                Some(Role::Time) if yearly => Some("years"),
                Some(Role::Time) => self.unit.map(TimeUnit::describe),
                _ => None,
            };
            let carries = self.features.contains(&index).then_some("feature");
            Meaning { column: index + 1, name: name.cloned(), role, unit, carries }
        };
        (0..self.columns.len()).map(meaning).collect()
    }

    /// Which columns have a role.
    fn roles(&self) -> [(Option<usize>, Role); 8] {
        [
            (Some(self.source), Role::Source),
            (Some(self.target), Role::Target),
            (self.time(), Role::Time),
            (self.step(), Role::Step),
            (self.weight, Role::Weight),
            (self.change, Role::Change),
            (self.labels[0], Role::SourceLabel),
            (self.labels[1], Role::TargetLabel),
        ]
    }

    /// Takes the columns that the user names for features of edges: any but those that say which edge it is
    /// and when. A weight may be a feature as well.
    fn take_named(&mut self, hints: &Hints, names: &[&str], source: &str) -> Result<()> {
        if let Some(named) = hints.edge_features.named(names, names.len(), source)? {
            for &column in &named {
                let role = self.roles().into_iter().find(|(place, _)| *place == Some(column));
                if let Some((_, role)) = role.filter(|(_, role)| *role != Role::Weight) {
                    let problem = format!("column {} of {source} is the {}", column + 1, role.word());
                    let expected = "features are in other columns (a weight may be one, too)";
                    return Err(Error::settings("--edge-features", format!("{problem}; {expected}")));
                }
            }
            self.features = named;
        }
        Ok(())
    }

    fn step(&self) -> Option<usize> {
        match self.when {
            When::Step(index) => Some(index),
            When::Never | When::Time(_) => None,
        }
    }

    /// The same layout, but rows may have more columns than are named.
    pub fn or_more(self) -> Layout {
        Layout { exact: false, ..self }
    }

    /// What rows of this layout mean.
    pub fn nature(&self) -> Nature {
        match self.when {
            When::Never => Nature::Fixed,
            When::Time(_) => Nature::Events,
            When::Step(_) if self.change.is_some() => Nature::Changes,
            When::Step(_) => Nature::Steps,
        }
    }

    /// The fields of a row that hold its vertices.
    pub fn vertices(&self) -> [usize; 2] {
        [self.source, self.target]
    }

    /// Reads one row. This is the loop that decides how fast most inputs are read: what few tables have is
    /// elsewhere.
    #[inline(always)]
    fn take(&self, row: &Row<'_, '_>, intake: &mut Intake) -> Result<()> {
        row.has_columns(&self.columns, self.exact)?;
        let (source, target) = (intake.source(row, self.source)?, intake.target(row, self.target)?);
        let time = match self.when {
            When::Time(index) => row.time(index, "time", intake.unit)?,
            When::Step(index) => row.step(index, "step")? as f64,
            When::Never => 0.0,
        };
        if self.has_more && self.take_more(row, source, target, intake)? {
            return intake.removal(source, target, time);
        }
        let weight = match self.weight {
            Some(index) => row.value(index, "weight")?,
            None => 1.0,
        };
        intake.edge(source, target, time, weight)
    }

    /// Reads the features of an edge that was taken from a row.
    #[inline]
    fn take_features(&self, row: &Row<'_, '_>, carried: &mut Vec<f32>, intake: &mut Intake) -> Result<()> {
        if self.features.is_empty() {
            return Ok(());
        }
        carried.clear();
        read_features(row, &self.features, carried)?;
        intake.carry(carried)
    }

    /// Reads the labels and the change in a row; whether the edge disappears.
    #[inline(never)]
    fn take_more(
        &self,
        row: &Row<'_, '_>,
        source: Vertex,
        target: Vertex,
        intake: &mut Intake,
    ) -> Result<bool> {
        for (label, vertex) in self.labels.into_iter().zip([source, target]) {
            if let Some(index) = label {
                intake.classify(vertex, row, index)?;
            }
        }
        match self.change.map(|index| (index, row.field(index))) {
            None | Some((_, b"1")) => Ok(false),
            Some((_, b"-1")) => Ok(true),
            Some((index, _)) => Err(row.error(index, "op", "1 (the edge appears) or -1 (it disappears)")),
        }
    }
}

/// What a column of a table was taken for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Meaning {
    /// Its number, from 1.
    pub column: usize,
    /// What the table calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it means; nothing where it is skipped.
    #[serde(serialize_with = "word")]
    role: Option<Role>,
    /// What its times count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// What of it events carry beside their edge: `feature` or `label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carries: Option<&'static str>,
}

impl Meaning {
    /// The word that `--columns` would take for it.
    pub fn word(&self) -> &'static str {
        self.role.map_or("_", Role::word)
    }

    /// A column that has no role, but of which events may carry something.
    pub fn beside(column: usize, name: Option<String>, carries: Option<&'static str>) -> Meaning {
        Meaning { column: column + 1, name, role: None, unit: None, carries }
    }

    /// All columns in words; features that stand side by side are said together where they are many.
    pub fn listed(all: &[Meaning]) -> String {
        let is_feature = |meaning: &Meaning| meaning.role.is_none() && meaning.carries == Some("feature");
        let mut words = Vec::new();
        let mut rest = all;
        while let Some((first, others)) = rest.split_first() {
            let many = rest.iter().take_while(|meaning| is_feature(meaning)).count();
            if many > MOST_APART {
                let last = &rest[many - 1];
                words.push(format!("{} to {} features ({many})", first.title(), last.title()));
                rest = &rest[many..];
            } else {
                words.push(first.to_string());
                rest = others;
            }
        }
        words.join(", ")
    }

    fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("'{}'", shortened(name)),
            None => format!("column {}", self.column),
        }
    }
}

fn word<S: serde::Serializer>(role: &Option<Role>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(role.map_or("_", Role::word))
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.title())?;
        match (self.role, self.unit, self.carries) {
            (None, _, carries) => f.write_str(carries.unwrap_or("skipped")),
            (Some(role), Some(unit), _) => write!(f, "{} ({unit})", role.word()),
            (Some(role), None, None) => f.write_str(role.word()),
            (Some(role), None, Some(carries)) => write!(f, "{} and {carries}", role.word()),
        }
    }
}

/// What the first row of a table turned out to be.
pub enum First {
    /// The names of the columns.
    Header(Layout),
    /// Data already.
    Row(Layout),
}

/// Takes the first row as data whose columns are these, in this order.
pub fn columns(names: &[&str]) -> impl FnOnce(&Row<'_, '_>, &Intake) -> Result<First> {
    move |row, _| Layout::named(names).map(First::Row).map_err(|problem| row.problem(problem))
}

/// Reads a table to its end. `separator` looks at the first row unless the hints say what is between fields,
/// `first` says which columns there are, and `each` is called after every row. What a first look at the table
/// found tells what its times count.
pub fn read(
    source: &mut Source,
    hints: &Hints,
    intake: &mut Intake,
    sample: Option<&Sample>,
    separator: impl Fn(&[u8]) -> Separator,
    first: impl FnOnce(&Row<'_, '_>, &Intake) -> Result<First>,
    mut each: impl FnMut(&Row<'_, '_>, &mut Intake) -> Result<()>,
) -> Result<()> {
    let (input, mut carried) = (source.name().to_owned(), Vec::new());
    let (mut lines, mut fields) = (Lines::new(source), Fields::new(hints.style));
    let (layout, separator) = loop {
        let found = lines.record(|line| hints.separator_of(line, &separator))?;
        let Some((line, separator)) = found else { return Ok(()) };
        if line.is_remark() {
            continue;
        }
        let row = line.split(separator, &mut fields);
        let (mut layout, is_data) = match first(&row, intake)? {
            First::Header(layout) => (layout, false),
            First::Row(layout) => (layout, true),
        };
        let header = sample.and_then(|sample| sample.header.as_deref());
        if let Some(time) = layout.time() {
            let column = sample.and_then(|sample| sample.columns.get(time));
            intake.yearly = hints.time_unit.is_none() && column.is_some_and(Column::is_yearly);
            let name = header.and_then(|names| names.get(time)).or(layout.columns.get(time));
            layout.unit = hints.unit().or(layout.unit).or(Some(unit(name, column)));
        }
        layout.weight = layout.weight.filter(|_| !hints.no_weights);
        let names = (!is_data && header.is_none()).then(|| row.texts());
        let names = titles(hints, header.or(names.as_deref()), layout.columns.len());
        if layout.exact {
            layout.take_named(hints, &names, &input)?;
        }
        if !layout.features.is_empty() {
            let features = layout.features.iter().map(|&index| match names[index] {
                "" => unnamed(index),
                name => name.to_owned(),
            });
            announce(intake, &input, false, features.collect())?;
        }
        intake.nature = layout.nature();
        intake.unit = layout.unit.unwrap_or_default();
        intake.read_as = layout.describe(sample.and_then(|sample| sample.header.as_deref()), intake.yearly);
        if is_data {
            layout.take(&row, intake)?;
            layout.take_features(&row, &mut carried, intake)?;
            each(&row, intake)?;
        }
        break (layout, separator);
    };
    while let Some((line, separator)) = lines.record(|_| separator)? {
        if line.is_remark() {
            continue;
        }
        let row = line.split(separator, &mut fields);
        layout.take(&row, intake)?;
        layout.take_features(&row, &mut carried, intake)?;
        each(&row, intake)?;
    }
    Ok(())
}

/// What columns are called: by the user, or else by the table; nothing where neither says so.
fn titles<'a>(hints: &'a Hints, header: Option<&'a [String]>, columns: usize) -> Vec<&'a str> {
    let title = |index: usize| {
        let told = hints.columns.as_ref().and_then(|told| told.get(index)).map(|name| name.trim());
        let told = told.filter(|name| !matches!(*name, "" | "_"));
        told.or_else(|| Some(header?.get(index)?.as_str())).unwrap_or("")
    };
    (0..columns).map(title).collect()
}

/// What times count in a column of this name.
fn unit(name: Option<&String>, column: Option<&Column>) -> TimeUnit {
    let said = name.and_then(|name| roles(&[name])[0]).and_then(|(_, unit)| unit);
    let days = name.is_some_and(|name| name.eq_ignore_ascii_case("day"));
    said.or(column.and_then(Column::unit)).unwrap_or(if days { TimeUnit::D } else { TimeUnit::Step })
}

/// Nothing to do after a row.
pub fn no_more(_: &Row<'_, '_>, _: &mut Intake) -> Result<()> {
    Ok(())
}
