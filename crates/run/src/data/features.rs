//! What is known of the vertices at a step: columns from the store, degrees, and columns that are learnt.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::store::FeatureKind;
use kymo_graph::{Place, Snapshot, Step, Store, Vertex};
use kymo_model::params::Initial;
use kymo_model::{Bound, Slot};
use kymo_tensor::{Pattern, Resident, Shape, Stage, Tape, Var};

use crate::config::{Features, LINK_PREDICTION, Settings};
use crate::error::{Error, Result};

/// Where the columns of a run come from, and how they are scaled.
pub struct Inputs {
    constant: Constant,
    lags: usize,
    /// Sparse features of the store, which are multiplied by a learnt matrix: as dense rows they would not
    /// fit.
    sparse: Option<SparseRows>,
    /// Columns learnt for each vertex.
    table: usize,
    /// Columns that sparse features are projected to.
    projected: usize,
    vertices: usize,
    /// Of each constant column, what is subtracted and what it is then multiplied by.
    scales: Vec<(f32, f32)>,
}

/// Where the non-zeros of sparse features are, and what they are.
type SparseRows = (Arc<Pattern>, Arc<Resident>);

/// Columns that are not learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constant {
    None,
    Degrees,
    /// One column for each degree; the last one is for all that are higher.
    OneHot(usize),
    Stored(usize),
}

/// Columns of one-hot degrees at most.
const DEGREES: usize = 256;

impl Constant {
    fn columns(self) -> usize {
        match self {
            Constant::None => 0,
            Constant::Degrees => 2,
            Constant::OneHot(columns) | Constant::Stored(columns) => columns,
        }
    }
}

impl Inputs {
    /// The inputs that the settings ask for; columns are scaled by what the `train` steps have.
    pub fn new(store: &Store, settings: &Settings, train: Range<Step>) -> Result<Inputs> {
        let mut inputs = Inputs::unread(store, settings, train.clone())?;
        let mut unread = 0..store.steps();
        // Rare degrees would be blown up by their small deviation.
        let is_one_hot = matches!(inputs.constant, Constant::OneHot(_));
        if settings.data.standardise && inputs.constant.columns() > 0 && !is_one_hot {
            unread.start = train.end;
            inputs.scales = inputs.measure(store, train)?;
        }
        if let Constant::Stored(_) = inputs.constant {
            // What is no number is found now, not when the test comes to it after hours of training.
            unread.try_for_each(|t| inputs.raw(store, t, None).map(drop))?;
        }
        Ok(inputs)
    }

    /// The same without a look at the numbers, for those who want to know how many there are: nothing is
    /// scaled.
    pub fn unread(store: &Store, settings: &Settings, train: Range<Step>) -> Result<Inputs> {
        if settings.data.lags > store.steps() {
            let (lags, steps) = (settings.data.lags, store.steps());
            let problem = format!("found {lags}, but the store has {steps} steps; expected at most as many");
            return Err(Error::settings("data.lags", problem));
        }
        let facts = &store.manifest().features;
        let stored = match facts.kind {
            FeatureKind::Dense => Constant::Stored(facts.width as usize),
            FeatureKind::Sparse => Constant::None,
            FeatureKind::Degrees | FeatureKind::None => Constant::Degrees,
        };
        let (is_sparse, is_link) = (facts.kind == FeatureKind::Sparse, settings.task.name == LINK_PREDICTION);
        let missing = stored == Constant::Degrees && !is_sparse;
        let (constant, sparse, table) = match settings.data.features {
            Features::Auto => (stored, is_sparse, missing && is_link),
            Features::Stored if missing && facts.kind == FeatureKind::None => {
                let problem = "the store has no features; choose degrees or learnt";
                return Err(Error::settings("data.features", problem));
            }
            Features::Stored => (stored, is_sparse, false),
            Features::Degrees => (Constant::Degrees, false, false),
            Features::OneHotDegrees => {
                (Constant::OneHot(one_hot_columns(store, train.clone())?), false, false)
            }
            Features::Learnt => (Constant::None, false, true),
            Features::Both => (stored, is_sparse, true),
        };
        let learnt = if settings.data.learnt == 0 { settings.model.hidden } else { settings.data.learnt };
        Ok(Inputs {
            constant,
            lags: settings.data.lags,
            sparse: if sparse { sparse_rows(store)? } else { None },
            table: if table { learnt } else { 0 },
            projected: if sparse { learnt } else { 0 },
            vertices: store.vertices(),
            scales: Vec::new(),
        })
    }

