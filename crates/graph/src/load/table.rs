//! Tables whose rows are edges: which column means what, and the loop over the rows that most readers share.

use super::row::{Fields, Lines, Row, Separator};
use super::{Hints, Intake, Nature, Source};
use crate::error::{Result, listed};
use crate::snapshot::Vertex;
use crate::time::{TimeUnit, UNITS, parse_date};

/// What a column means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Source,
    Target,
    Time,
    Step,
    Change,
    Weight,
    SourceLabel,
    TargetLabel,
}

/// The names columns go by. Names that are not here, `_` among them, are skipped.
const NAMES: &[(Role, &[&str])] = &[
    (Role::Source, &["source", "src", "u", "user", "user_id", "userid", "from", "head"]),
    (
        Role::Target,
        &["target", "dst", "destination", "v", "i", "item", "item_id", "itemid", "movieid", "to", "tail"],
    ),
    (Role::Time, &["time", "timestamp", "ts", "t", "date", "datetime", "day", "year"]),
    (Role::Step, &["step", "snapshot", "timestep", "time_step"]),
    (Role::Change, &["op"]),
    (Role::Weight, &["weight", "w", "rating", "value"]),
    (Role::SourceLabel, &["source_label"]),
    (Role::TargetLabel, &["target_label"]),
];

impl Role {
    /// What a column of this name means, and the unit its name ends with if it is a time.
    fn of(name: &str) -> Option<(Role, Option<TimeUnit>)> {
        let name = name.trim().to_ascii_lowercase();
        let find = |name: &str| NAMES.iter().find(|(_, names)| names.contains(&name)).map(|&(role, _)| role);
        if let Some(role) = find(&name) {
            return Some((role, None));
        }
        let (stem, suffix) = name.rsplit_once('_')?;
        let &(_, unit) = UNITS.iter().find(|(name, _)| *name == suffix)?;
        (find(stem) == Some(Role::Time)).then_some((Role::Time, Some(unit)))
    }

    fn names(self) -> String {
        NAMES.iter().find(|(role, _)| *role == self).map_or(String::new(), |(_, names)| names.join(", "))
    }
}

/// Whether a column of this name holds times.
pub fn is_time(name: &str) -> bool {
    matches!(Role::of(name), Some((Role::Time, _)))
}

/// Whether a column of this name holds weights.
pub fn is_weight(name: &str) -> bool {
    matches!(Role::of(name), Some((Role::Weight, _)))
}

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
}

impl Layout {
    /// The layout of columns with these names, or what is wrong with them. Of two columns with the same
    /// meaning the first one counts.
    pub fn named<S: AsRef<str>>(columns: &[S]) -> Result<Layout, String> {
        let columns: Vec<String> = columns.iter().map(|name| name.as_ref().trim().into()).collect();
        let find =
            |wanted| columns.iter().position(|name| Role::of(name).is_some_and(|(role, _)| role == wanted));
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
            When::Time(time) => Role::of(&columns[time]).and_then(|(_, unit)| unit),
            _ => Some(TimeUnit::Step),
        };
        let (weight, labels) = (find(Role::Weight), [find(Role::SourceLabel), find(Role::TargetLabel)]);
        let has_more = change.is_some() || labels != [None, None];
        Ok(Layout { exact: true, source, target, when, change, weight, labels, has_more, unit, columns })
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
    fn take(&mut self, row: &Row<'_, '_>, intake: &mut Intake) -> Result<()> {
        row.has_columns(&self.columns, self.exact)?;
        let (source, target) = (intake.source(row, self.source)?, intake.target(row, self.target)?);
        let time = match (self.when, self.unit) {
            (When::Time(index), Some(unit)) => row.time(index, "time", unit)?,
            (When::Time(index), None) => {
                let name = self.columns.get(index).map_or("", String::as_str);
                intake.unit = *self.unit.insert(unit_of(name, row.field(index)));
                row.time(index, "time", intake.unit)?
            }
            (When::Step(index), _) => row.step(index, "step")? as f64,
            (When::Never, _) => 0.0,
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

/// The unit of times that look like this one, in a column whose name does not end with a unit.
fn unit_of(name: &str, time: &[u8]) -> TimeUnit {
    let is_date = std::str::from_utf8(time).is_ok_and(|time| parse_date(time).is_some());
    match name.to_ascii_lowercase().as_str() {
        _ if is_date => TimeUnit::Date,
        "day" => TimeUnit::D,
        "year" => TimeUnit::Step,
        _ => TimeUnit::default(),
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
/// `first` says which columns there are, and `each` is called after every row.
pub fn read(
    source: &mut Source,
    hints: &Hints,
    intake: &mut Intake,
    separator: impl Fn(&[u8]) -> Separator,
    first: impl FnOnce(&Row<'_, '_>, &Intake) -> Result<First>,
    mut each: impl FnMut(&Row<'_, '_>, &mut Intake) -> Result<()>,
) -> Result<()> {
    let (mut lines, mut fields) = (Lines::new(source), Fields::new(hints.style));
    let (mut layout, separator) = loop {
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
        if matches!(layout.when, When::Time(_)) {
            layout.unit = hints.unit().or(layout.unit);
        }
        layout.weight = layout.weight.filter(|_| !hints.no_weights);
        intake.nature = layout.nature();
        intake.unit = layout.unit.unwrap_or_default();
        if is_data {
            layout.take(&row, intake)?;
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
        each(&row, intake)?;
    }
    Ok(())
}

/// Nothing to do after a row.
pub fn no_more(_: &Row<'_, '_>, _: &mut Intake) -> Result<()> {
    Ok(())
}
