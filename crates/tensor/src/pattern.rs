//! Where the non-zeros of a sparse matrix are, apart from their values.
//!
//! The neighbours of a vertex are a row: the rows of a product are sums over neighbours. The transpose, which
//! gradients need, is built when it is first asked for: layers over constant features never do.

use std::sync::{Arc, OnceLock};

use crate::cuda::lines::LinesOn;
use crate::cuda::{Device, Resident};
use crate::error::{Error, Result};
use crate::lines::Lines;
use crate::ops::factored;
use crate::pool::{Array, Pool};

/// The places of the non-zeros of a matrix, row by row. A place may occur more than once: its values add up.
#[derive(Debug)]
pub struct Pattern {
    columns: usize,
    by_row: Lines,
    by_column: OnceLock<Lines>,
    /// The transpose on a GPU, where the host has none.
    by_column_on: OnceLock<LinesOn>,
    /// Where arrays come from, and go back to.
    pool: Pool,
}

impl Pattern {
    /// The pattern whose row `r` has its entries at `places[starts[r]..starts[r + 1]]`, which are columns.
    pub fn new(columns: usize, starts: Vec<u64>, places: Vec<u32>) -> Result<Self> {
        Pattern::shared(columns, Arc::new(starts), Arc::new(places), &Pool::default())
    }

    /// The same of arrays that others may have as well, and that are for a pool when nobody has them any
    /// more.
    pub fn shared(columns: usize, starts: Arc<Vec<u64>>, places: Arc<Vec<u32>>, pool: &Pool) -> Result<Self> {
        let wrong = |problem: String| Err(Error::settings("pattern", problem));
        if starts.first() != Some(&0) || starts.last() != Some(&(places.len() as u64)) {
            return wrong(format!("rows must start at 0 and end at {}", places.len()));
        }
        if let Some(row) = starts.windows(2).position(|pair| pair[0] > pair[1]) {
            return wrong(format!("row {row} ends before it starts"));
        }
        // Entries are numbered in 32 bits, and the last number says that there is none.
        if places.len() >= u32::MAX as usize || starts.len() > u32::MAX as usize {
            return wrong(format!("{} rows with {} entries are too many", starts.len() - 1, places.len()));
        }
        // Without an end in between, this goes by many entries at a time.
        let last = places.iter().fold(0, |last, &place| last.max(place));
        if !places.is_empty() && last as usize >= columns {
            return wrong(format!("an entry is in column {last}, there are {columns}"));
        }
        Ok(Pattern {
            columns,
            by_row: Lines::new(Array::new(starts, pool), Array::new(places, pool)),
            by_column: OnceLock::new(),
            by_column_on: OnceLock::new(),
            pool: pool.clone(),
        })
    }

