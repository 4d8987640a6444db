//! Segments and what is found out before them, held against the rows of every step made anew.

use std::collections::BTreeSet;
use std::path::Path;

use kymo_graph::snapshot::{Edge, Snapshot};
use kymo_graph::store::{FeatureFacts, FeatureKind, Plan, Writer};
use kymo_graph::{FeatureChange, Ids, StepData, StepEdges};
use proptest::prelude::*;

use super::*;
use crate::config::{Features, Settings};
use crate::data::degrees::log_of_one_plus;
use crate::workers::WorkerGroup;

/// One step: vertices that come, edges that come or go, and cells of features that get a value; or, where
/// `anew`, all edges and cells are others.
#[derive(Clone, Debug, Default)]
struct Moment {
    more: usize,
    edges: Vec<(u32, u32)>,
    cells: Vec<(usize, usize, i8)>,
    anew: bool,
}

/// Data, and what is asked of it.
#[derive(Clone, Debug)]
struct Case {
    vertices: usize,
    width: usize,
    segments: usize,
    part_bytes: usize,
    moments: Vec<Moment>,
    features: Features,
    lags: usize,
    standardise: bool,
}

impl Case {
    fn write(&self, path: &Path) -> Store {
        let mut writer = Writer::create(path, true).unwrap();
        let (width, segments) = (self.width as u64, self.segments as u64);
        let features = FeatureFacts { kind: FeatureKind::Dense, width, segments };
        writer.plan(Plan { directed: true, features, part_bytes: self.part_bytes, ..Plan::default() });
        let (mut known, mut edges) = (0, BTreeSet::new());
        let mut rows = Vec::<f32>::new();
        for (t, moment) in self.moments.iter().enumerate() {
            let more = if t == 0 { self.vertices } else { moment.more };
            if more > 0 {
                writer.add_vertices(&Ids::Number((known as u64..(known + more) as u64).collect())).unwrap();
                known += more;
                rows.resize(known * self.width, 0.0);
            }
            if moment.anew {
                edges.clear();
                rows.iter_mut().enumerate().for_each(|(at, value)| *value = (at * 7 % 11 + t) as f32);
            }
            for &(source, target) in &moment.edges {
                let edge = Edge::new(source % known as u32, target % known as u32);
                if !edges.remove(&edge) {
                    edges.insert(edge);
                }
            }
            for &(vertex, column, value) in &moment.cells {
                rows[vertex % known * self.width + column % self.width] = f32::from(value) * 0.75;
            }
            let data = StepData {
                edges: StepEdges::All(Snapshot::from_edges(edges.iter().copied().collect())),
                features: FeatureChange::All(rows.clone()),
                ..StepData::default()
            };
            writer.push(data).unwrap();
        }
        writer.finish().unwrap()
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.data.features = self.features;
        (settings.data.lags, settings.data.standardise) = (self.lags, self.standardise);
        settings
    }

    /// Those that are trained on: neither from the first step nor to the last where there are several.
    fn train(&self) -> Range<Step> {
        let steps = self.moments.len();
        (steps / 4).min(1)..steps - steps / 4
    }

