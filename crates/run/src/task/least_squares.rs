//! Least squares by normal equations, for the few numbers that a baseline fits.

/// Sums over rows of inputs and what they are to come to.
pub struct LeastSquares {
    width: usize,
    /// The products of inputs, row after row.
    products: Vec<f64>,
    /// The products of inputs with what is to come out.
    outputs: Vec<f64>,
}

/// Kept from zero in every direction, as a part of the mean square of the inputs: columns that say the same
/// share what one of them would get.
const RIDGE: f64 = 1e-6;

impl LeastSquares {
    /// Of rows of this width, none so far.
    pub fn new(width: usize) -> LeastSquares {
        LeastSquares { width, products: vec![0.0; width * width], outputs: vec![0.0; width] }
    }

    /// Adds a row.
    pub fn add(&mut self, inputs: &[f64], output: f64) {
        for (row, &left) in inputs.iter().enumerate() {
            let products = &mut self.products[row * self.width..][..=row];
            products.iter_mut().zip(inputs).for_each(|(product, right)| *product += left * right);
            self.outputs[row] += left * output;
        }
    }

    /// The weights of the inputs that come closest; 0 for all where nothing was added.
    pub fn solve(mut self) -> Vec<f64> {
        let width = self.width;
        let trace: f64 = (0..width).map(|at| self.products[at * width + at]).sum();
        let ridge = RIDGE * trace / width.max(1) as f64;
        if ridge.is_nan() || ridge <= 0.0 {
            return vec![0.0; width];
        }
        // Cholesky's factor in place of the products: they are those of real columns, and positive with the
        // ridge.
        let factor = &mut self.products;
        for row in 0..width {
            for column in 0..=row {
                let known: f64 =
                    (0..column).map(|k| factor[row * width + k] * factor[column * width + k]).sum();
                let rest = factor[row * width + column] - known;
                factor[row * width + column] = match row == column {
                    true => (rest + ridge).max(ridge).sqrt(),
                    false => rest / factor[column * width + column],
                };
            }
        }
        let mut weights = self.outputs;
        for row in 0..width {
            let known: f64 = (0..row).map(|k| factor[row * width + k] * weights[k]).sum();
            weights[row] = (weights[row] - known) / factor[row * width + row];
        }
        for row in (0..width).rev() {
            let known: f64 = (row + 1..width).map(|k| factor[k * width + row] * weights[k]).sum();
            weights[row] = (weights[row] - known) / factor[row * width + row];
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_made_the_outputs_are_found() {
        let mut fit = LeastSquares::new(3);
        for n in 0..50u32 {
            let row = [f64::from(n % 7) - 3.0, f64::from(n % 5) - 2.0, 1.0];
            fit.add(&row, 2.0 * row[0] - 0.5 * row[1] + 4.0);
        }
        let found = fit.solve();
        for (found, expected) in found.iter().zip([2.0, -0.5, 4.0]) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }

    #[test]
    fn columns_that_are_the_same_share_their_weight() {
        let mut fit = LeastSquares::new(2);
        (1..20).for_each(|n| fit.add(&[f64::from(n), f64::from(n)], f64::from(3 * n)));
        let found = fit.solve();
        assert!(found.iter().all(|weight| (weight - 1.5).abs() < 1e-3), "{found:?}");
        assert_eq!(LeastSquares::new(2).solve(), [0.0, 0.0]);
        let mut zeros = LeastSquares::new(2);
        zeros.add(&[0.0, 0.0], 1.0);
        assert_eq!(zeros.solve(), [0.0, 0.0]);
    }
}
