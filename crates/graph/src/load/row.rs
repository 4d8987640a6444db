//! A line cut into fields: numbers, times and vertices, with errors that say where.

pub use super::line::{Fields, Line, Lines};
pub use super::separator::Separator;
pub use super::value::{Style, digits};

use super::carried::FEATURE;
use super::value::{date_advice, is_missing};
use crate::error::{Error, Place, Result, listed, shortened};
use crate::load::intake::MOST_STEPS;
use crate::snapshot::Step;
use crate::time::{TimeUnit, parse_date, parse_date_as};

/// A line cut into fields.
#[derive(Clone, Copy)]
pub struct Row<'a, 'f> {
    pub(super) line: Line<'a>,
    pub(super) text: &'a [u8],
    pub(super) separator: Separator,
    pub(super) bounds: &'f [(usize, usize)],
    pub(super) style: Style,
}

impl<'a> Row<'a, '_> {
    /// How many fields there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// The field at `index`, without blanks around it; empty where the row is too short.
    #[inline]
    pub fn field(&self, index: usize) -> &'a [u8] {
        let &(start, end) = self.bounds.get(index).unwrap_or(&(0, 0));
        &self.text[start..end]
    }

    /// All fields.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (0..self.len()).map(|index| self.field(index))
    }

    /// All fields as text, for headers.
    pub fn texts(&self) -> Vec<String> {
        self.fields().map(|field| String::from_utf8_lossy(field).into_owned()).collect()
    }

    /// Fails unless the row has as many fields as `columns`, or at least that number.
    #[inline]
    pub fn has_columns<S: AsRef<str>>(&self, columns: &[S], exact: bool) -> Result<()> {
        if self.len() == columns.len() || !exact && self.len() > columns.len() {
            return Ok(());
        }
        Err(self.unexpected(columns, exact))
    }

    #[cold]
    fn unexpected<S: AsRef<str>>(&self, columns: &[S], exact: bool) -> Error {
        let least = if exact { "" } else { "at least " };
        self.line.error(format!(
            "found {} field(s) {}, expected {least}{}: {}",
            self.len(),
            self.separator.describe(),
            columns.len(),
            listed(columns)
        ))
    }

    /// A complaint about the whole row.
    pub fn problem(&self, problem: impl Into<String>) -> Error {
        self.line.error(problem)
    }

    /// A complaint about the field at `index`, the column called `name`.
    #[cold]
    pub fn error(&self, index: usize, name: &str, expected: &str) -> Error {
        let found = shortened(&String::from_utf8_lossy(self.field(index)));
        let place = Place::line(self.line.file, self.line.number).column(format!("{} ({name})", index + 1));
        let found = if found.is_empty() { "nothing".into() } else { format!("'{found}'") };
        Error::input(place, format!("found {found}, expected {expected}"))
    }

    /// Whether the field at `index` says that there is no value. One in quotes is a text.
    #[inline]
    pub fn is_missing(&self, index: usize) -> bool {
        let &(start, _) = self.bounds.get(index).unwrap_or(&(0, 0));
        let field = self.field(index);
        field.is_empty() || is_missing(field) && !self.text[..start].ends_with(b"\"")
    }

    /// A vertex id: a whole number from 0.
    #[inline]
    pub fn id(&self, index: usize, name: &str) -> Result<u64> {
        let text = self.field(index);
        digits(text).ok_or_else(|| {
            let whole = text.strip_prefix(b"-").unwrap_or(text);
            let number = !whole.is_empty() && whole.iter().all(u8::is_ascii_digit);
            let expected = match (number, whole.len() == text.len()) {
                _ if self.is_missing(index) => return self.missing_vertex(index, name),
                (true, false) => "a vertex id, which cannot be negative (for names pass --ids text)",
                (true, true) => "a vertex id below 2^64 (for longer names pass --ids text)",
                _ => "a vertex id, a whole number from 0 (for names pass --ids text)",
            };
            self.error(index, name, expected)
        })
    }

    /// A complaint about a field without the vertex that should be in it.
    #[cold]
    pub fn missing_vertex(&self, index: usize, name: &str) -> Error {
        let expected = match self.field(index) {
            b"" => "a vertex id or name; fill it in or leave the row out",
            _ => {
                "a vertex id or name, but this says that there is none; leave the row out, or put it \
                  in quotes if it is a name"
            }
        };
        self.error(index, name, expected)
    }

    /// A finite number.
    #[inline]
    pub fn number(&self, index: usize, name: &str) -> Result<f64> {
        self.style.number(self.field(index)).ok_or_else(|| self.not_a_number(index, name))
    }

    #[cold]
    fn not_a_number(&self, index: usize, name: &str) -> Error {
        let way_out = match name {
            "weight" if is_missing(self.field(index)) => " (--weight none or count reads no weights)",
            FEATURE => " (--edge-features says which columns are read as features, or none)",
            _ => "",
        };
        let advice = self.style.advice(self.field(index));
        self.error(index, name, &format!("a finite number{advice}{way_out}"))
    }

    /// A finite number that fits the precision weights and features are kept in.
    #[inline]
    pub fn value(&self, index: usize, name: &str) -> Result<f32> {
        let value = self.number(index, name)? as f32;
        if value.is_finite() { Ok(value) } else { Err(self.error(index, name, "a number below 3.4e38")) }
    }

    /// A class of its own number: a whole number from 0 below `end`; `None` for -1, which is no class.
    pub fn class(&self, index: usize, name: &str, end: u32) -> Result<Option<u32>> {
        let number = self.style.number(self.field(index)).filter(|number| number.fract() == 0.0);
        match number {
            Some(-1.0) => Ok(None),
            Some(class) if (0.0..f64::from(end)).contains(&class) => Ok(Some(class as u32)),
            _ => {
                let expected = format!("a class, a whole number from 0 and below {end}, or -1 for none");
                Err(self.error(index, name, &expected))
            }
        }
    }

    /// The number of a step.
    #[inline]
    pub fn step(&self, index: usize, name: &str) -> Result<Step> {
        let step = digits(self.field(index)).and_then(|step| Step::try_from(step).ok());
        step.filter(|&step| step < MOST_STEPS).ok_or_else(|| {
            self.error(index, name, &format!("a step, a whole number from 0 and below {MOST_STEPS}"))
        })
    }

    /// A time in the given unit: a number, or a date where the unit says so.
    #[inline]
    pub fn time(&self, index: usize, name: &str, unit: TimeUnit) -> Result<f64> {
        let text = self.field(index);
        let time = match unit {
            TimeUnit::Date => std::str::from_utf8(text).ok().and_then(|text| match self.style.dates {
                Some(order) => parse_date_as(text, order),
                None => parse_date(text),
            }),
            _ => self.style.number(text).filter(|&time| unit.holds(time)),
        };
        time.ok_or_else(|| self.not_a_time(index, name, unit))
    }

    #[cold]
    fn not_a_time(&self, index: usize, name: &str, unit: TimeUnit) -> Error {
        let text = self.field(index);
        let number = self.style.number(text);
        let advice = match self.style.dates {
            None => date_advice(text),
            Some(_) => None,
        };
        let expected = match (unit, number) {
            (TimeUnit::Date, _) if is_missing(text) => "a date; it is missing: leave the row out".into(),
            (TimeUnit::Date, _) => match self.style.dates {
                Some(order) => format!("a date such as {} (--dates {order})", order.example()),
                None => "a date such as 2012-03-01 or 2012-03-01T17:30:00Z".into(),
            },
            (TimeUnit::Step, Some(_)) => "a time of at most 2^53, above which numbers are not exact".into(),
            (_, Some(_)) => format!(
                "a time between the years -9999 and 9999, which this is not in the unit {unit}; if it counts \
                 something else, pass --time-unit"
            ),
            (_, None) if advice.is_some() => "a finite number".into(),
            (_, None) => format!("a finite number{}", self.style.advice(text)),
        };
        self.error(index, name, &format!("{expected}{}", advice.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::*;

    #[test]
    fn numbers_are_refused_with_their_place() {
        let mut source =
            Source::from_bytes("f.txt", "-3 99999999999999999999 x 1e400 nan 18446744073709551615".into())
                .unwrap();
        let (mut lines, mut fields) = (Lines::new(&mut source), Fields::default());
        let row = lines.line().unwrap().unwrap().split(Separator::Blank, &mut fields);
        let texts: Vec<String> = [
            row.id(0, "source").unwrap_err().to_string(),
            row.id(1, "source").unwrap_err().to_string(),
            row.id(2, "target").unwrap_err().to_string(),
            row.number(3, "time").unwrap_err().to_string(),
            row.number(4, "time").unwrap_err().to_string(),
        ]
        .into();
        assert!(
            texts[0].starts_with(
                "f.txt, line 1, column 1 (source): found '-3', expected a vertex id, which cannot"
            )
        );
        assert!(texts[1].contains("below 2^64"));
        assert!(texts[2].contains("a whole number from 0"));
        assert!(texts[3].ends_with("column 4 (time): found '1e400', expected a finite number"));
        assert!(texts[4].contains("found 'nan'"));
        assert_eq!(row.id(5, "source").unwrap(), u64::MAX);
    }

    /// What reading the only field of a row says.
    fn said<T: std::fmt::Debug>(
        text: impl Into<String>,
        style: Style,
        read: impl Fn(&Row<'_, '_>) -> Result<T>,
    ) -> String {
        let mut source = Source::from_bytes("f", text.into().into()).unwrap();
        let (mut lines, mut fields) = (Lines::new(&mut source), Fields::new(style));
        let line = lines.line().unwrap().unwrap();
        match read(&line.split(Separator::Byte(b';'), &mut fields)) {
            Ok(value) => format!("{value:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn times_are_bounded_by_their_unit() {
        let time = |text, unit| said(text, Style::default(), |row| row.time(0, "time", unit));
        for (text, unit, expected) in [
            (
                "9e99",
                TimeUnit::S,
                "f, line 1, column 1 (time): found '9e99', expected a time between the years",
            ),
            ("-1e12", TimeUnit::S, "pass --time-unit"),
            ("1700000000000", TimeUnit::S, "in the unit s; if it counts something else, pass --time-unit"),
            ("20240101", TimeUnit::D, "for a date pass --dates ymd"),
            ("9007199254740994", TimeUnit::Step, "at most 2^53"),
            ("253402300800", TimeUnit::S, "between the years"),
            (
                "01/02/2020",
                TimeUnit::S,
                "expected a finite number; for a date pass --dates mdy or --dates dmy",
            ),
            ("13.02.2020 17:30", TimeUnit::S, "a finite number; for a date pass --dates dmy"),
            ("13/02/2020", TimeUnit::Date, "2012-03-01T17:30:00Z; for a date pass --dates dmy"),
            ("NA", TimeUnit::S, "the value is missing"),
            ("null", TimeUnit::Date, "it is missing"),
            ("3,5", TimeUnit::S, "--decimal comma"),
        ] {
            let said = time(text, unit);
            assert!(said.contains("column 1 (time): found") && said.contains(expected), "{text}: {said}");
        }
        for (text, unit) in [
            ("253402300799", TimeUnit::S),
            ("1700000000000", TimeUnit::Ms),
            ("1700000000000000000", TimeUnit::Ns),
            ("-62135596800", TimeUnit::S),
            ("9007199254740992", TimeUnit::Step),
            ("738000", TimeUnit::D),
        ] {
            assert_eq!(time(text, unit).parse::<f64>().ok(), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn dates_are_read_in_the_order_the_user_names() {
        let mdy = Style { dates: Some(crate::time::DateOrder::Mdy), ..Style::default() };
        let time = |text| said(text, mdy, |row| row.time(0, "time", TimeUnit::Date));
        assert_eq!(time("01/02/1970"), "86400.0");
        assert!(time("13/02/1970").contains("expected a date such as 12/31/2012 5:30 PM (--dates mdy)"));
    }

    #[test]
    fn classes_are_whole_numbers_of_a_sensible_size() {
        let class =
            |text: &str| said(text.to_owned() + "\n", Style::default(), |row| row.class(0, "label", 10));
        for (text, expected) in [("9", "Some(9)"), ("0.0", "Some(0)"), ("-1", "None"), ("-1.0", "None")] {
            assert_eq!(class(text), expected, "{text}");
        }
        for text in ["1.9", "10", "4294967295", "-2", "", "nan", "x"] {
            assert!(class(text).contains("column 1 (label)"), "{text}");
            assert!(class(text).contains("a class, a whole number from 0 and below 10"), "{text}");
        }
    }

    #[test]
    fn missing_values_are_named_unless_quotes_say_that_they_are_texts() {
        let missing = |text| said(text, Style::default(), |row| Ok(row.is_missing(0)));
        for text in ["", " ;1", "NA", "nan", "null", "None", "-", "NA;\"x\""] {
            assert_eq!(missing(text.to_owned() + "\n"), "true", "{text}");
        }
        for text in ["\"NA\"", "1;\"NA\"", "Nan", "NAB", "0", "--"] {
            assert_eq!(missing(text.to_owned() + "\n"), "false", "{text}");
        }
        let weight = said("NA", Style::default(), |row| row.value(0, "weight"));
        assert!(weight.contains("the value is missing") && weight.contains("--weight none"), "{weight}");
        let id = said("null", Style::default(), |row| row.id(0, "source"));
        assert!(id.contains("column 1 (source): found 'null', expected a vertex id or name"), "{id}");
    }
}
