//! Any bytes as an input of the format this target is called after: a result, never a panic.
#![no_main]

use kymo_graph::load::row::Style;
use kymo_graph::load::{EdgeFeatures, Hints, find, read_bytes};
use kymo_graph::time::DateOrder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir();
    let Ok(format) = find(env!("CARGO_BIN_NAME")) else { panic!("there is no such format") };
    let written = Style { decimal_comma: true, dates: Some(DateOrder::Dmy) };
    for style in [Style::default(), written] {
        for edge_features in [EdgeFeatures::Usual, EdgeFeatures::Named(vec!["4".into()])] {
            let hints = Hints { style, edge_features, ..Hints::default() };
            let _ = read_bytes(format, &hints, "input", bytes.to_vec(), &folder);
        }
    }
});
