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

    /// Whether a time in this unit can be meant: within the years -9999 to 9999, or without a unit, where
    /// neighbouring whole numbers can be told apart.
    #[inline]
    pub fn holds(self, time: f64) -> bool {
        match self.per_second() {
            Some(per_second) => (EARLIEST * per_second..LATEST * per_second).contains(&time),
            None => time.abs() <= EXACT,
        }
    }
}

/// Seconds from 1970 to the first that a calendar has, and to the first that it has no more.
const EARLIEST: f64 = -377_705_116_800.0;
const LATEST: f64 = 253_402_300_800.0;

/// Up to here whole numbers are exact.
const EXACT: f64 = (1u64 << 53) as f64;

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

/// In which order a date gives its year, month and day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year, as in the United States.
    Mdy,
    /// Day, month, year, as in Europe.
    Dmy,
    /// Year, month, day, also without anything between them.
    Ymd,
}

/// Every order by its name.
pub const ORDERS: &[(&str, DateOrder)] =
    &[("mdy", DateOrder::Mdy), ("dmy", DateOrder::Dmy), ("ymd", DateOrder::Ymd)];

impl DateOrder {
    /// A date written like this.
    pub fn example(self) -> &'static str {
        match self {
            DateOrder::Mdy => "12/31/2012 5:30 PM",
            DateOrder::Dmy => "31.12.2012 17:30",
            DateOrder::Ymd => "20121231 or 2012/12/31",
        }
    }
}

impl fmt::Display for DateOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ORDERS.iter().find(|(_, order)| order == self).map_or("", |(name, _)| name))
    }
}

impl FromStr for DateOrder {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        ORDERS.iter().find(|(name, _)| *name == text).map(|&(_, order)| order).ok_or_else(|| {
            Error::settings("--dates", format!("found '{text}', expected one of mdy, dmy, ymd"))
        })
    }
}

/// Seconds since 1970 of a date that begins with its year, with or without a time of day; without an offset
/// it is taken as UTC. Digits alone are no date: they may count anything.
pub fn parse_date(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { None } else { parse_iso(text).or_else(|| parse_ordered(text, DateOrder::Ymd)) }
}

/// As [`parse_date`], but dates that are not ISO 8601 have their year, month and day in this order.
pub fn parse_date_as(text: &str, order: DateOrder) -> Option<f64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let iso = if is_number { None } else { parse_iso(text) };
    iso.or_else(|| parse_ordered(text, order))
}

fn parse_iso(text: &str) -> Option<f64> {
    let seconds = |stamp: Timestamp| stamp.as_microsecond() as f64 / 1e6;
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Some(seconds(stamp));
    }
    let civil =
        text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(|date| date.at(0, 0, 0, 0))).ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| seconds(zoned.timestamp()))
}

/// Three numbers with one of `/`, `.` and `-` between them, or eight digits where the year is first; then
/// perhaps a time of day, AM or PM, and an offset.
fn parse_ordered(text: &str, order: DateOrder) -> Option<f64> {
    let (date, clock) = text.split_once([' ', 'T']).map_or((text, ""), |(date, clock)| (date, clock.trim()));
    let between = date.chars().find(|c| !c.is_ascii_digit());
    let parts: Vec<&str> = match (between, order) {
        (Some(between @ ('/' | '.' | '-')), _) => date.split(between).collect(),
        (None, DateOrder::Ymd) if date.len() == 8 => vec![&date[..4], &date[4..6], &date[6..]],
        _ => return None,
    };
    let &[first, second, third] = parts.as_slice() else { return None };
    let (year, month, day) = match order {
        DateOrder::Mdy => (third, first, second),
        DateOrder::Dmy => (third, second, first),
        DateOrder::Ymd => (first, second, third),
    };
    let short = |part: &str| part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if year.len() != 4 || !short(month) || !short(day) {
        return None;
    }
    let date = Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()?;
    if clock.is_empty() {
        return parse_iso(&date.to_string());
    }
    let clock = clock.to_ascii_uppercase();
    let clock = clock.strip_suffix(" UTC").or(clock.strip_suffix(" GMT")).unwrap_or(&clock);
    let (clock, half) = match (clock.strip_suffix("AM"), clock.strip_suffix("PM")) {
        (Some(clock), _) => (clock, Some(0)),
        (_, Some(clock)) => (clock, Some(12)),
        _ => (clock, None),
    };
    let (hour, rest) = clock.trim().split_once(':')?;
    let hour: u8 = hour.parse().ok()?;
    let hour = match half {
        None => hour,
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
    };
    parse_iso(&format!("{date}T{hour:02}:{}", rest.replace(" +", "+").replace(" -", "-")))
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
        assert_eq!(parse_date("1998-11-13 12:07:00 UTC"), Some(910958820.0));
        assert_eq!(parse_date("1998-11-13 12:07:00 +0100"), Some(910955220.0));
        assert_eq!(parse_date("1998-11-13 12:07"), Some(910958820.0));
        assert_eq!(parse_date("1998/11/13 12:07"), Some(910958820.0));
        assert_eq!(parse_date("1970/1/2"), Some(86400.0));
        for bad in ["", "yesterday", "1998-13-01", "1998", "1e9", "01/02/1970", "19981113", "1.2.3", "-"] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn other_dates_are_read_in_the_order_named() {
        let day = |text: &str| parse_date(text);
        for (text, [mdy, dmy, ymd]) in [
            ("01/02/2020", [day("2020-01-02"), day("2020-02-01"), None]),
            ("13.2.2020", [None, day("2020-02-13"), None]),
            ("12-31-2012 5:30 PM", [day("2012-12-31T17:30:00"), None, None]),
            ("12/31/2012 12:30:05am", [day("2012-12-31T00:30:05"), None, None]),
            ("31.12.2012 17:30+01:00", [None, day("2012-12-31T16:30:00"), None]),
            ("20121231", [None, None, day("2012-12-31")]),
            ("2012/12/31", [None, None, day("2012-12-31")]),
            ("2012-12-31", [day("2012-12-31"); 3]),
            ("31/12/12", [None; 3]),
            ("12/31/2012 13:30 PM", [None; 3]),
            ("12/31/2012 25:00", [None; 3]),
            ("02/30/2012", [None; 3]),
            ("20121231x", [None; 3]),
        ] {
            let found = [DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd].map(|o| parse_date_as(text, o));
            assert_eq!(found, [mdy, dmy, ymd], "{text}");
        }
    }

    #[test]
    fn times_end_where_the_calendar_does() {
        assert_eq!(parse_iso("9999-12-30").unwrap() + 2.0 * 86400.0, LATEST);
        assert_eq!(parse_iso("-009999-01-03").unwrap() - 2.0 * 86400.0, EARLIEST);
        for &(name, unit) in UNITS {
            let last = unit.per_second().map_or(EXACT, |per_second| (LATEST - 1.0) * per_second);
            assert!(unit.holds(last) && unit.holds(-last) && unit.holds(0.0), "{name}");
            assert!(!unit.holds(2.0 * last) && !unit.holds(-2.0 * last) && !unit.holds(9e99), "{name}");
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
