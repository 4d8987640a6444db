//! KONECT's and Network Repository's edge lists: `%` lines first, then `source target [weight] [time]`.
//!
//! The number of columns decides. With four the last is the time, with two there are no times. A third column
//! of three is a weight by KONECT's rule, but other archives put a time there: it is one where it is too
//! large for a weight, or where the user names its unit or the columns. A first line `% bip` says that
//! sources and targets are separate sets.

use super::csv::reading;
use super::row::{Row, Separator};
use super::sample::Sample;
use super::table::{First, Layout, no_more, read};
use super::{Format, Head, Hints, Intake, Nature, Source};
use crate::error::{Error, Place, Result};

pub struct Konect;

const COLUMNS: &[&str] = &["source", "target", "weight", "time"];

/// Third columns with larger numbers are times.
const LARGEST_WEIGHT: f64 = 1e8;

/// Rows that tell what the columns are.
const ENOUGH: usize = 8;

/// How a Matrix Market file begins. It looks the same, but its first row is the size of the matrix.
const MATRIX_MARKET: &str = "%%MatrixMarket";

impl Format for Konect {
    fn name(&self) -> &'static str {
        "konect"
    }

    fn about(&self) -> &'static str {
        "KONECT and Network Repository: % lines, then source target [weight] [time]"
    }

    fn example(&self) -> &'static str {
        "% asym signed\n1 2 -1 979081200\n3 4 1 979081200\n1\t4\t1 979081205.5\n"
    }

    fn nature(&self) -> Nature {
        Nature::Events
    }

    fn recognises(&self, head: &Head<'_>) -> bool {
        head.lines.first().is_some_and(|line| line.starts_with('%'))
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        if Head::new(source.head()).text.starts_with(MATRIX_MARKET) {
            let problem = "is a Matrix Market file, expected an edge list; take off its header and its first \
                           row \
                           (the size of the matrix) and read it with --format static";
            return Err(Error::input(Place::line(source.name(), 1), problem));
        }
        intake.bipartite |=
            Head::new(source.head()).lines.first().is_some_and(|line| line.starts_with("% bip"));
        let sample = Sample::of(source, hints)?;
        // Files that begin alike come from many hands: with rows enough they are weighed as any other table.
        let told = match sample.as_ref().filter(|sample| sample.rows >= ENOUGH && hints.columns.is_none()) {
            Some(sample) => Some(reading(source.name(), sample, hints, true)?.words()),
            None => None,
        };
        let first = |row: &Row<'_, '_>, _: &Intake| {
            if let Some(columns) = hints.columns.as_ref().or(told.as_ref()) {
                return Layout::named(columns).map(First::Row).map_err(|problem| row.problem(problem));
            }
            let timed = row.number(2, "weight or time").is_ok_and(|third| third.abs() >= LARGEST_WEIGHT);
            if row.len() == 3 && (timed || hints.time_unit.is_some()) {
                return Layout::named(&["source", "target", "time"])
                    .map(First::Row)
                    .map_err(|problem| row.problem(problem));
            }
            let Some(columns) = COLUMNS.get(..row.len()).filter(|columns| columns.len() >= 2) else {
                let found = row.len();
                let problem =
                    format!("found {found} field(s), expected 2 to 4: source target [weight] [time]");
                return Err(row.problem(problem));
            };
            Layout::named(columns).map(First::Row).map_err(|problem| row.problem(problem))
        };
        read(source, hints, intake, sample.as_ref(), Separator::guess_loosely, first, no_more)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{find, read_bytes};
    use super::*;
    use crate::time::TimeUnit;

    fn read(text: &str, hints: &Hints) -> Intake {
        let folder = std::env::temp_dir();
        read_bytes(find("konect").unwrap(), hints, "out.x", text.into(), &folder).unwrap()
    }

    #[test]
    fn a_third_column_is_a_weight_unless_it_must_be_a_time() {
        let plain = Hints::default();
        let weights = read("% sym weighted\n1 2 5\n2 3 7\n", &plain);
        assert_eq!((weights.nature, weights.range), (Nature::Fixed, Some((0.0, 0.0))));
        let times = read("% sym unweighted\n1 2 979081200\n2 3 979081205\n", &plain);
        assert_eq!((times.nature, times.range), (Nature::Events, Some((979_081_200.0, 979_081_205.0))));
        let said = read("1 2 5\n2 3 7\n", &Hints { time_unit: Some(TimeUnit::D), ..plain.clone() });
        assert_eq!((said.nature, said.range, said.unit), (Nature::Events, Some((5.0, 7.0)), TimeUnit::D));
        let columns = Some(["source", "target", "time"].map(String::from).to_vec());
        assert_eq!(read("1 2 5\n2 3 7\n", &Hints { columns, ..plain }).range, Some((5.0, 7.0)));
    }

    #[test]
    fn a_bipartite_graph_says_so() {
        let two = read("% bip unweighted\n1 1\n2 1\n", &Hints::default());
        assert_eq!((two.bipartite, two.ids.len(), two.self_loops), (true, 3, 0));
        assert_eq!(read("% asym unweighted\n1 1\n2 1\n", &Hints::default()).ids.len(), 2);
    }
}
