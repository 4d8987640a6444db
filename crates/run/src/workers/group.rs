//! A worker among others: who they are, what moves between them, and where the time goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use kymo_comm::measure::{Measured, measure};
use kymo_comm::packing::{packed, unpacked};
use kymo_comm::{Comm, End, Tag, Traffic, threads};
use kymo_trace::{Kind, Recorder};

use super::tag::RowTag;
use crate::error::{Error, Result};

/// Outputs on their way to the first worker. Tags of rows are never below [`RowTag::FIRST`].
const OUTPUTS: Tag = Tag(1);

/// Reports on their way to the first worker.
const REPORTS: Tag = Tag(2);

/// What time it is elsewhere.
const TIME: Tag = Tag(3);

/// Models on their way to the first worker, and their means on the way back.
const MODELS: Tag = Tag(4);
const MEANS: Tag = Tag(5);

/// Spans that a worker keeps for its timeline; totals go on beyond.
const SPANS: usize = 200_000;

/// A worker's place among all.
pub struct WorkerGroup {
    comm: Arc<dyn Comm>,
    /// Where its time goes.
    pub recorder: Arc<Recorder>,
    in_flight: AtomicU64,
    waited: AtomicU64,
}

impl WorkerGroup {
    /// A worker that reaches others through `comm`.
    pub fn new(comm: Arc<dyn Comm>) -> WorkerGroup {
        let recorder = Arc::new(Recorder::new(comm.rank()).with_limit(SPANS));
        WorkerGroup { comm, recorder, in_flight: AtomicU64::new(0), waited: AtomicU64::new(0) }
    }

    /// A worker without others.
    pub fn alone() -> Arc<WorkerGroup> {
        WorkerGroup::in_process(1).swap_remove(0)
    }

    /// Workers that are threads of this process.
    pub fn in_process(size: usize) -> Vec<Arc<WorkerGroup>> {
        threads(size).into_iter().map(|comm| Arc::new(WorkerGroup::new(Arc::new(comm)))).collect()
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.comm.size()
    }

    /// Whether it is the first, which evaluates, writes files and decides.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// The machine that a worker is on, where workers are on several.
    pub fn host(&self, rank: usize) -> Option<&str> {
        self.comm.host(rank)
    }

    /// Workers of this machine.
    pub fn beside(&self) -> usize {
        self.comm.beside()
    }

    /// Tells the others why this worker cannot go on, and what its process exits with.
    pub fn leave(&self, why: &str, code: u8) {
        self.comm.leave(why, code);
    }

    /// The worker that this one has been waiting for, and for how long.
    pub fn waits_for(&self) -> Option<(usize, std::time::Duration)> {
        self.comm.waits_for()
    }

    /// Where it is written why the group is at an end, once it is.
    pub fn end(&self) -> Option<Arc<OnceLock<End>>> {
        self.comm.end()
    }

    /// What to set where it has to be found at once who has died.
    pub fn alarm(&self) -> Option<Arc<AtomicBool>> {
        self.comm.alarm()
    }

    /// What the wire between workers carries. All workers come here together.
    pub fn measure(&self) -> Result<Option<Measured>> {
        Ok(measure(&*self.comm)?)
    }

    /// Waits until every worker is here.
    pub fn barrier(&self) -> Result<()> {
        Ok(self.comm.barrier()?)
    }

    /// What went over the wire.
    pub fn traffic(&self) -> Traffic {
        self.comm.traffic()
    }

    /// Seconds that rows were on their way to this worker, and how many of them it waited.
    pub fn in_flight(&self) -> [f64; 2] {
        [&self.in_flight, &self.waited].map(|time| time.load(Ordering::Relaxed) as f64 * 1e-9)
    }

