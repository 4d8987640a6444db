//! Any bytes as a file of labels beside a small graph: a result, never a panic.
#![no_main]

use kymo_graph::load::{Hints, Source, find, read_bytes, side};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir();
    let Ok(mut intake) = find("snap").and_then(|format| {
        read_bytes(format, &Hints::default(), "graph", b"0 1 0\n1 2 1\n".to_vec(), &folder)
    }) else {
        panic!("the graph is valid")
    };
    if let Ok(mut source) = Source::from_bytes("labels", bytes.to_vec()) {
        let _ = side::read_labels(&mut source, &mut intake);
    }
});
