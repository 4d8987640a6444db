//! Kills: whatever moment a command ends at, the next one finds the old or the new state, and ends with the
//! bits of one that was left alone and with nothing beside them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Kind;
use crate::command::{Fault, Kymo, LIMIT, Next, Verdict, conduct, words};
use crate::draw::Draw;
use crate::files::{self, Scene};

/// Something to kill.
struct Job {
    /// What sets the scene, in order.
    before: &'static [&'static str],
    command: &'static str,
    /// What is killed again, and what ends it; the command again where this is empty.
    again: &'static str,
    /// What must be there as it was or as it will be, in between.
    whole: Option<&'static str>,
}

const OLD: &str = "generate uniform --vertices 300 --edges 900 --steps 8 --features 2 -o store";
const DATA: &str = "generate power-law --vertices 300 --edges 1500 --steps 20 --features 3 -o data";
const RUN: &str = "train data --epochs 2 -o run";

const JOBS: [Job; 11] = [
    Job { before: &[], command: "ingest events.csv -o store", again: "", whole: Some("store") },
    Job {
        before: &[OLD],
        command: "ingest events.csv -o store --overwrite",
        again: "",
        whole: Some("store"),
    },
    Job {
        before: &[],
        command: "generate power-law --vertices 3000 --edges 30000 --steps 20 --features 8 -o store",
        again: "",
        whole: Some("store"),
    },
    Job {
        before: &[OLD],
        command: "generate power-law --vertices 2000 --edges 9000 --steps 9 -o store --overwrite",
        again: "",
        whole: Some("store"),
    },
    Job {
        before: &["ingest events.csv --window 1000s -o store"],
        command: "ingest later.csv --append -o store",
        again: "",
        whole: Some("store"),
    },
    Job {
        before: &[DATA],
        command: "train data --epochs 6 --set run.checkpoint_windows=2 -o run",
        again: "train data --epochs 6 --set run.checkpoint_windows=2 -o run --resume",
        whole: None,
    },
    Job {
        before: &[DATA, "train data --epochs 2 --task link-prediction --model gcn-gru -o run"],
        command: "train -o run --resume --epochs 5",
        again: "",
        whole: None,
    },
    Job {
        before: &[DATA],
        command: "train data --workers 2 --strategy pts --epochs 4 -o run",
        again: "train data --workers 2 --strategy pts --epochs 4 -o run --resume",
        whole: None,
    },
    Job {
        before: &[],
        command: "train --epochs 2 -o run",
        again: "train --epochs 2 -o run --resume",
        whole: None,
    },
    Job { before: &[DATA, RUN], command: "predict run -o out.csv", again: "", whole: Some("out.csv") },
    Job {
        before: &[DATA, RUN, "predict run --step 9 -o out.csv"],
        command: "predict run -o out.csv --overwrite",
        again: "",
        whole: Some("out.csv"),
    },
];

/// A job with its scene and what it comes to.
struct Prepared<'a> {
    job: &'a Job,
    scene: Scene,
    old: State,
    new: State,
    seconds: f64,
}

struct Kill<'a> {
    kymo: Kymo,
    jobs: Vec<Prepared<'a>>,
}

/// When a command is killed.
enum Moment {
    /// After a share of the time that it takes.
    After(Duration),
    /// Right after names in a folder have changed this number of times: when something was made, renamed or
    /// removed. What may not be interrupted lies there, and is too short to be met by chance.
    Changes { left: usize, folder: PathBuf, names: Vec<OsString> },
}

impl Moment {
    fn draw(draw: &mut Draw, seconds: f64, folder: PathBuf) -> Moment {
        if draw.one_in(2) {
            return Moment::After(Duration::from_secs_f64(seconds * draw.share()));
        }
        let names = names(&folder);
        Moment::Changes { left: 1 + draw.below(6), folder, names }
    }

    fn has_come(&mut self, elapsed: Duration) -> bool {
        match self {
            Moment::After(time) => elapsed >= *time,
            Moment::Changes { left, folder, names: before } => {
                let now = names(folder);
                if now != *before {
                    (*left, *before) = (*left - 1, now);
                }
                *left == 0
            }
        }
    }
}

