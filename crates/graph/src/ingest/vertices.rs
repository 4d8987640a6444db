//! What belongs to vertices rather than edges, put into the final order of the vertices: features, targets,
//! classes.

use std::collections::BTreeMap;

use super::columns::{Base, Columns};
use super::{Features, Settings};
use crate::cut::{Cut, Cutter, Means, Rows};
use crate::error::{Error, Result};
use crate::load::intake::Signal;
use crate::load::side::{FeatureTable, Labels, Split};
use crate::load::{EdgeFeatures, Intake, Nature};
use crate::snapshot::{Step, Vertex};
use crate::step::{FeatureChange, StepData, StepEdges};
use crate::store::{FeatureFacts, FeatureKind, Fixed, SparseFeatures};

/// What was read from files beside the graph, by the numbers vertices had while reading.
#[derive(Default)]
pub struct Side {
    /// Classes and the published split.
    pub labels: Labels,
    /// Features.
    pub table: Option<FeatureTable>,
}

/// Everything about vertices, ready to be handed out step by step.
pub struct Arranged {
    /// What kind of features there are.
    pub features: FeatureFacts,
    /// Names of classes, in the order of their numbers.
    pub classes: Vec<String>,
    /// What holds for all steps.
    pub fixed: Fixed,
    /// The names of the columns of features, where features of edges are among them.
    pub names: Vec<String>,
    /// The names of the features of edges that are among them.
    pub carried: Vec<String>,
    /// Things the user may want to know.
    pub notes: Vec<String>,
    /// Gathers the means of what events carry, step by step.
    pub means: Means,
    /// Whether events carry a label in front of their features.
    pub labelled: bool,
    columns: Option<Columns>,
    ranks: Vec<Vertex>,
    first: Option<Vec<f32>>,
    signal: Signal,
    targets: Signal,
    timed: Vec<(f64, Vertex, u32)>,
    highest_label: Option<u32>,
}

impl Arranged {
    /// Puts what was read into the final order of the vertices, and refuses what cannot be had.
    pub fn new(
        intake: &mut Intake,
        side: Side,
        ranks: &[Vertex],
        cut: Cut,
        settings: &Settings,
    ) -> Result<Arranged> {
        let carried = intake.edge_features.take().unwrap_or_default();
        if settings.features == Features::Events && carried.is_empty() {
            return Err(Error::settings("--features events", "the events of this input carry no features"));
        }
        let mut arranged = Arranged {
            features: FeatureFacts::default(),
            classes: Vec::new(),
            fixed: Fixed::default(),
            names: Vec::new(),
            carried: Vec::new(),
            notes: Vec::new(),
            means: Means::default(),
            labelled: intake.labelled,
            columns: None,
            ranks: ranks.to_vec(),
            first: None,
            signal: Signal::default(),
            targets: std::mem::take(&mut intake.targets),
            timed: Vec::new(),
            highest_label: None,
        };
        let (kind, width) = match (&settings.features, side.table) {
            (_, Some(FeatureTable::Dense { width, vertices, values })) => {
                arranged.first = Some(arranged.ordered(width, vertices.iter().copied(), &values));
                (FeatureKind::Dense, width)
            }
            (_, Some(FeatureTable::Sparse { width, vertices, starts, indices, values })) => {
                arranged.fixed.sparse = Some(arranged.sparse(width, &vertices, &starts, &indices, &values));
                (FeatureKind::Sparse, width)
            }
            (Features::None | Features::Events, None) => (FeatureKind::None, 0),
            (Features::Auto, None) if intake.signal.width > 0 => {
                arranged.signal = std::mem::take(&mut intake.signal);
                (FeatureKind::Dense, arranged.signal.width)
            }
            _ => (FeatureKind::Degrees, 2),
        };
        let lasting = intake.nature == Nature::Fixed && cut == Cut::Numbered;
        let (kind, width) = arranged.beside(carried, kind, width, intake.bipartite, lasting, settings)?;
        let segments = if kind == FeatureKind::Dense { settings.segments.min(width.max(1)) } else { 0 };
        arranged.features = FeatureFacts { kind, width: width as u64, segments: segments as u64 };
        let numbers = arranged.arrange_classes(intake);
        for (time, vertex, class) in side.labels.timed {
            let class = numbers[class as usize] as u32;
            arranged.timed.push((time, ranks[vertex as usize], class));
        }
        arranged.timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !side.labels.splits.is_empty() {
            arranged.fixed.splits = vec![0; ranks.len()];
            for (vertex, split) in side.labels.splits {
                arranged.fixed.splits[ranks[vertex as usize] as usize] = match split {
                    Split::Train => 1,
                    Split::Validation => 2,
                    Split::Test => 3,
                };
            }
        }
        Ok(arranged)
    }

