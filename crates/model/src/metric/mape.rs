//! The mean absolute percentage error.

use super::mean::Mean;
use super::{Evidence, Metric, Needs, Tally};

/// The mean of the absolute errors, each relative to the true value; values of 0 are left out, as work on
/// traffic does.
pub struct Mape;

impl Metric for Mape {
    fn name(&self) -> &'static str {
        "mape"
    }

    fn about(&self) -> &'static str {
        "mean of the absolute errors divided by the true values, over all that are not 0; 0.1 is 10 %"
    }

    fn needs(&self) -> Needs {
        Needs::Values
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Mean::new(judge))
    }
}

fn judge(step: &Evidence<'_>) -> Option<(f64, f64)> {
    let Evidence::Values { predicted, truth } = step else { return None };
    let pairs = predicted.iter().zip(*truth).filter(|(_, truth)| **truth != 0.0);
    let errors = pairs.map(|(&predicted, &truth)| {
        let (predicted, truth) = (f64::from(predicted), f64::from(truth));
        ((predicted - truth) / truth).abs()
    });
    let (sum, count) = errors.fold((0.0, 0usize), |(sum, count), error| (sum + error, count + 1));
    Some((sum, count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::value;

    #[test]
    fn errors_are_relative_and_zeros_are_left_out() {
        let first = Evidence::Values { predicted: &[1.0, 2.0, 3.0], truth: &[2.0, 0.0, -4.0] };
        let second = Evidence::Values { predicted: &[5.0], truth: &[5.0] };
        assert_eq!(value(&Mape, &[first, second]), Some((0.5 + 1.75) / 3.0));
        let zeros = Evidence::Values { predicted: &[1.0], truth: &[0.0] };
        assert_eq!(value(&Mape, &[zeros]), None);
    }
}
