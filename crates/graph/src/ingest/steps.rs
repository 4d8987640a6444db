//! The middle of an ingest: events in the order of time become steps in a store.
//!
//! Steps are gathered in batches and folded by all cores; what depends on the step before is then done in
//! order. A step that is larger than its share of the memory is sorted in pieces on disk.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::vertices::Arranged;
use crate::cut::{Carry, Cutter, Folded, Folder, Impossible, Life, Pieces, Rows, Why};
use crate::error::{Error, Place, Result, listed};
use crate::event::Event;
use crate::load::Intake;
use crate::progress::Progress;
use crate::snapshot::{Step, Vertex};
use crate::step::{StepData, StepEdges};
use crate::store::Writer;

/// Events gathered before they are folded, if memory allows.
const BATCH: usize = 1 << 20;

/// One step's rows, gathered.
#[derive(Default)]
struct Gathered {
    events: Vec<Event>,
    folded: Option<Vec<Folded>>,
    count: u64,
    times: Option<[f64; 2]>,
    /// The labels that events carry, by their sources.
    labels: BTreeMap<Vertex, u32>,
    /// The means of their features.
    means: Rows,
}

impl Gathered {
    /// What waits to be made a step, in events that take as much memory.
    fn size(&self) -> usize {
        let rows = self.means.values.len() * size_of::<f32>() / size_of::<Event>();
        self.events.len() + self.folded.as_ref().map_or(0, Vec::len) + rows
    }
}

/// Writes all steps.
#[allow(clippy::too_many_arguments)]
pub fn write(
    writer: &mut Writer,
    intake: Intake,
    cutter: &Cutter,
    folder: Folder<'_>,
    life: Life,
    arranged: &mut Arranged,
    memory: usize,
    progress: &Progress,
) -> Result<()> {
    // An event costs 24 bytes gathered, 16 to sort and 24 folded, each twice in an undirected graph.
    let piece = (memory / 16 / 128).max(1 << 12);
    let mut pieces = Pieces::new(writer.scratch());
    let Intake { log, inputs, .. } = intake;
    let carry = Carry::new(life, folder.rule);
    progress.announce(cutter.steps() as u64);
    let labels = arranged.timed_labels(cutter)?;
    arranged.check_steps(cutter.steps())?;
    let (mut means, labelled) = (std::mem::take(&mut arranged.means), usize::from(arranged.labelled));
    let mut maker = Maker { labels, writer, cutter, folder, carry, arranged, progress, next: 0, inputs };
    let mut sorted = log.sorted(memory / 8)?;
    let (mut batch, mut waiting, mut rank) = (Vec::new(), 0, 0);
    let mut own = Gathered::default();
    loop {
        let event = sorted.take()?;
        let step = event.map_or(cutter.steps(), |event| cutter.step(event.time, rank));
        while maker.next + batch.len() < step {
            if !pieces.is_empty() {
                pieces.put(&folder.sort(&own.events))?;
                own.folded = Some(pieces.fold(folder.rule)?);
                own.events.clear();
            }
            own.means = means.finish();
            waiting += own.size();
            batch.push(std::mem::take(&mut own));
            if waiting >= BATCH.min(piece) || batch.len() >= BATCH / 64 {
                waiting = 0;
                maker.make(&mut batch)?;
            }
        }
        let Some(event) = event else { break };
        rank += 1;
        own.count += 1;
        let begin = own.times.map_or(event.time, |times| times[0]);
        own.times = Some([begin, event.time]);
        own.events.push(event);
        if let Some((labels, features)) = sorted.carried().and_then(|row| row.split_at_checked(labelled)) {
            if let Some(label) = labels.first().and_then(|&label| maker.arranged.see_label(label)) {
                own.labels.insert(folder.ranks[event.source as usize], label);
            }
            means.add(&event, features, &folder);
        }
        if own.events.len() >= piece {
            pieces.put(&folder.sort(&own.events))?;
            own.events.clear();
        }
    }
    maker.make(&mut batch)?;
    let classes = arranged.event_classes();
    if arranged.classes.is_empty() {
        writer.classes(classes);
    }
    Ok(())
}

/// Makes steps out of gathered rows, in order.
struct Maker<'a> {
    writer: &'a mut Writer,
    cutter: &'a Cutter,
    folder: Folder<'a>,
    carry: Carry,
    arranged: &'a mut Arranged,
    progress: &'a Progress,
    labels: BTreeMap<Step, BTreeMap<Vertex, u32>>,
    next: Step,
    inputs: Vec<String>,
}

impl Maker<'_> {
    fn make(&mut self, batch: &mut Vec<Gathered>) -> Result<()> {
        let folder = self.folder;
        batch
            .par_iter_mut()
            .filter(|own| own.folded.is_none())
            .for_each(|own| own.folded = Some(folder.fold(&own.events)));
        for own in batch.drain(..) {
            let begin_unknown = self.writer.steps() as f64;
            let [begin, end] = self.cutter.bounds(self.next).or(own.times).unwrap_or([begin_unknown; 2]);
            let edges = self.carry.step(own.folded.unwrap_or_default());
            let edges = StepEdges::All(edges.map_err(|edge| self.impossible(edge))?);
            let mut data = StepData { begin, end, events: own.count, edges, ..StepData::default() };
            data.labels = own.labels.into_iter().collect();
            self.arranged.complete(self.next, own.means, &mut data);
            if let Some(labels) = self.labels.remove(&self.next) {
                data.labels = labels.into_iter().collect();
            }
            self.writer.push(data)?;
            self.next += 1;
            self.progress.add_step();
            self.progress.advance(1);
            self.progress.check()?;
        }
        Ok(())
    }
    /// A complaint about an edge of the step that comes next, by the names its ends have in the input.
    fn impossible(&self, Impossible { edge, why }: Impossible) -> Error {
        let ids = match self.writer.ids() {
            Ok(ids) => ids,
            Err(error) => return error,
        };
        let (source, target, step) = (ids.name(edge.source()), ids.name(edge.target()), self.next);
        let problem = match why {
            Why::NotThere => {
                format!("step {step} takes back the edge {source} -> {target}, which is not there")
            }
            Why::Sum(sum) => format!(
                "the weights of the edge {source} -> {target} in step {step} sum to {sum:e}, expected at \
                 most 3.4e38; scale them, or pass --weight last, count or none"
            ),
        };
        Error::input(Place::file(listed(&self.inputs)), problem)
    }
}