    /// The pattern with an entry for each pair of row and column, sorted by row.
    pub fn from_edges(
        rows: usize,
        columns: usize,
        edges: impl IntoIterator<Item = (u32, u32)>,
    ) -> Result<Self> {
        let mut edges: Vec<(u32, u32)> = edges.into_iter().collect();
        edges.sort_by_key(|&(row, _)| row);
        if let Some((row, _)) = edges.last().filter(|(row, _)| *row as usize >= rows) {
            return Err(Error::settings("pattern", format!("an entry is in row {row}, there are {rows}")));
        }
        let mut starts = vec![0u64; rows + 1];
        for &(row, _) in &edges {
            starts[row as usize + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        Self::new(columns, starts, edges.into_iter().map(|(_, column)| column).collect())
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.by_row.count()
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.by_row.others().len()
    }

    /// Where the entries of each row start, and the end of those of the last row.
    pub fn starts(&self) -> &[u64] {
        self.by_row.starts()
    }

    /// The column of each entry.
    pub fn places(&self) -> &[u32] {
        self.by_row.others()
    }

    /// Where its arrays come from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Builds the transpose now, for those who know that it will be asked for.
    pub fn transpose(&self) {
        self.by_column();
    }

    /// Whether the transpose has been built.
    pub fn is_transposed(&self) -> bool {
        self.by_column.get().is_some() || self.by_column_on.get().is_some()
    }

    /// Builds the transpose on a GPU, for those who know that it will be asked for there.
    pub fn transpose_on(&self, device: &Device) -> Result<()> {
        self.by_column_on(device).map(drop)
    }

    /// Brings what has been built to a GPU, with the values of its entries, before they are asked for there.
    /// Where those are products of factors of both ends, these are brought instead.
    pub fn bring(&self, device: &Device, values: Option<&Resident>) -> Result<()> {
        let lines = self.by_row.on(device)?;
        match (values, values.and_then(Resident::factors)) {
            (Some(values), Some(factors)) => values
                .make_on(device, |output| factored(device, lines, device.upload(factors)?.all(), output))?,
            (Some(values), None) => drop(values.on(device)?),
            (None, _) => {}
        }
        if self.is_transposed() {
            let lines = self.by_column_on(device)?;
            values.map_or(Ok(()), |values| values.transposed_on(device, lines).map(drop))?;
        }
        Ok(())
    }

    pub(crate) fn by_row(&self) -> &Lines {
        &self.by_row
    }

    /// The transpose on a GPU: that of the host, or made there where the host has none.
    pub(crate) fn by_column_on(&self, device: &Device) -> Result<&LinesOn> {
        if let Some(columns) = self.by_column.get() {
            return columns.on(device);
        }
        if let Some(columns) = self.by_column_on.get() {
            return Ok(columns);
        }
        let mut starts = vec![0u64; self.columns + 1];
        self.places().iter().for_each(|&column| starts[column as usize + 1] += 1);
        (0..self.columns).for_each(|column| starts[column + 1] += starts[column]);
        let columns = LinesOn::transposed(device, self.by_row.on(device)?, &starts)?;
        Ok(self.by_column_on.get_or_init(|| columns))
    }

    pub(crate) fn by_column(&self) -> &Lines {
        self.by_column.get_or_init(|| {
            let mut rows = self.pool.empty(self.entries());
            for (row, pair) in self.starts().windows(2).enumerate() {
                rows.resize(pair[1] as usize, row as u32);
            }
            let lines = Lines::sorted_in(&self.pool, self.columns, self.places(), |entry| rows[entry]);
            self.pool.give(rows);
            lines
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_sorted_and_transposed() {
        let pattern = Pattern::from_edges(3, 4, [(2, 3), (0, 1), (2, 0), (0, 1)]).unwrap();
        assert_eq!((pattern.rows(), pattern.columns(), pattern.entries()), (3, 4, 4));
        assert_eq!(pattern.starts(), [0, 2, 2, 4]);
        assert_eq!(pattern.places(), [1, 1, 3, 0]);
        let by_column = pattern.by_column();
        assert_eq!(by_column.starts(), [0, 1, 3, 3, 4]);
        assert_eq!(by_column.others(), [2, 0, 0, 2]);
        assert_eq!(by_column.origins().unwrap(), [3, 0, 1, 2]);
    }

    #[test]
    fn wrong_patterns_are_refused() {
        let problem = |result: Result<Pattern>| result.unwrap_err().to_string();
        let new = Pattern::new;
        assert_eq!(problem(new(3, vec![], vec![])), "pattern: rows must start at 0 and end at 0");
        assert_eq!(problem(new(3, vec![0, 1], vec![0, 1])), "pattern: rows must start at 0 and end at 2");
        assert_eq!(problem(new(3, vec![0, 2, 1], vec![0])), "pattern: row 1 ends before it starts");
        assert_eq!(problem(new(3, vec![0, 1], vec![3])), "pattern: an entry is in column 3, there are 3");
        let edges = Pattern::from_edges(2, 3, [(2, 0)]);
        assert_eq!(problem(edges), "pattern: an entry is in row 2, there are 2");
        assert_eq!(Pattern::from_edges(0, 0, []).unwrap().rows(), 0);
    }
}
