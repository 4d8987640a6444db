//! How much memory there is: what the machine has, or what the control groups and limits of this process
//! leave of it, whichever is less. The only place that asks.

use std::path::{Component, Path, PathBuf};

use kymo_plan::plan::readable;

use crate::error::{Error, Result};

/// Bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All that this process could ever have.
    pub total: u64,
    /// What it could have now: others, and the process itself, hold the rest. Files that the system merely
    /// keeps in memory count as free.
    pub available: u64,
}

/// The memory of this machine that this process may have, where the system tells.
pub fn machine() -> Option<Memory> {
    seen_from(Path::new("/"))
}

/// All memory of this machine that this process may have, where the system tells.
pub fn machine_memory() -> Option<usize> {
    machine().map(|memory| memory.total as usize)
}

/// Memory that this process holds now, and the most it has held, where the system tells.
pub fn process_memory() -> Option<(usize, usize)> {
    let status = read(Path::new("/proc/self/status"))?;
    Some((kilobytes(&status, "VmRSS:")? as usize, kilobytes(&status, "VmHWM:")? as usize))
}

/// Memory that this process has to itself now, its program and its libraries included, without files that
/// are mapped and can be let go: nothing where the system does not tell.
pub fn own_memory() -> usize {
    read(Path::new("/proc/self/status")).map_or(0, |status| own(&status))
}

fn own(status: &str) -> usize {
    // Libraries of MPI put what they share with other processes of the machine into shared memory.
    let parts = ["RssAnon:", "RssShmem:"].map(|part| kilobytes(status, part).unwrap_or(0));
    parts.iter().sum::<u64>() as usize
}

/// Something that a run holds in memory, known before it is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What it is.
    pub what: &'static str,
    /// Bytes that it takes, about.
    pub bytes: u64,
    /// The settings that make it smaller.
    pub lower: &'static str,
}

impl Need {
    /// Bytes of all of them.
    pub fn total(needs: &[Need]) -> u64 {
        needs.iter().map(|need| need.bytes).fold(0, u64::saturating_add)
    }

    /// All of them in words, the largest first, and the settings that make the largest smaller.
    pub fn described(needs: &[Need]) -> (String, &'static str) {
        let mut largest: Vec<&Need> = needs.iter().filter(|need| need.bytes > 0).collect();
        largest.sort_by_key(|need| std::cmp::Reverse(need.bytes));
        let each = |need: &&Need| format!("{} {}", need.what, readable(need.bytes));
        let all: Vec<String> = largest.iter().map(each).collect();
        (all.join(", "), largest.first().map_or("run.memory", |need| need.lower))
    }

    /// Fails where all of them together are more than is available now, where that is known.
    pub fn check(needs: &[Need], what: &str) -> Result<()> {
        let (described, lower) = Need::described(needs);
        require(&format!("{what} ({described})"), Need::total(needs), &format!("lower {lower}"))
    }
}

/// Fails where something takes more bytes than are available now, where that is known; `advice` says what
/// would take less.
pub fn require(what: &str, needed: u64, advice: &str) -> Result<()> {
    match machine() {
        Some(Memory { available, .. }) if needed > available => {
            Err(Error::Memory { what: what.to_owned(), needed, available, advice: advice.to_owned() })
        }
        _ => Ok(()),
    }
}

/// The memory of a machine whose files are below `root`.
fn seen_from(root: &Path) -> Option<Memory> {
    let facts = read(&root.join("proc/meminfo"))?;
    let total = kilobytes(&facts, "MemTotal:")?;
    // Kernels before 3.14 do not say what is available.
    let available = kilobytes(&facts, "MemAvailable:").unwrap_or(total);
    let limits = groups(root).into_iter().filter_map(|group| group.memory()).chain(address_space(root));
    Some(limits.fold(Memory { total, available }, |least, limit| Memory {
        total: least.total.min(limit.total),
        available: least.available.min(limit.available),
    }))
}

/// A control group: its folder, and how its version names things.
struct Group {
    folder: PathBuf,
    limit: &'static str,
    used: &'static str,
    idle_files: &'static str,
}

impl Group {
    /// What its limit leaves, where it has one.
    fn memory(&self) -> Option<Memory> {
        let number = |name: &str| read(&self.folder.join(name))?.trim().parse::<u64>().ok();
        // Version 2 says "max" where there is none; version 1 has a number that no machine reaches.
        let total = number(self.limit)?;
        let used = number(self.used).unwrap_or(0);
        let idle = read(&self.folder.join("memory.stat")).and_then(|facts| {
            facts.lines().find_map(|line| line.strip_prefix(self.idle_files)?.trim().parse::<u64>().ok())
        });
        Some(Memory { total, available: total.saturating_sub(used.saturating_sub(idle.unwrap_or(0))) })
    }
}

/// The groups that this process is in: each limits those below it, so all of them count.
fn groups(root: &Path) -> Vec<Group> {
    let Some(memberships) = read(&root.join("proc/self/cgroup")) else { return Vec::new() };
    let mut groups = Vec::new();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let mounts: &[&str] = match controllers {
            "" => &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
            some if some.split(',').any(|name| name == "memory") => &["sys/fs/cgroup/memory"],
            _ => continue,
        };
        let inner: PathBuf =
            Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect();
        for mount in mounts {
            // Up to the mount itself: in a container, that is where its own group may be found, under a path
            // that does not hold there.
            for place in inner.ancestors() {
                let folder = root.join(mount).join(place);
                groups.push(match controllers {
                    "" => Group {
                        folder,
                        limit: "memory.max",
                        used: "memory.current",
                        idle_files: "inactive_file ",
                    },
                    _ => Group {
                        folder,
                        limit: "memory.limit_in_bytes",
                        used: "memory.usage_in_bytes",
                        idle_files: "total_inactive_file ",
                    },
                });
            }
        }
    }
    groups
}

