//! The settings of `kymo train`: where they come from, which of them win, and what is said about those that
//! are wrong.

use std::process::Command;

use crate::fixture::Bench;
use kymo::run::Settings;
use kymo::run::config::overlay;
use serde_json::Value;

/// The settings that a run was begun with.
fn settings(bench: &Bench, run: &str) -> Settings {
    overlay::resolve(Some(&bench.path(run).join("settings.toml")), &[]).unwrap()
}

#[test]
fn options_win_over_the_file_and_the_file_over_the_defaults() {
    let bench = Bench::new();
    bench.make_small();
    bench.file(
        "run.toml",
        "[model]\nhidden = 16\nname = \"t-gcn\"\n\n[train]\nepochs = 2\nlearning_rate = 1\n",
    );
    bench.done("train small --config run.toml --epochs 1 --set model.hidden=4 --set train.seed=7 -o run");
    let found = settings(&bench, "run");
    assert_eq!((found.model.name.as_str(), found.model.hidden), ("t-gcn", 4));
    assert_eq!((found.train.epochs, found.train.learning_rate, found.train.seed), (1, 1.0, 7));
    assert_eq!(found.train.window, Settings::default().train.window);
    // Whatever stands last counts, also against the option of the same setting.
    bench.done("train small --hidden 8 --epochs 1 --set model.hidden=4 --set model.hidden=12 -o last");
    assert_eq!(settings(&bench, "last").model.hidden, 12);
    // The file that a run leaves begins the same run again.
    bench.done("train --config run/settings.toml -o again");
    assert!(bench.checkpoint("run") == bench.checkpoint("again"));
    // The first metric that is asked for decides.
    bench.done("train small --epochs 1 --metrics rmse,mse -o metrics");
    assert_eq!(settings(&bench, "metrics").task.metrics, ["rmse", "mse"]);
}

#[test]
fn wrong_settings_are_named_with_what_was_meant() {
    let bench = Bench::new();
    bench.make_small();
    for (file, expected) in [
        (
            "[train]\nepochs = 2\nlearning_rat = 1\n",
            "run.toml, line 3: train.learning_rat: there is no such setting; did you mean \
             train.learning_rate?",
        ),
        (
            "[modell]\nhidden = 2\n",
            "run.toml, line 1: modell: there is no such section; did you mean [model]?",
        ),
        (
            "\n[train]\nepochs = \"two\"\n",
            "run.toml, line 3: train.epochs: found \"two\", expected an integer such as 50",
        ),
        ("[train]\nmode = \"window\"\n", "run.toml, line 2: train.mode: unknown variant `window`"),
        ("[train\n", "run.toml, line 1: is not valid TOML"),
    ] {
        bench.file("run.toml", file);
        let error = bench.refused("train small --config run.toml -o run");
        assert!(error.starts_with(expected), "{error}");
    }
    for (options, expected) in [
        ("--set model.hiden=3", "--set: model.hiden: there is no such setting; did you mean model.hidden?"),
        ("--set hidden=3", "--set: hidden: there is no such setting; did you mean model.hidden?"),
        ("--set model=3", "--set: model: is a section, not a setting"),
        ("--set hidden", "--set: found 'hidden', expected KEY=VALUE"),
        ("--set train.clip=true", "--set: train.clip: found true, expected a number"),
        ("--epochs few", "--epochs: train.epochs: found \"few\", expected an integer"),
        ("--epochs=-3", "--epochs: train.epochs: "),
        ("--window 0", "train.window: found 0, expected at least 1"),
        ("--learning-rate 0", "train.learning_rate: found 0, expected a number above 0"),
        ("--task regression", "task.name: there is no task 'regression'; known are node-regression"),
        ("--model gcm", "model.name: there is no model 'gcm'; known are gcn,"),
        (
            "--metrics auc",
            "task.metrics: node-regression has no metric 'auc'; known are mse, mae, rmse, mape, or all",
        ),
        ("--mode truncated --model dysat", "train.mode: dysat "),
        ("--memory lots", "run.memory: "),
        ("--config none.toml", "cannot read none.toml"),
        ("--threads 0", "--threads: found 0, expected at least 1"),
    ] {
        let error = bench.refused(&format!("train small {options} -o run"));
        assert!(error.starts_with(expected), "{options}: {error}");
    }
    assert!(bench.refused("train none -o run").contains("none"), "a store that is not there");
}

#[test]
fn lists_come_from_the_registries() {
    let bench = Bench::new();
    let tasks = kymo::run::task::ALL.iter().map(|task| (task.name(), task.about()));
    let metrics = kymo::model::metric::ALL.iter().map(|metric| (metric.name(), metric.about()));
    for (what, entries) in [("tasks", tasks.collect::<Vec<_>>()), ("metrics", metrics.collect())] {
        let (list, text) = (bench.json(&format!("list {what}")), bench.done(&format!("list {what}")).out);
        let list = list.as_array().unwrap();
        assert_eq!((list.len(), text.lines().count()), (entries.len(), entries.len()));
        for ((listed, line), (name, about)) in list.iter().zip(text.lines()).zip(entries) {
            assert_eq!((&listed["name"], &listed["about"]), (&name.into(), &about.into()));
            assert!(line.starts_with(&format!("{name} ")) && line.ends_with(about), "{line}");
        }
    }
    let help = bench.done("train --help").out;
    let models = kymo::model::zoo::ALL.iter().map(|recipe| recipe.name);
    for name in kymo::run::task::ALL.iter().map(|task| task.name()).chain(models) {
        assert!(help.contains(name), "{name} is not in the help");
    }
}

