//! What plans say, over small random stores: every cell is counted once, and bytes are those of a second,
//! plain count.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use kymo_graph::store::{Plan as Wanted, Writer};
use kymo_graph::{Edge, Ids, Presence, Progress, Snapshot, StepData, StepEdges, Store};
use kymo_plan::cut::edge_cut;
use kymo_plan::plan::{Sent, SnapshotBytes};
use kymo_plan::price::{Job, Rates, price, reader_bytes, snapshot_bytes, window_bytes};
use kymo_plan::strategy::{self, Scheme, Strategy as Way};
use kymo_plan::{
    Ask, Assignment, Cut, EpochPlan, Epochs, Layout, ModelNeeds, Movement, Moves, Ownership, Partition, Plan,
    Shares, Window, Work, partition,
};
use proptest::prelude::*;

fn write(path: &Path, vertices: usize, steps: &[Vec<(u32, u32)>]) -> Arc<Store> {
    let mut writer = Writer::create(path, false).unwrap();
    writer.plan(Wanted { directed: true, ..Wanted::default() });
    writer.add_vertices(&Ids::Number((0..vertices as u64).collect())).unwrap();
    let within = |v: u32| v % vertices as u32;
    for edges in steps {
        let edges = edges.iter().map(|&(u, v)| Edge::new(within(u), within(v))).collect();
        let edges = StepEdges::All(Snapshot::from_edges(edges));
        writer.push(StepData { edges, ..StepData::default() }).unwrap();
    }
    Arc::new(writer.finish().unwrap())
}

/// The cut of a strategy that has one.
fn cut(way: &Way, store: &Store, workers: usize, seed: u64) -> Option<Cut> {
    match way.scheme {
        Scheme::Groups | Scheme::Scheduled(_) | Scheme::Targets => None,
        Scheme::Cells { per_window: true, .. } => Some(Cut::PerWindow),
        Scheme::Cells { partitioner, .. } => {
            let ask = Ask::all_of(store, workers, seed);
            Some(Cut::Fixed(partition::find(partitioner).unwrap().partition(&ask).unwrap()))
        }
    }
}

/// Who owns a vertex at a step of a window: while structure is encoded, and when rows are worked out.
fn owners(
    cut: &Cut,
    needs: ModelNeeds,
    workers: usize,
    window: &Range<usize>,
    t: usize,
    v: u32,
) -> [usize; 2] {
    let structure = |t: usize| match cut {
        Cut::Fixed(partition) => partition.structure.owner(v, t),
        Cut::PerWindow => (t - window.start) * workers / window.len(),
    };
    let rows = match cut {
        Cut::Fixed(Partition { time: Some(time), .. }) => time.owner(v, t),
        _ if needs.carries_state => structure(t),
        _ => structure(window.end - 1),
    };
    [structure(t), rows]
}

