//! The façade: training, evaluation and prediction in a few lines. What it is made of is in `kymo::run`.

mod embeddings;
mod predictions;
mod resume;
mod run;
mod trained;
mod tune;

pub use embeddings::Embeddings;
pub use predictions::{Predict, Predictions, Row};
pub use resume::Resume;
pub use run::Run;
pub use trained::Trained;
pub use tune::{Tune, Tuned};

use kymo_run::train::{Ending, Observer};
use kymo_run::{Custom, Error, Result, Session};

/// Does some work on a thread of the pool: a call from outside would wake the pool anew for every operation.
fn in_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| work())
}

/// Trains, and opens what came of it.
fn train(session: Session, custom: Custom, observer: &mut dyn Observer) -> Result<Trained> {
    let folder = session.path().to_path_buf();
    match in_pool(|| session.train(observer))? {
        Ending::Finished(_) => Ok(Trained::new(folder, custom)),
        Ending::Stopped => Err(Error::Stopped(folder)),
    }
}