    /// Columns of all parts together.
    pub fn width(&self) -> usize {
        self.constant_width() + self.projected + self.table
    }

    /// Columns that are not learnt.
    pub fn constant_width(&self) -> usize {
        self.constant.columns() * self.lags
    }

    /// What is learnt of the inputs.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        if let Some((pattern, _)) = &self.sparse {
            slots.push(Slot::weight("input.project", pattern.columns(), self.projected));
        }
        if self.table > 0 {
            // As if each row were the only one: the number of vertices must not make the rows vanish.
            let initial = Initial::Uniform((3.0 / self.table as f32).sqrt());
            let shape = Shape::new(self.vertices, self.table);
            slots.push(Slot { name: "input.vertices".into(), shape, initial });
        }
        slots
    }

    /// The constant columns of step `t`, scaled; its snapshot is at hand.
    pub fn rows(&self, store: &Store, t: Step, snapshot: &Snapshot<'_>) -> Result<Vec<f32>> {
        let columns = self.constant.columns();
        let width = self.constant_width();
        let mut rows = vec![0.0; self.vertices * width];
        // The current step first, then those before it; what lies before the first step is the mean.
        for lag in 0..self.lags.min(t + 1) {
            let raw =
                if lag == 0 { self.raw(store, t, Some(snapshot))? } else { self.raw(store, t - lag, None)? };
            for (row, raw) in rows.chunks_exact_mut(width.max(1)).zip(raw.chunks_exact(columns.max(1))) {
                let place = &mut row[lag * columns..(lag + 1) * columns];
                match self.scales.is_empty() {
                    true => place.copy_from_slice(raw),
                    false => {
                        for ((value, raw), (mean, factor)) in place.iter_mut().zip(raw).zip(&self.scales) {
                            *value = (raw - mean) * factor;
                        }
                    }
                }
            }
        }
        Ok(rows)
    }

    /// The constant columns of one step as they are.
    fn raw(&self, store: &Store, t: Step, snapshot: Option<&Snapshot<'_>>) -> Result<Vec<f32>> {
        match self.constant {
            Constant::None => Ok(Vec::new()),
            Constant::Degrees => {
                let (inward, outward) = match snapshot {
                    Some(snapshot) => snapshot.degrees(self.vertices),
                    None => store.snapshot(t)?.degrees(self.vertices),
                };
                let logarithms = |(&inward, &outward): (&u32, &u32)| [inward, outward].map(log_of_one_plus);
                Ok(inward.iter().zip(&outward).flat_map(logarithms).collect())
            }
            Constant::OneHot(columns) => {
                let (_, outward) = match snapshot {
                    Some(snapshot) => snapshot.degrees(self.vertices),
                    None => store.snapshot(t)?.degrees(self.vertices),
                };
                let mut rows = vec![0.0; self.vertices * columns];
                for (row, &degree) in rows.chunks_exact_mut(columns).zip(&outward) {
                    row[(degree as usize).min(columns - 1)] = 1.0;
                }
                Ok(rows)
            }
            Constant::Stored(columns) => {
                let rows = store.features(t)?;
                if rows.len() != self.vertices * columns {
                    let problem = format!(
                        "step {t} has {} feature values, expected {columns} for each of {} vertices: the \
                         store is damaged",
                        rows.len(),
                        self.vertices
                    );
                    return Err(kymo_graph::Error::store(store.path(), problem).into());
                }
                if let Some(at) = rows.iter().position(|value| !value.is_finite()) {
                    return Err(not_a_number(store, Some(t), at / columns, at % columns, rows[at])?);
                }
                Ok(rows.into_owned())
            }
        }
    }

    /// Means and deviations of the columns over the steps that are trained on.
    fn measure(&self, store: &Store, train: Range<Step>) -> Result<Vec<(f32, f32)>> {
        let columns = self.constant.columns();
        let (mut sums, mut squares) = (vec![0.0f64; columns], vec![0.0f64; columns]);
        let count = (train.len() * self.vertices).max(1) as f64;
        for t in train {
            for row in self.raw(store, t, None)?.chunks_exact(columns) {
                for ((sum, square), &value) in sums.iter_mut().zip(&mut squares).zip(row) {
                    *sum += f64::from(value);
                    *square += f64::from(value) * f64::from(value);
                }
            }
        }
        let scale = |(sum, square): (f64, f64)| {
            let mean = sum / count;
            let variance = square / count - mean * mean;
            // A column that never changes stays at zero.
            let factor = if variance > 1e-12 { 1.0 / variance.sqrt() } else { 1.0 };
            (mean as f32, factor as f32)
        };
        Ok(sums.into_iter().zip(squares).map(scale).collect())
    }

    /// The learnt columns on a tape: the same for all steps of a window.
    pub fn learnt<'a>(&'a self, tape: &mut Tape<'a>, params: &Bound<'_>) -> Result<Vec<Var>> {
        let mut parts = Vec::new();
        if let Some((pattern, values)) = &self.sparse {
            let project = params.get("input.project")?;
            // Sparse features are no edges.
            let product = |tape: &mut Tape<'a>| tape.spmm_fixed(pattern.clone(), values.clone(), project);
            parts.push(tape.staged(Stage::Products, product)?);
        }
        if self.table > 0 {
            parts.push(params.get("input.vertices")?);
        }
        Ok(parts)
    }

    /// All columns of a step on a tape, from its constant ones and the learnt ones. `vertices` are those of
    /// the rows, where they are not all.
    pub fn columns<'a>(
        &self,
        tape: &mut Tape<'a>,
        constant: Option<Var>,
        learnt: &[Var],
        vertices: Option<&Arc<Vec<Vertex>>>,
    ) -> Result<Var> {
        let mut parts: Vec<Var> = constant.into_iter().collect();
        for &learnt in learnt {
            parts.push(match vertices {
                Some(vertices) => tape.gather(learnt, vertices.clone())?,
                None => learnt,
            });
        }
        match parts[..] {
            [one] => Ok(one),
            _ => Ok(tape.concatenate_columns(&parts)?),
        }
    }
}

