//! `kymo train` and `kymo evaluate` as a user meets them: what is learnt, what is left behind, and the same
//! digits again.

use crate::fixture::Bench;
use kymo::model::metric;
use kymo::run::task;
use serde_json::Value;

/// Trains on the built-in data and looks at everything that a run leaves.
fn learns(task: &str, options: &str, baselines: [&str; 2]) {
    let bench = Bench::new();
    let answer = bench.done(&format!("train --task {task} {options} -o run"));
    let usual = task::find(task).unwrap().metrics();
    let deciding = metric::find(usual[0]).unwrap();
    assert!(answer.out.ends_with("kymo predict run -o predictions.csv\n"), "{}", answer.out);
    for row in ["graphsage-linear", baselines[0], baselines[1]] {
        let row = answer.out.lines().rfind(|line| line.starts_with(&format!("{row} ")));
        let row = row.unwrap_or_else(|| panic!("a row is missing in {}", answer.out));
        let numbers = row.split_whitespace().skip(1).map(|number| number.parse::<f64>().unwrap());
        assert_eq!(numbers.count(), usual.len(), "{row}");
    }

    let names: Vec<String> = bench.files("run").into_keys().collect();
    for name in ["settings.toml", "metrics.jsonl", "checkpoint.safetensors", "summary.json"] {
        assert!(names.iter().any(|found| found == name), "{name} is not in {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("tensorboard/events.out.tfevents")), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".partial")), "{names:?}");

    let summary: Value = serde_json::from_slice(&bench.of_run("run", "summary.json")).unwrap();
    let log = bench.log("run");
    assert_eq!(summary["epochs"], log.len());
    for (index, line) in log.iter().enumerate() {
        assert_eq!(line["epoch"], index + 1);
        assert!(line["loss"].is_f64() && line["validation"][deciding.name()].is_f64(), "{line}");
    }
    let best = log.iter().rfind(|line| line["best"] == true).unwrap();
    assert_eq!((&best["epoch"], &best["validation"]), (&summary["best_epoch"], &summary["validation"]));

    let reached = summary["test"]["metrics"][deciding.name()].as_f64().unwrap();
    for baseline in baselines {
        let simple = summary["test"]["baselines"][baseline][deciding.name()].as_f64().unwrap();
        let better = if deciding.higher_is_better() { reached > simple } else { reached < simple };
        assert!(better, "{} is {reached}, that of {baseline} {simple}", deciding.name());
    }
    evaluates_again(&bench, task, &summary);
}

/// The checkpoint gives the numbers that training ended with, and those that training did not ask for.
fn evaluates_again(bench: &Bench, task: &str, summary: &Value) {
    let test = bench.json("evaluate run");
    let keys: Vec<&String> = test.as_object().unwrap().keys().collect();
    let mut expected = vec!["baselines", "metrics", "split", "task"];
    // Links are told apart by whether training has seen their ends.
    if task == "link-prediction" {
        expected.insert(2, "slices");
        expected.insert(0, "attacks");
        let attacks = test["attacks"].as_object().unwrap();
        assert!(["random", "popular", "new-then-low-ids"].iter().all(|name| attacks.contains_key(*name)));
        assert!(attacks.values().all(|metrics| metrics["mrr-tgb"].is_f64()));
        assert_eq!(attacks["popular"], test["baselines"]["popular"], "a baseline is judged once");
        let parts = test["slices"].as_array().unwrap();
        assert!(parts.iter().all(|part| part["metrics"]["mrr-tgb"].is_f64() && part["count"].is_u64()));
    }
    assert_eq!(keys, expected);
    assert_eq!((&test["task"], &test["split"]), (&task.into(), &"test".into()));
    assert_eq!(test, summary["test"]);
    let validation = bench.json("evaluate run --split validation");
    assert_eq!(
        (&validation["split"], &validation["metrics"]),
        (&"validation".into(), &summary["validation"])
    );
    let all = bench.json("evaluate run --metrics all");
    let shows = task::find(task).unwrap().shows();
    let fitting = metric::ALL.iter().filter(|metric| shows.contains(&metric.needs()));
    let mut names: Vec<&str> = fitting.map(|metric| metric.name()).collect();
    names.sort_unstable();
    let baselines = all["baselines"].as_object().unwrap().values();
    for found in baselines.chain([&all["metrics"]]) {
        assert!(found.as_object().unwrap().keys().eq(&names), "{found} are not {names:?}");
    }
    for (name, value) in test["metrics"].as_object().unwrap() {
        assert_eq!(&all["metrics"][name], value, "{name} depends on who asks for it");
    }
    let table = bench.done("evaluate run").out;
    let mut shown: Vec<&str> = table.lines().next().unwrap().split_whitespace().skip(1).collect();
    shown.sort_unstable();
    assert!(test["metrics"].as_object().unwrap().keys().eq(&shown), "{table}");
}

/// Guards that large numbers do not run into those beside them.
#[test]
fn columns_of_a_table_stay_apart() {
    let bench = Bench::new();
    bench.file("edges.csv", "src,dst\n0,1\n1,2\n2,0\n");
    let row = |step: usize| format!("{},{},{}\n", step * step * 1000, 7e7 - step as f64, step % 2);
    bench.file("signal.csv", format!("0,1,2\n{}", (0..30).map(row).collect::<String>()));
    bench.done("ingest edges.csv --signal signal.csv -o large");
    bench.done("train large --task node-regression --epochs 1 -o run");
    let table = bench.done("evaluate run").out;
    let words = |line: &str| line.split_whitespace().count();
    let rows: Vec<&str> = table.lines().take_while(|line| !line.contains(" does not beat ")).collect();
    assert!(rows.len() > 2 && table.contains("17667.5333"), "{table}");
    assert!(rows.iter().all(|row| words(row) == words(rows[0])), "{table}");
}

/// Guards that a model that is no better than a rule of thumb is not sold as a result.
#[test]
fn a_model_behind_a_baseline_is_said_to_be() {
    let bench = Bench::new();
    bench.done("generate power-law --vertices 60 --edges 200 --steps 20 --features 3 -o small");
    bench.make_weighted();
    // Past values alone are worth something.
    let nothing = "--set train.learning_rate=1e-12 --set task.past=0 --set edge.history=false";
    for task in task::ALL.iter().map(|task| task.name()) {
        let store = if task.starts_with("edge-") { "weighted" } else { "small" };
        let train = format!("train {store} --task {task} --epochs 1 {nothing} -o {task}");
        let (trained, shown) = (bench.done(&train).out, bench.done(&format!("evaluate {task}")).out);
        let behind = shown.lines().find(|line| line.contains(" does not beat "));
        let behind = behind.unwrap_or_else(|| panic!("{task} learnt nothing: {shown}"));
        assert!(trained.contains(behind), "{trained}");
        let all = bench.json(&format!("evaluate {task}"));
        let metric = metric::find(task::find(task).unwrap().metrics()[0]).unwrap();
        let best = behind.split_whitespace().nth(4).unwrap();
        let of = |metrics: &Value| metrics[metric.name()].as_f64().unwrap();
        let (model, best) = (of(&all["metrics"]), of(&all["baselines"][best]));
        for other in all["baselines"].as_object().unwrap().values().map(of) {
            assert!(if metric.higher_is_better() { best >= other } else { best <= other }, "{behind}");
        }
        assert!(if metric.higher_is_better() { best >= model } else { best <= model }, "{behind}");
    }
}

/// Guards the options: what they do is tested where it is done.
#[test]
fn a_run_goes_with_another_store() {
    let bench = Bench::new();
    for (name, seed) in [("one", 1), ("other", 2)] {
        let size = "--vertices 60 --edges 200 --steps 20 --features 3";
        bench.done(&format!("generate power-law {size} --seed {seed} -o {name}"));
    }
    bench.done("train one --epochs 2 --hidden 8 -o first");
    let [own, there] = ["evaluate first", "evaluate first other"].map(|line| bench.json(line));
    assert_ne!(own["metrics"], there["metrics"]);
    bench.done("predict first other -o there.csv");
    bench.done("predict first -o own.csv");
    let [own, there] =
        ["own.csv", "there.csv"].map(|file| std::fs::read_to_string(bench.path(file)).unwrap());
    assert!(own.lines().count() == there.lines().count() && own != there);
    // The settings are those of the first, but for what is said.
    bench.done("train other --from first --epochs 1 -o second");
    let settings = std::fs::read_to_string(bench.path("second/settings.toml")).unwrap();
    assert!(settings.contains("hidden = 8") && settings.contains("epochs = 1"), "{settings}");
    let error = bench.refused("train --from first --resume -o second");
    assert!(error.starts_with("--from: a run goes on with its own parameters"), "{error}");
    let error = bench.refused("train other --from none -o third");
    assert!(error.starts_with("--from: there is no none; there is first, second"), "{error}");
}

#[test]
fn values_are_learnt() {
    learns("node-regression", "", ["last-value", "mean"]);
}

#[test]
fn classes_are_learnt() {
    learns("node-classification", "", ["majority", "last-class"]);
}

#[test]
fn links_are_learnt() {
    // All epochs would take a minute here, and two are enough to beat the baselines.
    learns("link-prediction", "--epochs 2", ["edgebank", "edgebank-window"]);
}

#[test]
fn the_same_seed_gives_the_same_digits_on_any_number_of_threads() {
    let bench = Bench::new();
    // More rows than one thread takes at a time.
    bench.done("generate power-law --vertices 700 --edges 3000 --steps 12 --features 5 -o store");
    bench.make_weighted();
    for task in task::ALL.iter().map(|task| task.name()) {
        let store = if task.starts_with("edge-") { "weighted" } else { "store" };
        let train = |run: &str, options: &str| {
            bench.done(&format!(
                "train {store} --task {task} --epochs 2 --set model.dropout=0.2 {options} -o {task}-{run}"
            ));
            bench.checkpoint(&format!("{task}-{run}"))
        };
        let first = train("first", "");
        assert!(first == train("again", ""), "{task}");
        assert!(first == train("one", "--threads 1"), "{task}");
        assert!(first == train("three", "--threads 3"), "{task}");
        assert!(first != train("seed", "--seed 2"), "{task}: the seed changes nothing");
        let test = |run: &str, threads: usize| {
            bench.json(&format!("evaluate {task}-{run} --metrics all --threads {threads}"))
        };
        assert_eq!(test("first", 1), test("three", 3), "{task}");
    }
}

#[test]
fn a_run_without_a_name_gets_the_next_free_one() {
    let bench = Bench::new();
    bench.make_small();
    for number in 1..3 {
        let answer = bench.done("train small --epochs 1");
        let folder = format!("runs/graphsage-linear-node-regression-{number}");
        assert!(answer.out.contains(&format!("everything goes to {folder}\n")), "{}", answer.out);
        assert_eq!(bench.log(&folder).len(), 1);
    }
}

#[test]
fn json_is_all_that_is_printed_where_it_is_asked_for() {
    let bench = Bench::new();
    bench.make_small();
    let printed = bench.json("train small --epochs 2 -o run");
    let written: Value = serde_json::from_slice(&bench.of_run("run", "summary.json")).unwrap();
    assert_eq!(printed, written);
    assert_eq!(printed["epochs"], 2);
}

#[test]
fn every_model_trains_in_every_mode_it_can() {
    let bench = Bench::new();
    bench.make_small();
    for model in kymo::model::zoo::ALL.iter().map(|recipe| recipe.name) {
        for mode in ["windows", "sequence", "truncated"] {
            let run = format!("{model}-{mode}");
            let args =
                format!("train small --model {model} --mode {mode} --epochs 1 --hidden 8 -o {run} --json");
            let answer = bench.kymo(&args);
            // Models without a state have nothing to hand over, and say so.
            if mode == "truncated" && answer.code == 2 {
                assert!(answer.err.contains("hands nothing over; choose windows"), "{}", answer.err);
                continue;
            }
            assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{run}");
            bench.json(&format!("evaluate {run}"));
        }
    }
}

/// Guards that one worker leaves its timeline, with what is read beside what is computed, and that a run that
/// goes on leaves that of its last part.
#[test]
fn the_timeline_of_one_worker_shows_reading_beside_computing() {
    let bench = Bench::new();
    bench.done("generate power-law --vertices 2000 --edges 20000 --steps 60 --features 16 -o store");
    bench.done("train store --model t-gcn --epochs 2 --memory 7MiB -o run");
    let spans = |kind: &str| -> Vec<Value> {
        let trace: Value = serde_json::from_slice(&bench.of_run("run", "trace.json")).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().clone();
        events.into_iter().filter(|event| event["cat"] == kind).collect()
    };
    // A span for each of the 38 windows of 4 of 41 steps, in two epochs.
    let (computed, read) = (spans("compute"), spans("prepare"));
    assert_eq!(computed.len(), 2 * 38);
    let summary: Value = serde_json::from_slice(&bench.of_run("run", "summary.json")).unwrap();
    assert!(summary["snapshots"]["steps"].as_u64().unwrap() < 40, "everything fits: {summary}");
    assert!(!read.is_empty() && read.iter().all(|span| span["tid"] != computed[0]["tid"]));
    assert!(bench.of_run("run", "trace/worker-0.jsonl").starts_with(b"{\"version\":1,\"worker\":0,"));
    bench.done("train --resume --epochs 3 -o run");
    assert_eq!(spans("compute").len(), 38);
}

/// Guards that what a run took is told again after its closing lines are gone.
#[test]
fn inspect_says_what_a_run_took() {
    let bench = Bench::new();
    bench.make_small();
    let closing = bench.done("train small --epochs 2 -o run").out;
    let line = closing.lines().find(|line| line.starts_with("snapshots: ")).unwrap();
    assert!(line.contains(" in memory, ") && line.contains(" as whole snapshots; read in "), "{line}");
    let told = bench.done("inspect run").out;
    assert!(told.starts_with("run: graphsage-linear with ") && told.contains("best of 2 epochs: epoch "));
    assert!(told.lines().any(|told| told == line), "{told}");
    assert_eq!(
        bench.json("inspect run"),
        serde_json::from_slice::<Value>(&bench.of_run("run", "summary.json")).unwrap()
    );
    assert!(bench.refused("inspect run --steps").starts_with("--steps: run is a run"));
    std::fs::remove_file(bench.path("run/summary.json")).unwrap();
    let error = bench.refused("inspect run");
    assert!(error.contains("the run run has not finished; kymo train --resume -o run goes on"), "{error}");
}
