//! Which column of a table means what, where nobody said so: every way of reading it is weighed, and the
//! likeliest is taken unless another is about as likely.
//!
//! What counts: the names of the columns; vertices recur, and sources and targets are mostly drawn from the
//! same ids; times ascend, are dates, or have the size of seconds since 1970; weights have fractions, signs
//! or few values; and people put columns in some orders more often than in others. The numbers below are
//! rough logarithms of how much likelier a reading is for it.

use super::column::{Column, Kind};
use super::roles::{Role, roles};
use super::sample::Sample;

/// A way of reading a table: what each column means.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// By column.
    pub roles: Vec<Option<Role>>,
    score: f64,
}

/// A reading this much likelier than any other is taken.
const CLEAR: f64 = 1.5;

/// Columns that are looked at for vertices, times and weights, if no name tells.
const LOOKED_AT: usize = 12;

/// Rows from which on order and repetition tell something.
const TELLING: f64 = 8.0;

/// Edges that come more often than this share of rows are events.
const SELDOM: f64 = 0.05;

impl Reading {
    /// The column of a role.
    pub fn place(&self, wanted: Role) -> Option<usize> {
        self.roles.iter().position(|role| *role == Some(wanted))
    }

    /// The columns of sources and targets.
    pub fn ends(&self) -> Vec<usize> {
        [Role::Source, Role::Target].into_iter().filter_map(|role| self.place(role)).collect()
    }

    /// The words that `--columns` would need.
    pub fn words(&self) -> Vec<String> {
        self.roles.iter().map(|role| role.map_or("_", Role::word).to_owned()).collect()
    }

    /// Whether another reading makes the same edges at the same times.
    fn agrees(&self, other: &Reading) -> bool {
        [Role::Source, Role::Target, Role::Time, Role::Step]
            .iter()
            .all(|&role| self.place(role) == other.place(role))
    }
}

/// The reading of a table, or those between which nothing decides; none at all where no column can be a
/// vertex. `timed` says that there are times, and `konect` that the input begins as files of that archive do.
/// `features` are columns of which the user says that they are features of edges.
pub fn infer(
    sample: &Sample,
    timed: bool,
    konect: bool,
    features: &[usize],
) -> Result<Reading, Vec<Reading>> {
    let mut readings = readings(sample, konect, features);
    readings.retain(|reading| !timed || reading.place(Role::Time).or(reading.place(Role::Step)).is_some());
    readings.sort_by(|a, b| b.score.total_cmp(&a.score));
    let Some(best) = readings.first().cloned() else { return Err(Vec::new()) };
    // Few rows tell little: the habits of people alone do not decide.
    let clear = CLEAR * (2.0 - telling(sample));
    let mut likely = vec![best.clone()];
    for other in readings.into_iter().take_while(|other| best.score - other.score < clear) {
        if !likely.iter().any(|known| known.agrees(&other)) {
            likely.push(other);
        }
    }
    if likely.len() == 1 { Ok(best) } else { Err(likely) }
}

fn readings(sample: &Sample, konect: bool, features: &[usize]) -> Vec<Reading> {
    let columns = &sample.columns;
    let named: Vec<Option<Role>> = match &sample.header {
        Some(header) => roles(header).into_iter().map(|role| role.map(|(role, _)| role)).collect(),
        None => vec![None; columns.len()],
    };
    let place = |wanted: Role| named.iter().position(|role| *role == Some(wanted));
    let timed = place(Role::Step).or(place(Role::Time));
    // A role goes to the column that is called so, or to one that is called nothing known.
    let open = |wanted: Role, can: &dyn Fn(&Column) -> bool| -> Vec<usize> {
        match place(wanted) {
            Some(index) => vec![index],
            None => (0..columns.len().min(LOOKED_AT))
                .filter(|&index| named[index].is_none() && !features.contains(&index) && can(&columns[index]))
                .collect(),
        }
    };
    let vertex = |column: &Column| matches!(column.kind, Kind::Whole | Kind::Text);
    let time = |column: &Column| column.is_number() || column.kind == Kind::Date;
    let sources = open(Role::Source, &vertex);
    let targets = open(Role::Target, &vertex);
    let times = if timed.is_some() { vec![timed] } else { or_none(open(Role::Time, &time)) };
    // What a column is called says what it weighs, unless no column is called anything.
    let weights = match (&sample.header, place(Role::Weight)) {
        (_, Some(weight)) => vec![Some(weight)],
        (Some(_), None) => vec![None],
        (None, None) => or_none(open(Role::Weight, &|column| column.is_number())),
    };
    let (telling, decided, mut all) = (telling(sample), decided(columns), Vec::new());
    for &source in &sources {
        let free = |index: usize, taken: &[usize]| !taken.contains(&index);
        for &target in targets.iter().filter(|&&target| free(target, &[source])) {
            let by_name = place(Role::Source).is_some() || place(Role::Target).is_some();
            if target < source && !by_name {
                continue;
            }
            let pair = as_pair(&columns[source], &columns[target], telling);
            let repeats = columns[source].repeats_with(&columns[target]) > SELDOM;
            for &time in times.iter().filter(|time| time.is_none_or(|at| free(at, &[source, target]))) {
                for &weight in &weights {
                    let taken = [Some(source), Some(target), time].contains(&weight) && weight.is_some();
                    let misplaced = weight.is_some_and(|at| sample.header.is_none() && at < target);
                    if !taken && !misplaced {
                        let mut roles = named.clone();
                        roles[source] = Some(Role::Source);
                        roles[target] = Some(Role::Target);
                        if let Some(at) = time.filter(|_| timed.is_none()) {
                            roles[at] = Some(Role::Time);
                        }
                        if let Some(at) = weight {
                            roles[at] = Some(Role::Weight);
                        }
                        let place = [Some(source), Some(target), time, weight];
                        let mut score = pair + rest(columns, place, &roles, konect, telling);
                        // A graph without times lists each edge once.
                        score -= if time.is_none() && repeats { 2.0 } else { 0.0 };
                        // What follows from another column says something about the vertices there.
                        let follows = |end: usize| decided[end].iter().any(|&other| roles[other].is_none());
                        score -=
                            3.0 * [source, target].into_iter().filter(|&end| follows(end)).count() as f64;
                        all.push(Reading { roles, score });
                    }
                }
            }
        }
    }
    all
}

