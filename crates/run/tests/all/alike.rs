//! Snapshots of which few edges change: what is aggregated at once is what is aggregated one by one, to
//! rounding, whatever the model, task, mode and number of windows; in the memory that was said; and a run
//! that goes on has the bits of one that was never interrupted.

use std::collections::BTreeSet;
use std::sync::Arc;

use kymo_graph::Store;
use kymo_model::zoo;
use kymo_run::config::{Features, Mode, NormalisationName, Order};
use kymo_run::schedule::Division;
use kymo_run::{Settings, Worker, task};

use super::fixture::{Sketch, iterations, rate, run};
use super::resume::{left_behind, run_in_pieces};
use super::together::{assert_close, plain, practise};

/// Data of which one edge goes and one comes at every step; features are others at step `changes`, if ever.
fn slow(seed: u64, vertices: usize, changes: Option<usize>) -> Sketch {
    let mut sketch = Sketch::random(seed, vertices, 16);
    let (features, mut edges) = (sketch.moments[0].features.clone(), sketch.moments[0].edges.clone());
    for (t, moment) in sketch.moments.iter_mut().enumerate().skip(1) {
        let (new, old) = (moment.edges.difference(&edges).next().copied(), edges.iter().nth(t).copied());
        edges.extend(new);
        edges.retain(|&edge| Some(edge) != old);
        moment.edges.clone_from(&edges);
        if changes != Some(t) {
            moment.features.clone_from(&features);
        }
    }
    sketch
}

fn is_alike(settings: &Settings, store: &Arc<Store>) -> bool {
    Worker::open(settings.clone(), store.clone()).unwrap().context.alike
}

#[test]
fn snapshots_at_once_train_as_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [None, Some(7)].map(|changes| {
        let name = format!("store{}", changes.unwrap_or(0));
        slow(3, 14, changes).write_both(&folder.path().join(name))
    });
    let mut turn = 0;
    for task in task::ALL {
        for recipe in zoo::ALL {
            let store = stores[turn % 2].of(task.name());
            let mut settings = plain(store, task.name(), recipe.name);
            settings.train.mode = if turn % 7 == 6 { Mode::Sequence } else { Mode::Windows };
            // Of three snapshots it would not be quicker.
            settings.train.window = 4;
            settings.parallel.order = Order::Runs;
            settings.parallel.windows = if turn % 7 == 6 { 1 } else { 1 + turn % 3 };
            (settings.model.layers, settings.model.blocks) = (1 + turn % 2, 1 + usize::from(turn % 5 == 0));
            settings.data.features = if turn % 3 == 1 { Features::Both } else { Features::Auto };
            settings.run.keep = turn % 2 == 0;
            // Fewer columns than twice the features have: products come first then.
            settings.model.hidden = if turn % 4 == 2 { 2 } else { settings.model.hidden };
            settings.model.heads = if turn % 4 == 2 { 1 } else { settings.model.heads };
            let what = format!("{}, {}, turn {turn}", recipe.name, task.name());
            turn += 1;
            assert!(is_alike(&settings, store), "{what}");
            let found = practise(&settings, store);
            assert_eq!(found, practise(&settings, store), "{what}");
            settings.parallel.increments = false;
            assert!(!is_alike(&settings, store), "{what}");
            assert_close(&what, &found, &practise(&settings, store));
        }
    }
}

/// Where a gradient flows into what is aggregated and values follow from the row, products are made out of
/// those of the snapshot before: not the same bits, and the same numbers.
#[test]
fn products_are_made_out_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = slow(9, 40, None).write(&folder.path().join("store"));
    for (model, normalisation, features, hidden, windows) in [
        ("graphsage-linear", NormalisationName::Both, Features::Learnt, 8, 1),
        ("t-gcn", NormalisationName::Right, Features::Learnt, 8, 3),
        ("t-gcn", NormalisationName::Both, Features::Learnt, 8, 2),
        ("gcn-gru", NormalisationName::None, Features::Learnt, 8, 2),
        ("dcrnn", NormalisationName::Both, Features::Learnt, 4, 1),
        // Fewer columns than half of the features: weights come first.
        ("wd-gcn", NormalisationName::Right, Features::Auto, 1, 4),
        ("evolvegcn-o", NormalisationName::Right, Features::Learnt, 8, 1),
    ] {
        let mut settings = plain(&store, "node-regression", model);
        (settings.model.normalisation, settings.data.features) = (normalisation, features);
        (settings.model.hidden, settings.parallel.windows) = (hidden, windows);
        settings.model.heads = 1;
        (settings.train.window, settings.parallel.order) = (5, Order::Runs);
        let found = practise(&settings, &store);
        assert_eq!(found, practise(&settings, &store), "{model}");
        settings.parallel.increments = false;
        let whole = practise(&settings, &store);
        assert_close(model, &found, &whole);
        assert!(found != whole, "{model}: the way that was meant");
    }
}

