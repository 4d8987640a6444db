//! A run holds after its first epochs what it holds after its last.

use kymo_run::train::measure;
use kymo_run::{Part, Worker, task};

use crate::fixture::{MODES, Sketch, practise, settings};

#[test]
fn memory_stays_flat_over_many_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let stores = Sketch::random(1, 30, 12).write_both(&path);
    // One thread: how many blocks of rows are worked on at a time, and so how many sets of buffers there are,
    // is up to chance with more.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for task in task::ALL {
        let store = stores.of(task.name());
        for mode in MODES {
            let mut settings = settings(store.path(), task.name(), "gcn-gru");
            (settings.train.mode, settings.model.dropout) = (mode, 0.2);
            // All of them, so that steps have different numbers of links.
            settings.link.positives = 0;
            pool.install(|| {
                let mut worker = Worker::open(settings, store.clone()).unwrap();
                let mut held = Vec::new();
                for _ in 0..200 {
                    practise(&mut worker, 1);
                    measure(&mut worker, Part::Validation).unwrap();
                    held.push((worker.buffer_bytes(), worker.snapshots().left()));
                }
                assert_eq!(held[2], held[199], "{} {mode:?}", task.name());
            });
        }
    }
}