    fn inputs(&self, store: &Store) -> Inputs {
        Inputs::new(store, &self.settings(), self.train()).unwrap()
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let moment = (
        prop_oneof![6 => Just(0), 1 => 1usize..3],
        prop::collection::vec((0u32..9, 0u32..9), 0..4),
        prop_oneof![1 => Just(Vec::new()), 3 => prop::collection::vec((0usize..9, 0usize..6, -2i8..3), 0..4)],
        prop::bool::weighted(0.1),
    );
    let moment = moment.prop_map(|(more, edges, cells, anew)| Moment { more, edges, cells, anew });
    let features = prop_oneof![
        3 => Just(Features::Stored),
        1 => Just(Features::Degrees),
        1 => Just(Features::OneHotDegrees),
    ];
    let moments = prop::collection::vec(moment, 1..14);
    let shape = (1usize..9, 1usize..7, 1usize..5, prop_oneof![4 => Just(0usize), 1 => Just(1)]);
    (shape, moments, features, 1usize..5, any::<bool>()).prop_map(
        |((vertices, width, segments, part_bytes), moments, features, lags, standardise)| {
            let lags = lags.min(moments.len());
            Case { vertices, width, segments, part_bytes, moments, features, lags, standardise }
        },
    )
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The rows of a step, made anew from the whole matrix of each step that they show. Those of a part of the
/// vertices, in any order, are the same.
fn dense_at(inputs: &Inputs, store: &Store, t: Step) -> Vec<f32> {
    let (columns, width, vertices) = (inputs.constant.columns(), inputs.constant_width(), store.vertices());
    let mut rows = vec![0.0; vertices * width];
    for lag in 0..inputs.lags.min(t + 1) {
        let (inward, outward) = store.snapshot(t - lag).unwrap().degrees(vertices);
        let features = store.features(t - lag).unwrap();
        for (vertex, row) in rows.chunks_exact_mut(width).enumerate() {
            let place = &mut row[lag * columns..(lag + 1) * columns];
            let logarithms = [inward[vertex], outward[vertex]].map(log_of_one_plus);
            match inputs.constant {
                Constant::None => {}
                Constant::Degrees => inputs.scales.write(0, &logarithms, place),
                Constant::OneHot(_) => place[(outward[vertex] as usize).min(columns - 1)] = 1.0,
                Constant::Stored(_) => {
                    inputs.scales.write(0, &features[vertex * columns..][..columns], place);
                }
            }
        }
    }
    let (inward, outward) = store.snapshot(t).unwrap().degrees(vertices);
    let some: Vec<u32> = (0..vertices as u32).rev().filter(|vertex| vertex % 3 != 1).collect();
    let found = inputs.rows(store, t, (&inward, &outward), &some).unwrap();
    for (&vertex, found) in some.iter().zip(found.chunks_exact(width)) {
        assert_eq!(bits(found), bits(&rows[vertex as usize * width..][..width]), "step {t}, vertex {vertex}");
    }
    rows
}

/// The rows of every step, made anew.
fn dense(inputs: &Inputs, store: &Store) -> Vec<Vec<f32>> {
    (0..store.steps()).map(|t| dense_at(inputs, store, t)).collect()
}

/// Reads all segments and holds them against the rows of every step.
fn check_law(inputs: &Inputs, store: &Store) {
    let (width, vertices) = (inputs.constant_width(), store.vertices());
    let mut next = 0;
    for (number, steps) in inputs.segments().iter().enumerate() {
        assert_eq!(steps.start, next);
        next = steps.end;
        let segment = inputs.read_segment(store, number, &Pool::default()).unwrap();
        assert_eq!(segment.steps, *steps);
        let first = 4 * vertices * width;
        assert!(segment.bytes() <= (2 * first).min(steps.len() * first), "{}", segment.bytes());
        for t in steps.clone() {
            assert_eq!(inputs.segment_of(t), number);
            let expected = dense_at(inputs, store, t);
            for (vertex, expected) in expected.chunks_exact(width).enumerate() {
                let row = segment.at(t).map_or(vertex, |list| list[vertex] as usize);
                let found = &segment.rows[row * width..(row + 1) * width];
                assert_eq!(bits(found), bits(expected), "step {t}, vertex {vertex}");
            }
        }
    }
    assert_eq!(next, store.steps());
}

proptest! {
    // Each writes a store.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Rows of segments have the bits of rows made anew; segments are where they were said to be, and as
    /// large.
    #[test]
    fn segments_have_the_rows_of_every_step(case in cases()) {
        let folder = tempfile::tempdir().unwrap();
        let store = case.write(&folder.path().join("store"));
        let inputs = case.inputs(&store);
        check_law(&inputs, &store);
        for number in 0..inputs.segments().len() {
            let segment = inputs.read_segment(&store, number, &Pool::default()).unwrap();
            prop_assert_eq!(segment.bytes(), inputs.segment_bytes(number));
        }
    }

    /// A row counts as changed where it has other bits than at the step before, and no other row does; what
    /// comes into view with the first step counts for all.
    #[test]
    fn segments_are_cut_by_the_rows_that_change(mut case in cases()) {
        // Scaling could make two rows the same.
        case.standardise = false;
        let folder = tempfile::tempdir().unwrap();
        let store = case.write(&folder.path().join("store"));
        let inputs = case.inputs(&store);
        let (rows, width) = (dense(&inputs, &store), inputs.constant_width());
        let changed = |t: Step| {
            let pairs = rows[t].chunks_exact(width).zip(rows[t - 1].chunks_exact(width));
            pairs.filter(|(now, before)| bits(now) != bits(before)).count()
        };
        let changed: Vec<usize> = (0..store.steps())
            .map(|t| if t < case.lags { store.vertices() } else { changed(t) })
            .collect();
        let (segments, extents) = cut(&changed, store.vertices(), width);
        prop_assert_eq!((&inputs.segments, &inputs.extents), (&segments, &extents));
        // Without a look at the numbers there are never fewer.
        let unread = Inputs::unread(&store, &case.settings(), case.train()).unwrap();
        let most = unread.survey(&store, None).estimate().unwrap();
        let mut pairs = most.iter().zip(&changed);
        prop_assert!(pairs.all(|(most, changed)| most >= changed), "{most:?} {changed:?}");
        check_law(&unread, &store);
    }

    /// A segment takes at most twice its first rows, and ends only where the next step would not fit.
    #[test]
    fn segments_are_as_long_as_they_may(
        changed in prop::collection::vec(prop_oneof![Just(0), 0usize..40, Just(40)], 0..30),
        width in 1usize..20,
    ) {
        let vertices = 40;
        let (segments, extents) = cut(&changed, vertices, width);
        let more = |steps: Range<Step>| {
            let lists = changed[steps.clone()].iter().filter(|&&rows| rows > 0).count();
            changed[steps].iter().sum::<usize>() * width + lists * vertices
        };
        let mut next = 0;
        for (steps, extent) in segments.iter().zip(&extents) {
            prop_assert_eq!(steps.start, next);
            next = steps.end;
            let later = steps.start + 1..steps.end;
            prop_assert_eq!(extent.changed, changed[later.clone()].iter().sum::<usize>());
            prop_assert!(more(later.clone()) <= vertices * width);
            prop_assert!(next == changed.len() || more(later.start..next + 1) > vertices * width);
        }
        prop_assert_eq!(next, changed.len());
    }

    /// Means and deviations are those of the rows of the steps that are trained on, and of no others.
    #[test]
    fn scales_are_those_of_the_steps_in_training(mut case in cases()) {
        case.standardise = false;
        case.lags = 1;
        let folder = tempfile::tempdir().unwrap();
        let store = case.write(&folder.path().join("store"));
        let (rows, width) = (dense(&case.inputs(&store), &store), case.inputs(&store).constant_width());
        case.standardise = true;
        let scales = case.inputs(&store).scales;
        if case.features == Features::OneHotDegrees {
            prop_assert_eq!(scales, Scales::default());
            return Ok(());
        }
        for column in 0..width {
            let values = rows[case.train()].iter().flatten().skip(column).step_by(width);
            let values: Vec<f64> = values.map(|&value| value.into()).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
            let deviation = (squares / values.len() as f64).sqrt();
            let factor = if deviation > 1e-6 { 1.0 / deviation } else { 1.0 };
            let near = |found: f32, expected: f64| {
                (f64::from(found) - expected).abs() <= 1e-6 * expected.abs().max(1.0)
            };
            prop_assert!(near(scales.means[column], mean), "{} {mean}", scales.means[column]);
            prop_assert!(near(scales.factors[column], factor), "{} {factor}", scales.factors[column]);
        }
    }
}

/// Rows of many columns, so that there are several pieces of work.
fn wide(lags: usize) -> Case {
    let cells = |t: usize| (0..30).map(move |n| (n * (37 + t) % 130, n * 101 % 1000, (n % 7) as i8 - 3));
    let moment = |t: usize| Moment { cells: cells(t).collect(), anew: t == 0, ..Moment::default() };
    let moments = (0..8).map(moment).collect();
    let (features, part_bytes) = (Features::Stored, 1);
    Case { vertices: 130, width: 1000, segments: 3, part_bytes, moments, features, lags, standardise: true }
}

/// Pieces of rows fit together, and nothing depends on how many threads do them.
#[test]
fn pieces_of_wide_rows_fit_together_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let store = wide(1).write(&folder.path().join("store"));
    for lags in 1..3 {
        let case = wide(lags);
        let of = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let inputs = case.inputs(&store);
                check_law(&inputs, &store);
                (inputs.scales, inputs.segments, inputs.extents)
            })
        };
        let (one, three) = (of(1), of(3));
        assert_eq!(one, three);
        assert!(one.1.len() < 8 && one.2.iter().any(|extent| extent.changed > 0), "{one:?}");
    }
}

