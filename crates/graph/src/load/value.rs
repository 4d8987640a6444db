//! Numbers as they are written, and what to say of those that cannot be read.

use crate::time::{DateOrder, ORDERS, parse_date_as};

/// How numbers and dates are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether a comma stands before the decimals.
    pub decimal_comma: bool,
    /// The order of day, month and year in dates; `None` for ISO 8601.
    pub dates: Option<DateOrder>,
}

impl Style {
    /// The number written here, if it is one and finite.
    #[inline]
    pub fn number(self, text: &[u8]) -> Option<f64> {
        if let Some(whole) = digits(text).filter(|&whole| whole < 1 << 53) {
            return Some(whole as f64);
        }
        let text = std::str::from_utf8(text).ok()?;
        let parsed = match self.decimal_comma {
            false => text.parse::<f64>(),
            true if text.contains('.') => return None,
            true => text.replace(',', ".").parse(),
        };
        parsed.ok().filter(|number| number.is_finite())
    }

    /// What to do about a number that cannot be read, where that can be told from its looks.
    pub fn advice(self, text: &[u8]) -> &'static str {
        let text = String::from_utf8_lossy(text);
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let unsigned = plain.trim_start_matches(['+', '-']);
        let grouped = |mark: char, decimal: char| {
            let whole = unsigned.split_once(decimal).map_or(unsigned, |(whole, _)| whole);
            let mut groups = whole.split(mark);
            let is_digits = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
            groups.next().is_some_and(|first| is_digits(first) && first.len() <= 3)
                && whole.contains(mark)
                && groups.all(|group| is_digits(group) && group.len() == 3)
        };
        if is_missing(text.as_bytes()) {
            "; the value is missing: fill it in or leave the row out"
        } else if plain.contains(['$', '€', '£', '¥', '₹']) {
            "; take off the currency sign"
        } else if plain.contains('%') {
            "; take off the percent sign"
        } else if !self.decimal_comma && plain.matches(',').count() == 1 && comma(&plain) {
            "; where the comma stands before the decimals pass --decimal comma, where it separates thousands \
             take it off"
        } else if grouped(',', '.')
            || grouped('.', ',')
            || grouped('\'', '.')
            || text.trim().contains(' ') && !plain.contains(char::is_alphabetic)
        {
            "; take off what separates the thousands"
        } else if self.decimal_comma && plain.contains('.') {
            "; --decimal comma says that decimals follow a comma"
        } else {
            ""
        }
    }
}

/// Whether this would be a number if its comma were a point.
fn comma(text: &str) -> bool {
    text.replace(',', ".").parse::<f64>().is_ok()
}

/// What stands where there is no value.
pub fn is_missing(text: &[u8]) -> bool {
    let words: &[&[u8]] = &[
        b"", b"-", b"NA", b"N/A", b"n/a", b"#N/A", b"<NA>", b"nan", b"NaN", b"NAN", b"null", b"NULL",
        b"Null", b"None", b"NaT",
    ];
    text.len() <= 4 && words.contains(&text)
}

/// The option that would read this date, if it is one that is not ISO 8601.
pub fn date_advice(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let fits = ORDERS.iter().filter(|&&(_, order)| parse_date_as(text, order).is_some());
    let options: Vec<String> = fits.map(|(name, _)| format!("--dates {name}")).collect();
    (!options.is_empty()).then(|| format!("; for a date pass {}", options.join(" or ")))
}

/// A whole number without sign, or `None` where there is something else or too much of it.
#[inline]
pub fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value: u64 = 0;
    if text.len() < 20 {
        // Nineteen digits cannot overflow: the check per digit is only for what is not a digit.
        for &byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_comma_is_read_where_it_is_announced() {
        let (point, comma) = (Style::default(), Style { decimal_comma: true, ..Style::default() });
        for (text, with_point, with_comma) in [
            ("3.5", Some(3.5), None),
            ("3,5", None, Some(3.5)),
            ("-1,25e3", None, Some(-1250.0)),
            ("7", Some(7.0), Some(7.0)),
            ("1.234,5", None, None),
            ("1,2,3", None, None),
            ("inf", None, None),
        ] {
            assert_eq!(point.number(text.as_bytes()), with_point, "{text}");
            assert_eq!(comma.number(text.as_bytes()), with_comma, "{text}");
        }
    }

    #[test]
    fn advice_fits_what_is_written() {
        let (point, comma) = (Style::default(), Style { decimal_comma: true, ..Style::default() });
        for (style, text, expected) in [
            (point, "3,5", "--decimal comma"),
            (point, "1,234", "--decimal comma"),
            (point, "1,234.5", "thousands"),
            (point, "1.234.567", "thousands"),
            (point, "1'234", "thousands"),
            (point, "1 234", "thousands"),
            (comma, "1.234,5", "thousands"),
            (comma, "3.5", "decimals follow a comma"),
            (point, "$3.5", "currency"),
            (point, "3,50 €", "currency"),
            (point, "12%", "percent"),
            (point, "NA", "missing"),
            (point, "", "missing"),
        ] {
            assert!(style.advice(text.as_bytes()).contains(expected), "{text}");
        }
        assert_eq!(point.advice(b"x"), "");
    }
}