/// The bytes that each worker sends in an epoch, row by row.
fn plain(job: &Job<'_>, cut: Option<&Cut>, needs: ModelNeeds) -> Vec<Sent> {
    let workers = job.workers;
    let mut sent = vec![Sent::default(); workers];
    for window in job.windows.iter().filter(|_| cut.is_some()) {
        let at = |t: usize, v: u32| owners(cut.unwrap(), needs, workers, window, t, v);
        let all = 0..job.store.vertices() as u32;
        for (t, movements) in window.clone().zip(&job.work.steps) {
            let snapshot = job.store.snapshot(t).unwrap();
            // Whose row goes to whom.
            let mut neighbours = BTreeSet::new();
            for edge in snapshot.edges.iter() {
                let (u, v) = (edge.source(), edge.target());
                neighbours.insert((u, at(t, u)[0], at(t, v)[0]));
                if needs.out_edges {
                    neighbours.insert((v, at(t, v)[0], at(t, u)[0]));
                }
            }
            let before = |phase: usize| {
                let come = |v: u32| (v, at(t - 1, v)[phase], at(t, v)[phase]);
                all.clone().filter(|_| t > window.start).map(come).collect::<BTreeSet<_>>()
            };
            for movement in movements {
                let bytes = 4 * movement.columns as u64;
                let rows = match movement.moves {
                    Moves::Neighbours => neighbours.clone(),
                    Moves::Carried => before(0),
                    Moves::Handed => before(1),
                    Moves::Shuffled => all.clone().map(|v| (v, at(t, v)[0], at(t, v)[1])).collect(),
                    Moves::Restored => all.clone().map(|v| (v, at(t, v)[1], at(t, v)[0])).collect(),
                    Moves::Collected(count) => {
                        let own = |worker: usize| all.clone().filter(move |&v| at(t, v)[0] == worker);
                        let first =
                            (0..workers).flat_map(|from| own(from).take(count).map(move |v| (v, from)));
                        first.flat_map(|(v, from)| (0..workers).map(move |to| (v, from, to))).collect()
                    }
                };
                for (_, from, to) in rows.into_iter().filter(|(_, from, to)| from != to) {
                    let mut count = |worker: usize| match movement.moves {
                        Moves::Neighbours => sent[worker].neighbours += bytes,
                        Moves::Carried | Moves::Handed => sent[worker].states += bytes,
                        Moves::Shuffled | Moves::Restored => sent[worker].shuffled += bytes,
                        Moves::Collected(_) => sent[worker].collected += bytes,
                    };
                    count(from);
                    if movement.back {
                        count(to);
                    }
                    if let Moves::Collected(_) = movement.moves {
                        sent[from].named += 4;
                    }
                }
            }
        }
    }
    // Every worker sends each number to the one who sums it, and each of its sums to all others.
    let numbers = job.work.reduced;
    for _ in &job.epoch.iterations {
        for (worker, sent) in sent.iter_mut().enumerate() {
            for number in 0..numbers {
                let sums = (0..workers).find(|rank| number < numbers * (rank + 1) / workers).unwrap();
                let others = if sums == worker { workers - 1 } else { 1 };
                sent.gradients += if workers > 1 { 4 * others as u64 } else { 0 };
            }
        }
    }
    sent
}

fn movements() -> impl Strategy<Value = Vec<Movement>> {
    let moves = prop_oneof![
        Just(Moves::Neighbours),
        Just(Moves::Carried),
        Just(Moves::Handed),
        Just(Moves::Shuffled),
        Just(Moves::Restored),
        (0usize..4).prop_map(Moves::Collected)
    ];
    let movement = (moves, 1usize..5, any::<bool>()).prop_map(|(moves, columns, back)| Movement {
        moves,
        columns,
        back,
    });
    prop::collection::vec(movement, 0..5)
}

/// A store of few vertices and steps, some of them empty.
fn stores() -> impl Strategy<Value = (usize, Vec<Vec<(u32, u32)>>)> {
    let step = prop_oneof![1 => Just(Vec::new()), 4 => prop::collection::vec((0u32..99, 0u32..99), 0..30)];
    (1usize..9, prop::collection::vec(step, 1..7))
}

/// All windows of a length, or pieces of which the last may be shorter.
fn windows(steps: usize, length: usize, pieces: bool) -> Vec<Range<usize>> {
    let length = length.min(steps);
    match pieces {
        true => (0..steps).step_by(length).map(|start| start..(start + length).min(steps)).collect(),
        false => (length..=steps).map(|end| end - length..end).collect(),
    }
}

