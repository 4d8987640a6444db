//! Spans: what a worker did, from when to when; and their totals.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a worker does in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The model: forward, backward, updates.
    Compute,
    /// A message on its way out.
    Send,
    /// A message coming in.
    Receive,
    /// Nothing, because what others send is not there yet.
    Wait,
    /// Summing over workers. Its bytes are those sent; as many are received.
    AllReduce,
    /// Reading snapshots and features.
    Load,
    /// Planning: dividing work among workers.
    Plan,
    /// Writing a checkpoint.
    Checkpoint,
    /// Validation and test.
    Evaluate,
    /// Reading snapshots before their turn, beside the rest.
    Prepare,
    /// A stage of the run, around what the workers do in it.
    Stage,
}

/// How a kind counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The worker works.
    Busy,
    /// The worker waits for others.
    Waiting,
    /// Runs beside whatever the worker does.
    Beside,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 11] = [
        Kind::Compute,
        Kind::Send,
        Kind::Receive,
        Kind::Wait,
        Kind::AllReduce,
        Kind::Load,
        Kind::Plan,
        Kind::Checkpoint,
        Kind::Evaluate,
        Kind::Prepare,
        Kind::Stage,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Compute => "compute",
            Kind::Send => "send",
            Kind::Receive => "receive",
            Kind::Wait => "wait",
            Kind::AllReduce => "all_reduce",
            Kind::Load => "load",
            Kind::Plan => "plan",
            Kind::Checkpoint => "checkpoint",
            Kind::Evaluate => "evaluate",
            Kind::Prepare => "prepare",
            Kind::Stage => "stage",
        }
    }

    pub(crate) fn part(self) -> Part {
        match self {
            Kind::Compute | Kind::Load | Kind::Plan | Kind::Checkpoint | Kind::Evaluate => Part::Busy,
            Kind::Wait | Kind::AllReduce => Part::Waiting,
            Kind::Send | Kind::Receive | Kind::Prepare | Kind::Stage => Part::Beside,
        }
    }
}

/// One thing that a worker did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// What it was.
    pub kind: Kind,
    /// What it was about.
    pub name: Cow<'static, str>,
    /// When it began, in nanoseconds since the origin of its recorder.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The bytes that it moved.
    pub bytes: u64,
}

impl Span {
    /// Nanoseconds from its start to its end.
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// What the spans of one kind add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// Nanoseconds of their own: without those of work and waiting inside them.
    pub time: u64,
    /// Bytes.
    pub bytes: u64,
    /// How many there were.
    pub count: u64,
}

/// What the spans of a worker add up to, kind by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals([Total; Kind::ALL.len()]);

impl Totals {
    /// The total of one kind.
    pub fn of(&self, kind: Kind) -> Total {
        self.0[kind as usize]
    }

    /// Adds one span with its own time in nanoseconds.
    pub fn add(&mut self, kind: Kind, time: u64, bytes: u64) {
        let total = &mut self.0[kind as usize];
        total.time += time;
        total.bytes += bytes;
        total.count += 1;
    }

    /// Nanoseconds at work: computing, loading, planning, checkpoints and evaluation, without the waiting
    /// inside them.
    pub fn busy(&self) -> u64 {
        self.time(Part::Busy)
    }

    /// Nanoseconds of waiting for others, all-reduces among them.
    pub fn waiting(&self) -> u64 {
        self.time(Part::Waiting)
    }

    /// Bytes sent to others.
    pub fn bytes_out(&self) -> u64 {
        self.of(Kind::Send).bytes + self.of(Kind::AllReduce).bytes
    }

    /// Bytes received from others.
    pub fn bytes_in(&self) -> u64 {
        self.of(Kind::Receive).bytes + self.of(Kind::AllReduce).bytes
    }

    fn time(&self, part: Part) -> u64 {
        Kind::ALL.iter().filter(|kind| kind.part() == part).map(|&kind| self.of(kind).time).sum()
    }
}

/// In files, kinds that did not occur are left out.
impl Serialize for Totals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let occurred = Kind::ALL.iter().map(|&kind| (kind, self.of(kind)));
        serializer.collect_map(occurred.filter(|(_, total)| *total != Total::default()))
    }
}

impl<'de> Deserialize<'de> for Totals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut totals = Totals::default();
        for (kind, total) in BTreeMap::<Kind, Total>::deserialize(deserializer)? {
            totals.0[kind as usize] = total;
        }
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_in_order_and_have_their_names_in_files() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn totals_come_back_and_know_busy_from_waiting() {
        let mut totals = Totals::default();
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            totals.add(kind, 1 << index, 10 << index);
        }
        totals.add(Kind::Compute, 1000, 0);
        assert_eq!(totals.of(Kind::Compute), Total { time: 1001, bytes: 10, count: 2 });
        assert_eq!(totals.busy(), 1001 + 32 + 64 + 128 + 256);
        assert_eq!(totals.waiting(), 8 + 16);
        assert_eq!((totals.bytes_out(), totals.bytes_in()), (20 + 160, 40 + 160));
        let text = serde_json::to_string(&totals).unwrap();
        assert_eq!(serde_json::from_str::<Totals>(&text).unwrap(), totals);
        assert_eq!(serde_json::to_string(&Totals::default()).unwrap(), "{}");
    }
}
