//! Several workers as a user meets them: `kymo train --workers`, `kymo plan`, what is refused, and runs that
//! are ended.

use crate::fixture::Bench;
use crate::train_killed::survives_kills;
use kymo_plan::schedule::{self, Scheduler};
use kymo_plan::{Scheme, Strategy, partition, strategy};
use std::process::Command;

use serde_json::Value;

/// The scheduler of a strategy that has one.
fn scheduler(strategy: &Strategy) -> Option<&'static dyn Scheduler> {
    match strategy.scheme {
        Scheme::Scheduled(name) => schedule::find(name).ok(),
        _ => None,
    }
}

/// The names of the strategies that were built in.
fn names() -> Vec<&'static str> {
    let there = |strategy: &&Strategy| scheduler(strategy).is_none_or(|scheduler| scheduler.is_there());
    strategy::ALL.iter().filter(there).map(|strategy| strategy.name).collect()
}

/// The numbers of a log that must not depend on who computed them.
fn close(found: &Value, expected: &Value, what: &str) {
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!((found - expected).abs() <= 1e-3 * expected.abs().max(1e-3), "{what}: {found} and {expected}");
}

#[test]
fn every_strategy_trains_a_store_as_one_worker_does() {
    let bench = Bench::new();
    bench.make_small();
    let how = "--model t-gcn --epochs 2 --set train.optimiser=sgd --set parallel.windows=2";
    bench.done(&format!("train small {how} -o alone"));
    let alone = bench.log("alone");
    for name in names() {
        // The first epoch of a scheduled strategy is measured, the second goes by the schedule.
        let is_scheduled = scheduler(strategy::find(name).unwrap()).is_some();
        let measured = if is_scheduled { "--set parallel.profile_epochs=1" } else { "" };
        let printed =
            bench.json(&format!("train small {how} {measured} --workers 2 --strategy {name} -o {name}"));
        let log = bench.log(name);
        assert_eq!(log.len(), alone.len(), "{name}");
        let same = match strategy::find(name).unwrap().scheme {
            Scheme::Scheduled(_) => 1,
            // Their batches are their own, and so is what comes of them.
            Scheme::Targets => 0,
            _ => alone.len(),
        };
        for (found, expected) in log.iter().zip(&alone[..same]) {
            close(&found["loss"], &expected["loss"], name);
            close(&found["validation"]["mse"], &expected["validation"]["mse"], name);
        }
        let workers = &printed["workers"];
        assert_eq!(workers["strategy"], name);
        let sent = workers["workers"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|report| report["sent"].as_array().unwrap());
        let sent: u64 = sent.map(|bytes| bytes.as_u64().unwrap()).sum();
        let files = bench.files(name);
        let planned = workers["planned"].as_u64().unwrap();
        let read = |file: &str| -> Value { serde_json::from_slice(&files[file]).unwrap() };
        match is_scheduled {
            false => assert_eq!(sent, 2 * planned, "{name}"),
            true => {
                let by_schedule = read("schedule.json")["iterations"].as_array().unwrap().len() as u64;
                let plan = read("plan.json");
                let windows = plan["windows"].as_u64().unwrap();
                let iterations = windows.div_ceil(2) + by_schedule;
                assert_eq!(sent * plan["iterations"].as_u64().unwrap(), planned * iterations, "{name}");
            }
        }
        for file in ["trace/worker-0.jsonl", "trace/worker-1.jsonl", "trace.json"] {
            assert!(files.contains_key(file), "{name}: no {file}");
        }
        let _: Value = serde_json::from_slice(&files["trace.json"]).unwrap();
        // Evaluation uses one worker, and gives the test metrics of the run.
        let seen = bench.json(&format!("evaluate {name}"));
        close(&seen["metrics"]["mse"], &printed["test"]["metrics"]["mse"], name);
    }
}