/// As many columns as there are degrees in training, within bounds.
fn one_hot_columns(store: &Store, train: Range<Step>) -> Result<usize> {
    let mut most = 0;
    for t in train {
        most = store.snapshot(t)?.degrees(store.vertices()).1.into_iter().max().unwrap_or(0).max(most);
    }
    Ok((most as usize + 2).min(DEGREES))
}

fn log_of_one_plus(degree: u32) -> f32 {
    (degree as f32).ln_1p()
}

fn sparse_rows(store: &Store) -> Result<Option<SparseRows>> {
    let Some(sparse) = store.fixed()?.sparse else { return Ok(None) };
    if let Some(at) = sparse.values.iter().position(|value| !value.is_finite()) {
        let vertex = sparse.starts.partition_point(|&start| start as usize <= at) - 1;
        let (column, found) = (sparse.columns[at] as usize, sparse.values[at]);
        return Err(not_a_number(store, None, vertex, column, found)?);
    }
    let pattern = Pattern::new(sparse.width, sparse.starts, sparse.columns)?;
    Ok(Some((Arc::new(pattern), Arc::new(sparse.values.into()))))
}

/// The complaint about a feature, of one step or of all.
fn not_a_number(store: &Store, t: Option<Step>, vertex: usize, column: usize, found: f32) -> Result<Error> {
    let name = store.ids()?.name(vertex as u32);
    let place = Place::file(store.path().display().to_string()).column(format!("feature {}", column + 1));
    let step = t.map_or(String::new(), |t| format!(", step {t}"));
    let problem = format!(
        "found {found} at vertex {name}{step}, expected a finite number; mend the input and ingest it again"
    );
    Ok(kymo_graph::Error::input(place, problem).into())
}
