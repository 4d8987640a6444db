//! Damage: files of stores and runs that are cut, flipped, swapped, replaced or forged are refused by name,
//! or make no difference.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kymo::Class;

use crate::Kind;
use crate::command::{ADDRESSES, Answer, Fault, Kymo, LIMIT, LONG, Verdict, finish, words};
use crate::draw::Draw;
use crate::files::{self, Scene};
use crate::forge::forge;

/// What makes the scene, in order.
const SCENE: [&str; 5] = [
    "generate power-law --vertices 60 --edges 200 --steps 20 --features 3 -o small",
    "ingest events.csv --ids text --labels labels.csv --steps 20 -o named",
    "train small --epochs 2 -o run",
    "train named --task link-prediction --epochs 2 -o links",
    "train small --epochs 3 --workers 2 --strategy dygnex --set parallel.profile_epochs=1 -o shared",
];

/// Commands by the folder they read, those that change it last; and the file they leave, where what they
/// print is not the result.
const READERS: [(&str, &str, Option<&str>); 16] = [
    ("small", "inspect small --json", None),
    ("small", "plan small --workers 2 --json", None),
    ("small", "evaluate run --json", None),
    ("small", "train -o run --resume --epochs 3", Some("run/checkpoint.safetensors")),
    ("named", "inspect named --json", None),
    ("named", "predict links -o out.csv", Some("out.csv")),
    ("named", "train -o links --resume --epochs 3", Some("links/checkpoint.safetensors")),
    ("run", "evaluate run --json", None),
    ("run", "predict run -o out.csv", Some("out.csv")),
    ("run", "plan --config run/settings.toml --json", None),
    ("run", "train -o run --resume --epochs 3", Some("run/checkpoint.safetensors")),
    ("links", "evaluate links --json", None),
    ("links", "train -o links --resume --epochs 3", Some("links/checkpoint.safetensors")),
    ("shared", "evaluate shared --json", None),
    ("shared", "simulate small --costs shared/profile.json --workers 2 --strategy psg --json", None),
    ("shared", "train -o shared --resume --epochs 4", Some("shared/checkpoint.safetensors")),
];

struct Damage {
    kymo: Kymo,
    scene: Scene,
    files: BTreeMap<String, Vec<u8>>,
    /// The result of every command where nothing is damaged.
    results: BTreeMap<&'static str, Vec<u8>>,
}

/// Makes stores and runs, and the result of every command on them.
pub fn prepare(kymo: &Kymo, scenes: &Path) -> Verdict<Box<dyn Kind>> {
    let scene = scenes.join("scene");
    std::fs::create_dir(&scene)?;
    let mut draw = Draw::of(0);
    let row = |i| format!("n{},n{},{i},{}\n", draw.below(40), draw.below(40), draw.below(5));
    let events: String = (0..600).map(row).collect();
    std::fs::write(scene.join("events.csv"), format!("source,target,time,weight\n{events}"))?;
    let labels: String = (0..40).map(|i| format!("n{i} {}\n", ["red", "blue"][i % 2])).collect();
    std::fs::write(scene.join("labels.csv"), labels)?;
    for line in SCENE {
        kymo.done(&scene, line)?;
    }
    let (laid, mut results) = (Scene::new(&scene), BTreeMap::new());
    for (number, (_, line, file)) in READERS.into_iter().enumerate() {
        let folder = scenes.join(number.to_string());
        laid.lay(&folder)?;
        let answer = kymo.done(&folder, line)?;
        results.insert(line, result(&folder, file, &answer)?);
    }
    let mut files = files::contents(&scene)?;
    let read = |name: &str| READERS.iter().any(|(folder, ..)| name.starts_with(&format!("{folder}/")));
    files.retain(|name, _| read(name) && !name.ends_with('/'));
    Ok(Box::new(Damage { kymo: kymo.clone(), scene: laid, files, results }))
}

fn result(folder: &Path, file: Option<&str>, answer: &Answer) -> Verdict<Vec<u8>> {
    let Some(file) = file else { return Ok(answer.out.clone()) };
    let mut bytes = files::placeless(folder, file, &std::fs::read(folder.join(file))?);
    let summary = folder.join(file).with_file_name("summary.json");
    if let Ok(text) = std::fs::read(summary)
        && let Ok(summary) = serde_json::from_slice::<serde_json::Value>(&text)
    {
        bytes.extend(summary["test"].to_string().into_bytes());
    }
    Ok(bytes)
}

