//! Tests of settings: which source wins, and what is said about mistakes.

use super::*;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Gcn,
    TGcn,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Model {
    name: String,
    kind: Kind,
    hidden: usize,
    dropout: f32,
    widths: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Train {
    rate: f64,
    epochs: u32,
    shuffle: bool,
    decays: Vec<f64>,
    names: Vec<String>,
}

/// A top-level setting behind sections: TOML must have it before them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Settings {
    model: Model,
    train: Train,
    seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            model: Model { name: "plain".into(), kind: Kind::Gcn, hidden: 64, dropout: 0.1, widths: vec![] },
            train: Train { rate: 0.01, epochs: 10, shuffle: false, decays: vec![0.5], names: vec![] },
            seed: 7,
        }
    }
}

fn set(pairs: &[(&str, &str)]) -> Result<Settings, String> {
    let overrides: Vec<_> =
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string(), "--set".to_string())).collect();
    resolve(None, &overrides).map_err(|error| error.to_string())
}

fn file(text: &str, pairs: &[(&str, &str)]) -> Result<Settings, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    std::fs::write(&path, text).unwrap();
    let overrides: Vec<_> =
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string(), "--set".to_string())).collect();
    let place = format!("{}/", folder.path().display());
    resolve(Some(&path), &overrides).map_err(|error| error.to_string().replace(&place, ""))
}

#[test]
fn later_sources_win() {
    assert_eq!(set(&[]).unwrap(), Settings::default());
    assert_eq!(file("", &[]).unwrap(), Settings::default());
    let text = "seed = 1\n[model]\nhidden = 32 # few\nkind = 't-gcn'\n[train]\nepochs = 3";
    let settings = file(text, &[("train.epochs", "4"), ("seed", "2"), ("train.epochs", "5")]).unwrap();
    let mut expected = Settings { seed: 2, ..Settings::default() };
    (expected.model.hidden, expected.model.kind, expected.train.epochs) = (32, Kind::TGcn, 5);
    assert_eq!(settings, expected);
    assert_eq!(file("model.hidden = 32\ntrain = { epochs = 3 }", &[]).unwrap().model.hidden, 32);
}

#[test]
fn typed_values_become_what_is_expected() {
    let model = |key: &str, value: &str| set(&[(&format!("model.{key}"), value)]).unwrap().model;
    for (typed, name) in [
        ("x", "x"),
        ("\"x\"", "x"),
        ("'a b'", "a b"),
        ("128", "128"),
        ("true", "true"),
        ("nan", "nan"),
        ("", ""),
        ("[1, 2]", "[1, 2]"),
        ("2020-01-01", "2020-01-01"),
        ("a=b # c", "a=b # c"),
        ("1\nhidden = 3", "1\nhidden = 3"),
    ] {
        assert_eq!(model("name", typed).name, name, "{typed}");
    }
    assert_eq!(model("kind", "t-gcn").kind, Kind::TGcn);
    assert_eq!(model("hidden", " 1_000 ").hidden, 1000);
    assert_eq!(model("dropout", "1").dropout, 1.0);
    assert_eq!(model("widths", "[1,2]").widths, [1, 2]);
    let train = |key: &str, value: &str| set(&[(&format!("train.{key}"), value)]).unwrap().train;
    assert_eq!(train("rate", "1e-3").rate, 0.001);
    assert_eq!(train("rate", "inf").rate, f64::INFINITY);
    assert!(train("shuffle", "true").shuffle);
    assert_eq!(train("decays", "[1, 0.5]").decays, [1.0, 0.5]);
    assert!(train("decays", "[]").decays.is_empty());
    assert_eq!(train("names", "['a']").names, ["a"]);
}

