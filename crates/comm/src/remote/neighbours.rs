//! Processes of this machine: whether they live, as the system says. A process that was killed is missed at
//! once, and not only when it has been silent for longer than the deadline.

use std::time::Duration;

/// How often they are looked for.
pub const LOOK: Duration = Duration::from_millis(200);

/// How often where there is no time to lose: a launcher that ends all once one has died may do so within a
/// second.
pub const ALARMED: Duration = Duration::from_millis(20);

/// A process, so that others of its machine can tell it from one that has its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// When it was begun, in ticks of the system.
    begun: u64,
}

impl Process {
    /// This one, where the system tells.
    pub fn this() -> Option<Process> {
        Process::living(std::process::id())
    }

    /// The living process with a number, as this machine sees it. One that has ended and was not asked for
    /// its exit code does not live.
    pub fn living(id: u32) -> Option<Process> {
        let facts = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name of its program stands in parentheses, and may hold anything.
        let mut facts = facts.rsplit_once(')')?.1.split_whitespace();
        let state = facts.next()?;
        let begun = facts.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X" | "x")).then_some(Process { id, begun })
    }

    /// What it has computed since it was begun, in ticks of the system; nothing where it is gone.
    pub fn worked(&self) -> Option<u64> {
        let facts = std::fs::read_to_string(format!("/proc/{}/stat", self.id)).ok()?;
        let mut facts = facts.rsplit_once(')')?.1.split_whitespace().skip(11);
        // For itself, and in the system for it.
        let mut ticks = || facts.next()?.parse::<u64>().ok();
        Some(ticks()? + ticks()?)
    }

    /// Whether it lives.
    pub fn lives(&self) -> bool {
        Process::living(self.id).as_ref() == Some(self)
    }
}

/// The name of a machine and a process of it, as one text.
pub fn described(host: &str, process: Option<Process>) -> String {
    process.map_or(host.to_owned(), |Process { id, begun }| format!("{host}\n{id} {begun}"))
}

/// What such a text says.
pub fn read(text: &str) -> (String, Option<Process>) {
    let (host, process) = text.split_once('\n').unwrap_or((text, ""));
    let number = |part: Option<&str>| part?.parse::<u64>().ok();
    let mut parts = process.split(' ');
    let (id, begun) = (number(parts.next()), number(parts.next()));
    let process = id.and_then(|id| u32::try_from(id).ok()).zip(begun);
    (host.to_owned(), process.map(|(id, begun)| Process { id, begun }))
}

/// Those whose processes can be watched from here: of this machine, and seen from this process as they see
/// themselves. Containers may share the name of a machine, but not its processes.
pub fn watched(rank: usize, all: &[(String, Option<Process>)]) -> Vec<(usize, Process)> {
    let mine = all.get(rank).map(|(host, _)| host);
    let others = all.iter().enumerate().filter(|(other, (host, _))| *other != rank && Some(host) == mine);
    others
        .filter_map(|(other, (_, process))| Some((other, (*process)?)))
        .filter(|(_, process)| process.lives())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive() {
        let process = Some(Process { id: 7, begun: 99 });
        assert_eq!(read(&described("näme", process)), ("näme".into(), process));
        assert_eq!(read(&described("a b", None)), ("a b".into(), None));
        assert_eq!(read("a\nx y"), ("a".into(), None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_dead_and_those_who_took_their_numbers_do_not_live() {
        let this = Process::this().unwrap();
        assert!(this.lives());
        assert!(!Process { begun: this.begun + 1, ..this }.lives(), "another one with its number");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::living(child.id()).unwrap();
        let all = [("a", Some(this)), ("a", Some(process)), ("b", Some(process)), ("a", None)];
        let all = all.map(|(host, process)| (host.to_owned(), process));
        assert_eq!(watched(0, &all), [(1, process)], "of this machine alone");
        child.kill().unwrap();
        // Nobody has asked for its exit code: it has its number still.
        while process.lives() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(watched(0, &all), []);
        child.wait().unwrap();
    }
}
