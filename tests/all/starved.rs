//! Sizes that no machine has: refused with figures before anything is taken, never an abort or a panic.

use std::process::Command;

use kymo::graph::store::Manifest;
use kymo::run::Class;

use crate::fixture::Bench;

/// Runs `kymo` with this many KiB of address space; the exit code and the last line of what it said.
fn limited(bench: &Bench, kib: u64, args: &str) -> (i32, String) {
    let script = format!("ulimit -v {kib}; exec {} {args} --threads 2", env!("CARGO_BIN_EXE_kymo"));
    let answer = bench.command(Command::new("sh").args(["-c", &script]));
    (answer.code, answer.err.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn sizes_beyond_the_machine_are_refused_with_the_figure_and_the_setting() {
    let bench = Bench::new();
    bench.make_small();
    let resource = [
        ("train small --hidden 1000000 -o run", "training (parameters ", "lower model.hidden"),
        ("plan small --hidden 1000000 --workers 2", "training (parameters ", "lower model.hidden"),
        (
            "train small --task link-prediction --set link.evaluate_negatives=4000000000 -o run",
            "training (pairs that are judged ",
            "lower link.evaluate_negatives",
        ),
        (
            "train small --task link-prediction --set link.negatives=4000000000 -o run",
            "training (pairs of a window ",
            "lower link.negatives",
        ),
        (
            "generate uniform --vertices 4000000000 --features 1000 --segments 1 -o big",
            "cannot generate big: a step takes about ",
            "lower --vertices",
        ),
        (
            "simulate --groups 1000000000000000000",
            "a schedule of 1000000000000000000 groups takes",
            "--groups",
        ),
        (
            "simulate --groups 50 --workers 1000000000000000000",
            "a cluster of 1000000000000000000 workers takes",
            "lower --workers",
        ),
    ];
    for (args, start, advice) in resource {
        let (class, error) = bench.failed(args);
        assert_eq!(class, Class::Resource, "{args}: {error}");
        assert!(error.starts_with(start) && error.contains(advice), "{args}: {error}");
        assert!(error.contains(" of memory are available"), "{args}: {error}");
    }
    let settings = [
        (
            "train small --hidden 1000000000 -o run",
            "model.hidden: found 1000000000, expected at most 1048576",
        ),
        ("train small --set data.lags=1000000000 -o run", "data.lags: found 1000000000, expected at most"),
        ("train small --set data.lags=21 -o run", "data.lags: found 21, but the store has 20 steps"),
        ("train small --model dcrnn --set model.walks=1000000000 -o run", "model.walks: found 1000000000"),
        ("train small --memory 20KiB -o run", "run.memory: training takes about "),
        ("generate uniform --steps 1000000000000000000 -o big", "--steps: 1000000000000000000 steps"),
    ];
    for (args, start) in settings {
        let (class, error) = bench.failed(args);
        assert_eq!(class, Class::Settings, "{args}: {error}");
        assert!(error.starts_with(start), "{args}: {error}");
    }
    // More groups a worker than there are groups are as many as there are.
    bench.done("simulate --groups 50 --workers 4 --most 18446744073709551615 --time-limit 0.1");
    bench.done("plan small --workers 2 --strategy dygnex --set parallel.groups=1000000000000000000");
}

/// No numeric setting, whatever its value, ends in a panic or an abort.
#[test]
fn no_number_of_a_setting_panics() {
    let bench = Bench::new();
    bench.make_small();
    let all = bench.json("list settings");
    let is_number = |value: &serde_json::Value| value.is_number();
    for (section, settings) in all.as_object().unwrap() {
        for (setting, _) in settings.as_object().unwrap().iter().filter(|(_, value)| is_number(value)) {
            // They say how long, not how much; and threads are another matter.
            if ["epochs", "patience", "workers", "seed"].contains(&setting.as_str()) {
                continue;
            }
            let task = if section == "link" { "--task link-prediction" } else { "" };
            let model = match setting.as_str() {
                "walks" => "--model dcrnn",
                "heads" => "--model dysat",
                _ => "",
            };
            for value in ["0", "-1", "1000000000000000000", "9223372036854775807", "nan", "1e308"] {
                let set = format!("--set {section}.{setting}={value}");
                let args = format!("plan small {task} {model} --workers 2 --strategy psg,pts {set}");
                let answer = bench.kymo(&args);
                assert!([0, 2, 3, 4].contains(&answer.code), "{args}: {} {}", answer.code, answer.err);
                assert!(answer.err.lines().count() <= 1, "{args}: {}", answer.err);
            }
        }
    }
}

/// A forged size, with a checksum that fits, is the fault of the store.
#[test]
fn forged_sizes_of_a_store_are_refused() {
    let bench = Bench::new();
    bench.make_small();
    let folder = bench.path("small");
    let good = Manifest::read(&folder).unwrap();
    let features = |width| kymo::graph::store::FeatureFacts { width, ..good.features };
    let forged = [
        Manifest { vertices: 1_000_000_000, ..good.clone() },
        Manifest { vertices: 4_000_000_000, ..good.clone() },
        Manifest { vertices: u64::MAX, ..good.clone() },
        Manifest { edges: u64::MAX, ..good.clone() },
        Manifest { features: features(1_000_000_000), ..good.clone() },
        Manifest { features: features(u64::MAX), ..good.clone() },
        Manifest { left: Some(u64::MAX), ..good.clone() },
        Manifest { steps: u64::MAX, ..good.clone() },
    ];
    for manifest in forged {
        manifest.write(&folder).unwrap();
        for verb in ["train small -o run", "plan small --workers 2", "simulate small", "inspect small"] {
            let (class, error) = bench.failed(verb);
            assert_eq!(class, Class::Input, "{verb}: {error}");
            assert!(error.contains("small/manifest.json: the manifest is damaged"), "{verb}: {error}");
        }
    }
    good.write(&folder).unwrap();
    bench.done("inspect small");
}

/// Windows of a schedule that there cannot be: a message, not a panic.
#[test]
fn forged_schedules_are_refused() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --workers 2 --strategy dygnex --epochs 6 -o run");
    let file = "run/schedule.json";
    let text = String::from_utf8(bench.of_run("run", "schedule.json")).unwrap();
    let mut schedule: serde_json::Value = serde_json::from_str(&text).unwrap();
    schedule["iterations"] = serde_json::json!([[[1_000_000_000_000_000_000u64], [0]]]);
    bench.file(file, schedule.to_string());
    let answer = bench.kymo("train -o run --resume --epochs 8");
    assert_eq!(answer.code, 3, "{}", answer.err);
    assert!(answer.err.lines().last().unwrap().starts_with("error: run/schedule.json: "), "{}", answer.err);
}

/// What `ulimit -v` leaves counts as what there is: an error with its class, not an abort.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_the_process_is_kept_to() {
    let bench = Bench::new();
    bench.make_small();
    let (code, said) = limited(&bench, 1_000_000, "train small --epochs 1 -o fits");
    assert_eq!(code, 0, "{said}");
    for (kib, args) in [
        (1_000_000, "train small --hidden 3000 --epochs 1 -o run"),
        (1_000_000, "train small --task link-prediction --set link.evaluate_negatives=1000000 -o run"),
        (1_000_000, "generate uniform --vertices 50000000 --edges 50000000 --steps 2 --features 0 -o big"),
        (400_000, "simulate --groups 10000000 --workers 4"),
    ] {
        let (code, said) = limited(&bench, kib, args);
        assert_eq!(code, 4, "{args}: {said}");
        assert!(said.starts_with("error: ") && said.contains("of memory are available"), "{args}: {said}");
    }
    // A default that is a part of the machine is a part of the limit.
    let (code, said) = limited(&bench, 1_000_000, "doctor --json");
    assert_eq!(code, 0, "{said}");
}

