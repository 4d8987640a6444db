//! Runs that cannot be: data without what the task needs, numbers that run away, files that are damaged.

use crate::fixture::Bench;
use std::path::Path;

#[test]
fn data_without_what_the_task_needs_is_refused() {
    let bench = Bench::new();
    let rows: String = (0..400).map(|i| format!("{} {} {i}\n", i % 17, i * i % 23)).collect();
    bench.file("events.txt", rows);
    bench.done("ingest events.txt --format snap --steps 10 -o plain");
    let error = bench.refused("train plain -o run");
    assert!(
        error.contains("plain has no values to predict; ingest a signal (kymo ingest --signal)"),
        "{error}"
    );
    let error = bench.refused("train plain --task node-classification -o run");
    assert!(error.contains("plain has no classes to predict; ingest them (kymo ingest --labels)"), "{error}");
    let error = bench.refused("train plain --task link-prediction --window 7 -o run");
    let expected =
        "train.window: a window of 7 steps does not fit into the 6 steps for training; choose at most 6";
    assert!(error.starts_with(expected), "{error}");
    bench.done("train plain --task link-prediction --window 6 --epochs 1 -o run");
    bench.done("ingest events.txt --format snap --steps 2 -o short");
    let error = bench.refused("train short --task link-prediction -o none");
    assert!(error.starts_with("split: 1 samples cannot be divided"), "{error}");
}

/// What is a share or a count of events is refused where a store does not know them.
#[test]
fn events_are_asked_about_only_where_they_are_known() {
    let bench = Bench::new();
    bench.make_weighted();
    bench.make_small();
    let refused = |store: &str, setting: &str| {
        bench.refused(&format!("train {store} --task link-prediction --set {setting} -o run"))
    };
    let error = refused("weighted", "link.weigh=events");
    assert!(error.starts_with("link.weigh: found \"events\", but the weights of"), "{error}");
    assert!(error.contains("has an edge of weight") && error.contains("--weight count"), "{error}");
    let error = refused("small", "link.edgebank_window=3x");
    assert!(error.starts_with("link.edgebank_window: found '3x', expected auto"), "{error}");
    let rows: String = (0..900).map(|i| format!("{} {} {i}\n", i % 7, i * i % 5)).collect();
    bench.file("events.txt", rows);
    bench.done("ingest events.txt --format snap --events 30 -o events");
    let settings = "--set link.weigh=events --set split.by=events --set link.edgebank_window=15%";
    let summary = bench.json(&format!("train events --task link-prediction {settings} --epochs 1 -o run"));
    let slices = summary["test"]["slices"].as_array().unwrap();
    let events: u64 = slices.iter().map(|slice| slice["count"].as_u64().unwrap()).sum();
    // The 85th percent of 900 events ends in the 26th of 30 steps.
    assert_eq!(events, 4 * 30);
}

/// A step that goes to infinity ends the run; what came before can still be used.
#[test]
fn a_loss_that_is_no_number_ends_the_run_and_not_its_checkpoint() {
    let bench = Bench::new();
    bench.make_small();
    for mode in ["windows", "sequence"] {
        let run = &format!("far-{mode}");
        let wild = "--set train.learning_rate=1e30 --set train.clip=0 --set task.past=0";
        let answer = bench.kymo(&format!("train small --mode {mode} {wild} -o {run} --json"));
        assert_eq!((answer.code, answer.err.lines().count()), (6, 1), "{mode}: {}", answer.err);
        // A sequence has one step an epoch: there the validation is the first to see what came of it.
        let seen = if mode == "windows" {
            "error: training diverged: the loss became "
        } else {
            "error: training diverged: the mae of the validation became "
        };
        assert!(answer.err.starts_with(seen), "{}", answer.err);
        assert!(answer.err.contains("Lower train.learning_rate, set train.clip"), "{}", answer.err);
        bench.json(&format!("evaluate {run}"));
        bench.done(&format!("predict {run} -o {run}.csv"));
        let again = bench.kymo(&format!("train -o {run} --resume --json"));
        assert_eq!(again.err, answer.err, "{mode}: the same again");
    }
}

