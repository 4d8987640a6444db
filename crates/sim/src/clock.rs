//! An epoch in virtual time: workers run their groups, wait for the slowest, and sum gradients, iteration by
//! iteration.
//!
//! The clock is kept as two numbers, the seconds of the slowest workers so far and the all-reduces so far. So
//! an epoch without noise takes exactly [`Schedule::seconds`], to the last bit, where the overhead of the
//! instance is the all-reduce of the cluster.

use kymo_plan::EpochPlan;
use kymo_plan::schedule::{Instance, Schedule};
use kymo_trace::{Kind, Span, WorkerTrace};

use crate::cluster::Cluster;
use crate::error::{Error, Result};

/// The outcome of an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Seconds of the epoch.
    pub seconds: f64,
    /// Seconds that each worker ran groups.
    pub busy: Vec<f64>,
    /// Seconds that each worker waited for the slowest; all-reduces are not in it.
    pub waiting: Vec<f64>,
    /// Seconds of all-reduces, the same for each worker.
    pub all_reduce: f64,
    /// The busiest worker's seconds over the mean of all workers, as in [`Schedule::imbalance`]: 1 where all
    /// work equally long or there is nothing to do, at most the number of workers.
    pub imbalance: f64,
    /// The part of all workers' time that went into groups; the extra time of stragglers does not count.
    pub efficiency: f64,
    /// Iterations that ran something: as many steps of the optimiser.
    pub iterations: usize,
    /// What each worker did, where that was asked for.
    pub timeline: Option<Vec<WorkerTrace>>,
}

/// Runs the plan of an epoch on a cluster; each of its windows costs what the instance says.
pub fn simulate(instance: &Instance, plan: &EpochPlan, cluster: &Cluster) -> Result<Simulated> {
    let schedule = plan.schedule();
    Ok(Epoch::new(instance, &schedule, cluster)?.run(&schedule, None))
}

/// Runs the plan of an epoch on a cluster and keeps what each worker did, in whole nanoseconds.
pub fn simulate_with_timeline(instance: &Instance, plan: &EpochPlan, cluster: &Cluster) -> Result<Simulated> {
    let schedule = plan.schedule();
    let trace = |worker| WorkerTrace { worker, ..WorkerTrace::default() };
    let traces = (0..cluster.workers).map(trace).collect();
    Ok(Epoch::new(instance, &schedule, cluster)?.run(&schedule, Some(traces)))
}

/// What does not change during an epoch.
struct Epoch<'a> {
    instance: &'a Instance,
    cluster: &'a Cluster,
    factors: Vec<f64>,
    /// Seconds of one all-reduce.
    close: f64,
}

/// What one worker does in one iteration.
struct Shift {
    /// Seconds until it is done.
    busy: f64,
    /// Seconds that an ordinary worker would have needed.
    useful: f64,
    /// When each of its groups ends, in seconds since the iteration began.
    ends: Vec<f64>,
}

impl<'a> Epoch<'a> {
    fn new(instance: &'a Instance, schedule: &Schedule, cluster: &'a Cluster) -> Result<Self> {
        cluster.check()?;
        instance.check()?;
        if instance.workers != cluster.workers {
            let problem = format!(
                "the schedule is for {}, the cluster has {}; make a schedule for the cluster",
                instance.workers, cluster.workers
            );
            return Err(Error::settings("workers", problem));
        }
        schedule.check(instance)?;
        let close = cluster.all_reduce.seconds(cluster.workers);
        Ok(Epoch { instance, cluster, factors: cluster.factors(), close })
    }

    fn run(&self, schedule: &Schedule, mut timeline: Option<Vec<WorkerTrace>>) -> Simulated {
        let workers = self.cluster.workers;
        let (mut busy, mut waiting) = (vec![0.0; workers], vec![0.0; workers]);
        let (mut computed, mut iterations, mut useful) = (0.0, 0_usize, 0.0);
        let clock = |computed: f64, iterations: usize| computed + iterations as f64 * self.close;
        for bins in &schedule.iterations {
            if bins.iter().all(Vec::is_empty) {
                continue;
            }
            let shifts: Vec<Shift> =
                bins.iter().enumerate().map(|(worker, bin)| self.shift(worker, bin)).collect();
            let slowest = shifts.iter().map(|shift| shift.busy).fold(0.0, f64::max);
            for (worker, shift) in shifts.iter().enumerate() {
                busy[worker] += shift.busy;
                waiting[worker] += slowest - shift.busy;
                useful += shift.useful;
            }
            if let Some(traces) = &mut timeline {
                let begin = clock(computed, iterations);
                let moments = [begin, begin + slowest, clock(computed + slowest, iterations + 1)];
                for ((trace, bin), shift) in traces.iter_mut().zip(bins).zip(&shifts) {
                    self.record(trace, bin, shift, moments);
                }
            }
            computed += slowest;
            iterations += 1;
        }
        let seconds = clock(computed, iterations);
        let paid = workers as f64 * seconds;
        Simulated {
            seconds,
            imbalance: kymo_plan::plan::imbalance(&busy),
            efficiency: if paid > 0.0 { useful / paid } else { 1.0 },
            all_reduce: iterations as f64 * self.close,
            busy,
            waiting,
            iterations,
            timeline,
        }
    }

    fn shift(&self, worker: usize, bin: &[usize]) -> Shift {
        let mut before = None;
        let (mut own, mut luck) = (Vec::with_capacity(bin.len()), 0.0);
        for &group in bin {
            let saved = before.map_or(0.0, |before| self.instance.reuse.saved(before, group));
            let planned = (self.instance.costs[group] - saved).max(0.0);
            let factor = self.cluster.luck(group);
            // Only what differs from the plan is added to it: without noise the plan stays as it is, to the
            // last bit.
            luck += planned * (factor - 1.0);
            own.push(planned * factor);
            before = Some(group);
        }
        let useful = (self.instance.load(bin) + luck).max(0.0);
        let busy = useful * self.factors[worker];
        let mut end = 0.0;
        let ends = own.iter().map(|seconds| {
            end += seconds * self.factors[worker];
            f64::min(end, busy)
        });
        let mut ends: Vec<f64> = ends.collect();
        // Sums in another order differ in their last digits: the last group ends when the worker is done.
        ends.last_mut().into_iter().for_each(|end| *end = busy);
        Shift { busy, useful, ends }
    }

    /// Adds an iteration that begins, is joined by its slowest worker and ends at these moments.
    fn record(&self, trace: &mut WorkerTrace, bin: &[usize], shift: &Shift, moments: [f64; 3]) {
        let [begin, joined, end] = moments;
        let mut at = nanoseconds(begin);
        let mut add = |kind: Kind, name: std::borrow::Cow<'static, str>, until: f64, bytes: u64| {
            let (start, end) = (at, nanoseconds(until).max(at));
            // A worker that does not wait, or has no others to talk to, has no such span.
            if end > start || kind == Kind::Compute {
                trace.totals.add(kind, end - start, bytes);
                trace.spans.push(Span { kind, name, start, end, bytes });
            }
            at = end;
        };
        for (group, ended) in bin.iter().zip(&shift.ends) {
            add(Kind::Compute, format!("group {group}").into(), begin + ended, 0);
        }
        add(Kind::Wait, "slowest worker".into(), joined, 0);
        let bytes = self.cluster.all_reduce.sent(self.cluster.workers);
        add(Kind::AllReduce, "gradients".into(), end, bytes);
        trace.wall = at;
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