impl Kind for Damage {
    fn case(&self, mut draw: Draw, folder: &Path) -> Verdict {
        self.scene.lay(folder)?;
        // Few files decide most: each folder gets its share, and so does each file in it.
        let top = *draw.pick(&["small", "named", "run", "links", "shared"]);
        let inner: Vec<&String> =
            self.files.keys().filter(|name| name.starts_with(&format!("{top}/"))).collect();
        let name = draw.pick(&inner).as_str();
        let forged = match draw.one_in(2) {
            true => forge(&mut draw, folder, name)?.map(|what| format!("{name} forged: {what}")),
            false => None,
        };
        let (what, equal) = match forged {
            Some(what) => (what, !name.ends_with("safetensors") && !name.ends_with("manifest.json")),
            None => (format!("{name} {}", self.damage(&mut draw, folder, name)?), true),
        };
        for (_, line, file) in READERS.iter().filter(|(of, ..)| *of == top) {
            // One that is made by a signal to stop early was busy with what it was told, however absurd.
            let limit = format!("ulimit -v {ADDRESSES}");
            let command = self.kymo.limited(folder, &limit, "", &words(line));
            let answer = finish(command, &[(LONG, "TERM"), (LIMIT, "KILL")])?;
            let with = |fault: Fault| Fault::new(fault.class, format!("{what}: {}", fault.text));
            answer.documented().map_err(with)?;
            if let Some(error) = answer.error() {
                let file = name.rsplit('/').next().unwrap_or(name);
                // Data that does not fit its run is told by the file of the run, and what is wrong with a
                // setting by its name; numbers that are extreme, but numbers, by what became of them.
                let other = self.files.keys().any(|name| error.contains(name.as_str()));
                let classes = [Class::Settings, Class::Diverged].map(|class| i32::from(class.exit_code()));
                let otherwise = other || answer.code.is_some_and(|code| classes.contains(&code));
                if !error.contains(file) && !error.contains(top) && !otherwise {
                    return Err(with(answer.fault("an error that does not name the file")));
                }
            }
            // A file that was named as an input decides the result, and simulations say how long they took.
            let equal = equal
                && !line.starts_with("simulate")
                && !line.contains(name)
                && !answer.stopped()
                && answer.code == Some(0);
            if equal && self.results.get(line) != Some(&result(folder, *file, &answer)?) {
                return Err(with(answer.fault("another result without an error")));
            }
        }
        Ok(())
    }
}

impl Damage {
    /// Damages a file; what was done to it.
    fn damage(&self, draw: &mut Draw, folder: &Path, name: &str) -> Verdict<String> {
        let path = folder.join(name);
        let mut bytes = std::fs::read(&path)?;
        let at = draw.below(bytes.len());
        let what = match draw.below(11) {
            0 => {
                bytes.truncate(at);
                format!("cut to {at} bytes")
            }
            1 | 2 => {
                let flips = 1 + draw.below(8);
                for _ in 0..flips {
                    let at = draw.below(bytes.len());
                    bytes[at] ^= 1 << draw.below(8);
                }
                format!("with {flips} bits flipped")
            }
            3 => {
                let end = (at + 1 + draw.below(4096)).min(bytes.len());
                bytes[at..end].fill(0);
                format!("zeroed from {at} to {end}")
            }
            4 => {
                let others: Vec<(&String, &Vec<u8>)> = self.files.iter().collect();
                let (other, content) = *draw.pick(&others);
                bytes = content.clone();
                format!("replaced by {other}")
            }
            5 => {
                bytes.clear();
                "emptied".into()
            }
            6 => {
                let count = 1 + draw.below(300);
                bytes.extend((0..count).map(|_| draw.word() as u8));
                format!("with {count} bytes behind it")
            }
            7 => {
                std::fs::remove_file(&path)?;
                std::fs::create_dir(&path)?;
                return Ok("replaced by a folder".into());
            }
            8 => {
                std::fs::remove_file(&path)?;
                std::os::unix::fs::symlink(&path, &path)?;
                return Ok("replaced by a link to itself".into());
            }
            9 => {
                std::fs::set_permissions(&path, Permissions::from_mode(0o0))?;
                if std::fs::read(&path).is_ok() {
                    self.kymo.remark("skipped: files that may not be read, because this user may read all");
                }
                return Ok("made unreadable".into());
            }
            _ => {
                std::fs::remove_file(&path)?;
                return Ok("removed".into());
            }
        };
        std::fs::write(&path, bytes)?;
        Ok(what)
    }
}
