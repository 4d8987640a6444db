//! Where readers put what they read: vertices, events, signals and labels, within a memory budget.

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::error::{Error, Result, shortened};
use crate::event::{Event, EventLog};
use crate::ids::{IdMap, Side};
use crate::load::row::{Row, Style};
use crate::load::table::Meaning;
use crate::progress::Progress;
use crate::snapshot::{Step, Vertex};
use crate::time::TimeUnit;

/// What the rows of an input mean, which decides how they are cut when the user does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Each row is an event at a time; the user's window decides its step.
    Events,
    /// The time of a row is the number of its step, and it holds in that step alone.
    Steps,
    /// The time of a row is the number of its step, and it holds until it is taken back.
    Changes,
    /// One graph that holds in all steps.
    Fixed,
}

/// How vertices are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdKind {
    /// As whole numbers from 0.
    #[default]
    Number,
    /// As any text.
    Text,
}

/// Per-vertex values of one step, in the order in which vertices were numbered while reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signal {
    /// Columns a vertex has.
    pub width: usize,
    /// By step: the values of every vertex, row after row.
    pub steps: Vec<Vec<f32>>,
}

/// Everything read so far.
pub struct Intake {
    /// The names of the inputs, for messages.
    pub inputs: Vec<String>,
    /// The vertices.
    pub ids: IdMap,
    /// How they are written.
    pub id_kind: IdKind,
    /// Whether sources and targets are two separate sets.
    pub bipartite: bool,
    /// The rows.
    pub log: EventLog,
    /// What rows mean.
    pub nature: Nature,
    /// What times count.
    pub unit: TimeUnit,
    /// Whether times are years, or the first days of years.
    pub yearly: bool,
    /// What each column of a table was taken for.
    pub read_as: Vec<Meaning>,
    /// How numbers and dates are written, in files beside the input too.
    pub style: Style,
    /// Features by step, where the input has them.
    pub signal: Signal,
    /// Values to be predicted by step, where the input has them.
    pub targets: Signal,
    /// Classes of vertices, where rows carry them.
    pub classes: Classes,
    /// The names of the features of edges, where an input has said which there are.
    pub edge_features: Option<Vec<String>>,
    /// Whether events carry a label, in front of their features.
    pub labelled: bool,
    /// Rows that join a vertex to itself.
    pub self_loops: u64,
    /// The first and the last time.
    pub range: Option<(f64, f64)>,
    memory: usize,
    unreported: u64,
    progress: Progress,
}

/// More steps than this are taken for a mistake: a time read as a step would fill the memory with empty
/// steps.
pub const MOST_STEPS: Step = 1_000_000;

/// Rows between two looks at the memory in use and at the stop flag.
const LOOK: u64 = 1 << 16;

/// A log that needs less than this is not written to disk, however small the budget: runs would be too many
/// to merge.
const LEAST: usize = 16 << 20;

impl Intake {
    /// An empty intake that keeps to `memory` bytes by writing into `folder`.
    pub fn new(folder: &Path, memory: usize, progress: &Progress) -> Self {
        Intake {
            inputs: Vec::new(),
            ids: IdMap::default(),
            id_kind: IdKind::default(),
            bipartite: false,
            log: EventLog::new(folder),
            nature: Nature::Events,
            unit: TimeUnit::S,
            yearly: false,
            read_as: Vec::new(),
            style: Style::default(),
            signal: Signal::default(),
            targets: Signal::default(),
            classes: Classes::default(),
            edge_features: None,
            labelled: false,
            self_loops: 0,
            range: None,
            memory,
            unreported: 0,
            progress: progress.clone(),
        }
    }

    /// The vertex written in the field at `index` of a row, where edges start.
    #[inline]
    pub fn source(&mut self, row: &Row<'_, '_>, index: usize) -> Result<Vertex> {
        self.vertex(row, index, "source", Side::Left)
    }

    /// The vertex written in the field at `index` of a row, where edges end.
    #[inline]
    pub fn target(&mut self, row: &Row<'_, '_>, index: usize) -> Result<Vertex> {
        self.vertex(row, index, "target", if self.bipartite { Side::Right } else { Side::Left })
    }

    #[inline]
    fn vertex(&mut self, row: &Row<'_, '_>, index: usize, name: &str, side: Side) -> Result<Vertex> {
        match self.id_kind {
            IdKind::Number => self.ids.number(side, row.id(index, name)?),
            IdKind::Text if row.is_missing(index) => Err(row.missing_vertex(index, name)),
            IdKind::Text => self.ids.text(side, row.field(index)),
        }
    }

    /// The vertex whose id is the number of its line, for inputs that do not write ids.
    pub fn numbered(&mut self, number: usize) -> Result<Vertex> {
        self.numbered_on(Side::Left, number)
    }

