//! What several workers did: where their time went, what they sent, what they held.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::stale::StaleRecord;
use crate::bytes::readable;
use crate::summary::TimeSummary;

/// What all workers of a run did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// The strategy that divided the work: a name of `kymo list strategies`.
    pub strategy: String,
    /// Where the time went.
    pub summary: TimeSummary,
    /// One entry for each worker.
    pub workers: Vec<WorkerReport>,
    /// Bytes that the plan expected all workers to send in an epoch.
    pub planned: u64,
    /// What stale rows saved in all epochs; missing where all are exact. The threshold and the distance are
    /// those of single epochs, and 0 here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<StaleRecord>,
}

/// What one worker did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Bytes that it sent in all epochs of training, in the order of [`Traffic`].
    #[serde(deserialize_with = "three")]
    pub sent: [u64; 3],
    /// Bytes that it held at the end: its part of the snapshots, buffers, parameters.
    pub memory: u64,
    /// Bytes of its process at most, where it had one of its own; 0 where workers shared one.
    #[serde(default)]
    pub process: u64,
}

/// What the three numbers of [`WorkerReport::sent`] are, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Rows of numbers that went from one worker to another, and their gradients: messages.
    pub rows: u64,
    /// Gradients of parameters: all-reduces.
    pub gradients: u64,
    /// Vertex numbers that went with rows: the other collectives.
    pub vertex_numbers: u64,
}

impl From<Traffic> for [u64; 3] {
    fn from(traffic: Traffic) -> [u64; 3] {
        [traffic.rows, traffic.gradients, traffic.vertex_numbers]
    }
}

impl WorkerReport {
    /// What it sent, by name.
    pub fn traffic(&self) -> Traffic {
        let [rows, gradients, vertex_numbers] = self.sent;
        Traffic { rows, gradients, vertex_numbers }
    }
}

/// Three numbers, of which the last may be missing: it was not counted at first.
fn three<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u64; 3], D::Error> {
    let found = Vec::<u64>::deserialize(deserializer)?;
    match found[..] {
        [rows, gradients] => Ok([rows, gradients, 0]),
        [rows, gradients, vertex_numbers] => Ok([rows, gradients, vertex_numbers]),
        _ => Err(serde::de::Error::invalid_length(found.len(), &"three numbers of bytes")),
    }
}

impl fmt::Display for GroupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary)?;
        let memory: Vec<String> = self.workers.iter().map(|worker| readable(worker.memory)).collect();
        write!(f, "memory of each worker {}", memory.join(", "))?;
        if self.workers.iter().all(|worker| worker.process == 0) {
            return Ok(());
        }
        let processes: Vec<String> = self.workers.iter().map(|worker| readable(worker.process)).collect();
        write!(f, "\nof its process at most {}", processes.join(", "))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::span::{Kind, Totals};
    use std::time::Duration;

    pub(in crate::schema) fn group() -> GroupReport {
        let mut totals = Totals::default();
        totals.add(Kind::Compute, 1_000_000_000, 0);
        let summary = TimeSummary::new(&[(0, totals), (1, totals)], Duration::from_secs(2), None);
        let worker = |memory| WorkerReport { sent: [1, 2, 3], memory, process: 0 };
        GroupReport {
            strategy: "blad".into(),
            summary,
            workers: vec![worker(3 << 20), worker(512)],
            planned: 6,
            stale: None,
        }
    }

    #[test]
    fn reports_come_back_and_are_shown_with_the_memory() {
        let text = serde_json::to_string(&group()).unwrap();
        assert_eq!(serde_json::from_str::<GroupReport>(&text).unwrap(), group());
        let shown = group().to_string();
        assert!(shown.starts_with("worker     busy"), "{shown}");
        assert!(shown.ends_with("communication hidden  -\nmemory of each worker 3.0 MiB, 512 B"), "{shown}");
    }

    #[test]
    fn what_was_sent_has_names_and_two_numbers_are_enough() {
        let traffic = group().workers[0].traffic();
        assert_eq!(traffic, Traffic { rows: 1, gradients: 2, vertex_numbers: 3 });
        assert_eq!(<[u64; 3]>::from(traffic), [1, 2, 3]);
        let read = |text: &str| serde_json::from_str::<WorkerReport>(text);
        assert_eq!(read(r#"{"sent": [1, 2], "memory": 0}"#).unwrap().sent, [1, 2, 0]);
        let error = read(r#"{"sent": [1], "memory": 0}"#).unwrap_err().to_string();
        assert!(error.contains("invalid length 1, expected three numbers of bytes"), "{error}");
    }
}