/// Pieces of narrow rows have many vertices; a step that is stored whole is one among changes.
#[test]
fn pieces_of_degrees_fit_together() {
    let vertices = 40_000;
    let ring = (0..vertices as u32).flat_map(|v| [(v, (v + 1) % 40_000), (v, (v + 2) % 40_000)]);
    let path = (0..19_000).map(|v| (v * 2, v * 2 + 1));
    let few = [(5, 9), (39_999, 7)];
    let moment = |edges: Vec<(u32, u32)>, anew| Moment { edges, anew, ..Moment::default() };
    let moments = vec![
        moment(ring.clone().collect(), true),
        moment(few.to_vec(), false),
        moment(path.collect(), false),
        moment(few.to_vec(), false),
        moment(ring.step_by(3).collect(), true),
        moment(few.to_vec(), false),
    ];
    let (features, part_bytes) = (Features::Degrees, 0);
    let folder = tempfile::tempdir().unwrap();
    let (width, segments, standardise) = (1, 1, true);
    let mut case = Case { vertices, width, segments, part_bytes, moments, features, lags: 1, standardise };
    let store = case.write(&folder.path().join("store"));
    for lags in 1..4 {
        case.lags = lags;
        check_law(&case.inputs(&store), &store);
    }
}

/// Of several numbers that are none, the first in time is named, whichever piece of rows it is in; one in
/// the last step is found, too.
#[test]
fn the_first_number_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for standardise in [true, false] {
        for (odd, expected) in [
            (vec![(3, 3, 1), (2, 120, 999)], "vertex 120, step 2"),
            (vec![(2, 120, 400), (2, 5, 999)], "vertex 5, step 2"),
            (vec![(7, 0, 999)], "vertex 0, step 7"),
            (vec![(0, 129, 999)], "vertex 129, step 0"),
        ] {
            let mut writer = Writer::create(&path, true).unwrap();
            let features = FeatureFacts { kind: FeatureKind::Dense, width: 1000, segments: 3 };
            writer.plan(Plan { directed: true, features, ..Plan::default() });
            writer.add_vertices(&Ids::Number((0..130).collect())).unwrap();
            let mut rows = vec![0.5; 130 * 1000];
            for t in 0..8 {
                for &(_, vertex, column) in odd.iter().filter(|odd| odd.0 == t) {
                    rows[vertex * 1000 + column] = f32::NAN;
                }
                let features = FeatureChange::All(rows.clone());
                writer.push(StepData { features, ..StepData::default() }).unwrap();
            }
            let store = writer.finish().unwrap();
            let case = Case { standardise, ..wide(1) };
            let error = Inputs::new(&store, &case.settings(), 0..4).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
            let column = odd.iter().find(|odd| expected == format!("vertex {}, step {}", odd.1, odd.0));
            assert!(error.contains(&format!("feature {}", column.unwrap().2 + 1)), "{error}");
        }
    }
}

