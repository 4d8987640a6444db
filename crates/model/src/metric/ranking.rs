//! Ranking scores: their order, and how many fall at and between given ones.
//!
//! Whatever ranks links against many other pairs asks how those pairs lie between the links. Counting them is
//! exact and needs no memory for them, and counts are whole numbers: they do not depend on who counted what.

use rayon::prelude::*;

use super::Evidence;

/// A number that orders as the score does: equal scores have equal keys, and what is not a number is below
/// all others.
#[inline]
pub(super) fn key(score: f32) -> u32 {
    if score.is_nan() {
        return 0;
    }
    // Adding zero turns the negative zero into the positive one, which it equals.
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// Buckets of the table that begins a search. They follow the upper bits of the keys, that is the exponent
/// and the first digits, so that scores of any scale spread over them.
const BUCKETS: u32 = 16;

/// Levels below which a plain search is as fast.
const FEW: usize = 64;

/// Scores counted by one thread at a time.
const PIECE: usize = 1 << 14;

/// Distinct scores, ascending, to count others by.
///
/// A count has an odd place for every level and an even one below, between and above them: place `2 i + 1` is
/// for scores equal to level `i`, place `2 i` for those between it and the level before.
pub(super) struct Thresholds {
    levels: Vec<u32>,
    /// How many levels lie before each bucket; empty where levels are few.
    table: Vec<u32>,
    shift: u32,
}

impl Thresholds {
    /// The levels of these scores.
    pub(super) fn new(scores: &[f32]) -> Thresholds {
        let mut levels: Vec<u32> = scores.iter().map(|&score| key(score)).collect();
        levels.par_sort_unstable();
        levels.dedup();
        let (mut table, mut shift) = (Vec::new(), 0);
        if let (Some(low), Some(high), true) = (levels.first(), levels.last(), levels.len() > FEW) {
            let range = high - low;
            shift = (u32::BITS - range.leading_zeros()).saturating_sub(BUCKETS);
            let mut before = 0;
            for bucket in 0..=range >> shift {
                before += levels[before..].partition_point(|level| (level - low) >> shift < bucket);
                table.push(before as u32);
            }
            table.push(levels.len() as u32);
        }
        Thresholds { levels, table, shift }
    }

    /// How many places a count has.
    pub(super) fn places(&self) -> usize {
        2 * self.levels.len() + 1
    }

    /// The place of a score in a count.
    #[inline]
    fn place(&self, score: f32) -> usize {
        let key = key(score);
        let (Some(&low), Some(&high)) = (self.levels.first(), self.levels.last()) else { return 0 };
        if key < low {
            return 0;
        }
        if key > high {
            return 2 * self.levels.len();
        }
        let range = match self.table.is_empty() {
            true => 0..self.levels.len(),
            false => {
                let bucket = ((key - low) >> self.shift) as usize;
                self.table[bucket] as usize..self.table[bucket + 1] as usize
            }
        };
        let at = range.start + self.levels[range].partition_point(|&level| level < key);
        2 * at + usize::from(self.levels[at] == key)
    }

    /// Adds these scores to a count.
    pub(super) fn add(&self, counts: &mut [u64], scores: &[f32]) {
        // Vertices without edges have equal scores, one after the other.
        for equal in scores.chunk_by(|a, b| a == b) {
            counts[self.place(equal[0])] += equal.len() as u64;
        }
    }

    /// The count of these scores.
    pub(super) fn count(&self, scores: &[f32]) -> Vec<u64> {
        let none = || vec![0; self.places()];
        let piece = |mut counts: Vec<u64>, piece: &[f32]| {
            self.add(&mut counts, piece);
            counts
        };
        scores.par_chunks(PIECE).fold(none, piece).reduce(none, sum)
    }
}

/// Two counts as one.
pub(super) fn sum(mut counts: Vec<u64>, others: Vec<u64>) -> Vec<u64> {
    counts.iter_mut().zip(&others).for_each(|(count, other)| *count += other);
    counts
}

/// Average precision, given the counts of the scores of links and of all scores by the levels of the links.
///
/// From the highest score down, every level adds the precision so far times the recall it gains. Equal scores
/// are one threshold, as in scikit-learn; scores between levels gain no recall, so where exactly they lie
/// does not matter.
pub(super) fn average_precision(links: &[u64], all: &[u64]) -> f64 {
    let (mut hits, mut shown, mut sum) = (0, 0, 0.0);
    for (&links, &all) in links.iter().zip(all).rev() {
        hits += links;
        shown += all;
        if links > 0 {
            sum += links as f64 * (hits as f64 / shown as f64);
        }
    }
    sum / hits as f64
}

/// Numbers that a thread holds of all pairs at a time, unless a row has more.
const HELD: usize = 1 << 20;

/// Sources whose rows are requested together, at most: they can share what they have in common.
const TOGETHER: usize = 16;

/// How many sources are requested together, by the number of vertices.
pub(super) fn together(vertices: usize) -> usize {
    (HELD / vertices.max(1)).clamp(1, TOGETHER)
}

/// What `judge` makes of the targets and the scores of each source that has links; for evidence of all pairs.
pub(super) fn each_source<T: Send>(
    (vertices, starts, targets): (usize, &[usize], &[u32]),
    scores: &(dyn Fn(&[u32], &mut [f32]) + Sync),
    judge: impl Fn(&[u32], &[f32]) -> T + Sync,
) -> Vec<T> {
    let rows = (0..).zip(starts.windows(2)).map(|(source, pair)| (source, &targets[pair[0]..pair[1]]));
    let with_links: Vec<(u32, &[u32])> = rows.filter(|(_, targets)| !targets.is_empty()).collect();
    let together = together(vertices);
    let judge_some = |rows: &mut Vec<f32>, some: &[(u32, &[u32])]| -> Vec<T> {
        let sources: Vec<u32> = some.iter().map(|(source, _)| *source).collect();
        scores(&sources, &mut rows[..sources.len() * vertices]);
        some.iter().zip(rows.chunks_exact(vertices)).map(|((_, targets), row)| judge(targets, row)).collect()
    };
    let room = || vec![0.0; together * vertices];
    let judged: Vec<Vec<T>> = with_links.par_chunks(together).map_init(room, judge_some).collect();
    judged.into_iter().flatten().collect()
}

/// A sampled step: links, and the pairs of each of them.
#[derive(Clone, Copy)]
pub(super) struct Sampled<'a> {
    pub(super) present: &'a [f32],
    pub(super) absent: &'a [f32],
    starts: &'a [usize],
}

