//! Where the time of a tape goes: by snapshot, and by what the operations are.
//!
//! The clock of a tape is off until it is started; then every operation is timed, forward and backward. What
//! it is, it says itself ([`Op::stage`](crate::Op::stage)), unless a whole part of a model says otherwise
//! ([`Tape::staged`]): the product that makes a gate is no other operation than the one that makes an
//! embedding. Which snapshot it is for follows from what it is computed from: the latest snapshot among its
//! inputs, or the one that a model is at ([`Tape::during`]). So a model says where a snapshot begins, in one
//! place, and what comes of it is known. Operations on a GPU are waited for while the clock is on.

use std::time::Instant;

use crate::error::Result;
use crate::tape::{Tape, Var};

/// What an operation is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Aggregation over neighbours: whatever follows edges.
    Aggregation,
    /// Dense products, and everything else.
    #[default]
    Products,
    /// The time encoder: whatever follows steps.
    Time,
    /// The backward pass, whatever the stage was in the forward pass.
    Backward,
}

impl Stage {
    /// All of them, in the order in which their seconds are given.
    pub const ALL: [Stage; 4] = [Stage::Aggregation, Stage::Products, Stage::Time, Stage::Backward];
}

/// Seconds of each stage.
pub type Seconds = [f64; Stage::ALL.len()];

/// What a matrix belongs to; of several, what comes last here is what counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// Parameters, and what is made of them alone.
    #[default]
    Nothing,
    /// All snapshots at once.
    Window,
    /// A snapshot, by its number in the window.
    Step(usize),
}

/// What a clock has counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Seconds for each snapshot.
    pub steps: Vec<Seconds>,
    /// Seconds that were for no single one.
    pub window: Seconds,
}

impl Times {
    fn add(&mut self, of: Of, stage: Stage, seconds: f64) {
        let place = match of {
            Of::Step(step) => {
                if self.steps.len() <= step {
                    self.steps.resize(step + 1, Seconds::default());
                }
                &mut self.steps[step]
            }
            Of::Window | Of::Nothing => &mut self.window,
        };
        place[stage as usize] += seconds;
    }

    /// Adds what another clock has counted, of which `share` is the share that counts here.
    fn add_all(&mut self, other: &Times, share: f64) {
        let all = other.steps.iter().enumerate().map(|(step, seconds)| (Of::Step(step), seconds));
        for (of, seconds) in all.chain([(Of::Window, &other.window)]) {
            for stage in Stage::ALL {
                self.add(of, stage, share * seconds[stage as usize]);
            }
        }
    }

    /// All seconds.
    pub fn total(&self) -> f64 {
        self.steps.iter().chain([&self.window]).flatten().sum()
    }
}

/// What was counted within an operation that runs tapes of its own, possibly several at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Within {
    times: Times,
    /// Seconds for which all of them were at work, together.
    busy: f64,
}

impl Within {
    /// Adds what a tape counted.
    pub(crate) fn add(&mut self, tape: &Tape<'_>) {
        if let Some(clock) = &tape.clock {
            self.times.add_all(&clock.borrow().times, 1.0);
        }
    }

    /// Adds the time for which one thread was at work.
    pub(crate) fn add_busy(&mut self, begun: Instant) {
        self.busy += begun.elapsed().as_secs_f64();
    }

    /// Adds what another thread counted.
    pub(crate) fn join(&mut self, other: &Within) {
        self.times.add_all(&other.times, 1.0);
        self.busy += other.busy;
    }
}

/// The clock of a tape.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    times: Times,
    now: Of,
    /// What everything is said to be, whatever operations say.
    stage: Option<Stage>,
    /// Whether the model is done, so that nothing belongs to a snapshot any more.
    is_past: bool,
}

impl<'a> Tape<'a> {
    /// Starts the clock; what was recorded before belongs to nothing.
    pub fn start_clock(&mut self) {
        self.clock = Some(Default::default());
    }

    /// What the clock has counted; nothing where it is off.
    pub fn times(&self) -> Times {
        self.clock.as_ref().map(|clock| clock.borrow().times.clone()).unwrap_or_default()
    }

    /// What a matrix belongs to, as far as a clock was on.
    pub fn of(&self, var: Var) -> Of {
        self.nodes[var.0].of
    }

    /// Does something that is for a snapshot.
    pub fn during<T>(&mut self, of: Of, act: impl FnOnce(&mut Tape<'a>) -> T) -> T {
        let set = |tape: &Tape<'_>, of: Of| {
            tape.clock.as_ref().map(|clock| std::mem::replace(&mut clock.borrow_mut().now, of))
        };
        let before = set(self, of);
        let done = act(self);
        set(self, before.unwrap_or_default());
        done
    }

    /// Does something that is all of one stage, whatever the operations are.
    pub fn staged<T>(&mut self, stage: Stage, act: impl FnOnce(&mut Tape<'a>) -> T) -> T {
        let set = |tape: &Tape<'_>, stage: Option<Stage>| {
            tape.clock.as_ref().and_then(|clock| std::mem::replace(&mut clock.borrow_mut().stage, stage))
        };
        let before = set(self, Some(stage));
        let done = act(self);
        set(self, before);
        done
    }

    /// Says that the model is done: what follows (a decoder, a loss) is for the window.
    pub fn leave_steps(&mut self) {
        if let Some(clock) = &self.clock {
            clock.borrow_mut().is_past = true;
        }
    }

    /// Says what a matrix belongs to.
    pub(crate) fn belongs(&mut self, var: Var, of: Of) {
        self.nodes[var.0].of = of;
    }

