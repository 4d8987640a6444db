//! Where messages wait for a worker.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::waiting::{Patience, Roll, lock};
use crate::Tag;
use crate::error::Result;

type Queue = VecDeque<Vec<f32>>;

#[derive(Default)]
struct Content {
    /// Queues that hold something. A tag may be used only once, so empty ones are not kept here.
    queues: HashMap<(usize, Tag), Queue>,
    /// Empty queues, to be used again.
    spare: Vec<Queue>,
    sleepers: usize,
}

impl Content {
    fn take(&mut self, from: usize, tag: Tag) -> Option<Vec<f32>> {
        let queue = self.queues.get_mut(&(from, tag))?;
        let message = queue.pop_front();
        if queue.is_empty() {
            self.spare.extend(self.queues.remove(&(from, tag)));
        }
        message
    }
}

/// One worker's messages, in order for each sender and tag.
#[derive(Default)]
pub(super) struct Mailbox {
    content: Mutex<Content>,
    arrived: Condvar,
    /// Grows with everything that may end a wait; looked at without the lock.
    news: AtomicU64,
}

impl Mailbox {
    pub(super) fn put(&self, from: usize, tag: Tag, message: Vec<f32>) {
        let mut content = lock(&self.content);
        let Content { queues, spare, .. } = &mut *content;
        queues.entry((from, tag)).or_insert_with(|| spare.pop().unwrap_or_default()).push_back(message);
        self.announce(&content);
    }

    /// Wakes all that wait, because a worker has gone.
    pub(super) fn wake(&self) {
        self.announce(&lock(&self.content));
    }

    /// Waking is a call of the operating system, made only where a thread sleeps.
    fn announce(&self, content: &Content) {
        self.news.fetch_add(1, Ordering::Release);
        if content.sleepers > 0 {
            self.arrived.notify_all();
        }
    }

    /// The next message if it is there; an error if it can never come.
    pub(super) fn try_take(&self, from: usize, tag: Tag, roll: &Roll) -> Result<Option<Vec<f32>>> {
        self.look(&mut lock(&self.content), from, tag, roll)
    }

    /// Waits for the next message.
    pub(super) fn take(&self, from: usize, tag: Tag, roll: &Roll, patience: &Patience) -> Result<Vec<f32>> {
        let before = self.news.load(Ordering::Acquire);
        if let Some(message) = self.try_take(from, tag, roll)? {
            return Ok(message);
        }
        patience.look(|| self.news.load(Ordering::Acquire) != before);
        let mut content = lock(&self.content);
        loop {
            if let Some(message) = self.look(&mut content, from, tag, roll)? {
                return Ok(message);
            }
            content.sleepers += 1;
            content = self.arrived.wait(content).unwrap_or_else(PoisonError::into_inner);
            content.sleepers -= 1;
        }
    }

    /// Under the lock, a sender that has gone and a queue that is empty mean that nothing will come: it put
    /// its last message here before it went.
    fn look(&self, content: &mut Content, from: usize, tag: Tag, roll: &Roll) -> Result<Option<Vec<f32>>> {
        match content.take(from, tag) {
            None if roll.has_gone(from) => {
                Err(roll.error(from, format_args!("a message with tag {}", tag.0)))
            }
            message => Ok(message),
        }
    }
}
