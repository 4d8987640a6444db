//! A trained model on other data than it was trained on: a store that has grown, or another of the same kind.

use std::path::Path;

use kymo_graph::Store;
use kymo_model::Slot;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::checkpoint::{Array, Checkpoint};
use super::course::Saved;
use crate::config::NODE_CLASSIFICATION;
use crate::data::{LEARNT, Measured, NUMBERS, known_by};
use crate::error::{Error, Result};
use crate::step::{RunContext, Worker};

/// What a checkpoint says about the data beside its counts, so that a model can be applied to other data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Constant columns of a step.
    columns: usize,
    /// The names of classes, in the order of their numbers.
    classes: Vec<String>,
}

/// The arrays of what was measured: means and factors of columns, and the numbers of the task.
const INPUTS: &str = "measured.inputs";
const TASK: &str = "measured.task";

/// The array of the vertices that columns were learnt for.
const VERTICES: &str = "learnt.vertices";

impl Origin {
    pub(super) fn of(worker: &Worker) -> Origin {
        let manifest = worker.snapshots().store().manifest();
        Origin { columns: worker.context.measured().columns, classes: manifest.labels.classes.clone() }
    }

    /// Fails where the data has other classes than the model knows.
    fn check_classes(&self, store: &Store) -> Result<()> {
        let here = &store.manifest().labels.classes;
        if self.classes.is_empty() || self.classes == *here {
            return Ok(());
        }
        let other = here.iter().find(|class| !self.classes.contains(class));
        let problem = match other {
            Some(class) => format!("it has a class '{class}', which the model was not trained to tell"),
            None => format!(
                "it has {} classes in another order or number than the {} that the model was trained to tell",
                here.len(),
                self.classes.len()
            ),
        };
        Err(Error::settings("data.store", format!("{}: {problem}", store.path().display())))
    }
}

/// Puts what was measured into a checkpoint, and the vertices where columns are learnt for them.
pub(super) fn put(context: &RunContext, checkpoint: &mut Checkpoint) -> Result<()> {
    let measured = context.measured();
    let mut put = |name: &str, shape: Vec<usize>, values: Vec<f32>| {
        checkpoint.arrays.insert(name.to_owned(), Array { shape, values });
    };
    if !measured.means.is_empty() {
        let both = [&measured.means[..], &measured.factors].concat();
        put(INPUTS, vec![2, measured.means.len()], both);
    }
    if !measured.task.is_empty() {
        put(TASK, vec![measured.task.len()], measured.task);
    }
    if context.inputs.slots().iter().any(|slot| slot.name == LEARNT) {
        let vertices = context.known_by()?;
        put(VERTICES, vec![vertices.len() / NUMBERS, NUMBERS], vertices.to_vec());
    }
    Ok(())
}

impl Saved {
    /// What was measured where the model was trained; nothing where an earlier version wrote the checkpoint.
    pub fn measured(&self, path: &Path) -> Option<Measured> {
        let columns = self.origin.as_ref()?.columns;
        let array = |name: &str| self.checkpoint.arrays.get(name).map_or(&[][..], |array| &array.values);
        let (means, factors) = array(INPUTS).split_at(array(INPUTS).len() / 2);
        let (means, factors, task) = (means.into(), factors.into(), array(TASK).into());
        Some(Measured { columns, means, factors, task, from: path.into() })
    }

    /// Gives a worker on other data the parameters of the best epoch. Vertices that the model has not met get
    /// the mean of the columns that were learnt for the others.
    pub fn apply(&self, worker: &mut Worker, path: &Path) -> Result<()> {
        let store = worker.context.store.clone();
        let Some(origin) = &self.origin else {
            let problem = "an earlier version wrote it, which did not say what it measured of its data: the \
                           run cannot be applied to other data; train it again";
            return Err(Error::file(path, problem));
        };
        if worker.settings().task.name == NODE_CLASSIFICATION {
            origin.check_classes(&store)?;
        }
        let slots = worker.replica.params.slots().to_vec();
        self.check_count(&slots, path)?;
        let kind = if self.position.best_epoch > 0 { "best" } else { "parameter" };
        let one = |slot: &Slot| match slot.name == LEARNT {
            true => self.of_vertices(slot, &store, kind, path),
            false => self.array(path, &format!("{kind}.{}", slot.name), Some(slot.shape.len())),
        };
        worker.replica.params.values = slots.iter().map(one).collect::<Result<_>>()?;
        Ok(())
    }

    /// The columns that were learnt for vertices, found by their names, with rows for those that are new.
    fn of_vertices(&self, slot: &Slot, store: &Store, kind: &str, path: &Path) -> Result<Vec<f32>> {
        let columns = slot.shape.columns.max(1);
        let vertices = self.array(path, VERTICES, None)?;
        let count = vertices.len() / NUMBERS;
        let learnt = self.array(path, &format!("{kind}.{}", slot.name), Some(count * columns))?;
        let mut mean = vec![0.0f64; columns];
        for row in learnt.chunks_exact(columns) {
            mean.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        let mean: Vec<f32> = mean.iter().map(|sum| (sum / count.max(1) as f64) as f32).collect();
        let key = |numbers: &[f32]| -> [u32; NUMBERS] { std::array::from_fn(|at| numbers[at].to_bits()) };
        let rows: FxHashMap<_, _> =
            vertices.chunks_exact(NUMBERS).map(key).zip(learnt.chunks_exact(columns)).collect();
        let (mut all, mut met) = (Vec::with_capacity(slot.shape.len()), 0);
        for vertex in known_by(&store.ids()?).chunks_exact(NUMBERS) {
            let row = rows.get(&key(vertex)).copied();
            met += usize::from(row.is_some());
            all.extend_from_slice(row.unwrap_or(&mean));
        }
        if met == 0 {
            let problem = format!(
                "{}: the model has learnt columns for its vertices and has met none of these; train one with \
                 data.features=stored or degrees to apply it to other vertices",
                store.path().display()
            );
            return Err(Error::settings("data.store", problem));
        }
        Ok(all)
    }
}