/// Plans know how large segments are without a look at features: damage to them is not noticed.
#[test]
fn inputs_for_plans_read_no_features() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut case = wide(1);
    case.moments[3].cells = vec![(77, 5, 100)];
    case.write(&path);
    for file in std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()) {
        let mut bytes = std::fs::read(&file).unwrap();
        let value = 75f32.to_le_bytes();
        if let Some(at) = bytes.windows(4).position(|window| window == value) {
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).unwrap();
        }
    }
    let store = Store::open(&path).unwrap();
    let unread = Inputs::unread(&store, &case.settings(), case.train()).unwrap();
    assert!(unread.segment_bytes(0) > 130 * 1000 * 4);
    let error = Inputs::new(&store, &case.settings(), case.train()).err().unwrap().to_string();
    assert!(error.contains("checksum"), "{error}");
}

/// Where nothing is constant, all steps are one segment that takes nothing.
#[test]
fn without_constant_columns_there_is_one_empty_segment() {
    let folder = tempfile::tempdir().unwrap();
    let case = Case { features: Features::Learnt, ..wide(2) };
    let store = case.write(&folder.path().join("store"));
    let unread = Inputs::unread(&store, &case.settings(), case.train()).unwrap();
    for inputs in [case.inputs(&store), unread] {
        assert_eq!((inputs.segments(), inputs.segment_bytes(0)), (std::slice::from_ref(&(0..8)), 0));
        let segment = inputs.read_segment(&store, 0, &Pool::default()).unwrap();
        assert!(segment.rows.is_empty() && (0..8).all(|t| segment.at(t).is_none()));
    }
}