/// How much order and repetition tell, from 0 to 1.
fn telling(sample: &Sample) -> f64 {
    (sample.rows as f64 / TELLING).min(1.0)
}

fn or_none(columns: Vec<usize>) -> Vec<Option<usize>> {
    columns.into_iter().map(Some).chain([None]).collect()
}

/// How likely two columns are the ends of edges.
fn as_pair(from: &Column, to: &Column, telling: f64) -> f64 {
    let mut score = 5.0 * telling * from.likeness(to);
    score += if (from.kind == Kind::Text) == (to.kind == Kind::Text) { 0.5 } else { -0.5 };
    score += as_vertex(from, telling) + as_vertex(to, telling);
    // An edge list in the order of its sources is common.
    score + if from.is_sorted() && from.is_number() { 2.5 * telling } else { 0.0 }
}

/// How likely the other columns, and the order of all, make a reading whose sources, targets, times and
/// weights have these places.
fn rest(
    columns: &[Column],
    [source, target, time, weight]: [Option<usize>; 4],
    roles: &[Option<Role>],
    konect: bool,
    telling: f64,
) -> f64 {
    let mut score = 0.0;
    if let Some(column) = time.map(|time| &columns[time]) {
        score += as_time(column, telling);
        let ids = [source, target].into_iter().flatten().map(|end| columns[end].range[1]);
        let ids = ids.fold(0.0, f64::max);
        let wide = column.kind == Kind::Whole && column.range[1] >= 10.0 * ids && ids > 0.0;
        score += if wide { telling } else { 0.0 };
    }
    score += weight.map_or(0.0, |weight| as_weight(&columns[weight], telling));
    for (column, _) in columns.iter().zip(roles).filter(|(_, role)| role.is_none()) {
        score -= match column.kind {
            Kind::Date => 1.0,
            Kind::Whole | Kind::Number => 0.7,
            Kind::Text | Kind::Clock | Kind::Nothing => 0.1,
        };
    }
    let first = source == Some(0) || source == Some(1) && time == Some(0);
    let usual = target == source.map(|source| source + 1);
    score += if first { 1.0 } else { 0.0 } + if usual { 1.5 } else { 0.0 };
    if konect && [source, target] == [Some(0), Some(1)] {
        score += 2.0;
        score += if weight == Some(2) { 3.0 } else { 0.0 };
        score += if time == Some(3) { 2.0 } else { 0.0 };
    }
    score
}

/// By column: the columns from which it follows, and which could be vertices themselves.
fn decided(columns: &[Column]) -> Vec<Vec<usize>> {
    let by = |index: usize| {
        let vertices =
            |&other: &usize| other != index && matches!(columns[other].kind, Kind::Whole | Kind::Text);
        let looked_at = 0..columns.len().min(LOOKED_AT);
        looked_at.filter(vertices).filter(|&other| columns[other].decides(&columns[index])).collect()
    };
    (0..columns.len()).map(by).collect()
}

fn as_vertex(column: &Column, telling: f64) -> f64 {
    let distinct = column.distinct() as f64;
    let unique = (2.0 * distinct / column.rows.max(1) as f64 - 1.0).max(0.0);
    let mut score = (0.5 * distinct.log10()).min(1.5) - 2.0 * unique * telling;
    score -= if column.distinct() == 1 { 3.0 * telling } else { 0.0 };
    score -= if column.counts_rows { 3.0 * telling } else { 0.0 };
    score - if column.unit().is_some() { 2.0 } else { 0.0 }
}

fn as_time(column: &Column, telling: f64) -> f64 {
    let sorted = if column.is_sorted() { 3.0 * telling } else { 0.0 };
    let counts = if column.counts_rows { 4.0 * telling } else { 0.0 };
    match column.unit() {
        _ if column.kind == Kind::Date => 8.0,
        Some(_) => 6.0 - counts,
        None if column.is_yearly() => 2.5 + sorted / 3.0,
        None if column.is_sorted() => sorted - counts,
        None => {
            if column.fractions {
                -1.0
            } else {
                -0.5
            }
        }
    }
}

fn as_weight(column: &Column, telling: f64) -> f64 {
    let few = column.distinct() <= 20.max(column.rows / 10);
    let mut score = if column.fractions { 1.5 } else { 0.0 };
    score += if column.range[0] < 0.0 { 1.5 } else { 0.0 };
    score += if few { 0.7 } else { 0.0 };
    score -= if column.is_sorted() { 2.0 * telling } else { 0.0 };
    score -= if column.counts_rows { 3.0 } else { 0.0 };
    score - if column.unit().is_some() { 6.0 } else { 0.0 }
}
