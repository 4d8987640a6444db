//! Links as events: an edge as often as it occurs in its step. The Temporal Graph Benchmark asks about every
//! event; a store knows how many an edge stands for where its weights count them.

use kymo_graph::snapshot::{Edge, Snapshot, Step, Vertex};
use kymo_graph::store::Store;
use rayon::prelude::*;

use super::sample::{Purpose, Sampler};
use super::tgb::{Judged, Known};
use crate::error::{Error, Result};

/// One event of an edge: which of them it is, from 0 on.
pub type Event = (Edge, u32);

/// The events of the largest step; fails where weights do not count events. They do where they are whole and
/// those of every step add up to the rows it was made from, up to self-loops that were left out.
pub fn counted(store: &Store) -> Result<u64> {
    let problem = |what: String| {
        let problem = format!(
            "found \"events\", but the weights of {} do not count events: {what}; ingest the events with \
             --weight count and without --edge-life, or choose \"edges\"",
            store.path().display()
        );
        Error::settings("link.weigh", problem)
    };
    let (directed, mut largest, mut missing, mut has_loops) = (store.manifest().directed, 0, 0, false);
    let mut walk = store.walk();
    while let Some(stop) = walk.step()? {
        let (step, snapshot, rows) = (stop.step, stop.snapshot, store.events(stop.step)?);
        let weights = (0..snapshot.len()).map(|edge| snapshot.weight(edge));
        if let Some(weight) = weights.clone().find(|weight| *weight < 1.0 || weight.fract() != 0.0) {
            return Err(problem(format!("step {step} has an edge of weight {weight}")));
        }
        // An undirected edge is there in both directions, for one row each.
        let once = |edge: &Edge| directed || edge.source() <= edge.target();
        let counts = snapshot.edges.iter().zip(weights).filter(|(edge, _)| once(edge));
        let sum = counts.map(|(_, weight)| f64::from(weight)).sum::<f64>() as u64;
        if sum > rows {
            return Err(problem(format!("those of step {step} add up to {sum}, and it has {rows}")));
        }
        missing += rows - sum;
        has_loops |= snapshot.self_loops() > 0;
        largest = largest.max(if directed { sum } else { 2 * sum });
    }
    // Either none of them is there or all are.
    match missing == if has_loops { 0 } else { store.manifest().self_loops } {
        true => Ok(largest),
        false => Err(problem(format!("{missing} of the events are in none of them"))),
    }
}

