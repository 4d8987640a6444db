//! A task of one's own: how many edges will arrive at each vertex?
//! `cargo run --release --example custom_task`

#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;

use kymo::graph::{Progress, Step, generate};
use kymo::model::Slot;
use kymo::model::metric::{Evidence, Needs};
use kymo::run::Split;
use kymo::run::forward::{Forward, Loss, Outputs};
use kymo::run::task::{Goal, Says, Table, Tallies, Task};
use kymo::tensor::Shape;
use kymo::{Error, Part, Predict, Result, Run, Settings, Silent, Store};

/// What is asked: the in-degree of every vertex at the next step, as `ln(1 + degree)`.
pub struct Popularity;

/// The question put to one store.
struct Degrees {
    /// By step and vertex.
    truth: Vec<Vec<f32>>,
    split: Split,
}

impl Task for Popularity {
    fn name(&self) -> &'static str {
        "popularity"
    }

    fn about(&self) -> &'static str {
        "edges that arrive at each vertex at the next step"
    }

    // The first one decides which epoch is best.
    fn metrics(&self) -> &'static [&'static str] {
        &["mse", "mae"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Values]
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        let degrees = |step| Ok(store.snapshot(step)?.degrees(store.vertices()).0);
        let logarithms = |degrees: Vec<u32>| degrees.iter().map(|&count| (count as f32).ln_1p()).collect();
        let truth =
            (0..store.steps()).map(|step| degrees(step).map(logarithms)).collect::<Result<Vec<_>>>()?;
        // The last step has no next one, so there is a sample less than there are steps.
        Ok(Box::new(Degrees { split: Split::by_time(truth.len().saturating_sub(1), settings)?, truth }))
    }
}

/// Parameters of the head, a linear function of the embeddings that the model makes.
const HEAD: [&str; 2] = ["head.weight", "head.bias"];

impl Degrees {
    fn predicted<'a>(&'a self, sample: Step, says: Says<'a>) -> &'a [f32] {
        match says {
            Says::Model(outputs, _) => outputs,
            Says::Baseline(_) => &self.truth[sample],
        }
    }
}

impl Goal for Degrees {
    fn split(&self) -> &Split {
        &self.split
    }

    fn slots(&self, width: usize) -> Vec<Slot> {
        vec![Slot::weight(HEAD[0], width, 1), Slot::bias(HEAD[1], 1)]
    }

    // The mean squared error. With several workers each has some of the rows, and some of them count.
    fn loss<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
        _: u64,
    ) -> Result<Option<Loss<'a>>> {
        let places: Vec<usize> = at.iter().map(|&(place, _)| place).collect();
        let counted = (0..self.truth[0].len() as u32).filter(|&vertex| forward.counts(vertex)).count();
        let of = |&(place, sample): &(usize, Step)| -> (Vec<f32>, Vec<f32>) {
            let own = forward.own(place);
            let weight = |vertex: usize| f32::from(u8::from(forward.counts(vertex as u32)));
            let row = |row| (self.truth[sample + 1][own.vertex(row)], weight(own.vertex(row)));
            (0..own.len()).map(row).unzip()
        };
        let steps: Vec<_> = at.iter().map(of).collect();
        let scale = 1.0 / (counted * at.len()).max(1) as f32;
        let loss = forward.loss_of_rows(&HEAD, &places, move |tape, number, rows, embedding, head| {
            let (truth, weights) = &steps[number];
            let column = Shape::new(rows.len(), 1);
            let truth = tape.copied(column, &truth[rows.clone()])?;
            let weights = tape.copied(column, &weights[rows])?;
            let predicted = tape.linear(embedding, head[0], head[1])?;
            tape.mse(predicted, truth, Some(weights), scale)
        })?;
        Ok(Some(loss))
    }

    fn outputs<'a>(&self, forward: &mut Forward<'_, 'a>) -> Result<Outputs<'a>> {
        Ok(forward.last_rows(1, &HEAD, |tape, embedding, head| tape.linear(embedding, head[0], head[1]))?)
    }

    fn judge(&self, _: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()> {
        let (predicted, truth) = (self.predicted(sample, says), &self.truth[sample + 1]);
        tallies.add(Needs::Values, &Evidence::Values { predicted, truth });
        Ok(())
    }

    fn baselines(&self) -> Vec<&'static str> {
        vec!["as-before"]
    }

    fn table(&self, sample: Step, says: Says<'_>, _: usize) -> Result<Table> {
        let predicted = self.predicted(sample, says);
        Ok(Table {
            header: vec!["vertex", "edges"],
            vertices: (0..predicted.len() as u32).map(|vertex| vec![vertex]).collect(),
            values: predicted.iter().map(|value| vec![format!("{:.1}", value.exp_m1())]).collect(),
            horizons: Vec::new(),
        })
    }
}

/// Trains below this folder, which must be new.
pub fn run(folder: &Path) -> Result<()> {
    // All edges change at every step, but some vertices are always more popular than others.
    let kind = generate::find("power-law")?;
    let defaults = generate::Params { edge_change: 2.0, features: 0, ..kind.defaults() };
    let params = generate::Params { vertices: 300, edges: 1000, steps: 60, ..defaults };
    let store = generate::write(kind, &params, &folder.join("store"), false, &Progress::silent())?;

    let run = Run::on(store.path()).with_task(Popularity).model("graphsage-linear").epochs(20);
    let mut trained = run.folder(folder.join("run")).train(&mut Silent)?;
    let test = trained.summary()?.test;
    println!("test mse {:.3}; as before {:.3}", test.metrics["mse"], test.baselines["as-before"]["mse"]);
    for row in trained.predict(Predict::next())?.rows().take(3) {
        println!("{} edges will arrive at vertex {}", row.values[0], row.vertices[0]);
    }
    Ok(())
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("kymo-custom-task-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(Error::resource("cannot make the folder", &folder))?;
    let done = run(&folder);
    std::fs::remove_dir_all(&folder).ok();
    done
}
