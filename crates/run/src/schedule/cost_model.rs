//! A linear model of what snapshots cost: `a1 * N + a2 * E + a3` seconds for `N` vertices and `E` edges
//! (DyGNeX appendix H, equation 31; REAL appendix G, equation 16).
//!
//! It is fitted to the windows that were measured, a window being the sum of its snapshots. Large windows are
//! no more important than small ones, so errors are relative. A window that is far off was disturbed by
//! something else and is left out of the fit (DyGNeX 5.3 drops outliers too), but not out of the error, which
//! is taken over windows that were held out. All snapshots of a store have the same vertices, so a1 and a3
//! cannot be told apart by fitting: what does not grow with the edges counts for the vertices as far as it
//! was spent on rows, which is measured. The seconds themselves are fitted as a whole: fitting a line to each
//! measured stage and adding the lines up is further off, because medians of stages add up to less than the
//! median of their sum.

use kymo_trace::schema::CostModelRecord;
use serde::{Deserialize, Serialize};

/// One window in this many is held out.
const HELD: usize = 5;
/// A window whose error is this many times the median one is an outlier.
const FAR: f64 = 3.0;

/// What a snapshot costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Seconds of a vertex (a1).
    pub vertex: f64,
    /// Seconds of an edge (a2).
    pub edge: f64,
    /// Seconds of a snapshot whatever its size (a3).
    pub snapshot: f64,
    /// Its mean error on windows it was not fitted to, relative to their seconds.
    pub error: f64,
    /// How many windows that were.
    pub held_out: usize,
}

/// A window that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Snapshots.
    pub steps: usize,
    /// Edges of all of them.
    pub edges: f64,
    /// Seconds.
    pub seconds: f64,
    /// Seconds of these that were spent on rows, forward and backward.
    pub rows: f64,
}

impl From<CostModel> for CostModelRecord {
    fn from(model: CostModel) -> Self {
        let CostModel { vertex, edge, snapshot, error, held_out } = model;
        CostModelRecord { vertex, edge, snapshot, error, held_out }
    }
}

impl CostModel {
    /// Fits the model to windows over this many vertices; nothing where there are too few windows.
    pub fn fit(windows: &[Measured], vertices: usize) -> Option<CostModel> {
        let windows: Vec<&Measured> = windows.iter().filter(|window| window.seconds > 0.0).collect();
        let numbered = || windows.iter().enumerate();
        let held: Vec<&Measured> =
            numbered().filter(|(number, _)| number % HELD == HELD - 1).map(|(_, window)| *window).collect();
        let kept: Vec<&Measured> =
            numbered().filter(|(number, _)| number % HELD != HELD - 1).map(|(_, window)| *window).collect();
        if kept.len() < 2 || held.is_empty() {
            return None;
        }
        let all = line(&kept);
        let mut errors: Vec<f64> = kept.iter().map(|window| off(all, window)).collect();
        errors.sort_by(f64::total_cmp);
        let far = FAR * errors[errors.len() / 2];
        let usual: Vec<&Measured> = kept.iter().copied().filter(|window| off(all, window) <= far).collect();
        let (edge, step) = if usual.len() < 2 { all } else { line(&usual) };
        let steps = |of: fn(&Measured) -> f64| {
            kept.iter().map(|window| of(window) / window.steps.max(1) as f64).sum::<f64>() / kept.len() as f64
        };
        let vertex = step.min(steps(|window| window.rows)).max(0.0) / vertices.max(1) as f64;
        let error = held.iter().map(|window| off((edge, step), window)).sum::<f64>() / held.len() as f64;
        let snapshot = (step - vertex * vertices as f64).max(0.0);
        Some(CostModel { vertex, edge, snapshot, error, held_out: held.len() })
    }

    /// Seconds of this many snapshots with these edges in all.
    pub fn seconds(&self, steps: usize, vertices: usize, edges: f64) -> f64 {
        steps as f64 * (self.vertex * vertices as f64 + self.snapshot) + self.edge * edges
    }

