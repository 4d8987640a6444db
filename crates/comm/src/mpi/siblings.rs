//! Processes of this machine that were started together with this one, before they have joined each other:
//! found by the job and the rank in their environment, where the launcher writes them there.

use std::collections::BTreeSet;

/// Which of them have been here.
pub struct Siblings {
    job: Vec<u8>,
    seen: BTreeSet<usize>,
}

/// What Open MPI and others that use PMIx call the job.
const JOB: &str = "PMIX_NAMESPACE";

impl Siblings {
    /// Those of this process, where the launcher names the job.
    pub fn of_this() -> Option<Siblings> {
        let job = std::env::var(JOB).ok()?.into_bytes();
        let said = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
        let (all, here) = (said("OMPI_COMM_WORLD_SIZE"), said("OMPI_COMM_WORLD_LOCAL_SIZE"));
        // Where all are on this machine, they are known before they were seen.
        let known = if all == here { all.unwrap_or(0) } else { 0 };
        Some(Siblings { job, seen: (0..known).collect() })
    }

    /// The ranks that live.
    pub fn living(&mut self) -> BTreeSet<usize> {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        // What has ended has no environment.
        let found =
            all.filter_map(|entry| rank(&std::fs::read(entry.path().join("environ")).ok()?, &self.job));
        let living: BTreeSet<usize> = found.collect();
        self.seen.extend(&living);
        living
    }

    /// The ranks that were here, and are not among those that live.
    pub fn missing(&self, living: &BTreeSet<usize>) -> BTreeSet<usize> {
        self.seen.difference(living).copied().collect()
    }
}

/// The rank of a process of this job, from its environment.
fn rank(environment: &[u8], job: &[u8]) -> Option<usize> {
    let value = |name: &str| {
        let mut pairs = environment.split(|&byte| byte == 0);
        pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let rank = value("PMIX_RANK").filter(|_| value(JOB) == Some(job))?;
    std::str::from_utf8(rank).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_same_job() {
        let environment = b"A=1\0PMIX_RANK=3\0PMIX_NAMESPACE=job\0";
        assert_eq!(
            (rank(environment, b"job"), rank(environment, b"jo"), rank(b"", b"job")),
            (Some(3), None, None)
        );
        assert_eq!(rank(b"PMIX_NAMESPACE=job\0PMIX_RANK=x\0", b"job"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_was_seen_and_has_ended_is_missing() {
        let job = format!("kymo-test-{}", std::process::id());
        let start = |rank: &str| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env(JOB, &job).env("PMIX_RANK", rank).spawn().unwrap()
        };
        let mut children = [start("4"), start("7")];
        let mut siblings = Siblings { job: job.clone().into_bytes(), seen: BTreeSet::new() };
        // A process that has just been made has the environment of its parent.
        while siblings.living().len() < 2 {}
        children[0].kill().unwrap();
        while siblings.living().len() > 1 {}
        let living = siblings.living();
        assert_eq!((living.clone(), siblings.missing(&living)), ([7].into(), [4].into()));
        children[1].kill().unwrap();
        for child in &mut children {
            child.wait().unwrap();
        }
    }
}