    /// Sums numbers over all workers, in the order of their ranks.
    pub fn all_reduce(&self, values: &mut [f32]) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let begun = Instant::now();
        self.comm.all_reduce(values)?;
        let (sent, _) = kymo_comm::all_reduce_bytes(values.len(), self.size(), self.rank());
        self.recorder.record(Kind::AllReduce, "gradients", begun, sent);
        Ok(())
    }

    /// What the first worker has, at every worker.
    pub fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        if self.size() == 1 {
            return Ok(bytes);
        }
        let begun = Instant::now();
        let told = self.comm.broadcast(0, bytes)?;
        self.recorder.record(Kind::Wait, "leader", begun, 0);
        Ok(told)
    }

    /// What every worker has, in the order of ranks.
    pub fn all_gather(&self, bytes: &[u8]) -> kymo_comm::Result<Vec<Vec<u8>>> {
        let begun = Instant::now();
        let told = self.comm.all_gather(bytes)?;
        self.recorder.record(Kind::Wait, "all", begun, 0);
        Ok(told)
    }

    /// What every worker has, in the order of ranks, at the first one.
    pub fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        if !self.leads() {
            self.comm.send(0, REPORTS, packed(bytes))?;
            return Ok(None);
        }
        let others = (1..self.size()).map(|rank| {
            let words = self.comm.receive(rank, REPORTS)?;
            unpacked(&words).ok_or_else(|| Error::peer(rank, "sent a report that is cut off"))
        });
        std::iter::once(Ok(bytes.to_vec())).chain(others).collect::<Result<_>>().map(Some)
    }

    /// Asks a worker for the time of its clock.
    pub fn ask_for_time(&self, rank: usize) -> Result<u64> {
        self.comm.send(rank, TIME, Vec::new())?;
        let told = unpacked(&self.comm.receive(rank, TIME)?).and_then(|bytes| bytes.try_into().ok());
        told.map(u64::from_le_bytes).ok_or_else(|| Error::peer(rank, "sent something that is no time"))
    }

    /// Waits until the first worker asks, and tells it.
    pub fn asked_for_time(&self, now: impl FnOnce() -> u64) -> Result<()> {
        self.comm.receive(0, TIME)?;
        Ok(self.comm.send(0, TIME, packed(&now().to_le_bytes()))?)
    }

    /// Hands a model in at the first worker, to be averaged.
    pub fn hand_in_model(&self, model: Vec<f32>) -> Result<()> {
        Ok(self.comm.send(0, MODELS, model)?)
    }

    /// The next model that a worker has handed in at the first one: if it has come, or when it comes.
    pub fn model_of(&self, from: usize, waits: bool) -> Result<Option<Vec<f32>>> {
        self.come(from, MODELS, waits)
    }

    /// Hands the mean of all models to a worker.
    pub fn hand_out_mean(&self, to: usize, mean: Vec<f32>) -> Result<()> {
        Ok(self.comm.send(to, MEANS, mean)?)
    }

    /// The next mean that the first worker has handed out: if it has come, or when it comes.
    pub fn mean_of_models(&self, waits: bool) -> Result<Option<Vec<f32>>> {
        self.come(0, MEANS, waits)
    }

    fn come(&self, from: usize, tag: Tag, waits: bool) -> Result<Option<Vec<f32>>> {
        let begun = Instant::now();
        let message = match waits {
            true => Some(self.comm.receive(from, tag)?),
            false => self.comm.try_receive(from, tag)?,
        };
        if let Some(message) = &message {
            self.recorder.record(Kind::Receive, "model", begun, 4 * message.len() as u64);
        }
        Ok(message)
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

    /// Sends rows of a matrix to other workers; when that was, for [`WorkerGroup::receive`].
    pub fn send(
        &self,
        tag: RowTag,
        sends: &[Vec<u32>],
        values: &[f32],
        columns: usize,
    ) -> kymo_comm::Result<Instant> {
        self.send_each(tag, sends, columns, |_, rows, message| {
            for &row in rows {
                message.extend_from_slice(&values[row as usize * columns..][..columns]);
            }
        })
    }

    /// Sends a message to each of the workers that rows go to, which `fill` puts together; when that was.
    pub fn send_each(
        &self,
        tag: RowTag,
        sends: &[Vec<u32>],
        columns: usize,
        mut fill: impl FnMut(usize, &[u32], &mut Vec<f32>),
    ) -> kymo_comm::Result<Instant> {
        let begun = Instant::now();
        let mut bytes = 0;
        // Each begins with its neighbour, so that not all send to the same one at a time.
        let others = (1..self.size()).map(|offset| (self.rank() + offset) % self.size());
        let others = others.filter_map(|to| Some((to, sends.get(to)?)));
        for (to, rows) in others.filter(|(_, rows)| !rows.is_empty()) {
            let mut message = self.comm.buffer(rows.len() * columns);
            fill(to, rows, &mut message);
            bytes += 4 * message.len() as u64;
            self.comm.send(to, tag.into(), message)?;
        }
        if bytes > 0 {
            self.recorder.record(Kind::Send, "rows", begun, bytes);
        }
        Ok(Instant::now())
    }

    /// Takes the rows that other workers sent: `each` gets the number of the row here and its values.
    pub fn receive(
        &self,
        tag: RowTag,
        receives: &[Vec<u32>],
        columns: usize,
        sent: Instant,
        mut each: impl FnMut(usize, &[f32]),
    ) -> kymo_comm::Result<()> {
        self.receive_each(tag, receives, sent, |_, rows, message| {
            if message.len() != rows.len() * columns {
                let (found, rows) = (message.len(), rows.len());
                return Err(format!("sent {found} numbers, expected {rows} rows of {columns}"));
            }
            for (&row, values) in rows.iter().zip(message.chunks_exact(columns.max(1))) {
                each(row as usize, values);
            }
            Ok(())
        })
    }

    /// Takes the message of each of the workers that rows come from: `take` says what is wrong with it.
    pub fn receive_each(
        &self,
        tag: RowTag,
        receives: &[Vec<u32>],
        sent: Instant,
        mut take: impl FnMut(usize, &[u32], &[f32]) -> std::result::Result<(), String>,
    ) -> kymo_comm::Result<()> {
        for (from, rows) in
            receives.iter().enumerate().filter(|(from, rows)| *from != self.rank() && !rows.is_empty())
        {
            let waiting = Instant::now();
            let message = self.comm.receive(from, tag.into())?;
            self.waited.fetch_add(waiting.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.recorder.record(Kind::Wait, "rows", waiting, 0);
            self.in_flight.fetch_add(sent.elapsed().as_nanos() as u64, Ordering::Relaxed);
            let begun = Instant::now();
            take(from, rows, &message).map_err(|what| kymo_comm::Error::Peer { rank: from, what })?;
            self.recorder.record(Kind::Receive, "rows", begun, 4 * message.len() as u64);
            self.comm.recycle(message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_reach_the_first_worker_in_the_order_of_ranks() {
        let groups = WorkerGroup::in_process(3);
        let gathered: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = groups
                .iter()
                .map(|group| scope.spawn(|| group.gather(&vec![group.rank() as u8; group.rank()]).unwrap()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(gathered, [Some(vec![vec![], vec![1], vec![2, 2]]), None, None]);
    }
}
