//! Small data that can be changed step by step, settings that fit it, and someone who looks on and says when
//! to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use kymo_graph::snapshot::{Edge, Snapshot};
use kymo_graph::store::{FeatureFacts, FeatureKind, Fixed, Plan, SparseFeatures, Writer};
use kymo_graph::time::TimeUnit;
use kymo_graph::{FeatureChange, Ids, Progress, StepData, StepEdges, Store, Vertex};
use kymo_plan::Iteration;
use kymo_plan::strategy::{self, Scheme, Strategy};
use kymo_run::config::Mode;
use kymo_run::random::Random;
use kymo_run::schedule::Division;
use kymo_run::train::{self, Ending, EpochProgress, Observer};
use kymo_run::{RunContext, Session, Settings, Worker};
use kymo_trace::schema::{EpochRecord, RunSummary};

/// Columns of the features.
pub const FEATURES: usize = 3;

/// All ways to cut a sequence.
pub const MODES: [Mode; 3] = [Mode::Windows, Mode::Sequence, Mode::Truncated];

/// A step, in a form that a test can change.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Source and target of every edge.
    pub edges: BTreeSet<(Vertex, Vertex)>,
    /// What edges weigh, where it is not 1.
    pub weights: BTreeMap<(Vertex, Vertex), f32>,
    /// A row for every vertex; not written where the data has sparse features.
    pub features: Vec<f32>,
    /// The values of some vertices.
    pub targets: Vec<(Vertex, f32)>,
    /// The classes of some vertices.
    pub labels: Vec<(Vertex, u32)>,
}

/// Data before it is written.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    /// How many vertices there are.
    pub vertices: usize,
    /// The steps.
    pub moments: Vec<Moment>,
    /// What holds for all steps.
    pub fixed: Fixed,
    /// The names of classes.
    pub classes: Vec<String>,
    /// What times count.
    pub unit: TimeUnit,
    /// When a step begins and ends; nothing is known of it without.
    pub time: Option<fn(usize) -> [f64; 2]>,
}

/// Steps of eight hours: three of them make a day.
const HOURS: fn(usize) -> [f64; 2] = |step| [step, step + 1].map(|step| 28_800.0 * step as f64);

impl Sketch {
    /// Random data: most edges stay from one step to the next, so that they have a past, and all counts
    /// change, so that no two steps are alike.
    pub fn random(seed: u64, vertices: usize, steps: usize) -> Sketch {
        let random = Random::new(seed);
        let mut moments = Vec::new();
        let mut edges = BTreeSet::new();
        for step in 0..steps as u64 {
            let draws = random.stream(step);
            let number = |position: u64| (draws.stream(1).share(position) * 2.0 - 1.0) as f32;
            let drawn = |position: u64| draws.stream(2).below(vertices, position) as Vertex;
            let mut place = 0;
            edges.retain(|_| {
                place += 1;
                draws.stream(3).share(place) < 0.8
            });
            let wanted = vertices * 2 + draws.stream(4).below(vertices, 0);
            edges.extend(
                (0..(wanted - edges.len().min(wanted)) as u64).map(|i| (drawn(2 * i), drawn(2 * i + 1))),
            );
            // Never none: a part of the data without any is refused.
            let some = |&vertex: &Vertex| vertex == 0 || draws.stream(5).share(u64::from(vertex)) < 0.8;
            let labelled: Vec<Vertex> = (0..vertices as Vertex).filter(some).collect();
            moments.push(Moment {
                edges: edges.clone(),
                weights: BTreeMap::new(),
                features: (0..(vertices * FEATURES) as u64).map(number).collect(),
                targets: labelled
                    .iter()
                    .map(|&v| (v, 5.0 + 3.0 * number(1_000_000 + u64::from(v))))
                    .collect(),
                labels: labelled
                    .iter()
                    .map(|&v| (v, draws.stream(6).below(2, u64::from(v)) as u32))
                    .collect(),
            });
        }
        let classes = vec!["left".into(), "right".into()];
        let (fixed, unit, time) = (Fixed::default(), TimeUnit::S, Some(HOURS));
        Sketch { vertices, moments, fixed, classes, unit, time }
    }

    /// The same with values that come back after a season, each vertex with its own, below some noise.
    pub fn seasonal(mut self, season: usize) -> Sketch {
        let random = Random::new(31);
        for (step, moment) in self.moments.iter_mut().enumerate() {
            for (vertex, value) in &mut moment.targets {
                let of_season = random.stream(u64::from(*vertex)).share((step % season) as u64);
                *value = 0.2 * *value + 10.0 * of_season as f32;
            }
        }
        self
    }

