//! The greedy algorithms as the papers print them, line by line: slow, and nothing but readable.
//!
//! Corrections, without which they cannot run:
//! - chosen groups leave the list, and only the group of no cost may be chosen again: as printed, each search
//!   would find the same pair;
//! - the waste counts the target's own pair, as DyGNeX prints it and REAL's equation 15 says; REAL's line 8
//!   omits it;
//! - DyGNeX initialises `W_i` to infinity where it must be `W_min`, and where nothing is left to pair, the
//!   search ends;
//! - with one group per worker (L = 1) there is nothing to pair: groups run alone, the costliest first.
//!
//! Where the papers are silent: of equal costs the later group comes first in the sorted list; the target's
//! pair goes to the first worker and the others follow as found; the rest runs in falling order of cost.

use kymo_plan::schedule::{Instance, Reuse, Schedule};

/// Where the transcription of REAL-G does as the fast code does, not as printed.
#[derive(Clone, Copy)]
pub struct Departures {
    /// Several pairs are taken of one search.
    pub one_search: bool,
    /// At most 64 evenly spaced targets are tried.
    pub sampled_targets: bool,
    /// Groups that overlap come first, as targets and as pairs, and what is saved is not wasted.
    pub neighbours: bool,
}

impl Departures {
    pub const NONE: Departures = Departures { one_search: false, sampled_targets: false, neighbours: false };
    pub const ALL: Departures = Departures { one_search: true, sampled_targets: true, neighbours: true };
}

/// An entry of the list: a group and its time, or the group of no cost.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time: f64,
    group: Option<usize>,
}

/// `[T, head, tail]`.
#[derive(Clone, Copy)]
struct Pair {
    time: f64,
    head: Entry,
    tail: Entry,
}

/// The list without the groups of a pair; the group of no cost stays.
fn without(list: &[Entry], pair: &Pair) -> Vec<Entry> {
    let chosen =
        |entry: &&Entry| entry.group.is_some() && [pair.head.group, pair.tail.group].contains(&entry.group);
    list.iter().filter(|entry| !chosen(entry)).copied().collect()
}

/// The iteration of these pairs.
fn iteration(pairs: &[Pair], workers: usize) -> Vec<Vec<usize>> {
    let bin = |pair: &Pair| pair.tail.group.into_iter().chain(pair.head.group).collect();
    let mut bins: Vec<Vec<usize>> = pairs.iter().map(bin).collect();
    bins.resize(workers, Vec::new());
    bins
}

/// The groups of a list alone, the costliest first.
fn rest(list: &[Entry], instance: &Instance) -> Vec<Vec<Vec<usize>>> {
    let alone = list.iter().rev().filter_map(|entry| entry.group).map(|group| vec![group]).collect();
    Schedule::from_bins(instance, alone).iterations
}

/// Adds the group of no cost and sorts.
fn preprocess(instance: &Instance) -> Vec<Entry> {
    let entry = |(group, &time)| Entry { time, group: Some(group) };
    let mut list: Vec<Entry> = instance.costs.iter().enumerate().map(entry).rev().collect();
    list.insert(0, Entry { time: 0.0, group: None });
    list.sort_by(|one, other| one.time.total_cmp(&other.time));
    list
}

/// DyGNeX, Algorithm 2 (appendix D; Algorithm 1 is its overview). Numbers are those in the margin of the
/// page.
pub fn dygnex_g(instance: &Instance) -> Schedule {
    // 924: Input G, n, t, i = 1.
    let workers = instance.workers;
    // 925: Output S.
    let mut iterations = Vec::new();
    // 926, 939-942: t = GroupPreProcess(t).
    let mut t = preprocess(instance);
    // 927: while n > G do. The last index is n, since the group of no cost is at 0.
    while t.len() - 1 > workers && instance.most >= 2 {
        let n = t.len() - 1;
        // 928: target_list = GetTargetList(t, n).
        // 943-944: initialise it.
        let mut target_list = Vec::new();
        // 945: add t[n]. This is the pair with the group of no cost, which 946 adds again.
        target_list.push(Pair { time: t[n].time, head: t[0], tail: t[n] });
        // 946: for i = 0 to n - 1 do.
        for i in 0..n {
            // 947-948: add [t[n] + t[i], n, i].
            target_list.push(Pair { time: t[n].time + t[i].time, head: t[i], tail: t[n] });
        }
        // 929: initialise the least waste.
        let mut w_min = f64::INFINITY;
        let mut best = Vec::new();
        // 929: for T_target in target_list do.
        for target in target_list {
            // 930: pair_list = GetGroupPair(T_target[0], G, t, n).
            let pair_list = get_group_pair(&target, workers, &t);
            // 931: W_i = max(max pair_list[j][0], T_target[0]) G - sum pair_list[j][0] - T_target[0].
            let longest = pair_list.iter().map(|pair| pair.time).fold(target.time, f64::max);
            let sum: f64 = pair_list.iter().map(|pair| pair.time).sum();
            let w_i = longest * workers as f64 - sum - target.time;
            // 932-933: if W_i < W_min then W_min = W_i.
            if w_i < w_min {
                w_min = w_i;
                best = [vec![target], pair_list].concat();
            }
        }
        // 935: update n, t, i.
        for pair in &best {
            t = without(&t, pair);
        }
        // 936: record the combination.
        iterations.push(iteration(&best, workers));
    }
    // 937: record the rest.
    iterations.extend(rest(&t, instance));
    // 938: return S.
    Schedule { iterations }
}

