//! How far a run has come, and what its checkpoint holds of it: parameters, optimiser, recurrent state,
//! position, the plan of the epoch under way, settings.
//!
//! Random numbers have no state of their own (see [`crate::random`]): they follow from the seed, which is a
//! setting, and the position. So a run that is resumed computes the bits of one that was never interrupted.

use std::ops::Range;
use std::path::{Path, PathBuf};

use kymo_files::place::{is_store, parent, resolve, way};
use kymo_graph::Step;
use kymo_model::Slot;
use kymo_plan::EpochPlan;
use kymo_plan::schedule::Schedule;
use kymo_tensor::optim::State;
use kymo_trace::schema::{STAGES, check_iterations};
use serde::{Deserialize, Serialize};

use super::applied::{self, Origin};
use super::checkpoint::{Array, Checkpoint};
use super::stale::{self, StaleFacts};
use crate::config::{Settings, overlay};
use crate::error::{Error, Result};
use crate::forward::RecurrentState;
use crate::schedule::{Division, Measurements};
use crate::step::{Stages, WindowTimes, Worker};

/// How far training has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Epochs done.
    pub epoch: usize,
    /// Windows of the current epoch done.
    pub window: usize,
    /// The sum of their losses.
    pub loss: f64,
    /// How many of them had one.
    pub losses: usize,
    /// The best epoch so far, counted from 1; 0 before the first.
    pub best_epoch: usize,
    /// Its validation by the deciding metric; `None` where that is no finite number, which any number is
    /// better than.
    pub best: Option<f64>,
    /// Lines of the log.
    pub lines: usize,
    /// Whether training has come to its end.
    pub finished: bool,
}

/// What a checkpoint says about itself.
#[derive(Serialize, Deserialize)]
struct Facts {
    settings: String,
    position: Position,
    steps: u64,
    carried: Option<[usize; 2]>,
    /// Who trains which windows, by iteration and worker, once a scheduler has said so.
    #[serde(default)]
    scheduled: Option<Vec<Vec<Vec<usize>>>>,
    /// The plan of the epoch under way, where it was interrupted.
    #[serde(default)]
    plan: Option<EpochPlan>,
    /// What was measured so far, while windows are measured; the seconds are in an array.
    #[serde(default)]
    profile: Option<ProfileFacts>,
    /// What is kept of rows that may become stale, where they may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stale: Option<StaleFacts>,
    data: DataFacts,
    /// The way from the run's folder to the store.
    #[serde(default)]
    beside: Option<PathBuf>,
    /// What else is known of the data.
    #[serde(default)]
    origin: Option<Origin>,
}

/// What was measured, but for the seconds of windows.
#[derive(Clone, Serialize, Deserialize)]
struct ProfileFacts {
    /// The first step and the number of steps of each window that was measured, and where: 0 in a whole
    /// epoch, 1 in the epoch under way at worker 0, 2 at worker 1.
    windows: Vec<[usize; 3]>,
    closings: Vec<f64>,
    seconds: f64,
}

/// More steps of an optimiser than this nobody has made: a checkpoint that says so is damaged.
const MOST_STEPS: u64 = 1 << 53;

/// The array of the seconds: for each window a row of stages for each of its steps, and one for the window.
const PROFILE: &str = "profile";

/// By what the data of a run is known again: its split depends on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct DataFacts {
    vertices: u64,
    steps: u64,
    edges: u64,
    features: u64,
    /// A checksum over those of its files: numbers may change where no count does.
    content: u32,
}

/// The way from the folder of a run, told by its checkpoint, to its store, where it has one of its own.
fn beside(settings: &Settings, checkpoint: &Path) -> Option<PathBuf> {
    let store = Some(Path::new(&settings.data.store)).filter(|path| !path.as_os_str().is_empty())?;
    Some(way(&resolve(parent(checkpoint)).ok()?, &resolve(store).ok()?))
}

impl DataFacts {
    fn of(worker: &Worker) -> DataFacts {
        let manifest = worker.snapshots().store().manifest();
        let (vertices, steps, edges) = (manifest.vertices, manifest.steps, manifest.edges);
        let parts = manifest.parts.iter().map(|part| &part.file);
        let mut content = crc32fast::Hasher::new();
        for file in parts.chain(&manifest.ids).chain(&manifest.fixed) {
            content.update(&file.crc32.to_le_bytes());
        }
        DataFacts { vertices, steps, edges, features: manifest.features.width, content: content.finalize() }
    }
}

