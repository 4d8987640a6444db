//! What batches of some vertices see of their snapshots (DynaHB, section 3.2), in arrays that are used again
//! from batch to batch. The division of an epoch is drawn once, with its first batch.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::{Step, Vertex};
use kymo_model::Graph;
use kymo_model::graph::{Near, Sight};
use kymo_plan::{Drawn, Neighbourhood, Portion, Portions, Targets};
use rayon::prelude::*;

use super::reservoir::{Kept, Key, Reservoir};
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
    /// What it is known by, if it may be kept.
    key: Option<Key>,
}

impl Seen {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
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
    reservoir: Reservoir,
}

impl Extraction {
    /// One that keeps batches of some owner's vertices, up to this many bytes.
    pub fn keeping(room: usize) -> Extraction {
        Extraction { reservoir: Reservoir::new(room), ..Extraction::default() }
    }

    /// What these targets see: nothing where they see everything. Where owners have vertices of their own,
    /// `portions` says which.
    pub fn see(
        &mut self,
        portions: Option<&Portions>,
        steps: &Range<Step>,
        targets: &Targets,
        neighbourhood: &Neighbourhood,
        loaded: &[Arc<Loaded>],
    ) -> Result<Option<Arc<Seen>>> {
        let &Neighbourhood::Hops(hops) = neighbourhood else { return Ok(None) };
        let key = match targets {
            Targets::Portion(portion) => Some(Key::new(steps, portion)),
            _ => None,
        };
        if let Some(seen) = key.and_then(|key| self.reservoir.find(&key)) {
            return Ok(Some(seen));
        }
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
        Ok(Some(Arc::new(Seen { near, targets, graphs, key })))
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

    /// Takes back what a batch has seen: it is kept, or the next one has its arrays.
    pub fn take_back(&mut self, seen: Arc<Seen>) {
        if seen.key.is_none_or(|key| !self.reservoir.keep(key, &seen)) {
            self.sight.keep(seen.bytes());
        }
    }

    /// What was kept so far.
    pub fn kept(&self) -> Kept {
        self.reservoir.kept()
    }

    /// Bytes of arrays that wait for the next batch, of tables, of the division, and of what is kept.
    pub fn bytes(&self) -> usize {
        let parts = self.division.iter().flat_map(|division| &division.parts);
        self.sight.bytes()
            + self.reservoir.kept().bytes
            + parts.map(|part| 4 * part.capacity()).sum::<usize>()
    }
}
