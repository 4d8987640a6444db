//! What batches of some vertices see of their snapshots (DynaHB, section 3.2), in arrays that are used again
//! from batch to batch. The division of an epoch is drawn once, with its first batch.

use std::sync::Arc;

use kymo_graph::Vertex;
use kymo_model::Graph;
use kymo_model::graph::{Near, Sight};
use kymo_plan::{Drawn, Neighbourhood, Targets};
use rayon::prelude::*;

use crate::data::Loaded;
use crate::error::Result;

/// What a batch sees of its snapshots.
pub struct Seen {
    /// Its vertices.
    pub near: Near,
    /// The vertices that count, ascending.
    pub targets: Arc<Vec<Vertex>>,
    /// The snapshots.
    pub graphs: Vec<Graph>,
}

impl Seen {
    fn bytes(&self) -> usize {
        self.near.bytes() + self.graphs.iter().map(|graph| graph.bytes() as usize).sum::<usize>()
    }
}

/// All parts of a division of the vertices.
struct Division {
    /// One of them.
    drawn: Drawn,
    parts: Vec<Arc<Vec<Vertex>>>,
}

/// What takes batches out of snapshots.
#[derive(Default)]
pub struct Extraction {
    sight: Sight,
    division: Option<Division>,
}

impl Extraction {
    /// What these targets see: nothing where they see everything.
    pub fn see(
        &mut self,
        targets: &Targets,
        neighbourhood: &Neighbourhood,
        loaded: &[Arc<Loaded>],
    ) -> Result<Option<Seen>> {
        let (Targets::Drawn(drawn), &Neighbourhood::Hops(hops)) = (targets, neighbourhood) else {
            return Ok(None);
        };
        let graphs: Vec<&Graph> = loaded.iter().map(|loaded| &loaded.graph).collect();
        let targets = self.part(drawn, graphs.first().map_or(0, |graph| graph.vertices()));
        let near = Near::new(&targets, hops, &graphs, &mut self.sight)?;
        let graphs = graphs.par_iter().map(|graph| graph.near(&near)).collect::<Result<_, _>>()?;
        Ok(Some(Seen { near, targets, graphs }))
    }

    /// The vertices of a part; those of the whole division are drawn where it is a new one.
    fn part(&mut self, drawn: &Drawn, vertices: usize) -> Arc<Vec<Vertex>> {
        let is_it =
            |division: &Division| (division.drawn.parts, division.drawn.seed) == (drawn.parts, drawn.seed);
        let division = match self.division.take().filter(is_it) {
            Some(division) => division,
            None => {
                let parts = drawn.division(vertices).into_iter().map(Arc::new).collect();
                Division { drawn: *drawn, parts }
            }
        };
        let part = division.parts.get(drawn.part).cloned().unwrap_or_default();
        self.division = Some(division);
        part
    }

    /// Takes back what a batch has seen: the next one has its arrays.
    pub fn take_back(&mut self, seen: Seen) {
        self.sight.keep(seen.bytes());
    }

    /// Bytes of arrays that wait for the next batch, of tables, and of the division.
    pub fn bytes(&self) -> usize {
        let parts = self.division.iter().flat_map(|division| &division.parts);
        self.sight.bytes() + parts.map(|part| 4 * part.capacity()).sum::<usize>()
    }
}
