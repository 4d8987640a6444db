//! Judging links: every metric is shown the links of a step beside pairs that are none, drawn by its
//! protocol, and scored by a model, a baseline or another rule.

use std::sync::Arc;
use std::time::Instant;

use kymo_graph::{Edge, Snapshot, Step, Vertex};
use kymo_model::metric::{Evidence, Needs};
use rayon::prelude::*;

use super::super::Tallies;
use super::super::pairs::SLICES;
use super::decoder::Decoder;
use super::goal::Links;
use super::rules::Rule;
use super::tgb::{Judged, Known};
use super::{BySource, Purpose};
use crate::config::Weigh;
use crate::data::Part;
use crate::error::Result;

/// Pairs without a link for every source, as ROLAND judges.
pub(super) const BY_SOURCE: usize = 1000;

/// Who scores pairs.
pub(super) enum Scorer<'a> {
    Decoder(Decoder<'a>),
    Rule(Box<dyn Rule + 'a>),
    /// A model whose outputs are not finite: what its decoder makes of them would look like scores, because
    /// rectifying turns NaN into 0.
    Lost,
}

impl Scorer<'_> {
    pub(super) fn scores(&self, pairs: &[(Vertex, Vertex)]) -> Vec<f32> {
        match self {
            Scorer::Decoder(decoder) => decoder.scores(pairs),
            Scorer::Rule(rule) => {
                pairs.par_iter().with_min_len(256).map(|&(u, v)| rule.score(u, v)).collect()
            }
            Scorer::Lost => vec![f32::NAN; pairs.len()],
        }
    }

    /// The scores of sources against all vertices, source after source.
    pub(super) fn rows(&self, sources: &[Vertex], out: &mut [f32]) {
        match self {
            Scorer::Decoder(decoder) => decoder.rows(sources, out),
            Scorer::Rule(rule) => {
                let rows = out.chunks_exact_mut(out.len().checked_div(sources.len()).unwrap_or(0).max(1));
                sources.iter().zip(rows).for_each(|(&source, row)| rule.row(source, row));
            }
            Scorer::Lost => out.fill(f32::NAN),
        }
    }
}

impl Links {
    /// The links that are judged, and targets that are none. Those of the validation are the same after every
    /// epoch, so they are drawn once and kept; of other parts the last ones are.
    fn judged(&self, sample: Step, snapshot: &Snapshot<'_>, part: Part, balanced: bool) -> Arc<Judged> {
        let kept = || self.validation.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let (Part::Validation, Some(judged)) = (part, kept().get(&(sample, balanced))) {
            return judged.clone();
        }
        let latest = || self.latest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &latest()[usize::from(balanced)] {
            Some((step, judged)) if part != Part::Validation && *step == sample => return judged.clone(),
            _ => {}
        }
        let most = match part {
            Part::Validation => self.link.validate_positives,
            Part::Train | Part::Test => self.link.evaluate_positives,
        };
        let (sampler, edges) = (self.sampler(self.seed), &snapshot.edges[..]);
        let links = || sampler.choose(edges, most, Purpose::Judge, sample);
        let each = self.link.evaluate_negatives;
        // Within training, what it has seen is what it has seen so far.
        let trained = self.split.samples(Part::Train).end.min(sample);
        let known = Known { targets: &self.targets, trained };
        let judged = Arc::new(match (balanced, self.link.weigh) {
            (true, _) => sampler.balanced(sample, edges, links(), each, self.link.historical),
            (false, Weigh::Edges) => sampler.as_tgb(sample, edges, links(), each, known),
            (false, Weigh::Events) => {
                let events = sampler.choose_events(snapshot, most, Purpose::Judge, sample);
                sampler.events_as_tgb(sample, &events, each, known)
            }
        });
        match part {
            Part::Validation => drop(kept().insert((sample, balanced), judged.clone())),
            Part::Train | Part::Test => latest()[usize::from(balanced)] = Some((sample, judged.clone())),
        }
        judged
    }

