//! A model of one's own: a simple recurrent network above the mean of the neighbours.
//! `cargo run --release --example custom_model`

#![allow(clippy::print_stdout)]

use std::path::Path;

use kymo::model::frame::each;
use kymo::model::reuse::Input;
use kymo::model::{Bound, Config, Exchanged, Frame, Matrix, Memory, Model, Passed, Slot};
use kymo::tensor::{self, Tape, Var};
use kymo::{Part, Result, Run, Silent};

/// `h(t) = tanh([x(t), mean of x(t) over in-neighbours] W + h(t - 1) U + b)`
pub struct Recurrent {
    features: usize,
    hidden: usize,
}

/// What settings and checkpoints call it.
pub const NAME: &str = "mean-rnn";

/// Makes the model for the features and settings of a run.
pub fn make(config: &Config) -> tensor::Result<Box<dyn Model>> {
    Ok(Box::new(Recurrent { features: config.features, hidden: config.hidden }))
}

impl Model for Recurrent {
    // Kymo owns the parameters: it initialises, trains, saves and distributes them.
    fn slots(&self) -> Vec<Slot> {
        vec![
            Slot::weight("input", 2 * self.features, self.hidden),
            Slot::weight("state", self.hidden, self.hidden),
            Slot::bias("bias", self.hidden),
        ]
    }

    fn width(&self) -> usize {
        self.hidden
    }

    // The state has `hidden` columns for each vertex, and is carried from window to window.
    fn memory(&self) -> Option<Memory> {
        Some(Memory { rows: vec![self.hidden], ..Memory::default() })
    }

    // First phase: vertices look at their neighbours. Here nothing is learnt, so Kymo keeps the product.
    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        _: &Bound<'_>,
        window: &[Frame<'a>],
        _: &[Var],
    ) -> tensor::Result<Passed> {
        let steps = each(tape, window, |tape, _, frame| {
            let mean = frame.product(tape, Input::Layer(0), Matrix::Mean, frame.features)?;
            tape.concatenate_columns(&[frame.features, mean])
        })?;
        Ok(Passed { steps, ..Passed::default() })
    }

    // Second phase: every vertex by itself. Kymo calls this for blocks of vertices that fit into the cache.
    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, given: Exchanged<'_>) -> tensor::Result<Passed> {
        let (input, recurrent, bias) = (params.get("input")?, params.get("state")?, params.get("bias")?);
        let mut state = given.before.first().copied();
        let mut steps = Vec::with_capacity(given.steps.len());
        for &step in given.steps {
            let mut sum = tape.linear(step, input, bias)?;
            if let Some(state) = state {
                let carried = tape.matmul(state, recurrent)?;
                sum = tape.add(sum, carried)?;
            }
            let next = tape.tanh(sum)?;
            state = Some(next);
            steps.push(next);
        }
        Ok(Passed { steps, after: state.into_iter().collect(), ..Passed::default() })
    }
}

/// Trains in this folder, which must not have a run yet.
pub fn run(folder: &Path) -> Result<()> {
    let run = Run::on_builtin_data().with_model(NAME, make).hidden(16).epochs(5).folder(folder);
    let summary = run.train(&mut Silent)?.summary()?;
    println!("{NAME} has {} parameters; test mse {:.3}", summary.parameters, summary.test.metrics["mse"]);

    // The folder knows the model by name alone, so it is passed again to go on or to evaluate.
    if let Err(error) = Run::load(folder)?.evaluate(Part::Test) {
        println!("without the model: {error}");
    }
    let test = Run::load(folder)?.with_model(NAME, make).evaluate(Part::Test)?;
    println!("with it: test mse {:.3}", test.metrics["mse"]);
    Ok(())
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("kymo-custom-model-{}", std::process::id()));
    let done = run(&folder);
    std::fs::remove_dir_all(&folder).ok();
    done
}
