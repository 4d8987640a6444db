//! How the memory of a run is divided among snapshots, products and what is read ahead.

use kymo_graph::Store;
use kymo_graph::store::Manifest;
use kymo_model::graph::Normalisation;
use kymo_model::{Asked, Graph};
use kymo_plan::Share;
use kymo_plan::plan::SnapshotBytes;
use kymo_plan::price::snapshot_bytes;

use super::features::Inputs;
use crate::config::Settings;
use crate::error::Result;

/// Windows that are looked at for what to read next.
const WINDOWS: usize = 16;

/// What snapshots may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes for snapshots and features that are kept.
    pub snapshots: usize,
    /// Bytes for products that are kept; nothing where they take from those for snapshots.
    pub products: Option<usize>,
    /// Whether there is room for all products as a whole: those that share rows have to be put together.
    pub whole_products: bool,
    /// Steps that are read before their turn where not all are kept.
    pub ahead: usize,
    /// Windows that are looked at for that.
    pub windows: usize,
    /// Threads that read.
    pub readers: usize,
    /// Whether all steps stay once they have been read.
    pub holds_all: bool,
    /// Bytes of a step.
    pub step: usize,
    /// Bytes that the steps which pass through may take, those that are being read apart: what of it they do
    /// not take is for arrays to be used again.
    pub passing: usize,
    /// Whether pages of the store are let go as soon as they were read: there is no room for them.
    pub releases: bool,
}

/// What the snapshots of a store take when they are prepared with what a model asks of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the structure of all steps.
    pub structure: usize,
    /// Bytes of all features.
    pub features: usize,
    /// Bytes of the structure of a large step.
    pub step: usize,
    /// Bytes that a reader works in.
    pub reader: usize,
    /// Bytes of the store's pages that are in memory while a reader looks at them, at most: those of a step
    /// that is stored whole and of the changes from there on. The system can do without them, so nothing is
    /// refused for lack of room for them.
    pub pages: usize,
    /// Bytes of the store, as it is mapped.
    pub mapped: usize,
    /// Bytes of the features of a window and of what is read ahead of the next, at most.
    pub window: usize,
}

impl Sizes {
    /// Those of a store, in windows of this many steps.
    pub fn new(store: &Store, inputs: &Inputs, asked: Asked, window: usize) -> Result<Sizes> {
        let manifest = store.manifest();
        let (vertices, steps) = (manifest.vertices, manifest.steps);
        let directions = if manifest.directed { 1 } else { 2 };
        let (all, largest) = (manifest.edges.saturating_mul(directions), largest_step(store)?);
        let weighted = steps > 0 && store.snapshot(0)?.weights.is_some();
        let rows = 8 * vertices + largest.saturating_mul(if weighted { 8 } else { 4 });
        // Where the cursor sees to loops, its rows after a step are those of the snapshot.
        let is_shared = !weighted && !inputs.are_degrees() && asked.is_of_loops();
        let rows = if is_shared { rows + 4 * vertices } else { 2 * rows };
        let changes = if weighted { largest } else { most_changes(store)?.min(largest) };
        let segments = inputs.segments();
        let bytes = |number: usize| inputs.segment_bytes(number);
        let of_window = |start: usize| {
            let last = (start + window.max(1) - 1).min(store.steps() - 1);
            (inputs.segment_of(start)..=inputs.segment_of(last)).map(bytes).sum::<usize>()
        };
        let mut sizes = Sizes {
            structure: asked.bytes(vertices.saturating_mul(steps), all, weighted) as usize,
            step: asked.bytes(vertices, largest, weighted) as usize,
            // Rows before and after a step is taken, and changes that are put together, as they come in and
            // as they go out: no more than there are edges.
            reader: rows as usize + if weighted { 48 } else { 20 } * changes as usize,
            pages: if weighted { 12 } else { 8 } * (largest + changes) as usize,
            mapped: store.bytes() as usize,
            ..Sizes::default()
        };
        if inputs.are_degrees() {
            // Every step has its own.
            let rows = 4 * inputs.constant_width() * store.vertices();
            sizes.step += rows;
            sizes.structure += rows * store.steps();
            return Ok(sizes);
        }
        let most = (0..store.steps()).map(of_window).max().unwrap_or(0);
        sizes.features = (0..segments.len()).map(bytes).sum();
        sizes.window = (2 * most).min(sizes.features);
        Ok(sizes)
    }