fn sums(plan: &Plan) -> [u64; 2] {
    plan.workers.iter().fold([0, 0], |[cells, edges], share| [cells + share.cells, edges + share.edges])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn plans_count_every_cell_once_and_every_byte(
        (vertices, steps) in stores(),
        (length, pieces, at_once) in (1usize..5, any::<bool>(), 1usize..4),
        workers in 1usize..6,
        (out_edges, carries_state) in any::<(bool, bool)>(),
        movements in prop::collection::vec(movements(), 5),
        (reduced, seed) in (0usize..20, any::<u64>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let store = write(&folder.path().join("store"), vertices, &steps);
        let windows = windows(steps.len(), length, pieces);
        let work = Work {
            steps: movements, reduced, features: 3, aggregated: [3, 1], products: 5, buffers: [6,
            7], reused: 8,
            replicated: 700,
            ..Work::default()
        };
        let presence = Presence::by_edges(&store, steps.len(), &Progress::silent()).unwrap();
        let none = |_: &Window| Ok(Vec::new());
        let epoch = |assignment, workers| {
            let all = windows.clone();
            let made = Epochs { windows: all, workers, seed: Some(seed), assignment, batches: None };
            let plan = made.plan(1);
            plan.check(&windows, workers).unwrap();
            plan
        };
        let alone = epoch(Assignment::InTurns(at_once), 1);
        let job = Job {
            store: &store, windows: &windows, epoch: &alone, shares: None, work: &work, workers: 1,
            follows: false, pairs: &none, sample: None, seen: None,
            presence: None,
        };
        let needs = ModelNeeds { out_edges, carries_state };
        let whole = price("psg", &job, Rates::default()).unwrap();
        let largest = window_bytes(&job).unwrap().into_iter().max().unwrap();
        prop_assert!(whole.memory() >= largest);
        for way in strategy::ALL {
            let cut = cut(way, &store, workers, seed);
            let shares = cut.clone().map(|cut| Shares::new(cut, needs, workers, vertices));
            let assignment = match shares {
                Some(_) => Assignment::Together(at_once),
                None => Assignment::InTurns(at_once),
            };
            let epoch: EpochPlan = epoch(assignment, workers);
            let job = Job { epoch: &epoch, shares: shares.as_ref(), workers, ..job };
            let plan = price(way.name, &job, Rates::default()).unwrap();
            prop_assert_eq!(&plan.epoch, &epoch);
            let sent: Vec<Sent> = plan.workers.iter().map(|share| share.sent).collect();
            prop_assert_eq!(sent, plain(&job, cut.as_ref(), needs), "{}", way.name);

            let all: Vec<usize> = windows.iter().cloned().flatten().collect();
            let edges: usize = all.iter().map(|&t| store.snapshot(t).unwrap().len()).sum();
            prop_assert_eq!(sums(&plan), [(vertices * all.len()) as u64, edges as u64], "{}", way.name);
            prop_assert_eq!(plan.windows, windows.len());
            prop_assert_eq!(plan.iterations, windows.len().div_ceil(at_once));
            let expected = match &cut {
                Some(Cut::Fixed(partition)) => {
                    edge_cut(&store, &partition.structure, 0..steps.len()).unwrap()
                }
                _ => 0,
            };
            prop_assert_eq!(plan.edge_cut, expected, "{}", way.name);

            prop_assert!(plan.seconds.is_finite() && plan.seconds >= 0.0);
            prop_assert!(plan.imbalance() >= 1.0 - 1e-9 && plan.imbalance() <= workers as f64 + 1e-9);
            for share in &plan.workers {
                prop_assert!(share.seconds >= 0.0 && share.memory >= 700, "{}", way.name);
                // A window, and two steps that are read meanwhile, or another window.
                let (parts, reader) = (share.snapshots, whole.workers[0].snapshots.reader);
                let window = share.memory - parts.reader;
                prop_assert!(window <= 3 * largest, "{}: a part is larger than the whole", way.name);
                prop_assert!(parts.reader <= reader, "{}: a reader has more than there is", way.name);
                prop_assert!(parts.largest <= parts.all && share.memory <= share.most, "{}", way.name);
            }
            if workers == 1 {
                prop_assert_eq!((plan.bytes(), plan.memory()), (0, whole.memory()), "{}", way.name);
            }
            // Where vertices come and go, those that are there count, and nothing else changes but time.
            let told = Job { presence: Some(&presence), ..job };
            let told = price(way.name, &told, Rates::default()).unwrap();
            let is_there = |t: usize| (0..vertices as u32).filter(|&v| presence.has(v, t)).count();
            let present: usize = all.iter().map(|&t| is_there(t)).sum();
            prop_assert_eq!(sums(&told), [present as u64, edges as u64], "{}", way.name);
            prop_assert!(told.seconds <= plan.seconds && (present < vertices * all.len() || told == plan));
            prop_assert_eq!((told.bytes(), told.memory()), (plan.bytes(), plan.memory()), "{}", way.name);
            let always = Presence::always(vertices, steps.len());
            let same = price(way.name, &Job { presence: Some(&always), ..job }, Rates::default()).unwrap();
            prop_assert!(same == plan, "{}", way.name);
        }
    }

    #[test]
    fn shares_are_the_same_for_all_and_fit_together(
        (vertices, steps) in stores(),
        length in 1usize..5,
        workers in 1usize..6,
        (out_edges, carries_state) in any::<(bool, bool)>(),
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let store = write(&folder.path().join("store"), vertices, &steps);
        let needs = ModelNeeds { out_edges, carries_state };
        for way in strategy::ALL {
            let Some(cut) = cut(way, &store, workers, seed) else { continue };
            let shares = Shares::new(cut.clone(), needs, workers, vertices);
            // As another process would make them.
            let again = Shares::new(self::cut(way, &store, workers, seed).unwrap(), needs, workers, vertices);
            for window in windows(steps.len(), length, true) {
                let at = |t: usize, v: u32| owners(&cut, needs, workers, &window, t, v);
                let changes = |v: u32| window.clone().skip(1).any(|t| at(t, v)[1] != at(t - 1, v)[1]);
                let moves = (0..vertices as u32).any(changes);
                let found = (shares.moves(&window), again.moves(&window));
                prop_assert_eq!(found, (moves, moves), "{}", way.name);
                let mut before: Option<[Ownership; 2]> = None;
                for t in window.clone() {
                    let places = [shares.structure(&window, t), shares.rows(&window, t)];
                    for (phase, place) in places.iter().enumerate() {
                        for worker in 0..workers {
                            let mine = (0..vertices as u32).filter(|&v| at(t, v)[phase] == worker);
                            prop_assert!(mine.eq(shares.own(place, worker).iter().copied()), "{}", way.name);
                        }
                    }
                    let [structure, rows] = &places;
                    let mut pairs = vec![(structure, rows)];
                    if let Some(before) = &before {
                        pairs.extend([(&before[0], structure), (&before[1], rows)]);
                    }
                    for (from, to) in pairs {
                        let route = |rank| shares.route(from, to, rank);
                        let routes: Vec<_> = (0..workers).filter_map(route).collect();
                        let same = (0..vertices as u32).all(|v| from.owners().of(v) == to.owners().of(v));
                        // Who moves nothing still has to know that others do.
                        prop_assert!(routes.len() == workers || routes.is_empty() && same, "{}", way.name);
                        let pairs = |one| routes.iter().map(move |other| (one, other));
                        for (one, other) in routes.iter().flat_map(pairs) {
                            prop_assert_eq!(one.sends[other.rank].len(), other.receives[one.rank].len());
                        }
                    }
                    before = Some(places);
                }
            }
        }
    }
}

/// The price of this epoch is asked for, with one worker and no pairs.
fn alone<'a>(
    store: &'a Arc<Store>,
    windows: &'a [Range<usize>],
    epoch: &'a EpochPlan,
    work: &'a Work,
) -> Job<'a> {
    Job {
        store,
        windows,
        epoch,
        shares: None,
        work,
        workers: 1,
        follows: false,
        pairs: &|_| Ok(Vec::new()),
        sample: None,
        seen: None,
        presence: None,
    }
}

