//! What is known of the vertices at a step: columns from the store, degrees, and columns that are learnt.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::store::FeatureKind;
use kymo_graph::{Step, Store, Vertex};
use kymo_model::params::Initial;
use kymo_model::{Bound, Slot};
use kymo_tensor::{Pattern, Resident, Shape, Stage, Tape, Var};

use super::degrees::{MOST, log_of_one_plus, one_hot_columns};
use super::dense::not_a_number;
use super::measured::Measured;
use super::scale::Scales;
use super::segment::{Extent, cut};
use super::survey::Survey;
use crate::config::{Features, LINK_PREDICTION, Settings};
use crate::error::{Error, Result};
use crate::workers::WorkerGroup;

/// The parameter with the columns that are learnt for each vertex.
pub const LEARNT: &str = "input.vertices";

/// Where the columns of a run come from, and how they are scaled.
pub struct Inputs {
    pub(super) constant: Constant,
    /// How many steps a row shows: the current one and those before it.
    pub(super) lags: usize,
    /// Sparse features of the store, which are multiplied by a learnt matrix: as dense rows they would not
    /// fit.
    sparse: Option<SparseRows>,
    /// Columns learnt for each vertex.
    table: usize,
    /// Columns that sparse features are projected to.
    projected: usize,
    pub(super) vertices: usize,
    pub(super) scales: Scales,
    /// The steps of each segment of constant columns.
    pub(super) segments: Vec<Range<Step>>,
    /// How large each of them is.
    pub(super) extents: Vec<Extent>,
}

/// Where the non-zeros of sparse features are, and what they are.
type SparseRows = (Arc<Pattern>, Arc<Resident>);

/// Columns that are not learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    None,
    Degrees,
    /// One column for each degree; the last one is for all that are higher.
    OneHot(usize),
    Stored(usize),
}

impl Constant {
    /// How many columns there are of one step.
    pub fn columns(self) -> usize {
        match self {
            Constant::None => 0,
            Constant::Degrees => 2,
            Constant::OneHot(columns) | Constant::Stored(columns) => columns,
        }
    }
}

impl Inputs {
    /// The inputs that the settings ask for; columns are scaled by what the `train` steps have. What is no
    /// number is found now, not when the test comes to it after hours of training.
    pub fn new(store: &Store, settings: &Settings, train: Range<Step>) -> Result<Inputs> {
        Inputs::among(store, settings, train, None, None)
    }

    /// The same where several processes come here together, each of which looks at some of the vertices, and
    /// where columns are scaled as they were for a model, if that has been measured.
    pub fn among(
        store: &Store,
        settings: &Settings,
        train: Range<Step>,
        group: Option<&WorkerGroup>,
        measured: Option<&Measured>,
    ) -> Result<Inputs> {
        let inputs = Inputs::choose(store, settings, train.clone(), measured)?;
        // Rare degrees would be blown up by their small deviation.
        let is_one_hot = matches!(inputs.constant, Constant::OneHot(_));
        let is_scaled = settings.data.standardise && !is_one_hot;
        let columns = inputs.constant.columns();
        let given = measured.map(|measured| measured.scales(columns, is_scaled)).transpose()?;
        let scaled_by = (is_scaled && given.is_none()).then_some(train);
        let (scales, changed) = Survey { among: group, ..inputs.survey(store, scaled_by) }.walk()?;
        Ok(Inputs { scales: given.unwrap_or(scales), ..inputs.cut(&changed) })
    }

    /// The same without a look at the numbers, for those who want to know how many there are: nothing is
    /// scaled, and of the rows that change, the store's counts stand for the number.
    pub fn unread(store: &Store, settings: &Settings, train: Range<Step>) -> Result<Inputs> {
        let inputs = Inputs::choose(store, settings, train, None)?;
        let most = inputs.survey(store, None).estimate()?;
        Ok(inputs.cut(&most))
    }

