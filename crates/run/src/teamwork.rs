//! Several workers in one process: each a thread with its own share of the threads, and what they did in the end.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kymo_comm::Traffic;
use kymo_plan::Plan;
use kymo_trace::{Summary, WorkerTrace};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::frames::memory;
use crate::learner::Learner;
use crate::parallel::Sharing;
use crate::saved::{Best, Position};
use crate::shared::Shared;
use crate::team::Team;
use crate::train::{self, Ending, Line, Progress, Watch};

/// The first worker, the others, and what they will do where there are any.
pub type Company = (Learner, Vec<Learner>, Option<Plan>);

/// The workers that the settings ask for; fails where they would need more memory than there is.
pub fn open(shared: Arc<Shared>) -> Result<Company> {
    let parallel = &shared.settings.parallel;
    // One worker has everything, whatever the strategy.
    let (sharing, plan) = match parallel.workers {
        1 => (Sharing::Groups, None),
        workers => {
            let sharing = Sharing::new(&shared, &parallel.strategy, workers)?;
            let plan = sharing.plan(&shared, &parallel.strategy, workers, None)?;
            plan.check_memory((memory(&shared.settings.run.memory)? / workers) as u64)?;
            (sharing, Some(plan))
        }
    };
    let teams = Team::in_process(parallel.workers);
    let mut learners = Vec::with_capacity(teams.len());
    for team in teams {
        learners.push(Learner::join(shared.clone(), team, &sharing)?);
    }
    let others = learners.split_off(1);
    let first =
        learners.pop().ok_or_else(|| Error::settings("parallel.workers", "found 0, expected at least 1"))?;
    Ok((first, others, plan))
}

/// What one worker did.
#[derive(Clone, Debug, Serialize)]
pub struct Deeds {
    /// Bytes it sent while training: rows, gradients of parameters, and numbers of vertices that went with rows.
    pub sent: [u64; 3],
    /// Bytes that it held in the end: its part of the snapshots, buffers, parameters.
    pub memory: u64,
}

/// What all workers did.
#[derive(Clone, Debug, Serialize)]
pub struct Teamwork {
    /// The strategy.
    pub strategy: String,
    /// Where the time went.
    pub summary: Summary,
    /// One for each worker.
    pub workers: Vec<Deeds>,
    /// What the plan said an epoch would send.
    pub planned: u64,
}

/// Looks at nothing: the other workers are not watched.
struct Unwatched;

impl Watch for Unwatched {
    fn window(&mut self, _: &Progress) {}

    fn epoch(&mut self, _: &Line) {}

    fn stop(&self) -> bool {
        false
    }
}

/// What a worker leaves behind when it is done.
struct Left {
    trace: WorkerTrace,
    traffic: Traffic,
    in_flight: [f64; 2],
    memory: u64,
}

fn left(learner: &Learner) -> Left {
    Left {
        trace: learner.team.recorder.trace(),
        traffic: learner.trained,
        in_flight: learner.team.in_flight(),
        memory: learner.held_bytes() as u64,
    }
}

fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Error::settings("--threads", error.to_string()))
}

/// Trains with several workers; every one gets its share of the threads.
pub fn train(
    (first, others, plan): Company,
    position: Position,
    best: Best,
    folder: &mut Option<Folder>,
    watch: &mut dyn Watch,
) -> Result<Ending> {
    let workers = others.len() + 1;
    let threads = (rayon::current_num_threads() / workers).max(1);
    let strategy = first.settings().parallel.strategy.clone();
    let planned = plan.as_ref().map_or(0, Plan::bytes);
    let begun = Instant::now();
    let work =
        move |mut learner: Learner, position, best, folder: &mut Option<Folder>, watch: &mut dyn Watch| {
            // The learner ends with this: who fails is gone at once, and the others do not wait for it.
            pool(threads)?.install(|| {
                let ending = train::train(&mut learner, position, best, folder, watch)?;
                Ok((ending, left(&learner)))
            })
        };
    let done: Vec<Result<(Ending, Left)>> = std::thread::scope(|scope| {
        let (mut threads, mut refused) = (Vec::with_capacity(others.len()), None);
        for other in others {
            let (position, best) = (position.clone(), best.clone());
            let body = move || work(other, position, best, &mut None, &mut Unwatched);
            match std::thread::Builder::new().spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let mine = match refused {
            None => work(first, position, best, folder, watch),
            Some(error) => {
                // Those who run already end when they miss it.
                drop(first);
                let problem =
                    format!("the machine gives no thread to each of {workers}: {error}; choose fewer");
                Err(Error::settings("parallel.workers", problem))
            }
        };
        let panicked =
            |_| Err(kymo_tensor::Error::Peer("a worker has panicked; this is a bug".into()).into());
        std::iter::once(mine)
            .chain(threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)))
            .collect()
    });
    // Those who lost a peer are not the news: the one who failed is.
    let is_peer = |error: &Error| matches!(error, Error::Model(kymo_tensor::Error::Peer(_)));
    let (mut endings, mut errors) = (Vec::new(), Vec::new());
    for result in done {
        match result {
            Ok(done) => endings.push(done),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        let cause = errors.iter().position(|error| !is_peer(error)).unwrap_or(0);
        return Err(errors.swap_remove(cause));
    }
    let (mut first, all): (Vec<Ending>, Vec<Left>) = endings.into_iter().unzip();
    if let Some(folder) = folder {
        for left in &all {
            left.trace.write(folder.path())?;
        }
        let traces: Vec<WorkerTrace> = all.iter().map(|left| left.trace.clone()).collect();
        kymo_trace::chrome::export(&traces, &folder.path().join("trace.json"))?;
    }
    let mut ending = first.swap_remove(0);
    if let Ending::Finished(summary) = &mut ending {
        summary.workers = Some(teamwork(strategy, &all, begun.elapsed(), planned));
    }
    Ok(ending)
}

fn teamwork(strategy: String, all: &[Left], wall: Duration, planned: u64) -> Teamwork {
    let totals: Vec<_> = all.iter().map(|left| (left.trace.worker, left.trace.totals)).collect();
    let mut summary = Summary::new(&totals, wall, None);
    let [in_flight, waited] = [0, 1].map(|index| all.iter().map(|left| left.in_flight[index]).sum::<f64>());
    summary.hidden = (in_flight > 0.0).then(|| (1.0 - waited / in_flight).max(0.0));
    let deeds = |left: &Left| {
        let sent = left.traffic.sent;
        Deeds { sent: [sent.messages, sent.all_reduce, sent.collectives], memory: left.memory }
    };
    Teamwork { strategy, summary, workers: all.iter().map(deeds).collect(), planned }
}

impl fmt::Display for Teamwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary)?;
        let memory: Vec<String> =
            self.workers.iter().map(|deeds| kymo_plan::plan::readable(deeds.memory)).collect();
        write!(f, "memory of each worker {}", memory.join(", "))
    }
}
