//! What is to be priced, and for a machine of which rates.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::{Presence, Step, Store, Vertex};

use crate::batch::Window;
use crate::epoch::EpochPlan;
use crate::error::Result;
use crate::shares::Shares;
use crate::work::Work;

/// How fast a worker is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Multiplications of dense products in a second.
    pub products: f64,
    /// Numbers that go through sparse products in a second.
    pub aggregated: f64,
    /// Bytes between workers in a second.
    pub wire: f64,
    /// Seconds that an exchange takes whatever its size.
    pub latency: f64,
}

impl Default for Rates {
    /// About those of one core of a server of 2024, with workers that are threads of one process.
    fn default() -> Self {
        Rates { products: 4e10, aggregated: 2e9, wire: 5e9, latency: 2e-5 }
    }
}

/// What is to be priced.
pub struct Job<'a> {
    /// The data.
    pub store: &'a Arc<Store>,
    /// The windows of an epoch, in the order of time.
    pub windows: &'a [Range<Step>],
    /// Who runs which of them when.
    pub epoch: &'a EpochPlan,
    /// Who owns which cells, where workers share windows.
    pub shares: Option<&'a Shares>,
    /// What the model does to a window.
    pub work: &'a Work,
    /// Workers.
    pub workers: usize,
    /// Whether a window begins with what the one before left.
    pub follows: bool,
    /// The pairs that the task asks about in a window.
    pub pairs: &'a AskPairs<'a>,
    /// The numbers of the windows that are looked at, ascending; all where this is nothing.
    pub sample: Option<&'a [usize]>,
    /// What a batch sees of a snapshot, where it does not see all of it.
    pub seen: Option<Seen>,
    /// When vertices are present; always where this is nothing. Absent ones have no cells, and nothing is
    /// computed for them. What moves and what is held is counted as if all were there.
    pub presence: Option<&'a Presence>,
}

/// What a batch of some vertices sees of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Vertices whose outputs count.
    pub targets: u64,
    /// Vertices that are seen, those included.
    pub rows: u64,
    /// Edges that are seen.
    pub edges: u64,
}

impl Job<'_> {
    /// The windows that are looked at.
    pub(super) fn looked(&self) -> Vec<&Range<Step>> {
        match self.sample {
            Some(sample) => sample.iter().filter_map(|&number| self.windows.get(number)).collect(),
            None => self.windows.iter().collect(),
        }
    }

    pub(super) fn looks_at(&self, window: usize) -> bool {
        self.sample.is_none_or(|sample| sample.binary_search(&window).is_ok())
    }
}

/// Pairs of vertices that a task asks about at a step: each is looked at where the first is.
pub type Asked = (Step, Vec<(Vertex, Vertex)>);

/// Tells the pairs of a window.
pub type AskPairs<'a> = dyn Fn(&Window) -> Result<Vec<Asked>> + 'a;
