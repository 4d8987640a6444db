//! Every way to fill bins, for a handful of groups.
//!
//! Sorting and cutting is the best use of fixed bins ([`Schedule::from_bins`]), so only the bins are
//! searched: each group joins a bin that has room, or opens one. Twelve groups in pairs are 140,152 ways.

use super::fold::cut_seconds;
use super::instance::Instance;
use super::reuse::Reuse;
use super::timetable::Schedule;

/// The fastest schedule, where the instance is small enough to try everything.
pub(super) fn fastest(instance: &Instance) -> Option<Schedule> {
    // With three groups in a bin and reuse, the order within the bin would have to be searched too.
    let ordered = instance.most <= 2 || instance.reuse == Reuse::None;
    let few = if instance.most <= 2 { 12 } else { 9 };
    if !ordered || instance.groups() > few {
        return None;
    }
    let mut search = Search { instance, bins: Vec::new(), best: f64::INFINITY, best_bins: Vec::new() };
    search.place(0);
    Some(Schedule::from_bins(instance, search.best_bins))
}

struct Search<'a> {
    instance: &'a Instance,
    bins: Vec<Vec<usize>>,
    best: f64,
    best_bins: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn place(&mut self, group: usize) {
        if group == self.instance.groups() {
            let loads = self.bins.iter().map(|bin| self.instance.load(bin)).collect();
            let seconds = cut_seconds(self.instance, loads);
            if seconds < self.best {
                self.best = seconds;
                self.best_bins.clone_from(&self.bins);
            }
            return;
        }
        for bin in 0..self.bins.len() {
            if self.bins[bin].len() < self.instance.most {
                self.bins[bin].push(group);
                self.place(group + 1);
                self.bins[bin].pop();
            }
        }
        self.bins.push(vec![group]);
        self.place(group + 1);
        self.bins.pop();
    }
}