    fn judge_sampled(
        &self,
        sample: Step,
        snapshot: &Snapshot<'_>,
        (part, needs): (Part, Needs),
        scorer: &Scorer<'_>,
        tallies: &mut Tallies,
    ) {
        let judged = &*self.judged(sample, snapshot, part, needs == Needs::Balanced);
        let links = judged.links.iter();
        let pairs: Vec<(Vertex, Vertex)> = links.map(|link| (link.source(), link.target())).collect();
        let present = score(scorer, &pairs, tallies);
        let pairs: Vec<(Vertex, Vertex)> = judged.sources().zip(judged.targets.iter().copied()).collect();
        let absent = score(scorer, &pairs, tallies);
        let starts = &judged.starts[..];
        tallies.add(needs, &Evidence::Sampled { present: &present, starts, absent: &absent });
        if tallies.are_sliced() {
            self.slice(judged, needs, (&present, &absent), tallies);
        }
    }

    /// Shows the links again, apart by whether training has seen their ends.
    fn slice(
        &self,
        judged: &Judged,
        needs: Needs,
        (present, absent): (&[f32], &[f32]),
        tallies: &mut Tallies,
    ) {
        for (number, name) in SLICES.into_iter().enumerate() {
            let belongs = |link: &usize| {
                let link = judged.links[*link];
                self.seen.slice(link.source(), link.target()) == number
            };
            let links: Vec<usize> = (0..judged.links.len()).filter(belongs).collect();
            let (mut starts, mut pairs) = (vec![0], Vec::new());
            for &link in &links {
                pairs.extend_from_slice(&absent[judged.starts[link]..judged.starts[link + 1]]);
                starts.push(pairs.len());
            }
            let links: Vec<f32> = links.iter().map(|&link| present[link]).collect();
            let step = Evidence::Sampled { present: &links, starts: &starts, absent: &pairs };
            tallies.add_slice(name, links.len(), needs, &step);
        }
    }

    fn judge_by_source(&self, sample: Step, edges: &[Edge], scorer: &Scorer<'_>, tallies: &mut Tallies) {
        let mut grouped = BySource::default();
        self.sampler(self.seed).absent_by_source(sample, edges, edges, BY_SOURCE, &mut grouped);
        let sources = grouped.sources.iter().zip(grouped.starts.windows(2));
        let sources = sources.flat_map(|(&source, range)| std::iter::repeat_n(source, range[1] - range[0]));
        let pairs: Vec<(Vertex, Vertex)> = sources.zip(grouped.targets.iter().copied()).collect();
        let present = score(scorer, &pairs, tallies);
        let sources = grouped.sources.iter().flat_map(|&source| std::iter::repeat_n(source, BY_SOURCE));
        let pairs: Vec<(Vertex, Vertex)> = sources.zip(grouped.absent.iter().copied()).collect();
        let absent = score(scorer, &pairs, tallies);
        let (starts, present, absent) = (&grouped.starts[..], &present[..], &absent[..]);
        tallies.add(Needs::PerSource, &Evidence::PerSource { starts, present, absent });
    }

    /// Shows the metrics what is said at a sample; the scorer is made only where there is something to judge.
    pub(super) fn judge_by<'a>(
        &self,
        part: Part,
        sample: Step,
        scorer: impl FnOnce(Step) -> Result<Scorer<'a>>,
        tallies: &mut Tallies,
    ) -> Result<()> {
        let snapshot = self.store.snapshot(sample + 1)?;
        if snapshot.is_empty() {
            return Ok(());
        }
        let scorer = scorer(sample)?;
        for needs in [Needs::Sampled, Needs::Balanced] {
            if tallies.want(needs) {
                self.judge_sampled(sample, &snapshot, (part, needs), &scorer, tallies);
            }
        }
        if tallies.want(Needs::PerSource) {
            self.judge_by_source(sample, &snapshot.edges, &scorer, tallies);
        }
        if tallies.want(Needs::AllPairs) {
            let vertices = self.store.vertices();
            let rows = snapshot.by_source(vertices);
            let starts: Vec<usize> = rows.starts.iter().map(|&start| start as usize).collect();
            let scores = |sources: &[Vertex], out: &mut [f32]| scorer.rows(sources, out);
            let (starts, targets) = (&starts[..], &rows.columns[..]);
            tallies.add(Needs::AllPairs, &Evidence::AllPairs { vertices, starts, targets, scores: &scores });
        }
        Ok(())
    }
}

/// The scores of pairs; the time they take is that of the model.
fn score(scorer: &Scorer<'_>, pairs: &[(Vertex, Vertex)], tallies: &mut Tallies) -> Vec<f32> {
    let begun = Instant::now();
    let scores = scorer.scores(pairs);
    tallies.scoring += begun.elapsed();
    scores
}
