//! Every model against PyTorch: values after each step and gradients of all parameters and features, to a
//! relative 1e-4.
//!
//! The files and the scripts that wrote them are in `tests/reference`.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kymo_model::structure::Gather;
use kymo_model::time::Update;
use kymo_model::{Config, Exchanged, Frame, Graph, Normalisation, Params, loss_by_rows, zoo};
use kymo_tensor::{Arena, Shape, Tape, Var};
use safetensors::SafeTensors;

const TOLERANCE: f32 = 1e-4;

/// A reference file.
struct Case {
    name: String,
    facts: HashMap<String, String>,
    arrays: HashMap<String, (Vec<usize>, Vec<f32>)>,
    edges: Vec<Vec<(u32, u32, f32)>>,
}

impl Case {
    fn read(path: &Path) -> Case {
        let bytes = std::fs::read(path).unwrap();
        let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        let facts = metadata.metadata().clone().unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let (mut arrays, mut ends) = (HashMap::new(), HashMap::new());
        for (name, tensor) in file.tensors() {
            let data = tensor.data();
            if name.starts_with("edges.") {
                let numbers = data.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32);
                ends.insert(name, numbers.collect::<Vec<u32>>());
            } else {
                let numbers = data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
                arrays.insert(name, (tensor.shape().to_vec(), numbers.collect()));
            }
        }
        let steps: usize = facts["steps"].parse().unwrap();
        let edge = |t: usize| {
            let weights = &arrays[&format!("weights.{t}")].1;
            ends[&format!("edges.{t}")].chunks(2).zip(weights).map(|(e, &w)| (e[0], e[1], w)).collect()
        };
        let edges = (0..steps).map(edge).collect();
        Case { name: path.file_stem().unwrap().to_string_lossy().into(), facts, arrays, edges }
    }

    fn number(&self, fact: &str, otherwise: usize) -> usize {
        self.facts.get(fact).map_or(otherwise, |text| text.parse().unwrap())
    }

    fn config(&self) -> Config {
        Config {
            features: self.number("features", 0),
            hidden: self.number("hidden", 0),
            layers: self.number("layers", 1),
            blocks: self.number("blocks", 1),
            heads: self.number("heads", 1),
            window: self.number("window", self.edges.len()),
            walks: self.number("diffusion", 2),
            normalisation: match self.facts.get("normalisation").map(String::as_str) {
                Some("right") => Normalisation::Right,
                Some("none") => Normalisation::None,
                _ => Normalisation::Both,
            },
            update: match self.facts.get("update").map(String::as_str) {
                Some("mlp") => Update::Mlp,
                Some("average") => Update::Average,
                _ => Update::Gru,
            },
            gather: if self.facts.get("aggregate").is_some_and(|x| x == "pool") {
                Gather::Pool
            } else {
                Gather::Mean
            },
        }
    }

    fn check(&self, name: &str, found: &[f32]) {
        let expected = &self.arrays[name].1;
        assert_eq!(found.len(), expected.len(), "{}: {name}", self.name);
        let largest = expected.iter().fold(1e-3f32, |largest, x| largest.max(x.abs()));
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let close = (found - expected).abs() <= TOLERANCE * largest;
            assert!(close, "{}: {name}[{at}] is {found}, PyTorch has {expected}", self.name);
        }
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    files.sort();
    files
}