/// A run as it stands.
pub struct Saved {
    /// Its settings.
    pub settings: Settings,
    /// How far it has come.
    pub position: Position,
    pub(super) checkpoint: Checkpoint,
    steps: u64,
    carried: Option<[usize; 2]>,
    scheduled: Option<Schedule>,
    plan: Option<EpochPlan>,
    profile: Option<ProfileFacts>,
    stale: Option<StaleFacts>,
    data: DataFacts,
    beside: Option<PathBuf>,
    pub(super) origin: Option<Origin>,
}

/// The parameters of the best epoch, in the order of the slots.
pub type Best = Option<Vec<Vec<f32>>>;

/// What the training loop keeps from epoch to epoch, apart from what the worker holds.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// How far it has come.
    pub position: Position,
    /// The parameters of the best epoch.
    pub best: Best,
    /// Who trains which windows, once a scheduler has said so.
    pub schedule: Option<Schedule>,
    /// The plan of the epoch under way, where it was interrupted.
    pub plan: Option<EpochPlan>,
    /// What was measured so far, while windows are measured.
    pub profile: Option<Measurements>,
}

impl Course {
    /// Deals what is left of the epoch to other workers, or in another way than it was begun: what was
    /// measured and scheduled for those before says nothing of these.
    pub fn deal_anew(&mut self, worker: &Worker, division: &Division) {
        (self.schedule, self.profile) = (None, None);
        let assignment = division.assignment(worker.settings());
        let epochs = worker.context.trained_epochs(worker.group.size(), assignment);
        self.plan = match &self.plan {
            Some(plan) => Some(epochs.dealt_anew(plan, self.position.window)),
            None => None,
        };
    }

    /// Writes a run as it stands.
    pub fn save(&self, worker: &Worker, path: &Path) -> Result<()> {
        let (profile, seconds) = self.profile.as_ref().map(written).unzip();
        let mut checkpoint = Checkpoint::default();
        let facts = Facts {
            settings: overlay::to_toml(worker.settings())?,
            position: self.position.clone(),
            steps: worker.replica.version(),
            carried: worker.state.as_ref().map(|state| [state.exchange.len(), state.rows.len()]),
            scheduled: self.schedule.as_ref().map(|schedule| schedule.iterations.clone()),
            plan: self.plan.clone(),
            profile,
            stale: worker.kept.as_ref().map(|kept| stale::put(kept, &mut checkpoint)),
            data: DataFacts::of(worker),
            beside: beside(worker.settings(), path),
            origin: Some(Origin::of(worker)),
        };
        checkpoint.facts = serde_json::to_value(facts)
            .map_err(|error| Error::file(path, format!("its facts cannot be written: {error}")))?;
        applied::put(&worker.context, &mut checkpoint)?;
        let mut put = |name: String, shape: Vec<usize>, values: &[f32]| {
            checkpoint.arrays.insert(name, Array { shape, values: values.to_vec() });
        };
        if let Some(seconds) = seconds {
            put(PROFILE.into(), vec![seconds.len() / STAGES.len(), STAGES.len()], &seconds);
        }
        let params = &worker.replica.params;
        for (number, (slot, values)) in params.slots().iter().zip(&params.values).enumerate() {
            let shape = vec![slot.shape.rows, slot.shape.columns];
            put(format!("parameter.{}", slot.name), shape.clone(), values);
            if let Some(best) = &self.best {
                put(format!("best.{}", slot.name), shape, &best[number]);
            }
        }
        for (number, buffer) in worker.replica.optimiser.state().buffers.iter().enumerate() {
            put(format!("optimiser.{number:05}"), vec![buffer.len()], buffer);
        }
        if let Some(state) = &worker.state {
            for (phase, matrices) in [("exchange", &state.exchange), ("rows", &state.rows)] {
                for (number, matrix) in matrices.iter().enumerate() {
                    put(format!("carried.{phase}.{number:05}"), vec![matrix.len()], matrix);
                }
            }
        }
        checkpoint.write(path)
    }
}

impl Saved {
    /// Reads a checkpoint.
    pub fn read(path: &Path) -> Result<Saved> {
        Saved::of(Checkpoint::read(path)?, path)
    }