/// The help says the defaults in words; the settings say what they are.
#[test]
fn the_help_knows_the_defaults() {
    let bench = Bench::new();
    let help = bench.done("train --help").out.split_whitespace().collect::<Vec<_>>().join(" ");
    let defaults = bench.json("list settings");
    for (option, section, name) in [
        ("task", "task", "name"),
        ("model", "model", "name"),
        ("mode", "train", "mode"),
        ("window", "train", "window"),
        ("hidden", "model", "hidden"),
        ("layers", "model", "layers"),
        ("blocks", "model", "blocks"),
        ("epochs", "train", "epochs"),
        ("learning-rate", "train", "learning_rate"),
        ("seed", "train", "seed"),
    ] {
        let about = help.split(&format!(" --{option} <")).nth(1).unwrap().split(" --").next().unwrap();
        let default = defaults[section][name].to_string().replace('"', "");
        assert!(about.ends_with(&format!("[default: {default}]")), "--{option}: {about}");
    }
}

#[test]
fn the_list_of_settings_is_a_file_of_settings() {
    let bench = Bench::new();
    bench.make_small();
    let text = bench.done("list settings").out;
    let path = bench.file("all.toml", &text);
    assert_eq!(overlay::resolve::<Settings>(Some(&path), &[]).unwrap(), Settings::default());
    assert_eq!(bench.json("list settings"), serde_json::to_value(Settings::default()).unwrap());
    let all = bench.json("list settings");
    assert_eq!(all.as_object().unwrap().len(), Settings::SECTIONS.len());
    for section in Settings::SECTIONS {
        let keys = all[section.name].as_object().unwrap();
        assert_eq!(keys.len(), section.settings.len());
        for setting in section.settings {
            assert!(keys.contains_key(setting.name) && !setting.about.concat().trim().is_empty());
        }
    }
    // What a setting means stands above it, with what it may be.
    assert!(text.contains("# Steps of a window.\nwindow = 4\n"), "{text}");
    assert!(text.contains("#   raw: The values as they are.\n"), "{text}");
    bench.done("train small --config all.toml --epochs 1 -o listed");
    bench.done("train small --epochs 1 -o plain");
    assert!(bench.checkpoint("listed") == bench.checkpoint("plain"));
}

/// What is fitted to this machine takes the place of the word in the run's settings, is kept for the next
/// run, and does not change when the run goes on.
#[test]
fn what_is_fitted_is_told_in_the_settings_of_the_run() {
    let bench = Bench::new();
    bench.make_small();
    let cache = bench.path("cache");
    let kymo = |args: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        let answer = bench.command(command.env("XDG_CACHE_HOME", &cache).args(args.split_whitespace()));
        assert_eq!(answer.code, 0, "kymo {args}: {}", answer.err);
    };
    let fitted = |run: &str| {
        let parallel = settings(&bench, run).parallel;
        [parallel.break_even, parallel.change_costs]
    };
    let both = "--set parallel.break_even=fitted --set parallel.change_costs=fitted";
    let train = format!("train small --model gat-lstm --hidden 4 --epochs 1 {both} -o");
    kymo(&format!("{train} first"));
    let [share, costs] = fitted("first");
    assert!(share.ends_with("/d"), "{share}");
    assert!(costs.split(',').all(|cost| cost.parse::<f64>().is_ok()) && costs.contains(','), "{costs}");
    let files: Vec<_> =
        std::fs::read_dir(cache.join("kymo")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    // What is kept is used, whatever it is.
    for file in &files {
        let mut kept: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        if kept["key"]["what"] == "attention" {
            kept["curve"]["each"] = serde_json::json!([0.0, 3.0]);
            kept["curve"]["at_once"] = serde_json::json!([1.0, 2.0, 4.0]);
        } else {
            kept["curve"]["whole"] = serde_json::json!([1.0, 3.0]);
            kept["curve"]["update"] = serde_json::json!([2.0, 5.0, 1.0]);
        }
        std::fs::write(file, kept.to_string()).unwrap();
    }
    kymo(&format!("{train} second"));
    assert_eq!(fitted("second"), ["0.250-0.250/d", "2.5,0.5"]);
    files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    kymo("train --resume -o second --epochs 2");
    assert_eq!(fitted("second"), ["0.250-0.250/d", "2.5,0.5"]);
    let error = bench.refused("train small --set parallel.break_even=half -o third");
    assert!(error.starts_with("parallel.break_even: found 'half', expected a share"), "{error}");
    let error = bench.refused("train small --set parallel.change_costs=2 -o third");
    assert!(error.starts_with("parallel.change_costs: found '2', expected what an entry"), "{error}");
}
