//! Degrees that follow the graph from step to step, and what they say about a step.

use crate::delta::Delta;

/// In- and out-degrees, and which vertices had an edge when they were last looked at.
pub(super) struct Degrees {
    inward: Vec<u32>,
    outward: Vec<u32>,
    active: Vec<bool>,
}

/// The degrees of one step, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Summary {
    /// Vertices with an edge.
    pub active: u64,
    /// Of them, those that had none at the step before.
    pub appeared: u64,
    /// Vertices that had an edge at the step before and have none now.
    pub disappeared: u64,
    /// The highest in-degree.
    pub max_in: u32,
    /// The highest out-degree.
    pub max_out: u32,
    /// The Gini coefficient of the in-degrees of active vertices.
    pub gini: Option<f64>,
}

impl Degrees {
    /// Those of a graph without edges.
    pub fn new(vertices: usize) -> Self {
        Degrees { inward: vec![0; vertices], outward: vec![0; vertices], active: vec![false; vertices] }
    }

    /// Follows a change: the cost is that of the change, not of the graph.
    pub fn follow(&mut self, delta: &Delta) {
        for &(edge, _) in &delta.added {
            self.inward[edge.target() as usize] += 1;
            self.outward[edge.source() as usize] += 1;
        }
        for &(edge, _) in &delta.removed {
            self.inward[edge.target() as usize] -= 1;
            self.outward[edge.source() as usize] -= 1;
        }
    }

    /// Sums the step up; the next summary compares with it.
    pub fn summary(&mut self) -> Summary {
        let mut summary = Summary {
            max_in: self.inward.iter().copied().max().unwrap_or(0),
            max_out: self.outward.iter().copied().max().unwrap_or(0),
            ..Summary::default()
        };
        let mut histogram = vec![0u64; summary.max_in as usize + 1];
        for ((&inward, &outward), was) in self.inward.iter().zip(&self.outward).zip(&mut self.active) {
            let is = inward > 0 || outward > 0;
            summary.active += u64::from(is);
            summary.appeared += u64::from(is && !*was);
            summary.disappeared += u64::from(*was && !is);
            histogram[inward as usize] += u64::from(is);
            *was = is;
        }
        summary.gini = gini(&histogram);
        summary
    }
}

/// The Gini coefficient of values of which `histogram[x]` equal `x`: 0 where all are equal, near 1 where one
/// has all.
fn gini(histogram: &[u64]) -> Option<f64> {
    // With the values in ascending order and ranks from 1: 2 sum(rank * value) / (n sum(value)) - (n + 1) /
    // n. Whole numbers up to the division, so that the result does not depend on an order of summation.
    let (mut below, mut sum, mut ranked) = (0u128, 0u128, 0u128);
    for (value, &count) in histogram.iter().enumerate() {
        let (value, count) = (value as u128, u128::from(count));
        sum += value * count;
        ranked += value * count * (2 * below + count + 1);
        below += count;
    }
    let excess = ranked.checked_sub((below + 1) * sum)?;
    (sum > 0).then(|| excess as f64 / (below * sum) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gini_coefficient_is_known_for_known_lists() {
        assert_eq!(gini(&[]), None);
        assert_eq!(gini(&[3]), None);
        assert_eq!(gini(&[0, 0, 5]), Some(0.0));
        // One of four has everything: 1 - 1 / 4.
        assert_eq!(gini(&[3, 0, 1]), Some(0.75));
        // 1, 2, 3: the mean absolute difference is 8 / 9, twice the mean is 4.
        assert!((gini(&[0, 1, 1, 1]).unwrap() - 2.0 / 9.0).abs() < 1e-15);
    }
}
