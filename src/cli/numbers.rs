//! x
/// x
pub fn count(n: u64) -> String { n.to_string() }
/// x
pub fn bytes(n: u64) -> String { n.to_string() }
