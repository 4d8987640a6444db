//! The part of a snapshot that a worker has, and its way to the rest.

use std::sync::{Arc, OnceLock};

use kymo_graph::Vertex;
use kymo_model::graph::Weighted;
use kymo_model::{Graph, Halo, Matrix};
use kymo_plan::{HaloRows, Route};
use kymo_tensor::{Result, Tape, Var};

use super::exchange::Exchange;
use super::moved::{exchanged, inside, moved};
use super::product::Product;
use super::stale::StaleStep;
use super::window::Exchanges;
use crate::workers::{RowTag, WorkerGroup};

/// What a worker knows of the neighbours of its vertices at a step.
pub struct Neighbours {
    /// Its vertices, ascending.
    pub own: Arc<Vec<Vertex>>,
    /// The route by which rows of neighbours elsewhere come.
    pub route: Arc<Route>,
    /// Vertices of the matrices' columns here and elsewhere, once they were needed apart.
    halves: [OnceLock<[Weighted; 2]>; Matrix::COUNT],
}

impl Neighbours {
    /// Those of a halo.
    pub fn new(halo: HaloRows) -> Neighbours {
        Neighbours { own: halo.own, route: Arc::new(halo.route), halves: Default::default() }
    }

    /// Bytes of matrices that were needed apart.
    pub fn bytes(&self) -> u64 {
        self.halves.iter().filter_map(OnceLock::get).flatten().map(Weighted::bytes).sum()
    }

    fn halves(&self, graph: &Graph, matrix: Matrix) -> Result<[Weighted; 2]> {
        let slot = &self.halves[matrix.number()];
        if let Some(halves) = slot.get() {
            return Ok(halves.clone());
        }
        let halves = matrix.of(graph)?.split(graph.vertices())?;
        Ok(slot.get_or_init(|| halves).clone())
    }
}

/// A step of a window at one worker: rows of others arrive as they are now, unless it is said that those of
/// neighbours may be stale.
pub struct StepCells {
    pub(super) group: Arc<WorkerGroup>,
    pub(super) neighbours: Arc<Neighbours>,
    /// From where vertices were at the step before to where they are.
    pub(super) carry: Option<Arc<Route>>,
    /// From where structure is encoded to where rows are computed.
    pub(super) shuffle: Option<Arc<Route>>,
    /// From where rows were computed at the step before to where they are.
    pub(super) hand: Option<Arc<Route>>,
    pub(super) exchanges: Arc<Exchanges>,
    /// Where rows of neighbours may be stale.
    pub(super) stale: Option<StaleStep>,
}

impl StepCells {
    /// The worker among others.
    pub fn group(&self) -> &WorkerGroup {
        &self.group
    }

    /// The route by which rows of neighbours elsewhere come.
    pub fn route(&self) -> &Route {
        &self.neighbours.route
    }

    /// The name of the next exchange.
    pub fn tag(&self) -> RowTag {
        self.exchanges.next()
    }

    /// The next exchange of neighbours' rows.
    fn exchange(&self) -> Exchange {
        let exact = Exchange::exact(self.group.clone(), self.neighbours.route.clone(), self.tag());
        match &self.stale {
            Some(stale) => exact.stale(stale.memory.clone(), stale.step, stale.next()),
            None => exact,
        }
    }

    /// `x` along a route, if there is one.
    fn along(&self, tape: &mut Tape<'_>, route: Option<&Arc<Route>>, x: Var) -> Result<Var> {
        route.map_or(Ok(x), |route| moved(tape, &self.group, route, self.tag(), x))
    }
}

impl Halo for StepCells {
    fn product<'a>(&'a self, tape: &mut Tape<'a>, graph: &'a Graph, matrix: Matrix, x: Var) -> Result<Var> {
        let [here, beyond] = self.neighbours.halves(graph, matrix)?;
        let (arena, exchange) = (tape.arena(), self.exchange());
        tape.apply(Product { arena, exchange, here, beyond }, &[x])
    }

    fn extend<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        let beyond = exchanged(tape, self.exchange(), x)?;
        tape.concatenate_rows(&[x, beyond])
    }

    fn carry<'a>(&'a self, tape: &mut Tape<'a>, state: Var) -> Result<Var> {
        self.along(tape, self.carry.as_ref(), state)
    }

    fn shuffle<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        self.along(tape, self.shuffle.as_ref(), x)
    }

    fn hand<'a>(&'a self, tape: &mut Tape<'a>, state: Var) -> Result<Var> {
        self.along(tape, self.hand.as_ref(), state)
    }

    fn restore<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> Result<Var> {
        let back = self.shuffle.as_ref().map(|route| Arc::new(route.reversed()));
        self.along(tape, back.as_ref(), x)
    }

    fn collect<'a>(&'a self, tape: &mut Tape<'a>, x: Var, rows: &[u32], _: usize) -> Result<Var> {
        let own: Vec<Vertex> = rows.iter().map(|&row| self.neighbours.own[row as usize]).collect();
        let told = self.group.all_gather(bytemuck::cast_slice(&own)).map_err(inside)?;
        let mut all: Vec<(Vertex, usize)> = Vec::new();
        for (worker, bytes) in told.iter().enumerate() {
            let vertices =
                bytes.chunks_exact(4).map(|word| Vertex::from_ne_bytes([word[0], word[1], word[2], word[3]]));
            all.extend(vertices.map(|vertex| (vertex, worker)));
        }
        // In the order of the vertices, so that of equal scores the same comes first as on one worker.
        all.sort_unstable();
        let mut receives = vec![Vec::new(); self.group.size()];
        for (place, &(_, worker)) in (0..).zip(&all) {
            receives[worker].push(place);
        }
        let sends = vec![rows.to_vec(); self.group.size()];
        let rank = self.group.rank();
        let route = Route { rank, rows_in: tape.shape(x).rows, rows_out: all.len(), sends, receives };
        moved(tape, &self.group, &Arc::new(route), self.tag(), x)
    }
}
