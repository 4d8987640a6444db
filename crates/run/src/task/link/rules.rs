//! Rules that score pairs and learn nothing: what a model has to beat. A new one is its function and a line
//! in [`ALL`].
//!
//! All of them know what was an edge up to a step, and nothing later.

use kymo_graph::snapshot::{Step, Vertex};

use super::edgebank::EdgeBank;
use super::history::History;

/// A rule as of one step.
pub trait Rule: Sync {
    /// How likely it finds that the pair is an edge of the next step: more is likelier.
    fn score(&self, source: Vertex, target: Vertex) -> f32;

    /// The scores of `source` against the vertices `0..out.len()`.
    fn row(&self, source: Vertex, out: &mut [f32]) {
        out.iter_mut().zip(0..).for_each(|(score, target)| *score = self.score(source, target));
    }
}

/// What a rule may look at.
#[derive(Clone, Copy)]
pub struct Past<'a> {
    /// What was an edge when.
    pub history: &'a History,
    /// The last step that is known.
    pub t: Step,
    /// Steps that count as recent, that one included.
    pub window: usize,
    /// Steps that EdgeBank with a window remembers, that one included.
    pub memory: usize,
    /// How many vertices there are.
    pub vertices: usize,
}

/// A rule by name.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// The rule as of a step.
    pub at: for<'a> fn(Past<'a>) -> Box<dyn Rule + 'a>,
}

/// Every rule there is.
pub const ALL: &[Kind] = &[
    Kind { name: "edgebank", at: |past| Box::new((EdgeBank::new(past.history), past.t)) },
    Kind {
        name: "edgebank-window",
        at: |past| Box::new((EdgeBank::windowed(past.history, past.memory as u32), past.t)),
    },
    Kind { name: "popular", at: |past| Box::new(Popular::recently(past)) },
    Kind { name: "preferential-attachment", at: |past| Box::new(Attachment::new(past)) },
    Kind { name: "common-neighbours", at: |past| Box::new(CommonNeighbours::new(past)) },
    Kind { name: "new-first", at: |past| Box::new(NewFirst::new(past)) },
];

impl Rule for (EdgeBank<'_>, Step) {
    fn score(&self, source: Vertex, target: Vertex) -> f32 {
        self.0.score(source, target, self.1)
    }

    fn row(&self, source: Vertex, out: &mut [f32]) {
        self.0.row(source, self.1, out);
    }
}

/// Whether a target was never one before. This knows nothing about links: where it does well, the way of
/// judging gives away which targets are new, and what a model reaches there says little.
struct NewFirst(Vec<f32>);

impl NewFirst {
    fn new(past: Past<'_>) -> NewFirst {
        let mut is_new = vec![1.0; past.vertices];
        past.history.seen_targets(past.t).iter().for_each(|&target| is_new[target as usize] = 0.0);
        NewFirst(is_new)
    }
}

impl Rule for NewFirst {
    fn score(&self, _: Vertex, target: Vertex) -> f32 {
        self.0.get(target as usize).copied().unwrap_or(1.0)
    }
}

/// The recent links of a target, the same for every source.
pub(super) struct Popular(Vec<f32>);

impl Popular {
    pub(super) fn recently(past: Past<'_>) -> Popular {
        let mut counts = vec![0.0; past.vertices];
        for (_, target, steps) in past.history.pairs_within(past.recent()) {
            counts[target as usize] += steps as f32;
        }
        Popular(counts)
    }

    /// The links of a target.
    pub(super) fn count(&self, target: Vertex) -> f32 {
        self.0.get(target as usize).copied().unwrap_or(0.0)
    }

    pub(super) fn bytes(&self) -> usize {
        4 * self.0.len()
    }
}

impl Rule for Popular {
    fn score(&self, _: Vertex, target: Vertex) -> f32 {
        self.count(target)
    }
}

/// How many vertices a source has linked to so far, times how many have linked to the target (Barabási and
/// Albert, "Emergence of scaling in random networks", 1999); each counts one more than it has, so that the
/// other still counts where there are none.
struct Attachment {
    outward: Vec<f32>,
    inward: Vec<f32>,
}

impl Attachment {
    fn new(past: Past<'_>) -> Attachment {
        let (mut outward, mut inward) = (vec![1.0; past.vertices], vec![1.0; past.vertices]);
        for (source, target, _) in past.history.pairs_within(0..past.t + 1) {
            outward[source as usize] += 1.0;
            inward[target as usize] += 1.0;
        }
        Attachment { outward, inward }
    }
}

impl Rule for Attachment {
    fn score(&self, source: Vertex, target: Vertex) -> f32 {
        let of = |all: &[f32], vertex: Vertex| all.get(vertex as usize).copied().unwrap_or(1.0);
        of(&self.outward, source) * of(&self.inward, target)
    }
}

