//! The door to METIS: multilevel k-way partitioning (Karypis and Kumar, "A fast and high quality multilevel
//! scheme for partitioning irregular graphs", SIAM J. Sci. Comput. 1998).
//!
//! METIS draws from the random sequence of the C library, which is one for the whole process: two calls at
//! the same time would disturb each other's, so they wait for each other. It prints to standard output when
//! it gets more parts than vertices; it is not asked then.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;

use ::metis::{Graph, Idx, option};

use super::links::Links;
use super::runs;
use crate::error::{Error, Result};
use crate::layout::Worker;
use crate::random::mix;

/// Sums of weights stay below this, and so do their sums with the roundings up: METIS counts with 32 bits.
const LARGEST_SUM: u64 = 1 << 30;

/// METIS is called by one thread at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// The part of each vertex that is linked to another; balanced by `loads` (one for every vertex), cutting few
/// links.
pub(super) fn parts(links: &Links, loads: &[u64], workers: usize, seed: u64) -> Result<Vec<Option<Worker>>> {
    // METIS sees linked vertices only: it has no use for the others, and they can be assigned better
    // afterwards.
    let mut degrees: Vec<u32> = vec![0; loads.len()];
    for pair in &links.pairs {
        degrees[pair.source() as usize] += 1;
        degrees[pair.target() as usize] += 1;
    }
    let linked: Vec<usize> = (0..loads.len()).filter(|&vertex| degrees[vertex] > 0).collect();
    // A vertex above a fair share fills a worker in any case; its true weight would leave METIS with parts of
    // no vertex.
    let share = linked.iter().map(|&vertex| loads[vertex]).sum::<u64>() / workers as u64;
    let weights: Vec<u64> = linked.iter().map(|&vertex| loads[vertex].min(share)).collect();
    let found = if workers == 1 {
        vec![0; linked.len()]
    } else if linked.len() <= FEWEST * workers {
        runs::owners(&weights, workers)
    } else {
        let failed = |answer: String| Error::Metis {
            vertices: linked.len(),
            links: links.pairs.len(),
            workers,
            answer,
        };
        if 2 * links.pairs.len() as u64 >= LARGEST_SUM {
            return Err(failed("that is more than it can count".into()));
        }
        call(links, &degrees, &linked, &weights, workers, seed).map_err(failed)?
    };
    let mut parts = vec![None; loads.len()];
    linked.iter().zip(found).for_each(|(&vertex, part)| parts[vertex] = Some(part));
    Ok(parts)
}

/// Vertices a part, below which a graph is cut into runs of consecutive vertices instead.
const FEWEST: usize = 2;

fn call(
    links: &Links,
    degrees: &[u32],
    linked: &[usize],
    weights: &[u64],
    workers: usize,
    seed: u64,
) -> Result<Vec<Worker>, String> {
    let mut numbers: Vec<Idx> = vec![0; degrees.len()];
    let mut starts: Vec<Idx> = vec![0];
    let mut next: Vec<usize> = vec![0; degrees.len()];
    let mut end = 0;
    for (number, &vertex) in linked.iter().enumerate() {
        numbers[vertex] = number as Idx;
        next[vertex] = end;
        end += degrees[vertex] as usize;
        starts.push(end as Idx);
    }
    let scale = fitting(links.weights.iter().map(|&weight| 2 * u64::from(weight)).sum());
    let (mut neighbours, mut costs): (Vec<Idx>, Vec<Idx>) = (vec![0; end], vec![0; end]);
    for (pair, &weight) in links.pairs.iter().zip(&links.weights) {
        let (low, high) = (pair.source() as usize, pair.target() as usize);
        for (vertex, other) in [(low, high), (high, low)] {
            neighbours[next[vertex]] = numbers[other];
            costs[next[vertex]] = scale(weight.into());
            next[vertex] += 1;
        }
    }
    let scale = fitting(weights.iter().sum());
    let weights: Vec<Idx> = weights.iter().map(|&weight| scale(weight)).collect();
    let mut parts: Vec<Idx> = vec![0; linked.len()];
    // A panic while it is held leaves nothing half done.
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Graph::new(1, workers as Idx, &starts, &neighbours)
        .map_err(|error| error.to_string())?
        .set_vwgt(&weights)
        .set_adjwgt(&costs)
        // Never -1, which stands for the library's own choice.
        .set_option(option::Seed((mix(seed) >> 33) as Idx))
        .part_kway(&mut parts)
        .map_err(|error| error.to_string())?;
    Ok(parts.into_iter().map(|part| part as Worker).collect())
}

/// Makes weights of this sum small enough to be added up; 1 at least, so that nothing weighs nothing.
fn fitting(sum: u64) -> impl Fn(u64) -> Idx {
    move |weight| {
        let scaled = u128::from(weight) * u128::from(LARGEST_SUM) / u128::from(sum.max(LARGEST_SUM));
        (scaled as Idx).max(1)
    }
}

/// Gives those without a part to the worker with the least load, one after the other; those that load nobody,
/// because they are never present, in turns.
pub(super) fn deal_rest(parts: Vec<Option<Worker>>, loads: &[u64], workers: usize) -> Vec<Worker> {
    let mut sums = vec![0; workers];
    for (part, load) in parts.iter().zip(loads) {
        if let Some(part) = part {
            sums[*part as usize] += load;
        }
    }
    let mut lightest: BinaryHeap<Reverse<(u64, Worker)>> =
        sums.into_iter().zip(0..).map(|(sum, worker)| Reverse((sum, worker))).collect();
    let mut turns = (0..workers as Worker).cycle();
    let deal = |(part, load): (Option<Worker>, &u64)| {
        part.or_else(|| {
            if *load == 0 {
                return turns.next();
            }
            let mut top = lightest.peek_mut()?;
            top.0.0 += load;
            Some(top.0.1)
        })
        .unwrap_or(0)
    };
    parts.into_iter().zip(loads).map(deal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_made_to_fit_and_never_vanish() {
        let same = fitting(100);
        assert_eq!((same(0), same(1), same(99)), (1, 1, 99));
        let smaller = fitting(1 << 40);
        assert_eq!((smaller(1), smaller(1 << 39)), (1, 1 << 29));
    }

    #[test]
    fn those_without_a_part_even_out_the_loads() {
        let parts = vec![Some(1), None, None, Some(1), None];
        assert_eq!(deal_rest(parts, &[3, 2, 2, 1, 9], 2), [1, 0, 0, 1, 0]);
        assert_eq!(deal_rest(vec![None; 5], &[0, 4, 0, 1, 0], 2), [0, 0, 1, 1, 0]);
    }
}
