//! What batches of some vertices see of their snapshots (DynaHB, section 3.2), in arrays that are used again
//! from batch to batch. The division of an epoch is drawn once, with its first batch.

use std::sync::Arc;

use kymo_graph::Vertex;
use kymo_model::Graph;
use kymo_model::graph::{Near, Sight};
use kymo_plan::{Drawn, Neighbourhood, Portion, Portions, Targets};
use rayon::prelude::*;

use crate::data::Loaded;
use crate::error::{Error, Result};

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

/// All parts of a division of the vertices, or of those of an owner.
struct Division {
    owner: Option<usize>,
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
    /// What these targets see: nothing where they see everything. Where owners have vertices of their own,
    /// `portions` says which.
    pub fn see(
        &mut self,
        portions: Option<&Portions>,
        targets: &Targets,
        neighbourhood: &Neighbourhood,
        loaded: &[Arc<Loaded>],
    ) -> Result<Option<Seen>> {
        let &Neighbourhood::Hops(hops) = neighbourhood else { return Ok(None) };
        let graphs: Vec<&Graph> = loaded.iter().map(|loaded| &loaded.graph).collect();
        let vertices = graphs.first().map_or(0, |graph| graph.vertices());
        let targets = match (targets, portions) {
            (Targets::Drawn(drawn), _) => self.part(None, drawn, || drawn.division(vertices)),
            (Targets::Portion(Portion { owner, owners, drawn }), Some(portions))
                if *owners == portions.owners() =>
            {
                let division = || portions.division(*owner, drawn.parts, drawn.seed);
                self.part(Some(*owner), drawn, division)
            }
            (Targets::Portion(portion), _) => {
                let problem = format!("there are no vertices of {} owners here", portion.owners);
                return Err(Error::Bug(problem));
            }
            _ => return Ok(None),
        };
        let near = Near::new(&targets, hops, &graphs, &mut self.sight)?;
        let graphs = graphs.par_iter().map(|graph| graph.near(&near)).collect::<Result<_, _>>()?;
        Ok(Some(Seen { near, targets, graphs }))
    }

    /// The vertices of a part; those of the whole division are drawn where it is a new one.
    fn part(
        &mut self,
        owner: Option<usize>,
        drawn: &Drawn,
        division: impl FnOnce() -> Vec<Vec<Vertex>>,
    ) -> Arc<Vec<Vertex>> {
        let of = |owner: Option<usize>, drawn: &Drawn| (owner, drawn.parts, drawn.seed);
        let is_it = |division: &Division| of(division.owner, &division.drawn) == of(owner, drawn);
        let division = match self.division.take().filter(is_it) {
            Some(division) => division,
            None => {
                let parts = division().into_iter().map(Arc::new).collect();
                Division { owner, drawn: *drawn, parts }
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
