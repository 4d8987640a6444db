//! Any bytes as an input of the format this target is called after: a result, never a panic.
#![no_main]

use kymo_graph::load::{Hints, find, read_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir();
    let Ok(format) = find(env!("CARGO_BIN_NAME")) else { panic!("there is no such format") };
    let _ = read_bytes(format, &Hints::default(), "input", bytes.to_vec(), &folder);
});
