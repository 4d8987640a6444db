//! The thread beside a worker: it moves messages while the worker computes, tells others that this one lives,
//! and notices who does not.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::health::Word;
use super::neighbours::{self, Process};
use super::{Shared, lock};
use crate::error::Error;

impl Shared {
    /// What the thread beside the worker does until the end.
    pub(super) fn keep(&self, rank: usize, size: usize) {
        let (mut looked, mut missed) = (Instant::now(), None);
        while !self.ended.load(Ordering::Acquire) {
            // A worker that waits moves messages itself, and two would be in each other's way.
            let under_way = lock(&self.waits).is_none() && self.progress();
            let lost = lock(&self.health).lost();
            if let Some((lost, silence)) = lost {
                self.lose(lost, &format!("has been silent for {:.0} s", silence.as_secs_f64()), rank, size);
            }
            let alarmed = self.alarm.load(Ordering::Relaxed);
            if looked.elapsed() >= if alarmed { neighbours::ALARMED } else { neighbours::LOOK } {
                let dead = self.dead();
                // Not at first sight: its last words may say more.
                if let Some((lost, process)) = dead.filter(|dead| missed == Some(*dead)) {
                    self.lose(lost, &format!("has died: its process {} is gone", process.id), rank, size);
                }
                (looked, missed) = (Instant::now(), dead);
            }
            self.beat();
            std::thread::sleep(self.nap(under_way));
        }
    }

    /// Shows that this worker lives, if it is time for that.
    fn beat(&self) {
        if !lock(&self.health).is_due() {
            return;
        }
        let waits = lock(&self.waits).map(|(from, _)| from);
        // Not with the lock: threads that move messages take the wire first.
        let watched = lock(&self.health).watched();
        watched.for_each(|to| self.say(to, &Word::Beat(waits)));
    }

    /// A worker of this machine that has not done its part, and whose process is gone.
    fn dead(&self) -> Option<(usize, Process)> {
        let neighbours = &self.others.get()?.neighbours;
        let gone = neighbours.iter().filter(|(_, process)| !process.lives());
        gone.copied().find(|&(rank, _)| !lock(&self.health).is_done(rank))
    }

    /// A worker counts as lost, and everybody is told, unless the group is at its end already.
    fn lose(&self, lost: usize, how: &str, rank: usize, size: usize) {
        if self.failed().is_some() {
            return;
        }
        let why = format!("on {} {how}", self.host(lost));
        self.fail(Error::peer(lost, why.clone()));
        for to in (0..size).filter(|&to| to != rank && to != lost) {
            self.say(to, &Word::Lost(lost, 0, why.clone()));
        }
    }

    /// Short while messages are moving, longer where nothing has moved for a while: a look costs the worker
    /// beside it a part of its core.
    fn nap(&self, under_way: bool) -> Duration {
        let moved = Duration::from_nanos(self.moved.load(Ordering::Relaxed));
        match under_way || self.begun.elapsed().saturating_sub(moved) < Duration::from_millis(4) {
            true => Duration::from_micros(200),
            false => Duration::from_millis(2),
        }
    }
}