#[test]
fn built_in_data_is_shared_too_and_everything_is_said() {
    let bench = Bench::new();
    let answer = bench.done("train --workers 2 --strategy pts --epochs 1 -o run");
    for part in
        ["pts over 2 workers: ", "imbalance ", "pts over 2 workers; training sent ", "memory of each worker "]
    {
        assert!(answer.out.contains(part), "'{part}' is not in {}", answer.out);
    }
    // A run that is over says its result again, without training.
    let again = bench.json("train -o run --resume");
    assert_eq!(again["epochs"], 1);
    bench.done("train -o run --resume --workers 2 --epochs 2");
    assert_eq!(bench.log("run").len(), 2);
    // Other workers and another strategy go on with it.
    bench.done("train -o run --resume --workers 3 --strategy pss --epochs 3");
    assert_eq!(bench.log("run").len(), 3);
}

#[test]
fn plans_are_shown_compared_and_printed_as_json() {
    let bench = Bench::new();
    bench.make_small();
    let one = bench.done("plan small --workers 3 --strategy pts --model t-gcn").out;
    assert!(one.starts_with("pts over 3 workers: "), "{one}");
    assert_eq!(one.lines().count(), 2 + 3 + 1 + 1, "{one}");
    assert!(one.lines().last().unwrap().starts_with("recommended: "), "{one}");
    assert_eq!(bench.done("plan small --workers 3 --set parallel.strategy=pts --model t-gcn").out, one);
    let all = bench.done("plan small --workers 3 --strategy all").out;
    assert_eq!(bench.done("plan small --workers 3").out, all);
    let first = |table: &str| -> Vec<String> {
        let rows = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        rows.map(str::to_owned).collect()
    };
    let mut expected = vec!["one"];
    expected.extend(names());
    // What is not in this build is named.
    let missing: Vec<&str> =
        strategy::ALL.iter().filter(|strategy| !strategy.is_built()).map(|strategy| strategy.name).collect();
    expected.extend(["3", "dgc:", "dgc-greedy:", "left", "recommended:"].iter().filter(|&&word| {
        // Chunks have a word to say about how they were made.
        word != "left" || !missing.is_empty()
    }));
    assert_eq!(first(&all), expected, "{all}");
    assert!(missing.iter().all(|name| all.contains(name)), "{all}");
    let some = bench.done("plan small --workers 2 --strategy pss,pts,pss-ts").out;
    assert_eq!(first(&some), ["one", "pss", "pts", "pss-ts", "2", "recommended:"], "{some}");

    let plans = bench.json("plan small --workers 3");
    let plans = plans.as_array().unwrap();
    assert!(plans.iter().map(|plan| plan["strategy"].as_str().unwrap()).eq(names()));
    for plan in plans {
        let workers = plan["workers"].as_array().unwrap();
        let sum = |key: &str| workers.iter().map(|share| share[key].as_u64().unwrap()).sum::<u64>();
        // Windows of 4 steps, 60 vertices each.
        let whole = 4 * 60 * plan["windows"].as_u64().unwrap();
        match strategy::find(plan["strategy"].as_str().unwrap()).unwrap().scheme {
            // What several see is computed by each of them.
            Scheme::Targets => assert!(sum("cells") > whole, "{plan}"),
            _ => assert_eq!(sum("cells"), whole, "{plan}"),
        }
        assert!(workers.len() == 3 && sum("memory") > 0 && sum("edges") > 0, "{plan}");
    }
    assert_eq!(bench.json("plan small --workers 2 --strategy pts").as_array().unwrap().len(), 1);
    assert_eq!(bench.names(), ["small"], "a plan leaves nothing behind");
    // Strategies that a mode rules out are missing among all, and are refused where they are named.
    let truncated = bench.done("plan small --workers 2 --mode truncated --model t-gcn").out;
    assert_eq!(first(&truncated)[..2], ["one", "esdg"], "{truncated}");
}

/// A store that would take long is priced from a sample, which is said; `--exact` looks at all of it.
#[test]
fn plans_of_large_stores_are_estimates_unless_all_is_asked_for() {
    let bench = Bench::new();
    // Few edges, so that all of it can be looked at here, but many vertices in many long windows.
    bench.done("generate uniform --vertices 40000 --edges 60 --steps 160 --features 0 -o big");
    let plan = "plan big --task link-prediction --window 60 --workers 2 --strategy pts,pss,pss-ts";
    let soon = bench.done(plan).out;
    assert!(soon.contains("priced from 1") && soon.contains("--exact looks at all steps"), "{soon}");
    let exact = bench.done(&format!("{plan} --exact")).out;
    assert!(exact.contains("bytes are exact") && !exact.contains("priced from"), "{exact}");
}

