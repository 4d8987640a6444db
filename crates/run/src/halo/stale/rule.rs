//! How far rows may be off in an epoch (DGC, section 5.2, Eq. 6 and 7).
//!
//! The threshold of epoch `r` is `f_r D_r`: a share of the largest distance `D_r`. With the loss `l_1` of the
//! first epoch and the loss `l_{r-1}` of the one before,
//!
//! ```text
//! norm = (l_1 - l_{r-1}) / l_1
//! f_r  = 1 / (1 + exp(-norm))     adaptive
//! f_r  = 1 / (1 + exp( norm))     adaptive-printed
//! ```
//!
//! The paper prints the second, whose threshold falls from `D/2` to `D/(1 + e)` as the loss falls to 0; its
//! text wants the opposite, which is the first: from `D/2` to `D/(1 + 1/e)`, and less than `D/2` where the
//! loss has risen.

use crate::config::StaleRule;

impl StaleRule {
    /// The share of the largest distance that is allowed after these losses: of the first epoch and of the
    /// last one. Losses that cannot be compared count as equal.
    pub fn share(self, first: f64, last: f64) -> f64 {
        let fallen = (first - last) / first;
        let fallen = if first > 0.0 && fallen.is_finite() { fallen } else { 0.0 };
        match self {
            StaleRule::Fraction(share) => share,
            StaleRule::Adaptive => sigmoid(fallen),
            StaleRule::AsPrinted => sigmoid(-fallen),
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSSES: [f64; 7] = [9.0, 5.0, 4.0, 3.0, 1.0, 0.1, 0.0];

    fn shares(rule: StaleRule) -> Vec<f64> {
        LOSSES.iter().map(|&loss| rule.share(4.0, loss)).collect()
    }

    #[test]
    fn the_text_allows_more_as_the_loss_falls_and_the_equation_less() {
        let (text, printed) = (shares(StaleRule::Adaptive), shares(StaleRule::AsPrinted));
        assert!(text.windows(2).all(|pair| pair[0] < pair[1]), "{text:?}");
        assert!(printed.windows(2).all(|pair| pair[0] > pair[1]), "{printed:?}");
        assert!(text.iter().chain(&printed).all(|share| (0.0..1.0).contains(share) && *share > 0.0));
        // A loss that stays is half of the distance by both; one that is gone is at their ends.
        assert_eq!([text[2], printed[2]], [0.5, 0.5]);
        let e = std::f64::consts::E;
        assert!((text[6] - e / (1.0 + e)).abs() < 1e-12 && (printed[6] - 1.0 / (1.0 + e)).abs() < 1e-12);
        assert_eq!(shares(StaleRule::Fraction(0.3)), vec![0.3; LOSSES.len()]);
    }

    #[test]
    fn losses_that_cannot_be_compared_count_as_equal() {
        let odd = [(0.0, 1.0), (-2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0)];
        for (first, last) in odd {
            assert_eq!(StaleRule::Adaptive.share(first, last), 0.5, "{first} {last}");
        }
    }
}
