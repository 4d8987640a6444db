//! Facts about one column of a table, by which its meaning is told: what is written in it, in which order and
//! how often, and what times it could count.

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

use super::is_id;
use crate::error::shortened;
use crate::load::value::{Style, is_missing};
use crate::time::{TimeUnit, parse_date, parse_date_as};

/// What is written in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers from 0.
    Whole,
    /// Numbers, some with a sign or a fraction.
    Number,
    /// Dates.
    Date,
    /// Times of day.
    Clock,
    /// Anything else.
    Text,
    /// Nothing at all.
    Nothing,
}

/// What is known of a column.
#[derive(Clone, Debug)]
pub struct Column {
    /// What is written in it.
    pub kind: Kind,
    /// Whether some value is no whole number from 0, so that it could only be a name.
    pub names: bool,
    /// How many values there are.
    pub rows: usize,
    /// How many of them are numbers.
    pub numbers: usize,
    /// Hashes of its values.
    pub values: FxHashSet<u64>,
    /// By row, in order: the hash of each value.
    pub order: Vec<u64>,
    /// How often a value is no smaller than the one before.
    pub ascending: f64,
    /// Whether a value is always the one before and one.
    pub counts_rows: bool,
    /// The least and the largest number.
    pub range: [f64; 2],
    /// Whether there are fractions.
    pub fractions: bool,
    /// Whether all dates are the first day of a year.
    pub new_year: bool,
    /// A value.
    pub example: String,
    dated: usize,
    dates: usize,
}

/// Times since 1970 are taken for such between these two, 1979 and 2036, as seconds: dates before and after
/// are more likely something else.
const SINCE_1970: [f64; 2] = [2.9e8, 2.1e9];

/// Whole numbers between these may be years.
const YEARS: [f64; 2] = [1500.0, 2100.0];

fn kind_of(text: &str, style: Style) -> Kind {
    // 007 is not 7 where it names something.
    let coded = text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if text.is_empty() || is_missing(text.as_bytes()) {
        Kind::Nothing
    } else if is_id(text) && !coded {
        Kind::Whole
    } else if style.number(text.as_bytes()).is_some() && !coded {
        Kind::Number
    } else if date(text, style).is_some() {
        Kind::Date
    } else if clock(text) {
        Kind::Clock
    } else {
        Kind::Text
    }
}

/// Seconds since 1970 of a date.
fn date(text: &str, style: Style) -> Option<f64> {
    match style.dates {
        Some(order) => parse_date_as(text, order),
        None => parse_date(text),
    }
}

/// Whether a field is a time of day, such as 17:30 or 7:30:05 pm.
fn clock(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(['a', 'p', 'm', ' ', '.']);
    let parts: Vec<&str> = digits.split(':').collect();
    (2..=3).contains(&parts.len())
        && parts.iter().all(|part| part.parse::<f64>().is_ok_and(|n| (0.0..60.0).contains(&n)))
}

/// Whether a text has what dates have: four digits or more, and something between them.
fn dated(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let between = text.bytes().filter(|byte| b"-/.: ,".contains(byte)).count();
    let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
    (4..=20).contains(&digits)
        && (1..=8).contains(&between)
        && letters <= 12
        && digits + between + letters >= 6
}