#[test]
fn strategies_and_partitioners_are_listed() {
    let bench = Bench::new();
    let text = bench.done("list strategies").out;
    assert_eq!(text.lines().count(), strategy::ALL.len());
    for (line, strategy) in text.lines().zip(strategy::ALL) {
        assert!(line.starts_with(strategy.name) && line.contains(strategy.about), "{line}");
    }
    let listed = bench.json("list partitioners");
    let found = listed.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
    assert!(found.eq(partition::ALL.iter().map(|partitioner| partitioner.name())));
    let help = bench.done("plan --help").out;
    assert!(names().iter().all(|name| help.contains(name)), "{help}");
}

#[test]
fn stale_rows_are_asked_for_and_accounted_for() {
    let bench = Bench::new();
    bench.make_small();
    let how = "small --model t-gcn --layers 2 --workers 2";
    let plan = bench.done(&format!("plan {how} --stale adaptive")).out;
    assert!(plan.contains("pts: of neighbours, bytes at most"), "{plan}");
    assert!(!plan.contains("blad") && !plan.contains("esdg: of neighbours"), "{plan}");
    let out = bench.done(&format!("train {how} --strategy pts --epochs 3 --stale 0.5 -o run")).out;
    let line = out.lines().find(|line| line.starts_with("stale rows: ")).unwrap();
    assert!(line.contains(" sent for rows of neighbours, ") && line.contains(" saved ("), "{line}");
    let log = bench.log("run");
    assert!(log.iter().all(|line| line["stale"]["sent"].as_u64().unwrap() > 0));
    assert!(log[2]["stale"]["saved"].as_u64().unwrap() > 0 && log[2]["stale"]["threshold"] != 0.0);
    // It may be left off, or on in another way, when the run goes on.
    bench.done("train -o run --resume --epochs 4 --stale off");
    bench.done("train -o run --resume --epochs 5 --stale adaptive-printed");
    let has: Vec<bool> = bench.log("run").iter().map(|line| line["stale"].is_object()).collect();
    assert_eq!(has, [true, true, true, false, true]);
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let bench = Bench::new();
    bench.make_small();
    let known = strategy::ALL.iter().map(|strategy| strategy.name).collect::<Vec<_>>().join(", ");
    let unknown = format!("there is no strategy 'by-luck'; known are {known}");
    for (args, expected) in [
        ("train small --workers 0 -o run", "parallel.workers: found 0, expected at least 1"),
        ("plan small --workers 0", "parallel.workers: found 0, expected at least 1"),
        ("train small --workers 65536 -o run", "parallel.workers: found 65536, expected at most 65535"),
        ("plan small --workers 65536 --strategy psg", "parallel.workers: found 65536, expected at most"),
        ("train small --workers many -o run", "--workers: "),
        ("train small --workers=-1 -o run", "--workers: "),
        ("train small --strategy by-luck -o run", unknown.as_str()),
        ("train small --workers 2 --strategy by-luck -o run", unknown.as_str()),
        ("train small --workers 2 --strategy all -o run", "there is no strategy 'all'"),
        ("plan small --workers 2 --strategy by-luck", unknown.as_str()),
        ("plan small --workers 2 --strategy pts,by-luck", unknown.as_str()),
        ("plan small --workers 2 --strategy pts,", "there is no strategy ''"),
        (
            "train small --workers 2 --mode truncated --model t-gcn -o run",
            "parallel.strategy: psg gives windows to different workers",
        ),
        (
            "plan small --workers 2 --mode truncated --model t-gcn --strategy psg",
            "parallel.strategy: psg gives windows",
        ),
        ("plan --workers 2", "STORE: none was given; kymo generate or kymo ingest makes one"),
        ("plan nowhere --workers 2", "nowhere"),
        ("plan small --workers 2 --window 100", "train.window: "),
        ("train small --workers 2 --stale 0.3 -o run", "parallel.stale: psg gives workers whole windows"),
        ("plan small --workers 2 --strategy pts,blad --stale 0.3", "parallel.stale: blad gives workers"),
        (
            "train small --workers 2 --strategy pts --stale 1 -o run",
            "parallel.stale: found '1', expected off, ",
        ),
        ("train small --workers 2 --strategy pts --memory 9KiB -o run", "run.memory: pts needs "),
        ("train small --workers 2 --memory 9KiB -o run", "run.memory: psg needs "),
        ("train --workers 2 --strategy pss --memory 9KiB -o run", "run.memory: pss needs "),
    ] {
        let error = bench.refused(args);
        assert!(error.contains(expected), "kymo {args}: {error}");
        let shortfall = " more than the 4.5 KiB it may use; give more memory";
        assert_eq!(error.contains("run.memory"), error.contains(shortfall), "{error}");
    }
    // One worker has everything, whatever the strategy is called.
    bench.done("train small --mode truncated --model t-gcn --epochs 1 --strategy psg -o run");
}