    /// Puts features of edges behind those of this kind and width, and says what that makes of them.
    fn beside(
        &mut self,
        carried: Vec<String>,
        kind: FeatureKind,
        width: usize,
        bipartite: bool,
        lasting: bool,
        settings: &Settings,
    ) -> Result<(FeatureKind, usize)> {
        if carried.is_empty() {
            return Ok((kind, width));
        }
        let base = match kind {
            FeatureKind::None => Base::Nothing,
            FeatureKind::Degrees => Base::Degrees,
            FeatureKind::Dense => Base::Rows { width, values: Vec::new() },
            FeatureKind::Sparse if settings.hints.edge_features == EdgeFeatures::Usual => {
                let count = carried.len();
                self.notes
                    .push(format!("{count} features of edges left out: the file of features is sparse"));
                return Ok((kind, width));
            }
            FeatureKind::Sparse => {
                let problem = "features of edges cannot stand beside a file of sparse features; pass none, \
                               or --feature-layout dense";
                return Err(Error::settings("--edge-features", problem));
            }
        };
        // Where each vertex is always at the same end, one half of the columns would be zeros.
        let apart = !settings.undirected && !bipartite;
        self.means = Means::new(carried.len(), apart);
        let columns = Columns::new(base, self.means.width(), lasting);
        self.names = columns.names(&carried, apart);
        let degrees = if kind == FeatureKind::Degrees { "degrees of each step, and " } else { "" };
        let ends = if apart { "events to and from a vertex" } else { "the events of a vertex" };
        self.notes.push(format!(
            "features: {degrees}means of {} feature(s) of edges over {ends} in each step (--edge-features)",
            carried.len()
        ));
        let width = columns.width();
        (self.carried, self.columns) = (carried, Some(columns));
        Ok((FeatureKind::Dense, width))
    }

    /// Rows of some vertices as rows of all, in the final order; vertices without a row have zeros.
    fn ordered(&self, width: usize, vertices: impl Iterator<Item = Vertex>, values: &[f32]) -> Vec<f32> {
        let mut rows = vec![0.0; self.ranks.len() * width];
        for (vertex, row) in vertices.zip(values.chunks_exact(width.max(1))) {
            let start = self.ranks[vertex as usize] as usize * width;
            rows[start..start + width].copy_from_slice(row);
        }
        rows
    }

