//! The sparse operations as a table: what they take, how they are applied, and plain loops in double
//! precision.

use std::sync::Arc;

use kymo_tensor::{Pattern, Result, Shape, Tape, Var};

type Inputs = Box<dyn Fn(&Pattern) -> Vec<Shape> + Sync>;
type Apply = Box<dyn Fn(&mut Tape<'_>, &Arc<Pattern>, &[Var]) -> Result<Var> + Sync>;
type Exact = Box<dyn Fn(&Pattern, &[Vec<f64>]) -> Vec<f64> + Sync>;

/// One operation.
pub struct Case {
    pub name: &'static str,
    /// The shapes of its inputs for a pattern.
    pub inputs: Inputs,
    pub apply: Apply,
    /// What it should come to.
    pub exact: Exact,
}

/// Row, column and number of each entry.
fn entries(pattern: &Pattern) -> impl Iterator<Item = (usize, usize, usize)> {
    let rows = pattern.starts().windows(2).enumerate();
    let entries = rows.flat_map(|(row, pair)| (pair[0] as usize..pair[1] as usize).map(move |e| (row, e)));
    entries.map(|(row, entry)| (row, pattern.places()[entry] as usize, entry))
}

/// `sum over entries of value(entry, head) x[column]`, row by row.
fn sums(
    pattern: &Pattern,
    x: &[f64],
    [width, heads]: [usize; 2],
    value: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    let mut output = vec![0.0; pattern.rows() * width];
    for (row, column, entry) in entries(pattern) {
        for j in 0..width {
            output[row * width + j] += value(entry, j / (width / heads)) * x[column * width + j];
        }
    }
    output
}

fn softmax(pattern: &Pattern, scores: &[f64], heads: usize) -> Vec<f64> {
    let mut output = vec![0.0; scores.len()];
    for pair in pattern.starts().windows(2) {
        for head in 0..heads {
            let places = || (pair[0] as usize..pair[1] as usize).map(|entry| entry * heads + head);
            let largest = places().map(|at| scores[at]).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = places().map(|at| (scores[at] - largest).exp()).sum();
            places().for_each(|at| output[at] = (scores[at] - largest).exp() / sum);
        }
    }
    output
}

/// A value for each entry that needs no gradient.
fn fixed(pattern: &Pattern) -> Vec<f32> {
    (0..pattern.entries()).map(|entry| (entry % 5) as f32 * 0.25 - 0.4).collect()
}

/// All operations, with rows of `width` numbers that `heads` divides.
pub fn cases(width: usize, heads: usize) -> Vec<Case> {
    let x = move |pattern: &Pattern| Shape::new(pattern.columns(), width);
    let left = move |pattern: &Pattern| Shape::new(pattern.rows(), width);
    let values = move |pattern: &Pattern| Shape::new(pattern.entries(), heads);
    vec![
        Case {
            name: "spmm of ones",
            inputs: Box::new(move |pattern| vec![x(pattern)]),
            apply: Box::new(|tape, pattern, vars| tape.spmm(pattern.clone(), None, vars[0])),
            exact: Box::new(move |pattern, inputs| sums(pattern, &inputs[0], [width, 1], |_, _| 1.0)),
        },
        Case {
            name: "spmm of fixed values",
            inputs: Box::new(move |pattern| vec![x(pattern)]),
            apply: Box::new(|tape, pattern, vars| {
                tape.spmm_fixed(pattern.clone(), Arc::new(fixed(pattern).into()), vars[0])
            }),
            exact: Box::new(move |pattern, inputs| {
                let values = fixed(pattern);
                sums(pattern, &inputs[0], [width, 1], |entry, _| f64::from(values[entry]))
            }),
        },
        Case {
            name: "spmm",
            inputs: Box::new(move |pattern| vec![x(pattern), Shape::new(pattern.entries(), 1)]),
            apply: Box::new(|tape, pattern, vars| tape.spmm(pattern.clone(), Some(vars[1]), vars[0])),
            exact: Box::new(move |pattern, inputs| {
                sums(pattern, &inputs[0], [width, 1], |entry, _| inputs[1][entry])
            }),
        },
        Case {
            name: "spmm with heads",
            inputs: Box::new(move |pattern| vec![x(pattern), values(pattern)]),
            apply: Box::new(|tape, pattern, vars| tape.spmm_heads(pattern.clone(), vars[1], vars[0])),
            exact: Box::new(move |pattern, inputs| {
                sums(pattern, &inputs[0], [width, heads], |entry, head| inputs[1][entry * heads + head])
            }),
        },
        Case {
            name: "sddmm",
            inputs: Box::new(move |pattern| vec![left(pattern), x(pattern)]),
            apply: Box::new(move |tape, pattern, vars| tape.sddmm(pattern.clone(), vars[0], vars[1], heads)),
            exact: Box::new(move |pattern, inputs| {
                let mut output = vec![0.0; pattern.entries() * heads];
                for (row, column, entry) in entries(pattern) {
                    for j in 0..width {
                        output[entry * heads + j / (width / heads)] +=
                            inputs[0][row * width + j] * inputs[1][column * width + j];
                    }
                }
                output
            }),
        },
        Case {
            name: "edge scores",
            inputs: Box::new(move |pattern| vec![left(pattern), x(pattern)]),
            apply: Box::new(|tape, pattern, vars| tape.edge_scores(pattern.clone(), vars[0], vars[1], 0.25)),
            exact: Box::new(move |pattern, inputs| {
                let score = |row: usize, column: usize, j: usize| {
                    let sum = inputs[0][row * width + j] + inputs[1][column * width + j];
                    if sum > 0.0 { sum } else { 0.25 * sum }
                };
                entries(pattern)
                    .flat_map(|(row, column, _)| (0..width).map(move |j| score(row, column, j)))
                    .collect()
            }),
        },
        Case {
            name: "edge softmax",
            inputs: Box::new(move |pattern| vec![values(pattern)]),
            apply: Box::new(|tape, pattern, vars| tape.edge_softmax(pattern.clone(), vars[0])),
            exact: Box::new(move |pattern, inputs| softmax(pattern, &inputs[0], heads)),
        },
        Case {
            name: "graph attention",
            inputs: Box::new(move |pattern| {
                let scores = |count| Shape::new(count, heads);
                vec![scores(pattern.rows()), scores(pattern.columns()), x(pattern)]
            }),
            apply: Box::new(|tape, pattern, vars| {
                tape.graph_attention(pattern.clone(), vars[0], vars[1], vars[2], 0.25)
            }),
            exact: Box::new(move |pattern, inputs| {
                let score = |row: usize, column: usize, head: usize| {
                    let sum = inputs[0][row * heads + head] + inputs[1][column * heads + head];
                    if sum > 0.0 { sum } else { 0.25 * sum }
                };
                let scores: Vec<f64> = entries(pattern)
                    .flat_map(|(row, column, _)| (0..heads).map(move |head| score(row, column, head)))
                    .collect();
                let shares = softmax(pattern, &scores, heads);
                sums(pattern, &inputs[2], [width, heads], |entry, head| shares[entry * heads + head])
            }),
        },
        Case {
            name: "row max",
            inputs: Box::new(move |pattern| vec![x(pattern)]),
            apply: Box::new(|tape, pattern, vars| tape.row_max(pattern.clone(), vars[0])),
            exact: Box::new(move |pattern, inputs| {
                let mut output = vec![f64::NEG_INFINITY; pattern.rows() * width];
                for (row, column, _) in entries(pattern) {
                    for j in 0..width {
                        let best = &mut output[row * width + j];
                        *best = best.max(inputs[0][column * width + j]);
                    }
                }
                output.into_iter().map(|best| if best.is_finite() { best } else { 0.0 }).collect()
            }),
        },
        Case {
            name: "gather",
            inputs: Box::new(move |pattern| vec![x(pattern)]),
            apply: Box::new(|tape, pattern, vars| tape.gather(vars[0], Arc::new(pattern.places().to_vec()))),
            exact: Box::new(move |pattern, inputs| {
                let row = |&place: &u32| &inputs[0][place as usize * width..][..width];
                pattern.places().iter().flat_map(row).copied().collect()
            }),
        },
        Case {
            name: "scatter",
            inputs: Box::new(move |pattern| vec![Shape::new(pattern.entries(), width)]),
            apply: Box::new(|tape, pattern, vars| {
                tape.scatter(vars[0], Arc::new(pattern.places().to_vec()), pattern.columns())
            }),
            exact: Box::new(move |pattern, inputs| {
                let mut output = vec![0.0; pattern.columns() * width];
                for (_, column, entry) in entries(pattern) {
                    for j in 0..width {
                        output[column * width + j] += inputs[0][entry * width + j];
                    }
                }
                output
            }),
        },
    ]
}
