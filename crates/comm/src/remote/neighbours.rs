//! Processes of this machine: whether they live, as the system says. A process that was killed is missed at
//! once, and not only when it has been silent for longer than the deadline.

use std::collections::BTreeSet;
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

    /// Whether it lives.
    pub fn lives(&self) -> bool {
        Process::living(self.id).as_ref() == Some(self)
    }
}

/// Where a worker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// The name of its machine.
    pub host: String,
    /// Its process, where the system tells.
    pub process: Option<Process>,
    /// The cores that it may use, as the system lists them; nothing where it does not.
    pub cores: String,
}

impl Seat {
    /// That of this process.
    pub fn of_this(host: &str) -> Seat {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let cores = cores.unwrap_or_default().trim().to_owned();
        Seat { host: host.to_owned(), process: Process::this(), cores }
    }

    /// As a text.
    pub fn described(&self) -> String {
        let process = self.process.map(|Process { id, begun }| format!("{id} {begun}"));
        format!("{}\n{}\n{}", self.host, process.unwrap_or_default(), self.cores)
    }

    /// What such a text says.
    pub fn read(text: &str) -> Seat {
        let mut lines = text.split('\n');
        let mut line = || lines.next().unwrap_or_default();
        let (host, process, cores) = (line().to_owned(), line(), line().to_owned());
        let number = |part: Option<&str>| part?.parse::<u64>().ok();
        let mut parts = process.split(' ');
        let (id, begun) = (number(parts.next()), number(parts.next()));
        let process = id.and_then(|id| u32::try_from(id).ok()).zip(begun);
        Seat { host, process: process.map(|(id, begun)| Process { id, begun }), cores }
    }

    /// Whether both may be on the same core at a time. Launchers may give each worker cores of its own.
    pub fn shares_cores(&self, other: &Seat) -> bool {
        let (mine, theirs) = (listed(&self.cores), listed(&other.cores));
        let known = !mine.is_empty() && !theirs.is_empty();
        self.host == other.host && !(known && mine.is_disjoint(&theirs))
    }
}

/// The numbers in a list such as `0-3,8`.
fn listed(cores: &str) -> BTreeSet<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    cores.split(',').filter_map(range).flatten().collect()
}

/// Those whose processes can be watched from here: of this machine, and seen from this process as they see
/// themselves. Containers may share the name of a machine, but not its processes.
pub fn watched(rank: usize, all: &[Seat]) -> Vec<(usize, Process)> {
    let mine = all.get(rank).map(|seat| &seat.host);
    let others = all.iter().enumerate().filter(|(other, seat)| *other != rank && Some(&seat.host) == mine);
    others
        .filter_map(|(other, seat)| Some((other, seat.process?)))
        .filter(|(_, process)| process.lives())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(host: &str, process: Option<Process>, cores: &str) -> Seat {
        Seat { host: host.into(), process, cores: cores.into() }
    }

    #[test]
    fn texts_survive() {
        let process = Some(Process { id: 7, begun: 99 });
        for seat in [seat("näme", process, "0-3,8"), seat("a b", None, ""), seat("", process, "1")] {
            assert_eq!(Seat::read(&seat.described()), seat);
        }
        assert_eq!(Seat::read("a\nx y"), seat("a", None, ""));
    }

    #[test]
    fn cores_are_shared_unless_each_has_its_own() {
        let share = |one: &str, other: &str| seat("a", None, one).shares_cores(&seat("a", None, other));
        assert!(share("0-1", "0-1") && share("0-3,8", "8") && share("", "2") && share("x", "2"));
        assert!(!share("0", "1") && !share("0-3", "4-7,9"));
        assert!(!seat("a", None, "0").shares_cores(&seat("b", None, "0")), "other machines");
        #[cfg(target_os = "linux")]
        assert!(!listed(&Seat::of_this("here").cores).is_empty());
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
        let all = all.map(|(host, process)| seat(host, process, ""));
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
