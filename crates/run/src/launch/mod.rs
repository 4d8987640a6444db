//! How workers start, and what they report in the end. A launcher says which workers this process hosts and
//! how they reach the others; everything else is the same for threads of one process and for one worker a
//! process.

pub(crate) mod agreement;
mod clocks;
mod processes;
mod report;
mod threads;

pub use processes::{Place, Processes};
pub use threads::{InProcess, most_threads};

use std::sync::Arc;

use kymo_plan::Plan;
use kymo_plan::price::Rates;

use crate::artifact::{Course, Folder};
use crate::error::{Error, Result};
use crate::schedule::{Division, Question};
use crate::step::{RunContext, Worker, check_needs};
use crate::train::{self, Ending, Observer};
use crate::workers::WorkerGroup;

/// Says which workers this process hosts.
pub trait Launcher {
    /// Their endpoints, in the order of ranks. The first worker of all is the one that leads.
    fn endpoints(&self) -> Result<Vec<Arc<WorkerGroup>>>;
}

/// The workers of this process, ready to train.
pub struct Crew {
    /// In the order of ranks; at least one.
    pub workers: Vec<Worker>,
    /// How all workers divide the work.
    pub division: Division,
    /// What they will do, where there are several.
    pub plan: Option<Plan>,
}

impl Crew {
    /// The workers at these endpoints; fails where they would need more memory than there is.
    pub fn open(context: Arc<RunContext>, endpoints: Vec<Arc<WorkerGroup>>) -> Result<Crew> {
        let parallel = &context.settings.parallel;
        let size = endpoints.first().map_or(0, |group| group.size());
        if size != parallel.workers {
            let problem = format!("found {}, but {size} were started", parallel.workers);
            return Err(Error::settings("parallel.workers", problem));
        }
        // One worker has everything, whatever the strategy.
        let (division, plan) = match size {
            1 => (Division::Groups, None),
            workers => {
                let strategy = &parallel.strategy;
                let division = Division::new(&context, strategy, workers)?;
                let rates = Rates::default();
                let question = Question { strategy, workers, reuse: None, sample: None, rates };
                let plan = division.plan(&context, &question)?;
                plan.check_memory(context.memory_of_worker()? as u64)?;
                (division, Some(plan))
            }
        };
        let join = |group: Arc<WorkerGroup>| match (division.shares(), &plan) {
            // What it needs is its plan's affair, which was checked.
            (Some(shares), Some(plan)) => {
                let share = &plan.workers[group.rank()];
                Worker::planned(context.clone(), group, shares, share)
            }
            (shares, _) => Worker::join(context.clone(), group, shares),
        };
        if division.shares().is_none() {
            check_needs(&context, context.sharing.workers)?;
        }
        let workers = endpoints.into_iter().map(join).collect::<Result<_>>()?;
        Ok(Crew { workers, division, plan })
    }

    /// The worker that speaks for this process.
    pub fn first(&mut self) -> Result<&mut Worker> {
        self.workers.first_mut().ok_or_else(|| Error::Bug("no worker was started".into()))
    }

    /// Trains and leaves the timelines of all workers in the folder; where there are several, each gets its
    /// share of the threads, and the first one of all has their reports.
    pub fn train(
        self,
        course: Course,
        folder: &mut Option<Folder>,
        observer: &mut dyn Observer,
    ) -> Result<Ending> {
        let Crew { mut workers, division, plan } = self;
        match &mut workers[..] {
            [alone] if alone.group.size() == 1 => {
                let ending = train::train(alone, &division, course, folder, observer)?;
                if let Some(folder) = folder {
                    report::write_timelines(&[alone.group.recorder.trace()], folder.path())?;
                }
                Ok(ending)
            }
            _ => threads::train(workers, &division, plan.as_ref(), course, folder, observer),
        }
    }
}