#[test]
fn values_and_gradients_are_those_of_pytorch() {
    for path in files() {
        let case = Case::read(&path);
        let config = case.config();
        let model = zoo::find(&case.facts["model"]).unwrap().build(&config).unwrap();
        let mut params = Params::new(model.slots(), 1).unwrap();
        let names: Vec<String> = params.slots().iter().map(|slot| slot.name.clone()).collect();
        for name in &names {
            let values = &case
                .arrays
                .get(&format!("parameters.{name}"))
                .unwrap_or_else(|| panic!("{}: {name}", case.name))
                .1;
            let slot = params.get_mut(name).unwrap();
            assert_eq!(slot.len(), values.len(), "{}: {name}", case.name);
            slot.clone_from(values);
        }
        assert_eq!(
            case.arrays.keys().filter(|key| key.starts_with("parameters.")).count(),
            names.len(),
            "{}",
            case.name
        );
        let vertices = case.number("vertices", 0);
        let graphs: Vec<Graph> =
            case.edges.iter().map(|edges| Graph::from_edges(vertices, edges).unwrap()).collect();

        // As a whole: outputs, and the gradients of parameters and features.
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let bound = params.bind(&mut tape).unwrap();
        let mut window = Vec::new();
        for (t, graph) in graphs.iter().enumerate() {
            let features = &case.arrays[&format!("features.{t}")].1;
            let features = tape.parameter(Shape::new(vertices, config.features), features).unwrap();
            window.push(Frame::new(graph, features));
        }
        let outputs = model.forward(&mut tape, &bound, &window).unwrap();
        for (t, &output) in outputs.iter().enumerate() {
            case.check(&format!("outputs.{t}"), tape.value(output).unwrap());
        }
        let probes: Vec<&(Vec<usize>, Vec<f32>)> =
            (0..graphs.len()).map(|t| &case.arrays[&format!("probe.{t}")]).collect();
        let loss = weigh(&mut tape, &outputs, &probes, config.hidden, 0..vertices);
        let gradients = tape.backward(loss).unwrap();
        let zeros = vec![0.0; 1000];
        for (name, &var) in names.iter().zip(bound.vars()) {
            let found = gradients.read(var).unwrap().unwrap_or((&zeros[..tape.shape(var).len()]).into());
            case.check(&format!("gradients.{name}"), &found);
        }
        for (t, frame) in window.iter().enumerate() {
            let found = gradients
                .read(frame.features)
                .unwrap()
                .unwrap_or((&zeros[..vertices * config.features]).into());
            case.check(&format!("gradients.features.{t}"), &found);
        }
        let whole = tape.value(loss).unwrap()[0];

        // By rows, with constant features, which may choose other orders of the products: the same gradients.
        let mut tape = Tape::new(&arena);
        let bound = params.bind(&mut tape).unwrap();
        let mut window = Vec::new();
        for (t, graph) in graphs.iter().enumerate() {
            let features = &case.arrays[&format!("features.{t}")].1;
            let features = tape.constant(Shape::new(vertices, config.features), features).unwrap();
            window.push(Frame::new(graph, features));
        }
        let probes: Vec<&(Vec<usize>, Vec<f32>)> =
            (0..graphs.len()).map(|t| &case.arrays[&format!("probe.{t}")]).collect();
        let hidden = config.hidden;
        let exchanged = model.exchange(&mut tape, &bound, &window, &[]).unwrap();
        let exchanged = Exchanged::first(&exchanged);
        let loss =
            loss_by_rows(&mut tape, &*model, &bound, &[exchanged], &[], move |tape, rows, outputs, _| {
                Ok(weigh(tape, &outputs[0].steps, &probes, hidden, rows))
            })
            .unwrap();
        assert!(
            (tape.value(loss).unwrap()[0] - whole).abs() <= TOLERANCE * whole.abs().max(1.0),
            "{}",
            case.name
        );
        let gradients = tape.backward(loss).unwrap();
        for (name, &var) in names.iter().zip(bound.vars()) {
            let found = gradients.read(var).unwrap().unwrap_or((&zeros[..tape.shape(var).len()]).into());
            case.check(&format!("gradients.{name}"), &found);
        }
    }
}

/// `sum_t sum(outputs_t * probe_t)` over some rows.
fn weigh<'a>(
    tape: &mut Tape<'a>,
    outputs: &[Var],
    probes: &[&(Vec<usize>, Vec<f32>)],
    hidden: usize,
    rows: std::ops::Range<usize>,
) -> Var {
    let mut all = Vec::new();
    for (&output, probe) in outputs.iter().zip(probes) {
        let weights = tape
            .copied(Shape::new(rows.len(), hidden), &probe.1[rows.start * hidden..rows.end * hidden])
            .unwrap();
        let product = tape.multiply(output, weights).unwrap();
        all.push(tape.sum(product).unwrap());
    }
    tape.add_all(&all).unwrap()
}

#[test]
fn every_model_has_a_reference() {
    let cases: Vec<(String, usize)> = files()
        .iter()
        .map(|path| Case::read(path))
        .map(|case| (case.facts["model"].clone(), case.number("blocks", 1)))
        .collect();
    for (recipe, blocks) in zoo::ALL.iter().flat_map(|recipe| (1..=3).map(move |blocks| (recipe, blocks))) {
        assert!(cases.contains(&(recipe.name.into(), blocks)), "{}, {blocks} blocks", recipe.name);
    }
}