/// 950: Function GetGroupPair(T_target, G, t, n).
fn get_group_pair(target: &Pair, workers: usize, t: &[Entry]) -> Vec<Pair> {
    // 951: initialise pair_list.
    let mut pair_list = Vec::new();
    let mut t = without(t, target);
    // 952: while |pair_list| < G - 1 do.
    while pair_list.len() < workers - 1 {
        // 953: head = 0, tail = n.
        let (mut head, mut tail) = (0, t.len() - 1);
        // 954: closest = infinity, best_pair = nothing.
        let mut closest = f64::INFINITY;
        let mut best_pair = None;
        // 955: while head < tail do.
        while head < tail {
            // 956: T_sum = t[head] + t[tail].
            let t_sum = t[head].time + t[tail].time;
            // 957: if |T_sum - T_target| < |closest - T_target| then.
            if (t_sum - target.time).abs() < (closest - target.time).abs() {
                // 957: closest = T_sum.
                closest = t_sum;
                // 958: best_pair = [T_sum, head, tail].
                best_pair = Some(Pair { time: t_sum, head: t[head], tail: t[tail] });
            }
            // 960: if T_sum < T_target then.
            if t_sum < target.time {
                // 961: head = head + 1.
                head += 1;
            // 962: else.
            } else {
                // 963: tail = tail - 1.
                tail -= 1;
            }
        }
        // 964: add best_pair to pair_list.
        let Some(best_pair) = best_pair else { break };
        t = without(&t, &best_pair);
        pair_list.push(best_pair);
    }
    // 965: return pair_list.
    pair_list
}

/// R[i][j] for entries: nothing where one is the group of no cost.
fn saved(reuse: &Reuse, one: &Entry, other: &Entry) -> f64 {
    one.group.zip(other.group).map_or(0.0, |(one, other)| reuse.saved(one, other))
}

/// REAL, Algorithm 1, with the reuse matrix R = `reuse`.
pub fn real_g(instance: &Instance, reuse: &Reuse, departures: Departures) -> Schedule {
    let workers = instance.workers;
    // 1, 13-15: initialise SG = Preprocess(SG), n = |SG|, X = nothing.
    let mut sg = preprocess(instance);
    let mut iterations = Vec::new();
    // 2: while |SG| > D do. The group of no cost does not count.
    while sg.len() - 1 > workers && instance.most >= 2 {
        let n = sg.len() - 1;
        // 3: targets = GetCandidateTargets(SG, R, n).
        // 16-17: initialise targets.
        let mut targets = Vec::new();
        let step = if departures.sampled_targets { n.div_ceil(64) } else { 1 };
        // 18: for i = 0 to n - 1 do.
        for i in (0..n).step_by(step) {
            // 19: add SG[i] + SG[n] - R[i][n].
            let time = sg[i].time + sg[n].time - saved(reuse, &sg[i], &sg[n]);
            targets.push(Pair { time, head: sg[i], tail: sg[n] });
        }
        if departures.neighbours {
            targets.extend(neighbours_of(&sg[n], reuse, &sg));
        }
        // 4: W_min = infinity.
        let mut w_min = f64::INFINITY;
        let mut best = Vec::new();
        // 5: foreach T in targets do.
        for target in targets {
            // 6: pairs = GetPairs(T, R, SG, D, n).
            let first = if departures.neighbours { overlapping(&target, reuse, &sg) } else { Vec::new() };
            let pairs = match departures.one_search {
                true => pairs_of_few_searches(&target, first, reuse, &sg, workers),
                false => get_pairs(&target, reuse, &sg, workers),
            };
            // 7: W = D max_j(pairs[j].T, T).
            let longest = pairs.iter().map(|pair| pair.time).fold(target.time, f64::max);
            let mut w = workers as f64 * longest;
            // 8: W = W - sum pairs[j].T, and the target's own.
            w -= pairs.iter().map(|pair| pair.time).sum::<f64>() + target.time;
            if departures.neighbours {
                let all = [vec![target], pairs.clone()].concat();
                w -= all.iter().map(|pair| saved(reuse, &pair.head, &pair.tail)).sum::<f64>();
            }
            // 9: if W < W_min then W_min = W.
            if w < w_min {
                w_min = w;
                best = [vec![target], pairs].concat();
            }
        }
        // 10: update SG, X.
        for pair in &best {
            sg = without(&sg, pair);
        }
        iterations.push(iteration(&best, workers));
    }
    // 11: record the rest in X.
    iterations.extend(rest(&sg, instance));
    // 12: return X.
    Schedule { iterations }
}

