//! What is known of an edge before its step: what the pair was worth last, and what edges of its ends were
//! worth so far, with how many there were.

use kymo_graph::{Step, Vertex};

use super::Kind;
use super::past::{Past, Sums};

/// Edges of all that count beside those of a vertex: means over few edges are drawn towards what is known of
/// all, little and much.
const SHRINK: [f64; 2] = [1.0, 16.0];

/// The same where recent steps count more.
const SHRINK_LATELY: f64 = 2.0;

/// Values so far, and how they are read.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub past: &'a Past,
    pub(super) kind: &'a dyn Kind,
    /// Whether the other direction tells something else.
    pub directed: bool,
}

impl Known<'_> {
    /// How many facts there are of an edge.
    pub fn facts(&self) -> usize {
        (self.of_pair() + 2 * self.of_vertex()) * if self.directed { 2 } else { 1 }
    }

    /// Facts of one pair: the numbers that stand for its last value, and whether there is one.
    fn of_pair(&self) -> usize {
        self.kind.numbers() + 1
    }

    /// Facts of one vertex: three means, and how much is behind them.
    fn of_vertex(&self) -> usize {
        3 * self.kind.numbers() + 1
    }

    /// Where the means of the target and of the source are, each drawn little and much towards that of all.
    pub fn of_ends(&self) -> [usize; 4] {
        let (target, source) = (self.of_pair(), self.of_pair() + self.of_vertex());
        let numbers = self.kind.numbers();
        [target, target + numbers, source, source + numbers]
    }

    /// Adds what is known of an edge as of step `t`, in numbers of about one.
    pub fn write(&self, source: Vertex, target: Vertex, t: Step, facts: &mut Vec<f32>) {
        self.last(source, target, t, facts);
        self.mean(&self.past.received, target, t, facts);
        self.mean(&self.past.given, source, t, facts);
        if self.directed {
            self.last(target, source, t, facts);
            self.mean(&self.past.received, source, t, facts);
            self.mean(&self.past.given, target, t, facts);
        }
    }

    fn last(&self, source: Vertex, target: Vertex, t: Step, facts: &mut Vec<f32>) {
        let Some(weight) = self.past.last(source, target, t) else {
            return facts.extend(std::iter::repeat_n(0.0, self.of_pair()));
        };
        let mut numbers = vec![0.0; self.kind.numbers()];
        self.kind.encode(weight, 1.0, &mut numbers);
        let (means, factor) = self.kind.centre();
        facts.extend(numbers.iter().zip(means).map(|(&number, mean)| (number as f32 - mean) * factor));
        facts.push(1.0);
    }

    /// The means of a vertex, drawn towards those of all.
    fn mean(&self, sums: &Sums, vertex: Vertex, t: Step, facts: &mut Vec<f32>) {
        let mut numbers = vec![0.0; self.kind.numbers()];
        let count = sums.up_to(vertex, t, &mut numbers);
        SHRINK.into_iter().for_each(|others| self.shrunk(&numbers, count, others, facts));
        let lately = sums.lately(vertex, t, &mut numbers);
        self.shrunk(&numbers, lately, SHRINK_LATELY, facts);
        facts.push(0.25 * count.ln_1p() as f32);
    }

    fn shrunk(&self, sums: &[f64], count: f64, others: f64, facts: &mut Vec<f32>) {
        let (means, factor) = self.kind.centre();
        let of = |(sum, &mean): (&f64, &f32)| {
            ((sum - count * f64::from(mean)) * f64::from(factor) / (count + others)) as f32
        };
        facts.extend(sums.iter().zip(means).map(of));
    }
}
