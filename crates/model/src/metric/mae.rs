//! The mean absolute error.

use super::mean::{Mean, of_errors};
use super::{Metric, Needs, Tally};

/// The mean absolute error.
pub struct Mae;

impl Metric for Mae {
    fn name(&self) -> &'static str {
        "mae"
    }

    fn about(&self) -> &'static str {
        "mean of the absolute errors over all vertices of all steps"
    }

    fn needs(&self) -> Needs {
        Needs::Values
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Mean::new(|step| of_errors(step, f64::abs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Evidence, value};

    #[test]
    fn every_vertex_of_every_step_counts_the_same() {
        let first = Evidence::Values { predicted: &[1.0, 2.0, 3.0], truth: &[1.0, 4.0, 3.0] };
        let second = Evidence::Values { predicted: &[5.0], truth: &[1.0] };
        assert_eq!(value(&Mae, &[first, second]), Some(1.5));
    }
}
