//! Who owns which cell: a cell is a vertex at a step.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use kymo_graph::{Step, Vertex};

use crate::error::{Error, Result};

/// The number of a worker, as layouts store it.
pub type Worker = u16;

/// Most workers a layout can name.
pub const MOST_WORKERS: usize = Worker::MAX as usize;

/// Which worker owns which cell (vertex x step). Ownership is decided here and nowhere else.
///
/// A copy is cheap: it shares everything with the original.
#[derive(Clone)]
pub struct Layout(Arc<Cells>);

struct Cells {
    workers: usize,
    vertices: usize,
    steps: usize,
    kind: Kind,
}

enum Kind {
    /// The owner of each vertex, the same at all steps, and the lists of own vertices once they were asked
    /// for.
    Vertex(Vec<Worker>, OnceLock<Vec<Arc<Vec<Vertex>>>>),
    /// The owner of each step, and the lists "all vertices" and "none".
    Step(Vec<Worker>, [Arc<Vec<Vertex>>; 2]),
    /// For each step the owner of each vertex, and the first step of its run. Neighbours in time that are
    /// equal are one array.
    Cell(Vec<Arc<Vec<Worker>>>, Vec<Step>),
}

/// The owners of all vertices at one step, for tight loops.
#[derive(Clone, Copy, Debug)]
pub enum Owners<'a> {
    /// One worker owns them all.
    One(usize),
    /// Each vertex has its own entry.
    Each(&'a [Worker]),
}

impl Owners<'_> {
    /// The owner of `vertex`.
    #[inline]
    pub fn of(self, vertex: Vertex) -> usize {
        match self {
            Owners::One(worker) => worker,
            Owners::Each(owners) => owners[vertex as usize] as usize,
        }
    }

    /// The vertices, of the first `vertices`, that belong to `worker`, ascending.
    pub fn own(self, worker: usize, vertices: usize) -> Vec<Vertex> {
        (0..vertices as Vertex).filter(|&vertex| self.of(vertex) == worker).collect()
    }
}

impl Layout {
    /// Every vertex has the same owner at all steps: `owners[vertex]`.
    pub fn by_vertex(workers: usize, steps: usize, owners: Vec<Worker>) -> Result<Layout> {
        check(workers, &owners, |vertex| format!("vertex {vertex}"))?;
        let vertices = owners.len();
        Ok(Layout::new(workers, vertices, steps, Kind::Vertex(owners, OnceLock::new())))
    }

    /// Whole snapshots have an owner: `owners[step]`.
    pub fn by_step(workers: usize, vertices: usize, owners: Vec<Worker>) -> Result<Layout> {
        check(workers, &owners, |step| format!("step {step}"))?;
        let steps = owners.len();
        let lists = [Arc::new((0..vertices as Vertex).collect()), Arc::default()];
        Ok(Layout::new(workers, vertices, steps, Kind::Step(owners, lists)))
    }

    /// Every cell has an owner of its own: `owners[step][vertex]`. Neighbours in time that are equal share
    /// memory.
    pub fn by_cell(workers: usize, owners: Vec<Vec<Worker>>) -> Result<Layout> {
        Layout::by_shared_cell(workers, owners.into_iter().map(Arc::new))
    }

    /// As [`Layout::by_cell`], for a maker that knows already which steps are equal.
    pub(crate) fn by_shared_cell(
        workers: usize,
        owners: impl IntoIterator<Item = Arc<Vec<Worker>>>,
    ) -> Result<Layout> {
        check(workers, &[], |_| String::new())?;
        let mut steps: Vec<Arc<Vec<Worker>>> = Vec::new();
        for (step, next) in owners.into_iter().enumerate() {
            if let Some(last) = steps.last() {
                if Arc::ptr_eq(last, &next) || *last == next {
                    steps.push(Arc::clone(last));
                    continue;
                }
                if last.len() != next.len() {
                    let (found, expected) = (next.len(), last.len());
                    let problem =
                        format!("step {step} has {found} vertices, the steps before have {expected}");
                    return Err(Error::settings(
                        "owners",
                        format!("{problem}; every step needs all vertices"),
                    ));
                }
            }
            check(workers, &next, |vertex| format!("vertex {vertex} at step {step}"))?;
            steps.push(next);
        }
        let vertices = steps.first().map_or(0, |owners| owners.len());
        let mut runs: Vec<Step> = Vec::with_capacity(steps.len());
        for (step, owners) in steps.iter().enumerate() {
            let goes_on = step > 0 && Arc::ptr_eq(owners, &steps[step - 1]);
            runs.push(if goes_on { runs[step - 1] } else { step });
        }
        Ok(Layout::new(workers, vertices, steps.len(), Kind::Cell(steps, runs)))
    }