/// Pieces of vertices are gone through by several, each by one, and all find a value that is no number.
#[test]
fn those_who_divide_the_walk_come_to_what_one_comes_to() {
    let folder = tempfile::tempdir().unwrap();
    let (vertices, width) = (5000, 40);
    let written = |name: &str, last: f32| {
        let mut writer = Writer::create(&folder.path().join(name), false).unwrap();
        let features = FeatureFacts { kind: FeatureKind::Dense, width: width as u64, segments: 1 };
        writer.plan(Plan { directed: true, features, ..Plan::default() });
        writer.add_vertices(&Ids::Number((0..vertices as u64).collect())).unwrap();
        let values = (0..vertices * width).map(|at| (at as f32).sin()).collect();
        let first = StepData { features: FeatureChange::All(values), ..StepData::default() };
        writer.push(first).unwrap();
        let rows = (0..2 * width).map(|at| at as f32).chain(std::iter::repeat_n(last, width)).collect();
        let change = FeatureChange::Rows(vec![7, 2000, 4999], rows);
        writer.push(StepData { features: change, ..StepData::default() }).unwrap();
        writer.finish().unwrap()
    };
    let settings = Settings::default();
    let (store, odd) = (written("store", 3.0), written("odd", f32::NAN));
    let alone = Inputs::new(&store, &settings, 0..2).unwrap();
    std::thread::scope(|scope| {
        for group in WorkerGroup::in_process(3) {
            let (store, odd, settings, alone) = (&store, &odd, &settings, &alone);
            scope.spawn(move || {
                let found = Inputs::among(store, settings, 0..2, Some(&group), None).unwrap();
                assert_eq!((&found.scales, &found.extents), (&alone.scales, &alone.extents));
                let error = Inputs::among(odd, settings, 0..2, Some(&group), None).err().unwrap().to_string();
                assert!(error.contains("found NaN at vertex 4999, step 1"), "{error}");
            });
        }
    });
}
