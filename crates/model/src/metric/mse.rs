//! The mean squared error.

use super::mean::{Mean, of_errors};
use super::{Metric, Needs, Tally};

/// The mean squared error.
pub struct Mse;

impl Metric for Mse {
    fn name(&self) -> &'static str {
        "mse"
    }

    fn about(&self) -> &'static str {
        "mean of the squared errors over all vertices of all steps"
    }

    fn needs(&self) -> Needs {
        Needs::Values
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Mean::new(|step| of_errors(step, |error| error * error)))
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
        assert_eq!(value(&Mse, &[first, second]), Some(5.0));
        let lost = Evidence::Values { predicted: &[f32::NAN], truth: &[1.0] };
        assert!(value(&Mse, &[first, lost]).unwrap().is_nan(), "an error of NaN must show");
    }
}
