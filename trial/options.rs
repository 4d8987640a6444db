//! Options and settings that nobody would give, and fuzzed files, through the command itself.

use std::path::Path;

use crate::command::{ADDRESSES, Kymo, LIMIT, LONG, Verdict, finish, words};
use crate::draw::{Draw, WORDS};
use crate::files::{self, Scene};
use crate::{Kind, fuzz};

/// The verbs, each with arguments that make it do its work quickly.
const VERBS: [(&str, &str); 9] = [
    ("train", "train small --epochs 1 -o new"),
    ("plan", "plan small --workers 2"),
    ("simulate", "simulate --groups 40 --workers 2,4 --time-limit 0.1 --strategy psg,dygnex-g"),
    ("evaluate", "evaluate run"),
    ("predict", "predict run -o out.csv"),
    ("ingest", "ingest events.csv -o store"),
    ("inspect", "inspect small"),
    ("generate", "generate uniform --vertices 30 --edges 60 --steps 5 -o store"),
    ("list", "list settings"),
];

struct Options {
    kymo: Kymo,
    scene: Scene,
    /// For each verb its options, and whether they take a value.
    known: Vec<Vec<(String, bool)>>,
    keys: Vec<String>,
}

/// Makes a store and a run, and reads the options of every verb in its help.
pub fn prepare(kymo: &Kymo, scenes: &Path) -> Verdict<Box<dyn Kind>> {
    let scene = scenes.join("scene");
    std::fs::create_dir(&scene)?;
    std::fs::write(scene.join("events.csv"), "source,target,time\n1,2,3\n2,3,400\n3,1,900\n")?;
    kymo.done(&scene, "generate power-law --vertices 60 --edges 200 --steps 20 --features 3 -o small")?;
    kymo.done(&scene, "train small --epochs 2 -o run")?;
    let mut known = Vec::new();
    for (verb, _) in VERBS {
        let help = kymo.done(&scene, &format!("{verb} --help"))?.out;
        let help = String::from_utf8_lossy(&help).into_owned();
        let lines = help.lines().map(str::trim).filter(|line| line.starts_with('-'));
        let long = lines.filter_map(|line| line.split_once("--").map(|(_, rest)| rest.to_owned()));
        let option = |line: String| {
            let name = line.split([' ', '[', '<']).next().unwrap_or_default().to_owned();
            (format!("--{name}"), line.contains('<'))
        };
        // Help is not a run.
        known.push(long.map(option).filter(|(name, _)| name != "--help").collect());
    }
    Ok(Box::new(Options { kymo: kymo.clone(), scene: Scene::new(&scene), known, keys: fuzz::keys() }))
}

impl Kind for Options {
    fn case(&self, mut draw: Draw, folder: &Path) -> Verdict {
        self.scene.lay(folder)?;
        let args = match draw.below(5) {
            0 => {
                std::fs::write(folder.join("events.csv"), fuzz::input(&mut draw).0)?;
                words("ingest events.csv -o store")
            }
            1 | 2 => self.settings(&mut draw),
            _ => self.options(&mut draw),
        };
        // What takes long may rightly do so, but stops when it is asked to.
        let command = self.kymo.limited(folder, &format!("ulimit -v {ADDRESSES}"), "", &args);
        let answer = finish(command, &[(LONG, "TERM"), (LIMIT, "KILL")])?;
        answer.documented()?;
        let left = files::contents(folder)?.into_keys().find(|name| name.contains(".partial"));
        match left {
            Some(left) if !answer.stopped() => {
                let mut fault = answer.fault("something was left behind");
                fault.text += &format!("; {left}");
                Err(fault)
            }
            _ => Ok(()),
        }
    }
}

impl Options {
    /// Training or planning with one to three settings replaced.
    fn settings(&self, draw: &mut Draw) -> Vec<String> {
        let mut args = words(if draw.one_in(2) { "train small -o new" } else { "plan small" });
        for _ in 0..=draw.below(3) {
            let value = value(draw);
            args.extend(["--set".into(), format!("{}={value}", draw.pick(&self.keys))]);
        }
        args.extend(words("--set train.epochs=1"));
        args
    }

    /// Any verb with one to three of its options, given any value, over what makes it quick.
    fn options(&self, draw: &mut Draw) -> Vec<String> {
        let verb = draw.below(VERBS.len());
        let mut args = words(VERBS[verb].1);
        for _ in 0..=draw.below(3) {
            let (name, takes) = draw.pick(&self.known[verb]).clone();
            // The last one holds, where an option can be given once only.
            if let Some(at) = args.iter().position(|arg| *arg == name) {
                args.drain(at..(at + 1 + usize::from(takes)).min(args.len()));
            }
            args.push(name);
            if takes || draw.one_in(20) {
                args.push(value(draw));
            }
        }
        args
    }
}

/// A word, a number of any size, or something that means something somewhere.
fn value(draw: &mut Draw) -> String {
    let known = [
        "small",
        "run",
        "events.csv",
        "missing",
        "gcn",
        "gat-lstm",
        "evolvegcn-h",
        "dcrnn",
        "link-prediction",
        "node-classification",
        "edge-regression",
        "edge-classification",
        "sequence",
        "truncated",
        "pts",
        "dygnex",
        "cuda",
        "cuda:9",
        "bf16",
        "degrees",
        "one-hot-degrees",
        "learnt",
        "both",
        "mae,mse",
        "test",
        "csv",
        "pygt",
        "date",
        "ring",
        "heavy",
        "sgd",
        "cosine",
        "adamw",
        "last",
        "small/manifest.json",
        "run/settings.toml",
        "train.epochs=2",
        "2",
        "4",
        "0.3",
    ];
    let word = match draw.below(6) {
        0 => draw.pick(WORDS).to_string(),
        1 | 2 => (1_u64 << draw.below(64)).to_string(),
        3 => draw.below(12).to_string(),
        _ => draw.pick(&known).to_string(),
    };
    // An argument cannot hold it.
    word.replace('\0', "")
}
