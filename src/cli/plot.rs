//! Small plots made of text.

/// Blocks from low to high.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One line: the values from their lowest to their highest in `width` characters.
///
/// Many values are drawn as means of neighbours, few at the right end, so that lines that end with the same
/// step are aligned. Empty where there is no value.
pub fn sparkline(values: &[f64], width: usize, label: impl Fn(f64) -> String) -> String {
    let Some((low, high)) = range(values) else { return String::new() };
    // Values that read the same are drawn the same, in the middle: their differences would look larger than
    // they are.
    let flat = label(low) == label(high);
    let block = |value: f64| {
        let level = if flat { 3.0 } else { (value - low) / (high - low) * 7.0 };
        BLOCKS[(level.round() as usize).min(7)]
    };
    let line: String = resampled(values, width).into_iter().map(block).collect();
    format!("{line:>width$}")
}

/// The lowest and the highest value as `label` writes them. Empty where there is no value.
pub fn between(values: &[f64], label: impl Fn(f64) -> String) -> String {
    range(values).map(|(low, high)| format!("{} to {}", label(low), label(high))).unwrap_or_default()
}

/// An area of `height` rows in at most `width` columns, with zero in its range, labels for the top, the
/// middle and the bottom on the left, and the two `ends` of the values below. Many values are drawn as means
/// of neighbours. Empty where there is no value.
pub fn chart(
    values: &[f64],
    [width, height]: [usize; 2],
    label: impl Fn(f64) -> String,
    ends: [&str; 2],
) -> String {
    let mut room = width;
    // Fewer columns are other means, whose labels may be wider.
    let (columns, low, high, names, margin) = loop {
        let columns = resampled(values, room);
        let Some((low, high)) = range(&columns) else { return String::new() };
        let (low, high) = (low.min(0.0), high.max(0.0));
        let names = [label(high), label((low + high) / 2.0), label(low)];
        let margin = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        if margin + 2 + columns.len() <= width || room <= 1 {
            break (columns, low, high, names, margin);
        }
        room = width.saturating_sub(margin + 2).clamp(1, room - 1);
    };
    // Eighths of a row from the bottom of the chart to the value.
    let eighths =
        |value: f64| if high > low { (value - low) / (high - low) * 8.0 * height as f64 } else { 0.0 };
    let levels: Vec<usize> = columns.iter().map(|&value| eighths(value).round() as usize).collect();
    let mut text = String::new();
    for row in (0..height).rev() {
        let name = match row {
            row if row + 1 == height => &names[0],
            row if row == height / 2 => &names[1],
            0 => &names[2],
            _ => "",
        };
        let line: String = levels
            .iter()
            .map(|level| match level.saturating_sub(8 * row) {
                0 => ' ',
                eighths => BLOCKS[eighths.min(8) - 1],
            })
            .collect();
        let axis = if name.is_empty() { '│' } else { '┤' };
        text.push_str(format!("{name:>margin$} {axis}{line}").trim_end());
        text.push('\n');
    }
    let [first, last] = ends;
    let (rule, gap) = ("─".repeat(columns.len()), columns.len().saturating_sub(first.chars().count()));
    text.push_str(&format!("{:margin$} └{rule}\n{:margin$}  {first}", "", ""));
    if columns.len() > 1 {
        // Where both ends do not fit under the line they stand side by side.
        text.push_str(&format!(" {last:>width$}", width = gap.saturating_sub(1)));
    }
    text.push('\n');
    text
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let all = values.iter().copied();
    Some((all.clone().reduce(f64::min)?, all.reduce(f64::max)?))
}

/// At most `width` values: the means of neighbours.
fn resampled(values: &[f64], width: usize) -> Vec<f64> {
    let width = width.clamp(1, values.len().max(1));
    (0..width)
        .map(|at| &values[at * values.len() / width..(at + 1) * values.len() / width])
        .filter(|piece| !piece.is_empty())
        .map(|piece| piece.iter().sum::<f64>() / piece.len() as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(value: f64) -> String {
        format!("{value:.0}")
    }

    #[test]
    fn a_sparkline_goes_from_the_lowest_to_the_highest() {
        let values: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(sparkline(&values, 9, whole), " ▁▂▃▄▅▆▇█");
        assert_eq!(between(&values, whole), "0 to 7");
        assert_eq!(sparkline(&[5.0; 3], 3, whole), "▄▄▄");
        assert_eq!(sparkline(&[5.1, 5.2, 5.3], 3, whole), "▄▄▄");
        assert_eq!(sparkline(&[-1.0], 1, whole), "▄");
        assert_eq!([sparkline(&[], 40, whole), between(&[], whole)], ["", ""]);
    }

    #[test]
    fn a_long_line_is_made_of_means() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i / 500)).collect();
        assert_eq!(sparkline(&values, 6, whole), "▁▁▁███");
        assert_eq!(resampled(&[1.0, 2.0, 3.0, 4.0, 6.0], 2), [1.5, 13.0 / 3.0]);
        assert_eq!(resampled(&[1.0, 2.0], 0), [1.5]);
        assert!(resampled(&[], 3).is_empty());
    }

    #[test]
    fn a_chart_has_an_area_and_two_axes() {
        let drawn = chart(&[0.0, 25.0, 50.0, 100.0], [40, 4], whole, ["a", "b"]);
        let expected = "\
                        100 ┤   █
 50 ┤   █
    │  ██
  0 ┤ ███
    └────
     a  b
";
        assert_eq!(drawn, expected);
    }

    #[test]
    fn a_chart_fits_its_columns() {
        let values: Vec<f64> = (0..500).map(|i| f64::from(i * i)).collect();
        for width in [16, 24, 40, 80, 200] {
            let drawn = chart(&values, [width, 6], whole, ["a", "b"]);
            let widest = drawn.lines().map(|line| line.chars().count()).max();
            assert_eq!(widest, Some(width), "the room is used, and no more:\n{drawn}");
        }
        assert!(chart(&values, [3, 2], whole, ["a", "b"]).contains('█'), "a column is left in the end");
    }

    #[test]
    fn charts_of_little_have_a_shape_too() {
        assert_eq!(chart(&[], [40, 6], whole, ["a", "b"]), "");
        let flat = chart(&[0.0; 3], [40, 6], whole, ["2004", "2016"]);
        assert_eq!(flat.lines().count(), 8);
        assert!(!flat.contains('█') && flat.ends_with("2004 2016\n"));
        assert!(chart(&[7.0], [40, 6], whole, ["a", "b"]).ends_with("  a\n"));
        let below = chart(&[-4.0, -2.0], [40, 6], whole, ["a", "b"]);
        assert!(below.starts_with(" 0 ┤") && below.contains("-4 ┤"));
    }
}
