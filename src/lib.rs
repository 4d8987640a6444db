//! Kymo trains neural networks on graphs that change over time.
//!
//! [`Run`] trains, [`Trained`] evaluates and predicts, and an [`Observer`] watches and may stop a run:
//!
//! ```
//! # fn main() -> Result<(), kymo::Error> {
//! # let folder = std::env::temp_dir().join(format!("kymo-front-page-{}", std::process::id()));
//! let mut trained = kymo::Run::on_builtin_data()          // or Run::on("a store")
//!     .task("node-regression")
//!     .model("gcn")
//!     .hidden(8)
//!     .epochs(2)
//!     .folder(&folder)
//!     .train(&mut kymo::Silent)?;
//! let test = trained.evaluate(kymo::Part::Test)?;
//! println!("mse {}, of the last value {}", test.metrics["mse"], test.baselines["last-value"]["mse"]);
//! for row in trained.predict(kymo::Predict::next())?.rows().take(3) {
//!     println!("vertex {} will be {}", row.vertices[0], row.values[0]);
//! }
//! let more = kymo::Run::resume(&folder).epochs(3).train(&mut kymo::Silent)?;
//! assert_eq!(more.summary()?.epochs, 3);
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok(())
//! # }
//! ```
//!
//! Every setting has a default; [`Run::set`] changes any of them by its key. An [`Error`] says what was wrong
//! and what to do, and its [`Class`] who has to do it. A model or a task of one's own is passed with
//! [`Run::with_model`] or [`Run::with_task`]. The folder `examples` has one program for each of these.
//!
//! Below that are the layers that the command is made of. Data flows `ingest -> store -> plan -> run`:
//!
//! | module | what it is |
//! |---|---|
//! | [`graph`] | readers, snapshots, the [`Store`], generators |
//! | [`tensor`] | matrices, tape, operations, optimisers |
//! | [`model`] | models and what they are made of, metrics |
//! | [`plan`] | who does what, where there are several workers |
//! | [`comm`] | messages between workers |
//! | [`run`] | training: [`Settings`], tasks, sessions |
//! | [`sim`] | schedules on a simulated cluster |
//! | [`trace`] | what a run leaves behind: records, timelines |
//!
//! The feature `cli`, which is on by default, is the command; programs that use the library can do without.

#[cfg(feature = "cli")]
pub mod cli;
mod facade;

pub use facade::{Embeddings, Predict, Predictions, Resume, Row, Run, Trained, Tune, Tuned};
pub use kymo_comm as comm;
pub use kymo_graph as graph;
pub use kymo_graph::Store;
pub use kymo_model as model;
pub use kymo_plan as plan;
pub use kymo_run as run;
pub use kymo_run::train::{EpochProgress, Observer, Silent};
pub use kymo_run::{Class, Error, Part, Result, Settings};
pub use kymo_sim as sim;
pub use kymo_tensor as tensor;
pub use kymo_trace as trace;
pub use kymo_trace::schema::{EpochRecord, Evaluation, RunSummary};

/// The Rust in the documents is compiled and, unless it needs files of the reader's, run.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/data.md")]
    struct Data;
    #[doc = include_str!("../docs/errors.md")]
    struct Errors;
    #[doc = include_str!("../docs/models.md")]
    struct Models;
    #[doc = include_str!("../docs/run-folder.md")]
    struct RunFolder;
    #[doc = include_str!("../docs/store.md")]
    struct Store;
}
