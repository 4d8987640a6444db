//! Where workers meet for a collective, and find out whether they mean the same one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::waiting::{Patience, Roll, lock};
use crate::call::Call;
use crate::error::{Error, Result};

struct State {
    calls: Vec<Call>,
    arrived: usize,
    sleepers: usize,
    /// What was wrong with the last meeting. It cannot be overwritten before all workers have read it: the
    /// next meeting ends only when all have come to it.
    problem: Option<String>,
}

pub(super) struct Meeting {
    state: Mutex<State>,
    ended: Condvar,
    /// How many meetings have ended.
    number: AtomicU64,
    /// Whether the last one had no problem: then no worker needs the lock to leave.
    agreed: AtomicBool,
}

impl Meeting {
    pub(super) fn new(size: usize) -> Meeting {
        let state = State { calls: vec![Call::Barrier; size], arrived: 0, sleepers: 0, problem: None };
        Meeting {
            state: Mutex::new(state),
            ended: Condvar::new(),
            number: AtomicU64::new(0),
            agreed: AtomicBool::new(true),
        }
    }

    /// The number of the meeting that a worker who is in none will come to next; the same for all of them.
    pub(super) fn next(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Waits until all workers have come; an error, for each of them, where they did not come for the same.
    pub(super) fn attend(&self, rank: usize, call: Call, roll: &Roll, patience: &Patience) -> Result<()> {
        let number = {
            let mut state = lock(&self.state);
            // No worker is counted once one has gone, so a meeting that lacks a worker never ends, however
            // often the others come back.
            if let Some(gone) = roll.first_gone() {
                return Err(roll.error(gone, call));
            }
            state.calls[rank] = call;
            state.arrived += 1;
            let number = self.number.load(Ordering::Relaxed);
            if state.arrived == state.calls.len() {
                self.end(&mut state, number + 1);
                return state.answer();
            }
            number
        };
        let ended = || self.number.load(Ordering::Acquire) != number;
        patience.look(|| ended() || roll.first_gone().is_some());
        if ended() && self.agreed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = lock(&self.state);
        loop {
            // In this order: who went after the meeting was there.
            if ended() {
                return state.answer();
            }
            if let Some(gone) = roll.first_gone() {
                return Err(roll.error(gone, call));
            }
            state.sleepers += 1;
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleepers -= 1;
        }
    }

    fn end(&self, state: &mut State, number: u64) {
        state.arrived = 0;
        state.problem = problem(&state.calls);
        self.agreed.store(state.problem.is_none(), Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
        if state.sleepers > 0 {
            self.ended.notify_all();
        }
    }

    /// Wakes all that wait, because a worker has gone.
    pub(super) fn wake(&self) {
        let _state = lock(&self.state);
        self.ended.notify_all();
    }
}

impl State {
    fn answer(&self) -> Result<()> {
        self.problem.as_ref().map_or(Ok(()), |problem| Err(Error::usage(problem.clone())))
    }
}

fn problem(calls: &[Call]) -> Option<String> {
    let first = *calls.first()?;
    if calls.iter().all(|call| *call == first) {
        return first.problem(calls.len());
    }
    let each: Vec<String> =
        calls.iter().enumerate().map(|(rank, call)| format!("worker {rank} calls {call}")).collect();
    let each = each.join(", ");
    Some(format!("workers do not agree: {each}; all must make the same calls in the same order"))
}
