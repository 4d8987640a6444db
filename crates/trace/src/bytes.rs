//! Numbers of bytes as people read them.

/// A number of bytes with a unit that leaves few digits, as in "3.0 MiB".
pub fn readable(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let value = bytes as f64 / 1024f64.powi(power as i32);
    format!("{value:.1} {}", UNITS[power as usize - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_leave_few_digits() {
        let sizes = [0, 1023, 1024, 3 << 20, 1 << 30, 1 << 40, u64::MAX].map(readable);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "3.0 MiB", "1.0 GiB", "1.0 TiB", "16777216.0 TiB"]);
    }
}
