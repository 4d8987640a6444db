//! How neighbourhoods are found: breadth first, one edge at a time, by all threads, in tables that are used
//! again for the next batch. Which thread finds a vertex does not matter: after each edge, those that are new
//! get their rows in ascending order.

use std::sync::atomic::{AtomicU64, Ordering};

use kymo_tensor::Pool;
use kymo_tensor::pattern::Pattern;
use rayon::prelude::*;

/// Vertices that one thread looks from at a time: few, since some have many neighbours.
const LOOKS: usize = 256;

/// Words of the tables that one thread goes through at a time.
const WORDS: usize = 512;

/// Tables and arrays in which batches take turns.
pub struct Sight {
    pool: Pool,
    /// Bytes of arrays that a batch took, at most.
    most: usize,
    /// A bit for every vertex: whether it has been found.
    found: Vec<AtomicU64>,
    /// The same before the last edge.
    before: Vec<u64>,
}

impl Default for Sight {
    fn default() -> Self {
        Sight { pool: Pool::new(), most: 0, found: Vec::new(), before: Vec::new() }
    }
}

/// The word and the bit of a vertex.
fn place(vertex: u32) -> (usize, u64) {
    (vertex as usize / 64, 1 << (vertex % 64))
}

impl Sight {
    /// Where arrays come from, and go back to.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Bytes of tables, and of arrays that nobody uses at the moment.
    pub fn bytes(&self) -> usize {
        self.pool.bytes() + 8 * (self.found.capacity() + self.before.capacity())
    }

    /// Keeps the arrays of a batch that took this many bytes, for the next.
    pub fn keep(&mut self, bytes: usize) {
        self.most = self.most.max(bytes);
        self.pool.keep_up_to(self.most);
    }

    /// Of this many vertices, none has been found.
    pub(super) fn begin(&mut self, vertices: usize) {
        let words = vertices.div_ceil(64);
        self.found.resize_with(words, AtomicU64::default);
        self.found.iter_mut().for_each(|word| *word.get_mut() = 0);
        self.before.clear();
        self.before.resize(words, 0);
    }

    /// Finds a vertex to begin with: whether it had not been found.
    pub(super) fn add(&mut self, vertex: u32) -> bool {
        let (word, bit) = place(vertex);
        let is_new = self.before[word] & bit == 0;
        self.before[word] |= bit;
        *self.found[word].get_mut() |= bit;
        is_new
    }

    /// Finds the neighbours of these.
    pub(super) fn look(&self, pattern: &Pattern, vertices: &[u32]) {
        let (starts, places) = (pattern.starts(), pattern.places());
        vertices.par_chunks(LOOKS).for_each(|vertices| {
            for &vertex in vertices {
                let row = starts[vertex as usize] as usize..starts[vertex as usize + 1] as usize;
                for &source in &places[row] {
                    let (word, bit) = place(source);
                    let word = &self.found[word];
                    if word.load(Ordering::Relaxed) & bit == 0 {
                        word.fetch_or(bit, Ordering::Relaxed);
                    }
                }
            }
        });
    }

    /// Gives those that are new the next rows.
    pub(super) fn number(&mut self, vertices: &mut Vec<u32>, rows: &mut [u32]) {
        let new = |(found, before): (&[AtomicU64], &[u64])| -> usize {
            let words = found.iter().zip(before);
            words.map(|(found, before)| (found.load(Ordering::Relaxed) & !before).count_ones() as usize).sum()
        };
        let counts: Vec<usize> =
            self.found.par_chunks(WORDS).zip(self.before.par_chunks(WORDS)).map(new).collect();
        let begun = vertices.len();
        let mut all = self.pool.take(begun + counts.iter().sum::<usize>());
        all[..begun].copy_from_slice(vertices);
        self.pool.give(std::mem::replace(vertices, all));
        let (mut left, mut row) = (&mut vertices[begun..], begun);
        let mut places = Vec::with_capacity(counts.len());
        for count in counts {
            let (mine, rest) = left.split_at_mut(count);
            places.push((row, mine));
            (left, row) = (rest, row + count);
        }
        let words = self.found.par_chunks(WORDS).zip(self.before.par_chunks_mut(WORDS));
        let pieces = places.into_par_iter().zip(words).zip(rows.par_chunks_mut(64 * WORDS)).enumerate();
        pieces.for_each(|(piece, (((row, vertices), (found, before)), rows))| {
            let (mut row, mut vertices) = (row as u32, vertices.iter_mut());
            for (word, (found, before)) in found.iter().zip(before).enumerate() {
                let mut new = found.load(Ordering::Relaxed) & !*before;
                *before |= new;
                while new != 0 {
                    let at = 64 * word + new.trailing_zeros() as usize;
                    if let Some(vertex) = vertices.next() {
                        *vertex = (64 * WORDS * piece + at) as u32;
                    }
                    (rows[at], row) = (row, row + 1);
                    new &= new - 1;
                }
            }
        });
    }
}
