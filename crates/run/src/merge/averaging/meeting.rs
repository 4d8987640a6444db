//! What workers that went ways of their own tell each other when they meet, and the mean of what all have
//! learnt: `x <- (x_1 + ... + x_M) / M`, in the order of ranks (DynaHB, Algorithm 2, line 15).

use kymo_tensor::optim::State;
use kymo_trace::schema::AveragingRound;
use serde::{Deserialize, Serialize};

use super::Merged;
use crate::error::{Error, Result};
use crate::replica::Replica;
use crate::workers::WorkerGroup;

/// What a worker tells.
#[derive(Serialize, Deserialize)]
pub(super) struct Told {
    /// Its rounds: after which iteration it handed in a model and took over the mean.
    pub rounds: Vec<[u64; 2]>,
    /// Means that it handed out.
    pub handed_out: u64,
    /// Steps of its optimiser, and numbers that it remembers.
    steps: u64,
    remembered: usize,
    /// Sum of losses, how many, edges, and whether to stop.
    seen: (f64, usize, u64, bool),
}

impl Told {
    /// What a worker tells of its replica, its rounds, and what it has seen.
    pub fn of(replica: &Replica, rounds: &[[u64; 2]], handed_out: u64, seen: Merged) -> Told {
        let Merged { loss, losses, edges, stop } = seen;
        let state = replica.optimiser.state();
        Told {
            rounds: rounds.to_vec(),
            handed_out,
            steps: state.steps,
            remembered: state.buffers.iter().map(Vec::len).sum(),
            seen: (loss, losses, edges, stop),
        }
    }

    /// What all tell, in the order of ranks. All workers come here together.
    pub fn exchanged(&self, group: &WorkerGroup) -> Result<Vec<Told>> {
        let mine = serde_json::to_vec(self)
            .map_err(|error| Error::Bug(format!("what a worker has seen cannot be told: {error}")))?;
        let told = group.all_gather(&mine)?;
        let read = |(rank, bytes): (usize, &Vec<u8>)| {
            serde_json::from_slice(bytes)
                .map_err(|_| Error::peer(rank, "sent something that is no word about its rounds"))
        };
        told.iter().enumerate().map(read).collect()
    }
}

/// What all together have seen.
pub(super) fn seen(all: &[Told]) -> Merged {
    let mut seen = Merged::default();
    for &(loss, losses, edges, stop) in all.iter().map(|told| &told.seen) {
        (seen.loss, seen.losses) = (seen.loss + loss, seen.losses + losses);
        (seen.edges, seen.stop) = (seen.edges + edges, seen.stop || stop);
    }
    seen
}

/// The rounds of all.
pub(super) fn rounds(all: &[Told]) -> Vec<AveragingRound> {
    let count = all.iter().map(|told| told.rounds.len()).max().unwrap_or(0);
    let of = |number: usize, which: usize| {
        all.iter().map(|told| told.rounds.get(number).map_or(0, |round| round[which])).collect()
    };
    (0..count).map(|number| AveragingRound { handed_in: of(number, 0), taken: of(number, 1) }).collect()
}

/// Makes all replicas the mean of all.
pub(super) fn average(replica: &mut Replica, group: &WorkerGroup, all: &[Told]) -> Result<()> {
    let size = group.size() as f32;
    let mut values = replica.params.values.concat();
    // One that has not made a step yet remembers nothing, which is as good as zeros.
    let remembered = all.iter().map(|told| told.remembered).max().unwrap_or(0);
    let state = replica.optimiser.state();
    let mut numbers = state.buffers.concat();
    numbers.resize(remembered, 0.0);
    values.append(&mut numbers);
    group.all_reduce(&mut values)?;
    values.iter_mut().for_each(|value| *value /= size);
    let mut rest = values.into_iter();
    for value in replica.params.values.iter_mut().flatten() {
        *value = rest.next().unwrap_or(*value);
    }
    let lengths: Vec<usize> = replica.params.values.iter().map(Vec::len).collect();
    let copies = if remembered > 0 { replica.optimiser.copies() } else { 0 };
    let buffers = (0..copies).flat_map(|_| &lengths).map(|&length| rest.by_ref().take(length).collect());
    let steps = all.iter().map(|told| told.steps).max().unwrap_or(0);
    replica.optimiser.restore(State { steps, buffers: buffers.collect() });
    Ok(())
}
