//! Sparse operations, over patterns with hubs, empty rows and a single row.

use std::sync::Arc;

use kymo_tensor::{Pattern, Resident};

use crate::compare::{Input, numbers, same, wanted};

/// Patterns by name: skewed degrees with a hub that every column is in, empty rows, one row, none at all.
pub fn patterns() -> Vec<(&'static str, Arc<Pattern>)> {
    let random = |place: u64, below: u32| {
        let z = (place + 7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((z ^ (z >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) as u32 % below
    };
    let skewed = (0..6000u64).map(|i| (random(i, 300) * random(i + 9999, 300) / 300, random(3 * i, 500)));
    let hub = (0..500u32).map(|column| (299, column));
    let from =
        |rows, columns, edges: Vec<(u32, u32)>| Arc::new(Pattern::from_edges(rows, columns, edges).unwrap());
    // Columns of 0, 1, 31, 32, 33, 64, 65, 100 and 3000 entries: the transpose sorts them in two ways.
    let tall = [3000, 1, 31, 0, 32, 33, 64, 65, 100].into_iter().zip(0..);
    let tall = tall.flat_map(|(count, column)| (0..count).map(move |row| (row * 7 % 3000, column)));
    vec![
        ("skewed", from(400, 500, skewed.chain(hub).collect())),
        ("one row", from(1, 700, (0..700).map(|column| (0, column)).collect())),
        ("small", from(3, 4, vec![(2, 3), (0, 1), (2, 0), (0, 1)])),
        ("without entries", from(5, 4, vec![])),
        ("tall", from(3000, 9, tall.collect())),
    ]
}

/// Widths that are divided among lanes, and some that are not.
pub const WIDTHS: [usize; 8] = [1, 3, 16, 20, 64, 128, 192, 48];

/// A hub that several blocks sum, each a piece, beside rows that are short.
fn large_hub() -> Arc<Pattern> {
    let hub = (0..2900u32).map(|column| (1, column));
    Arc::new(Pattern::from_edges(3, 3000, hub.chain([(0, 5), (2, 2999)])).unwrap())
}

#[test]
fn products() {
    for (name, pattern) in patterns().into_iter().chain([("large hub", large_hub())]) {
        for width in WIDTHS {
            let x: Vec<Input> = wanted(vec![numbers(pattern.columns(), width, 1)]);
            same(&format!("sum, {name}, {width}"), &x, |tape, vars| {
                tape.spmm(pattern.clone(), None, vars[0])
            });
            let fixed = Arc::new(Resident::from(numbers(pattern.entries(), 1, 5).1));
            same(&format!("fixed, {name}, {width}"), &x, |tape, vars| {
                tape.spmm_fixed(pattern.clone(), fixed.clone(), vars[0])
            });
            for heads in [1, 2, 4].into_iter().filter(|heads| width % heads == 0) {
                let both =
                    wanted(vec![numbers(pattern.columns(), width, 1), numbers(pattern.entries(), heads, 2)]);
                same(&format!("{heads} heads, {name}, {width}"), &both, |tape, vars| {
                    tape.spmm_heads(pattern.clone(), vars[1], vars[0])
                });
            }
        }
    }
}