impl Sampler<'_> {
    /// A sample of `count` of the events of a step without repetition, in order; all of them if `count` is 0
    /// or not below their number.
    pub fn choose_events(
        &self,
        snapshot: &Snapshot<'_>,
        count: usize,
        purpose: Purpose,
        t: Step,
    ) -> Vec<Event> {
        let edges = snapshot.edges.iter().enumerate();
        let events = edges.flat_map(|(at, &edge)| (0..snapshot.weight(at) as u32).map(move |n| (edge, n)));
        let mut chosen: Vec<Event> = events.collect();
        if count > 0 && count < chosen.len() {
            let draws = self.draws(purpose, t, 0);
            let word = |&(edge, n): &Event| (draws.stream(n.into()).word(edge.key()), edge, n);
            chosen.select_nth_unstable_by_key(count, word);
            chosen.truncate(count);
            chosen.sort_unstable();
        }
        chosen
    }

    /// Up to `each` absent targets for each of these events of step `t + 1`, as [`Sampler::as_tgb`] draws
    /// them for events of which no two of a source have the same time: only the target of the event itself is
    /// none of them. Those of each event are drawn apart from those of others, also of the same edge.
    pub fn events_as_tgb(&self, t: Step, events: &[Event], each: usize, known: Known<'_>) -> Judged {
        let of_edge = |events: &[Event]| -> Vec<Vec<Vertex>> {
            let Some(&(link, _)) = events.first() else { return Vec::new() };
            let source = self.source(link.source(), &[link.reversed()], known);
            let row = |&(_, n): &Event| {
                let of = |purpose| self.draws(purpose, t, link.key()).stream(n.into());
                source.row([of(Purpose::Absent), of(Purpose::Historical)], each, known)
            };
            events.iter().map(row).collect()
        };
        let edges: Vec<&[Event]> = events.chunk_by(|a, b| a.0 == b.0).collect();
        let rows: Vec<Vec<Vertex>> = edges.par_iter().flat_map_iter(|&events| of_edge(events)).collect();
        Judged::new(events.iter().map(|event| event.0).collect(), &rows)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;

    use kymo_graph::store::{Plan, Writer};
    use kymo_graph::{Ids, StepData, StepEdges};
    use kymo_model::metric;
    use proptest::prelude::*;

    use super::super::fixture::VERTICES;
    use super::super::goal::LinkPrediction;
    use super::super::history::History;
    use super::*;
    use crate::config::{LINK_PREDICTION, Settings, SplitBy, Weigh};
    use crate::data::Part;
    use crate::task::{Says, Tallies, Task};

    type Rows = Vec<(Vertex, Vertex)>;

    /// Events of some steps, several of a pair among them.
    fn events(steps: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Rows>> {
        let pair = (0..VERTICES as Vertex, 0..VERTICES as Vertex);
        prop::collection::vec(prop::collection::vec(pair, 1..20), steps)
    }

    /// The edges of a step, each weighed by its events.
    fn folded(rows: &Rows, directed: bool) -> Snapshot<'static> {
        let mut all: Rows = rows.clone();
        if !directed {
            all.extend(rows.iter().filter(|pair| pair.0 != pair.1).map(|&(u, v)| (v, u)));
        }
        let distinct: BTreeSet<_> = all.iter().copied().collect();
        let count = |pair: &(Vertex, Vertex)| all.iter().filter(|other| *other == pair).count() as f32;
        let weighted = distinct.iter().map(|pair| (Edge::new(pair.0, pair.1), count(pair)));
        Snapshot::from_weighted(weighted.collect())
    }

    /// A store of these snapshots, each said to be made from this many rows.
    fn store(folder: &Path, steps: &[(Snapshot<'static>, usize)], directed: bool, self_loops: u64) -> Store {
        let mut writer = Writer::create(&folder.join("store"), false).unwrap();
        writer.plan(Plan { directed, ..Plan::default() });
        writer.self_loops(self_loops);
        writer.add_vertices(&Ids::Number((0..VERTICES as u64).collect())).unwrap();
        for (snapshot, rows) in steps {
            let edges = StepEdges::All(snapshot.clone());
            writer.push(StepData { edges, events: *rows as u64, ..StepData::default() }).unwrap();
        }
        writer.finish().unwrap()
    }

    fn sampler(history: &History, seed: u64) -> Sampler<'_> {
        Sampler { history, recent: None, vertices: VERTICES, seed }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// What `kymo ingest` makes of events is taken for counts, and nothing else is: neither weights that
        /// count a row too little or too much, nor edges that stand for one row where there were several.
        #[test]
        fn counts_are_told_from_other_weights(steps in events(1..4), directed: bool, keeps_loops: bool) {
            let folder = tempfile::tempdir().unwrap();
            let loops = steps.iter().flatten().filter(|pair| pair.0 == pair.1).count() as u64;
            let kept = |rows: &Rows| -> Rows {
                rows.iter().copied().filter(|pair| keeps_loops || pair.0 != pair.1).collect()
            };
            let made: Vec<_> =
                steps.iter().map(|rows| (folded(&kept(rows), directed), rows.len())).collect();
            let largest = counted(&store(&folder.path().join("a"), &made, directed, loops)).unwrap();
            let of = |step: &(Snapshot<'static>, usize)| {
                (0..step.0.len()).map(|edge| u64::from(step.0.weight(edge) as u32)).sum::<u64>()
            };
            let doubled = |rows: &Rows| kept(rows).iter().filter(|pair| pair.0 == pair.1).count() as u64;
            let expected = made.iter().zip(&steps).map(|(step, rows)| match directed {
                true => of(step),
                false => of(step) + doubled(rows),
            });
            prop_assert_eq!(largest, expected.max().unwrap());

            let mut wrong = made.clone();
            wrong[0].1 += 1 + loops as usize;
            let error = counted(&store(&folder.path().join("b"), &wrong, directed, loops)).unwrap_err();
            prop_assert!(error.to_string().contains("link.weigh"), "{}", error);
            let plain: Vec<_> = made.iter().map(|(snapshot, rows)| {
                (Snapshot::from_edges(snapshot.edges.to_vec()), *rows)
            }).collect();
            let folds = made.iter().any(|step| step.0.weights.is_some());
            let plain = store(&folder.path().join("c"), &plain, directed, loops);
            prop_assert_eq!(counted(&plain).is_err(), folds);
        }

        /// The definition, event by event and in sets.
        #[test]
        fn every_event_has_pairs_of_its_own(
            steps in events(3..6), seed: u64, each in 0usize..9, count in 0usize..12,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let made: Vec<_> = steps.iter().map(|rows| (folded(rows, true), rows.len())).collect();
            let history = History::new(&store(folder.path(), &made, true, 0)).unwrap();
            let targets: BTreeSet<Vertex> = steps.iter().flatten().map(|pair| pair.1).collect();
            let targets: Vec<Vertex> = targets.into_iter().collect();
            let known = Known { targets: &targets, trained: 1 };
            let (sampler, t) = (sampler(&history, seed), steps.len() - 2);
            let all = sampler.choose_events(&made[t + 1].0, 0, Purpose::Judge, t);
            let mut rows: Rows = all.iter().map(|event| (event.0.source(), event.0.target())).collect();
            let mut expected = steps[t + 1].clone();
            rows.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(rows, expected, "every event once");
            let some = sampler.choose_events(&made[t + 1].0, count, Purpose::Judge, t);
            let wanted = if count == 0 { all.len() } else { count.min(all.len()) };
            prop_assert_eq!(some.len(), wanted);
            prop_assert!(some.is_sorted_by(|a, b| a < b) && some.iter().all(|event| all.contains(event)));

            let judged = sampler.events_as_tgb(t, &all, each, known);
            prop_assert_eq!(judged.links.len(), all.len());
            for (event, range) in all.iter().zip(judged.starts.windows(2)) {
                let row = &judged.targets[range[0]..range[1]];
                let (source, target) = (event.0.source(), event.0.target());
                let met: BTreeSet<Vertex> = steps[..=1].iter().flatten()
                    .filter(|pair| pair.0 == source).map(|pair| pair.1).collect();
                let historical: BTreeSet<Vertex> = met.iter().copied().filter(|&v| v != target).collect();
                let free: BTreeSet<Vertex> =
                    targets.iter().copied().filter(|v| *v != target && !met.contains(v)).collect();
                let old = (each / 2).min(historical.len());
                let random = (each - old).min(free.len());
                prop_assert_eq!(row.len(), old + random);
                prop_assert_eq!(row.iter().collect::<BTreeSet<_>>().len(), row.len(), "one comes twice");
                prop_assert!(row[..random].iter().all(|target| free.contains(target)));
                prop_assert!(row[random..].iter().all(|target| historical.contains(target)));
                // An event has the same row when it is asked about alone.
                prop_assert_eq!(&sampler.events_as_tgb(t, &[*event], each, known).targets, row);
            }
        }
    }

    /// EdgeBank's mean reciprocal rank by hand: event by event, among all targets that there are.
    fn by_hand(steps: &[Rows], test: std::ops::Range<Step>, memory: usize) -> f64 {
        let targets: BTreeSet<Vertex> = steps.iter().flatten().map(|pair| pair.1).collect();
        let mut reciprocals = Vec::new();
        for t in test {
            let known: BTreeSet<_> = steps[(t + 1).saturating_sub(memory)..=t].iter().flatten().collect();
            for pair in &steps[t + 1] {
                let others = targets.iter().filter(|&&target| target != pair.1);
                let remembered = others.clone().filter(|&&target| known.contains(&(pair.0, target))).count();
                let better_or_as_good = if known.contains(pair) { remembered } else { others.count() };
                let better = if known.contains(pair) { 0 } else { remembered };
                reciprocals.push(1.0 / (1.0 + (better + better_or_as_good) as f64 / 2.0));
            }
        }
        reciprocals.iter().sum::<f64>() / reciprocals.len() as f64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// The whole way, from a store of events to the metric of a baseline and of its slices.
        #[test]
        fn a_baseline_is_judged_event_by_event(steps in events(12..16), memory in 1usize..5) {
            let folder = tempfile::tempdir().unwrap();
            let made: Vec<_> = steps.iter().map(|rows| (folded(rows, true), rows.len())).collect();
            let store = Arc::new(store(folder.path(), &made, true, 0));
            let mut settings = Settings::default();
            settings.task.name = LINK_PREDICTION.into();
            settings.split.by = SplitBy::Events;
            settings.split.train = 0.5;
            settings.split.validation = 0.2;
            settings.link.weigh = Weigh::Events;
            // Half of the pairs at most are historical: twice as many as there are, so that all are taken.
            settings.link.evaluate_negatives = 4 * VERTICES;
            settings.link.edgebank_window = memory.to_string();
            let goal = LinkPrediction.open(&store, &settings).unwrap();
            let test = goal.split().samples(Part::Test);
            for (name, memory) in [("edgebank", steps.len()), ("edgebank-window", memory)] {
                let mut tallies = Tallies::sliced(&[metric::find("mrr-tgb").unwrap()]);
                for sample in test.clone() {
                    goal.judge(Part::Test, sample, Says::Baseline(name), &mut tallies).unwrap();
                }
                let expected = by_hand(&steps, test.clone(), memory);
                prop_assert!((tallies.values()[0].1 - expected).abs() < 1e-12, "{}", name);
                let events: usize = tallies.slices().iter().map(|slice| slice.count).sum();
                prop_assert_eq!(events, steps[test.start + 1..].iter().map(Vec::len).sum::<usize>());
            }
        }
    }

    /// Events of one edge are compared with pairs of their own.
    #[test]
    fn draws_differ_from_event_to_event() {
        let folder = tempfile::tempdir().unwrap();
        let rows: Rows = (0..VERTICES as Vertex).map(|target| (5, target)).collect();
        let history = History::new(&store(folder.path(), &[(folded(&rows, true), 6)], true, 0)).unwrap();
        let (targets, link) = ([0, 1, 2, 3, 4, 5], Edge::new(0, 2));
        let events: Vec<Event> = (0..1000).map(|n| (link, n)).collect();
        let known = Known { targets: &targets, trained: 0 };
        let judged = sampler(&history, 1).events_as_tgb(0, &events, 1, known);
        let mut counts = [0; VERTICES];
        judged.targets.iter().for_each(|&target| counts[target as usize] += 1);
        assert_eq!(counts[2], 0);
        assert!([0, 1, 3, 4, 5].iter().all(|&v| (150..250).contains(&counts[v])), "{counts:?}");
    }
}