    /// Those of a worker's part of the snapshots, of which there are `times` as many as its plan knows of:
    /// that is about the windows that are trained on, and others are evaluated.
    pub fn of_part(share: &Share, times: f64, mapped: u64) -> Sizes {
        let SnapshotBytes { all, largest, reader } = share.snapshots;
        let all = (all as f64 * times) as u64;
        let [structure, step, reader, mapped] = [all, largest, reader, mapped].map(|bytes| bytes as usize);
        Sizes { structure, step, reader, mapped, ..Sizes::default() }
    }

    /// Bytes of a window of this many steps at least: one step more is on its way.
    pub fn least(&self, window: usize) -> u64 {
        let steps = self.step.saturating_mul(window + 2);
        steps.saturating_add(self.window).saturating_add(self.reader) as u64
    }

    /// Bytes of all snapshots with their features.
    pub fn all(&self) -> usize {
        self.structure.saturating_add(self.features)
    }
}

impl Room {
    /// The room in `memory` bytes beside the least that a window needs, where this many threads may read.
    pub fn new(sizes: &Sizes, memory: usize, window: usize, threads: usize) -> Room {
        let all = sizes.all();
        // Sizes are those of large steps on average.
        let snapshots = all.saturating_add(all / 16);
        let room = Room {
            snapshots: memory,
            passing: 0,
            products: Some(0),
            whole_products: false,
            ahead: 1,
            windows: WINDOWS,
            readers: 1,
            holds_all: false,
            step: sizes.step,
            releases: true,
        };
        if snapshots <= memory {
            let (readers, with_pages) = (threads.max(1), snapshots.saturating_add(sizes.mapped));
            let releases = with_pages > memory;
            let products = Some(memory - if releases { snapshots } else { with_pages });
            return Room { snapshots, products, readers, ahead: window, holds_all: true, releases, ..room };
        }
        let memory = memory.saturating_sub(sizes.pages);
        // What passes through needs to be there in time more than others need to be kept: half of the room
        // is for that, if it takes as much.
        let reader = sizes.reader.saturating_add(sizes.pages).saturating_add(sizes.step).max(1);
        let readers = (memory / 4 / reader).min(threads.saturating_sub(1)).min(3);
        let ahead = (memory / 4 / sizes.step.max(1)).min(2 * window);
        let snapshots = memory - readers * reader - ahead * sizes.step;
        let passing = (window + 2 + ahead) * sizes.step + sizes.window;
        Room { snapshots, ahead: 1 + ahead, readers: 1 + readers, passing, ..room }
    }

    /// The same, where all products take this many bytes; without room for any where nothing is said.
    pub fn keeping(self, products: Option<usize>) -> Room {
        match products {
            Some(all) => Room { whole_products: self.products.is_some_and(|room| room >= all), ..self },
            None => Room { products: Some(0), ..self },
        }
    }

    /// The room in `memory` bytes for snapshots of which nobody has said what they take.
    pub fn unplanned(memory: usize, window: usize, threads: usize) -> Room {
        let room =
            Room { snapshots: memory, products: None, ahead: window, releases: true, ..Room::default() };
        Room { windows: WINDOWS, readers: threads.max(1), ..room }
    }
}

/// What a worker may keep snapshots and products in, where its process was given some bytes: its share of
/// what the process did not have already, less the least that the worker itself needs.
pub fn left_to_keep(given: usize, had: usize, workers: usize, least: usize) -> usize {
    (given.saturating_sub(had) / workers.max(1)).saturating_sub(least)
}

/// Bytes of all snapshots if every one had its edges, matrices and features to itself.
pub fn whole_bytes(manifest: &Manifest, columns: usize) -> u64 {
    let directions = if manifest.directed { 1 } else { 2 };
    let edges = manifest.edges.saturating_mul(directions);
    snapshot_bytes(manifest.vertices.saturating_mul(manifest.steps), edges, columns as u64)
}

/// Bytes of all snapshots of a store with at least one step: each whole, and as graph convolution has them
/// held, by the counts of the store alone.
pub fn snapshots_in_memory(store: &Store) -> Result<[u64; 2]> {
    let inputs = Inputs::unread(store, &Settings::default(), 0..store.steps())?;
    let graph = Graph::new(vec![0, 1, 2], vec![1, 0], None)?;
    graph.normalised(Normalisation::Both)?;
    let held = Sizes::new(store, &inputs, graph.asked(), 1)?.all() as u64;
    Ok([whole_bytes(store.manifest(), inputs.constant_width()), held])
}

