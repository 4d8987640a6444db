//! How much memory training will need: of a GPU, found out by going through a window without computing
//! anything; of the host, before anything is taken.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::Step;
use kymo_model::{
    Asked, Budget, Common, Exchanged, Frame, Graph, Increments, Params, Passed, Reuse, ReuseSlots, Together,
    Update, loss_by_rows,
};
use kymo_plan::{Batch, Iteration, Window};
use kymo_tensor::estimate::MemoryEstimate;
use kymo_tensor::{Arena, Shape, Tape};

use super::context::RunContext;
use super::extent::Extent;
use super::worker::Worker;
use crate::config::machine::Need;
use crate::data::{Part, largest_step};
use crate::error::{Error, Result};

/// The most bytes that training would take of a GPU that has `device_bytes`.
///
/// Snapshots that are not in the windows that are gone through are taken to be like those that are.
pub fn predicted_bytes(context: &Arc<RunContext>, device_bytes: usize) -> Result<usize> {
    let estimate = MemoryEstimate::new();
    let mut worker = Worker::estimating(context.clone(), estimate.clone(), device_bytes)?;
    let windows = context.windows();
    // As many as are run together, of the last.
    let last = &windows[windows.len().saturating_sub(context.together[0])..];
    let (Some(first), Some(end)) = (last.first(), last.last()) else { return Ok(0) };
    let held = end.end - first.start;
    let batch = |steps: &Range<Step>| Batch::whole(Window { number: 0, steps: steps.clone(), salt: 0 });
    let iteration = Iteration { workers: vec![last.iter().map(batch).collect()] };
    // What is kept of products is copied once: by the time that all snapshots are there, it is long done.
    worker.iterate(&iteration, 0.0, false)?;
    estimate.forget_most();
    worker.iterate(&iteration, 0.0, false)?;
    let (most, stays) = (estimate.most(), estimate.now());
    // All steps up to the last sample are loaded once, and stay as far as there is room for them.
    let steps = worker.split().samples(Part::Test).end;
    let others = worker.snapshots().fitting().min(steps).saturating_sub(held);
    let parameters = 4 * worker.parameters() * (2 + worker.replica.optimiser.copies());
    Ok(most + stays / held.max(1) * others + parameters)
}

/// What training on the host needs at least, whatever is kept besides; `at_once` windows are in memory at a
/// time, one for each worker that trains windows of its own.
pub fn needs(context: &RunContext, at_once: usize) -> Result<Vec<Need>> {
    // Parameters are made to find out the rest.
    let mut needs = vec![check_parameters(context)?];
    let many = at_once as u64;
    let together = context.together[0] > 1;
    needs.push(Need {
        what: "snapshots of a window",
        bytes: context.sizes()?.least(context.span()).saturating_mul(many),
        lower: match together {
            true => "train.window, data.lags or parallel.windows (or set parallel.share=false)",
            false => "train.window or data.lags",
        },
    });
    let rows = match context.extent()? {
        Some(extent) => {
            needs.push(Need {
                what: "what a batch sees",
                bytes: seen_bytes(context, &extent)?.saturating_mul(many),
                lower: "train.batch or model.layers",
            });
            needs.push(Need {
                what: "batches that are kept",
                bytes: (context.reservoir()? as u64).saturating_mul(many),
                lower: "run.reservoir",
            });
            batch_buffers(context, &extent)?
        }
        None => {
            let [row, blocks] = context.buffers()?;
            (context.store.vertices() as u64).saturating_mul(row).saturating_add(blocks)
        }
    };
    needs.push(Need {
        what: "rows of a window",
        bytes: rows.saturating_mul(many),
        lower: match together {
            true => "model.hidden, model.layers, model.blocks, train.window or parallel.windows",
            false => "model.hidden, model.layers, model.blocks or train.window",
        },
    });
    needs.extend(context.goal.needs(context.model.width()));
    Ok(needs)
}