fn names(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// What is in a folder, without what differs from run to run.
type State = BTreeMap<String, Vec<u8>>;

/// Makes the scene of every job and lets it end once.
pub fn prepare(kymo: &Kymo, scenes: &Path) -> Verdict<Box<dyn Kind>> {
    let appends = String::from_utf8_lossy(&kymo.done(scenes, "ingest --help")?.out).contains("--append");
    if !appends {
        kymo.remark("skipped: kills while a store is appended to, which the command does not do");
    }
    let mut jobs = Vec::new();
    for (number, job) in JOBS.iter().enumerate().filter(|(_, job)| appends || !job.command.contains("append"))
    {
        let (scene, whole) = (scenes.join(format!("{number}")), scenes.join(format!("{number}-whole")));
        std::fs::create_dir(&scene)?;
        std::fs::write(scene.join("events.csv"), events(0))?;
        std::fs::write(scene.join("later.csv"), events(20_000))?;
        for line in job.before {
            kymo.done(&scene, line)?;
        }
        let laid = Scene::new(&scene);
        laid.lay(&whole)?;
        let begin = Instant::now();
        kymo.done(&whole, job.command)?;
        let seconds = begin.elapsed().as_secs_f64();
        let (old, new) = (state(&scene)?, state(&whole)?);
        jobs.push(Prepared { job, scene: laid, old, new, seconds });
    }
    Ok(Box::new(Kill { kymo: kymo.clone(), jobs }))
}

fn events(from: u64) -> String {
    let mut draw = Draw::of(from);
    let row = |i: u64| {
        let (source, target) = (draw.below(500), draw.below(500));
        format!("{source},{target},{}\n", from + i)
    };
    std::iter::once("source,target,time\n".to_owned()).chain((0..20_000).map(row)).collect()
}

impl Kind for Kill<'_> {
    fn case(&self, mut draw: Draw, folder: &Path) -> Verdict {
        let Prepared { job, scene, old, new, seconds } = &self.jobs[draw.case as usize % self.jobs.len()];
        scene.lay(folder)?;
        let again = if job.again.is_empty() { job.command } else { job.again };
        // What can be resumed is killed more than once.
        let kills = if job.whole.is_none() { 1 + draw.below(4) } else { 1 + draw.below(2) };
        let mut command = job.command.to_owned();
        for _ in 0..kills {
            let signal = *draw.pick(&["KILL", "KILL", "KILL", "TERM", "INT"]);
            let watched = if job.whole.is_some() { folder.to_owned() } else { folder.join("run") };
            let mut moment = Moment::draw(&mut draw, *seconds, watched);
            let mut sent = false;
            let answer = conduct(self.kymo.plain(folder, &words(&command)), |elapsed| {
                if elapsed > LIMIT {
                    return Next::Send("KILL");
                }
                if sent || !moment.has_come(elapsed) {
                    return Next::Wait(Duration::from_micros(if sent { 500 } else { 0 }));
                }
                sent = true;
                Next::Send(signal)
            })?;
            if !(answer.stopped() || answer.code == Some(0)) {
                return Err(answer.fault("a killed command failed"));
            }
            if answer.sent == Some("KILL") && signal != "KILL" {
                return Err(answer.fault("hung"));
            }
            if let Some(output) = job.whole {
                old_or_new(output, old, new, &state(folder)?)
                    .map_err(|fault| Fault::new(fault.class, format!("{}: {}", answer.shown, fault.text)))?;
            }
            command = retried(again, folder);
            if job.whole.is_some_and(|output| folder.join(output).exists())
                && !command.contains("--overwrite")
                && !command.contains("--append")
            {
                command += " --overwrite";
            }
        }
        let answer = self.kymo.run(folder, &command)?;
        if answer.code != Some(0) {
            return Err(answer.fault("the retry failed"));
        }
        same(new, &state(folder)?, &answer.shown)?;
        if job.whole == Some("store") {
            self.kymo.done(folder, "inspect store --json").map(drop)?;
        }
        Ok(())
    }
}

/// The command to go on with: a run without a checkpoint is begun again.
fn retried(again: &str, folder: &Path) -> String {
    match again.strip_suffix(" --resume") {
        Some(begin) if !folder.join("run/checkpoint.safetensors").exists() => begin.to_owned(),
        _ => again.to_owned(),
    }
}

/// The part of a state that is about one output.
fn part<'a>(state: &'a State, output: &str) -> BTreeMap<&'a str, &'a [u8]> {
    let of =
        |name: &str| name == output || name.strip_prefix(output).is_some_and(|rest| rest.starts_with('/'));
    state.iter().filter(|(name, _)| of(name)).map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect()
}

fn old_or_new(output: &str, old: &State, new: &State, now: &State) -> Verdict {
    let (old, new, now) = (part(old, output), part(new, output), part(now, output));
    if now == old || now == new {
        return Ok(());
    }
    let class = if now.is_empty() { "the output was lost" } else { "neither the old nor the new output" };
    Err(Fault::new(class, format!("{output} has {:?}", now.keys().collect::<Vec<_>>())))
}

fn same(new: &State, now: &State, shown: &str) -> Verdict {
    let missing: Vec<_> = new.keys().filter(|name| !now.contains_key(*name)).collect();
    let left: Vec<_> = now.keys().filter(|name| !new.contains_key(*name)).collect();
    let other: Vec<_> = new.iter().filter(|(name, bytes)| now.get(*name) != Some(bytes)).collect();
    let other: Vec<_> = other.into_iter().map(|(name, _)| name).collect();
    let (class, names) = if !missing.is_empty() {
        ("the retry did not make everything", missing)
    } else if !other.is_empty() {
        ("other bits than without a kill", other)
    } else if !left.is_empty() {
        ("something was left behind", left)
    } else {
        return Ok(());
    };
    Err(Fault::new(class, format!("after {shown}: {names:?}")))
}

/// What is in a folder: of files with times in them what is not a time, and nothing of those that are about
/// times alone.
fn state(folder: &Path) -> Verdict<State> {
    let mut found = files::contents(folder)?;
    found.retain(|name, _| !name.contains("tensorboard/") && !name.contains("trace"));
    for (name, bytes) in &mut found {
        *bytes = files::placeless(folder, name, bytes);
        let keys: &[&str] = match name.rsplit('/').next().unwrap_or_default() {
            "metrics.jsonl" => &["epoch", "loss", "learning_rate", "validation", "best"],
            "summary.json" => &["model", "parameters", "epochs", "best_epoch", "validation", "test"],
            "plan.json" => &["strategy", "windows", "iterations", "edge_cut"],
            _ => continue,
        };
        let records = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
        let kept = records
            .map_while(Result::ok)
            .map(|record| keys.iter().map(|key| record[key].to_string()).collect());
        *bytes = kept.collect::<Vec<String>>().join("\n").into_bytes();
    }
    Ok(found)
}