    /// How far it is off on windows, on average and relative to their seconds.
    pub fn error_on(&self, windows: &[Measured], vertices: usize) -> f64 {
        let step = self.vertex * vertices as f64 + self.snapshot;
        let errors = windows.iter().filter(|window| window.seconds > 0.0);
        let errors: Vec<f64> = errors.map(|window| off((self.edge, step), window)).collect();
        errors.iter().sum::<f64>() / errors.len().max(1) as f64
    }
}

/// The relative error of seconds of an edge and of a snapshot on a window.
fn off((edge, step): (f64, f64), window: &Measured) -> f64 {
    (edge * window.edges + step * window.steps as f64 - window.seconds).abs() / window.seconds
}

/// Seconds of an edge and of a snapshot that make the sum of squared relative errors least; neither is
/// negative.
fn line(windows: &[&Measured]) -> (f64, f64) {
    let sum = |of: &dyn Fn(&Measured) -> f64| windows.iter().map(|window| of(window)).sum::<f64>();
    // Both sides of the line are divided by the seconds: `edge * x + step * y = 1`.
    let x = |window: &Measured| window.edges / window.seconds;
    let y = |window: &Measured| window.steps as f64 / window.seconds;
    let (xx, xy, yy) = (sum(&|w| x(w) * x(w)), sum(&|w| x(w) * y(w)), sum(&|w| y(w) * y(w)));
    let (x1, y1) = (sum(&x), sum(&y));
    let alone = |square: f64, product: f64| if square > 0.0 { product / square } else { 0.0 };
    let determinant = xx * yy - xy * xy;
    if determinant <= 1e-12 * xx * yy {
        return (0.0, alone(yy, y1));
    }
    let (edge, step) = ((x1 * yy - y1 * xy) / determinant, (y1 * xx - x1 * xy) / determinant);
    match (edge < 0.0, step < 0.0) {
        (true, _) => (0.0, alone(yy, y1)),
        (_, true) => (alone(xx, x1), 0.0),
        _ => (edge, step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(disturbed: f64) -> Vec<Measured> {
        let window = |number: usize| {
            let edges = 1000.0 + 50.0 * number as f64;
            let seconds = 1e-5 * edges + 4.0 * 0.005 + if number == 7 { disturbed } else { 0.0 };
            Measured { steps: 4, edges, seconds, rows: 0.012 }
        };
        (0..20).map(window).collect()
    }

    #[test]
    fn the_coefficients_come_back_whatever_one_window_did() {
        for disturbed in [0.0, 5.0] {
            let model = CostModel::fit(&windows(disturbed), 100).unwrap();
            assert!((model.edge - 1e-5).abs() < 1e-9, "{model:?}");
            // Rows take 0.003 s of each snapshot's 0.005 s.
            assert!((model.vertex - 3e-5).abs() < 1e-8 && (model.snapshot - 0.002).abs() < 1e-6, "{model:?}");
            assert!(model.error < 1e-6 && model.held_out == 4, "{model:?}");
            assert!(model.error_on(&windows(0.0), 100) < 1e-6);
            assert!((model.seconds(4, 100, 1000.0) - 0.03).abs() < 1e-6);
        }
    }

    #[test]
    fn nothing_is_negative_and_few_windows_tell_nothing() {
        let falling = |number: usize| Measured {
            steps: 4,
            edges: 100.0 * number as f64,
            seconds: 1.0 / (1.0 + number as f64),
            rows: 0.0,
        };
        let model = CostModel::fit(&(0..20).map(falling).collect::<Vec<_>>(), 10).unwrap();
        assert!(model.edge == 0.0 && model.snapshot > 0.0 && model.vertex == 0.0, "{model:?}");
        let steep =
            |number: usize| Measured { seconds: 0.1 * (1.0 + number as f64).powi(3), ..falling(number) };
        let model = CostModel::fit(&(0..20).map(steep).collect::<Vec<_>>(), 10).unwrap();
        assert!(model.edge > 0.0 && model.snapshot >= 0.0, "{model:?}");
        assert_eq!(CostModel::fit(&windows(0.0)[..4], 100), None);
        assert_eq!(CostModel::fit(&[], 100), None);
    }
}
