//! Numbers of bytes as people type them, and how much memory there is.

use std::path::Path;

use crate::error::{Error, Result};

/// A number of bytes as it is typed: `2GiB`, `500MB`, `auto` for a quarter of the machine's memory.
pub fn memory(setting: &str) -> Result<usize> {
    if setting == "auto" {
        return Ok(machine_memory().unwrap_or(4 << 30) / 4);
    }
    size("run.memory", setting)
}

/// A number of bytes as it is typed for a setting.
pub fn size(name: &'static str, setting: &str) -> Result<usize> {
    let wrong = || Error::settings(name, format!("found '{setting}', expected a size such as 2GiB or auto"));
    let end = setting.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(setting.len());
    let number: f64 = setting[..end].parse().map_err(|_| wrong())?;
    let unit = match setting[end..].trim() {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    Ok((number * unit) as usize)
}

/// All memory of this machine, where the system tells.
pub fn machine_memory() -> Option<usize> {
    field(Path::new("/proc/meminfo"), "MemTotal:")
}

/// Memory that this process holds now, and the most it has held, where the system tells.
pub fn process_memory() -> Option<(usize, usize)> {
    let status = Path::new("/proc/self/status");
    Some((field(status, "VmRSS:")?, field(status, "VmHWM:")?))
}

fn field(path: &Path, name: &str) -> Option<usize> {
    let facts = std::fs::read_to_string(path).ok()?;
    let line = facts.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_type_them() {
        assert_eq!(memory("2GiB").unwrap(), 2 << 30);
        assert_eq!(memory("1.5 MB").unwrap(), 1_500_000);
        assert_eq!(memory("4096").unwrap(), 4096);
        assert!(memory("auto").unwrap() > 0);
        assert!(memory("lots").unwrap_err().to_string().starts_with("run.memory: found 'lots'"));
        assert!(memory("2 horses").is_err());
    }
}
