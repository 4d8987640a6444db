//! A small linear program: the cheapest cover of rows by columns, by the revised simplex method.
//!
//! Minimise `sum(cost * amount)` such that every row is covered:
//! `sum(amount of the columns with this row) >= demand`. Columns are lists of rows, and may be added at any
//! time. What the caller wants is the price of each row (the dual); it proves what it makes of the prices by
//! itself, so that rounding here costs tightness and never truth.

/// Below this a number counts as nothing; a cost, below this part of the costs.
const TINY: f64 = 1e-9;
/// A smaller number is not divided by.
const PIVOT: f64 = 1e-7;
/// The inverse is computed anew after this number of pivots.
const FRESH: usize = 100;
/// Numbers of surplus columns begin here.
const SURPLUS: usize = usize::MAX / 2;

/// A column: what it costs, and the rows that it covers, once each.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) cost: f64,
    pub(super) rows: Vec<usize>,
}

/// The program, with a cover at all times.
pub(super) struct Cover {
    demands: Vec<f64>,
    columns: Vec<Column>,
    /// The column in each place of the basis; those from [`SURPLUS`] on are what a row has too much.
    basis: Vec<usize>,
    /// Whether a column is in the basis.
    inside: Vec<bool>,
    /// The inverse of the basis, by rows.
    inverse: Vec<Vec<f64>>,
    amounts: Vec<f64>,
    /// A column that saves no more than this is no better than what is there: it may be rounding.
    nothing: f64,
    pivots: usize,
}

impl Cover {
    /// Rows of a demand of about 1, each with a column of its own for a start, and a last row that every
    /// column covers.
    ///
    /// The first columns cover one row each, in order, and the last row; their costs are given. The last
    /// demand is at most their number.
    pub(super) fn new(costs: &[f64], last: f64) -> Self {
        let rows = costs.len() + 1;
        // No two rows demand the same, or a cover of whole columns would let the method turn in circles.
        let uneven = |row: usize| 1.0 + 1e-4 * ((row * 7919 + 13) % 1009) as f64 / 1009.0;
        let mut demands: Vec<f64> = (0..rows).map(uneven).collect();
        demands[costs.len()] = last;
        let columns = costs.iter().enumerate();
        let columns: Vec<Column> =
            columns.map(|(row, &cost)| Column { cost, rows: vec![row, costs.len()] }).collect();
        let mut basis: Vec<usize> = (0..costs.len()).collect();
        basis.push(SURPLUS + costs.len());
        let inside = vec![true; columns.len()];
        // Seconds may be of any size, and so may what rounding leaves of them.
        let nothing = TINY * costs.iter().copied().fold(0.0, f64::max);
        let mut cover = Cover {
            demands,
            columns,
            basis,
            inside,
            inverse: Vec::new(),
            amounts: Vec::new(),
            nothing,
            pivots: 0,
        };
        cover.refresh();
        cover
    }

    /// Adds a column.
    pub(super) fn add(&mut self, column: Column) {
        self.columns.push(column);
        self.inside.push(false);
    }

    /// The columns that are taken, by their number in the order in which they were added, and how much of
    /// them.
    pub(super) fn taken(&self) -> impl Iterator<Item = (usize, f64)> {
        let taken = self.basis.iter().copied().zip(self.amounts.iter().copied());
        taken.filter(|&(column, _)| column < SURPLUS)
    }

    /// Makes the cover cheaper with at most this number of pivots; the prices of the rows.
    pub(super) fn solve(&mut self, pivots: usize) -> Vec<f64> {
        for _ in 0..pivots {
            let prices = self.prices();
            let Some(entering) = self.cheapest(&prices) else { return prices };
            if !self.enter(entering) {
                // Rounding has built up: with an exact basis there is always something that can go.
                self.refresh();
                if !self.enter(entering) {
                    return prices;
                }
            }
        }
        self.prices()
    }

    /// Pivots so far.
    pub(super) fn pivots(&self) -> usize {
        self.pivots
    }

    /// What the cover costs.
    pub(super) fn cost(&self) -> f64 {
        self.basis.iter().zip(&self.amounts).map(|(&column, &amount)| self.cost_of(column) * amount).sum()
    }

    fn cost_of(&self, column: usize) -> f64 {
        self.columns.get(column).map_or(0.0, |column| column.cost)
    }

    fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.demands.len()];
        for (&column, row) in self.basis.iter().zip(&self.inverse) {
            let cost = self.cost_of(column);
            if cost != 0.0 {
                prices.iter_mut().zip(row).for_each(|(price, value)| *price += cost * value);
            }
        }
        prices
    }

    /// The column that saves most for its rows, a surplus included.
    fn cheapest(&self, prices: &[f64]) -> Option<usize> {
        let (mut found, mut least) = (None, -self.nothing);
        for (row, &price) in prices.iter().enumerate() {
            if price < least {
                (found, least) = (Some(SURPLUS + row), price);
            }
        }
        for (number, column) in self.columns.iter().enumerate().filter(|(number, _)| !self.inside[*number]) {
            let dear = column.cost - column.rows.iter().map(|&row| prices[row]).sum::<f64>();
            if dear < least {
                (found, least) = (Some(number), dear);
            }
        }
        found
    }

    /// Brings a column into the basis; false where nothing can go for it.
    fn enter(&mut self, entering: usize) -> bool {
        let direction: Vec<f64> = match entering.checked_sub(SURPLUS) {
            Some(row) => self.inverse.iter().map(|values| -values[row]).collect(),
            None => {
                let rows = &self.columns[entering].rows;
                self.inverse.iter().map(|values| rows.iter().map(|&row| values[row]).sum()).collect()
            }
        };
        let (mut leaving, mut step) = (None, f64::INFINITY);
        for (place, (&rate, &amount)) in direction.iter().zip(&self.amounts).enumerate() {
            if rate > PIVOT {
                let ratio = amount.max(0.0) / rate;
                let steeper = leaving.is_none_or(|best: usize| rate > direction[best]);
                if ratio < step - TINY || ratio <= step + TINY && steeper {
                    (leaving, step) = (Some(place), ratio.min(step));
                }
            }
        }
        let Some(leaving) = leaving else { return false };
        if let Some(inside) = self.inside.get_mut(self.basis[leaving]) {
            *inside = false;
        }
        if let Some(inside) = self.inside.get_mut(entering) {
            *inside = true;
        }
        self.basis[leaving] = entering;
        self.pivots += 1;
        if self.pivots.is_multiple_of(FRESH) {
            self.refresh();
            return true;
        }
        let mut pivot = std::mem::take(&mut self.inverse[leaving]);
        pivot.iter_mut().for_each(|value| *value /= direction[leaving]);
        for (place, row) in self.inverse.iter_mut().enumerate().filter(|(place, _)| *place != leaving) {
            let rate = direction[place];
            if rate != 0.0 {
                row.iter_mut().zip(&pivot).for_each(|(value, pivot)| *value -= rate * pivot);
                self.amounts[place] -= rate * step;
            }
        }
        self.inverse[leaving] = pivot;
        self.amounts[leaving] = step;
        true
    }

    /// Works out the inverse of the basis and the amounts anew.
    fn refresh(&mut self) {
        let size = self.demands.len();
        let mut left = vec![vec![0.0_f64; size]; size];
        for (place, &column) in self.basis.iter().enumerate() {
            match column.checked_sub(SURPLUS) {
                Some(row) => left[row][place] = -1.0,
                None => self.columns[column].rows.iter().for_each(|&row| left[row][place] = 1.0),
            }
        }
        let mut right: Vec<Vec<f64>> = (0..size)
            .map(|row| (0..size).map(|column| if row == column { 1.0 } else { 0.0 }).collect())
            .collect();
        for place in 0..size {
            let pivot = (place..size)
                .max_by(|&one, &other| left[one][place].abs().total_cmp(&left[other][place].abs()));
            let Some(pivot) = pivot.filter(|&pivot| left[pivot][place].abs() > TINY) else { continue };
            left.swap(place, pivot);
            right.swap(place, pivot);
            let scale = left[place][place];
            left[place].iter_mut().chain(right[place].iter_mut()).for_each(|value| *value /= scale);
            let (left_row, right_row) = (left[place].clone(), right[place].clone());
            for row in (0..size).filter(|&row| row != place) {
                let factor = left[row][place];
                if factor != 0.0 {
                    left[row].iter_mut().zip(&left_row).for_each(|(value, by)| *value -= factor * by);
                    right[row].iter_mut().zip(&right_row).for_each(|(value, by)| *value -= factor * by);
                }
            }
        }
        let amount =
            |row: &Vec<f64>| row.iter().zip(&self.demands).map(|(value, demand)| value * demand).sum();
        self.amounts = right.iter().map(amount).collect();
        self.inverse = right;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn prices_and_cover_cost_the_same_and_no_column_is_a_bargain(
            alone in prop::collection::vec(1.0..2.0_f64, 2..12),
            columns in prop::collection::vec((1.0..4.0_f64, any::<u16>()), 0..300),
            last in 0.0..2.0_f64,
            unit in prop_oneof![Just(1e-9), Just(1.0), Just(1e9)],
        ) {
            let rows = alone.len();
            let mut cover = Cover::new(&alone.iter().map(|cost| cost * unit).collect::<Vec<_>>(), last);
            for (cost, mask) in columns {
                let rows = (0..rows).filter(|row| mask >> row & 1 == 1).chain([rows]).collect();
                cover.add(Column { cost: cost * unit, rows });
            }
            let prices = cover.solve(10_000);
            let near = 1e-6 * unit;
            let sum: f64 = prices.iter().zip(&cover.demands).map(|(price, demand)| price * demand).sum();
            prop_assert!((sum - cover.cost()).abs() < near, "{sum} and {}", cover.cost());
            prop_assert!(prices.iter().all(|&price| price > -near));
            prop_assert!(cover.amounts.iter().all(|&amount| amount > -1e-6));
            for column in &cover.columns {
                prop_assert!(column.rows.iter().map(|&row| prices[row]).sum::<f64>() < column.cost + near);
            }
            prop_assert!(cover.pivots < 10_000);
        }
    }
}