#[test]
fn unknown_names_are_refused_with_the_nearest_known_one() {
    let model = "[model] has dropout, hidden, kind, name, widths";
    let top = "there are [model], [train], seed";
    for (key, answer) in [
        ("model.hiden", format!("did you mean model.hidden? {model}")),
        ("modle.hiden", format!("did you mean model.hidden? {top}")),
        ("hidden", format!("did you mean model.hidden? {top}")),
        ("hiddne", format!("did you mean model.hidden? {top}")),
        (
            "train.hidden",
            "did you mean model.hidden? [train] has decays, epochs, names, rate, shuffle".into(),
        ),
        ("model.seed", format!("did you mean seed? {model}")),
        ("sead", format!("did you mean seed? {top}")),
        ("model.quux", model.into()),
        ("", top.into()),
        ("model.", model.into()),
    ] {
        let expected = format!("--set: {key}: there is no such setting; {answer}");
        assert_eq!(set(&[(key, "1")]).unwrap_err(), expected);
    }
    assert_eq!(
        set(&[("model", "1")]).unwrap_err(),
        format!("--set: model: is a section, not a setting; {model}")
    );
    for (text, start) in [
        (
            "[model]\n# more\nhiden = 3\nalso = 4",
            "run.toml, line 3: model.hiden: there is no such setting; did you mean model.hidden?",
        ),
        ("\nhidden = 3", "run.toml, line 2: hidden: there is no such setting; did you mean model.hidden?"),
        (
            "seed = 1\n\n[modle]\nhidden = 3",
            "run.toml, line 3: modle: there is no such section; did you mean [model]? there are",
        ),
        ("[x]", "run.toml, line 1: x: there is no such section; there are [model]"),
        ("model = 3", "run.toml, line 1: model: is a section, not a setting; [model] has"),
        ("[[model]]\nhidden = 3", "run.toml, line 1: model: is a section"),
    ] {
        let error = file(text, &[]).unwrap_err();
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn wrong_values_are_refused_with_what_would_do() {
    for (key, value, answer) in [
        ("model.hidden", "many", "found \"many\", expected an integer such as 64"),
        ("model.hidden", "1.5", "found 1.5, expected an integer such as 64"),
        ("model.dropout", "true", "found true, expected a number such as 0.1"),
        ("train.shuffle", "yes", "found \"yes\", expected true or false, such as false"),
        ("train.decays", "3", "found 3, expected a list in brackets such as [0.5]"),
        ("train.decays", "['x']", "found \"x\", expected a number such as 0.5"),
    ] {
        assert_eq!(set(&[(key, value)]).unwrap_err(), format!("--set: {key}: {answer}"));
    }
    // These have the right type in TOML, but not in Rust; the source at fault is found all the same.
    for (key, value, answer) in [
        ("model.hidden", "-1", "-1"),
        ("model.kind", "gat", "unknown variant `gat`, expected `gcn` or `t-gcn`; the default is \"gcn\""),
        ("model.widths", "['x']", "the default is []"),
        ("train.epochs", "5000000000", "the default is 10"),
    ] {
        let error = set(&[("seed", "1"), (key, value), ("train.rate", "2")]).unwrap_err();
        assert!(error.starts_with(&format!("--set: {key}: ")) && error.contains(answer), "{error}");
    }
    for (text, start) in [
        (
            "[model]\nhidden = 'x'",
            "run.toml, line 2: model.hidden: found \"x\", expected an integer such as 64",
        ),
        (
            "[model]\nname = 3",
            "run.toml, line 2: model.name: found 3, expected a text in quotes such as \"plain\"",
        ),
        (
            "[model]\nhidden = { a = 1 }",
            "run.toml, line 2: model.hidden: found { a = 1 }, expected an integer",
        ),
        ("[model]\n\nkind = 'gat'", "run.toml, line 3: model.kind: unknown variant `gat`"),
        ("[model]\nhidden = 3\nhidden = 4", "run.toml, line 3: is not valid TOML: "),
        ("[model]\nname = plain", "run.toml, line 2: is not valid TOML: "),
        ("seed = 99999999999999999999", "run.toml, line 1"),
    ] {
        let error = file(text, &[]).unwrap_err();
        assert!(error.starts_with(start), "{error}");
    }
    // What a later source mends is no mistake.
    assert_eq!(file("model.kind = 'gat'", &[("model.kind", "gcn")]).unwrap(), Settings::default());
    let missing = resolve::<Settings>(Some(Path::new("none.toml")), &[]).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read none.toml: "), "{missing}");
}

#[test]
fn every_setting_is_known_and_saved() {
    let keys = [
        "model.dropout",
        "model.hidden",
        "model.kind",
        "model.name",
        "model.widths",
        "seed",
        "train.decays",
        "train.epochs",
        "train.names",
        "train.rate",
        "train.shuffle",
    ];
    let known = Known::of(&Settings::default()).unwrap();
    assert_eq!(known.defaults.keys().collect::<Vec<_>>(), keys);
    let text = to_toml(&Settings::default()).unwrap();
    for key in keys {
        let name = key.rsplit('.').next().unwrap();
        assert!(text.lines().any(|line| line.starts_with(&format!("{name} = "))), "{key}\n{text}");
    }
    assert!(text.contains("dropout = 0.1\n"), "{text}");
}

#[test]
fn differences_name_key_and_both_values() {
    let left = Settings::default();
    assert!(differences(&left, &left).is_empty());
    let mut right = left.clone();
    (right.model.dropout, right.train.names, right.seed) = (f32::NAN, vec!["a".into()], 8);
    assert_eq!(
        differences(&left, &right),
        ["model.dropout: 0.1 and nan", "seed: 7 and 8", "train.names: [] and [\"a\"]"]
    );
    assert!(differences(&right, &right).is_empty());
    assert!(differences(&3, &4)[0].starts_with("settings: cannot be written as TOML"));
}

prop_compose! {
    fn settings()(
        name in ".{0,20}", slow in any::<bool>(), hidden in 0usize..1 << 40, dropout in any::<f32>(),
        widths in prop::collection::vec(0usize..100, 0..4), rate in any::<f64>(), epochs in any::<u32>(),
        shuffle in any::<bool>(), decays in prop::collection::vec(any::<f64>(), 0..4),
        names in prop::collection::vec(".{0,8}", 0..3), seed in 0..i64::MAX as u64,
    ) -> Settings {
        let kind = if slow { Kind::TGcn } else { Kind::Gcn };
        Settings {
            model: Model { name, kind, hidden, dropout, widths },
            train: Train { rate, epochs, shuffle, decays, names },
            seed,
        }
    }
}

proptest! {
    /// Saved settings give the same settings, and so does every one of them as an option.
    #[test]
    fn saved_settings_come_back(settings in settings()) {
        let text = to_toml(&settings).unwrap();
        prop_assert_eq!(&file(&text, &[]).unwrap(), &settings);
        let known = Known::of(&settings).unwrap();
        let typed: Vec<(String, String)> =
            known.defaults.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        let pair = |(key, value): &'_ (String, String)| (key.clone(), value.clone());
        let pairs: Vec<(String, String)> = typed.iter().map(pair).collect();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        prop_assert_eq!(&set(&pairs).unwrap(), &settings);
    }

    /// Whatever is typed or in a file, the answer is settings or an error that names its place.
    #[test]
    fn nothing_panics(
        key in "(model|train|seed|x)?[.]?[a-z.]{0,8}",
        value in ".{0,12}",
        text in "[a-z\\[\\]{}=.\"'1 \n]{0,40}",
    ) {
        if let Err(error) = set(&[(&key, &value)]) {
            prop_assert!(error.starts_with("--set: "), "{}", error);
        }
        if let Err(error) = file(&text, &[]) {
            prop_assert!(error.starts_with("run.toml"), "{}", error);
        }
    }
}