    /// Reads the bytes of a checkpoint that another process has, at this path.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Saved> {
        Saved::of(Checkpoint::from_bytes(bytes, path)?, path)
    }

    fn of(checkpoint: Checkpoint, path: &Path) -> Result<Saved> {
        let wrong =
            |problem: String| Error::file(path, format!("{problem}: it is not the checkpoint of a run"));
        let facts: Facts =
            serde_json::from_value(checkpoint.facts.clone()).map_err(|error| wrong(error.to_string()))?;
        let settings: Settings =
            toml::from_str(&facts.settings).map_err(|error| wrong(error.message().to_owned()))?;
        let Facts { position, steps, carried, plan, profile, stale, data, beside, origin, .. } = facts;
        let scheduled = facts.scheduled.map(|iterations| Schedule { iterations });
        Ok(Saved {
            settings,
            position,
            steps,
            carried,
            scheduled,
            plan,
            profile,
            stale,
            data,
            beside,
            origin,
            checkpoint,
        })
    }

    /// The same with its store where that is now: where it was, or, if it is not there any more, where it was
    /// as seen from the folder of the run, which was moved together with it.
    pub fn found_from(mut self, run: &Path) -> Saved {
        let store = &mut self.settings.data.store;
        if !store.is_empty()
            && !is_store(Path::new(store))
            && let (Some(beside), Ok(run)) = (&self.beside, resolve(run))
            && let Ok(moved) = resolve(&run.join(beside))
            && is_store(&moved)
        {
            *store = moved.to_string_lossy().into_owned();
        }
        self
    }

    /// The schedule in force, if there was one.
    pub fn schedule(&self) -> Option<&Schedule> {
        self.scheduled.as_ref()
    }

    pub(super) fn array(&self, path: &Path, name: &str, length: Option<usize>) -> Result<Vec<f32>> {
        let array = self.checkpoint.arrays.get(name);
        let array = array.ok_or_else(|| {
            Error::file(path, format!("it has no {name}: it belongs to another model, or to other data"))
        })?;
        if length.is_some_and(|length| length != array.values.len()) {
            let problem = format!(
                "its {name} has {} numbers, expected {}: it belongs to another model, or to other data",
                array.values.len(),
                length.unwrap_or(0)
            );
            return Err(Error::file(path, problem));
        }
        Ok(array.values.clone())
    }

    /// Fails where a model has not as many parameters as the checkpoint.
    pub(super) fn check_count(&self, slots: &[Slot], path: &Path) -> Result<()> {
        let count = self.checkpoint.arrays.keys().filter(|name| name.starts_with("parameter.")).count();
        if count == slots.len() {
            return Ok(());
        }
        let problem = format!(
            "it has {count} parameters, expected {}: it belongs to another model, or to other data",
            slots.len()
        );
        Err(Error::file(path, problem))
    }

    /// Brings a worker to where the run stood; what the training loop goes on from.
    pub fn restore(&self, worker: &mut Worker, path: &Path) -> Result<Course> {
        let (then, now) = (&self.data, DataFacts::of(worker));
        if *then != now {
            let problem = format!(
                "the data has changed since the run began ({} vertices, {} steps, {} edges, {} features, \
                 content {:08x} then; \
                 {}, {}, {}, {} and {:08x} now); what was for training might be for the test now. Begin a \
                 new run",
                then.vertices,
                then.steps,
                then.edges,
                then.features,
                then.content,
                now.vertices,
                now.steps,
                now.edges,
                now.features,
                now.content
            );
            return Err(Error::file(path, problem));
        }
        let slots = worker.replica.params.slots().to_vec();
        self.check_count(&slots, path)?;
        let all = |kind: &str| -> Result<Vec<Vec<f32>>> {
            let one =
                |slot: &Slot| self.array(path, &format!("{kind}.{}", slot.name), Some(slot.shape.len()));
            slots.iter().map(one).collect()
        };
        let profile = self.measurements(&worker.context.windows(), path)?;
        let best = if self.position.best_epoch > 0 { Some(all("best")?) } else { None };
        let values = all("parameter")?;
        let buffers = self.checkpoint.arrays.keys().filter(|name| name.starts_with("optimiser."));
        let buffers = buffers.map(|name| self.array(path, name, None)).collect::<Result<Vec<_>>>()?;
        let lengths =
            (0..worker.replica.optimiser.copies()).flat_map(|_| slots.iter().map(|slot| slot.shape.len()));
        let fits = buffers.is_empty() || buffers.iter().map(Vec::len).eq(lengths);
        if !fits || self.steps > MOST_STEPS {
            let problem = "what it keeps of the optimiser does not go with its parameters: it is damaged; \
                           begin a new run";
            return Err(Error::file(path, problem));
        }
        let matrices = |phase: &str, count: usize| -> Result<Vec<Vec<f32>>> {
            (0..count).map(|number| self.array(path, &format!("carried.{phase}.{number:05}"), None)).collect()
        };
        worker.state = match self.carried {
            Some([exchange, rows]) => {
                let (exchange, rows) = (matrices("exchange", exchange)?, matrices("rows", rows)?);
                Some(RecurrentState { exchange, rows, window: None })
            }
            None => None,
        };
        if let (Some(rows), Some(facts)) = (worker.stale(), &self.stale) {
            let kept = stale::take(facts, &self.checkpoint, path)?;
            let of = |settings: &Settings| (settings.parallel.workers, settings.parallel.strategy.clone());
            match of(&self.settings) == of(worker.settings()) && kept.sent.len() == worker.group.size() {
                true => rows.restore(&kept, worker.group.rank()),
                false => rows.begin_anew(&kept),
            }
        }
        worker.replica.params.values = values;
        worker.replica.optimiser.restore(State { steps: self.steps, buffers });
        let (position, schedule, plan) = (self.position.clone(), self.scheduled.clone(), self.plan.clone());
        Ok(Course { position, best, schedule, plan, profile })
    }

    /// What was measured so far; fails where that, or the schedule, is not of these windows.
    fn measurements(&self, windows: &[Range<Step>], path: &Path) -> Result<Option<Measurements>> {
        let wrong = |problem: String| Error::file(path, format!("{problem}: it is damaged; begin a new run"));
        let workers = self.settings.parallel.workers;
        if let Some(schedule) = &self.scheduled {
            check_iterations(&schedule.iterations, windows.len(), workers)
                .map_err(|problem| wrong(format!("its schedule does not go with the run, {problem}")))?;
        }
        let Some(facts) = &self.profile else { return Ok(None) };
        let seconds = self.array(path, PROFILE, None)?;
        let sound = seconds.iter().map(|&seconds| f64::from(seconds));
        let mut sound = sound.chain(facts.closings.iter().copied()).chain([facts.seconds]);
        if !sound.all(|seconds| seconds.is_finite() && seconds >= 0.0) {
            return Err(wrong("its profile has seconds that are negative or no numbers".into()));
        }
        let (closings, under_way) = (facts.closings.clone(), vec![Vec::new(); workers]);
        let mut measured =
            Measurements { closings, under_way, seconds: facts.seconds, ..Measurements::default() };
        let mut rows = seconds.chunks_exact(STAGES.len());
        let mut row = || -> Option<Stages> {
            let row = rows.next()?;
            Some(std::array::from_fn(|stage| f64::from(row[stage])))
        };
        for &[start, steps, place] in &facts.windows {
            let window = windows.get(windows.partition_point(|window| window.start < start));
            let known = window == Some(&(start..start.saturating_add(steps)));
            let times = known.then(|| (0..steps).map(|_| row()).collect::<Option<Vec<Stages>>>()).flatten();
            let room = match place {
                0 => Some(&mut measured.whole),
                rank => measured.under_way.get_mut(rank - 1),
            };
            let (Some(steps), Some(common), Some(room)) = (times, row(), room) else {
                return Err(wrong(format!(
                    "its profile has a window of steps from {start} that the run has not"
                )));
            };
            room.push(WindowTimes { start, steps, common });
        }
        Ok(Some(measured))
    }
}

/// What is written of measurements: facts, and the seconds.
fn written(measured: &Measurements) -> (ProfileFacts, Vec<f32>) {
    let places = std::iter::once(&measured.whole).chain(&measured.under_way).enumerate();
    let all = || places.clone().flat_map(|(place, all)| all.iter().map(move |times| (place, times)));
    let window = |(place, times): (usize, &WindowTimes)| [times.start, times.steps.len(), place];
    let stages = all().flat_map(|(_, times)| times.steps.iter().chain([&times.common]));
    let seconds = stages.flatten().map(|&seconds| seconds as f32).collect();
    let (closings, taken) = (measured.closings.clone(), measured.seconds);
    (ProfileFacts { windows: all().map(window).collect(), closings, seconds: taken }, seconds)
}
