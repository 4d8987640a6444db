//! One training step at a time, for a driver that compares programs:
//! `cargo run --release --example peer -- FILE MODEL LAYERS`, and `cuda f32|tf32|bf16` behind them for a GPU,
//! `cached` at the end to keep the first layer's aggregated input from step to step. Where FILE has no target
//! of a snapshot, its error does not count.
//!
//! FILE is safetensors with `starts.T`, `sources.T` (edges by target) and `targets.T` for every step T,
//! `features`, and the parameters by name, `head.weight` and `head.bias` among them. Every line `step` on
//! standard input is answered by the loss and the milliseconds of a step (forward, backward, Adam), on a GPU
//! by its own clock; `memory` by the peak memory in bytes.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;

use kymo::model::{
    Budget, Config, Exchanged, Frame, Graph, Model, Params, Reuse, ReuseSlots, Slot, loss_by_rows, zoo,
};
use kymo::run::config::bytes::process_memory;
use kymo::tensor::cuda::{Options, Precision};
use kymo::tensor::optim::{Adam, AdamSettings, DeviceParams, Optimiser};
use kymo::tensor::{Arena, Device, Numbers, Resident, Shape, Tape};
use safetensors::SafeTensors;

const HEADS: usize = 4;

/// Products that are timed together.
const PRODUCTS: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, model, layers, rest @ ..] = &args[..] else {
        println!("usage: peer FILE MODEL LAYERS [cuda f32|tf32|bf16] [cached]");
        return;
    };
    let arena = match rest {
        [device, precision, ..] if device == "cuda" => {
            let precision = Precision::named(precision).unwrap();
            Arena::on(Device::open(Options { precision, ..Options::default() }).unwrap())
        }
        _ => Arena::new(),
    };
    let cached = rest.last().is_some_and(|last| last == "cached");
    // On a thread of the pool, as training runs.
    rayon::scope(|_| serve(file, model, layers.parse().unwrap(), arena, cached));
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
    features: Resident,
    width: usize,
    targets: Vec<Option<Arc<Resident>>>,
    kept: Option<Vec<ReuseSlots>>,
    arena: Arena,
    away: Option<DeviceParams>,
}

/// The product of the mean over neighbours with the features, again and again: answered by the norm of the
/// result.
fn serve_products(file: &str, arena: &Arena) {
    let bytes = std::fs::read(file).unwrap();
    let data = SafeTensors::deserialize(&bytes).unwrap();
    let (graph, features) = (graph(&data, 0), Resident::from(floats(&data, "features")));
    let shape = Shape::new(graph.vertices(), features.len() / graph.vertices());
    let device = arena.device().unwrap();
    for _ in std::io::stdin().lock().lines() {
        let mut tape = Tape::new(arena);
        let x = tape.held(shape, &features).unwrap();
        let mean = graph.mean().unwrap();
        let mut product = x;
        // Several in a row: what the host takes to ask for the first is not the product's.
        let milliseconds = device.time(|| {
            for _ in 0..PRODUCTS {
                product = mean.clone().times(&mut tape, x)?;
            }
            Ok(())
        });
        let squares = tape.read(product).unwrap().iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        println!("{} {}", squares.sqrt(), milliseconds.unwrap() / PRODUCTS as f32);
    }
}

fn graph(data: &SafeTensors<'_>, t: usize) -> Graph {
    let starts = integers(data, &format!("starts.{t}")).iter().map(|&start| start as u64).collect();
    let sources = integers(data, &format!("sources.{t}")).iter().map(|&s| s as u32).collect();
    Graph::new(starts, sources, None).unwrap()
}

fn serve(file: &str, name: &str, layers: usize, arena: Arena, cached: bool) {
    if name == "spmm" {
        return serve_products(file, &arena);
    }
    let mut peer = {
        let bytes = std::fs::read(file).unwrap();
        Peer::read(&SafeTensors::deserialize(&bytes).unwrap(), name, layers, arena, cached)
    };
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().trim() {
            "step" => {
                let (loss, milliseconds) = peer.timed_step();
                println!("{loss} {milliseconds}");
            }
            "memory" => {
                let of_process = || process_memory().map_or(0, |(_, most)| most);
                println!("{} 0", peer.arena.device().map_or_else(of_process, |device| device.bytes().1));
            }
            _ => return,
        }
        std::io::stdout().flush().unwrap();
    }
}

