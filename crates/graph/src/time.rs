//! Units of time, dates, and durations as people write them.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What the numbers in a time column count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Seconds, usually since 1970.
    #[default]
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// Minutes.
    M,
    /// Hours.
    H,
    /// Days.
    D,
    /// Nothing in particular: steps, ranks, years scaled to one.
    Step,
    /// Dates as text; they are kept as seconds since 1970.
    Date,
}

/// Every unit by its name.
pub const UNITS: &[(&str, TimeUnit)] = &[
    ("s", TimeUnit::S),
    ("ms", TimeUnit::Ms),
    ("us", TimeUnit::Us),
    ("ns", TimeUnit::Ns),
    ("m", TimeUnit::M),
    ("h", TimeUnit::H),
    ("d", TimeUnit::D),
    ("step", TimeUnit::Step),
    ("date", TimeUnit::Date),
];

impl TimeUnit {
    /// How many of this unit make a second; `None` where the unit is no unit of time.
    pub fn per_second(self) -> Option<f64> {
        match self {
            TimeUnit::S | TimeUnit::Date => Some(1.0),
            TimeUnit::Ms => Some(1e3),
            TimeUnit::Us => Some(1e6),
            TimeUnit::Ns => Some(1e9),
            TimeUnit::M => Some(1.0 / 60.0),
            TimeUnit::H => Some(1.0 / 3600.0),
            TimeUnit::D => Some(1.0 / 86400.0),
            TimeUnit::Step => None,
        }
    }

    /// What times in this unit are.
    pub fn describe(self) -> &'static str {
        match self {
            TimeUnit::S => "seconds",
            TimeUnit::Ms => "milliseconds",
            TimeUnit::Us => "microseconds",
            TimeUnit::Ns => "nanoseconds",
            TimeUnit::M => "minutes",
            TimeUnit::H => "hours",
            TimeUnit::D => "days",
            TimeUnit::Step => "of no known unit",
            TimeUnit::Date => "dates",
        }
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = UNITS.iter().find(|(_, unit)| unit == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for TimeUnit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        UNITS.iter().find(|(name, _)| *name == text).map(|&(_, unit)| unit).ok_or_else(|| {
            let names: Vec<&str> = UNITS.iter().map(|&(name, _)| name).collect();
            Error::settings("--time-unit", format!("found '{text}', expected one of {}", names.join(", ")))
        })
    }
}

/// Seconds since 1970 of a date, with or without a time of day; without an offset it is taken as UTC.
pub fn parse_date(text: &str) -> Option<f64> {
    let seconds = |stamp: Timestamp| stamp.as_microsecond() as f64 / 1e6;
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Some(seconds(stamp));
    }
    let civil =
        text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(|date| date.at(0, 0, 0, 0))).ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| seconds(zoned.timestamp()))
}

/// The date and time in UTC of seconds since 1970.
pub fn civil(seconds: f64) -> Option<DateTime> {
    let stamp = Timestamp::from_second(seconds.floor() as i64).ok().filter(|_| seconds.abs() < 1e12)?;
    Some(stamp.to_zoned(TimeZone::UTC).datetime())
}

/// Units of the calendar, whose lengths differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Calendar {
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight, UTC.
    Day,
    /// From Monday to Monday.
    Week,
    /// Months.
    Month,
    /// Quarters of a year.
    Quarter,
    /// Years.
    Year,
}

/// Every calendar unit by its name.
pub const CALENDAR: &[(&str, Calendar)] = &[
    ("hour", Calendar::Hour),
    ("day", Calendar::Day),
    ("week", Calendar::Week),
    ("month", Calendar::Month),
    ("quarter", Calendar::Quarter),
    ("year", Calendar::Year),
];

impl Calendar {
    /// The number of the unit that holds this second, counted from a fixed one; `None` outside the calendar.
    pub fn index(self, seconds: f64) -> Option<i64> {
        let fixed = |length: f64, shift: f64| Some(((seconds + shift) / length).floor() as i64);
        let month = || civil(seconds).map(|at| i64::from(at.year()) * 12 + i64::from(at.month()) - 1);
        match self {
            Calendar::Hour => fixed(3600.0, 0.0),
            Calendar::Day => fixed(86400.0, 0.0),
            // 1970 began on a Thursday, three days after a Monday.
            Calendar::Week => fixed(604800.0, 3.0 * 86400.0),
            Calendar::Month => month(),
            Calendar::Quarter => month().map(|month| month.div_euclid(3)),
            Calendar::Year => month().map(|month| month.div_euclid(12)),
        }
        .filter(|_| seconds.abs() < 1e12)
    }

    /// The second at which the unit with this number begins.
    pub fn begin(self, index: i64) -> Option<f64> {
        let month = |months: i64| {
            let (year, month) = (i16::try_from(months.div_euclid(12)).ok()?, months.rem_euclid(12) as i8 + 1);
            let date = Date::new(year, month, 1).ok()?;
            date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp().as_second() as f64)
        };
        match self {
            Calendar::Hour => Some(index as f64 * 3600.0),
            Calendar::Day => Some(index as f64 * 86400.0),
            Calendar::Week => Some(index as f64 * 604800.0 - 3.0 * 86400.0),
            Calendar::Month => month(index),
            Calendar::Quarter => month(index * 3),
            Calendar::Year => month(index * 12),
        }
    }
}

/// Splits a duration such as `7d`, `190080s` or `0.5` into its number and its seconds per unit (`None`: no
/// unit given).
pub fn parse_duration(text: &str) -> Option<(f64, Option<f64>)> {
    let cut = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..cut].trim().parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0)?;
    let seconds = match &text[cut..] {
        "" => return Some((number, None)),
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        "w" => 604800.0,
        _ => return None,
    };
    Some((number, Some(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_seconds() {
        assert_eq!(parse_date("1970-01-02"), Some(86400.0));
        assert_eq!(parse_date("1998-11-13T12:07:00"), Some(910958820.0));
        assert_eq!(parse_date("1998-11-13 12:07:00"), Some(910958820.0));
        assert_eq!(parse_date("1998-11-13T12:07:00.5Z"), Some(910958820.5));
        assert_eq!(parse_date("1998-11-13T12:07:00+01:00"), Some(910955220.0));
        for bad in ["", "yesterday", "1998-13-01", "1998", "1e9"] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn calendar_units_begin_where_they_should_and_hold_their_seconds() {
        let christmas = parse_date("2024-12-25T18:00:00").unwrap();
        let expected =
            ["2024-12-25T18:00:00", "2024-12-25", "2024-12-23", "2024-12-01", "2024-10-01", "2024-01-01"];
        for (&(name, unit), begin) in CALENDAR.iter().zip(expected) {
            let index = unit.index(christmas).unwrap();
            assert_eq!(unit.begin(index), parse_date(begin), "{name}");
            assert!(unit.begin(index + 1).unwrap() > christmas);
            assert_eq!(unit.index(unit.begin(index + 1).unwrap()), Some(index + 1));
            assert_eq!(unit.index(1e18), None);
        }
        assert_eq!(Calendar::Month.index(-1.0).unwrap() + 1, Calendar::Month.index(0.0).unwrap());
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        assert_eq!(parse_duration("7d"), Some((7.0, Some(86400.0))));
        assert_eq!(parse_duration("190080s"), Some((190080.0, Some(1.0))));
        assert_eq!(parse_duration("0.5"), Some((0.5, None)));
        for bad in ["", "d", "-1d", "0s", "3 parsecs", "nan", "inf"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