/// `--memory` bounds all that training takes: less than that is refused with the figure, and what is given is
/// not exceeded by more than the program itself takes.
#[cfg(target_os = "linux")]
#[test]
fn the_memory_that_is_given_is_kept_to() {
    let bench = Bench::new();
    bench.done("generate power-law --vertices 20000 --edges 100000 --steps 12 --features 2 -o store");
    let train = "train store --task link-prediction --hidden 64 --epochs 1 --threads 2 -o run";
    let (class, error) = bench.failed(&format!("{train} --memory 32MiB"));
    assert_eq!(class, Class::Settings, "{error}");
    assert!(
        error.starts_with("run.memory: training takes about 2") && error.contains(" MiB at least"),
        "{error}"
    );
    bench.done(&format!("{train} --memory 320MiB"));
    let summary: serde_json::Value = serde_json::from_slice(&bench.of_run("run", "summary.json")).unwrap();
    let most = summary["memory"].as_u64().unwrap();
    assert!(most < (320 + 40) << 20, "{most} bytes");
}

/// Wherever memory ends, the command says so and exits: no limit between what the program is loaded into and
/// what suffices ends in a signal, and nothing stays behind that the next command does not remove.
#[cfg(target_os = "linux")]
#[test]
fn memory_that_ends_in_the_middle_is_an_error() {
    let bench = Bench::new();
    let make =
        "generate power-law --vertices 20000 --edges 60000 --steps 10 --features 8 -o store --overwrite";
    let [loaded, enough] = ["--version", make].map(|args| {
        let (mut little, mut much) = (1 << 10, 1 << 20);
        while much - little > 64 {
            let middle = (little + much) / 2;
            let works = limited(&bench, middle, args).0 == 0;
            (little, much) = if works { (little, middle) } else { (middle, much) };
        }
        much
    });
    // The system lays out a program by chance: where it was loaded once, it may not be the next time.
    let from = loaded + 1024;
    let mut ended = 0;
    for kib in (0..50).map(|part| from + (enough.saturating_sub(from)) * part / 50) {
        let (code, said) = limited(&bench, kib, make);
        assert!([0, 2, 4].contains(&code), "{kib} KiB: {code} {said}");
        assert!(code == 0 || said.starts_with("error: "), "{kib} KiB: {said}");
        if said.contains("memory has ended") {
            assert!(code == 4 && said.contains(" bytes more were refused; free memory"), "{code} {said}");
            ended += 1;
        }
    }
    assert!(ended > 0, "memory never ended between {from} and {enough} KiB");
    bench.done(make);
    assert_eq!(bench.names(), ["store"]);
}

/// What is not in the build says so, in lists and in plans.
#[test]
fn what_is_not_built_is_marked() {
    let bench = Bench::new();
    for (what, names) in [
        ("strategies", kymo::plan::strategy::ALL.iter().map(|way| (way.name, way.is_built())).collect()),
        (
            "schedulers",
            kymo::plan::schedule::ALL.iter().map(|one| (one.name(), one.is_there())).collect::<Vec<_>>(),
        ),
    ] {
        let text = bench.done(&format!("list {what}")).out;
        let json = bench.json(&format!("list {what}"));
        for ((line, entry), (name, built)) in text.lines().zip(json.as_array().unwrap()).zip(names) {
            assert!(line.starts_with(name), "{line}");
            assert_eq!(line.ends_with("[not in this build]"), !built, "{line}");
            assert_eq!(entry["built"], built, "{entry}");
        }
    }
}
