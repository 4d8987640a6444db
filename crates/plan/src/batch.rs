//! The unit of work: some windows, the vertices whose outputs count, and the neighbourhood that they see.
//!
//! The systems that Kymo brings together differ in how they fill in these values, not in what is computed
//! from them. DyGNeX and REAL train whole windows with all vertices; strategies that cut windows give each
//! worker its own cells; DynaHB takes some vertices with their L-hop neighbourhood; DistDy samples it. Which
//! worker runs a batch is said by its place in an [`EpochPlan`](crate::EpochPlan).

use std::ops::Range;

use kymo_graph::random::Random;
use kymo_graph::{Step, Vertex};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A window that is trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its number among the windows of an epoch, in the order of time.
    pub number: usize,
    /// Its steps.
    pub steps: Range<Step>,
    /// What its random choices (dropout, negative samples) follow from.
    pub salt: u64,
}

/// The vertices whose outputs count in the loss.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Targets {
    /// All of them.
    #[default]
    All,
    /// Those that the layout gives to the worker: all workers run the batch together, each its own cells.
    Own,
    /// These, ascending.
    Some(Vec<Vertex>),
    /// One part of all of them, drawn at random.
    Drawn(Drawn),
    /// One part of those of an owner: all owners run the batch at a time, each its own vertices.
    Portion(Portion),
}

/// A part of a random division of all vertices: each is in one of the parts, which are about equally large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// Which part, counted from 0.
    pub part: usize,
    /// How many parts there are.
    pub parts: usize,
    /// What the division follows from.
    pub seed: u64,
}

/// A part of a division of the vertices that one of several owners has
/// ([`Portions`](crate::Portions)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portion {
    /// Whose vertices they are, counted from 0.
    pub owner: usize,
    /// How many owners there are.
    pub owners: usize,
    /// Which part of them.
    pub drawn: Drawn,
}

impl Drawn {
    /// The vertices of the part, of this many, ascending.
    pub fn of(&self, vertices: usize) -> Vec<Vertex> {
        let random = Random::new(self.seed);
        let is_in = |&vertex: &Vertex| random.below(self.parts, vertex.into()) == self.part;
        (0..vertices as Vertex).filter(is_in).collect()
    }

    /// All parts of the division of this many vertices, each ascending.
    pub fn division(&self, vertices: usize) -> Vec<Vec<Vertex>> {
        let random = Random::new(self.seed);
        // As many as there are on average, and a few more: parts are about equally large.
        let room = vertices / self.parts.max(1);
        let mut parts = vec![Vec::with_capacity(room + room / 16); self.parts.max(1)];
        for vertex in 0..vertices as Vertex {
            parts[random.below(self.parts, vertex.into())].push(vertex);
        }
        parts
    }
}

/// What the targets see of each snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbourhood {
    /// Everything.
    #[default]
    Whole,
    /// The vertices from which a target can be reached along at most this many edges.
    Hops(usize),
    /// At most this many in-neighbours of each vertex, one number for each layer.
    Sampled(Vec<usize>),
}

/// What one worker does at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The windows, in the order in which they are run.
    pub windows: Vec<Window>,
    /// The vertices whose outputs count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub targets: Targets,
    /// What these vertices see.
    #[serde(default, skip_serializing_if = "is_default")]
    pub neighbourhood: Neighbourhood,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Batch {
    /// One window with all vertices and everything they see.
    pub fn whole(window: Window) -> Batch {
        Batch::of(vec![window])
    }

    /// One window, run by all workers together.
    pub fn own(window: Window) -> Batch {
        Batch { targets: Targets::Own, ..Batch::whole(window) }
    }

    /// Some windows with all vertices and everything they see.
    pub fn of(windows: Vec<Window>) -> Batch {
        Batch { windows, targets: Targets::All, neighbourhood: Neighbourhood::Whole }
    }

    /// Fails where the batch makes no sense by itself.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |problem: String| Err(Error::settings("batch", problem));
        if self.windows.is_empty() {
            return refuse("it has no window, expected at least one".into());
        }
        if let Some(window) = self.windows.iter().find(|window| window.steps.is_empty()) {
            return refuse(format!("window {} has no steps", window.number));
        }
        match (&self.targets, &self.neighbourhood) {
            (Targets::Some(vertices), _) if !vertices.is_sorted_by(|a, b| a < b) => {
                refuse("its target vertices are not in ascending order".into())
            }
            (Targets::Own, neighbourhood) if *neighbourhood != Neighbourhood::Whole => {
                refuse("workers that share a window see all of it; choose other targets".into())
            }
            (
                Targets::Drawn(Drawn { part, parts, .. })
                | Targets::Portion(Portion { drawn: Drawn { part, parts, .. }, .. }),
                _,
            ) if part >= parts => refuse(format!("its targets are part {part} of {parts}, counted from 0")),
            (Targets::Portion(Portion { owner, owners, .. }), _) if owner >= owners => {
                refuse(format!("its targets are those of owner {owner} of {owners}, counted from 0"))
            }
            (Targets::Portion(_), Neighbourhood::Whole) => {
                refuse("the vertices of an owner see as far as the model looks, found everything".into())
            }
            (_, Neighbourhood::Sampled(fan_outs)) if fan_outs.is_empty() || fan_outs.contains(&0) => {
                refuse("a sampled neighbourhood needs a number above 0 for each layer".into())
            }
            _ => Ok(()),
        }
    }
}