/// How many vertices were linked to both lately, in whichever direction (Liben-Nowell and Kleinberg, "The
/// link-prediction problem for social networks", 2007).
pub(super) struct CommonNeighbours {
    /// The neighbours of `u` are `neighbours[starts[u]..starts[u + 1]]`, ascending.
    starts: Vec<usize>,
    neighbours: Vec<Vertex>,
}

impl CommonNeighbours {
    pub(super) fn new(past: Past<'_>) -> CommonNeighbours {
        let mut pairs: Vec<(Vertex, Vertex)> = Vec::new();
        for (source, target, _) in past.history.pairs_within(past.recent()).filter(|(u, v, _)| u != v) {
            pairs.extend([(source, target), (target, source)]);
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut starts = vec![0; past.vertices + 1];
        pairs.iter().for_each(|&(vertex, _)| starts[vertex as usize + 1] += 1);
        (0..past.vertices).for_each(|vertex| starts[vertex + 1] += starts[vertex]);
        CommonNeighbours { starts, neighbours: pairs.into_iter().map(|(_, neighbour)| neighbour).collect() }
    }

    fn of(&self, vertex: Vertex) -> &[Vertex] {
        match self.starts.get(vertex as usize..vertex as usize + 2) {
            Some(range) => &self.neighbours[range[0]..range[1]],
            None => &[],
        }
    }

    /// How many neighbours two vertices have in common.
    pub(super) fn count(&self, source: Vertex, target: Vertex) -> f32 {
        let (mut few, mut many) = (self.of(source), self.of(target));
        if few.len() > many.len() {
            std::mem::swap(&mut few, &mut many);
        }
        few.iter().filter(|vertex| many.binary_search(vertex).is_ok()).count() as f32
    }

    /// The neighbours of a vertex's neighbours, each as often as there is a way to it.
    pub(super) fn beyond(&self, vertex: Vertex) -> impl Iterator<Item = Vertex> + '_ {
        self.of(vertex).iter().flat_map(|&middle| self.of(middle)).copied()
    }

    pub(super) fn bytes(&self) -> usize {
        8 * self.starts.len() + 4 * self.neighbours.len()
    }
}

impl Rule for CommonNeighbours {
    fn score(&self, source: Vertex, target: Vertex) -> f32 {
        self.count(source, target)
    }

    fn row(&self, source: Vertex, out: &mut [f32]) {
        out.fill(0.0);
        for target in self.beyond(source) {
            if let Some(score) = out.get_mut(target as usize) {
                *score += 1.0;
            }
        }
    }
}

impl Past<'_> {
    /// The last steps that are known.
    fn recent(&self) -> std::ops::Range<Step> {
        (self.t + 1).saturating_sub(self.window)..self.t + 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::fixture::{Steps, VERTICES, history, steps};
    use super::*;

    /// The definitions, in sets.
    fn plain(
        name: &str,
        steps: &Steps,
        (u, v): (Vertex, Vertex),
        t: Step,
        [window, memory]: [usize; 2],
    ) -> f32 {
        let remembered = &steps[(t + 1).saturating_sub(memory)..=t];
        let recent = &steps[(t + 1).saturating_sub(window)..=t];
        let all: BTreeSet<_> = steps[..=t].iter().flatten().copied().collect();
        let linked = |vertex: Vertex| -> BTreeSet<Vertex> {
            let pairs = recent.iter().flatten().filter(|(a, b)| a != b);
            pairs
                .filter_map(|&(a, b)| if a == vertex { Some(b) } else { (b == vertex).then_some(a) })
                .collect()
        };
        match name {
            "edgebank" => f32::from(u8::from(all.contains(&(u, v)))),
            "edgebank-window" => f32::from(u8::from(remembered.iter().any(|step| step.contains(&(u, v))))),
            "popular" => recent.iter().flatten().filter(|pair| pair.1 == v).count() as f32,
            "preferential-attachment" => {
                let outward = all.iter().filter(|pair| pair.0 == u).count() + 1;
                let inward = all.iter().filter(|pair| pair.1 == v).count() + 1;
                (outward * inward) as f32
            }
            "new-first" => f32::from(u8::from(!all.iter().any(|pair| pair.1 == v))),
            "common-neighbours" => linked(u).intersection(&linked(v)).count() as f32,
            other => panic!("{other} has no definition here"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn scores_are_those_of_sets(steps in steps(1..7), window in 0usize..5, memory in 0usize..5) {
            let history = history(&steps);
            for t in 0..steps.len() {
                for kind in ALL {
                    let rule = (kind.at)(Past { history: &history, t, window, memory, vertices: VERTICES });
                    for u in 0..VERTICES as Vertex {
                        let mut row = [f32::NAN; VERTICES];
                        rule.row(u, &mut row);
                        for v in 0..VERTICES as Vertex {
                            let expected = plain(kind.name, &steps, (u, v), t, [window, memory]);
                            prop_assert_eq!(rule.score(u, v), expected, "{}", kind.name);
                            prop_assert_eq!(row[v as usize], expected, "{}", kind.name);
                        }
                    }
                }
            }
        }
    }
}