    pub(super) fn survey<'a>(&self, store: &'a Store, scaled_by: Option<Range<Step>>) -> Survey<'a> {
        Survey { store, constant: self.constant, lags: self.lags, scaled_by, among: None }
    }

    fn cut(self, changed: &[usize]) -> Inputs {
        let (segments, extents) = cut(changed, self.vertices, self.constant_width());
        Inputs { segments, extents, ..self }
    }

    fn choose(
        store: &Store,
        settings: &Settings,
        train: Range<Step>,
        measured: Option<&Measured>,
    ) -> Result<Inputs> {
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
        let is_sparse = facts.kind == FeatureKind::Sparse;
        // Columns that are learnt for a vertex are good for those that training has seen. Beside the past of
        // a pair they do more harm than good on nearly every graph that was tried (bench/results/study.md).
        let is_blind = settings.task.name == LINK_PREDICTION && !settings.link.history;
        let missing = stored == Constant::Degrees && !is_sparse;
        let (constant, sparse, table) = match settings.data.features {
            Features::Auto => (stored, is_sparse, missing && is_blind),
            Features::Stored if missing && facts.kind == FeatureKind::None => {
                let problem = "the store has no features; choose degrees or learnt";
                return Err(Error::settings("data.features", problem));
            }
            Features::Stored => (stored, is_sparse, false),
            Features::Degrees => (Constant::Degrees, false, false),
            Features::OneHotDegrees => {
                let columns = match measured {
                    Some(measured) if measured.columns > MOST => return Err(measured.damaged("columns")),
                    Some(measured) => measured.columns,
                    None => one_hot_columns(store, train)?,
                };
                (Constant::OneHot(columns), false, false)
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
            scales: Scales::default(),
            segments: Vec::new(),
            extents: Vec::new(),
        })
    }

    /// Columns of all parts together.
    pub fn width(&self) -> usize {
        self.constant_width() + self.projected + self.table
    }

    /// Whether the constant columns are the degrees of the step alone: they follow from its edges, and to
    /// read them by themselves would be to read those again.
    pub fn are_degrees(&self) -> bool {
        self.constant == Constant::Degrees && self.lags == 1
    }

    /// The constant columns of a step with these degrees, where they are nothing else, in place of `rows`.
    pub fn of_degrees(
        &self,
        inward: impl Iterator<Item = u32>,
        outward: &[u32],
        mut rows: Vec<f32>,
    ) -> Vec<f32> {
        rows.resize(2 * outward.len(), 0.0);
        for ((row, inward), &outward) in rows.chunks_exact_mut(2).zip(inward).zip(outward) {
            self.scales.write(0, &[inward, outward].map(log_of_one_plus), row);
        }
        rows
    }

    /// Columns that are not learnt.
    pub fn constant_width(&self) -> usize {
        self.constant.columns() * self.lags
    }

    /// The steps of each segment of constant columns, in order.
    pub fn segments(&self) -> &[Range<Step>] {
        &self.segments
    }

    /// Whether all steps have the same columns.
    pub fn never_change(&self) -> bool {
        let is_one = |extents: &[Extent]| matches!(extents, [Extent { lists: 0, .. }]);
        self.constant_width() == 0 || (!self.are_degrees() && is_one(&self.extents))
    }

    /// The number of the segment that a step is in.
    pub fn segment_of(&self, t: Step) -> usize {
        self.segments.partition_point(|steps| steps.end <= t)
    }

    /// Bytes of a segment in memory: exactly, or at most where the inputs are [unread](Inputs::unread).
    pub fn segment_bytes(&self, number: usize) -> usize {
        let Extent { changed, lists } = self.extents[number];
        let rows = (self.vertices + changed).saturating_mul(self.constant_width());
        rows.saturating_add(lists * self.vertices).saturating_mul(size_of::<f32>())
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
            slots.push(Slot { name: LEARNT.into(), shape, initial });
        }
        slots
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
            parts.push(params.get(LEARNT)?);
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
