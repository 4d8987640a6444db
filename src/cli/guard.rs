//! Ends a process among others that would go on for nothing: its launcher has ended, or a worker is lost and
//! this one has not seen it, since it computes. What was being written is left as by a kill.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kymo_comm::mpi::siblings::Siblings;
use kymo_comm::{End, mpi};
use kymo_run::launch::Processes;
use kymo_run::{Class, Error};
use signal_hook::consts::SIGTERM;

use super::console::complain;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);

/// How long a worker may take to see by itself that another is lost, and to end.
const GRACE: Duration = Duration::from_secs(5);

/// Ends this process when its launcher ends, where there is one: a training that is started again must not
/// find it going on. From before others are joined, which may take as long as it likes.
#[cfg(unix)]
pub fn watch_launcher() {
    use std::os::unix::process::parent_id;
    let Some(rank) = mpi::launched_rank() else { return };
    let launcher = parent_id();
    watch(move || {
        (parent_id() != launcher).then(|| {
            let text = format!(
                "the launcher, process {launcher}, has ended, and this worker with it; start the command \
                 again with --resume"
            );
            (0, (rank == 0).then_some(text))
        })
    });
}

/// Elsewhere it is not known who started a process.
#[cfg(not(unix))]
pub fn watch_launcher() {}

/// How long the processes that were asked to end while they join give each other to see who has died.
const TOGETHER: Duration = Duration::from_millis(300);

/// Until it is set: a process that is asked to end while all join says who has died, if one has, and ends.
/// Nobody else does: `mpirun` asks all others to end, and does not always say why.
pub fn watch_joining() -> Arc<AtomicBool> {
    let (joined, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (Some(rank), Some(mut siblings)) = (mpi::launched_rank(), Siblings::of_this()) else { return joined };
    // Where it cannot be set, signals end the process as they do by default.
    if signal_hook::flag::register(SIGTERM, asked.clone()).is_err() {
        return joined;
    }
    let done = joined.clone();
    let look = move || {
        while !done.load(Ordering::Relaxed) {
            let was_asked = asked.load(Ordering::Relaxed);
            let living = siblings.living();
            if was_asked {
                let missing = siblings.missing(&living);
                if !missing.is_empty() && living.first() == Some(&rank) {
                    complain(&format!("error: {}", died_joining(&missing)));
                }
                std::thread::sleep(TOGETHER);
                let code = if missing.is_empty() { 128 + SIGTERM } else { Class::Peer.exit_code().into() };
                signal_hook::low_level::exit(code);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // Where there is no thread for it, all end when the launcher kills them.
    let _ = std::thread::Builder::new().name("joining".into()).spawn(look);
    joined
}

/// Ends this process when it has not ended by itself after another was lost. `mpirun` asks all to end where
/// one was killed, and kills them a second later: then the one who is to speak does so at once, whatever the
/// worker is at.
pub fn watch_others(processes: &Processes) {
    let (Some(end), Some(alarm), place) = (processes.end(), processes.alarm(), processes.place()) else {
        return;
    };
    // Where it cannot be set, the others are looked for as often as ever.
    let _ = signal_hook::flag::register(SIGTERM, alarm.clone());
    watch(move || {
        let End { error, code } = end.get()?.clone();
        let error = Error::from(error);
        let (begun, speaks) = (Instant::now(), place.is_to_speak_of(&error, code));
        // Those who need not speak wait: the others must not take them for the one that has died.
        while begun.elapsed() < GRACE && !(speaks && alarm.load(Ordering::Relaxed)) {
            std::thread::sleep(LOOK);
        }
        Some((code, place.speaks_of(&error, code).then(|| error.to_string())))
    });
}

/// Who has died; several where one of them was ended before it could look itself.
fn died_joining(missing: &BTreeSet<usize>) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let workers: Vec<String> =
        missing.iter().map(|rank| format!("worker {rank} on {}", host.trim())).collect();
    let have = if workers.len() == 1 { "has" } else { "have" };
    format!("{} {have} died: no longer there while all were joining", workers.join(", "))
}

/// Looks again and again; ends the process when there is a reason, which is said where this process is the
/// one to say it, with the code of the process that decided it.
fn watch(mut reason: impl FnMut() -> Option<(u8, Option<String>)> + Send + 'static) {
    let look = move || {
        loop {
            if let Some((code, said)) = reason() {
                said.iter().for_each(|text| complain(&format!("error: {text}")));
                // At once: what is left to be done at an orderly end may wait for the lost one.
                let code = if code == 0 { Class::Peer.exit_code() } else { code };
                signal_hook::low_level::exit(code.into());
            }
            std::thread::sleep(LOOK);
        }
    };
    // Where there is no thread for it, the launcher ends the processes it has started.
    let _ = std::thread::Builder::new().name("guard".into()).spawn(look);
}
