//! Starvation: too little memory, too few files, a full disk, closed streams, sizes that no machine has. The
//! command does what it was asked, or says in words what is missing.

use std::path::Path;
use std::process::Command;

use crate::Kind;
use crate::command::{ADDRESSES, Fault, Kymo, LIMIT, LONG, Verdict, finish, words};
use crate::draw::Draw;
use crate::files::{self, Scene};

/// What is starved.
const COMMANDS: [&str; 9] = [
    "inspect small --json",
    "evaluate run",
    "predict run -o out.csv",
    "train small --epochs 2 -o new",
    "train small --epochs 2 --workers 2 --strategy pts -o new",
    "train -o run --resume --epochs 4",
    "ingest events.csv -o store",
    "generate power-law --vertices 20000 --edges 60000 --steps 10 --features 8 -o store",
    "plan small --workers 4 --json",
];

/// Sizes that cannot be, or not here.
const ABSURD: [&str; 30] = [
    "train small --hidden 100000 --epochs 1 -o new",
    "train small --hidden 1000000000 --epochs 1 -o new",
    "train small --hidden 18446744073709551615 --epochs 1 -o new",
    "train small --model gat-lstm --set model.heads=1000000000 --epochs 1 -o new",
    "train small --model dcrnn --set model.walks=1000000000 --epochs 1 -o new",
    "train small --threads 100000 --epochs 1 -o new",
    "train small --threads 18446744073709551615 --epochs 1 -o new",
    "train small --workers 100000 --epochs 1 -o new",
    "train small --workers 1000000000000 --strategy pts --epochs 1 -o new",
    "train small --set data.lags=1000000000 --epochs 1 -o new",
    "train small --set data.lags=9223372036854775807 --epochs 1 -o new",
    "train small --set data.features=learnt --set data.learnt=1000000000 --epochs 1 -o new",
    "train small --task link-prediction --set link.evaluate_negatives=1000000000 --epochs 1 -o new",
    "train small --task link-prediction --set link.negatives=1000000000 --epochs 1 -o new",
    "train small --window 9223372036854775807 --epochs 1 -o new",
    "train small --set train.stride=9223372036854775807 --epochs 1 -o new",
    "train small --set task.horizon=9223372036854775807 --epochs 1 -o new",
    "train small --memory 1000000000000GiB --epochs 1 -o new",
    "train small --memory 1B --epochs 1 -o new",
    "train small --workers 2 --set parallel.windows=1000000000000 --epochs 1 -o new",
    "train small --workers 2 --strategy dygnex --set parallel.groups=1000000000000 --epochs 3 -o new",
    "plan small --workers 1000000000 --json",
    "plan small --workers 2 --hidden 1000000000000 --json",
    "simulate --groups 1000000000000 --workers 4 --strategy psg",
    "simulate --groups 100 --workers 1000000000000 --strategy psg",
    "generate uniform --vertices 18446744073709551615 -o store",
    "generate uniform --vertices 10 --edges 1000000000000000 -o store",
    "generate uniform --vertices 1000000000 --edges 10 --features 1000000 -o store",
    "generate uniform --vertices 10 --edges 10 --steps 1000000000000 --features 1000000000 -o store",
    "ingest events.csv --steps 18446744073709551615 -o store",
];

struct Starve {
    kymo: Kymo,
    scene: Scene,
    /// Kilobytes of address space below which the command cannot even say its version.
    least: u64,
    tmpfs: bool,
    root: bool,
}

/// Makes a store and a run, and finds out what can be limited here.
pub fn prepare(kymo: &Kymo, scenes: &Path) -> Verdict<Box<dyn Kind>> {
    let scene = scenes.join("scene");
    std::fs::create_dir(&scene)?;
    let events = "source,target,time\n".to_owned() + &"1,2,3\n2,3,400\n3,1,900\n".repeat(500);
    std::fs::write(scene.join("events.csv"), events)?;
    kymo.done(&scene, "generate power-law --vertices 60 --edges 200 --steps 20 --features 3 -o small")?;
    kymo.done(&scene, "train small --epochs 2 -o run")?;
    let mut least = 1 << 10;
    let says = |kilobytes: u64| -> Verdict<bool> {
        let limit = format!("ulimit -v {kilobytes}");
        let command = kymo.limited(&scene, &limit, "", &["--version", "--threads=1"]);
        Ok(finish(command, &[(LIMIT, "KILL")])?.code == Some(0))
    };
    while !says(least)? {
        least += least / 8;
    }
    let mount = scenes.join("mount");
    std::fs::create_dir(&mount)?;
    let tmpfs = mounted(&mount, 64)?;
    if tmpfs {
        unmount(&mount)?;
    } else {
        kymo.remark("skipped: full disks: no small disk can be mounted here");
    }
    let locked = scenes.join("locked");
    std::fs::create_dir(&locked)?;
    permit(&locked, "a-w")?;
    let root = std::fs::write(locked.join("file"), "").is_ok();
    if root {
        kymo.remark("skipped: read-only folders and numbers of processes: they do not bind this user");
    }
    Ok(Box::new(Starve { kymo: kymo.clone(), scene: Scene::new(&scene), least, tmpfs, root }))
}