    fn new(workers: usize, vertices: usize, steps: usize, kind: Kind) -> Layout {
        Layout(Arc::new(Cells { workers, vertices, steps, kind }))
    }

    /// How many workers there are; some may own nothing.
    pub fn workers(&self) -> usize {
        self.0.workers
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.0.vertices
    }

    /// How many steps there are.
    pub fn steps(&self) -> usize {
        self.0.steps
    }

    /// Who owns `vertex` at `step`.
    pub fn owner(&self, vertex: Vertex, step: Step) -> usize {
        self.owners(step).of(vertex)
    }

    /// The owners of all vertices at `step`.
    pub fn owners(&self, step: Step) -> Owners<'_> {
        match &self.0.kind {
            Kind::Vertex(owners, _) => Owners::Each(owners),
            Kind::Step(owners, _) => Owners::One(owners[step] as usize),
            Kind::Cell(steps, _) => Owners::Each(&steps[step]),
        }
    }

    /// The vertices that `worker` owns at `step`, ascending.
    pub fn own(&self, worker: usize, step: Step) -> Arc<Vec<Vertex>> {
        match &self.0.kind {
            Kind::Vertex(owners, lists) => {
                let lists = lists.get_or_init(|| {
                    let mut lists = vec![Vec::new(); self.0.workers];
                    for (vertex, &owner) in owners.iter().enumerate() {
                        lists[owner as usize].push(vertex as Vertex);
                    }
                    lists.into_iter().map(Arc::new).collect()
                });
                Arc::clone(&lists[worker])
            }
            Kind::Step(owners, [all, none]) => {
                Arc::clone(if owners[step] as usize == worker { all } else { none })
            }
            Kind::Cell(steps, _) => Arc::new(Owners::Each(&steps[step]).own(worker, self.0.vertices)),
        }
    }

    /// The first of the steps without a break up to this one at which all vertices have the same owners.
    pub(crate) fn run(&self, step: Step) -> Step {
        match &self.0.kind {
            Kind::Vertex(..) => 0,
            // Whole steps are known by their owner, not by their run.
            Kind::Step(..) => step,
            Kind::Cell(_, runs) => runs[step],
        }
    }

    /// Whether every step has one owner.
    pub fn is_by_step(&self) -> bool {
        matches!(self.0.kind, Kind::Step(..))
    }

    /// Whether every vertex has one owner over these steps.
    pub fn stays(&self, steps: Range<Step>) -> bool {
        match &self.0.kind {
            Kind::Vertex(..) => true,
            Kind::Step(owners, _) => steps.clone().skip(1).all(|step| owners[step] == owners[step - 1]),
            // Equal neighbours are one array, so there is nothing to compare.
            Kind::Cell(owners, _) => {
                steps.clone().skip(1).all(|step| Arc::ptr_eq(&owners[step], &owners[step - 1]))
            }
        }
    }
}

impl PartialEq for Layout {
    /// Equal where every cell has the same owner, in whichever way that is stored.
    fn eq(&self, other: &Self) -> bool {
        let shape = |layout: &Layout| (layout.workers(), layout.vertices(), layout.steps());
        let vertices = self.vertices() as Vertex;
        shape(self) == shape(other)
            && (0..self.steps()).all(|step| match (self.owners(step), other.owners(step)) {
                (Owners::Each(a), Owners::Each(b)) => a == b,
                (a, b) => (0..vertices).all(|vertex| a.of(vertex) == b.of(vertex)),
            })
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Layout");
        shown.field("workers", &self.0.workers).field("vertices", &self.0.vertices);
        shown.field("steps", &self.0.steps).finish_non_exhaustive()
    }
}