/// Guards who starts the usual build with mpirun: it must not train once in every process.
#[cfg(not(feature = "mpi"))]
#[test]
fn a_build_without_mpi_says_how_to_get_it() {
    let bench = Bench::new();
    bench.make_small();
    for variable in ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        let args = ["train", "small", "--epochs", "1", "-o", "run"];
        let answer = bench.command(command.args(args).env(variable, "2"));
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{variable}: {}", answer.err);
        assert!(
            answer.err.starts_with("error: mpirun: this program was built without MPI; "),
            "{}",
            answer.err
        );
        assert!(answer.err.contains("cargo build --release --features mpi"), "{}", answer.err);
        assert_eq!(bench.names(), ["small"]);
    }
}

#[test]
fn kills_do_not_confuse_workers() {
    survives_kills("--task link-prediction --workers 2", 2..6);
}

#[test]
fn kills_lose_no_state_that_is_spread_over_workers() {
    let how = "--mode truncated --window 2 --model gcn-gru --workers 2 --strategy pss";
    survives_kills(&format!("--task node-classification {how}"), 2..6);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_with_workers_says_how_to_go_on() {
    crate::train_killed::stops_at("-INT", "--workers 2 --strategy pts", "--json");
}

#[test]
fn what_a_schedule_foretold_is_shown_beside_what_was_done() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --workers 2 --strategy dygnex --epochs 3 --set parallel.profile_epochs=1 -o run");
    let trace: Value = serde_json::from_slice(&bench.files("run")["trace.json"]).unwrap();
    let names: Vec<&str> = (trace["traceEvents"].as_array().unwrap().iter())
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["done", "predicted"]);
}

/// Guards runs that can be repeated: by edges, and by the profile of an earlier run.
#[test]
fn a_scheduled_run_is_repeated_to_the_bit_where_its_costs_are_told() {
    let bench = Bench::new();
    bench.make_small();
    let train = "train small --workers 2 --strategy dygnex --epochs 3";
    let by_edges = format!("{train} --set parallel.costs=edges");
    let printed = bench.json(&format!("{by_edges} -o one"));
    assert_eq!(printed["costs"], "edges");
    let answer = bench.done(&format!("{by_edges} -o other"));
    assert!(answer.out.contains("windows were scheduled by their edges"), "{}", answer.out);
    assert!(bench.checkpoint("one") == bench.checkpoint("other"));
    let answer = bench.done(&format!("{train} --set parallel.profile_epochs=1 -o measured"));
    assert!(answer.out.contains("windows were scheduled by measured times"), "{}", answer.out);
    let by_file = format!("{train} --set parallel.costs=measured/profile.json");
    for run in ["third", "fourth"] {
        let answer = bench.done(&format!("{by_file} -o {run}"));
        assert!(
            answer.out.contains("measured/profile.json; the same run gives the same bits"),
            "{}",
            answer.out
        );
    }
    assert!(bench.checkpoint("third") == bench.checkpoint("fourth"));
    // What is planned by these costs is what is run by them.
    let plan = bench.json("plan small --workers 2 --strategy dygnex --set parallel.costs=edges --epochs 3");
    assert!(plan.to_string().contains("dygnex"));
    bench.file("measured/profile.json", "{\"version\": 1, \"seconds\": [[[-1]]]}");
    let error = bench.refused(&format!("{by_file} -o fifth"));
    assert!(error.contains("measured/profile.json: is not a profile: missing field"), "{error}");
    let error = bench.refused(&format!("{train} --set parallel.costs=nowhere.json -o fifth"));
    assert!(
        error.starts_with("parallel.costs: there is no file nowhere.json; expected measured, edges"),
        "{error}"
    );
}