#[test]
fn memory_counts_the_window_that_is_read_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let steps: Vec<Vec<(u32, u32)>> = (0..10).map(|t| (0..t + 1).map(|e| (e, e + 1)).collect()).collect();
    let store = write(&folder.path().join("store"), 12, &steps);
    let work = Work { features: 3, buffers: [40, 9], reused: 12, replicated: 700, ..Work::default() };
    let memory = |windows: Vec<Range<usize>>, assignment: Assignment| {
        let epoch =
            Epochs { windows: windows.clone(), workers: 1, seed: None, assignment, batches: None }.plan(0);
        let job = alone(&store, &windows, &epoch, &work);
        assert_eq!(window_bytes(&job).unwrap().len(), windows.len());
        let plan = price("psg", &job, Rates::default()).unwrap();
        (plan.memory(), plan.workers[0].most, plan.workers[0].snapshots)
    };
    let snapshot = |t: u64| snapshot_bytes(12, t + 1, 3);
    let sum = |steps: Range<u64>| steps.map(snapshot).sum::<u64>();
    let others = 12 * 40 + 9 + 700;
    let of = |steps: u64| {
        let reader = reader_bytes(12, steps, steps);
        let snapshots = SnapshotBytes { all: sum(0..steps), largest: snapshot(steps - 1), reader };
        (snapshots, others + reader, snapshots.all + steps * 12 * 12 + reader + others)
    };
    let windows = vec![0..3, 3..6, 6..9];
    let (snapshots, beside, most) = of(9);
    // One window at a time: the largest, a step that was read ahead and one that is being read. Several: the
    // second is in memory with the third, of which all steps are new.
    let alone = sum(6..9) + 2 * snapshot(8) + beside;
    assert_eq!(memory(windows.clone(), Assignment::InTurns(1)), (alone, most, snapshots));
    let ahead = sum(3..9) + beside;
    assert_eq!(memory(windows, Assignment::InTurns(3)), (ahead, most, snapshots));
    // There is no more to be read than there is.
    let (snapshots, beside, most) = of(3);
    assert_eq!(memory(vec![0..2, 1..3], Assignment::InTurns(1)), (sum(0..3) + beside, most, snapshots));
}

