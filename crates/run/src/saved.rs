//! What a checkpoint of a run holds: parameters, optimiser, state handed over, position, settings.
//!
//! Random numbers have no state of their own (see [`crate::random`]): they follow from the seed, which is a setting, and the
//! position. So a run that is resumed computes the bits of one that was never interrupted.

use std::path::Path;

use kymo_plan::schedule::Schedule;
use kymo_tensor::optim::State;
use serde::{Deserialize, Serialize};

use crate::carried::Carried;
use crate::checkpoint::{Array, Checkpoint};
use crate::error::{Error, Result};
use crate::layers;
use crate::learner::Learner;
use crate::settings::Settings;

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
    /// Its validation by the deciding metric; `None` where that is no finite number, which any number is better than.
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
    data: DataFacts,
}

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

impl DataFacts {
    fn of(learner: &Learner) -> DataFacts {
        let manifest = learner.frames().store().manifest();
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
    checkpoint: Checkpoint,
    steps: u64,
    carried: Option<[usize; 2]>,
    scheduled: Option<Vec<Vec<Vec<usize>>>>,
    data: DataFacts,
}

/// The parameters of the best epoch, in the order of the slots.
pub type Best = Option<Vec<Vec<f32>>>;

/// Writes a run as it stands.
pub fn save(learner: &Learner, position: &Position, best: &Best, path: &Path) -> Result<()> {
    let facts = Facts {
        settings: layers::to_toml(learner.settings())?,
        position: position.clone(),
        steps: learner.optimiser.state().steps,
        carried: learner.carried.as_ref().map(|carried| [carried.exchange.len(), carried.rows.len()]),
        scheduled: learner.scheduled.as_ref().map(|schedule| schedule.iterations.clone()),
        data: DataFacts::of(learner),
    };
    let facts = serde_json::to_value(facts)
        .map_err(|error| Error::file(path, format!("its facts cannot be written: {error}")))?;
    let mut checkpoint = Checkpoint { facts, ..Checkpoint::default() };
    let mut put = |name: String, shape: Vec<usize>, values: &[f32]| {
        checkpoint.arrays.insert(name, Array { shape, values: values.to_vec() });
    };
    for (number, (slot, values)) in learner.params.slots().iter().zip(&learner.params.values).enumerate() {
        let shape = vec![slot.shape.rows, slot.shape.columns];
        put(format!("parameter.{}", slot.name), shape.clone(), values);
        if let Some(best) = best {
            put(format!("best.{}", slot.name), shape, &best[number]);
        }
    }
    for (number, buffer) in learner.optimiser.state().buffers.iter().enumerate() {
        put(format!("optimiser.{number:05}"), vec![buffer.len()], buffer);
    }
    if let Some(carried) = &learner.carried {
        for (phase, matrices) in [("exchange", &carried.exchange), ("rows", &carried.rows)] {
            for (number, matrix) in matrices.iter().enumerate() {
                put(format!("carried.{phase}.{number:05}"), vec![matrix.len()], matrix);
            }
        }
    }
    checkpoint.write(path)
}

impl Saved {
    /// Reads a checkpoint.
    pub fn read(path: &Path) -> Result<Saved> {
        let checkpoint = Checkpoint::read(path)?;
        let wrong =
            |problem: String| Error::file(path, format!("{problem}: it is not the checkpoint of a run"));
        let facts: Facts =
            serde_json::from_value(checkpoint.facts.clone()).map_err(|error| wrong(error.to_string()))?;
        let settings: Settings =
            toml::from_str(&facts.settings).map_err(|error| wrong(error.message().to_owned()))?;
        let Facts { position, steps, carried, scheduled, data, .. } = facts;
        Ok(Saved { settings, position, steps, carried, scheduled, data, checkpoint })
    }

    fn array(&self, path: &Path, name: &str, length: Option<usize>) -> Result<Vec<f32>> {
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

    /// Brings a learner to where the run stood; the parameters of the best epoch.
    pub fn restore(&self, learner: &mut Learner, path: &Path) -> Result<Best> {
        let (then, now) = (&self.data, DataFacts::of(learner));
        if *then != now {
            let problem = format!(
                "the data has changed since the run began ({} vertices, {} steps, {} edges, {} features, content {:08x} then; \
                 {}, {}, {}, {} and {:08x} now); what was for training might be for the test now. Begin a new run",
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
        let count = self.checkpoint.arrays.keys().filter(|name| name.starts_with("parameter.")).count();
        let slots = learner.params.slots().to_vec();
        if count != slots.len() {
            let problem = format!(
                "it has {count} parameters, expected {}: it belongs to another model, or to other data",
                slots.len()
            );
            return Err(Error::file(path, problem));
        }
        let all = |kind: &str| -> Result<Vec<Vec<f32>>> {
            let one = |slot: &kymo_model::Slot| {
                self.array(path, &format!("{kind}.{}", slot.name), Some(slot.shape.len()))
            };
            slots.iter().map(one).collect()
        };
        let best = if self.position.best_epoch > 0 { Some(all("best")?) } else { None };
        let values = all("parameter")?;
        let buffers = self.checkpoint.arrays.keys().filter(|name| name.starts_with("optimiser."));
        let buffers = buffers.map(|name| self.array(path, name, None)).collect::<Result<_>>()?;
        let matrices = |phase: &str, count: usize| -> Result<Vec<Vec<f32>>> {
            (0..count).map(|number| self.array(path, &format!("carried.{phase}.{number:05}"), None)).collect()
        };
        learner.carried = match self.carried {
            Some([exchange, rows]) => {
                let (exchange, rows) = (matrices("exchange", exchange)?, matrices("rows", rows)?);
                Some(Carried { exchange, rows, window: None })
            }
            None => None,
        };
        learner.scheduled = self.scheduled.clone().map(|iterations| Schedule { iterations });
        learner.params.values = values;
        learner.optimiser.restore(State { steps: self.steps, buffers });
        Ok(best)
    }
}
