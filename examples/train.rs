//! Trains on built-in data, stops, goes on, evaluates and predicts. `cargo run --release --example train`

#![allow(clippy::print_stdout)]

use std::path::Path;

use kymo::{EpochRecord, Error, Observer, Part, Predict, Result, Run, Silent};

/// Prints every epoch, and asks to stop after some.
struct Watch {
    seen: usize,
    most: usize,
}

impl Observer for Watch {
    fn epoch(&mut self, record: &EpochRecord) {
        self.seen += 1;
        let mse = record.validation["mse"];
        println!("epoch {}: loss {:.3}, validation mse {mse:.3}", record.epoch, record.loss);
    }

    // Asked before every step of the optimiser. A window of a program would look at its button here.
    fn stop(&self) -> bool {
        self.seen >= self.most
    }
}

/// Trains in this folder, which must not have a run yet.
pub fn run(folder: &Path) -> Result<()> {
    // The built-in data has values to predict, so the task is node regression unless we say otherwise. All
    // other settings have defaults, too; `set` reaches any of them by its key.
    let run =
        Run::on_builtin_data().model("gcn-gru").hidden(16).epochs(6).set("train.clip", 5).folder(folder);

    // Stopping is an error like any other, so that `?` ends a program that does not care. What was learnt is
    // in the folder.
    let mut trained = match run.train(&mut Watch { seen: 0, most: 3 }) {
        Err(Error::Stopped(folder)) => {
            println!("stopped; going on");
            Run::resume(folder).train(&mut Silent)?
        }
        other => other?,
    };

    let summary = trained.summary()?;
    println!("{} epochs, the best is epoch {}", summary.epochs, summary.best_epoch);

    // Baselines learn nothing: a model that does not beat them has learnt nothing either.
    let test = trained.evaluate(Part::Test)?;
    println!("test mse of the model: {:.3}", test.metrics["mse"]);
    for (name, metrics) in &test.baselines {
        println!("test mse of {name}: {:.3}", metrics["mse"]);
    }

    // Vertices are called as in the data that the store was made from.
    let predictions = trained.predict(Predict::next())?;
    for row in predictions.rows().take(3) {
        println!("vertex {} will have the value {}", row.vertices[0], row.values[0]);
    }
    predictions.save_csv(folder.join("predictions.csv"))
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("kymo-train-{}", std::process::id()));
    let done = run(&folder);
    std::fs::remove_dir_all(&folder).ok();
    done
}
