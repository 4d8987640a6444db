//! The loss of a window that asks about pairs: on one worker, or with each pair where its source is.

use std::sync::Arc;

use kymo_graph::Step;
use kymo_tensor::{Result as Computed, Tape, Var};

use super::spread::spread;
use super::{Names, Pairs, ends, scores};
use crate::error::Result;
use crate::forward::{Forward, Loss};
use crate::halo::moved;

/// The pairs that are asked about at each place of a window, as `drawn` gives them for its sample. A pair
/// counts where its source does.
pub fn asked_about(
    forward: &Forward<'_, '_>,
    at: &[(usize, Step)],
    drawn: impl Fn(Step) -> Result<Pairs>,
) -> Result<Vec<(usize, Pairs)>> {
    let counted = |&(place, sample): &(usize, Step)| {
        let pairs = drawn(sample)?;
        Ok(match forward.some_targets() {
            None => (place, pairs),
            Some(_) => (place, pairs.with_sources(|source| forward.counts(source))),
        })
    };
    at.iter().map(counted).collect()
}

/// The sum of what `errors` makes of the scores and the truth of the pairs at some places of a window. Pairs
/// are those of all workers; each worker scores its own, and `errors` must be a sum over pairs.
pub fn loss_of_pairs<'a>(
    forward: &mut Forward<'_, 'a>,
    names: &'static Names,
    steps: Vec<(usize, Pairs)>,
    errors: impl Fn(&mut Tape<'a>, Var, &[f32]) -> Computed<Var>,
) -> Result<Loss<'a>> {
    let embeddings = forward.all_rows()?;
    let (tape, params, cells) = (&mut *forward.tape, forward.params, forward.cells);
    let extra = names.of_vertices.iter().map(|name| params.get(name)).collect::<Computed<Vec<_>>>()?;
    let mut losses = Vec::with_capacity(steps.len());
    for (place, pairs) in steps {
        if pairs.len() == 0 {
            continue;
        }
        let mut ends = ends(tape, embeddings[place], &extra)?;
        let mut pairs = match cells {
            None => pairs,
            // A pair is scored where its source is; its target comes from elsewhere.
            Some((cells, window)) => {
                let dealt = spread(cells, &window.owners[place], &window.own[place], &pairs);
                let beyond = moved(tape, &window.group, &Arc::new(dealt.route), window.tag(place), ends[1])?;
                ends[1] = tape.concatenate_rows(&[ends[1], beyond])?;
                dealt.pairs
            }
        };
        let truth = std::mem::take(&mut pairs.truth);
        let scores = scores(tape, params, names, ends, pairs)?;
        losses.push(errors(tape, scores, &truth)?);
    }
    Ok(Loss::Taken(tape.add_all(&losses)?))
}