/// Fails where parameters alone do not fit; what they take.
pub fn check_parameters(context: &RunContext) -> Result<Need> {
    let slots = context.slots();
    let numbers = slots.iter().map(|slot| slot.shape.rows as u64 * slot.shape.columns as u64);
    let numbers = numbers.fold(0, u64::saturating_add);
    // Themselves, their gradients, the sum of those, and two averages that the optimiser keeps.
    let bytes = numbers.saturating_mul(20).saturating_mul(context.sharing.workers as u64);
    let need =
        Need { what: "parameters", bytes, lower: "model.hidden, model.layers, model.blocks or data.learnt" };
    Need::check(std::slice::from_ref(&need), "training")?;
    Ok(need)
}

/// Fails where training alone needs more than `run.memory`, where that was given, or than there is.
pub fn check_needs(context: &RunContext, at_once: usize) -> Result<()> {
    let needs = context.needs(at_once)?;
    let setting = &context.settings.run.memory;
    // What is held already is no longer among what is available, but it counts for what was given.
    let mut all = needs.to_vec();
    let lower = "the number of steps: cut the data otherwise";
    all.push(Need { what: "history of pairs", bytes: context.goal.held_bytes(), lower });
    let (total, given) = (Need::total(&all), context.memory_of_process()? as u64);
    // Several workers are refused by their plan, which knows who has what.
    if setting != "auto" && total > given && context.settings.parallel.workers == 1 {
        let (described, lower) = Need::described(&all);
        let readable = kymo_plan::plan::readable;
        let problem = format!(
            "training takes about {} at least ({described}), {} may be used; give more, or lower {lower}",
            readable(total),
            readable(given)
        );
        return Err(Error::settings("run.memory", problem));
    }
    Need::check(needs, "training")
}

/// Bytes of buffers that a window takes for each vertex, and whatever their number, found out by training on
/// two small graphs and seeing what the larger one takes more.
pub(super) fn buffers(context: &RunContext) -> Result<[u64; 2]> {
    let outputs = outputs(context);
    // On a GPU, rows are there: its own estimate counts them.
    if context.settings.run.device != "cpu" {
        return Ok([outputs, 0]);
    }
    let (store, vertices) = (&context.store, context.store.vertices() as u64);
    let degree = largest_step(store)?.div_ceil(vertices.max(1));
    let unit = unit(context);
    let threads = rayon::current_num_threads();
    let taken = |vertices: usize| practise(context, [vertices; 2], degree, 0);
    let (small, large, increments) = by_one_thread(|| {
        let small = taken(unit)?;
        Ok((small.buffers, taken(2 * unit)?.buffers, small.increments))
    })?;
    let row = large.saturating_sub(small).div_ceil(unit) as u64;
    let changes = change_bytes(context, degree, increments);
    Ok([
        row.saturating_add(outputs).saturating_add(changes),
        (threads * (2 * small).saturating_sub(large)) as u64,
    ])
}

/// Bytes for each vertex of what turns products into those with the next snapshot: entries with their values,
/// both ways, and no more than are worth it; a factor for each row, and where rows begin. One and a half
/// times as many entries as change, for rows that are summed anew; where an edge changes those of both its
/// ends, there may be as many as are worth it. Rows that are all summed anew have their numbers alone.
fn change_bytes(context: &RunContext, degree: u64, increments: Increments) -> u64 {
    let Update::Entries(costs) = context.update else {
        return 4 * (increments.of_rows + increments.of_both_ends) as u64;
    };
    let change = context.increments.unwrap_or(0.0);
    let most = (1.0 / costs.entry).min(1.0);
    let of = |share: f64| (16.0 * share.min(most) * (degree + 1) as f64).ceil() as u64 + 20;
    increments.of_rows as u64 * of(1.5 * change) + increments.of_both_ends as u64 * of(1.0)
}

/// Bytes for each vertex of what the model says of it, which is read and judged, of all windows that are run
/// together.
fn outputs(context: &RunContext) -> u64 {
    8 * (context.model.width() * context.together[0]) as u64
}