    /// The same with one of five columns for each vertex instead of features that change.
    pub fn sparse(mut self) -> Sketch {
        let vertices = self.vertices;
        self.fixed.sparse = Some(SparseFeatures {
            width: 5,
            starts: (0..=vertices as u64).collect(),
            columns: (0..vertices as u32).map(|vertex| vertex * 3 % 5).collect(),
            values: (0..vertices).map(|vertex| 1.0 + vertex as f32 / vertices as f32).collect(),
        });
        self
    }

    /// The same with weights of both signs, whole numbers, some of which change from step to step.
    pub fn weighted(mut self, seed: u64) -> Sketch {
        let random = Random::new(seed).stream(77);
        for (t, moment) in (0..).zip(&mut self.moments) {
            let weight = |&(source, target): &(Vertex, Vertex)| {
                let pair = u64::from(source) << 32 | u64::from(target);
                // Each pair has a time of its own to change.
                let since = (t + random.stream(1).word(pair) % 8) / 8;
                let weight = [-2.0, -1.0, 1.0, 2.0, 3.0][random.stream(2 + since).below(5, pair)];
                ((source, target), weight)
            };
            moment.weights = moment.edges.iter().map(weight).collect();
        }
        self
    }

    /// The same with what a task needs: weights, where it is about what edges weigh.
    pub fn for_task(&self, task: &str) -> Sketch {
        match is_of_edges(task) {
            true => self.clone().weighted(7),
            false => self.clone(),
        }
    }

    /// Writes it twice, without weights and with them.
    pub fn write_both(&self, path: &Path) -> Both {
        let weighted = path.with_extension("weighted");
        Both { plain: self.write(path), weighted: self.clone().weighted(7).write(&weighted) }
    }

    /// The same up to `keep` steps, and nothing in common with it afterwards.
    pub fn with_another_future(&self, keep: usize, seed: u64) -> Sketch {
        let mut other = Sketch::random(seed, self.vertices, self.moments.len());
        if self.moments.iter().any(|moment| !moment.weights.is_empty()) {
            other = other.weighted(seed);
        }
        let mut other = other.moments;
        for moment in &mut other {
            moment.features.iter_mut().for_each(|value| *value = *value * 50.0 + 7.0);
            moment.targets.iter_mut().for_each(|(_, value)| *value = *value * 50.0 - 9.0);
            moment.labels.iter_mut().for_each(|(_, class)| *class = 0);
        }
        let moments = [&self.moments[..keep], &other[keep..]].concat();
        Sketch { moments, ..self.clone() }
    }

    /// Writes it, in the place of what is there.
    pub fn write(&self, path: &Path) -> Arc<Store> {
        self.write_with(path, &Ids::Number((100..100 + self.vertices as u64).collect()))
    }

    /// The same with other names of the vertices.
    pub fn write_with(&self, path: &Path, ids: &Ids) -> Arc<Store> {
        let mut writer = Writer::create(path, true).unwrap();
        let (kind, width) = match &self.fixed.sparse {
            Some(sparse) => (FeatureKind::Sparse, sparse.width),
            None => (FeatureKind::Dense, FEATURES),
        };
        let features = FeatureFacts { kind, width: width as u64, segments: 1 };
        let classes = self.classes.clone();
        writer.plan(Plan { directed: true, features, classes, time_unit: self.unit, ..Plan::default() });
        writer.add_vertices(ids).unwrap();
        writer.fixed(&self.fixed).unwrap();
        for (step, moment) in self.moments.iter().enumerate() {
            let [begin, end] = self.time.map_or([0.0; 2], |time| time(step));
            let weighted = |pair: &(Vertex, Vertex)| {
                (Edge::new(pair.0, pair.1), moment.weights.get(pair).copied().unwrap_or(1.0))
            };
            let edges = moment.edges.iter().map(weighted).collect();
            writer
                .push(StepData {
                    begin,
                    end,
                    edges: StepEdges::All(Snapshot::from_weighted(edges)),
                    features: FeatureChange::All(moment.features.clone()),
                    targets: moment.targets.clone(),
                    labels: moment.labels.clone(),
                    ..StepData::default()
                })
                .unwrap();
        }
        Arc::new(writer.finish().unwrap())
    }
}

