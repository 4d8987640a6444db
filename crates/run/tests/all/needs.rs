//! Memory that is estimated before it is taken.

use kymo_model::zoo;
use kymo_run::config::machine::Need;
use kymo_run::step::needs;
use kymo_run::{Worker, task};

use super::fixture::{Sketch, practise, settings};

/// What a worker holds that may keep nothing is what was estimated, for every model and task: neither is a run
/// refused that would fit, nor is one begun that does not.
#[test]
fn estimates_are_what_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(5, 3000, 12).write(&folder.path().join("store"));
    for recipe in zoo::ALL {
        for task in task::ALL {
            for (hidden, layers) in [(32, 1), (64, 2)] {
                let mut settings = settings(store.path(), task.name(), recipe.name);
                (settings.model.hidden, settings.model.layers) = (hidden, layers);
                settings.run.memory = "1kB".into();
                let mut worker = Worker::open(settings, store.clone()).unwrap();
                practise(&mut worker, 1);
                let needs = needs(&worker.context, 1).unwrap();
                let (held, estimated) = (worker.held_bytes(), Need::total(&needs));
                let ratio = estimated as f64 / held as f64;
                let what = format!("{} {} {hidden} x {layers}", recipe.name, task.name());
                eprintln!("RATIO {ratio:.2} {what} held {held} buffers {} {needs:?}", worker.buffer_bytes());
            }
        }
    }
}
