//! The course of readers: which step each of them reads next.
//!
//! A step is reached from the one before with the least work, and from the nearest that is stored whole if
//! need be. Where all steps stay once they were read, readers divide the whole course of time among them;
//! where they do not, each takes the steps of a window that comes soon.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use kymo_graph::Step;

use super::snapshots::{Key, Shared, State};

impl Shared {
    /// Whether readers follow the course of time, because all steps will stay.
    pub(super) fn follows_time(&self) -> bool {
        self.room.holds_all && self.cells.is_none()
    }

    /// Of each step, the nearest one before that is stored whole: the fewer steps lie between, the less there
    /// is to do for one who begins.
    fn beginning(&self) -> &[Step] {
        self.beginning.get_or_init(|| {
            let mut latest = 0;
            let each = |t: Step| {
                // What cannot be read will be found out by those who read it.
                latest = if self.store.is_whole(t).unwrap_or(true) { t } else { latest };
                latest
            };
            (0..self.store.steps()).map(each).collect()
        })
    }

    /// The steps that are stored whole: who begins there and goes on in the order of time has no more to do
    /// than there is. Those whose followers are needed first come first.
    pub(super) fn beginnings(&self, state: &State) -> VecDeque<Step> {
        let (mut found, mut known) = (VecDeque::new(), BTreeSet::new());
        if self.follows_time() {
            let missing = |t: &Step| state.get(&(*t, None)).is_none();
            for t in state.next.iter().flat_map(Clone::clone).filter(missing) {
                let beginning = self.beginning()[t];
                if known.insert(beginning) {
                    found.push_back(beginning);
                }
            }
        }
        found
    }

    /// The next step that a reader should read, if there is room for it. Where all steps will stay it is the
    /// one behind the step it read `last`, or one that is good to begin at; else one of the window it is
    /// `on`, whose step before is the nearest to come from, or of one that no other reader has taken.
    pub(super) fn wish(
        &self,
        state: &mut State,
        last: Option<Step>,
        on: Option<&Range<Step>>,
    ) -> Option<(Step, Range<Step>)> {
        if self.follows_time() {
            let is_waiting = |state: &State, t: Step| {
                state.get(&(t, None)).is_none() && !state.reading.contains(&(t, None))
            };
            let wanted = |state: &State, t: Step| {
                let window = || state.next.iter().find(|window| window.contains(&t)).cloned();
                is_waiting(state, t).then(window).flatten()
            };
            let first = |state: &State, mut steps: Range<Step>| {
                steps.find_map(|t| wanted(state, t).map(|window| (t, window)))
            };
            if let Some(found) = last.and_then(|last| first(state, last + 1..last + 2)) {
                return Some(found);
            }
            while let Some(beginning) = state.beginnings.pop_front() {
                let end = self.beginning().partition_point(|&other| other <= beginning);
                if let Some(found) = first(state, beginning..end) {
                    return Some(found);
                }
            }
        }
        let state = &*state;
        let waiting = |key: &Key| state.get(key).is_none() && !state.reading.contains(key);
        let (mut free, mut taken, mut beyond) = (None, None, 0);
        'windows: for window in state.next.iter().take(self.room.windows) {
            for t in window.clone() {
                let key = self.key(t, window).0;
                if waiting(&key) {
                    // What will not be kept may take the room of the steps ahead, and no more.
                    let room = self.room.step * (1 + state.reading.len());
                    let fits = !state.is_full && self.budget.left() >= room;
                    if !(fits || beyond < self.room.ahead) {
                        break 'windows;
                    }
                    if on == Some(window) {
                        return Some((t, window.clone()));
                    }
                    let place = if state.taken.contains(window) { &mut taken } else { &mut free };
                    let is_nearer = |&(other, _): &(Step, Range<Step>)| {
                        self.follows_time() && t - self.beginning()[t] < other - self.beginning()[other]
                    };
                    if place.as_ref().is_none_or(is_nearer) {
                        *place = Some((t, window.clone()));
                    }
                }
                beyond += usize::from(!state.kept.contains_key(&key) && !state.now.contains(&key));
            }
        }
        free.or(taken)
    }
}