/// Guards the exit code of a test that is no number: it was success.
#[test]
fn a_test_that_is_no_number_is_no_success() {
    let bench = Bench::new();
    // A signal that leaves the range of numbers in its last steps, which only the test looks at.
    let value = |step: u32, vertex: u32| match step {
        17.. => "3.4e38".to_owned(),
        _ => format!("{}", (step * 7 + vertex * 3) % 5),
    };
    let row = |step: u32| (0..4).map(|vertex| value(step, vertex)).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = (0..20).map(row).collect();
    bench.file("signal.csv", format!("0,1,2,3\n{}\n", rows.join("\n")));
    bench.file("roads.csv", "0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n");
    bench.done("ingest roads.csv --format matrix --signal signal.csv -o roads");
    let train = "train roads --model gcn --epochs 2 --set data.standardise=false --set train.learning_rate=2";
    let answer = bench.kymo(&format!("{train} -o run --json"));
    assert_eq!((answer.code, answer.out.as_str()), (6, ""), "{}", answer.err);
    let said = answer.err.lines().last().unwrap();
    assert!(
        said.starts_with("error: training diverged: the ") && said.contains(" of the test became "),
        "{said}"
    );
    assert!(
        said.contains("with the parameters of epoch ") && said.contains("gets no summary.json"),
        "{said}"
    );
    assert!(!bench.path("run/summary.json").exists() && bench.log("run").len() == 2);
    // Evaluating it is no success either, and the rest of the run can be used.
    let again = bench.kymo("evaluate run --json");
    assert_eq!((again.code, again.out.as_str()), (6, ""), "{}", again.err);
    bench.json("evaluate run --split validation");
    assert_eq!(bench.kymo("train -o run --resume --json").err, answer.err, "the same again");
}

/// Guards parts of the data with nothing to predict: training on them ended in success.
#[test]
fn a_part_without_anything_to_predict_is_refused() {
    let bench = Bench::new();
    // Nothing happens from step 12 to step 18 of 20.
    let times = (0..600).map(|i| 2 * i).chain([1999]);
    let rows: String = times.map(|time| format!("{} {} {time}\n", time % 17, time * time % 23)).collect();
    bench.file("events.txt", rows);
    bench.done("ingest events.txt --format snap --steps 20 -o gap");
    let error = bench.refused("train gap --task link-prediction -o run");
    let expected = "split: there is nothing to predict in the part for validation (train has ";
    assert!(error.starts_with(expected) && error.contains("validation has 0 at 3 samples"), "{error}");
    assert!(error.contains("change split.train, split.validation, task.horizon or train.window"), "{error}");
    bench.done(
        "train gap --task link-prediction --epochs 1 --set split.train=0.5 --set split.validation=0.2 -o run",
    );
}

#[test]
fn damaged_checkpoints_are_refused() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 2 -o run");
    bench.done("train small --epochs 2 --model gcn -o other");
    let whole = bench.checkpoint("run");
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    // In the length, in the header, at the first and at the last number.
    let flipped = [3, 100, 8 + header, whole.len() - 1].map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    });
    let cut = [0, 5, 8 + header / 2, whole.len() / 2, whole.len() - 1].map(|length| whole[..length].to_vec());
    let swapped = [bench.checkpoint("other"), b"not a checkpoint at all".to_vec()];
    for bytes in flipped.into_iter().chain(cut).chain(swapped) {
        bench.file("run/checkpoint.safetensors", &bytes);
        let before = bench.files("run");
        for command in ["evaluate run", "predict run -o out.csv", "train -o run --resume --epochs 3"] {
            let error = bench.refused(command);
            assert!(error.starts_with("run/checkpoint.safetensors: "), "{command}: {error}");
        }
        assert!(bench.files("run") == before, "a damaged run was changed");
    }
    bench.file("run/checkpoint.safetensors", &whole);
    bench.done("train -o run --resume --epochs 3");
}

#[test]
fn data_that_has_changed_since_is_refused() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 -o run");
    bench.done("generate power-law --vertices 60 --edges 210 --steps 20 --features 3 -o small --overwrite");
    for command in ["evaluate run", "predict run -o out.csv", "train -o run --resume --epochs 3"] {
        let error = bench.refused(command);
        assert!(error.contains("the data has changed since the run began"), "{command}: {error}");
    }
    std::fs::remove_dir_all(bench.path("small")).unwrap();
    assert!(bench.refused("evaluate run").contains("small"));
}

#[test]
fn folders_without_a_run_are_refused() {
    let bench = Bench::new();
    bench.make_small();
    std::fs::create_dir(bench.path("empty")).unwrap();
    for folder in ["none", "empty", "small"] {
        for command in [format!("evaluate {folder}"), format!("predict {folder} -o out.csv")] {
            let error = bench.refused(&command);
            assert_eq!(error, format!("RUN: {folder} has no run; kymo train -o {folder} makes one"));
        }
    }
}

/// Data is made before it is known whether the settings go with it.
#[test]
fn what_is_refused_leaves_no_built_in_data_behind() {
    let bench = Bench::new();
    assert!(bench.refused("train --window 100 -o run").starts_with("train.window: "));
    std::fs::create_dir(bench.path("mine")).unwrap();
    bench.file("mine/notes.txt", "keep");
    bench.refused("train --window 100 -o mine");
    assert!(bench.path("mine/notes.txt").exists() && !Path::exists(&bench.path("mine/data")));
}