/// Whether there can be this many workers.
pub(crate) fn check_workers(workers: usize) -> Result<()> {
    match workers {
        1..=MOST_WORKERS => Ok(()),
        _ => Err(Error::settings("workers", format!("found {workers}, expected 1 to {MOST_WORKERS}"))),
    }
}

fn check(workers: usize, owners: &[Worker], place: impl Fn(usize) -> String) -> Result<()> {
    check_workers(workers)?;
    match owners.iter().position(|&owner| owner as usize >= workers) {
        None => Ok(()),
        Some(index) => {
            let (place, owner, last) = (place(index), owners[index], workers - 1);
            let problem = format!("{place} belongs to worker {owner}, but the last worker is {last}");
            Err(Error::settings("owners", problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ways_to_say_the_same_are_equal() {
        let vertex = Layout::by_vertex(2, 3, vec![1, 1]).unwrap();
        let step = Layout::by_step(2, 2, vec![1, 1, 1]).unwrap();
        let cell = Layout::by_cell(2, vec![vec![1, 1]; 3]).unwrap();
        assert!(vertex == step && step == cell && cell == vertex);
        assert!([&vertex, &step, &cell].iter().all(|layout| layout.stays(0..3)));
        assert!(vertex != Layout::by_vertex(2, 3, vec![1, 0]).unwrap());
        assert!(vertex != Layout::by_vertex(3, 3, vec![1, 1]).unwrap());
        for layout in [vertex, step, cell] {
            assert_eq!((*layout.own(1, 2)).as_slice(), [0, 1]);
            assert!(layout.own(0, 2).is_empty());
            assert_eq!(layout.owner(1, 2), 1);
        }
    }

    #[test]
    fn equal_neighbours_in_time_are_one_array() {
        let layout = Layout::by_cell(2, vec![vec![0, 1], vec![0, 1], vec![1, 1], vec![0, 1]]).unwrap();
        let Kind::Cell(steps, runs) = &layout.0.kind else { unreachable!() };
        assert!(Arc::ptr_eq(&steps[0], &steps[1]) && !Arc::ptr_eq(&steps[0], &steps[3]));
        assert_eq!(*runs, [0, 0, 2, 3]);
        assert!(layout.stays(0..2) && !layout.stays(1..3) && layout.stays(3..4) && layout.stays(2..2));
        let moved = Layout::by_step(2, 1, vec![0, 0, 1]).unwrap();
        assert!(moved.stays(0..2) && !moved.stays(0..3) && moved.stays(2..3));
    }

    #[test]
    fn lists_of_own_vertices_are_made_once() {
        let layout = Layout::by_vertex(3, 9, vec![2, 0, 2, 0]).unwrap();
        assert!(Arc::ptr_eq(&layout.own(2, 0), &layout.clone().own(2, 8)));
        assert_eq!((*layout.own(2, 0)).as_slice(), [0, 2]);
        assert!(layout.own(1, 0).is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_and_named() {
        let cases = [
            (Layout::by_vertex(0, 1, vec![]), "workers: found 0"),
            (Layout::by_step(65536, 1, vec![]), "1 to 65535"),
            (Layout::by_vertex(2, 1, vec![0, 2]), "vertex 1 belongs to worker 2"),
            (Layout::by_step(2, 1, vec![0, 7]), "step 1 belongs to worker 7"),
            (Layout::by_cell(1, vec![vec![0], vec![1]]), "vertex 0 at step 1"),
            (Layout::by_cell(1, vec![vec![0], vec![0, 0]]), "step 1 has 2 vertices"),
            (Layout::by_cell(0, vec![]), "found 0"),
        ];
        for (result, hint) in cases {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
