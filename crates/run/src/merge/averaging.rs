//! Workers follow gradients of their own, and average their models every `T` seconds (DynaHB, Algorithm 2,
//! lines 14 and 15).
//!
//! A round: each worker hands in its model once `T` seconds have passed for it, and goes on; the first
//! worker puts the mean together when it has the models of all, and hands it out; each takes it over when
//! it comes. Nobody waits: a worker looks for what has come after each of its iterations. What it has
//! learnt since it handed in its model is not lost: `x <- mean + (x - x_handed_in)`, which is the mean
//! where there was nothing. So a slow worker delays the mean, and not the others; a lost one is told by
//! what has no answer any more.
//!
//! At the end of an epoch, and where a checkpoint is written, all meet: there the model is judged and
//! saved, so there has to be one. A mean that was handed out is taken over by all, a round without one is
//! given up, and parameters and what optimisers remember are averaged over all workers, in the order of
//! ranks: all replicas are the same to the bit.
//!
//! When a round takes place follows the clock. All that bits depend on is after which of its own iterations a
//! worker handed in a model and took over a mean: that is recorded, and with `averaging.replay` the same
//! happens after the same iterations, whatever that means for waiting.

mod meeting;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kymo_trace::schema::AveragingRecord;
use meeting::Told;

use super::{GradientSum, Merge, Merged};
use crate::error::{Error, Result};
use crate::replica::Replica;
use crate::workers::WorkerGroup;

/// When rounds take place.
enum Pace {
    /// This long after the one before.
    Every(Duration),
    /// As they did before: the rounds up to each meeting.
    Recorded(Vec<AveragingRecord>),
}

/// Averages models now and then.
pub struct Averaging {
    pace: Pace,
    /// When this worker last handed in a model, or met the others.
    since: Instant,
    /// Its iterations since all met.
    iterations: u64,
    /// Its own rounds since all met: after which iteration it handed in and took over.
    rounds: Vec<[u64; 2]>,
    /// The model that it handed in for the round under way.
    handed_in: Option<Vec<f32>>,
    /// Of each worker, models that have come to the first one and are of no mean yet, and how many came.
    arrived: Vec<VecDeque<Vec<f32>>>,
    received: Vec<u64>,
    /// Means that the first worker handed out since all met.
    handed_out: u64,
    /// Of the rounds that are done again, those up to the next meeting.
    expected: Option<AveragingRecord>,
    /// The sum of losses since all met, how many, and edges; and whether somebody wishes to stop.
    seen: Merged,
}

impl Averaging {
    /// Averages this often.
    pub fn every(seconds: f64, workers: usize) -> Averaging {
        Averaging::with(Pace::Every(Duration::from_secs_f64(seconds)), workers)
    }

    /// Averages as it was done before.
    pub fn again(records: Vec<AveragingRecord>, workers: usize) -> Averaging {
        Averaging::with(Pace::Recorded(records), workers)
    }

    fn with(pace: Pace, workers: usize) -> Averaging {
        Averaging {
            pace,
            since: Instant::now(),
            iterations: 0,
            rounds: Vec::new(),
            handed_in: None,
            arrived: vec![VecDeque::new(); workers],
            received: vec![0; workers],
            handed_out: 0,
            expected: None,
            seen: Merged::default(),
        }
    }

    /// Whether to hand in a model after this iteration.
    fn is_due(&self, rank: usize) -> bool {
        match (&self.pace, &self.expected) {
            (Pace::Every(time), _) => self.since.elapsed() >= *time,
            (Pace::Recorded(_), Some(record)) => {
                let next = record.rounds.get(self.rounds.len());
                next.is_some_and(|round| round.handed_in[rank] == self.iterations)
            }
            (Pace::Recorded(_), None) => false,
        }
    }

    /// Whether the mean of the round under way has to be waited for now.
    fn has_to_come(&self, rank: usize) -> bool {
        let round = self.expected.as_ref().and_then(|record| record.rounds.get(self.rounds.len() - 1));
        round.is_some_and(|round| round.taken[rank] == self.iterations)
    }

    /// The mean of the round under way, once there is one.
    fn mean(&mut self, group: &WorkerGroup) -> Result<Option<Vec<f32>>> {
        let has_to_come = match self.pace {
            Pace::Every(_) => false,
            Pace::Recorded(_) if self.has_to_come(group.rank()) => true,
            // Others may have come further than they had then: they have to wait for their turn.
            Pace::Recorded(_) => return Ok(None),
        };
        if !group.leads() {
            return group.mean_of_models(has_to_come);
        }
        for from in 1..group.size() {
            let is_missing = self.arrived[from].is_empty();
            if let Some(model) = group.model_of(from, has_to_come && is_missing)? {
                self.arrived[from].push_back(model);
                self.received[from] += 1;
            }
        }
        if self.arrived[1..].iter().any(VecDeque::is_empty) {
            return Ok(None);
        }
        let Some(mut mean) = self.handed_in.clone() else { return Ok(None) };
        for model in self.arrived[1..].iter_mut().filter_map(VecDeque::pop_front) {
            check_length(&model, mean.len())?;
            mean.iter_mut().zip(&model).for_each(|(sum, value)| *sum += value);
        }
        let size = group.size() as f32;
        mean.iter_mut().for_each(|value| *value /= size);
        for to in 1..group.size() {
            group.hand_out_mean(to, mean.clone())?;
        }
        self.handed_out += 1;
        Ok(Some(mean))
    }