fn mounted(folder: &Path, kilobytes: u64) -> Verdict<bool> {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "tmpfs"]).arg(folder);
    Ok(mount.output()?.status.success())
}

fn unmount(folder: &Path) -> Verdict {
    Command::new("umount").arg(folder).output()?;
    Ok(())
}

fn permit(folder: &Path, how: &str) -> Verdict {
    Command::new("chmod").arg(how).arg(folder).output()?;
    Ok(())
}

impl Kind for Starve {
    fn case(&self, mut draw: Draw, folder: &Path) -> Verdict {
        self.scene.lay(folder)?;
        let args = words(draw.pick::<&str>(&COMMANDS));
        let run = |before: &str, args: &[String]| {
            let command = self.kymo.limited(folder, before, "", args);
            finish(command, &[(LONG, "TERM"), (LIMIT, "KILL")])
        };
        match draw.below(8) {
            0 | 1 => {
                // From nothing to more than enough, as many small sizes as large ones.
                let kilobytes = self.least as f64 * 64.0_f64.powf(draw.share());
                let answer = run(&format!("ulimit -v {}", kilobytes as u64), &args)?;
                answer.documented()?;
                if answer.code == Some(0) { Ok(()) } else { again(&self.kymo, folder, &args) }
            }
            2 => {
                // Beyond the limit the system would end the command by a signal; ignored, writing fails.
                let blocks = 2_usize.pow(draw.below(11) as u32) - 1;
                run(&format!("trap '' XFSZ; ulimit -f {blocks}"), &args)?.documented()
            }
            3 => {
                let answer = run(&format!("ulimit -n {}", 3 + draw.below(24)), &args)?;
                // Without a descriptor left the system cannot load the program.
                if answer.code == Some(127) { Ok(()) } else { answer.documented() }
            }
            4 => streams(&mut draw, |redirected| self.kymo.limited(folder, "true", redirected, &args)),
            5 if self.tmpfs => self.full_disk(&mut draw, folder, &args),
            6 if !self.root => {
                if draw.one_in(2) {
                    return run(&format!("ulimit -u {}", 1 + draw.below(8)), &args)?.documented();
                }
                permit(folder, "a-w")?;
                let answer = run("true", &args);
                permit(folder, "u+w")?;
                answer?.documented()
            }
            _ => {
                let args = words(draw.pick::<&str>(&ABSURD));
                run(&format!("ulimit -v {ADDRESSES}"), &args)?.documented()
            }
        }
    }
}

/// The command once more, where it ended in the middle of what it wrote: with nothing in its way it gets
/// there, and nothing is left of the first attempt.
fn again(kymo: &Kymo, folder: &Path, args: &[String]) -> Verdict {
    let mut command = args.join(" ");
    let output = args.iter().skip_while(|arg| *arg != "-o").nth(1);
    if let Some(output) = output.map(|output| folder.join(output))
        && !command.contains("--resume")
    {
        if output.join("checkpoint.safetensors").exists() {
            command += " --resume";
        } else if output.exists() && args[0] != "train" {
            command += " --overwrite";
        }
    }
    let answer = kymo.run(folder, &command)?;
    if answer.code != Some(0) {
        return Err(answer.fault("the retry failed"));
    }
    let hidden = |name: &String| name.split('/').any(|part| part.starts_with('.'));
    match files::contents(folder)?.into_keys().find(hidden) {
        Some(left) => Err(Fault::new("something was left behind", format!("after {command}: {left}"))),
        None => Ok(()),
    }
}

/// Streams that are closed, full, or read by nobody any more.
fn streams(draw: &mut Draw, command: impl Fn(&str) -> Command) -> Verdict {
    let closed =
        ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full"];
    let at = draw.below(closed.len() + 3);
    let redirected = closed.get(at).copied().unwrap_or_default();
    let mut command = command(redirected);
    let gone = || std::io::pipe().map(|(_, writer)| writer);
    if at >= closed.len() && at != closed.len() + 1 {
        command.stdout(gone()?);
    }
    if at > closed.len() {
        command.stderr(gone()?);
    }
    let answer = finish(command, &[(LONG, "TERM"), (LIMIT, "KILL")])?;
    let silent = at > closed.len() || redirected.contains("2>");
    match answer.code {
        // Nothing can be said, but the code can.
        Some(2..=6) if silent && answer.err.is_empty() => Ok(()),
        _ => answer.documented().map_err(|fault| {
            let how = ["stdout", "stderr", "both streams"].get(at.wrapping_sub(closed.len()));
            let how = how.map_or(redirected.to_owned(), |which| format!("the reader of {which} is gone"));
            Fault::new(fault.class, format!("{how}: {}", fault.text))
        }),
    }
}

impl Starve {
    fn full_disk(&self, draw: &mut Draw, folder: &Path, args: &[String]) -> Verdict {
        let disk = folder.join("disk");
        std::fs::create_dir(&disk)?;
        // The scene takes 150 kilobytes of it.
        let kilobytes = 200 + draw.below(1200) as u64;
        if !mounted(&disk, kilobytes)? {
            return Ok(());
        }
        let filled = self.scene.lay(&disk);
        let answer = finish(self.kymo.plain(&disk, args), &[(LIMIT, "KILL")]);
        unmount(&disk)?;
        filled.and(answer)?.documented()
    }
}
