//! Numbers of bytes as people type them.

use super::machine::machine_memory;
pub use super::machine::process_memory;
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
    // More than there can be is all that there can be.
    Ok((number * unit) as usize)
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
