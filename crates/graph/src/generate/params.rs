//! What to generate, and whether it can be.

use super::trend::Trend;
use crate::error::{Error, Result};
use crate::snapshot::Vertex;

/// What to generate; every field has a flag of the same name on the command line.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Params {
    /// Number of vertices, the same at every step.
    pub vertices: usize,
    /// Edges of a step, on average over the steps; in an undirected graph a pair of opposite edges counts
    /// once.
    pub edges: usize,
    /// Number of steps.
    pub steps: usize,
    /// Edges added and removed between consecutive steps, over the edges of the earlier one: 0 to 2 (all
    /// replaced).
    pub edge_change: f64,
    /// Share of the vertices whose live segment of features is drawn anew at a step.
    pub feature_change: f64,
    /// Features of a vertex; without any there are no targets either.
    pub features: usize,
    /// Segments the features are cut into, of which the first one is live.
    pub segments: usize,
    /// Whether features are 0 or 1 instead of normal.
    pub binary: bool,
    /// How the number of edges moves.
    pub trend: Trend,
    /// Whether every edge comes with its opposite.
    pub undirected: bool,
    /// Standard deviation of the noise in the targets.
    pub noise: f64,
    /// What all random numbers follow from.
    pub seed: u64,
}

/// Widest row of features: wider ones are a mistyped number.
const WIDEST: usize = 1 << 16;

/// The most steps that can be made.
const MOST_STEPS: usize = 1 << 24;

impl Params {
    /// The defaults of the kinds that copy no published dataset.
    pub const GENERIC: Params = Params {
        vertices: 10_000,
        edges: 100_000,
        steps: 50,
        edge_change: 0.2,
        feature_change: 0.3,
        features: 32,
        segments: 4,
        binary: false,
        trend: Trend::Flat,
        undirected: false,
        noise: 0.3,
        seed: 1,
    };

    /// The same graph with `scale` times the vertices (2 at least) and edges; steps and widths stay.
    pub fn scaled(self, scale: f64) -> Params {
        let times = |count: usize| (count as f64 * scale).round() as usize;
        Params { vertices: times(self.vertices).max(2), edges: times(self.edges), ..self }
    }

    /// Whether there is such a graph; the error names the setting at fault and what would do.
    pub fn check(&self) -> Result<()> {
        if !(2..=Vertex::MAX as usize).contains(&self.vertices) {
            let problem = format!("{} vertices were asked for; use 2 to {}", self.vertices, Vertex::MAX);
            return Err(Error::settings("--vertices", problem));
        }
        self.check_growth(self.pairs(), &format!("{} vertices without self-loops", self.vertices))?;
        check_range("--feature-change", self.feature_change, 1.0)?;
        check_range("--noise", self.noise, f64::MAX)?;
        if self.features > WIDEST {
            let problem = format!("{} features a vertex are too many; use at most {WIDEST}", self.features);
            return Err(Error::settings("--features", problem));
        }
        if self.features > 0 && !(1..=self.features).contains(&self.segments) {
            let problem = format!("{} features cannot be cut into {} segments", self.features, self.segments);
            return Err(Error::settings("--segments", format!("{problem}; use 1 to {}", self.features)));
        }
        Ok(())
    }

    /// Whether the number of edges can take its course where `room` of them can exist, because of the
    /// `limit`.
    pub(super) fn check_growth(&self, room: usize, limit: &str) -> Result<()> {
        if self.steps == 0 {
            return Err(Error::settings("--steps", "0 steps were asked for; use at least 1"));
        }
        if self.steps > MOST_STEPS {
            let problem = format!("{} steps were asked for; use at most {MOST_STEPS}", self.steps);
            return Err(Error::settings("--steps", problem));
        }
        check_range("--edge-change", self.edge_change, 2.0)?;
        let (edges, trend, most) = (self.edges, self.trend, most_edges(room, self.trend));
        if edges > most {
            let problem = format!(
                "{edges} edges a step are too many: {limit} and the {trend} trend allow at most {most}"
            );
            return Err(Error::settings("--edges", problem));
        }
        Ok(())
    }

    /// How many edges there can be in one step; in an undirected graph opposite edges count once.
    pub(super) fn pairs(&self) -> usize {
        let pairs = self.vertices * (self.vertices - 1);
        if self.undirected { pairs / 2 } else { pairs }
    }
}

/// The highest mean number of edges of which no step goes beyond `room`.
pub(super) fn most_edges(room: usize, trend: Trend) -> usize {
    (room as f64 / trend.peak()) as usize
}

fn check_range(setting: &str, value: f64, most: f64) -> Result<()> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    let range = if most == f64::MAX { "a finite number from 0 up".into() } else { format!("0 to {most}") };
    Err(Error::settings(setting, format!("{value} is out of range; use {range}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_the_setting_and_the_limit() {
        let base = Params::GENERIC;
        let cases: Vec<(Params, &str, &str)> = vec![
            (Params { vertices: 1, ..base.clone() }, "--vertices", "2 to"),
            (Params { vertices: 1 << 32, ..base.clone() }, "--vertices", "4294967295"),
            (Params { vertices: 10, edges: 91, ..base.clone() }, "--edges", "at most 90"),
            (Params { vertices: 10, edges: 46, undirected: true, ..base.clone() }, "--edges", "at most 45"),
            (
                Params { vertices: 10, edges: 61, trend: Trend::Linear, ..base.clone() },
                "--edges",
                "at most 60",
            ),
            (Params { steps: 0, ..base.clone() }, "--steps", "at least 1"),
            (Params { steps: usize::MAX, ..base.clone() }, "--steps", "at most 16777216"),
            (Params { edge_change: 2.1, ..base.clone() }, "--edge-change", "0 to 2"),
            (Params { edge_change: f64::NAN, ..base.clone() }, "--edge-change", "NaN"),
            (Params { feature_change: -0.1, ..base.clone() }, "--feature-change", "0 to 1"),
            (Params { noise: f64::INFINITY, ..base.clone() }, "--noise", "finite"),
            (Params { features: 3, ..base.clone() }, "--segments", "1 to 3"),
            (Params { segments: 0, ..base.clone() }, "--segments", "1 to 32"),
            (Params { features: usize::MAX, ..base.clone() }, "--features", "at most"),
        ];
        for (params, setting, hint) in cases {
            let error = params.check().unwrap_err().to_string();
            assert!(error.starts_with(setting) && error.contains(hint), "{error}");
        }
        base.check().unwrap();
        Params { features: 0, segments: 0, ..base }.check().unwrap();
    }

    #[test]
    fn scaling_keeps_steps_and_widths() {
        let scaled = Params::GENERIC.scaled(0.01);
        assert_eq!(scaled, Params { vertices: 100, edges: 1000, ..Params::GENERIC });
        assert_eq!(Params::GENERIC.scaled(0.0).vertices, 2);
        assert_eq!(Params::GENERIC.scaled(f64::NAN).vertices, 2);
    }
}