impl<'a> Sampled<'a> {
    /// What a step shows; `None` where it is of another kind or has no link.
    pub(super) fn of(step: &Evidence<'a>) -> Option<Sampled<'a>> {
        let Evidence::Sampled { present, starts, absent } = *step else { return None };
        (!present.is_empty()).then_some(Sampled { present, absent, starts })
    }

    /// The scores of the pairs of a link.
    pub(super) fn pairs(&self, link: usize) -> &'a [f32] {
        let range = self.starts.get(link..link + 2).map_or(0..0, |range| range[0]..range[1]);
        self.absent.get(range).unwrap_or_default()
    }
}

/// Scores of single sources as metrics ask for them.
#[cfg(test)]
pub(super) fn of_each(row: impl Fn(u32, &mut [f32]) + Sync) -> impl Fn(&[u32], &mut [f32]) + Sync {
    move |sources, rows| {
        let length = rows.len() / sources.len();
        sources.iter().zip(rows.chunks_exact_mut(length)).for_each(|(&source, out)| row(source, out));
    }
}

/// Scores with many ties and with extremes.
#[cfg(test)]
pub(super) fn any_score() -> impl proptest::strategy::Strategy<Value = f32> {
    use proptest::prelude::*;
    let special = prop_oneof![Just(f32::INFINITY), Just(f32::NEG_INFINITY), Just(-0.0f32)];
    prop_oneof![6 => (-4i32..4).prop_map(|step| step as f32 / 4.0), 3 => -1.0f32..1.0, 1 => special]
}

/// The plain order of scores: what is not a number is below all others and equal to its like.
#[cfg(test)]
pub(super) fn compare(a: f32, b: f32) -> std::cmp::Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition of a count.
    fn plain(levels: &[f32], scores: &[f32]) -> Vec<u64> {
        let mut distinct = levels.to_vec();
        distinct.sort_by(|a, b| compare(*a, *b));
        distinct.dedup_by(|a, b| compare(*a, *b).is_eq());
        let mut counts = vec![0; 2 * distinct.len() + 1];
        for &score in scores {
            let below = distinct.iter().filter(|&&level| compare(level, score).is_lt()).count();
            let equal = distinct.iter().any(|&level| compare(level, score).is_eq());
            counts[2 * below + usize::from(equal)] += 1;
        }
        counts
    }

    proptest! {
        #[test]
        fn keys_order_as_scores_do(a in any_score(), b in any_score()) {
            prop_assert_eq!(key(a).cmp(&key(b)), compare(a, b));
        }

        #[test]
        fn counts_are_those_of_the_definition(
            levels in prop::collection::vec(any_score(), 0..20),
            scores in prop::collection::vec(any_score(), 0..40),
        ) {
            prop_assert_eq!(Thresholds::new(&levels).count(&scores), plain(&levels, &scores));
        }

        #[test]
        fn many_levels_are_found_by_the_table(
            levels in prop::collection::vec(prop_oneof![any_score(), -1e-3f32..1e3, Just(0.75)], 150..300),
            scores in prop::collection::vec(prop_oneof![any_score(), -1e3f32..1e3], 0..100),
        ) {
            // Enough distinct ones whatever was drawn.
            let levels = [levels, (0..2 * FEW).map(|i| i as f32 * 0.37).collect()].concat();
            let thresholds = Thresholds::new(&levels);
            prop_assert!(!thresholds.table.is_empty());
            let scores = [&scores[..], &levels].concat();
            prop_assert_eq!(thresholds.count(&scores), plain(&levels, &scores));
        }
    }

    #[test]
    fn counts_do_not_depend_on_threads() {
        let scores: Vec<f32> = (0..100_000u32).map(|i| (i.wrapping_mul(2654435761) >> 20) as f32).collect();
        let thresholds = Thresholds::new(&scores[..500]);
        let mut alone = vec![0; thresholds.places()];
        thresholds.add(&mut alone, &scores);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| thresholds.count(&scores)), alone);
        }
    }
}
