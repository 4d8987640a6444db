//! The learning rate as a function of the step.

/// How the learning rate changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateSchedule {
    /// It does not.
    Constant {
        /// The rate.
        rate: f32,
    },
    /// It is multiplied by a factor every `every` steps.
    Step {
        /// The rate at first.
        rate: f32,
        /// Steps between changes.
        every: u64,
        /// What it is multiplied by.
        factor: f32,
    },
    /// It rises in a line, then falls in half a wave (Loshchilov and Hutter, 2017, equation 5).
    Cosine {
        /// The rate after the rise.
        rate: f32,
        /// Steps of the rise.
        warm_up: u64,
        /// Steps in all, after which the rate stays at its lowest.
        steps: u64,
        /// The rate at the end.
        lowest: f32,
    },
}

impl RateSchedule {
    /// The rate of a step; the first one is step zero.
    pub fn rate(&self, step: u64) -> f32 {
        match *self {
            RateSchedule::Constant { rate } => rate,
            RateSchedule::Step { rate, every, factor } => {
                let changes = step.checked_div(every).unwrap_or(0);
                (f64::from(rate) * f64::from(factor).powf(changes as f64)) as f32
            }
            RateSchedule::Cosine { rate, warm_up, .. } if step < warm_up => {
                (f64::from(rate) * (step + 1) as f64 / warm_up as f64) as f32
            }
            RateSchedule::Cosine { rate, warm_up, steps, lowest } => {
                let length = steps.saturating_sub(warm_up).max(1) as f64;
                let done = ((step - warm_up) as f64 / length).min(1.0);
                let share = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
                (f64::from(lowest) + (f64::from(rate) - f64::from(lowest)) * share) as f32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f32, expected: f32) -> bool {
        (found - expected).abs() < 1e-7
    }

    #[test]
    fn rates_are_those_of_the_formulas() {
        assert_eq!(RateSchedule::Constant { rate: 0.1 }.rate(1_000_000), 0.1);
        let step = RateSchedule::Step { rate: 0.8, every: 10, factor: 0.5 };
        assert!(
            [(0, 0.8), (9, 0.8), (10, 0.4), (35, 0.1)].iter().all(|&(at, rate)| close(step.rate(at), rate))
        );
        assert_eq!(RateSchedule::Step { rate: 0.8, every: 0, factor: 0.5 }.rate(7), 0.8);
    }

    #[test]
    fn the_wave_rises_falls_and_ends() {
        let wave = RateSchedule::Cosine { rate: 1.0, warm_up: 4, steps: 104, lowest: 0.1 };
        for (at, rate) in [(0, 0.25), (3, 1.0), (4, 1.0), (54, 0.55), (104, 0.1), (1_000_000, 0.1)] {
            assert!(close(wave.rate(at), rate), "{at}: {}", wave.rate(at));
        }
        assert!((4..104).all(|at| wave.rate(at + 1) < wave.rate(at)));
        let short = RateSchedule::Cosine { rate: 1.0, warm_up: 0, steps: 0, lowest: 0.0 };
        assert!(short.rate(0) == 1.0 && short.rate(1) < 1e-7);
    }
}
