//! Operations on the entries of sparse matrices: scores, shares, products of rows, maxima.

use std::sync::Arc;

use kymo_tensor::Pattern;

use crate::compare::{Input, numbers, same, wanted};
use crate::sparse::{WIDTHS, patterns};

/// The patterns, and one with hubs among its rows and its columns that are cut into more parts than a warp
/// has lanes.
fn all() -> Vec<(&'static str, Arc<Pattern>)> {
    let row = (0..10_000u32).map(|column| (3, column));
    let column = (0..8000u32).map(|row| (row, 17));
    let hubs = Arc::new(Pattern::from_edges(8000, 10_000, row.chain(column)).unwrap());
    patterns().into_iter().chain([("hubs", hubs)]).collect()
}

#[test]
fn products_of_rows() {
    for (name, pattern) in all() {
        for width in WIDTHS {
            for heads in [1, 2, 3, 4].into_iter().filter(|heads| width % heads == 0) {
                let sides =
                    wanted(vec![numbers(pattern.rows(), width, 1), numbers(pattern.columns(), width, 2)]);
                same(&format!("sddmm, {heads} heads, {name}, {width}"), &sides, |tape, vars| {
                    tape.sddmm(pattern.clone(), vars[0], vars[1], heads)
                });
            }
        }
    }
    let (_, small) = patterns().swap_remove(2);
    let mut sides = wanted(vec![numbers(3, 6, 1), numbers(4, 6, 2)]);
    same("sddmm, twice", &sides, |tape, vars| {
        let one = tape.sddmm(small.clone(), vars[0], vars[1], 2)?;
        let other = tape.sddmm(small.clone(), vars[0], vars[1], 2)?;
        tape.multiply(one, other)
    });
    sides[0].1 = false;
    same("sddmm of a constant", &sides, |tape, vars| tape.sddmm(small.clone(), vars[0], vars[1], 2));
}

#[test]
fn products_of_heads() {
    for (rows, heads, dimension) in
        [(1, 1, 1), (5, 2, 3), (4, 3, 1), (0, 2, 2), (300, 4, 16), (1001, 5, 7), (20_000, 4, 8), (33, 1, 100)]
    {
        let mut inputs = wanted(vec![numbers(rows, heads * dimension, 1), numbers(heads, dimension, 2)]);
        let name = format!("head dots, {rows} rows, {heads} x {dimension}");
        same(&name, &inputs, |tape, vars| tape.head_dots(vars[0], vars[1]));
        same(&format!("{name}, twice"), &inputs, |tape, vars| {
            let (one, other) = (tape.head_dots(vars[0], vars[1])?, tape.head_dots(vars[0], vars[1])?);
            tape.multiply(one, other)
        });
        inputs[0].1 = false;
        same(&format!("{name} of a constant"), &inputs, |tape, vars| tape.head_dots(vars[0], vars[1]));
    }
}

#[test]
fn scores_and_shares() {
    for (name, pattern) in all() {
        for heads in [1, 2, 3, 4, 8, 20] {
            let mut sides: Vec<Input> =
                wanted(vec![numbers(pattern.rows(), heads, 1), numbers(pattern.columns(), heads, 2)]);
            same(&format!("edge scores, {heads} heads, {name}"), &sides, |tape, vars| {
                tape.edge_scores(pattern.clone(), vars[0], vars[1], 0.2)
            });
            same(&format!("edge scores, twice, {heads} heads, {name}"), &sides, |tape, vars| {
                let one = tape.edge_scores(pattern.clone(), vars[0], vars[1], 0.2)?;
                let other = tape.edge_scores(pattern.clone(), vars[0], vars[1], 0.0)?;
                tape.multiply(one, other)
            });
            sides[1].1 = false;
            same(&format!("edge scores of a constant, {heads} heads, {name}"), &sides, |tape, vars| {
                tape.edge_scores(pattern.clone(), vars[0], vars[1], 0.2)
            });
            let mut scores = numbers(pattern.entries(), heads, 3);
            scores.1.iter_mut().for_each(|score| *score *= 10.0);
            let scores = wanted(vec![scores]);
            same(&format!("edge softmax, {heads} heads, {name}"), &scores, |tape, vars| {
                tape.edge_softmax(pattern.clone(), vars[0])
            });
            same(&format!("edge softmax, twice, {heads} heads, {name}"), &scores, |tape, vars| {
                let one = tape.edge_softmax(pattern.clone(), vars[0])?;
                let other = tape.edge_softmax(pattern.clone(), vars[0])?;
                tape.add(one, other)
            });
        }
    }
    let (_, one_row) = patterns().swap_remove(1);
    let mut large = numbers(one_row.entries(), 2, 1);
    large.1.iter_mut().for_each(|score| *score *= 100.0);
    same("extremes", &wanted(vec![large]), |tape, vars| tape.edge_softmax(one_row.clone(), vars[0]));
}

#[test]
fn maxima() {
    for (name, pattern) in all() {
        for width in WIDTHS {
            let mut x = numbers(pattern.columns(), width, 1);
            same(&format!("row max, {name}, {width}"), &wanted(vec![x.clone()]), |tape, vars| {
                tape.row_max(pattern.clone(), vars[0])
            });
            // Few values, so that many are equal: the first of them gets the gradient.
            x.1.iter_mut().for_each(|value| *value = (*value * 2.0).round());
            same(&format!("row max of equals, {name}, {width}"), &wanted(vec![x]), |tape, vars| {
                let one = tape.row_max(pattern.clone(), vars[0])?;
                let other = tape.row_max(pattern.clone(), vars[0])?;
                tape.add(one, other)
            });
        }
    }
}

/// Widths that are divided among lanes, and some that are not. Where rows are few and
/// short, gradients of scores are rounding and no more.
#[test]
fn graph_attention() {
    for (name, pattern) in
        patterns().into_iter().filter(|(name, _)| ["skewed", "without entries"].contains(name))
    {
        for (width, heads) in [(64, 4), (16, 1), (32, 8), (128, 2), (12, 3), (20, 4), (48, 4), (7, 1)] {
            let inputs = wanted(vec![
                numbers(pattern.rows(), heads, 1),
                numbers(pattern.columns(), heads, 2),
                numbers(pattern.columns(), width, 3),
            ]);
            same(&format!("graph attention, {heads} heads, {name}, {width}"), &inputs, |tape, vars| {
                let once = tape.graph_attention(pattern.clone(), vars[0], vars[1], vars[2], 0.2)?;
                let again = tape.graph_attention(pattern.clone(), vars[0], vars[1], vars[2], 0.2)?;
                tape.concatenate_columns(&[once, again])
            });
        }
    }
}