#[test]
fn costs_are_kept_where_that_is_asked_for_and_used_by_the_next_run() {
    let bench = Bench::new();
    bench.make_small();
    let cache = bench.path("cache");
    let kymo = |args: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        let answer = bench.command(command.env("XDG_CACHE_HOME", &cache).args(args.split_whitespace()));
        assert_eq!(answer.code, 0, "kymo {args}: {}", answer.err);
        answer.err
    };
    let train = "train small --workers 2 --strategy dygnex --epochs 3 --set parallel.profile_epochs=1";
    let plain = kymo(&format!("{train} -o plain"));
    assert!(plain.contains("windows held out") && !cache.exists(), "{plain}");
    let train = format!("{train} --set parallel.cached_costs=true");
    let first = kymo(&format!("{train} -o first"));
    assert!(!first.contains("earlier runs"), "{first}");
    let files: Vec<_> =
        std::fs::read_dir(cache.join("kymo")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let second = kymo(&format!("{train} -o second"));
    assert!(second.contains("scheduled by the costs of earlier runs"), "{second}");
    kymo("plan small --workers 2 --strategy dygnex --set parallel.cached_costs=true");
    kymo(&format!("simulate small --workers 2 --strategy psg --costs {}", files[0].display()));
    kymo("simulate small --workers 2 --strategy psg --costs second/profile.json");
    // What is damaged is said and made anew.
    std::fs::write(&files[0], "{").unwrap();
    let third = kymo(&format!("{train} -o third"));
    assert!(third.contains("made anew") && !third.contains("scheduled by the costs"), "{third}");
    assert!(std::fs::read(&files[0]).unwrap().len() > 1);
    bench.file("none.json", "{}");
    assert!(bench.refused("simulate small --workers 2 --costs none.json").contains("no cost model"));
    let profile: Value = serde_json::from_slice(&bench.of_run("third", "profile.json")).unwrap();
    let snapshots = profile["snapshots"].as_array().unwrap();
    // Every snapshot was read and trained on: its products and its backward pass were measured.
    let measured =
        |snapshot: &Value| [0, 2, 4].iter().all(|&stage| snapshot["stages"][stage].as_f64().unwrap() > 0.0);
    assert!(snapshots.len() > 3 && snapshots.iter().all(measured), "{profile}");
    let schedule: Value = serde_json::from_slice(&bench.of_run("third", "schedule.json")).unwrap();
    assert!(schedule["calibration"].as_f64().unwrap() > 0.0);
}

/// A plan takes the pace of a run and the rate of a wire: one worker is as fast as it was, a slow wire takes
/// longer, and a run that says nothing of the plan is refused.
#[test]
fn a_plan_goes_by_the_pace_of_a_run_and_the_rate_of_a_wire() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --model t-gcn --epochs 3 --set train.patience=0 -o alone");
    let planned = |more: &str| {
        let plans = bench.json(&format!("plan small --model t-gcn --workers 2 --strategy pts {more}"));
        plans[0]["seconds"].as_f64().unwrap()
    };
    assert!(planned("--wire 1Mbit/s") > 2.0 * planned("--wire 10GB/s"));
    assert!(planned("--latency 0.1") > planned("--latency 0") + 0.1);
    let plans = bench.json("plan small --model t-gcn --workers 1 --strategy psg --pace alone");
    let edges = plans[0]["workers"][0]["edges"].as_f64().unwrap();
    let mut paces: Vec<f64> =
        bench.log("alone").iter().skip(1).filter_map(|epoch| epoch["edges_per_second"].as_f64()).collect();
    paces.sort_by(f64::total_cmp);
    let median = (paces[(paces.len() - 1) / 2] + paces[paces.len() / 2]) / 2.0;
    let (seconds, took) = (plans[0]["seconds"].as_f64().unwrap(), edges / median);
    assert!((seconds / took - 1.0).abs() < 1e-6, "{seconds} {took}");
    let refused = bench.refused("plan small --model wd-gcn --workers 2 --pace alone");
    assert!(refused.contains("--pace") && refused.contains("another model"), "{refused}");
    bench.done("train small --model t-gcn --epochs 2 --workers 2 -o two");
    let refused = bench.refused("plan small --model t-gcn --workers 2 --pace two");
    assert!(refused.contains("it had 2 workers and no profile.json"), "{refused}");
}