/// A part of a snapshot takes what it has of edges and vertices, lists of what moves, and, while a window is
/// run, the rows of neighbours that are on their way.
#[test]
fn memory_of_parts_counts_what_is_apart_and_what_moves() {
    let folder = tempfile::tempdir().unwrap();
    // Workers own 0, 1 and 2, 3: 2 is needed by the first, 1 by the second.
    let edges = vec![(0, 1), (2, 1), (1, 2), (1, 3), (3, 2)];
    let store = write(&folder.path().join("store"), 4, &[edges.clone(), edges]);
    let layout = Layout::by_vertex(2, 2, vec![0, 0, 1, 1]).unwrap();
    let needs = ModelNeeds { out_edges: false, carries_state: false };
    let shares = Shares::new(Cut::Fixed(layout.into()), needs, 2, 4);
    let windows: Vec<Range<usize>> = std::iter::once(0..2).collect();
    let assignment = Assignment::Together(1);
    let epoch =
        Epochs { windows: windows.clone(), workers: 2, seed: None, assignment, batches: None }.plan(0);
    let memory = |columns: usize| {
        let movement = Movement { moves: Moves::Neighbours, columns, back: true };
        let work = Work {
            steps: vec![vec![movement]; 2],
            features: 3,
            buffers: [40, 9],
            held: Some([1, 1]),
            held_in_part: Some([20, 16]),
            replicated: 700,
            ..Work::default()
        };
        let job = Job { shares: Some(&shares), workers: 2, ..alone(&store, &windows, &epoch, &work) };
        price("vertex-hash", &job, Rates::default()).unwrap().workers
    };
    let (narrow, wide) = (memory(5), memory(50));
    for (worker, [edges, leaving]) in [[2, 2], [3, 1]].into_iter().enumerate() {
        let (lists, features) = (12 * 3 + 4 * 2, 4 * 3);
        let part = 20 * edges + (16 + features) * 3 + lists;
        let reader = reader_bytes(4, edges + leaving, 5);
        let snapshots = SnapshotBytes { all: 2 * part, largest: part, reader };
        assert_eq!(narrow[worker].snapshots, snapshots, "worker {worker}");
        // Of its window: one row goes out at a time, and one comes in for each step.
        let moved = |columns: u64| 4 * columns * (1 + 2);
        let beside = 2 * 40 + 9 + 700 + reader;
        assert_eq!(narrow[worker].memory, 2 * part + beside + moved(5), "worker {worker}");
        assert_eq!(wide[worker].memory, 2 * part + beside + moved(50), "worker {worker}");
    }
}