    /// What an input that is recorded now belongs to.
    pub(crate) fn now(&self) -> Of {
        self.clock.as_ref().map_or(Of::Nothing, |clock| clock.borrow().now)
    }

    /// When an operation begins, if anybody wants to know.
    pub(crate) fn begun(&self) -> Option<Instant> {
        self.clock.as_ref().map(|_| Instant::now())
    }

    /// The seconds since then; work on a GPU is done by now.
    fn seconds_since(&self, begun: Instant) -> Result<f64> {
        if let Some(device) = self.arena.device() {
            device.wait()?;
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Counts an operation that was applied.
    pub(crate) fn count(&mut self, var: Var, begun: Option<Instant>) -> Result<()> {
        let (Some(begun), Some(clock)) = (begun, &self.clock) else { return Ok(()) };
        let seconds = self.seconds_since(begun)?;
        let (node, mut clock) = (&self.nodes[var.0], clock.borrow_mut());
        let inputs = node.inputs.iter().map(|&input| self.of(input)).max().unwrap_or_default();
        let Some(op) = &node.op else { return Ok(()) };
        let of = if clock.is_past || op.joins_steps() { Of::Window } else { inputs.max(clock.now) };
        match op.within() {
            // Threads side by side took less time than each of them together.
            Some(within) => clock.times.add_all(&within.times, seconds / within.busy.max(seconds)),
            None => {
                let stage = clock.stage.unwrap_or(op.stage());
                clock.times.add(of, stage, seconds);
            }
        }
        drop(clock);
        self.belongs(var, of);
        Ok(())
    }

    /// Counts a product that was put together.
    pub(crate) fn count_product(&self, var: Var, begun: Option<Instant>) {
        if let (Some(begun), Some(clock)) = (begun, &self.clock) {
            let seconds = begun.elapsed().as_secs_f64();
            clock.borrow_mut().times.add(self.nodes[var.0].of, Stage::Aggregation, seconds);
        }
    }

    /// Counts the backward pass of an operation.
    pub(crate) fn count_back(&self, index: usize, begun: Option<Instant>) -> Result<()> {
        if let (Some(begun), Some(clock)) = (begun, &self.clock) {
            let seconds = self.seconds_since(begun)?;
            clock.borrow_mut().times.add(self.nodes[index].of, Stage::Backward, seconds);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Shape};

    #[test]
    fn operations_belong_to_the_latest_snapshot_they_are_made_of() {
        let (arena, values) = (Arena::new(), [1.0, 2.0, 3.0, 4.0]);
        let mut tape = Tape::new(&arena);
        tape.start_clock();
        let square = Shape::new(2, 2);
        let weight = tape.parameter(square, &values).unwrap();
        let first = tape.during(Of::Step(0), |tape| tape.constant(square, &values)).unwrap();
        let second = tape.during(Of::Step(1), |tape| tape.matmul(weight, weight)).unwrap();
        let alone = tape.scale(weight, 2.0).unwrap();
        let both = tape.staged(Stage::Time, |tape| tape.add(first, second)).unwrap();
        let before = tape.scale(first, 2.0).unwrap();
        let found = [weight, first, second, alone, both, before].map(|var| tape.of(var));
        let (zero, one) = (Of::Step(0), Of::Step(1));
        assert_eq!(found, [Of::Nothing, zero, one, Of::Nothing, one, zero]);
        tape.leave_steps();
        let loss = tape.sum(both).unwrap();
        assert_eq!(tape.of(loss), Of::Window);
        tape.backward(loss).unwrap();
        let times = tape.times();
        let filled = |seconds: Seconds| seconds.map(|seconds| seconds > 0.0);
        assert_eq!(
            times.steps.iter().map(|&step| filled(step)).collect::<Vec<_>>(),
            [[false, true, false, false], [false, true, true, true]]
        );
        assert_eq!(filled(times.window), [false, true, false, true]);
    }

    #[test]
    fn a_clock_that_is_off_counts_nothing() {
        let (arena, values) = (Arena::new(), [1.0]);
        let mut tape = Tape::new(&arena);
        let x = tape.during(Of::Step(3), |tape| tape.parameter(Shape::SCALAR, &values)).unwrap();
        let y = tape.staged(Stage::Time, |tape| tape.scale(x, 2.0)).unwrap();
        tape.backward(y).unwrap();
        assert_eq!((tape.of(y), tape.times()), (Of::Nothing, Times::default()));
    }

    #[test]
    fn blocks_side_by_side_take_no_longer_than_the_whole() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        let (rows, arena) = (20_000, Arena::new());
        let values: Vec<f32> = (0..rows * 8).map(|number| (number % 11) as f32).collect();
        let mut tape = Tape::new(&arena);
        tape.start_clock();
        let steps = [0, 1].map(|step| {
            let input = |tape: &mut Tape<'_>| tape.copied(Shape::new(rows, 8), &values);
            tape.during(Of::Step(step), input).unwrap()
        });
        let begun = Instant::now();
        let sum = pool.install(|| {
            tape.sum_by_rows(rows, &steps, &[], |tape, _, steps, _| {
                let shown = steps.iter().map(|&step| tape.tanh(step)).collect::<Result<Vec<_>>>()?;
                tape.leave_steps();
                let sum = tape.add_all(&shown)?;
                tape.sum(sum)
            })
        });
        let seconds = begun.elapsed().as_secs_f64();
        let times = tape.times();
        assert_eq!(tape.of(sum.unwrap()), Of::Window);
        assert!(times.total() > 0.0 && times.total() <= seconds, "{times:?} of {seconds}");
        assert!(times.steps.iter().all(|step| step[Stage::Products as usize] > 0.0));
        assert!(times.window[Stage::Products as usize] > 0.0);
    }
}