impl Peer {
    fn read(data: &SafeTensors<'_>, name: &str, layers: usize, arena: Arena, cached: bool) -> Peer {
        let steps = (0..).take_while(|t| data.tensor(&format!("starts.{t}")).is_ok()).count();
        let target = |t: usize| {
            let name = format!("targets.{t}");
            data.tensor(&name).is_ok().then(|| Arc::new(floats(data, &name).into()))
        };
        let graphs: Vec<Graph> = (0..steps).map(|t| graph(data, t)).collect();
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
        let optimiser = Adam::new(AdamSettings::default());
        let send = |device| {
            DeviceParams::send(device, &params.values, optimiser.state(), optimiser.copies()).unwrap()
        };
        let budget = Budget::new(usize::MAX);
        Peer {
            model,
            away: arena.device().map(send),
            params,
            optimiser,
            targets: (0..steps).map(target).collect(),
            graphs,
            features: features.into(),
            width,
            kept: cached.then(|| (0..steps).map(|_| ReuseSlots::new(budget.clone())).collect()),
            arena,
        }
    }

    /// The loss of a step and its milliseconds.
    fn timed_step(&mut self) -> (f32, f32) {
        let begun = Instant::now();
        let Some(device) = self.arena.device().cloned() else {
            let loss = self.step();
            return (loss.host().unwrap()[0], begun.elapsed().as_secs_f32() * 1e3);
        };
        let mut loss = Numbers::default();
        let milliseconds = device.time(|| {
            loss = self.step();
            Ok(())
        });
        let Numbers::Device(memory) = &loss else { return (f32::NAN, f32::NAN) };
        (device.read(memory.all()).unwrap()[0], milliseconds.unwrap())
    }

    /// Mean squared error of a linear head after every step, one step of Adam; the loss, wherever it is.
    fn step(&mut self) -> Numbers {
        let vertices = self.graphs[0].vertices();
        let count = self.targets.iter().flatten().count();
        let (loss, gradients) = {
            let mut tape = Tape::new(&self.arena);
            let bound = match &self.away {
                Some(away) => self.params.bind_on_device(&mut tape, away, true).unwrap(),
                None => self.params.bind(&mut tape).unwrap(),
            };
            let features = tape.held(Shape::new(vertices, self.width), &self.features).unwrap();
            // Nothing is kept from step to step unless it was asked for: peers do not either.
            let kept = |t: usize| self.kept.as_ref().map(|kept| Reuse { slots: &kept[t], parameters: None });
            let window: Vec<Frame<'_>> = (self.graphs.iter().enumerate())
                .map(|(t, graph)| Frame { reuse: kept(t), ..Frame::new(graph, features) })
                .collect();
            let exchanged = self.model.exchange(&mut tape, &bound, &window, &[]).unwrap();
            let head = [bound.get("head.weight").unwrap(), bound.get("head.bias").unwrap()];
            let (scale, targets) = (1.0 / (vertices * count) as f32, &self.targets);
            let loss = loss_by_rows(
                &mut tape,
                &*self.model,
                &bound,
                &[Exchanged::first(&exchanged)],
                &head,
                move |tape, rows, outputs, head| {
                    let mut losses = Vec::with_capacity(outputs[0].steps.len());
                    for (&output, target) in outputs[0].steps.iter().zip(targets) {
                        let Some(target) = target else { continue };
                        let target = tape.held_columns(std::slice::from_ref(target), rows.clone())?;
                        let prediction = tape.linear(output, head[0], head[1])?;
                        losses.push(tape.mse(prediction, target, None, scale)?);
                    }
                    tape.add_all(&losses)
                },
            )
            .unwrap();
            let mut gradients = tape.backward(loss).unwrap();
            let take = |&var| gradients.take(var).unwrap_or_default();
            (tape.copy_of(loss).unwrap(), bound.vars().iter().map(take).collect::<Vec<_>>())
        };
        match &self.away {
            Some(away) => {
                away.add(&gradients, false).unwrap();
                self.optimiser.step_on(away, 1.0, 1e-2).unwrap();
            }
            None => {
                let slices: Vec<&[f32]> = gradients.iter().map(|gradient| gradient.host().unwrap()).collect();
                self.optimiser.step(&mut self.params.values, &slices, 1e-2).unwrap();
            }
        }
        gradients.into_iter().for_each(|gradient| gradient.give(&self.arena));
        loss
    }
}
