//! What workers did, gathered by messages at the first one: where their time went, what they sent, what they
//! held.

use std::path::Path;
use std::time::Duration;

use kymo_comm::Traffic;
use kymo_trace::schema::folder::CHROME_TRACE;
use kymo_trace::schema::{GroupReport, StaleRecord, WorkerReport};
use kymo_trace::{TimeSummary, WorkerTrace, chrome};

use super::clocks::{self, Offset};
use crate::config::bytes::process_memory;
use crate::error::{Error, Result};
use crate::halo::{Stale, Tally};
use crate::step::Worker;
use crate::workers::WorkerGroup;

/// What one worker did.
pub(super) struct Share {
    trace: WorkerTrace,
    /// Bytes sent while training: rows, gradients, and ids of vertices that went with rows.
    sent: [u64; 3],
    /// Seconds that rows were on their way, and how many of them the worker waited.
    in_flight: [f64; 2],
    /// Bytes held in the end.
    memory: u64,
    /// Bytes of its process at most, where it has one of its own.
    process: u64,
    /// What it counted of rows that may be stale, where they may.
    stale: Option<Tally>,
}

impl Share {
    /// What a worker did so far.
    pub fn of(worker: &Worker) -> Share {
        let Traffic { sent, .. } = worker.trained;
        Share {
            trace: worker.group.recorder.trace(),
            sent: [sent.messages, sent.all_reduce, sent.collectives],
            in_flight: worker.group.in_flight(),
            memory: worker.held_bytes() as u64,
            process: match worker.context.sharing.workers {
                1 => process_memory().map_or(0, |(_, most)| most as u64),
                _ => 0,
            },
            stale: worker.stale().map(Stale::counted),
        }
    }

    /// Those of all workers, in the order of ranks, at the first one. All workers come here together.
    pub fn gathered(self, group: &WorkerGroup) -> Result<Option<Vec<Share>>> {
        let offsets = clocks::offsets(group)?;
        let Some(told) = group.gather(&self.to_bytes()?)? else { return Ok(None) };
        let one = |(rank, (bytes, offset)): (usize, (&Vec<u8>, Offset))| {
            let share = Share::from_bytes(bytes);
            let mut share = share.ok_or_else(|| Error::peer(rank, "sent something that is no report"))?;
            clocks::adjust(&mut share.trace, offset);
            Ok(share)
        };
        told.iter().zip(offsets).enumerate().map(one).collect::<Result<_>>().map(Some)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let [on_way, waited] = self.in_flight.map(f64::to_bits);
        let others = [on_way, waited, self.memory, self.process];
        let mut bytes: Vec<u8> =
            self.sent.iter().chain(&others).flat_map(|number| number.to_le_bytes()).collect();
        let stale = self.stale.as_ref().map(Tally::to_bytes).unwrap_or_default();
        bytes.extend((stale.len() as u64).to_le_bytes());
        bytes.extend(stale);
        bytes.extend(self.trace.to_bytes()?);
        Ok(bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Share> {
        let (head, rest) = bytes.split_at_checked(64)?;
        let number = |at: usize| Some(u64::from_le_bytes(head[8 * at..][..8].try_into().ok()?));
        let (stale, trace) = rest.split_at_checked(number(7)? as usize)?;
        Some(Share {
            stale: if stale.is_empty() { None } else { Some(Tally::from_bytes(stale)?) },
            sent: [number(0)?, number(1)?, number(2)?],
            in_flight: [f64::from_bits(number(3)?), f64::from_bits(number(4)?)],
            memory: number(5)?,
            process: number(6)?,
            trace: WorkerTrace::from_bytes(trace, Path::new("a report")).ok()?,
        })
    }
}

/// Writes the timelines of all workers into the folder of the run.
pub(super) fn write_timelines(traces: &[WorkerTrace], folder: &Path) -> Result<()> {
    for trace in traces {
        trace.write(folder)?;
    }
    Ok(chrome::export(traces, &folder.join(CHROME_TRACE))?)
}

/// What all workers did.
pub(super) struct Reports {
    /// The strategy.
    pub strategy: String,
    /// One for each worker.
    pub shares: Vec<Share>,
    /// How long it took.
    pub wall: Duration,
}

impl Reports {
    /// Writes timelines into the folder of the run.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let traces: Vec<WorkerTrace> = self.shares.iter().map(|share| share.trace.clone()).collect();
        write_timelines(&traces, folder)
    }

    /// What there is to say of them, beside the bytes that an epoch was planned to send.
    pub fn summary(&self, planned: u64) -> GroupReport {
        let totals: Vec<_> =
            self.shares.iter().map(|share| (share.trace.worker, share.trace.totals)).collect();
        let mut summary = TimeSummary::new(&totals, self.wall, None);
        let [in_flight, waited] =
            [0, 1].map(|index| self.shares.iter().map(|share| share.in_flight[index]).sum::<f64>());
        summary.hidden = (in_flight > 0.0).then(|| (1.0 - waited / in_flight).max(0.0));
        let worker =
            |share: &Share| WorkerReport { sent: share.sent, memory: share.memory, process: share.process };
        let workers = self.shares.iter().map(worker).collect();
        let tallies: Vec<Tally> = self.shares.iter().filter_map(|share| share.stale).collect();
        let mut all = Tally::default();
        tallies.iter().for_each(|tally| all.add(tally));
        let stale = (!tallies.is_empty()).then(|| StaleRecord {
            sent: all.sent,
            saved: all.saved(),
            error: all.error(),
            ..StaleRecord::default()
        });
        GroupReport { strategy: self.strategy.clone(), summary, workers, planned, stale }
    }
}
