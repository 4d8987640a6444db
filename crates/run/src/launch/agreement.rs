//! Whether all processes mean the same run: the same program, the same settings, the same data.

use std::io::Read;
use std::path::Path;

use kymo_graph::Store;

use crate::config::{Settings, overlay};
use crate::error::{Error, Result};
use crate::workers::WorkerGroup;

/// Settings that may differ from process to process: where the data lies, and what a machine has to give.
const OWN: [&str; 3] = ["data.store", "run.memory", "run.device_memory"];

/// Fails at every process, with what differs and where, unless all are alike.
pub fn check(group: &WorkerGroup, settings: &Settings, store: &Store) -> Result<()> {
    let all = group.all_gather(described(settings, store)?.as_bytes())?;
    let texts: Vec<String> = all.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    let Some((rank, difference)) = difference(&texts) else { return Ok(()) };
    let place = group.host(rank).map_or(String::new(), |host| format!(" on {host}"));
    Err(Error::settings("worker", format!("worker {rank}{place} differs from worker 0: {difference}")))
}

/// What must be the same everywhere, a line each.
fn described(settings: &Settings, store: &Store) -> Result<String> {
    let mut text = format!("program: {}\n", program());
    let manifest = store.path().join("manifest.json");
    let bytes = std::fs::read(&manifest).map_err(Error::resource("cannot read", &manifest))?;
    // It has the checksums of all other files.
    text.push_str(&format!("checksum of the store: {:08x}\n", crc32fast::hash(&bytes)));
    for (key, value) in overlay::entries(settings)? {
        if !OWN.contains(&key.as_str()) {
            text.push_str(&format!("{key}: {value}\n"));
        }
    }
    Ok(text)
}

/// This program: two builds of a version are not the same.
fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match std::env::current_exe().and_then(|path| checksum(&path)).ok() {
        Some(checksum) => format!("{version}, checksum {checksum:08x}"),
        None => version.to_owned(),
    }
}

/// The checksum of a file, of which little is in memory at a time.
fn checksum(path: &Path) -> std::io::Result<u32> {
    let (mut file, mut hasher) = (std::fs::File::open(path)?, crc32fast::Hasher::new());
    let mut piece = vec![0; 1 << 18];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(length) => hasher.update(&piece[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The first process that differs from the first one, and in what.
fn difference(texts: &[String]) -> Option<(usize, String)> {
    let first = texts.first()?;
    let (rank, other) = texts.iter().enumerate().find(|(_, text)| *text != first)?;
    let lines = first.lines().zip(other.lines()).find(|(one, two)| one != two);
    let (here, there) = lines.unwrap_or(("settings", "other settings"));
    let value = there.split_once(": ").map_or(there, |(_, value)| value);
    Some((rank, format!("{here} at worker 0, {value} at worker {rank}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_checksum_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [0, 5, 1 << 18, (1 << 19) + 7] {
            let bytes: Vec<u8> = (0..length).map(|k: usize| (k * 31 % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(checksum(&path).unwrap(), crc32fast::hash(&bytes));
        }
        assert!(checksum(&folder.path().join("none")).is_err());
    }

    #[test]
    fn the_first_difference_is_named() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(difference(&texts(&["a: 1\nb: 2", "a: 1\nb: 2"])), None);
        let found = difference(&texts(&["a: 1\nb: 2", "a: 1\nb: 2", "a: 1\nb: 3"]));
        assert_eq!(found, Some((2, "b: 2 at worker 0, 3 at worker 2".into())));
        assert!(difference(&texts(&["a: 1", "a: 1\nb: 3"])).is_some());
        assert_eq!(difference(&[]), None);
    }
}
