//! Links grouped by their sources, with pairs that are no links for each source: what ranking a source's best
//! link needs.

use kymo_graph::snapshot::{Edge, Step, Vertex};
use rayon::prelude::*;

use super::sample::{Purpose, Sampler};

/// Links in the order of their sources, each source with absent targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BySource {
    /// The sources, ascending.
    pub sources: Vec<Vertex>,
    /// The links of source `i` are `starts[i]..starts[i + 1]` of `targets`.
    pub starts: Vec<usize>,
    /// The targets of the links, ascending for each source.
    pub targets: Vec<Vertex>,
    /// Absent targets, the same number for each source, row after row.
    pub absent: Vec<Vertex>,
}

impl Sampler<'_> {
    /// The links of step `t + 1` by source, with `each` random absent targets for every source, drawn from
    /// all vertices: ROLAND's authors draw from all that their data has (`gen_negative_edges`).
    ///
    /// `edges` are all edges of step `t + 1`, in order; `links` are those of them that are asked about.
    pub fn absent_by_source(&self, t: Step, edges: &[Edge], links: &[Edge], each: usize, out: &mut BySource) {
        // Reversed, edges order by source and then by target.
        let mut pairs: Vec<Edge> = links.iter().map(|link| link.reversed()).collect();
        pairs.par_sort_unstable();
        out.sources.clear();
        out.starts.clear();
        out.targets.clear();
        for pair in &pairs {
            if out.sources.last() != Some(&pair.target()) {
                out.sources.push(pair.target());
                out.starts.push(out.targets.len());
            }
            out.targets.push(pair.source());
        }
        out.starts.push(out.targets.len());
        out.absent.clear();
        out.absent.resize(out.sources.len() * each, 0);
        out.absent.par_chunks_mut(each.max(1)).zip(&out.sources).for_each(|(row, &source)| {
            let draws = self.draws(Purpose::BySource, t, source.into());
            self.fill_from(draws, &[], edges, source, 0, row);
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fixture::{VERTICES, edges, history, steps};
    use super::*;

    fn by_source(sampler: &Sampler<'_>, t: Step, edges: &[Edge], links: &[Edge], each: usize) -> BySource {
        let mut out = BySource { sources: vec![7; 3], starts: vec![1], targets: vec![2], absent: vec![3] };
        sampler.absent_by_source(t, edges, links, each, &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn all_links_are_kept_and_no_edge_is_absent(
            steps in steps(2..5),
            seed in any::<u64>(),
            each in 0usize..5,
        ) {
            let history = history(&steps);
            let sampler = Sampler { history: &history, recent: None, vertices: VERTICES, seed };
            let t = steps.len() - 2;
            let (all, asked) = (edges(&steps[t + 1]), edges(&steps[t + 1]).split_off(steps[t + 1].len() / 3));
            let out = by_source(&sampler, t, &all, &asked, each);
            prop_assert!(out.sources.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(out.absent.len(), out.sources.len() * each);
            let mut links = Vec::new();
            for (number, (source, range)) in out.sources.iter().zip(out.starts.windows(2)).enumerate() {
                let absent = |target: &Vertex| all.binary_search(&Edge::new(*source, *target)).is_err();
                let row = &out.absent[number * each..][..each];
                prop_assert!(row.iter().all(absent) || !(0..VERTICES as Vertex).any(|v| absent(&v)));
                let targets = &out.targets[range[0]..range[1]];
                prop_assert!(targets.is_sorted_by(|a, b| a < b) && !targets.is_empty());
                links.extend(targets.iter().map(|&target| Edge::new(*source, target)));
            }
            links.sort_unstable();
            prop_assert_eq!(&links, &asked);
            // A source has the same row when it is asked about alone.
            if let Some(link) = asked.first() {
                let at = out.sources.iter().position(|&source| source == link.source()).unwrap();
                let alone = by_source(&sampler, t, &all, &[*link], each);
                prop_assert_eq!(&alone.absent, &out.absent[at * each..][..each]);
            }
        }

        #[test]
        fn later_steps_and_threads_change_nothing(
            past in steps(1..4), next in steps(1..2), one in steps(0..3), other in steps(0..3),
        ) {
            let (t, links) = (past.len() - 1, edges(&next[0]));
            let of = |later: &[_], threads| {
                let history = history(&[&past[..], later].concat());
                let sampler = Sampler { history: &history, recent: None, vertices: VERTICES, seed: 3 };
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| by_source(&sampler, t, &links, &links, 9))
            };
            prop_assert_eq!(of(&one, 1), of(&other, 3));
        }
    }
}