/// Windows that are run together, by their places in the order that they were given in: those that overlap,
/// as long as all steps of a group are no more than `span`. Groups come in the order of time, and so do their
/// windows.
pub fn overlapping(windows: &[Range<Step>], span: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..windows.len()).collect();
    order.sort_by_key(|&place| (windows[place].start, windows[place].end));
    let mut groups: Vec<(Range<Step>, Vec<usize>)> = Vec::new();
    for place in order {
        let window = &windows[place];
        match groups.last_mut() {
            Some((steps, group)) if window.start < steps.end && window.end - steps.start <= span => {
                steps.end = steps.end.max(window.end);
                group.push(place);
            }
            _ => groups.push((window.clone(), vec![place])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_overlap_are_run_together_within_their_span() {
        let windows = [4..8, 0..4, 5..9, 3..7, 20..24, 6..10];
        // 0..4 and 3..7 overlap, and so does every other one with the one before it.
        assert_eq!(overlapping(&windows, 100), [vec![1, 3, 0, 2, 5], vec![4]]);
        assert_eq!(overlapping(&windows, 7), [vec![1, 3], vec![0, 2, 5], vec![4]]);
        assert_eq!(overlapping(&windows, 4), [vec![1], vec![3], vec![0], vec![2], vec![5], vec![4]]);
        // Windows that only meet have nothing in common.
        assert_eq!(overlapping(&[0..4, 4..8], 100), [vec![0], vec![1]]);
        assert_eq!(overlapping(&[2..6, 2..6], 4), [vec![0, 1]]);
        assert!(overlapping(&[], 4).is_empty());
    }

    fn window(steps: Range<Step>) -> Window {
        Window { number: 3, steps, salt: 9 }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        Batch::whole(window(0..4)).check().unwrap();
        Batch::own(window(0..4)).check().unwrap();
        let good = Batch::whole(window(0..4));
        let portion = |owner: usize| {
            Targets::Portion(Portion { owner, owners: 2, drawn: Drawn { part: 0, parts: 1, seed: 1 } })
        };
        let wrong = [
            ("no window", Batch { windows: Vec::new(), ..good.clone() }),
            ("window 3 has no steps", Batch::whole(window(4..4))),
            ("ascending", Batch { targets: Targets::Some(vec![2, 2]), ..good.clone() }),
            (
                "part 3 of 3",
                Batch { targets: Targets::Drawn(Drawn { part: 3, parts: 3, seed: 1 }), ..good.clone() },
            ),
            (
                "owner 2 of 2",
                Batch { targets: portion(2), neighbourhood: Neighbourhood::Hops(1), ..good.clone() },
            ),
            ("found everything", Batch { targets: portion(1), ..good.clone() }),
            ("see all of it", Batch { neighbourhood: Neighbourhood::Hops(2), ..Batch::own(window(0..4)) }),
            ("each layer", Batch { neighbourhood: Neighbourhood::Sampled(vec![5, 0]), ..good }),
        ];
        for (words, batch) in wrong {
            let error = batch.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn parts_are_a_division_into_about_equal_ones() {
        for (seed, parts) in [(1, 1), (2, 4), (3, 7)] {
            let of = |part: usize| Drawn { part, parts, seed }.of(7000);
            let all: Vec<Vec<Vertex>> = (0..parts).map(of).collect();
            assert_eq!(Drawn { part: 0, parts, seed }.division(7000), all);
            let each = 7000 / parts;
            assert!(
                all.iter().all(|part| part.is_sorted() && part.len().abs_diff(each) <= each / 8),
                "{parts}"
            );
            let mut together = all.concat();
            together.sort_unstable();
            assert!(together.into_iter().eq(0..7000));
        }
        let of = |seed: u64| Drawn { part: 0, parts: 2, seed }.of(100);
        assert!(of(1) == of(1) && of(1) != of(2));
    }

    #[test]
    fn what_is_written_is_read_and_the_usual_is_not_written() {
        let some = Batch { targets: Targets::Some(vec![1, 5]), ..Batch::whole(window(2..6)) };
        let hops = Batch { neighbourhood: Neighbourhood::Hops(2), ..some.clone() };
        let drawn = Targets::Drawn(Drawn { part: 1, parts: 4, seed: 7 });
        let drawn = Batch { targets: drawn, ..hops.clone() };
        let portion = Portion { owner: 1, owners: 3, drawn: Drawn { part: 0, parts: 4, seed: 7 } };
        let portion = Batch { targets: Targets::Portion(portion), ..hops.clone() };
        for batch in [Batch::whole(window(2..6)), Batch::own(window(2..6)), some, hops, drawn, portion] {
            let text = serde_json::to_string(&batch).unwrap();
            assert_eq!(serde_json::from_str::<Batch>(&text).unwrap(), batch, "{text}");
        }
        let text = serde_json::to_string(&Batch::whole(window(2..6))).unwrap();
        assert_eq!(text, r#"{"windows":[{"number":3,"steps":{"start":2,"end":6},"salt":9}]}"#);
    }
}
