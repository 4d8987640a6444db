//! Any bytes as a file beside a small graph (labels, features or a signal, by the name of this target): a
//! result, never a panic.
#![no_main]

use kymo_graph::load::{Hints, Source, find, read_bytes, side};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir();
    let graph = b"0 1 0\n1 2 1\n".to_vec();
    let Ok(mut intake) =
        find("snap").and_then(|format| read_bytes(format, &Hints::default(), "graph", graph, &folder))
    else {
        panic!("the graph is valid")
    };
    let Ok(mut source) = Source::from_bytes("input", bytes.to_vec()) else { return };
    match env!("CARGO_BIN_NAME") {
        "labels" => drop(side::read_labels(&mut source, &mut intake)),
        "features" => drop(side::read_features(&mut source, side::FeatureLayout::Auto, &mut intake)),
        "signal" => drop(side::read_signal(&mut source, &mut intake)),
        other => panic!("there is no file of {other}"),
    }
});
