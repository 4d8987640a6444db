//! One training step at a time, for a driver that compares programs: `cargo run --release --example peer -- FILE MODEL LAYERS`.
//!
//! FILE is safetensors with `starts.T`, `sources.T` (edges by target) and `targets.T` for every step T, `features`, and the
//! parameters by name, `head.weight` and `head.bias` among them. Every line `step` on standard input is answered by the loss and
//! the milliseconds of a step (forward, backward, Adam); `memory` by the peak memory of the process in bytes.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::{BufRead, Write};
use std::time::Instant;

use kymo::model::{Config, Exchanged, Frame, Graph, Model, Params, Slot, loss_by_rows, zoo};
use kymo::run::frames::process_memory;
use kymo::tensor::optim::{Adam, AdamSettings, Optimiser};
use kymo::tensor::{Arena, Shape, Tape};
use safetensors::SafeTensors;

const HEADS: usize = 4;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, model, layers] = &args[..] else {
        println!("usage: peer FILE MODEL LAYERS");
        return;
    };
    // On a thread of the pool, as training runs.
    rayon::scope(|_| serve(file, model, layers.parse().unwrap()));
}

fn floats(data: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let bytes = data.tensor(name).unwrap().data().to_vec();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn integers(data: &SafeTensors<'_>, name: &str) -> Vec<i64> {
    let bytes = data.tensor(name).unwrap().data().to_vec();
    bytes.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

struct Peer {
    model: Box<dyn Model>,
    params: Params,
    optimiser: Adam,
    graphs: Vec<Graph>,
    features: Vec<f32>,
    width: usize,
    targets: Vec<Vec<f32>>,
    arena: Arena,
}

fn serve(file: &str, name: &str, layers: usize) {
    let mut peer = {
        let bytes = std::fs::read(file).unwrap();
        Peer::read(&SafeTensors::deserialize(&bytes).unwrap(), name, layers)
    };
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().trim() {
            "step" => {
                let begun = Instant::now();
                let loss = peer.step();
                println!("{loss} {}", begun.elapsed().as_secs_f64() * 1e3);
            }
            "memory" => println!("{} 0", process_memory().map_or(0, |(_, most)| most)),
            _ => return,
        }
        std::io::stdout().flush().unwrap();
    }
}

impl Peer {
    fn read(data: &SafeTensors<'_>, name: &str, layers: usize) -> Peer {
        let steps = (0..).take_while(|t| data.tensor(&format!("starts.{t}")).is_ok()).count();
        let graph = |t| {
            let starts = integers(data, &format!("starts.{t}")).iter().map(|&start| start as usize).collect();
            let sources = integers(data, &format!("sources.{t}")).iter().map(|&s| s as u32).collect();
            Graph::new(starts, sources, None).unwrap()
        };
        let graphs: Vec<Graph> = (0..steps).map(graph).collect();
        let features = floats(data, "features");
        let width = features.len() / graphs[0].vertices();
        let hidden = data.tensor("head.weight").unwrap().shape()[0];
        let config =
            Config { features: width, hidden, layers, heads: HEADS, window: steps, ..Config::default() };
        let model = zoo::find(name).unwrap().build(&config).unwrap();
        let head = [Slot::weight("head.weight", hidden, 1), Slot::bias("head.bias", 1)];
        let mut params = Params::new([model.slots(), head.to_vec()].concat(), 1).unwrap();
        for slot in params.slots().to_vec() {
            params.get_mut(&slot.name).unwrap().clone_from(&floats(data, &slot.name));
        }
        Peer {
            model,
            params,
            optimiser: Adam::new(AdamSettings::default()),
            targets: (0..steps).map(|t| floats(data, &format!("targets.{t}"))).collect(),
            graphs,
            features,
            width,
            arena: Arena::new(),
        }
    }

    /// Mean squared error of a linear head after every step, one step of Adam.
    fn step(&mut self) -> f32 {
        let (vertices, steps) = (self.graphs[0].vertices(), self.graphs.len());
        let (loss, gradients) = {
            let mut tape = Tape::new(&self.arena);
            let bound = self.params.bind(&mut tape).unwrap();
            let features = tape.constant(Shape::new(vertices, self.width), &self.features).unwrap();
            // Nothing is kept from step to step: peers do not either.
            let window: Vec<Frame<'_>> =
                self.graphs.iter().map(|graph| Frame::new(graph, features)).collect();
            let exchanged = self.model.exchange(&mut tape, &bound, &window, &[]).unwrap();
            let head = [bound.get("head.weight").unwrap(), bound.get("head.bias").unwrap()];
            let (scale, targets) = (1.0 / (vertices * steps) as f32, &self.targets);
            let loss = loss_by_rows(
                &mut tape,
                &*self.model,
                &bound,
                Exchanged::first(&exchanged),
                &head,
                move |tape, rows, outputs, head| {
                    let mut losses = Vec::with_capacity(outputs.steps.len());
                    for (&output, target) in outputs.steps.iter().zip(targets) {
                        let target = tape.copied(Shape::new(rows.len(), 1), &target[rows.clone()])?;
                        let prediction = tape.linear(output, head[0], head[1])?;
                        losses.push(tape.mse(prediction, target, None, scale)?);
                    }
                    tape.add_all(&losses)
                },
            )
            .unwrap();
            let mut gradients = tape.backward(loss).unwrap();
            let take = |&var| gradients.take(var).unwrap_or_default();
            (tape.value(loss)[0], bound.vars().iter().map(take).collect::<Vec<_>>())
        };
        let slices: Vec<&[f32]> = gradients.iter().map(|gradient| gradient.host()).collect();
        self.optimiser.step(&mut self.params.values, &slices, 1e-2).unwrap();
        gradients.into_iter().for_each(|gradient| gradient.give(&self.arena));
        loss
    }
}