/// Vertices of a small graph. A rows phase has blocks of 252 rows, which take the same whatever the graph:
/// there are a few of them. Wide models get by with fewer rows, which take as long.
fn unit(context: &RunContext) -> usize {
    if context.model.width() > 512 { 64 } else { 1024 }
}

/// How many threads take blocks at a time is a matter of chance: one takes them here, and each of them needs
/// as much.
fn by_one_thread<T: Send>(run: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(alone) => alone.install(run),
        // Where there is no thread for it, chance decides.
        Err(_) => run(),
    }
}

/// Bytes of buffers that a batch of some vertices takes, found out by training on small graphs in which more
/// is seen, or more counts.
fn batch_buffers(context: &RunContext, extent: &Extent) -> Result<u64> {
    let all = outputs(context).saturating_mul(context.store.vertices() as u64);
    let (unit, threads) = (unit(context), rayon::current_num_threads());
    let degree = extent.edges.div_ceil((extent.rows * extent.steps).max(1));
    let taken = |counts: [usize; 2]| practise(context, counts, degree, 0).map(|practice| practice.buffers);
    let (least, seen, counting) =
        by_one_thread(|| Ok((taken([unit, unit])?, taken([2 * unit, unit])?, taken([2 * unit, 2 * unit])?)))?;
    // Buffers have eight sizes from one power of two to the next.
    let room = |rows: u64| rows.next_multiple_of((rows.next_power_of_two() / 16).max(1));
    let rows = room(extent.rows) as usize * seen.saturating_sub(least);
    let targets = room(extent.targets) as usize * counting.saturating_sub(seen);
    let blocks = threads * (2 * least).saturating_sub(counting);
    Ok(all.saturating_add(((rows + targets) / unit + blocks) as u64))
}

/// Bytes of the snapshots of a batch, of the tables that it is taken out with, and of the division of all
/// vertices.
fn seen_bytes(context: &RunContext, extent: &Extent) -> Result<u64> {
    let weighted = context.store.steps() > 0 && context.store.snapshot(0)?.weights.is_some();
    let steps = extent.steps.max(1);
    let each = context.asked()?.bytes(extent.rows, extent.edges / steps, weighted);
    let vertices = context.store.vertices() as u64;
    Ok(steps.saturating_mul(each).saturating_add(4 * extent.rows + 8 * vertices + vertices / 4))
}

/// What the model asks of snapshots, found out by training on a small graph, and the bytes of products that
/// may be kept for each vertex and step.
pub(super) fn asked(context: &RunContext) -> Result<(Asked, u64)> {
    let vertices = 2;
    let practice = practise(context, [vertices; 2], 1, usize::MAX)?;
    Ok((practice.asked, (practice.products / vertices / context.span().max(1)) as u64))
}

/// What training on a small graph took.
struct Practice {
    /// Bytes of buffers.
    buffers: usize,
    /// What was asked of the graph.
    asked: Asked,
    /// Bytes of the products that were kept.
    products: usize,
    /// Products that were made out of those of the snapshot before.
    increments: Increments,
}