    fn sparse(
        &self,
        width: usize,
        vertices: &[Vertex],
        starts: &[usize],
        indices: &[u32],
        values: &[f32],
    ) -> SparseFeatures {
        let mut rows: Vec<Vec<(u32, f32)>> = vec![Vec::new(); self.ranks.len()];
        for (&vertex, bounds) in vertices.iter().zip(starts.windows(2)) {
            let range = bounds[0]..bounds[1];
            let mut row: Vec<(u32, f32)> =
                indices[range.clone()].iter().copied().zip(values[range].iter().copied()).collect();
            row.sort_by_key(|&(index, _)| index);
            rows[self.ranks[vertex as usize] as usize] = row;
        }
        let starts = rows.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        });
        SparseFeatures {
            width,
            starts: std::iter::once(0).chain(starts).collect(),
            columns: rows.iter().flatten().map(|&(index, _)| index).collect(),
            values: rows.iter().flatten().map(|&(_, value)| value).collect(),
        }
    }

    /// Classes get numbers in the order of their names, as numbers where all of them are numbers; says which
    /// number each class of the intake got.
    fn arrange_classes(&mut self, intake: &Intake) -> Vec<i32> {
        let names = &intake.classes.list;
        let mut order: Vec<usize> = (0..names.len()).collect();
        let numeric: Option<Vec<i64>> = names.iter().map(|name| name.parse().ok()).collect();
        match numeric {
            Some(numbers) => order.sort_by_key(|&class| numbers[class]),
            None => order.sort_by_key(|&class| &names[class]),
        }
        let mut number = vec![0; names.len()];
        for (new, &old) in order.iter().enumerate() {
            number[old] = new as i32;
        }
        self.classes = order.iter().map(|&class| names[class].clone()).collect();
        if !intake.classes.of.is_empty() {
            self.fixed.classes = vec![-1; self.ranks.len()];
            for (&vertex, &class) in &intake.classes.of {
                self.fixed.classes[self.ranks[vertex as usize] as usize] = number[class as usize];
            }
        }
        number
    }

    /// Refuses a signal whose rows are not those of the steps.
    pub fn check_steps(&self, steps: usize) -> Result<()> {
        let rows = self.signal.steps.len().max(self.targets.steps.len());
        if rows == 0 || rows == steps {
            return Ok(());
        }
        let problem = format!(
            "has values for {rows} step(s), but the graph has {steps}; cut it into {rows} steps with \
             --window or --steps, or give a row for each step"
        );
        Err(Error::settings("signal", problem))
    }

    /// Completes a step, which has its edges, with what is known about its vertices. `means` are those of
    /// what its events carry.
    pub fn complete(&mut self, step: Step, means: Rows, data: &mut StepData) {
        if let Some(rows) = self.first.take() {
            data.features = FeatureChange::All(rows);
        }
        let width = self.signal.width;
        if let Some(values) =
            self.signal.steps.get_mut(step).map(std::mem::take).filter(|values| !values.is_empty())
        {
            data.features = FeatureChange::All(self.ordered(width, 0.., &values));
        }
        if let Some(values) =
            self.targets.steps.get_mut(step).map(std::mem::take).filter(|values| !values.is_empty())
        {
            data.targets =
                (0..).zip(&values).map(|(vertex, &value)| (self.ranks[vertex as usize], value)).collect();
            data.targets.sort_unstable_by_key(|&(vertex, _)| vertex);
        }
        if let Some(columns) = &mut self.columns {
            if let FeatureChange::All(rows) = std::mem::take(&mut data.features) {
                columns.replace(rows);
            }
            if let StepEdges::All(snapshot) = &data.edges {
                data.features = columns.step(snapshot, means, self.ranks.len());
            }
        }
    }

    /// Classes that were listed with a time, of which the last one in a step counts.
    pub fn timed_labels(&mut self, cutter: &Cutter) -> Result<BTreeMap<Step, BTreeMap<Vertex, u32>>> {
        let mut by_step: BTreeMap<Step, BTreeMap<Vertex, u32>> = BTreeMap::new();
        for (time, vertex, class) in std::mem::take(&mut self.timed) {
            let step = cutter.step_at(time).ok_or_else(|| {
                let problem = "they can be cut by time, but not by a number of events, and must lie within \
                               the time of the graph";
                Error::settings("--labels", format!("found a label at time {time}; {problem}"))
            })?;
            by_step.entry(step).or_default().insert(vertex, class);
        }
        Ok(by_step)
    }

    /// A label that an event carries, which becomes that of its source.
    pub fn see_label(&mut self, label: f32) -> Option<u32> {
        let label = (label >= 0.0).then_some(label as u32);
        self.highest_label = self.highest_label.max(label);
        label
    }

    /// Names for the classes of events, which are numbers.
    pub fn event_classes(&self) -> Vec<String> {
        self.highest_label
            .map_or_else(Vec::new, |highest| (0..=highest).map(|class| class.to_string()).collect())
    }
}
