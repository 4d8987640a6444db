//! Ways to be parallel, by the names that the field gives them.

use crate::error::{Error, Result};
use crate::schedule;

/// How the work of training is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Each worker trains whole groups of snapshots, assigned in turns.
    Groups,
    /// Each worker trains whole groups of snapshots, assigned by a scheduler that knows what they cost.
    Scheduled(
        /// The name of the scheduler.
        &'static str,
    ),
    /// All workers train the same window, cut by a partitioner.
    Cells {
        /// The name of the partitioner.
        partitioner: &'static str,
        /// Whether every window is cut anew.
        per_window: bool,
    },
    /// Each worker trains on vertices of its own, in windows that all have at a time, and computes what these
    /// see by itself: nothing but what was learnt is exchanged.
    /// Who has which vertices is said by [`Portions`](crate::Portions).
    Targets,
}

/// What makes a step of the optimiser, where the settings ask for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// What the settings say.
    AsSet,
    /// All windows of an epoch with all vertices: full batches.
    Full,
    /// Some vertices in all windows: batches of vertices.
    Vertices,
    /// The same, divided once: the batches of the first epoch come again in every other one.
    VerticesAgain,
    /// Some windows with all vertices: batches of snapshots.
    Snapshots,
    /// Some vertices in some windows: hybrid batches.
    Hybrid,
}

/// A way to be parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// What it does.
    pub scheme: Scheme,
    /// What makes a step of the optimiser.
    pub batches: Batches,
}

impl Strategy {
    /// Whether all that it needs was built in.
    pub fn is_built(&self) -> bool {
        match self.scheme {
            Scheme::Scheduled(name) => schedule::find(name).is_ok_and(|scheduler| scheduler.is_there()),
            Scheme::Groups | Scheme::Cells { .. } | Scheme::Targets => true,
        }
    }
}

/// Every strategy, in the order of the help.
pub const ALL: &[Strategy] = &[
    Strategy {
        name: "psg",
        about: "each worker trains whole groups of snapshots; only gradients are exchanged (DyGNeX)",
        scheme: Scheme::Groups,
        batches: Batches::AsSet,
    },
    scheduled(
        "blad",
        "two consecutive groups to a worker, the second read while the first is trained on (BLAD)",
    ),
    scheduled("dygnex", "groups assigned by the best schedule found in time (DyGNeX, without reuse)"),
    scheduled("dygnex-g", "groups assigned by DyGNeX's greedy algorithm"),
    scheduled("dygnex-l", "groups assigned by DyGNeX's integer program (cargo feature ilp)"),
    scheduled(
        "real",
        "groups assigned by the best schedule found in time, and overlapping ones run together (REAL)",
    ),
    scheduled("real-g", "the same by REAL's greedy algorithm"),
    scheduled("real-l", "the same by REAL's integer program (cargo feature ilp)"),
    Strategy {
        name: "esdg",
        about: "the snapshots of each group are divided among workers; hidden states are passed on (ESDG)",
        scheme: Scheme::Cells { partitioner: "snapshot", per_window: true },
        batches: Batches::AsSet,
    },
    cells(
        "pss",
        "each worker owns whole snapshots of every window; hidden states are passed on (PSS)",
        "snapshot",
    ),
    cells("pts", "each worker owns vertices at all steps; neighbours' rows are exchanged (PTS)", "sequence"),
    cells(
        "pss-ts",
        "snapshots for the structure encoder, then vertices for the time encoder (PSS-TS)",
        "snapshot-sequence",
    ),
    cells(
        "dgc",
        "each worker owns chunks in space and time, or a simpler layout expected to be faster (DGC)",
        "chunks",
    ),
    cells("dgc-greedy", "chunks in space and time, assigned by DGC's greedy algorithm", "chunks-greedy"),
    cells("pss-count", "equally many snapshots for each worker, whatever their loads (PSS)", "pss-count"),
    cells("pts-count", "equally many vertices for each worker, whatever their loads (PTS)", "pts-count"),
    cells("vertex-hash", "each worker owns vertices picked by a hash, as AliGraph and DistDGL can", "hash"),
    cells("vertex-block", "each worker owns a block of consecutive vertices of the same load", "block"),
    cells(
        "vertex-metis",
        "each worker owns vertices that METIS found closely linked over all steps",
        "metis",
    ),
    cells(
        "vertex-metis-layer",
        "METIS cuts each snapshot by itself; vertices move between workers over time",
        "metis-layer",
    ),
    cells("vertex-greedy", "METIS cuts the first snapshot; new vertices go to their neighbours", "greedy"),
    Strategy {
        name: "adt",
        about: "vertices assigned by loads, rows of neighbours exchanged, full batches (ADT of DynaHB)",
        scheme: Scheme::Cells { partitioner: "load-aware", per_window: false },
        batches: Batches::Full,
    },
    targets("pyd", "each worker its vertices and what they see, full batches (PyD of DynaHB)", Batches::Full),
    targets(
        "dbov",
        "each worker its vertices and what they see, batches of some of them (DBoV of DynaHB)",
        Batches::Vertices,
    ),
    targets(
        "dbos",
        "each worker its vertices and what they see, batches of some windows (DBoS of DynaHB)",
        Batches::Snapshots,
    ),
    targets(
        "bvr",
        "as dbov, with batches that come again in every epoch (BVR of DynaHB)",
        Batches::VerticesAgain,
    ),
    targets(
        "dynahb",
        "each worker its vertices and what they see, hybrid batches of some windows (DynaHB)",
        Batches::Hybrid,
    ),
];

const fn scheduled(name: &'static str, about: &'static str) -> Strategy {
    Strategy { name, about, scheme: Scheme::Scheduled(name), batches: Batches::AsSet }
}

const fn cells(name: &'static str, about: &'static str, partitioner: &'static str) -> Strategy {
    let scheme = Scheme::Cells { partitioner, per_window: false };
    Strategy { name, about, scheme, batches: Batches::AsSet }
}

const fn targets(name: &'static str, about: &'static str, batches: Batches) -> Strategy {
    Strategy { name, about, scheme: Scheme::Targets, batches }
}

/// The strategy of this name.
pub fn find(name: &str) -> Result<&'static Strategy> {
    ALL.iter().find(|strategy| strategy.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|strategy| strategy.name).collect();
        Error::settings("strategy", format!("there is no strategy '{name}'; known are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition;

    #[test]
    fn every_strategy_is_found_and_names_a_partitioner_that_exists() {
        for strategy in ALL {
            assert_eq!(find(strategy.name).unwrap(), strategy);
            assert!(!strategy.about.is_empty() && !strategy.about.contains('\n'));
            if let Scheme::Scheduled(scheduler) = strategy.scheme {
                assert_eq!(schedule::find(scheduler).unwrap().name(), scheduler);
            }
            if let Scheme::Cells { partitioner, .. } = strategy.scheme {
                assert_eq!(partition::find(partitioner).unwrap().name(), partitioner);
            }
        }
        for partitioner in partition::ALL {
            let used = |strategy: &Strategy| match strategy.scheme {
                Scheme::Cells { partitioner: used, .. } => used == partitioner.name(),
                _ => false,
            };
            assert!(ALL.iter().any(used), "no strategy uses {}", partitioner.name());
        }
        let error = find("by-luck").unwrap_err().to_string();
        assert!(ALL.iter().all(|strategy| error.contains(strategy.name)), "{error}");
    }
}