/// The most edges that are listed as changes from one step that is stored whole to the next.
fn most_changes(store: &Store) -> Result<u64> {
    let (mut run, mut most) = (0, 0);
    for counts in store.change_counts(0..store.steps())? {
        run = counts.edges.map_or(0, |edges| run + edges);
        most = most.max(run);
    }
    Ok(most as u64)
}

/// Edges of a large step, in both directions where there are two: those of the last or of a step on average,
/// whichever are more. Most graphs grow, and to look at all steps would be to read the whole store.
pub fn largest_step(store: &Store) -> Result<u64> {
    let manifest = store.manifest();
    let directions = if manifest.directed { 1 } else { 2 };
    let mean = manifest.edges.div_ceil(manifest.steps.max(1)).saturating_mul(directions);
    Ok(match store.steps().checked_sub(1) {
        Some(last) => mean.max(store.edges(last)? as u64),
        None => mean,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        structure: 10_000,
        features: 2_000,
        step: 100,
        reader: 60,
        pages: 40,
        mapped: 1_000,
        window: 400,
    };

    #[test]
    fn what_all_snapshots_leave_is_for_products() {
        let room = Room::new(&SIZES, 20_000, 4, 3);
        assert_eq!((room.snapshots, room.products, room.releases), (12_750, Some(6_250), false));
        assert_eq!((room.ahead, room.readers, room.step, room.holds_all), (4, 3, 100, true));
        // Where pages of the store do not fit as well, they are let go.
        let room = Room::new(&SIZES, 13_000, 4, 3);
        assert_eq!((room.snapshots, room.products, room.releases), (12_750, Some(250), true));
        assert_eq!(Room::new(&SIZES, 12_750, 4, 0).readers, 1, "somebody has to read");
    }

    /// Threads of one process have its program once, and what a window needs is there in any case: it is no
    /// part of what is divided here.
    #[test]
    fn what_the_process_has_already_is_not_given_out_again() {
        assert_eq!(left_to_keep(1000, 0, 1, 300), 700);
        assert_eq!(left_to_keep(1000, 200, 1, 300), 500);
        assert_eq!(left_to_keep(1000, 200, 4, 50), 150);
        assert_eq!((left_to_keep(1000, 800, 1, 300), left_to_keep(1000, 2000, 2, 300)), (0, 0));
    }

    /// Whatever the memory, what is kept, read ahead and worked in stays within it.
    #[test]
    fn nothing_is_promised_twice() {
        for memory in (0..12_750).step_by(7) {
            for (window, threads) in [(1, 1), (4, 2), (10, 16)] {
                let room = Room::new(&SIZES, memory, window, threads);
                let more = (room.ahead - 1) * SIZES.step
                    + (room.readers - 1) * (SIZES.reader + SIZES.step)
                    + room.readers * SIZES.pages;
                assert!(room.snapshots + more <= memory.max(SIZES.pages), "{memory} {room:?}");
                let left = memory.saturating_sub(SIZES.pages);
                assert!(room.snapshots >= left / 2 && room.products == Some(0), "{memory} {room:?}");
                assert!(room.ahead <= 2 * window + 1 && room.readers <= threads.min(4), "{memory} {room:?}");
            }
        }
        let room = Room::new(&SIZES, 12_000, 4, 16);
        assert_eq!((room.ahead, room.readers, room.holds_all), (9, 4, false), "there is room for what helps");
    }

    #[test]
    fn a_window_has_one_step_more_on_its_way_and_one_reader() {
        assert_eq!(SIZES.least(4), 6 * 100 + 400 + 60);
    }

    /// A plan knows of the steps that are trained on; those that are evaluated take room, too.
    #[test]
    fn parts_that_are_evaluated_count() {
        let snapshots = SnapshotBytes { all: 1000, largest: 100, reader: 10 };
        let share = Share { snapshots, ..Share::default() };
        let sizes = Sizes::of_part(&share, 1.5, 7);
        assert_eq!((sizes.structure, sizes.step, sizes.reader, sizes.mapped), (1500, 100, 10, 7));
    }
}
