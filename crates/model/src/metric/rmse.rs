//! The root of the mean squared error.

use super::{Evidence, Metric, Mse, Needs, Tally};

/// The root of the mean squared error.
pub struct Rmse;

impl Metric for Rmse {
    fn name(&self) -> &'static str {
        "rmse"
    }

    fn about(&self) -> &'static str {
        "square root of the mean squared error over all vertices of all steps"
    }

    fn needs(&self) -> Needs {
        Needs::Values
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Root(Mse.tally()))
    }
}

/// The root is taken at the end: a mean of roots over steps would be another number.
struct Root(Box<dyn Tally>);

impl Tally for Root {
    fn add(&mut self, step: &Evidence<'_>) {
        self.0.add(step);
    }

    fn value(&self) -> Option<f64> {
        self.0.value().map(f64::sqrt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::value;

    #[test]
    fn the_root_is_of_the_mean_over_all_steps() {
        let first = Evidence::Values { predicted: &[1.0, 2.0, 3.0], truth: &[1.0, 4.0, 3.0] };
        let second = Evidence::Values { predicted: &[5.0], truth: &[1.0] };
        assert_eq!(value(&Rmse, &[first, second]), Some(5f64.sqrt()));
    }
}
