//! A part of a snapshot: the rows of some vertices, made of the edges at them.

use std::sync::Arc;

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Error, Result};

use super::rows::ones;
use super::weighted::{Weighted, share};
use super::{Graph, OwnRows};

/// What a part of a snapshot has to know of the rest.
pub(super) struct Part {
    /// The vertex of each column: those of the rows, then those beyond.
    pub vertices: Vec<u32>,
    /// Of each column, the weight that comes in, a loop included.
    pub degrees: Vec<f32>,
    /// The rows of both walks, where they are wanted.
    pub walks: Option<[Weighted; 2]>,
}

/// The edges that a part is made of.
pub struct PartEdges<'e, E> {
    /// Source, target and weight of each edge, by target and then by source: all that lead to own vertices or
    /// leave them, and all loops. All edges of the snapshot where some have weights: degrees are sums in the
    /// order of edges.
    pub edges: E,
    /// Whether there are weights.
    pub has_weights: bool,
    /// Of each vertex of the snapshot, how many edges lead to it and how many leave it.
    pub degrees: (&'e [u32], &'e [u32]),
}

impl Graph {
    /// The part with the rows of `own`, which ascend, and of their neighbours `beyond`; with both random
    /// walks where `walks`, and then `beyond` has to hold the neighbours in both directions.
    pub fn part<E>(own: &[u32], beyond: &[u32], walks: bool, part: PartEdges<'_, E>) -> Result<Graph>
    where
        E: Iterator<Item = (u32, u32, f32)> + Clone,
    {
        let PartEdges { edges, has_weights, degrees: (inward, outward) } = part;
        let vertices: Vec<u32> = own.iter().chain(beyond).copied().collect();
        let mut columns = vec![u32::MAX; inward.len()];
        for (column, &vertex) in (0..).zip(&vertices) {
            let slot = columns.get_mut(vertex as usize);
            *slot.ok_or_else(|| Error::settings("graph", "a part has a vertex that does not exist"))? =
                column;
        }
        let column = |vertex: u32| columns[vertex as usize];
        let lacks = || Error::settings("graph", "a part lacks a neighbour of its vertices");
        // Counted first: arrays that double as they grow would take more than was planned.
        let is_own = |(_, target, _): &(u32, u32, f32)| (column(*target) as usize) < own.len();
        let count = edges.clone().filter(is_own).count();
        let mut starts = Vec::with_capacity(own.len() + 1);
        let mut sources = Vec::with_capacity(count);
        let mut weights = Vec::with_capacity(if has_weights { count } else { 0 });
        starts.push(0);
        for (source, target, weight) in edges.clone() {
            let row = column(target) as usize;
            if row < own.len() {
                starts.resize(row + 1, sources.len() as u64);
                sources.push(column(source));
                weights.extend(has_weights.then_some(weight));
            }
        }
        starts.resize(own.len() + 1, sources.len() as u64);
        if sources.contains(&u32::MAX) {
            return Err(lacks());
        }
        let weights = has_weights.then_some(weights);
        let walks = match walks {
            true => {
                let sums = |counts: &[u32], end: fn(u32, u32) -> u32| match has_weights {
                    true => summed(&columns, vertices.len(), &edges, end),
                    false => vertices.iter().map(|&vertex| ones(counts[vertex as usize].into())).collect(),
                };
                let leave: Vec<f32> = sums(outward, |source, _| source);
                let arrive: Vec<f32> = sums(inward, |_, target| target);
                let weight = |index: usize| weights.as_ref().map_or(1.0, |weights| weights[index]);
                let along = sources.iter().enumerate();
                let along: Vec<f32> =
                    along.map(|(index, &source)| share(weight(index), leave[source as usize])).collect();
                let pattern = Pattern::new(vertices.len(), starts.clone(), sources.clone())?;
                let along = Weighted { pattern: Arc::new(pattern), values: Arc::new(along.into()) };
                let back = against(&columns, own.len(), &edges, &arrive)?.ok_or_else(lacks)?;
                Some([along, back])
            }
            false => None,
        };
        let degrees = match has_weights {
            true => looped(&columns, vertices.len(), &edges),
            false => {
                // A loop is one whether it is stored or not.
                let mut counts: Vec<u64> =
                    vertices.iter().map(|&vertex| u64::from(inward[vertex as usize]) + 1).collect();
                for (vertex, _, _) in edges.filter(|(source, target, _)| source == target) {
                    if let Some(count) = counts.get_mut(column(vertex) as usize) {
                        *count -= 1;
                    }
                }
                counts.into_iter().map(ones).collect()
            }
        };
        let part = Some(Part { vertices, degrees, walks });
        Ok(Graph { part, ..Graph::of(OwnRows { starts, sources, weights }) })
    }
}

/// Of each column, the sum of the weights at one end of its edges, in their order.
fn summed<E>(columns: &[u32], count: usize, edges: &E, end: fn(u32, u32) -> u32) -> Vec<f32>
where
    E: Iterator<Item = (u32, u32, f32)> + Clone,
{
    let mut sums = vec![0.0; count];
    for (source, target, weight) in edges.clone() {
        if let Some(sum) = sums.get_mut(columns[end(source, target) as usize] as usize) {
            *sum += weight;
        }
    }
    sums
}

/// Of each column, the weight that comes in, summed in the order of the row, with a loop of weight 1 in its
/// place where there is none: as the whole sums them up.
fn looped<E>(columns: &[u32], count: usize, edges: &E) -> Vec<f32>
where
    E: Iterator<Item = (u32, u32, f32)> + Clone,
{
    let mut sums = vec![(0.0, false); count];
    for (source, target, weight) in edges.clone() {
        let Some((sum, is_looped)) = sums.get_mut(columns[target as usize] as usize) else { continue };
        if !*is_looped && source >= target {
            *sum += if source > target { 1.0 } else { 0.0 };
            *is_looped = true;
        }
        *sum += weight;
    }
    sums.into_iter().map(|(sum, is_looped)| if is_looped { sum } else { sum + 1.0 }).collect()
}

/// The own rows of the walk against the edges; nothing where a neighbour is missing.
fn against<E>(columns: &[u32], own: usize, edges: &E, arrive: &[f32]) -> Result<Option<Weighted>>
where
    E: Iterator<Item = (u32, u32, f32)> + Clone,
{
    let row = |source: u32| Some(columns[source as usize] as usize).filter(|&row| row < own);
    let mut starts = vec![0u64; own + 1];
    edges.clone().filter_map(|(source, _, _)| row(source)).for_each(|row| starts[row + 1] += 1);
    for row in 0..own {
        starts[row + 1] += starts[row];
    }
    let entries = starts[own] as usize;
    let (mut next, mut places, mut values) = (starts.clone(), vec![0; entries], vec![0.0; entries]);
    for (source, target, weight) in edges.clone() {
        let Some(row) = row(source) else { continue };
        let place = columns[target as usize];
        let Some(&total) = arrive.get(place as usize) else { return Ok(None) };
        (places[next[row] as usize], values[next[row] as usize]) = (place, share(weight, total));
        next[row] += 1;
    }
    let pattern = Arc::new(Pattern::new(arrive.len(), starts, places)?);
    Ok(Some(Weighted { pattern, values: Arc::new(values.into()) }))
}