/// Where rows that changed are summed anew, and rows that are not kept are copied, all bits are those of no
/// reuse at all; attention goes through one snapshot at a time.
#[test]
fn rows_that_are_summed_anew_have_the_bits_of_no_reuse() {
    let folder = tempfile::tempdir().unwrap();
    let store = slow(9, 40, None).write(&folder.path().join("store"));
    for (model, features, keep) in [
        ("graphsage-linear", Features::Learnt, true),
        ("t-gcn", Features::Learnt, true),
        ("dcrnn", Features::Both, false),
        ("gat-lstm", Features::Auto, true),
        ("graphsage-linear", Features::Auto, false),
    ] {
        let mut settings = plain(&store, "node-regression", model);
        (settings.data.features, settings.run.keep) = (features, keep);
        (settings.train.window, settings.parallel.windows) = (5, 3);
        settings.parallel.order = Order::Runs;
        settings.parallel.recompute = true;
        assert!(!is_alike(&settings, &store));
        let found = practise(&settings, &store);
        settings.parallel.increments = false;
        assert_eq!(found, practise(&settings, &store), "{model}");
        (settings.parallel.increments, settings.parallel.recompute) = (true, false);
        // With features that stay and are not kept, nothing but copies is left, and rows that were not
        // multiplied again.
        let other = practise(&settings, &store);
        assert_close(model, &found, &other);
        assert!(features == Features::Auto || found != other, "{model}: there was something to recompute");
    }
}

#[test]
fn snapshots_that_change_much_are_taken_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(3, 14, 16).write(&folder.path().join("store"));
    assert!(!is_alike(&plain(&store, "node-regression", "gat-lstm"), &store));
}

/// Where few rows of what is kept change, and there is no room for all of it, they alone are held; what comes
/// of it has the bits of nothing kept.
#[test]
fn products_of_which_few_rows_change_are_kept_in_less_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = slow(5, 400, None).write(&folder.path().join("store"));
    for (model, normalisation, products) in [
        ("graphsage-linear", NormalisationName::Both, 1),
        ("dcrnn", NormalisationName::Both, 2),
        ("t-gcn", NormalisationName::Right, 1),
        ("wd-gcn", NormalisationName::None, 1),
    ] {
        let mut settings = plain(&store, "node-regression", model);
        // Wider than the features, so that those are aggregated as they are.
        (settings.model.normalisation, settings.model.hidden) = (normalisation, 32);
        let held = |settings: &Settings| {
            let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
            let mut steps = BTreeSet::new();
            for iteration in &iterations(&worker.context, &Division::Groups, 0) {
                iteration.windows().iter().for_each(|window| steps.extend(window.steps.clone()));
                worker.iterate(iteration, rate(settings), false).unwrap();
            }
            (worker.snapshots().held_bytes(), steps.len())
        };
        let worker = Worker::open(settings.clone(), store.clone()).unwrap();
        let step = products * 400 * 4 * worker.context.inputs.width();
        let all = worker.context.sizes().unwrap().all();
        let (with_all, steps) = held(&settings);
        let mut without = settings.clone();
        without.run.keep = false;
        let (nothing, _) = held(&without);
        assert_eq!(with_all - nothing, steps * step, "{model}");
        let some = store.steps() * step * 3 / 4;
        settings.run.memory = format!("{}B", all + all / 16 + store.bytes() as usize + some);
        let some = held(&settings).0 - nothing;
        assert!(some > step && some < steps * step / 2, "{model}: {some} of {}", steps * step);
        assert_eq!(practise(&settings, &store), practise(&without, &store), "{model}");
    }
}

/// One worker is told what it needs; what it holds of buffers then is no more.
#[test]
fn memory_is_that_of_all_snapshots_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = slow(5, 3000, None).write(&folder.path().join("store"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for (model, layers) in [("gat-lstm", 1), ("dysat", 2)] {
        let mut settings = plain(&store, "node-regression", model);
        (settings.model.hidden, settings.model.layers) = (32, layers);
        let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
        pool.install(|| {
            for iteration in iterations(&worker.context, &Division::Groups, 0).iter().take(2) {
                worker.iterate(iteration, rate(&settings), false).unwrap();
            }
            let [row, blocks] = worker.context.buffers().unwrap();
            let (said, taken) = (3000 * row + blocks, worker.buffer_bytes() as u64);
            let what = format!("{model}: {said} said, {taken} taken");
            assert!(taken <= said + said / 10 && taken >= said / 3, "{what}");
        });
    }
}

#[test]
fn a_run_that_goes_on_has_the_bits_of_one_that_was_never_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let store = slow(6, 30, Some(5)).write(&folder.path().join("store"));
    let mut settings = plain(&store, "node-regression", "gat-lstm");
    (settings.parallel.windows, settings.parallel.order) = (3, Order::Runs);
    settings.run.checkpoint_windows = 1;
    let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(name));
    run(&settings, &whole);
    run_in_pieces(&settings, &parts, &[1, 2]);
    assert!(left_behind(&whole) == left_behind(&parts));
}
