//! Finds the season whose usual values tell linear regression most of what the last values do not: fitted on
//! the first two thirds of the training part, and compared on the last.
//!
//! That values of a season ago are close would not do: in a season of 288 steps, those of 13 steps ago often
//! are closer, and one sample that is as noisy as the last value is no closer than that.

use kymo_graph::Step;

use super::super::least_squares::LeastSquares;
use super::forecast::Signal;
use super::seasonal;
use super::usual::Usual;
use crate::error::Result;

/// The longest season that is tried, in steps.
const LONGEST: usize = 512;

/// How many are tried at most, those first after which values come back the closest.
const TRIED: usize = 6;

/// A season has no better one within this part of it on either side, and is then moved by as much as that.
const NEAR: usize = 8;
const MOVED: usize = 64;

/// How many steps on either side are tried to count for a phase; this part of the season at most.
const WIDTHS: [usize; 6] = [0, 1, 2, 4, 8, 12];
const PART: usize = 8;

/// What is left of the error, at most, of a season that is worth looking at.
const LEFT: f64 = 0.97;

/// Vertices that regression is tried on, and last values beside what is usual.
const VERTICES: usize = 32;
const LAGS: usize = 8;

/// Of many tried seasons one is good by chance: what was found has to leave little of the error of more
/// vertices, too, with as many numbers as this.
const LEFT_OF_ALL: f64 = 0.98;
const NUMBERS: usize = 1 << 18;

/// The season and width that did best, if one is worth looking at.
pub fn detect(signal: &Signal<'_>) -> Result<Option<Usual>> {
    let rows = seasonal::rows(signal)?;
    let seasons = candidates(&rows, signal.horizon);
    let trial = Trial::of_some(&rows, VERTICES, signal.horizon);
    let best = |tried: &mut dyn Iterator<Item = Usual>| {
        let left = tried.filter_map(|usual| Some((trial.left(usual)?, usual)));
        left.min_by(|one, other| one.0.total_cmp(&other.0))
    };
    let plain = |season: usize| Usual { season, width: 0 };
    let Some((_, first)) = best(&mut seasons.into_iter().map(plain)) else { return Ok(None) };
    let around = first.season - first.season / MOVED..=first.season + first.season / MOVED;
    let possible = around.filter(|&season| season > signal.horizon);
    let Some((_, moved)) = best(&mut possible.map(plain)) else { return Ok(None) };
    let season = moved.season;
    // Whatever counts for a phase is known where the step is predicted from.
    let most = (season / PART).min(season - signal.horizon);
    let widths = WIDTHS.into_iter().filter(|&width| width <= most);
    let found = best(&mut widths.map(|width| Usual { season, width }));
    let Some((_, usual)) = found.filter(|(left, _)| *left < LEFT) else { return Ok(None) };
    let all = Trial::of_some(&rows, NUMBERS / rows.len().max(1), signal.horizon);
    Ok(all.left(usual).filter(|&left| left < LEFT_OF_ALL).map(|_| usual))
}

/// Steps after which values come back closer than after any number near it, and than after half of it.
fn candidates(rows: &[Vec<f32>], horizon: usize) -> Vec<usize> {
    let longest = (rows.len() / 2).min(LONGEST);
    let change = |season: usize| {
        let pairs = rows.iter().zip(&rows[season..]);
        let changes = pairs.flat_map(|(old, new)| old.iter().zip(new));
        let sum: f64 = changes.map(|(old, new)| f64::from(new - old) * f64::from(new - old)).sum();
        sum / (rows.len() - season) as f64
    };
    let changes: Vec<f64> = (0..=longest).map(change).collect();
    let is_candidate = |&season: &usize| {
        let own = changes[season];
        let near = &changes[season - season / NEAR..=(season + season / NEAR).min(longest)];
        own < changes[season / 2] && near.iter().all(|&other| own <= other)
    };
    // What comes sooner is not a season: it is the last value.
    let mut all: Vec<usize> = (horizon.max(1) + 1..=longest).filter(is_candidate).collect();
    all.sort_by(|&one, &other| changes[one].total_cmp(&changes[other]));
    all.truncate(TRIED);
    all
}

/// Values that regression is tried on.
struct Trial {
    rows: Vec<Vec<f32>>,
    /// The sums of all rows before each.
    sums: Vec<Vec<f64>>,
    horizon: usize,
}

impl Trial {
    /// Of this many vertices of all at most.
    fn of_some(rows: &[Vec<f32>], vertices: usize, horizon: usize) -> Trial {
        let stride = rows.first().map_or(1, |row| row.len().div_ceil(vertices.max(1)).max(1));
        let some = |row: &Vec<f32>| row.iter().step_by(stride).copied().collect();
        Trial::new(rows.iter().map(some).collect(), horizon)
    }

    fn new(rows: Vec<Vec<f32>>, horizon: usize) -> Trial {
        let mut sums = vec![vec![0.0f64; rows.first().map_or(0, Vec::len)]];
        for row in &rows {
            let next = sums[sums.len() - 1].iter().zip(row).map(|(sum, &value)| sum + f64::from(value));
            sums.push(next.collect());
        }
        Trial { rows, sums, horizon }
    }