    /// The vertex whose id is the number of its column, where edges end.
    pub fn numbered_target(&mut self, number: usize) -> Result<Vertex> {
        self.numbered_on(if self.bipartite { Side::Right } else { Side::Left }, number)
    }

    fn numbered_on(&mut self, side: Side, number: usize) -> Result<Vertex> {
        match self.id_kind {
            IdKind::Number => self.ids.number(side, number as u64),
            IdKind::Text => self.ids.text(side, number.to_string().as_bytes()),
        }
    }

    /// The vertex written in the field at `index` of a row of a side file: one seen before on either side, or
    /// a new one without edges.
    pub fn known_or_new(&mut self, row: &Row<'_, '_>, index: usize) -> Result<Vertex> {
        let known = std::str::from_utf8(row.field(index)).ok().and_then(|id| self.ids.find(id));
        known.map_or_else(|| self.vertex(row, index, "vertex", Side::Left), Ok)
    }

    /// Puts a vertex into the class written in the field at `index` of a row, and says whether one is:
    /// nothing and -1 are no class. A vertex has one class for good.
    pub fn classify(&mut self, vertex: Vertex, row: &Row<'_, '_>, index: usize) -> Result<bool> {
        let class = row.field(index);
        if matches!(class, b"" | b"-1") {
            return Ok(false);
        }
        match self.classes.put(vertex, class) {
            None => Ok(true),
            Some(before) => {
                let before = shortened(before);
                let expected = format!("'{before}', the class this vertex has in an earlier row");
                Err(row.error(index, "class", &expected))
            }
        }
    }

    /// An edge at a time. The time must be finite.
    #[inline]
    pub fn edge(&mut self, source: Vertex, target: Vertex, time: f64, weight: f32) -> Result<()> {
        self.push(Event::new(source, target, time, weight))
    }

    /// The end of an edge at a time.
    pub fn removal(&mut self, source: Vertex, target: Vertex, time: f64) -> Result<()> {
        self.push(Event::removal(source, target, time))
    }

    #[inline]
    fn push(&mut self, event: Event) -> Result<()> {
        self.self_loops += u64::from(event.source == event.target);
        let (first, last) = self.range.unwrap_or((event.time, event.time));
        self.range = Some((first.min(event.time), last.max(event.time)));
        self.unreported += 1;
        if self.unreported == LOOK {
            self.look()?;
        }
        let needed = self.log.bytes_to_push();
        if needed > LEAST && needed + self.ids.bytes() > self.memory {
            self.log.spill()?;
        }
        self.log.push(event);
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        self.progress.add_rows(self.unreported);
        self.unreported = 0;
        self.progress.check()
    }

    /// What the edge added last carries: its label, where events have one, and its features. The end of an
    /// edge carries nothing.
    #[inline]
    pub fn carry(&mut self, row: &[f32]) -> Result<()> {
        match self.log.load(row) {
            true => Ok(()),
            false => Err(Error::settings(
                "--memory",
                "more than 4 billion rows with labels or features would be sorted at once; pass less memory",
            )),
        }
    }

    /// Reports the last rows; to be called when an input has ended.
    pub fn finish_input(&mut self) -> Result<()> {
        self.look()
    }
}

/// Classes by name.
#[derive(Default)]
pub struct Classes {
    names: FxHashMap<Box<[u8]>, u32>,
    /// The names in the order of their numbers.
    pub list: Vec<String>,
    /// The class of each vertex that has one.
    pub of: FxHashMap<Vertex, u32>,
}

impl Classes {
    /// The number of a class, given now if it is new.
    pub fn number(&mut self, class: &[u8]) -> u32 {
        if let Some(&number) = self.names.get(class) {
            return number;
        }
        let number = self.list.len() as u32;
        self.names.insert(class.into(), number);
        self.list.push(String::from_utf8_lossy(class).into_owned());
        number
    }

    /// Puts a vertex into a class; the class it was in before, where that is another one.
    pub fn put(&mut self, vertex: Vertex, class: &[u8]) -> Option<&str> {
        let number = self.number(class);
        let before = self.of.insert(vertex, number).filter(|&before| before != number)?;
        Some(&self.list[before as usize])
    }
}

impl Signal {
    /// Sets the values of a step; the steps in between, if any, stay empty.
    pub fn set(&mut self, step: Step, width: usize, values: Vec<f32>) -> Result<()> {
        if step >= MOST_STEPS {
            return Err(Error::settings(
                "input",
                format!("values for step {step}: at most {MOST_STEPS} are kept"),
            ));
        }
        if !self.steps.is_empty() && width != self.width {
            let problem = format!("{width} value(s) a vertex in step {step}, but {} before", self.width);
            return Err(Error::settings("input", problem));
        }
        self.width = width;
        if step >= self.steps.len() {
            self.steps.resize(step + 1, Vec::new());
        }
        self.steps[step] = values;
        Ok(())
    }
}
