//! Workers as threads of this process, each with its own share of the threads for computing.

use std::sync::Arc;
use std::time::Instant;

use kymo_plan::Plan;

use super::Launcher;
use super::report::{Reports, Share};
use crate::artifact::{Course, Folder};
use crate::error::{Class, Error, Result};
use crate::schedule::Division;
use crate::step::Worker;
use crate::train::{self, Ending, Observer, Silent};
use crate::workers::WorkerGroup;

/// All workers are threads of this process.
pub struct InProcess(
    /// How many.
    pub usize,
);

impl Launcher for InProcess {
    fn endpoints(&self) -> Result<Vec<Arc<WorkerGroup>>> {
        most_threads(self.0).map_err(|problem| {
            Error::settings("parallel.workers", format!("{problem}; workers are threads of this process"))
        })?;
        Ok(WorkerGroup::in_process(self.0))
    }
}

/// The number of threads, or what is wrong with it: far more than there are cores help nobody, and a system
/// that cannot give a new thread its stack may kill the process instead of refusing it.
pub fn most_threads(threads: usize) -> Result<usize, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = (4 * cores).max(256);
    if threads <= most {
        return Ok(threads);
    }
    let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
    Err(format!("found {threads}, expected at most {most}: this machine has {cores}"))
}

fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Error::settings("--threads", error.to_string()))
}

/// Trains with the workers of this process, of which the first one has the folder and the observer.
pub(super) fn train(
    mut workers: Vec<Worker>,
    division: &Division,
    plan: Option<&Plan>,
    course: Course,
    folder: &mut Option<Folder>,
    observer: &mut dyn Observer,
) -> Result<Ending> {
    let count = workers.len();
    let threads = (rayon::current_num_threads() / count.max(1)).max(1);
    let strategy = workers.first().map(|worker| worker.settings().parallel.strategy.clone());
    let begun = Instant::now();
    let work = move |mut worker: Worker, course, folder: &mut Option<Folder>, observer: &mut dyn Observer| {
        // The worker ends with this: if it fails it is gone at once, and the others do not wait for it.
        pool(threads)?.install(|| {
            let ending = train::train(&mut worker, division, course, folder, observer)?;
            Ok((ending, Share::of(&worker).gathered(&worker.group)?))
        })
    };
    let others = workers.split_off(1.min(count));
    let first = workers.pop().ok_or_else(|| Error::Bug("no worker was started".into()))?;
    let done: Vec<Result<(Ending, Option<Vec<Share>>)>> = std::thread::scope(|scope| {
        let (mut threads, mut refused) = (Vec::with_capacity(others.len()), None);
        for other in others {
            let course = course.clone();
            let body = move || work(other, course, &mut None, &mut Silent);
            match std::thread::Builder::new().spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let mine = match refused {
            None => work(first, course, folder, observer),
            Some(error) => {
                // Those that run already end when they miss it.
                drop(first);
                let problem =
                    format!("the machine gives no thread to each of {count}: {error}; choose fewer");
                Err(Error::settings("parallel.workers", problem))
            }
        };
        let panicked = |_| Err(Error::Bug("a worker has panicked".into()));
        std::iter::once(mine)
            .chain(threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)))
            .collect()
    });
    let (mut endings, mut errors) = (Vec::new(), Vec::new());
    for result in done {
        match result {
            Ok(done) => endings.push(done),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        // Those that lost a peer are not the news: the one that failed is.
        let cause = errors.iter().position(|error| error.class() != Class::Peer).unwrap_or(0);
        return Err(errors.swap_remove(cause));
    }
    let (mut ending, shares) = endings.swap_remove(0);
    // Only the first worker of all has them.
    if let Some(shares) = shares {
        let reports = Reports { strategy: strategy.unwrap_or_default(), shares, wall: begun.elapsed() };
        if let Some(folder) = folder {
            reports.write(folder.path())?;
        }
        if let Ending::Finished(summary) = &mut ending {
            summary.workers = Some(reports.summary(plan.map_or(0, Plan::bytes)));
        }
    }
    Ok(ending)
}