/// A profile tells what follows edges from everything else: a plan takes both from it, whatever the number of
/// workers was.
#[test]
fn a_plan_takes_the_pace_of_edges_and_of_rows_from_a_profile() {
    let bench = Bench::new();
    bench.make_small();
    bench.done(
        "train small --model wd-gcn --layers 2 --epochs 3 --workers 2 --strategy dygnex \
                --set parallel.profile_epochs=2 -o two",
    );
    let profile: Value = serde_json::from_slice(&bench.of_run("two", "profile.json")).unwrap();
    // load, aggregation, products, time encoder, backward, other.
    let all: usize = profile["seconds"].as_array().unwrap().len();
    let planned = |bench: &Bench, profile: &Value, stages: [f64; 6], rest: &str| {
        let mut profile = profile.clone();
        profile["seconds"] = serde_json::json!(vec![vec![stages]; all]);
        bench.file("two/profile.json", profile.to_string());
        let plan =
            format!("plan small --model wd-gcn --layers 2 --pace two --latency 0 --wire 10GB/s {rest}");
        bench.json(&plan)[0]["seconds"].as_f64().unwrap()
    };
    let close = |one: f64, other: f64| assert!((one / other - 1.0).abs() < 1e-6, "{one} {other}");
    // Reading is not in it. Features' products are kept; of the second layer gradients go back.
    let alone = "--workers 1 --strategy psg";
    close(planned(&bench, &profile, [9.0, 1.0, 2.0, 3.0, 4.0, 5.0], alone), 15.0 * all as f64);
    // `esdg` divides edges alone: rows are computed step after step.
    let esdg = "--workers 2 --strategy esdg";
    let edges = planned(&bench, &profile, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0], esdg);
    let rows = planned(&bench, &profile, [0.0, 0.0, 1.0, 0.0, 1.0, 0.0], esdg);
    assert!(edges < 0.7 * rows && rows > 1.99 * all as f64, "{edges} {rows}");
    // No gradient goes back through products of features: where they are not kept, less of the backward pass
    // is of edges.
    let more =
        planned(&bench, &profile, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0], &format!("{esdg} --set run.keep=false"));
    assert!(more > 1.01 * edges, "{more} {edges}");
    // With one layer whose products are kept, nothing that is planned follows edges: all of it is of rows.
    bench.done(
        "train small --model wd-gcn --epochs 3 --workers 2 --strategy dygnex --set parallel.profile_epochs=2 \
         -o one",
    );
    let profile: Value = serde_json::from_slice(&bench.of_run("one", "profile.json")).unwrap();
    let mut one = profile.clone();
    one["seconds"] = serde_json::json!(vec![vec![[9.0, 1.0, 2.0, 3.0, 4.0, 5.0]]; all]);
    bench.file("one/profile.json", one.to_string());
    let plans = bench.json("plan small --model wd-gcn --pace one --workers 1 --strategy psg");
    close(plans[0]["seconds"].as_f64().unwrap(), 15.0 * all as f64);
    let fewer = "plan small --model wd-gcn --layers 2 --workers 2 --set train.stride=2 --pace two";
    let refused = bench.refused(fewer);
    assert!(refused.contains("profile.json has") && refused.contains("expected"), "{refused}");
}
