//! METIS on each snapshot by itself: the baseline "Metis-layer" of DistDy (section 5.1).
//!
//! METIS numbers parts as it likes, so the parts of a step are renamed to overlap most with those of the step
//! before: else nearly every vertex would move at every step. A vertex without links at a step stays where it
//! was, as nothing would be gained by moving it.

use std::sync::Arc;

use kymo_graph::Step;

use super::links::Links;
use super::{Ask, Partition, Partitioner, multilevel};
use crate::cut::vertex_loads;
use crate::error::Result;
use crate::layout::{Layout, Worker};

/// METIS on each snapshot.
pub(super) struct MetisLayer;

impl Partitioner for MetisLayer {
    fn name(&self) -> &'static str {
        "metis-layer"
    }

    fn about(&self) -> &'static str {
        "METIS on each snapshot by itself, parts renamed so that few vertices move"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let Ask { store, workers, seed, .. } = *ask;
        let looked = |step: Step| ask.effort.looked.is_none_or(|looked| looked.binary_search(&step).is_ok());
        // As if all had the links of a step on average.
        let cuts = (0..store.steps()).filter(|&step| looked(step)).count() as u64;
        let mean = store.manifest().edges / store.manifest().steps.max(1);
        if let Some(other) = ask.instead_of_metis(cuts.saturating_mul(mean))? {
            return Ok(other);
        }
        let (mut steps, mut leading): (Vec<Arc<Vec<Worker>>>, usize) = (Vec::new(), 0);
        for step in 0..store.steps() {
            let links = match looked(step) {
                true => Links::of(&store.snapshot(step)?),
                false => Links::default(),
            };
            let owners = match steps.last() {
                Some(last) if links.pairs.is_empty() => Arc::clone(last),
                None if links.pairs.is_empty() => {
                    leading += 1;
                    continue;
                }
                before => {
                    let loads = vertex_loads(store, [step], ask.presence)?;
                    let mut parts = multilevel::parts(&links, &loads, workers, seed)?;
                    if let Some(before) = before {
                        rename(&mut parts, before, workers);
                        parts.iter_mut().zip(before.iter()).for_each(|(part, &owner)| {
                            part.get_or_insert(owner);
                        });
                    }
                    Arc::new(multilevel::deal_rest(parts, &loads, workers))
                }
            };
            steps.push(owners);
        }
        // Steps before the first link are as the first with one, so that nothing moves between them.
        let first = match steps.first() {
            Some(first) => Arc::clone(first),
            None => {
                Arc::new(multilevel::deal_rest(vec![None; store.vertices()], &ask.vertex_loads()?, workers))
            }
        };
        let all = std::iter::repeat_n(first, leading).chain(steps);
        Ok(Layout::by_shared_cell(workers, all)?.into())
    }
}

/// Renames parts so that each overlaps an owner before: the largest overlap first, among those whose two
/// names are free.
fn rename(parts: &mut [Option<Worker>], before: &[Worker], workers: usize) {
    let mut both: Vec<(Worker, Worker)> =
        parts.iter().zip(before).filter_map(|(part, &owner)| part.map(|part| (part, owner))).collect();
    both.sort_unstable();
    let mut overlaps: Vec<(usize, (Worker, Worker))> =
        both.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0])).collect();
    overlaps.sort_by_key(|&(size, names)| (std::cmp::Reverse(size), names));
    let (mut names, mut taken) = (vec![None; workers], vec![false; workers]);
    for (_, (part, owner)) in overlaps {
        if names[part as usize].is_none() && !taken[owner as usize] {
            names[part as usize] = Some(owner);
            taken[owner as usize] = true;
        }
    }
    let mut free = (0..workers as Worker).filter(|&owner| !taken[owner as usize]);
    // There are as many free names as parts without one.
    let names: Vec<Worker> =
        names.into_iter().map(|name| name.or_else(|| free.next()).unwrap_or(0)).collect();
    parts.iter_mut().flatten().for_each(|part| *part = names[*part as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_after_those_they_overlap_most() {
        let mut parts: Vec<Option<Worker>> = [2, 2, 2, 0, 0, 1, 1].into_iter().map(Some).collect();
        parts.push(None);
        rename(&mut parts, &[0, 0, 1, 1, 1, 2, 2, 0], 3);
        let expected: Vec<Option<Worker>> =
            [0, 0, 0, 1, 1, 2, 2].into_iter().map(Some).chain([None]).collect();
        assert_eq!(parts, expected);
    }

    #[test]
    fn two_parts_never_get_the_same_name() {
        let mut parts = vec![Some(0), Some(1), Some(2)];
        rename(&mut parts, &[1, 1, 1], 3);
        parts.sort_unstable();
        assert_eq!(parts, [Some(0), Some(1), Some(2)]);
    }
}