/// What the limit of this process (`ulimit -v`) leaves, where it has one.
fn address_space(root: &Path) -> Option<Memory> {
    let limits = read(&root.join("proc/self/limits"))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let total = line.split_whitespace().next()?.parse::<u64>().ok()?;
    let used = kilobytes(&read(&root.join("proc/self/status"))?, "VmSize:").unwrap_or(0);
    Some(Memory { total, available: total.saturating_sub(used) })
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn kilobytes(facts: &str, name: &str) -> Option<u64> {
    let line = facts.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A machine of 64 GiB, 48 of them available, with these files besides.
    fn machine(files: &[(&str, &str)]) -> Option<Memory> {
        let root = tempfile::tempdir().unwrap();
        let all = [("proc/meminfo", "MemTotal:  67108864 kB\nMemFree: 1 kB\nMemAvailable: 50331648 kB\n")];
        for (name, text) in all.iter().chain(files) {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        seen_from(root.path())
    }

    #[test]
    fn without_limits_it_is_what_the_machine_has() {
        let all = Some(Memory { total: 64 * GIB, available: 48 * GIB });
        assert_eq!(machine(&[]), all);
        let unlimited = [
            ("proc/self/cgroup", "0::/user\n3:cpu,memory:/job\n"),
            ("sys/fs/cgroup/user/memory.max", "max\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
            ("proc/self/limits", "Max address space         unlimited            unlimited  bytes\n"),
        ];
        assert_eq!(machine(&unlimited), all);
        let root = tempfile::tempdir().unwrap();
        assert_eq!(seen_from(root.path()), None);
    }

    /// The tightest of nested groups decides, wherever it is, in both versions.
    #[test]
    fn the_tightest_of_nested_groups_decides() {
        let nested = [
            ("proc/self/cgroup", "0::/slice/job/step\n"),
            ("sys/fs/cgroup/slice/memory.max", "8589934592"),
            ("sys/fs/cgroup/slice/memory.current", "6442450944"),
            ("sys/fs/cgroup/slice/memory.stat", "anon 1\ninactive_file 1073741824\n"),
            ("sys/fs/cgroup/slice/job/step/memory.max", "max"),
            ("sys/fs/cgroup/slice/job/memory.max", "4294967296"),
            ("sys/fs/cgroup/slice/job/memory.current", "0"),
        ];
        // The inner group limits the total; the outer one is nearly full.
        assert_eq!(machine(&nested), Some(Memory { total: 4 * GIB, available: 3 * GIB }));
        let first = [
            ("proc/self/cgroup", "9:name=systemd:/\n4:memory:/api/task\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("sys/fs/cgroup/memory/api/memory.limit_in_bytes", "3221225472"),
            ("sys/fs/cgroup/memory/api/memory.usage_in_bytes", "2147483648"),
            ("sys/fs/cgroup/memory/api/memory.stat", "inactive_file 7\ntotal_inactive_file 1073741824\n"),
            ("sys/fs/cgroup/memory/api/task/memory.limit_in_bytes", "9223372036854771712"),
        ];
        assert_eq!(machine(&first), Some(Memory { total: 3 * GIB, available: 2 * GIB }));
    }

    /// A container sees its own group at the mount, and a path that leads elsewhere.
    #[test]
    fn a_group_is_found_where_its_path_does_not_hold() {
        for path in ["/docker/0123", "/../../outside"] {
            let membership = format!("0::{path}\n");
            let files = [("proc/self/cgroup", &membership[..]), ("sys/fs/cgroup/memory.max", "1073741824\n")];
            assert_eq!(machine(&files), Some(Memory { total: GIB, available: GIB }), "{path}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_figures_and_what_to_lower() {
        let need = |what, bytes, lower| Need { what, bytes, lower };
        let needs = [need("rows", 1 << 20, "a"), need("nothing", 0, "b"), need("parameters", 1 << 60, "c")];
        assert_eq!(Need::total(&needs), (1 << 60) + (1 << 20));
        assert_eq!(Need::total(&[need("x", u64::MAX, "a"), need("y", 1, "b")]), u64::MAX);
        let error = Need::check(&needs, "training").unwrap_err();
        assert_eq!(error.class(), crate::Class::Resource);
        let text = error.to_string();
        assert!(text.starts_with("training (parameters 1.0 EiB, rows 1.0 MiB) takes about"), "{text}");
        assert!(text.ends_with(" of memory are available; lower c"), "{text}");
        Need::check(&needs[..1], "training").unwrap();
    }

    /// Kernels before 4.5 do not tell what is whose: then nothing is counted.
    #[test]
    fn what_a_process_has_to_itself_is_no_file() {
        let status = "VmRSS:\t 900 kB\nRssAnon:\t 600 kB\nRssFile:\t 250 kB\nRssShmem:\t 50 kB\n";
        assert_eq!((own(status), own("VmRSS:\t 900 kB\n"), own("")), (650 << 10, 0, 0));
    }

    #[test]
    fn the_limit_of_the_process_counts() {
        let files = [
            ("proc/self/limits", "Limit  Soft\nMax address space         2147483648  unlimited  bytes\n"),
            ("proc/self/status", "VmPeak: 9 kB\nVmSize:\t 1048576 kB\n"),
        ];
        assert_eq!(machine(&files), Some(Memory { total: 2 * GIB, available: GIB }));
    }
}