impl Column {
    /// The facts of a column whose values come in pieces; the order between pieces does not count.
    pub fn of<'a>(pieces: impl Iterator<Item = impl Iterator<Item = &'a str>>, style: Style) -> Column {
        let mut column = Column {
            kind: Kind::Nothing,
            names: false,
            rows: 0,
            numbers: 0,
            values: FxHashSet::default(),
            order: Vec::new(),
            ascending: 0.0,
            counts_rows: true,
            range: [f64::INFINITY, f64::NEG_INFINITY],
            fractions: false,
            new_year: true,
            example: String::new(),
            dated: 0,
            dates: 0,
        };
        let (mut steps, mut up, mut counts, mut last) = (0usize, 0usize, [0usize; 6], String::new());
        for piece in pieces {
            let mut before: Option<f64> = None;
            for text in piece {
                // The first one may be the name of the column.
                if last.is_empty() || column.rows == 1 {
                    last = shortened(text);
                }
                column.order.push(hash(text));
                let kind = kind_of(text, style);
                if kind == Kind::Nothing {
                    column.counts_rows = false;
                    continue;
                }
                counts[kind as usize] += 1;
                column.rows += 1;
                column.values.insert(hash(text));
                column.dated += usize::from(kind == Kind::Text && dated(text));
                let number = match kind {
                    Kind::Date => date(text, style),
                    _ => style.number(text.as_bytes()),
                };
                column.new_year &= kind == Kind::Date && text.get(4..10) == Some("-01-01");
                column.fractions |= number.is_some_and(|number| number.fract() != 0.0);
                if let Some(number) = number {
                    column.range = [column.range[0].min(number), column.range[1].max(number)];
                    if let Some(before) = before {
                        steps += 1;
                        up += usize::from(number >= before);
                        column.counts_rows &= number == before + 1.0;
                    }
                }
                before = number;
            }
        }
        column.ascending = if steps == 0 { 0.0 } else { up as f64 / steps as f64 };
        column.counts_rows &= steps > 1;
        column.names = counts[Kind::Whole as usize] < column.rows;
        column.example = last;
        column.kind = mostly(counts, column.rows);
        column.numbers = counts[Kind::Whole as usize] + counts[Kind::Number as usize];
        column.dates = counts[Kind::Date as usize];
        column
    }

    /// Whether it has numbers or dates only.
    pub fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Whole | Kind::Number | Kind::Date | Kind::Clock)
    }

    /// Whether its values are numbers.
    pub fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Whole | Kind::Number)
    }

    /// Whether its values are times of day.
    pub fn is_clock(&self) -> bool {
        self.kind == Kind::Clock
    }

    /// Whether its values look like dates, though they are none that can be read.
    pub fn is_like_dates(&self) -> bool {
        self.kind == Kind::Text && 2 * self.dated > self.rows
    }

    /// How many different values there are.
    pub fn distinct(&self) -> usize {
        self.values.len()
    }

    /// Whether its values ascend, all or nearly all, and are not all the same.
    pub fn is_sorted(&self) -> bool {
        self.distinct() > 1 && self.ascending >= 0.9
    }

    /// What it counts as a time, where that shows: dates, or numbers of the size that times since 1970 have.
    pub fn unit(&self) -> Option<TimeUnit> {
        if self.kind == Kind::Date || self.dates > 0 && 2 * self.dates >= self.rows {
            return Some(TimeUnit::Date);
        }
        let units = [(TimeUnit::S, 1.0), (TimeUnit::Ms, 1e3), (TimeUnit::Us, 1e6), (TimeUnit::Ns, 1e9)];
        let within = |per_second: f64| {
            let [first, last] = self.range.map(|time| time / per_second);
            first >= SINCE_1970[0] && last <= SINCE_1970[1]
        };
        let found = units.into_iter().find(|&(_, per_second)| self.is_number() && within(per_second));
        found.map(|(unit, _)| unit)
    }

    /// Whether it may be years.
    pub fn is_yearly(&self) -> bool {
        let years = self.kind == Kind::Whole && self.range[0] >= YEARS[0] && self.range[1] <= YEARS[1];
        years || self.kind == Kind::Date && self.new_year && self.range[1] - self.range[0] > 300.0 * 86400.0
    }

    /// How alike the values of two columns are, from 0 to 1: what they have in common, and their ranges.
    pub fn likeness(&self, other: &Column) -> f64 {
        let common = self.values.intersection(&other.values).count() as f64;
        let all = (self.distinct() + other.distinct()) as f64 - common;
        let shared = common / all.max(1.0);
        if !self.is_number() || !other.is_number() {
            return shared;
        }
        let [low, high] = [self.range[0].max(other.range[0]), self.range[1].min(other.range[1])];
        let [least, most] = [self.range[0].min(other.range[0]), self.range[1].max(other.range[1])];
        let range = ((high - low + 1.0) / (most - least + 1.0)).max(0.0);
        (shared + range) / 2.0
    }

    /// The share of rows in which this column and another are as in a row before.
    pub fn repeats_with(&self, other: &Column) -> f64 {
        let mut seen = FxHashSet::default();
        let again = self.order.iter().zip(&other.order).filter(|&pair| !seen.insert(pair)).count();
        again as f64 / self.order.len().max(1) as f64
    }

    /// Whether another column follows from this one: each value here goes with one there, which is not just
    /// as varied. Such a column says something about the vertices in this one.
    pub fn decides(&self, other: &Column) -> bool {
        if self.distinct() == self.rows || 2 * other.distinct() > self.distinct() {
            return false;
        }
        let mut known = FxHashMap::default();
        let mut rows = self.order.iter().zip(&other.order);
        rows.all(|(here, there)| known.insert(*here, *there).is_none_or(|before| before == *there))
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The kind of a column with these counts of kinds. A few values of another kind do not decide: the reader
/// will say where they are.
fn mostly(counts: [usize; 6], rows: usize) -> Kind {
    let count = |kind: Kind| counts[kind as usize];
    let odd = if rows < 4 { 0 } else { (rows / 20).max(1) };
    let numbers = count(Kind::Whole) + count(Kind::Number);
    match () {
        () if rows == 0 => Kind::Nothing,
        () if numbers + odd >= rows && count(Kind::Number) == 0 => Kind::Whole,
        () if numbers + odd >= rows => Kind::Number,
        () if count(Kind::Date) + odd >= rows => Kind::Date,
        () if count(Kind::Clock) + odd >= rows => Kind::Clock,
        () => Kind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(text: &str) -> Column {
        Column::of(std::iter::once(text.split(' ')), Style::default())
    }

    #[test]
    fn kinds_are_those_of_nearly_all_values() {
        for (text, kind, names) in [
            ("1 2 3 4", Kind::Whole, false),
            ("1 2 3 4 x", Kind::Whole, true),
            ("1 -2 3 4.5", Kind::Number, true),
            ("007 008", Kind::Text, true),
            ("2020-01-01 2020-01-02", Kind::Date, true),
            ("17:30 7:30:05pm", Kind::Clock, true),
            ("NA NA", Kind::Nothing, false),
            ("1 x y 4", Kind::Text, true),
        ] {
            let column = column(text);
            assert_eq!((column.kind, column.names), (kind, names), "{text}");
        }
    }

    #[test]
    fn times_show_their_unit_and_years() {
        assert_eq!(column("5 6").unit(), None);
        assert_eq!(column("1330560000 1330560001.5").unit(), Some(TimeUnit::S));
        assert_eq!(column("1330560000 5").unit(), None);
        assert_eq!(column("1330560000000 1330560000001").unit(), Some(TimeUnit::Ms));
        assert_eq!(column("2020-01-01 noon").unit(), Some(TimeUnit::Date));
        let yearly = ["1990 2020", "1990-01-01 1991-01-01"];
        assert!(yearly.iter().all(|text| column(text).is_yearly()));
        let not = ["1990 2200", "1990.5 1991", "2020-01-01 2020-01-01T05:00", "1990-01-01 1991-02-01"];
        assert!(!not.iter().any(|text| column(text).is_yearly()));
        assert!(column("2020-03 2020-04").is_like_dates() && !column("ann bob").is_like_dates());
    }

    #[test]
    fn order_and_repetition_are_counted() {
        assert!(
            column("1 1 2 3").is_sorted() && !column("3 2 1 1").is_sorted() && !column("1 1").is_sorted()
        );
        assert!(column("4 5 6").counts_rows && !column("4 5 7").counts_rows);
        let (people, classes) = (column("1 2 3 4 1 2"), column("a a b b a a"));
        assert!(people.decides(&classes) && !classes.decides(&people));
        assert!(!people.decides(&column("a a b b b a")));
        assert_eq!(column("1 1 2 1").repeats_with(&column("2 2 3 3")), 0.25);
        assert_eq!(column("1 2 3").likeness(&column("1 2 3")), 1.0);
        assert_eq!(column("1 2").likeness(&column("5 6")), 0.0);
        assert_eq!(column("a b").likeness(&column("b c")), 1.0 / 3.0);
    }
}
