//! A worker among others: who they are, what moves between them, and where the time goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kymo_comm::{Comm, Tag, Traffic, threads};
use kymo_trace::{Kind, Recorder};

use crate::error::Result;

/// All rows move under one tag: workers do the same things in the same order, so messages cannot be taken for others.
const ROWS: Tag = Tag(1);

/// Outputs on their way to the first worker.
const OUTPUTS: Tag = Tag(2);

/// Spans that a worker keeps for its timeline; totals go on beyond.
const SPANS: usize = 200_000;

/// A worker's place among all.
pub struct Team {
    comm: Arc<dyn Comm>,
    /// Where its time goes.
    pub recorder: Arc<Recorder>,
    in_flight: AtomicU64,
    waited: AtomicU64,
}

impl Team {
    /// A worker that speaks to others through `comm`; times are counted from `origin`, which is the same for all.
    pub fn new(comm: Arc<dyn Comm>, origin: Instant) -> Team {
        let recorder = Arc::new(Recorder::new(comm.rank(), origin).with_limit(SPANS));
        Team { comm, recorder, in_flight: AtomicU64::new(0), waited: AtomicU64::new(0) }
    }

    /// A worker without others.
    pub fn alone() -> Arc<Team> {
        Team::in_process(1).swap_remove(0)
    }

    /// Workers that are threads of this process.
    pub fn in_process(size: usize) -> Vec<Arc<Team>> {
        let origin = Instant::now();
        threads(size).into_iter().map(|comm| Arc::new(Team::new(Arc::new(comm), origin))).collect()
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.comm.size()
    }

    /// Whether it is the one that judges, writes and decides.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// What went over the wire.
    pub fn traffic(&self) -> Traffic {
        self.comm.traffic()
    }

    /// Seconds that rows were on their way to this worker, and how many of them it waited.
    pub fn in_flight(&self) -> [f64; 2] {
        [&self.in_flight, &self.waited].map(|time| time.load(Ordering::Relaxed) as f64 * 1e-9)
    }

    /// Adds numbers up over all workers, in the order of their ranks.
    pub fn sum(&self, values: &mut [f32]) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let begun = Instant::now();
        self.comm.all_reduce(values)?;
        let (sent, _) = kymo_comm::all_reduce_bytes(values.len(), self.size(), self.rank());
        self.recorder.record(Kind::AllReduce, "gradients", begun, sent);
        Ok(())
    }

    /// What the first worker has.
    pub fn from_leader(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        if self.size() == 1 {
            return Ok(bytes);
        }
        let begun = Instant::now();
        let told = self.comm.broadcast(0, bytes)?;
        self.recorder.record(Kind::Wait, "leader", begun, 0);
        Ok(told)
    }

    /// What every worker has, in the order of ranks.
    pub fn from_all(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let begun = Instant::now();
        let told = self.comm.all_gather(bytes)?;
        self.recorder.record(Kind::Wait, "all", begun, 0);
        Ok(told)
    }

    /// Hands outputs to the first worker.
    pub fn report(&self, outputs: Vec<f32>) -> Result<()> {
        Ok(self.comm.send(0, OUTPUTS, outputs)?)
    }

    /// The outputs that a worker hands to the first.
    pub fn reported(&self, by: usize) -> Result<Vec<f32>> {
        let begun = Instant::now();
        let outputs = self.comm.receive(by, OUTPUTS)?;
        self.recorder.record(Kind::Wait, "outputs", begun, 4 * outputs.len() as u64);
        Ok(outputs)
    }

    /// Sends rows of a matrix to other workers; when that was, for [`Team::receive`].
    pub(crate) fn send(
        &self,
        sends: &[Vec<u32>],
        values: &[f32],
        columns: usize,
    ) -> kymo_comm::Result<Instant> {
        let begun = Instant::now();
        let mut bytes = 0;
        for (to, rows) in sends.iter().enumerate().filter(|(to, rows)| *to != self.rank() && !rows.is_empty())
        {
            let mut message = self.comm.buffer(rows.len() * columns);
            for &row in rows {
                message.extend_from_slice(&values[row as usize * columns..][..columns]);
            }
            bytes += 4 * message.len() as u64;
            self.comm.send(to, ROWS, message)?;
        }
        if bytes > 0 {
            self.recorder.record(Kind::Send, "rows", begun, bytes);
        }
        Ok(Instant::now())
    }

    /// Takes the rows that other workers sent: `each` gets the number of the row here and its values.
    pub(crate) fn receive(
        &self,
        receives: &[Vec<u32>],
        columns: usize,
        sent: Instant,
        mut each: impl FnMut(usize, &[f32]),
    ) -> kymo_comm::Result<()> {
        for (from, rows) in
            receives.iter().enumerate().filter(|(from, rows)| *from != self.rank() && !rows.is_empty())
        {
            let waiting = Instant::now();
            let message = self.comm.receive(from, ROWS)?;
            self.waited.fetch_add(waiting.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.recorder.record(Kind::Wait, "rows", waiting, 0);
            self.in_flight.fetch_add(sent.elapsed().as_nanos() as u64, Ordering::Relaxed);
            let begun = Instant::now();
            if message.len() != rows.len() * columns {
                let what =
                    format!("sent {} numbers, expected {} rows of {columns}", message.len(), rows.len());
                return Err(kymo_comm::Error::Peer { rank: from, what });
            }
            for (&row, values) in rows.iter().zip(message.chunks_exact(columns.max(1))) {
                each(row as usize, values);
            }
            self.recorder.record(Kind::Receive, "rows", begun, 4 * message.len() as u64);
            self.comm.recycle(message);
        }
        Ok(())
    }
}
