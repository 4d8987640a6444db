//! Numbers as people read them: short, with a unit.

/// A count: `812`, `12.3 k`, `4.5 M`.
pub fn count(value: f64) -> String {
    scaled(value, &["", "k", "M", "G", "T", "P"])
}

/// Bytes: `812 B`, `1.2 GiB`.
pub use kymo_plan::plan::readable as bytes;

/// A share of one: `12.3 %`.
pub fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

/// A whole number, exact: `1,417,485`.
pub fn exact(value: u64) -> String {
    let digits = value.to_string();
    let comma = |(index, digit): (usize, char)| {
        let before = index > 0 && (digits.len() - index).is_multiple_of(3);
        before.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

/// A number with its noun: `1 step`, `12,345 steps`.
pub fn plural(value: u64, [one, many]: [&str; 2]) -> String {
    format!("{} {}", exact(value), if value == 1 { one } else { many })
}

/// The value in the first unit in which it is below a thousand, with a decimal unless it is whole there.
fn scaled(value: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    // What counts is what is printed: 999,999 is 1.0 M, not 1000.0 k.
    while unit + 1 < units.len() && round(value).abs() >= 1000.0 {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 || value.fract() != 0.0);
    format!("{value:.decimals$} {}", units[unit]).trim_end().to_owned()
}

fn round(value: f64) -> f64 {
    (10.0 * value).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        let cases = [
            (0.0, "0"),
            (7.0, "7"),
            (7.25, "7.2"),
            (999.0, "999"),
            (999.97, "1.0 k"),
            (1000.0, "1.0 k"),
            (12_345.0, "12.3 k"),
            (999_999.0, "1.0 M"),
            (4_500_000.0, "4.5 M"),
            (-12_345.0, "-12.3 k"),
            (2e18, "2000.0 P"),
        ];
        for (value, text) in cases {
            assert_eq!(count(value), text);
        }
    }

    #[test]
    fn shares_and_nouns() {
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(plural(1, ["step", "steps"]), "1 step");
        assert_eq!(plural(0, ["step", "steps"]), "0 steps");
        assert_eq!(plural(12_345, ["edge", "edges"]), "12,345 edges");
    }
}