    /// Takes over a mean, with what was learnt since the model was handed in that is part of it.
    fn take(&mut self, mean: &[f32], replica: &mut Replica) -> Result<()> {
        let handed_in = self.handed_in.take().unwrap_or_default();
        check_length(mean, handed_in.len())?;
        let mut places = mean.iter().zip(&handed_in);
        for value in replica.params.values.iter_mut().flatten() {
            if let Some((mean, handed_in)) = places.next() {
                *value = mean + (*value - handed_in);
            }
        }
        Ok(())
    }

    /// Takes what is on its way between workers when all have come together, so that it is not taken for
    /// something of a later round. `all` has what each worker tells of its rounds.
    fn settle(&mut self, replica: &mut Replica, group: &WorkerGroup, all: &[Told]) -> Result<()> {
        if group.leads() {
            for (from, told) in all.iter().enumerate().skip(1) {
                while self.received[from] < told.rounds.len() as u64 {
                    group.model_of(from, true)?;
                    self.received[from] += 1;
                }
            }
        } else {
            let taken = self.rounds.iter().filter(|round| round[1] > 0).count() as u64;
            for _ in taken..all[0].handed_out {
                let mean = group.mean_of_models(true)?.unwrap_or_default();
                self.take(&mean, replica)?;
            }
        }
        Ok(())
    }

    /// Begins anew: nothing is under way.
    fn begin(&mut self, group: &WorkerGroup) {
        (self.since, self.iterations, self.handed_out) = (Instant::now(), 0, 0);
        (self.handed_in, self.seen) = (None, Merged::default());
        self.rounds.clear();
        self.arrived = vec![VecDeque::new(); group.size()];
        self.received = vec![0; group.size()];
    }
}

fn check_length(model: &[f32], expected: usize) -> Result<()> {
    match model.len() == expected {
        true => Ok(()),
        false => Err(Error::Bug(format!("a model of {} numbers came, expected {expected}", model.len()))),
    }
}

impl Merge for Averaging {
    fn is_local(&self) -> bool {
        true
    }

    fn gradients(&mut self, sum: &mut GradientSum, _: &WorkerGroup) -> Result<Merged> {
        let mine = sum.mean();
        let seen = &mut self.seen;
        (seen.loss, seen.losses) = (seen.loss + mine.loss, seen.losses + mine.losses);
        (seen.edges, seen.stop) = (seen.edges + mine.edges, seen.stop || mine.stop);
        // Nobody stops alone: all hear of it when they meet.
        Ok(Merged { stop: false, ..mine })
    }

    fn parameters(&mut self, replica: &mut Replica, group: &WorkerGroup) -> Result<()> {
        self.iterations += 1;
        if self.handed_in.is_none() && self.is_due(group.rank()) {
            let model = replica.params.values.concat();
            if !group.leads() {
                group.hand_in_model(model.clone())?;
            }
            (self.handed_in, self.since) = (Some(model), Instant::now());
            self.rounds.push([self.iterations, 0]);
        }
        if self.handed_in.is_none() {
            return Ok(());
        }
        let Some(mean) = self.mean(group)? else { return Ok(()) };
        self.take(&mean, replica)?;
        if let Some(round) = self.rounds.last_mut() {
            round[1] = self.iterations;
        }
        Ok(())
    }

    fn go_on(&mut self, epoch: usize, window: usize, workers: usize) -> Result<()> {
        let Pace::Recorded(records) = &self.pace else { return Ok(()) };
        let next = records.iter().find(|record| (record.epoch, record.window) > (epoch, window));
        self.expected = next.cloned();
        let wrong = |problem: String| Err(Error::settings("averaging.replay", problem));
        match &self.expected {
            None => wrong(format!(
                "it has no rounds after window {window} of epoch {}: it is of a shorter run",
                epoch + 1
            )),
            Some(record) if record.rounds.iter().any(|round| round.taken.len() != workers) => {
                wrong(format!("its rounds are not those of {workers} workers"))
            }
            Some(_) => Ok(()),
        }
    }

    fn meet(
        &mut self,
        replica: &mut Replica,
        group: &WorkerGroup,
        (epoch, window): (usize, usize),
    ) -> Result<Option<(Merged, AveragingRecord)>> {
        if let Some(record) = &self.expected
            && (record.epoch, record.window, record.iterations) != (epoch, window, self.iterations)
        {
            let problem = format!(
                "workers meet after window {window} of epoch {} and {} iterations, and its rounds end after \
                 window {} of epoch {} and {}: it is of another run",
                epoch + 1,
                self.iterations,
                record.window,
                record.epoch + 1,
                record.iterations
            );
            return Err(Error::settings("averaging.replay", problem));
        }
        let all = Told::of(replica, &self.rounds, self.handed_out, self.seen).exchanged(group)?;
        self.settle(replica, group, &all)?;
        meeting::average(replica, group, &all)?;
        let record = AveragingRecord {
            version: AveragingRecord::VERSION,
            epoch,
            window,
            iterations: self.iterations,
            rounds: meeting::rounds(&all),
        };
        self.begin(group);
        Ok(Some((meeting::seen(&all), record)))
    }
}
