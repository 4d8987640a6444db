//! Rows of the products of consecutive snapshots with the same rows: through the edges of all of them once.
//!
//! A neighbour's row is fetched once, and added to the sums of all snapshots that have the edge, each with
//! the value that the edge has there: whatever the normalisation, and whether degrees changed or not. A sum
//! is taken in the order in which it is taken by itself, and has its bits.

use std::ops::Range;

use super::aggregate::{AHEAD, CHUNK, Entries};
use super::lazy::LazyProduct;
use crate::arena::{Arena, Buffer};
use crate::lines::Lines;
use crate::simd::{fma, prefetch_row, simd};
use crate::spans::Spans;

/// Products of the same rows, and which inputs of an operation they are.
pub(super) struct SpannedProducts<'a> {
    spans: Spans,
    products: Vec<LazyProduct<'a>>,
    pub inputs: Vec<usize>,
}

/// The lines of a snapshot, and the values of their entries.
type Of<'p> = (&'p Lines, Entries<'p>);

impl<'a> SpannedProducts<'a> {
    /// Groups of products that multiply the same rows.
    pub fn all(products: &[Option<LazyProduct<'a>>]) -> Vec<SpannedProducts<'a>> {
        let mut groups: Vec<(Vec<LazyProduct<'a>>, Vec<usize>)> = Vec::new();
        for (input, product) in products.iter().enumerate() {
            let Some(product) = product else { continue };
            match groups.iter_mut().find(|(group, _)| group[0].has_rows_of(product)) {
                Some((group, inputs)) => {
                    group.push(product.clone());
                    inputs.push(input);
                }
                None => groups.push((vec![product.clone()], vec![input])),
            }
        }
        groups.retain(|(products, _)| products.len() > 1);
        let group = |(products, inputs): (Vec<LazyProduct<'a>>, Vec<usize>)| {
            let patterns: Vec<_> = products.iter().map(|product| product.pattern.clone()).collect();
            // Patterns that do not go together are no mistake: each is taken by itself.
            let spans = Spans::new(&patterns).ok()?;
            Some(SpannedProducts { spans, products, inputs })
        };
        groups.into_iter().filter_map(group).collect()
    }

    /// Some rows of every product.
    pub fn rows(&self, arena: &Arena, rows: Range<usize>) -> Vec<Buffer> {
        let (count, width) = (self.products.len(), self.products[0].width);
        let mut outputs: Vec<Buffer> = (0..count).map(|_| arena.take(rows.len() * width)).collect();
        let mut sums = arena.take(count * width);
        let of: Vec<Of<'_>> = self
            .products
            .iter()
            .map(|product| (product.pattern.by_row(), product.values.entries()))
            .collect();
        add_up(self, &of, rows.clone(), &mut sums, &mut outputs);
        arena.give(sums);
        // Lines so long that they are cut are taken by themselves, as they are elsewhere.
        for (product, output) in self.products.iter().zip(&mut outputs) {
            let lines = product.pattern.by_row();
            for line in rows.clone().filter(|&line| lines.is_cut(line)) {
                let at = (line - rows.start) * width;
                product.rows(arena, line..line + 1, &mut output[at..at + width]);
            }
        }
        outputs
    }
}

simd! {
    fn add_up(
        all: &SpannedProducts<'_>,
        of: &[Of<'_>],
        rows: Range<usize>,
        sums: &mut [f32],
        outputs: &mut [Buffer],
    ) = add_up_body;
}

/// Where a snapshot is in its line: the entry that comes next, and how many are in its sum.
#[derive(Clone, Copy, Default)]
struct Place {
    next: usize,
    summed: usize,
}

#[inline(always)]
fn add_up_body<const FUSED: bool>(
    all: &SpannedProducts<'_>,
    of: &[Of<'_>],
    rows: Range<usize>,
    sums: &mut [f32],
    outputs: &mut [Buffer],
) {
    let (lines, spans) = (all.spans.pattern().by_row(), all.spans.spans());
    let LazyProduct { x, index, width, .. } = all.products[0];
    let row = |k: usize| {
        let other = lines.others()[k] as usize;
        width * index.map_or(other, |index| index[other] as usize)
    };
    let last = lines.others().len().saturating_sub(1);
    let mut places = vec![Place::default(); of.len()];
    for (number, line) in rows.enumerate() {
        let output = number * width..(number + 1) * width;
        for ((place, (lines, _)), output_rows) in places.iter_mut().zip(of).zip(outputs.iter_mut()) {
            *place = Place { next: lines.starts()[line] as usize, summed: 0 };
            output_rows[output.clone()].fill(0.0);
        }
        sums.fill(0.0);
        for k in lines.starts()[line] as usize..lines.starts()[line + 1] as usize {
            prefetch_row(x, row((k + AHEAD).min(last)), width);
            let x = &x[row(k)..][..width];
            for at in usize::from(spans[k].first)..usize::from(spans[k].end) {
                let Place { next, summed } = &mut places[at];
                let (lines, values) = of[at];
                let value = match values {
                    Entries::Ones => 1.0,
                    Entries::Given(values) => values[*next],
                    Entries::Products(factors) => factors[lines.others()[*next] as usize] * factors[line],
                };
                let sum = &mut sums[at * width..(at + 1) * width];
                sum.iter_mut().zip(x).for_each(|(sum, x)| *sum = fma::<FUSED>(value, *x, *sum));
                (*next, *summed) = (*next + 1, *summed + 1);
                if *summed == CHUNK {
                    move_up(sum, &mut outputs[at][output.clone()]);
                    *summed = 0;
                }
            }
        }
        for ((place, sum), output_rows) in
            places.iter().zip(sums.chunks_exact_mut(width)).zip(outputs.iter_mut())
        {
            if place.summed > 0 {
                move_up(sum, &mut output_rows[output.clone()]);
            }
        }
    }
}

/// Adds a sum to the line, and begins another.
#[inline(always)]
fn move_up(sum: &mut [f32], line: &mut [f32]) {
    for (sum, line) in sum.iter_mut().zip(line) {
        *line += *sum;
        *sum = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::cuda::Resident;
    use crate::pattern::Pattern;

    /// A product with each kind of values.
    fn product<'a>(
        pattern: &Arc<Pattern>,
        kind: usize,
        x: &'a [f32],
        index: Option<&'a [u32]>,
    ) -> LazyProduct<'a> {
        let one = |number: usize| ((number * 37 + kind) % 23) as f32 / 7.0 - 1.3;
        let values = match kind % 2 {
            0 => Resident::from((0..pattern.entries()).map(one).collect::<Vec<f32>>()),
            _ => Resident::products(pattern.clone(), (0..pattern.rows()).map(one).collect()).unwrap(),
        };
        LazyProduct { pattern: pattern.clone(), values: Arc::new(values), x, index, width: 5 }
    }

    fn check(patterns: &[Arc<Pattern>], rows: Range<usize>, kinds: usize, indexed: bool) {
        let (count, arena) = (patterns[0].columns(), Arena::new());
        let x: Vec<f32> = (0..count * 5).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect();
        let index: Vec<u32> = (0..count as u32).rev().collect();
        let index = indexed.then_some(&index[..]);
        let product =
            |(number, pattern): (usize, &Arc<Pattern>)| Some(product(pattern, kinds + number, &x, index));
        let products: Vec<_> = patterns.iter().enumerate().map(product).collect();
        let all = SpannedProducts::all(&products);
        assert_eq!((all.len(), all[0].inputs.len()), (1, patterns.len()));
        let bits = |rows: &[f32]| rows.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for (product, found) in products.iter().flatten().zip(all[0].rows(&arena, rows.clone())) {
            let mut expected = vec![0.0; rows.len() * 5];
            product.rows(&arena, rows.clone(), &mut expected);
            assert_eq!(bits(&found), bits(&expected));
        }
    }

    proptest! {
        #[test]
        fn rows_together_have_the_bits_of_rows_alone(
            edges in prop::collection::vec((0u32..9, 0u32..9, any::<u8>()), 1..90),
            snapshots in 2usize..8,
            (start, end) in (0usize..9, 0usize..9),
            kinds in 0usize..2,
            indexed: bool,
        ) {
            let one = |snapshot: usize| {
                let there = edges.iter().filter(|&&(.., mask)| mask >> snapshot & 1 == 1);
                let mut places: Vec<(u32, u32)> = there.map(|&(u, v, _)| (v, u)).collect();
                places.sort_unstable();
                places.dedup();
                Arc::new(Pattern::from_edges(9, 9, places).unwrap())
            };
            let patterns: Vec<Arc<Pattern>> = (0..snapshots).map(one).collect();
            check(&patterns, start.min(end)..start.max(end) + 1, kinds, indexed);
        }
    }

    /// Lines of more entries than are summed at a time, and lines that are cut.
    #[test]
    fn long_lines_have_the_bits_of_lines_alone() {
        let one = |snapshot: u32| {
            let long = (0..5000).filter(|v| (v + snapshot) % 11 > 0).map(|v| (1, v));
            let short = (0..300).filter(|v| (v * 7 + snapshot) % 5 > 0).map(|v| (3, v * 3));
            let mut places: Vec<(u32, u32)> = long.chain(short).chain([(0, 2), (4, snapshot)]).collect();
            places.sort_unstable();
            Arc::new(Pattern::from_edges(5000, 5000, places).unwrap())
        };
        let patterns: Vec<Arc<Pattern>> = (0..5).map(one).collect();
        check(&patterns, 0..6, 0, false);
        check(&patterns, 1..4, 1, true);
    }

    #[test]
    fn products_of_other_rows_are_left_alone() {
        let pattern = Arc::new(Pattern::from_edges(2, 2, [(0, 1), (1, 0)]).unwrap());
        let unsorted = Arc::new(Pattern::new(2, vec![0, 2, 2], vec![1, 0]).unwrap());
        let (x, y) = ([1.0; 10], [2.0; 10]);
        let one = |pattern, rows| Some(product(pattern, 0, rows, None));
        assert!(SpannedProducts::all(&[one(&pattern, &x), None, one(&pattern, &y)]).is_empty());
        assert!(SpannedProducts::all(&[one(&unsorted, &x), one(&unsorted, &x)]).is_empty());
        let all = [one(&pattern, &y), one(&pattern, &x), None, one(&pattern, &x)];
        let found = SpannedProducts::all(&all);
        assert_eq!((found.len(), &found[0].inputs[..]), (1, &[1, 3][..]));
    }
}
