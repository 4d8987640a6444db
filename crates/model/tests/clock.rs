//! Where a clock says that the time of a model went: to the snapshot that it was for.
#![allow(clippy::unwrap_used)]

use kymo_model::structure::Structure;
use kymo_model::time::Gru;
use kymo_model::weave::Stacked;
use kymo_model::{Bound, Config, Exchanged, Frame, Graph, Model, Params, Slot, loss_by_rows, zoo};
use kymo_tensor::{Arena, Result, Shape, Stage, Tape, Times, Var};

const VERTICES: usize = 400;
const FEATURES: usize = 3;
const STEPS: usize = 4;

/// What a window takes; by blocks of rows, or at once.
fn times(model: &dyn Model, by_rows: bool) -> Times {
    let vertex = |number: usize| (number % VERTICES) as u32;
    let edge = |number: usize| (vertex(number * 7919), vertex(number * 104_729 + 1), 1.0);
    let graph = |step: usize| {
        let edges: Vec<_> = (0..200 * (step + 1)).map(edge).collect();
        Graph::from_edges(VERTICES, &edges).unwrap()
    };
    let graphs: Vec<Graph> = (0..STEPS).map(graph).collect();
    let params = Params::new(model.slots(), 3).unwrap();
    let features: Vec<f32> = (0..VERTICES * FEATURES).map(|number| (number % 13) as f32 - 6.0).collect();
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    tape.start_clock();
    let bound = params.bind(&mut tape).unwrap();
    let features = tape.constant(Shape::new(VERTICES, FEATURES), &features).unwrap();
    let window: Vec<Frame<'_>> = graphs.iter().map(|graph| Frame::new(graph, features)).collect();
    let loss = match by_rows {
        true => {
            let exchanged = model.exchange(&mut tape, &bound, &window, &[]).unwrap();
            let first = [Exchanged::first(&exchanged)];
            loss_by_rows(&mut tape, model, &bound, &first, &[], |tape, _, passed, _| {
                tape.leave_steps();
                let sums: Result<Vec<Var>> = passed[0].steps.iter().map(|&step| tape.sum(step)).collect();
                tape.add_all(&sums?)
            })
            .unwrap()
        }
        false => {
            let steps = model.forward(&mut tape, &bound, &window).unwrap();
            tape.leave_steps();
            let sums: Vec<Var> = steps.into_iter().map(|step| tape.sum(step).unwrap()).collect();
            tape.add_all(&sums).unwrap()
        }
    };
    tape.backward(loss).unwrap();
    tape.times()
}

#[test]
fn every_snapshot_takes_time_of_its_own() {
    for recipe in zoo::ALL {
        for (layers, blocks) in [(1, 1), (2, 1), (1, 2)] {
            let config = Config {
                features: FEATURES,
                hidden: 8,
                layers,
                blocks,
                heads: 2,
                window: STEPS,
                ..Config::default()
            };
            let model = recipe.build(&config).unwrap();
            for by_rows in [true, false] {
                let times = times(&*model, by_rows);
                let what = format!("{} with {layers} layers, {blocks} blocks: {times:?}", recipe.name);
                assert_eq!(times.steps.len(), STEPS, "{what}");
                let aggregation = |step: usize| times.steps[step][Stage::Aggregation as usize];
                // Who hears states alone hears nothing at the first step.
                let first = usize::from(recipe.name == "gc-lstm");
                assert!((first..STEPS).all(|step| aggregation(step) > 0.0), "{what}");
                assert_eq!(times.window[Stage::Aggregation as usize], 0.0, "{what}");
                // What follows time is all in its stage: rows have products of their own, but not where
                // vertices remember.
                let time: f64 = times.steps.iter().map(|stages| stages[Stage::Time as usize]).sum();
                assert_eq!(time > 0.0, recipe.parts[1] != "none", "{what}");
            }
        }
    }
}

/// A structure encoder that aggregates nothing.
struct Deaf;

impl Structure for Deaf {
    fn slots(&self) -> Vec<Slot> {
        vec![Slot::weight("deaf", FEATURES, 8)]
    }

    fn width(&self) -> usize {
        8
    }

    fn exchange<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, _: &Frame<'a>, x: Var) -> Result<Var> {
        tape.matmul(x, params.get("deaf")?)
    }

    fn rows(&self, _: &mut Tape<'_>, _: &Bound<'_>, exchanged: Var) -> Result<Var> {
        Ok(exchanged)
    }
}

#[test]
fn a_model_without_aggregation_has_none() {
    let time = Gru { name: "time".into(), input: 8, hidden: 8 };
    let model = Stacked { structure: Box::new(Deaf), time: Some(Box::new(time)) };
    for by_rows in [false, true] {
        let times = times(&model, by_rows);
        for stages in &times.steps {
            let [aggregation, products, time, backward] = *stages;
            assert!(aggregation == 0.0 && products > 0.0 && time > 0.0 && backward > 0.0, "{times:?}");
        }
        assert_eq!(times.window[Stage::Aggregation as usize], 0.0);
    }
}