/// 21: Function GetPairs(T, R, SG, D, n).
fn get_pairs(target: &Pair, reuse: &Reuse, sg: &[Entry], workers: usize) -> Vec<Pair> {
    // 22: initialise pairs.
    let mut pairs: Vec<Pair> = Vec::new();
    let mut sg = without(sg, target);
    // 23: while |pairs| < D - 1 do.
    while pairs.len() < workers - 1 {
        // 24: initialise head, tail, best_pair.
        let (mut head, mut tail) = (0, sg.len() - 1);
        let mut best_pair: Option<Pair> = None;
        // 25: while head < tail do.
        while head < tail {
            // 26: T' = SG[head] + SG[tail] - R[head][tail].
            let time = sg[head].time + sg[tail].time - saved(reuse, &sg[head], &sg[tail]);
            // 27: if |T' - T| < |best_pair.T - T| then.
            if best_pair.is_none_or(|best| (time - target.time).abs() < (best.time - target.time).abs()) {
                // 28: best_pair = [T', head, tail].
                best_pair = Some(Pair { time, head: sg[head], tail: sg[tail] });
            }
            // 29: T' < T ? head++ : tail--.
            if time < target.time { head += 1 } else { tail -= 1 }
        }
        // 30: add best_pair to pairs.
        let Some(best_pair) = best_pair else { break };
        sg = without(&sg, &best_pair);
        pairs.push(best_pair);
    }
    // 31: return pairs.
    pairs
}

/// The departure from line 18: targets of a group with every other that it overlaps, the nearest in time
/// first, of two the earlier.
fn neighbours_of(entry: &Entry, reuse: &Reuse, sg: &[Entry]) -> Vec<Pair> {
    let group = entry.group.unwrap();
    let overlaps = |other: &&Entry| saved(reuse, entry, other) > 0.0;
    let mut others: Vec<&Entry> = sg.iter().filter(overlaps).collect();
    others.sort_by_key(|other| (other.group.unwrap().abs_diff(group), other.group));
    let time = |other: &Entry| other.time + entry.time - saved(reuse, other, entry);
    others.into_iter().map(|other| Pair { time: time(other), head: *other, tail: *entry }).collect()
}

/// The departure from line 23: pairs that overlap and miss the target by no more than they save, the nearest
/// first. Of equally near ones those below the target come first, of equal ones below it the later.
fn overlapping(target: &Pair, reuse: &Reuse, sg: &[Entry]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (at, head) in sg.iter().enumerate() {
        for tail in sg[at + 1..].iter().filter(|tail| saved(reuse, head, tail) > 0.0) {
            let time = head.time + tail.time - saved(reuse, head, tail);
            pairs.push(Pair { time, head: *head, tail: *tail });
        }
    }
    let groups = |pair: &Pair| {
        let [one, other] = [pair.head.group, pair.tail.group];
        (one.min(other), one.max(other))
    };
    let order = |one: &Pair, other: &Pair| {
        one.time.total_cmp(&other.time).then_with(|| groups(one).cmp(&groups(other)))
    };
    pairs.sort_by(order);
    let (mut below, above): (Vec<Pair>, Vec<Pair>) =
        pairs.into_iter().partition(|pair| pair.time < target.time);
    below.reverse();
    below.extend(above);
    let miss = |pair: &Pair| (pair.time - target.time).abs();
    below.sort_by(|one, other| miss(one).total_cmp(&miss(other)));
    below.retain(|pair| miss(pair) <= saved(reuse, &pair.head, &pair.tail));
    below
}

/// The departure from lines 23 to 30: every pair that a search meets is kept, and the nearest that are
/// disjoint are taken; of long lists only the 8 D nearest. Only if these are too few, it searches again in
/// what is left. Pairs that come first are taken before any search.
fn pairs_of_few_searches(
    target: &Pair,
    first: Vec<Pair>,
    reuse: &Reuse,
    sg: &[Entry],
    workers: usize,
) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut sg = without(sg, target);
    let mut met = first;
    loop {
        for pair in met {
            let is_left = |entry: &Entry| sg.iter().any(|left| left.group == entry.group);
            if pairs.len() < workers - 1 && is_left(&pair.head) && is_left(&pair.tail) {
                sg = without(&sg, &pair);
                pairs.push(pair);
            }
        }
        let (mut head, mut tail) = (0, sg.len() - 1);
        if pairs.len() == workers - 1 || head == tail {
            return pairs;
        }
        met = Vec::new();
        while head < tail {
            let time = sg[head].time + sg[tail].time - saved(reuse, &sg[head], &sg[tail]);
            met.push(Pair { time, head: sg[head], tail: sg[tail] });
            if time < target.time { head += 1 } else { tail -= 1 }
        }
        let distance = |pair: &Pair| (pair.time - target.time).abs();
        met.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
        if met.len() > 2 * 8 * workers {
            met.truncate(8 * workers);
        }
    }
}
