//! A store with bytes changed and the checksums mended: a result, never a panic.
#![no_main]

use kymo_graph::generate::{Params, find, write};
use kymo_graph::store::Manifest;
use kymo_graph::{Progress, Store, stats};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|changes: &[u8]| {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("store");
    let Some(kind) = find("uniform") else { panic!("a known kind") };
    let params = Params { vertices: 8, edges: 12, steps: 5, features: 3, segments: 2, ..kind.defaults() };
    let Ok(store) = write(kind, &params, &path, false, &Progress::silent()) else { panic!("a valid graph") };
    let mut manifest: Manifest = store.manifest().clone();
    drop(store);
    for change in changes.chunks_exact(4) {
        let count = manifest.parts.len() + manifest.ids.len();
        let which = change[0] as usize % count;
        let parts = manifest.parts.len();
        let entry =
            if which < parts { &mut manifest.parts[which].file } else { &mut manifest.ids[which - parts] };
        let file = path.join(&entry.name);
        let Ok(mut bytes) = std::fs::read(&file) else { return };
        let at = u16::from_le_bytes([change[1], change[2]]) as usize % bytes.len();
        bytes[at] = change[3];
        entry.crc32 = crc32fast::hash(&bytes);
        if std::fs::write(&file, &bytes).is_err() {
            return;
        }
    }
    if manifest.write(&path).is_err() {
        return;
    }
    if let Ok(store) = Store::open(&path) {
        let _ = store.verify();
        let _ = stats::stats(&store, &Progress::silent());
        for t in 0..store.steps() {
            let _ = (store.snapshot(t).is_ok(), store.delta(t).is_ok(), store.features(t).is_ok());
            let _ = (store.feature_row(t, 0).is_ok(), store.targets(t).is_ok(), store.labels(t).is_ok());
        }
    }
});
