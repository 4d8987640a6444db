//! Text that fits into a number of columns: prose is wrapped, tables are folded.

/// The text with lines of at most `columns` characters. Tables that are wider are folded into blocks that
/// repeat the first column, charts (their lines end with a bar) are cut, and other lines are wrapped with
/// their indentation.
pub fn fit(text: &str, columns: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (mut fitted, mut at) = (String::new(), 0);
    while at < lines.len() {
        let rows = lines[at..].iter().take_while(|line| is_row(line) && !line.ends_with('|')).count();
        if rows > 1 {
            fold(&lines[at..at + rows], columns, &mut fitted);
            at += rows;
        } else if lines[at].ends_with('|') && lines[at].chars().count() > columns {
            fitted.extend(lines[at].chars().take(columns - 1).chain("…\n".chars()));
            at += 1;
        } else {
            let indent = lines[at].chars().take_while(|&c| c == ' ').count();
            wrap(lines[at], columns, indent.min(columns / 2), &mut fitted);
            at += 1;
        }
    }
    if !text.ends_with('\n') {
        fitted.pop();
    }
    fitted
}

/// Whether a line has three cells or more, with two blanks or more between them.
fn is_row(line: &str) -> bool {
    line.split("  ").filter(|cell| !cell.trim().is_empty()).count() > 2
}

/// Appends a line, in pieces of at most `columns` characters; all but the first are indented.
pub fn wrap(line: &str, columns: usize, indent: usize, text: &mut String) {
    let mut rest: Vec<char> = line.chars().collect();
    let mut margin = 0;
    while margin + rest.len() > columns {
        let room = columns.saturating_sub(margin).max(1);
        // The blanks that a line begins with are no place to break it.
        let words = rest.iter().take_while(|&&c| c == ' ').count();
        let blank = rest[..=room].iter().rposition(|&c| c == ' ').filter(|&blank| blank > words);
        // A word that is longer than a line is cut.
        let end = blank.unwrap_or(room);
        push(text, margin, &rest[..end]);
        let next = end + rest[end..].iter().take_while(|&&c| c == ' ').count();
        (rest, margin) = (rest.split_off(next), indent);
    }
    push(text, margin, &rest);
}

fn push(text: &mut String, margin: usize, piece: &[char]) {
    let line: String = std::iter::repeat_n(' ', margin).chain(piece.iter().copied()).collect();
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Appends the rows of a table.
fn fold(rows: &[&str], columns: usize, text: &mut String) {
    let cells: Vec<Vec<char>> = rows.iter().map(|row| row.chars().collect()).collect();
    let width = cells.iter().map(Vec::len).max().unwrap_or(0);
    if width <= columns {
        rows.iter().for_each(|row| text.push_str(&format!("{row}\n")));
        return;
    }
    let is_blank = |at: usize| cells.iter().all(|row| row.get(at).is_none_or(|&c| c == ' '));
    // A column ends where two blanks or more begin in all rows; these belong to the next column.
    let ends = |&at: &usize| at + 1 < width && !is_blank(at - 1) && is_blank(at) && is_blank(at + 1);
    let mut edges = vec![0];
    edges.extend((1..width).filter(ends));
    edges.push(width);
    let first = edges[1];
    let mut begin = 1;
    while begin < edges.len() - 1 {
        // At least one column, however wide.
        let fits = |&end: &usize| first + edges[end] - edges[begin] <= columns;
        let end = (begin + 1..edges.len()).take_while(fits).last().unwrap_or(begin + 1);
        if begin > 1 {
            text.push('\n');
        }
        for row in &cells {
            let piece = |from: usize, to: usize| (from..to).map(|at| row.get(at).copied().unwrap_or(' '));
            let line: Vec<char> = piece(0, first).chain(piece(edges[begin], edges[end])).collect();
            push(text, 0, &line);
        }
        begin = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn prose_is_wrapped_at_words_and_keeps_its_indentation() {
        assert_eq!(fit("one two three\n", 7), "one two\nthree\n");
        assert_eq!(fit("one two three", 9), "one two\nthree");
        assert_eq!(fit("  one two", 6), "  one\n  two");
        assert_eq!(fit("short\n\nlines\n", 20), "short\n\nlines\n");
        assert_eq!(fit("abcdefgh ij\n", 4), "abcd\nefgh\nij\n", "a word that is too long is cut");
        assert_eq!(fit("", 4), "");
    }

    #[test]
    fn a_table_is_folded_between_its_columns() {
        let table = "name   one  two  three\nab       1   22    333\n";
        assert_eq!(fit(table, 22), table);
        assert_eq!(fit(table, 21), "name   one  two\nab       1   22\n\nname  three\nab      333\n");
        assert_eq!(
            fit(table, 5),
            "name   one\nab       1\n\nname  two\nab     22\n\nname  three\nab      333\n"
        );
    }

    #[test]
    fn a_chart_is_cut() {
        assert_eq!(fit("worker 0 |[1  ]..|\nworker 1 |[2]|\n", 14), "worker 0 |[1 …\nworker 1 |[2]|\n");
    }

    #[test]
    fn no_word_is_lost_at_any_width() {
        let text = "a table:\n x  y1  z22\n 1   2    3\nand prose that goes on for a while, 6 words\n";
        // Folding repeats the first column.
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
        for columns in 10..60 {
            let fitted = fit(text, columns);
            assert!(fitted.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{fitted}");
            assert_eq!(words(&fitted), words(text));
        }
    }
}