/// Trains on windows of one small graph with this many vertices, some of which count, as many windows as are
/// run together, whose products may be kept in `room` bytes.
fn practise(
    context: &RunContext,
    [vertices, targets]: [usize; 2],
    degree: u64,
    room: usize,
) -> Result<Practice> {
    // Attention keeps something of every edge; beyond this, it is little beside the edges themselves.
    let degree = degree.clamp(1, 32) as usize;
    let starts = (0..=vertices).map(|vertex| (vertex * degree) as u64).collect();
    let source = |edge: usize| ((edge / degree + 1 + edge % degree) % vertices) as u32;
    let mut sources: Vec<u32> = (0..vertices * degree).map(source).collect();
    sources.chunks_exact_mut(degree).for_each(<[u32]>::sort_unstable);
    let graph = Graph::new(starts, sources, None)?;
    let params = Params::new(context.model.slots(), 1)?;
    let (width, is_learnt) = (context.inputs.width(), !context.inputs.slots().is_empty());
    let values = vec![0.5; vertices * width];
    let arena = Arena::new();
    let budget = Budget::new(room);
    let slots: Vec<ReuseSlots> = (0..context.span()).map(|_| ReuseSlots::new(budget.clone())).collect();
    let several = context.together[0] > 1;
    let snapshots = Together::new(several, context.update);
    // The rows of a batch are copied from those of all vertices.
    let some = context.vertex_batches().map(|_| Arc::new((0..vertices as u32).collect::<Vec<u32>>()));
    let together = several.then_some(&snapshots);
    {
        let mut tape = Tape::new(&arena);
        if context.alike {
            tape.expect_alike();
        }
        let bound = params.bind(&mut tape)?;
        let mut frames: Vec<Frame<'_>> = Vec::with_capacity(context.span());
        for (snapshot, slots) in slots.iter().enumerate() {
            let shape = Shape::new(vertices, width);
            // Learnt columns stand beside the others in a matrix of its own.
            let features = match (is_learnt, frames.last()) {
                (_, Some(frame)) if context.inputs.never_change() => frame.features,
                (true, _) => {
                    let learnt = tape.parameter(shape, &values)?;
                    tape.scale(learnt, 1.0)?
                }
                (false, _) => {
                    let all = tape.constant(shape, &values)?;
                    some.as_ref().map_or(Ok(all), |some| tape.gather(all, some.clone()))?
                }
            };
            let reuse = (!is_learnt && some.is_none()).then_some(Reuse { slots, parameters: None });
            let common = Some(Common { together: &snapshots, snapshot });
            let is_same = |frame: &&Frame<'_>| context.increments.is_some() && frame.features == features;
            let before = frames.last().filter(is_same).map(|_| &graph);
            frames.push(Frame { reuse, common, before, ..Frame::new(&graph, features) });
        }
        let (model, last) = (&*context.model, frames.len().saturating_sub(context.window));
        // As far from each other as they may be.
        let [count, _] = context.together;
        let start = |number: usize| last * number / (count - 1).max(1);
        model.ahead(&mut tape, &bound, &frames)?;
        let mut all = Vec::with_capacity(count);
        for start in (0..count).map(start) {
            let window = &frames[start..(start + context.window).min(frames.len())];
            let mut exchanged = model.exchange(&mut tape, &bound, window, &[])?;
            for step in exchanged.steps.iter_mut().filter(|_| some.is_some()) {
                *step = tape.slice_rows(*step, 0..targets)?;
            }
            all.push(exchanged);
        }
        let only_last = !context.settings.loss_at_all() && !context.goal.holds_all_rows();
        let of = |exchanged| Exchanged { together, only_last, ..Exchanged::first(exchanged) };
        let windows: Vec<Exchanged<'_>> = all.iter().map(of).collect();
        let sum = |tape: &mut Tape<'_>, passed: &[Passed]| {
            let steps = passed.iter().flat_map(|passed| &passed.steps);
            let sums = steps.map(|&step| tape.sum(step)).collect::<Result<Vec<_>, _>>()?;
            tape.add_all(&sums)
        };
        let loss = match context.goal.holds_all_rows() {
            true => {
                let passed = windows.iter().map(|&window| model.rows(&mut tape, &bound, window));
                let passed = passed.collect::<Result<Vec<_>, _>>()?;
                sum(&mut tape, &passed)?
            }
            false => loss_by_rows(&mut tape, model, &bound, &windows, &[], move |tape, _, passed, _| {
                sum(tape, passed)
            })?,
        };
        tape.backward(loss)?;
    }
    let products = slots.iter().map(ReuseSlots::bytes).sum();
    let increments = snapshots.increments();
    Ok(Practice { buffers: arena.bytes(), asked: graph.asked(), products, increments })
}