    /// The usual value of each vertex at a step that is a season after the first, or later.
    fn usual(&self, usual: Usual, step: Step) -> Vec<f64> {
        let (mut mean, mut count) = (vec![0.0f64; self.sums[0].len()], 0usize);
        for then in usual.steps(step) {
            let (first, end) = (&self.sums[*then.start()], &self.sums[*then.end() + 1]);
            mean.iter_mut().zip(first.iter().zip(end)).for_each(|(sum, (first, end))| *sum += end - first);
            count += then.count();
        }
        mean.iter_mut().for_each(|sum| *sum /= count.max(1) as f64);
        mean
    }

    /// What is left of the error where usual values are known, too; `None` where there is too little to tell.
    fn left(&self, usual: Usual) -> Option<f64> {
        let samples = usual.season.max(LAGS)..self.rows.len().saturating_sub(self.horizon);
        let cut = samples.start + samples.len() * 2 / 3;
        let (all, plain) = (LAGS + 3, LAGS + 1);
        if (cut - samples.start) * self.sums[0].len() < 4 * all || cut == samples.end {
            return None;
        }
        let fit = |width: usize| {
            let mut sums = LeastSquares::new(width);
            self.walk(usual, samples.start..cut, |row, truth| sums.add(&row[..width], truth));
            sums.solve()
        };
        let weights = [fit(plain), fit(all)];
        let mut errors = [0.0f64; 2];
        self.walk(usual, cut..samples.end, |row, truth| {
            for (error, weights) in errors.iter_mut().zip(&weights) {
                let said: f64 = row.iter().zip(weights).map(|(input, weight)| input * weight).sum();
                *error += (said - truth) * (said - truth);
            }
        });
        (errors[0] > 0.0).then(|| errors[1] / errors[0])
    }

    /// Goes over samples and vertices: the last values and a constant, then the usual values of the step and
    /// of the one that is predicted; and what came.
    fn walk(&self, usual: Usual, samples: std::ops::Range<Step>, mut look: impl FnMut(&[f64], f64)) {
        let mut row = [1.0f64; LAGS + 3];
        for sample in samples {
            let [now, then] = [sample, sample + self.horizon].map(|step| self.usual(usual, step));
            for vertex in 0..now.len() {
                for (ago, place) in row[..LAGS].iter_mut().enumerate() {
                    *place = f64::from(self.rows[sample.saturating_sub(ago)][vertex]);
                }
                (row[LAGS + 1], row[LAGS + 2]) = (now[vertex], then[vertex]);
                look(&row, f64::from(self.rows[sample + self.horizon][vertex]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(steps: usize, horizon: usize, value: impl Fn(usize, u32) -> f32) -> Option<Usual> {
        let all: Vec<u32> = (0..20).collect();
        let known = |step: Step| Ok((&all[..], all.iter().map(|&vertex| value(step, vertex)).collect()));
        let signal =
            Signal { vertices: 20, horizon, train: 0..steps - horizon, window: 4, mean: 0.0, known: &known };
        detect(&signal).unwrap()
    }

    /// Noise between -0.5 and 0.5.
    fn noise(step: usize, vertex: u32) -> f32 {
        let bits = (step as u32).wrapping_mul(0x9E37_79B9) ^ vertex.wrapping_mul(0x85EB_CA6B);
        let mixed = (bits ^ (bits >> 15)).wrapping_mul(0x2C1B_3C6D);
        ((mixed ^ (mixed >> 12)).wrapping_mul(0x297A_2D39) >> 8) as f32 / (1u32 << 24) as f32 - 0.5
    }

    /// Each vertex has its own value at each phase.
    fn own(phase: usize, vertex: u32) -> f32 {
        4.0 * noise(phase + 10_000, vertex)
    }

    #[test]
    fn a_season_is_found_below_noise_and_for_any_horizon() {
        for (season, horizon) in [(7, 1), (24, 12), (60, 3)] {
            let usual = found(12 * season, horizon, |step, vertex| {
                own(step % season, vertex) + 3.0 * noise(step, vertex)
            });
            assert_eq!(usual, Some(Usual { season, width: 0 }), "{season} {horizon}");
        }
    }

    #[test]
    fn waves_are_told_by_their_neighbours_too() {
        let value = |step: usize, vertex: u32| {
            (std::f32::consts::TAU * step as f32 / 96.0 + vertex as f32).sin() + 3.0 * noise(step, vertex)
        };
        let usual = found(96 * 6, 20, value).unwrap();
        assert!(usual.width >= 2 && usual.season.abs_diff(96) <= 2, "{usual:?}");
    }

    #[test]
    fn what_wanders_or_is_noise_has_no_season() {
        assert_eq!(found(300, 1, noise), None);
        assert_eq!(found(300, 2, |step, vertex| 0.3 * step as f32 + noise(step, vertex)), None);
        assert_eq!(found(300, 1, |_, vertex| vertex as f32), None);
        // There is too little to tell.
        assert_eq!(found(3, 1, noise), None);
    }
}
