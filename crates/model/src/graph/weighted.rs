//! A sparse matrix with its values, and how those come from the weights of edges.

use std::sync::Arc;

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Resident, Result, Tape, Var};

/// How the weights of incoming edges are scaled before they are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalisation {
    /// By the square roots of the degrees of both ends (Kipf and Welling, 2017).
    #[default]
    Both,
    /// By the degree of the target: the mean over what comes in.
    Right,
    /// Not at all.
    None,
}

impl Normalisation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Normalisation; 3] = [Normalisation::Both, Normalisation::Right, Normalisation::None];
}

/// The share of a weight in a sum; nothing of nothing.
pub(super) fn share(weight: f32, sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { weight / sum }
}

/// A sparse matrix: where its entries are, and what they are.
#[derive(Clone)]
pub struct Weighted {
    /// Where.
    pub pattern: Arc<Pattern>,
    /// What, in the order of the pattern.
    pub values: Arc<Resident>,
}

impl Weighted {
    /// The product with `x`.
    pub fn times(self, tape: &mut Tape<'_>, x: Var) -> Result<Var> {
        tape.spmm_fixed(self.pattern, self.values, x)
    }

    /// Bytes of it with values that are its own.
    pub fn bytes(&self) -> u64 {
        let [rows, columns] = [self.pattern.rows(), self.pattern.columns()].map(|count| count as u64);
        Weighted::bytes_of([rows, columns], self.pattern.entries() as u64, self.pattern.is_transposed())
    }

    /// Bytes of a matrix of rows and columns with this many entries, each with its value, where gradients go
    /// back through it or do not.
    pub fn bytes_of([rows, columns]: [u64; 2], entries: u64, is_transposed: bool) -> u64 {
        let entry = 8 * entries;
        entry + 8 * (rows + 1) + if is_transposed { entry + 8 * (columns + 1) } else { 0 }
    }

    /// The entries in the first `count` columns, and those in the others, which are then counted from zero.
    pub fn split(&self, count: usize) -> Result<[Weighted; 2]> {
        let half = |inside: bool| {
            let is_in = |place: usize| (place < count) == inside;
            let entries = self.pattern.places().iter().filter(|&&place| is_in(place as usize)).count();
            let mut starts = Vec::with_capacity(self.pattern.rows() + 1);
            let (mut places, mut values) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
            starts.push(0);
            for (number, row) in self.pattern.starts().windows(2).enumerate() {
                for index in row[0] as usize..row[1] as usize {
                    let place = self.pattern.places()[index] as usize;
                    if is_in(place) {
                        places.push(if inside { place } else { place - count } as u32);
                        // All of them would be made, and kept, if one was asked for.
                        values.push(match self.values.factors() {
                            Some(factors) => factors[place] * factors[number],
                            None => self.values[index],
                        });
                    }
                }
                starts.push(places.len() as u64);
            }
            let columns = if inside { count } else { self.pattern.columns() - count };
            Ok(Weighted {
                pattern: Arc::new(Pattern::new(columns, starts, places)?),
                values: Arc::new(values.into()),
            })
        };
        Ok([half(true)?, half(false)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Halves have the entries of the whole, also where these are products of factors that nobody made.
    #[test]
    fn halves_have_the_entries_of_the_whole() {
        let (rows, columns) = (3u32, 7u32);
        let edges = (0..14u32).map(|k| (k % rows, k * 3 % columns));
        let pattern = Arc::new(Pattern::from_edges(rows as usize, columns as usize, edges).unwrap());
        let factors: Vec<f32> = (1..=columns).map(|k| k as f32).collect();
        let products = Arc::new(Resident::products(pattern.clone(), factors).unwrap());
        let given = Arc::new(Resident::from(products.to_vec()));
        let fresh = (1..=columns).map(|k| k as f32).collect();
        let fresh = Arc::new(Resident::products(pattern.clone(), fresh).unwrap());
        let listed = |matrix: &Weighted, from: u32| -> Vec<(usize, u32, f32)> {
            let mut all = Vec::new();
            for (row, range) in matrix.pattern.starts().windows(2).enumerate() {
                let entry = |k: usize| (row, from + matrix.pattern.places()[k], matrix.values[k]);
                all.extend((range[0] as usize..range[1] as usize).map(entry));
            }
            all
        };
        let whole = Weighted { pattern: pattern.clone(), values: given };
        for count in [0, 3, 7] {
            let matrix = Weighted { pattern: pattern.clone(), values: fresh.clone() };
            let [here, beyond] = matrix.split(count).unwrap();
            assert!(fresh.are_products(), "the values of the whole were made for it");
            let mut found = [listed(&here, 0), listed(&beyond, count as u32)].concat();
            found.sort_by_key(|&(row, column, _)| (row, column));
            let mut expected = listed(&whole, 0);
            expected.sort_by_key(|&(row, column, _)| (row, column));
            assert_eq!(found, expected);
            let entries = 8 * (here.pattern.entries() + beyond.pattern.entries()) as u64;
            assert_eq!(here.bytes() + beyond.bytes(), entries + 2 * 8 * 4);
            here.pattern.transpose();
            let turned = 8 * here.pattern.entries() as u64 + 8 * (count as u64 + 1);
            assert_eq!(here.bytes() + beyond.bytes(), entries + 2 * 8 * 4 + turned);
        }
    }
}
