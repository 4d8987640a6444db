//! One worker a process, which a launcher of MPI has started together on one machine or on many.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kymo_comm::measure::Measured;
use kymo_comm::remote::Options;
use kymo_comm::{End, mpi};

use super::Launcher;
use crate::config::{Parallel, Sums};
use crate::error::{Class, Error, Result};
use crate::workers::WorkerGroup;

/// This process among those it was started with.
#[derive(Clone)]
pub struct Processes {
    group: Arc<WorkerGroup>,
    /// Whether this process has told the user why all end.
    spoken: Arc<AtomicBool>,
}

impl Processes {
    /// Joins the processes that `mpirun` or `srun` started together, if they have started this one; once in a
    /// process.
    pub fn join(parallel: &Parallel) -> Result<Option<Processes>> {
        if !mpi::is_launched() {
            return Ok(None);
        }
        let deadline = Duration::try_from_secs_f64(parallel.deadline).map_err(|_| {
            let problem = format!("found {}, expected seconds", parallel.deadline);
            Error::settings("parallel.deadline", problem)
        })?;
        let options = Options { deadline, native_sums: parallel.sums == Sums::Native };
        let comm = mpi::connect(options).map_err(|error| match mpi::is_built_in() {
            true => error.into(),
            false => Error::settings("mpirun", error.to_string()),
        })?;
        Ok(Some(Processes { group: Arc::new(WorkerGroup::new(comm.into())), spoken: Arc::default() }))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.group.size()
    }

    /// Processes of this machine.
    pub fn beside(&self) -> usize {
        self.group.beside()
    }

    /// Machines that processes are on.
    pub fn hosts(&self) -> usize {
        let hosts: BTreeSet<_> = (0..self.count()).map(|rank| self.group.host(rank)).collect();
        hosts.len()
    }

    /// What the wire between them carries. All come here together.
    pub fn measure(&self) -> Result<Option<Measured>> {
        self.group.measure()
    }

    /// Whether it is the first, which speaks and writes.
    pub fn leads(&self) -> bool {
        self.group.leads()
    }

    /// What the first process has, at every one.
    pub fn shared(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        self.group.broadcast(bytes)
    }

    /// What the first process found, at every one; others do not look.
    pub fn agreed<T>(
        &self,
        find: impl FnOnce() -> Result<T>,
        write: impl FnOnce(&T) -> Vec<u8>,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T> {
        if self.leads() {
            let found = find()?;
            self.shared(write(&found))?;
            return Ok(found);
        }
        read(&self.shared(Vec::new())?).ok_or_else(|| Error::peer(0, "said something that makes no sense"))
    }

    /// Tells the others why this process cannot go on. They know already where one of them is the reason, and
    /// where all were asked to stop.
    pub fn leave(&self, error: &Error) {
        if !matches!(error.class(), Class::Peer | Class::Stopped) {
            self.group.leave(&error.to_string(), error.class().exit_code());
        }
    }

    /// Where it is written why these processes are at an end, once they are.
    pub fn end(&self) -> Option<Arc<OnceLock<End>>> {
        self.group.end()
    }

    /// What to set where these processes may be ended soon because one of them has died.
    pub fn alarm(&self) -> Option<Arc<AtomicBool>> {
        self.group.alarm()
    }

    /// Whether this process is the one to tell the user of an error; once.
    pub fn speaks_of(&self, error: &Error) -> bool {
        self.place().speaks_of(error, self.told())
    }

    /// What the process exits with that ended the work for a reason of its own: all others do the same, since
    /// launchers pass on what the first of them exits with. 0 where there is none.
    pub fn told(&self) -> u8 {
        self.end().and_then(|end| Some(end.get()?.code)).unwrap_or(0)
    }

    /// Where this process is among the others.
    pub fn place(&self) -> Place {
        let first = self.group.host(0);
        // Those who lose the first process may have lost its whole machine.
        let away = (1..self.count()).find(|&rank| self.group.host(rank) != first);
        Place { rank: self.group.rank(), deputy: away.unwrap_or(1), spoken: self.spoken.clone() }
    }
}

/// Where a process is among the others.
#[derive(Clone, Debug)]
pub struct Place {
    rank: usize,
    /// The one that speaks where the first one is lost.
    deputy: usize,
    spoken: Arc<AtomicBool>,
}

impl Place {
    /// Whether it falls to this process to tell the user of an error: to the first one, or to another where
    /// the first one is lost, and not gone with a code of its own and words.
    pub fn is_to_speak_of(&self, error: &Error, code: u8) -> bool {
        let lost_first = matches!(error, Error::Peer { rank: 0, .. }) && code == 0;
        self.rank == 0 || lost_first && self.rank == self.deputy
    }

    /// The same, and that nobody here has done so: who asks first speaks.
    pub fn speaks_of(&self, error: &Error, code: u8) -> bool {
        self.is_to_speak_of(error, code) && !self.spoken.swap(true, Ordering::Relaxed)
    }
}

impl Launcher for Processes {
    fn endpoints(&self) -> Result<Vec<Arc<WorkerGroup>>> {
        Ok(vec![self.group.clone()])
    }
}