/// Whether a task is about what edges weigh.
pub fn is_of_edges(task: &str) -> bool {
    task.starts_with("edge-")
}

/// A store without weights, and the same with them.
pub struct Both {
    plain: Arc<Store>,
    weighted: Arc<Store>,
}

impl Both {
    /// The one that a task can learn from.
    pub fn of(&self, task: &str) -> &Arc<Store> {
        if is_of_edges(task) { &self.weighted } else { &self.plain }
    }
}

/// All strategies that were built in and go with every model, task and mode. Those whose workers have target
/// vertices of their own are in `portions.rs`.
pub fn strategies() -> impl Iterator<Item = &'static Strategy> {
    let there = |strategy: &&Strategy| match strategy.scheme {
        Scheme::Scheduled(name) => kymo_plan::schedule::find(name).unwrap().is_there(),
        Scheme::Targets => false,
        _ => true,
    };
    strategy::ALL.iter().filter(there)
}

/// Whether workers share each window; otherwise each trains whole windows, and truncated ones cannot be
/// divided so.
pub fn cuts_windows(strategy: &Strategy) -> bool {
    matches!(strategy.scheme, Scheme::Cells { .. })
}

/// Settings for small data.
pub fn settings(store: &Path, task: &str, model: &str) -> Settings {
    let mut settings = Settings::default();
    settings.data.store = store.to_string_lossy().into_owned();
    settings.task.name = task.into();
    settings.model.name = model.into();
    (settings.model.hidden, settings.model.heads) = (8, 2);
    (settings.train.window, settings.train.epochs, settings.train.patience) = (3, 3, 0);
    // Schedules follow measured times, which are never the same twice.
    settings.parallel.profile_epochs = 1000;
    settings.link.evaluate_negatives = 10;
    // Fewer than there are, so that there is something to choose.
    (settings.link.positives, settings.link.validate_positives) = (60, 50);
    settings
}

/// The iterations of an epoch before a scheduler has decided.
pub fn iterations(context: &RunContext, division: &Division, epoch: usize) -> Vec<Iteration> {
    let settings = &context.settings;
    let assignment = division.assignment(settings);
    context.epochs(settings.parallel.workers, assignment).plan(epoch).iterations
}

/// The learning rate where it does not change.
pub fn rate(settings: &Settings) -> f32 {
    settings.train.learning_rate as f32
}

/// Watches, keeps what it is shown, and asks to stop after some iterations.
#[derive(Default)]
pub struct Onlooker {
    /// What was logged.
    pub lines: Vec<EpochRecord>,
    /// Windows after which to stop; `None`: never.
    stop_after: Option<usize>,
    windows: usize,
}

impl Onlooker {
    /// One that asks to stop after this many iterations.
    pub fn until(windows: usize) -> Onlooker {
        Onlooker { stop_after: Some(windows), ..Onlooker::default() }
    }
}

impl Observer for Onlooker {
    fn progress(&mut self, _: &EpochProgress) {
        self.windows += 1;
    }

    fn epoch(&mut self, line: &EpochRecord) {
        self.lines.push(line.clone());
    }

    fn stop(&self) -> bool {
        self.stop_after.is_some_and(|most| self.windows >= most)
    }
}

/// Begins a run and trains it to its end.
pub fn run(settings: &Settings, path: &Path) -> (Vec<EpochRecord>, RunSummary) {
    let mut onlooker = Onlooker::default();
    let session = Session::begin(settings.clone(), path, &Progress::silent()).unwrap();
    match session.train(&mut onlooker).unwrap() {
        Ending::Finished(summary) => (onlooker.lines, *summary),
        Ending::Stopped => panic!("nobody asked to stop"),
    }
}

/// Trains without a folder; the losses of all windows.
pub fn practise(worker: &mut Worker, epochs: usize) -> Vec<f32> {
    let windows = worker.split().windows(worker.settings());
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        worker.begin_epoch(epoch, true);
        for (number, window) in windows.iter().enumerate() {
            let (salt, rate) = ((epoch * windows.len() + number) as u64, rate(worker.settings()));
            losses.extend(worker.step(window.clone(), salt, rate).unwrap());
        }
    }
    losses
}

/// What a model says at the samples, one after the other.
pub fn outputs(worker: &mut Worker, samples: std::ops::Range<usize>) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    train::outputs(worker, samples, |_, _, outputs| {
        all.push(outputs);
        Ok(())
    })
    .unwrap();
    all
}
