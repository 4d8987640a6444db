//! `kymo simulate` as a user meets it: tables, JSON, charts, timelines, and what is refused.

use crate::fixture::Bench;
use kymo_plan::schedule;
use serde_json::Value;

/// The words of each line of the table, its head and the lines behind it left out.
fn rows(table: &str) -> Vec<Vec<String>> {
    let rows = table.lines().skip(1).take_while(|line| !line.contains("virtual time"));
    rows.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn sizes_and_schedulers_are_compared_in_a_table() {
    let bench = Bench::new();
    let table = bench.done("simulate --groups 200 --workers 4,16 --strategy psg,blad,fold").out;
    let head = table.lines().next().unwrap();
    for column in ["epoch", "/ bound", "gap", "imbalance", "efficiency", "iterations", "scheduled"] {
        assert!(head.contains(column), "{table}");
    }
    let rows = rows(&table);
    let first: Vec<[&str; 2]> = rows.iter().map(|row| [row[0].as_str(), row[1].as_str()]).collect();
    let expected =
        [["4", "psg"], ["4", "blad"], ["4", "fold"], ["16", "psg"], ["16", "blad"], ["16", "fold"]];
    assert_eq!(first, expected, "{table}");
    assert!(table.ends_with("200 groups in virtual time\n"), "{table}");
    // The usual schedulers differ with reuse, and all that can answer are those of the registry.
    let usual = bench.json("simulate --groups 60 --workers 3 --reuse 0.3 --time-limit 0.1");
    let names = |json: &Value| -> Vec<String> {
        let lines = json["simulations"].as_array().unwrap().iter();
        lines.map(|line| line["strategy"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&usual), ["psg", "blad", "real-g", "match", "real"]);
    let all = bench.json("simulate --groups 60 --workers 3 --strategy all --time-limit 0.1");
    let mut found = names(&all);
    found.extend(all["left_out"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()));
    found.sort();
    let mut known: Vec<&str> = schedule::ALL.iter().map(|scheduler| scheduler.name()).collect();
    known.sort();
    assert_eq!(found, known);
}

/// A search ends at the gap that was asked for, however long it might go on.
#[test]
fn searches_end_within_a_gap() {
    let bench = Bench::new();
    let gap = |more: &str| {
        let ask =
            format!("simulate --groups 300 --workers 7 --reuse 0.3 --strategy real --time-limit {more}");
        let json = bench.json(&ask);
        let line = &json["simulations"][0];
        (number(&line["gap"]), line["complete"].as_bool().unwrap())
    };
    let (found, complete) = gap("3600 --gap 0.3");
    assert!(found <= 0.3 && complete, "{found}");
    let refused = bench.refused("simulate --groups 20 --workers 2 --gap=-0.1");
    assert!(refused.contains("--gap") && refused.contains("expected a part from 0"), "{refused}");
}

#[test]
fn the_numbers_fit_together_and_come_again() {
    let bench = Bench::new();
    let ask = "simulate --groups 300 --workers 1,8 --strategy psg,blad,fold,match --reuse 0.2 --noise 0.1 \
               --stragglers 0.25:2";
    let json = bench.json(ask);
    assert_eq!(json["groups"], 300);
    for line in json["simulations"].as_array().unwrap() {
        let [epoch, bound, efficiency] = ["epoch", "bound", "efficiency"].map(|key| number(&line[key]));
        assert!(epoch > 0.0 && bound > 0.0 && efficiency > 0.0 && efficiency <= 1.0, "{line}");
        assert!(number(&line["imbalance"]) >= 1.0 && number(&line["gap"]) >= 0.0, "{line}");
        let alone = line["workers"] == 1;
        assert_eq!(number(&line["all_reduce"]) == 0.0, alone, "{line}");
        assert_eq!(number(&line["waiting"]) == 0.0, alone, "{line}");
    }
    let epochs = |json: &Value| -> Vec<Value> {
        json["simulations"].as_array().unwrap().iter().map(|line| line["epoch"].clone()).collect()
    };
    assert_eq!(epochs(&bench.json(&format!("{ask} --threads 1"))), epochs(&json));
    assert_ne!(epochs(&bench.json(&format!("{ask} --seed 2"))), epochs(&json));
    // A pipeline makes BLAD faster, and no other scheduler.
    let (plain, overlapped) = (
        bench.json("simulate --groups 100 --workers 4 --strategy psg,blad"),
        bench.json("simulate --groups 100 --workers 4 --strategy psg,blad --pipeline 0.5"),
    );
    let (plain, overlapped) = (epochs(&plain), epochs(&overlapped));
    assert_eq!(plain[0], overlapped[0]);
    assert!(number(&overlapped[1]) < 0.8 * number(&plain[1]));
}

#[test]
fn many_workers_are_kept_busy() {
    let bench = Bench::new();
    let json = bench.json("simulate --groups 10000 --workers 512,1024 --strategy psg,fold");
    let lines = json["simulations"].as_array().unwrap();
    for (line, least) in [(&lines[1], 0.98), (&lines[3], 0.95)] {
        assert!(number(&line["efficiency"]) >= least, "{line}");
        assert!(number(&line["imbalance"]) <= 1.04, "{line}");
    }
    assert!(number(&lines[0]["efficiency"]) < 0.85 && number(&lines[2]["efficiency"]) < 0.85);
}

#[test]
fn windows_of_a_store_are_groups() {
    let bench = Bench::new();
    bench.make_small();
    let times = "--seconds-per-vertex 0 --seconds-per-edge 0 --seconds-per-snapshot 0.25";
    let json = bench.json(&format!(
        "simulate small --workers 1,2 --strategy psg --window 5 --stride 3 {times} --latency 0 --parameters 0"
    ));
    // Twenty steps: windows begin at 0, 3, 6, 9, 12 and 15.
    assert_eq!(json["groups"], 6);
    let lines = json["simulations"].as_array().unwrap();
    assert_eq!((&lines[0]["epoch"], &lines[1]["epoch"]), (&Value::from(7.5), &Value::from(3.75)));
    let usual = bench.done("simulate small --workers 2 --strategy dygnex").out;
    assert!(usual.ends_with("17 groups in virtual time\n"), "{usual}");
    assert_eq!(bench.names(), ["small"]);
}

#[test]
fn charts_and_timelines_show_the_schedule() {
    let bench = Bench::new();
    let ask = "simulate --groups 12 --workers 3 --strategy blad";
    let text = bench.done(&format!("{ask} --gantt --trace epoch.json")).out;
    assert!(text.contains("\nblad on 3 workers\nworker 0 |[="), "{text}");
    let trace: Value = serde_json::from_slice(&std::fs::read(bench.path("epoch.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |kind: &str| events.iter().filter(|event| event["cat"] == kind).count();
    assert_eq!((count("compute"), count("all_reduce")), (12, 2 * 3));
    assert!(count("wait") > 0);
    let ends = events.iter().filter(|event| event["ph"] == "X");
    let end = ends.map(|event| number(&event["ts"]) + number(&event["dur"])).fold(0.0, f64::max);
    let epoch = number(&bench.json(ask)["simulations"][0]["epoch"]);
    assert!((end / 1e6 - epoch).abs() < 1e-6, "{end} {epoch}");
    let error = bench.refused(&format!("{ask} --trace epoch.json"));
    assert!(error.starts_with("--trace: epoch.json is there already"), "{error}");
}

#[test]
fn schedulers_are_listed_and_in_the_help() {
    let bench = Bench::new();
    let (listed, help) = (bench.done("list schedulers").out, bench.done("simulate --help").out);
    assert_eq!(listed.lines().count(), schedule::ALL.len());
    for (line, scheduler) in listed.lines().zip(schedule::ALL) {
        assert!(line.starts_with(scheduler.name()) && line.contains(scheduler.about()), "{line}");
        assert!(help.contains(scheduler.name()), "{help}");
    }
    for word in ["trend", "heavy", "--stragglers", "Examples:", "kymo simulate --groups 10000"] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let bench = Bench::new();
    bench.make_small();
    for (args, expected) in [
        ("", "STORE: none was given; kymo generate or kymo ingest makes one, and --groups N"),
        ("small --groups 9", "--groups: has no meaning with a store"),
        ("small --distribution heavy", "--distribution: has no meaning with a store"),
        ("small --mean 2", "--mean: has no meaning with a store"),
        ("small --window 21", "--window: found 21, but there are 20 steps only"),
        ("small --seconds-per-edge=-1", "--seconds-per-edge: found -1, expected a number from 0"),
        ("nowhere", "nowhere"),
        ("--groups 9 --seconds-per-edge 1", "--seconds-per-edge: has no meaning with --groups"),
        ("--groups 0", "--groups: found 0, expected at least 1"),
        ("--groups 9 --mean 0", "--mean: found 0, expected a number above 0"),
        ("--groups 9 --window 0", "--window: found 0, expected at least 1"),
        ("--groups 9 --stride 0", "--stride: found 0, expected at least 1"),
        ("--groups 9 --workers 4,0", "--workers: found 0, expected at least 1"),
        ("--groups 9 --most 0", "--most: found 0, expected at least 1"),
        ("--groups 9 --strategy by-luck", "scheduler: there is no scheduler 'by-luck'; known are psg, blad"),
        ("--groups 9 --strategy psg,", "scheduler: there is no scheduler ''"),
        ("--groups 9 --distribution flat", "--distribution: found 'flat', expected trend or uniform"),
        ("--groups 9 --reuse 1.5", "--reuse: found 1.5, expected a part of the time, from 0 to 1"),
        ("--groups 9 --pipeline 2", "--pipeline: found 2, expected a part of the time, from 0 to 1"),
        ("--groups 9 --all-reduce star", "--all-reduce: found 'star', expected ring or halving"),
        ("--groups 9 --latency nan", "--latency: found NaN, expected a number from 0"),
        ("--groups 9 --bandwidth 0", "--bandwidth: found 0, expected a number above 0"),
        ("--groups 9 --parameters 9999999999999999999", "--parameters: found 9999999999999999999, expected"),
        ("--groups 9 --noise inf", "--noise: found inf, expected a number from 0"),
        ("--groups 9 --stragglers 0.1", "--stragglers: found '0.1', expected SHARE:FACTOR as in 0.05:2"),
        ("--groups 9 --stragglers 2:2", "--stragglers: found a share of 2"),
        ("--groups 9 --stragglers 0.5:0.5", "--stragglers: found a factor of 0.5"),
        ("--groups 9 --time-limit=-1", "--time-limit: found -1, expected seconds from 0"),
        ("--groups 9 --trace out.json", "--trace: is of one simulation, found 4 sizes and 5 schedulers"),
        ("--groups 9 --gantt --json", "--gantt: is for people; leave --json out"),
    ] {
        let error = bench.refused(&format!("simulate {args}"));
        assert!(error.contains(expected), "kymo simulate {args}: {error}");
    }
}
