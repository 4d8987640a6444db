//! A schedule that is looked for while training goes on (REAL, section 3.3).
//!
//! The search has a thread of its own at the first worker, and windows go on as they were assigned. At the
//! end of each epoch the first worker looks whether there is an answer. It waits for one that is about to
//! come: where the search ends within [`SOON`], and for a twentieth of an epoch in any case, since an epoch
//! by the schedule gains more than that. So where an epoch takes half a second or less, a schedule is
//! followed from the end of the last measured epoch on, as if nothing else could be done meanwhile.
//!
//! Schedulers that do not search ([`Scheduler::is_immediate`]) answer at once, whatever the machine does
//! beside: by their schedules the same run gives the same bits.
//!
//! A run that ends before its search does leaves it to itself: the search ends with its time limit.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use kymo_plan::schedule::{Instance, Limit, Scheduled, find};

use crate::error::{Error, Result};

/// What is waited for at the end of an epoch, if the search ends within it.
const SOON: Duration = Duration::from_secs(1);

/// The part of an epoch that is waited in any case.
const PART: f64 = 0.05;

/// A search that is under way.
pub(super) struct Search {
    /// What the scheduler was asked.
    pub(super) instance: Instance,
    /// When it was asked.
    pub(super) begun: Instant,
    /// When it ends at the latest, counted from there.
    time: Duration,
    answer: Receiver<kymo_plan::Result<Scheduled>>,
}

impl Search {
    /// Asks a scheduler.
    pub(super) fn begin(scheduler: &str, instance: Instance, limit: &Limit) -> Result<Search> {
        let scheduler = find(scheduler)?;
        let (asked, with) = (instance.clone(), limit.clone());
        let search = move || scheduler.schedule(&asked, &with);
        Search::of(search, instance, limit.time, scheduler.is_immediate())
    }

    /// Runs a search that takes this time at most, on the spot or beside what comes next.
    fn of(
        search: impl FnOnce() -> kymo_plan::Result<Scheduled> + Send + 'static,
        instance: Instance,
        time: Duration,
        is_immediate: bool,
    ) -> Result<Search> {
        let begun = Instant::now();
        let (sender, answer) = channel();
        // Nobody listens any more where the run has ended.
        let search = move || drop(sender.send(search()));
        if is_immediate {
            search();
        } else {
            let thread = std::thread::Builder::new().name("schedule".into()).spawn(search);
            thread.map_err(Error::resource("cannot start a thread to", "find a schedule".as_ref()))?;
        }
        Ok(Search { instance, begun, time, answer })
    }

    /// The answer, if it is there or about to come; `epoch` is how many seconds the last epoch took.
    pub(super) fn answer(&self, epoch: f64) -> Result<Option<Scheduled>> {
        let lost = || Error::Bug("the search for a schedule ended without an answer".into());
        let left = self.time.saturating_sub(self.begun.elapsed());
        if left <= SOON {
            return Ok(Some(self.answer.recv().map_err(|_| lost())??));
        }
        match self.answer.recv_timeout(SOON.min(Duration::from_secs_f64(PART * epoch.max(0.0)))) {
            Ok(found) => Ok(Some(found?)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(lost()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance() -> Instance {
        Instance::new((1..=40).map(f64::from).collect(), 3)
    }

    /// A search that waits to be told to end.
    fn slow(time: Duration) -> (Search, std::sync::mpsc::Sender<()>) {
        let (end, wait) = channel();
        let search = move || {
            let _ = wait.recv();
            find("fold")?.schedule(&instance(), &Limit::default())
        };
        (Search::of(search, instance(), time, false).unwrap(), end)
    }

    #[test]
    fn an_answer_that_is_far_off_is_not_waited_for() {
        let (search, end) = slow(Duration::from_secs(3600));
        assert!(search.answer(0.1).unwrap().is_none());
        assert!(search.answer(0.0).unwrap().is_none());
        end.send(()).unwrap();
        let found = std::iter::repeat_with(|| search.answer(10.0).unwrap()).flatten().next().unwrap();
        found.schedule.check(&search.instance).unwrap();
    }

    #[test]
    fn one_that_comes_soon_is() {
        let (search, end) = slow(SOON);
        let sooner = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(60));
            end.send(()).unwrap();
        });
        assert!(search.answer(0.0).unwrap().is_some());
        sooner.join().unwrap();
    }

    #[test]
    fn a_scheduler_that_does_not_search_has_answered_already() {
        let limit = Limit { time: Duration::from_secs(3600), ..Limit::default() };
        let search = Search::begin("blad", instance(), &limit).unwrap();
        assert!(search.answer(0.0).unwrap().is_some());
        assert!(Search::begin("by-luck", instance(), &limit).is_err());
    }

    #[test]
    fn a_search_that_fails_or_breaks_off_is_an_error() {
        let wrong = Instance { workers: 0, ..instance() };
        let search = Search::begin("dygnex-g", wrong, &Limit::default()).unwrap();
        assert!(search.answer(0.0).unwrap_err().to_string().contains("workers"));
        let broken = Search::of(|| panic!("on purpose"), instance(), SOON, false).unwrap();
        assert!(broken.answer(0.0).unwrap_err().to_string().contains("without an answer"));
    }
}