/// Rows take time where they are computed, which is not where structure was: with `pss-ts` all workers share
/// those of every step, with `esdg` those of a step are one worker's, and all others wait for it.
#[test]
fn rows_cost_time_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = write(&folder.path().join("store"), 4, &vec![vec![(0, 1)]; 3]);
    let work = Work { products: 1, steps: vec![Vec::new(); 3], ..Work::default() };
    let rates = Rates { products: 1.0, latency: 0.0, wire: f64::INFINITY, ..Rates::default() };
    let windows: Vec<Range<usize>> = std::iter::once(0..3).collect();
    let seconds = |name: &str| {
        let way = strategy::find(name).unwrap();
        let needs = ModelNeeds { out_edges: false, carries_state: true };
        let shares = Shares::new(cut(way, &store, 2, 1).unwrap(), needs, 2, 4);
        let assignment = Assignment::Together(1);
        let epoch =
            Epochs { windows: windows.clone(), workers: 2, seed: None, assignment, batches: None }.plan(0);
        let job = Job { shares: Some(&shares), workers: 2, ..alone(&store, &windows, &epoch, &work) };
        price(name, &job, rates).unwrap().seconds
    };
    // A product and two for its gradients, of each row of three steps.
    assert_eq!(seconds("pss-ts"), 3.0 * 3.0 * 2.0);
    assert_eq!(seconds("esdg"), 3.0 * 3.0 * 4.0);
}

/// What is shuffled goes at once for all steps of a window: it waits for the wire once there and once back,
/// where rows of neighbours wait at every step.
#[test]
fn steps_that_are_shuffled_wait_together() {
    let folder = tempfile::tempdir().unwrap();
    let store = write(&folder.path().join("store"), 4, &vec![vec![(0, 1)]; 3]);
    let windows: Vec<Range<usize>> = std::iter::once(0..3).collect();
    let seconds = |moves: Moves| {
        let movement = Movement { moves, columns: 1, back: true };
        let work = Work { steps: vec![vec![movement]; 3], ..Work::default() };
        let rates = Rates { latency: 1.0, wire: f64::INFINITY, ..Rates::default() };
        let needs = ModelNeeds { out_edges: false, carries_state: true };
        let way = strategy::find("pss-ts").unwrap();
        let shares = Shares::new(cut(way, &store, 2, 1).unwrap(), needs, 2, 4);
        let epoch = Epochs {
            windows: windows.clone(),
            workers: 2,
            seed: None,
            assignment: Assignment::Together(1),
            batches: None,
        }
        .plan(0);
        let job = Job { shares: Some(&shares), workers: 2, ..alone(&store, &windows, &epoch, &work) };
        price("pss-ts", &job, rates).unwrap().seconds
    };
    // The sum of gradients waits twice, too.
    assert_eq!(seconds(Moves::Shuffled), 2.0 + 2.0);
    assert_eq!(seconds(Moves::Neighbours), 3.0 * 2.0 + 2.0);
}
