//! The JSON files of PyTorch Geometric Temporal: a graph, or one a step, and a signal on its vertices.
//!
//! There are four dialects, told apart by their keys:
//! - `edges` and a series `X`, `FX` or `block` by step and vertex: one graph, one signal;
//! - `edge_mapping` with edges and weights by day, and `y` by day and vertex: a graph a day;
//! - `nodes` that carry their own series `y`, and `links` between them: one graph;
//! - keys `0`, `1`, … that each hold `edges`, `weights`, `X` and `y`: a graph a step.
//!
//! The signal is both what is known and what is to be predicted, except in the last, which has `X` for the
//! one and `y` for the other.

use super::intake::{MOST_STEPS, Signal};
use super::json::{At, parse};
use super::row::digits;
use super::{Format, Head, Hints, IdKind, Intake, Nature, Source};
use crate::error::{Error, Place, Result, listed, shortened};
use crate::ids::Side;
use crate::snapshot::Step;
use crate::time::TimeUnit;

pub struct Pygt;

const SERIES: &[&str] = &["FX", "X", "block"];

impl Format for Pygt {
    fn name(&self) -> &'static str {
        "pygt"
    }

    fn about(&self) -> &'static str {
        "PyTorch Geometric Temporal JSON: edges and a signal, fixed or by step"
    }

    fn example(&self) -> &'static str {
        r#"{"edges": [[0, 1], [1, 2], [2, 2]], "weights": [1, 0.5, 2],
 "node_ids": {"PEST": 0, "BACS": 1, "VAS": 2},
 "FX": [[0.25, -1, 3], [1, 2, 3e-1]]}
"#
    }

    fn nature(&self) -> Nature {
        Nature::Fixed
    }

    fn recognises(&self, head: &Head<'_>) -> bool {
        head.text.trim_start().starts_with('{')
    }

    fn read(&self, source: &mut Source, _: &Hints, intake: &mut Intake) -> Result<()> {
        // The signal counts vertices from 0, so no other input may have numbered any.
        if !intake.ids.is_empty() {
            let problem = "holds a whole data set, expected it to be the only input";
            return Err(Error::input(Place::file(source.name()), problem));
        }
        let value = parse(source)?;
        let root = At::root(&value, source.name());
        let keys = root.object()?;
        intake.unit = TimeUnit::Step;
        intake.ids.keep_order();
        let series = SERIES.iter().find_map(|name| root.get(name));
        if let Some(mapping) = root.get("edge_mapping") {
            intake.nature = Nature::Steps;
            read_mapping(&root, &mapping, intake)
        } else if keys.contains_key("nodes") && keys.contains_key("links") {
            intake.nature = Nature::Fixed;
            read_nodes(&root.need("nodes")?, &root.need("links")?, intake)
        } else if let (Some(edges), Some(series)) = (root.get("edges"), series) {
            intake.nature = Nature::Fixed;
            let (_, count) = size_of_series(&series)?;
            add_vertices(&root, count, intake)?;
            add_edges(&edges, root.get("weights").as_ref(), count, 0, intake)?;
            set_series(&series, count, intake)
        } else if keys.contains_key("0") {
            intake.nature = Nature::Steps;
            read_steps(&root, intake)
        } else {
            Err(root.problem(format!(
                "found the keys {}; expected edges and X or FX, edge_mapping and \
                 y, nodes and links, or numbers",
                listed(keys.keys())
            )))
        }
    }
}

fn read_mapping(root: &At<'_>, mapping: &At<'_>, intake: &mut Intake) -> Result<()> {
    let series = root.need("y")?;
    let (steps, count) = size_of_series(&series)?;
    add_vertices(root, count, intake)?;
    let (edges, weights) = (mapping.need("edge_index")?, mapping.get("edge_weight"));
    let mut days = Vec::new();
    for name in edges.object()?.keys() {
        let day = digits(name.as_bytes()).filter(|&day| day < steps as u64).ok_or_else(|| {
            edges.problem(format!(
                "found the day '{}', expected a whole number below {steps}, the days in y",
                shortened(name)
            ))
        })?;
        days.push((day as Step, name));
    }
    days.sort_unstable();
    for (day, name) in days {
        let weights = weights.as_ref().map(|weights| weights.need(name)).transpose()?;
        add_edges(&edges.need(name)?, weights.as_ref(), count, day, intake)?;
    }
    set_series(&series, count, intake)
}

fn read_nodes(nodes: &At<'_>, links: &At<'_>, intake: &mut Intake) -> Result<()> {
    let count = nodes.length()?;
    let steps = match count {
        0 => return Err(nodes.error("at least one node")),
        _ => nodes.item(0).need("y")?.length()?,
    };
    let mut values = vec![Vec::new(); checked_steps(&nodes.item(0), steps)?];
    for index in 0..count {
        let node = nodes.item(index);
        let id = node.get("bus_stop").map_or_else(|| node.need("id"), Ok)?;
        let (text, is_number) = id.id()?;
        if index == 0 {
            intake.id_kind = if is_number { IdKind::Number } else { IdKind::Text };
        }
        match (intake.id_kind, digits(text.as_bytes())) {
            (IdKind::Number, Some(number)) => intake.ids.number(Side::Left, number)?,
            (IdKind::Text, _) => intake.ids.text(Side::Left, text.as_bytes())?,
            _ => return Err(id.error("a whole number, as the id of the first node is")),
        };
        if intake.ids.len() != index + 1 {
            return Err(id.error("an id that no node before has"));
        }
        for (values, value) in values.iter_mut().zip(node.need("y")?.numbers(steps, "step")?) {
            values.push(value);
        }
    }
    for index in 0..links.length()? {
        let link = links.item(index);
        let end = |name| {
            let id = link.need(name)?;
            let vertex = intake.ids.find(&id.id()?.0);
            vertex.ok_or_else(|| id.error("the id of one of the nodes"))
        };
        let (source, target) = (end("source")?, end("target")?);
        let weight = link.get("weight").map_or(Ok(1.0), |weight| weight.number())?;
        intake.edge(source, target, 0.0, weight)?;
    }
    for (step, values) in values.into_iter().enumerate() {
        set_both(step, values, intake)?;
    }
    Ok(())
}

fn read_steps(root: &At<'_>, intake: &mut Intake) -> Result<()> {
    let steps = root.object()?.keys().filter(|key| digits(key.as_bytes()).is_some()).count();
    let first = root.need("0")?;
    let count = first.need("y")?.length()?;
    add_vertices(root, count, intake)?;
    let width = match first.get("X") {
        Some(features) => features.item(0).length()?,
        None => 1,
    };
    for step in 0..checked_steps(root, steps)? {
        let name = step.to_string();
        let now = root.need(&name)?;
        add_edges(&now.need("edges")?, now.get("weights").as_ref(), count, step, intake)?;
        let targets = now.need("y")?.numbers(count, "vertex")?;
        let features = match now.get("X") {
            None if width == 1 => targets.clone(),
            features => {
                let features = features.map_or_else(|| now.need("X"), Ok)?;
                features.expect_length(count, "vertex")?;
                let mut values = Vec::with_capacity(targets.len());
                for vertex in 0..count {
                    values.extend(features.item(vertex).numbers(width, "feature")?);
                }
                values
            }
        };
        intake.signal.set(step, width, features)?;
        intake.targets.set(step, 1, targets)?;
    }
    Ok(())
}

/// Numbers the vertices in the order of the signal, by their names where the file has them.
fn add_vertices(root: &At<'_>, count: usize, intake: &mut Intake) -> Result<()> {
    let Some(names) = root.get("node_ids") else {
        intake.id_kind = IdKind::Number;
        return (0..count).try_for_each(|index| intake.numbered(index).map(drop));
    };
    let mut by_index: Vec<Option<&String>> = vec![None; count];
    for name in names.object()?.keys() {
        let at = names.need(name)?;
        let index = at.index(count)?;
        if let Some(other) = by_index.get_mut(index).and_then(|slot| slot.replace(name)) {
            return Err(at.error(&format!("a number of its own; '{}' has it too", shortened(other))));
        }
    }
    intake.id_kind = IdKind::Text;
    let nameless = |name: &Option<&String>| name.is_none_or(String::is_empty);
    let missing: Vec<String> =
        (0..count).filter(|&index| nameless(&by_index[index])).map(|index| index.to_string()).collect();
    if !missing.is_empty() {
        return Err(names.problem(format!(
            "found no name for the vertices {}, expected {count} names for {count} values a step",
            listed(missing)
        )));
    }
    by_index.into_iter().flatten().try_for_each(|name| intake.ids.text(Side::Left, name.as_bytes()).map(drop))
}

fn add_edges(
    edges: &At<'_>,
    weights: Option<&At<'_>>,
    count: usize,
    step: Step,
    intake: &mut Intake,
) -> Result<()> {
    let length = edges.length()?;
    if let Some(weights) = weights {
        weights.expect_length(length, "edge")?;
    }
    for index in 0..length {
        let edge = edges.item(index);
        edge.expect_length(2, "end of the edge")?;
        let (source, target) = (edge.item(0).index(count)?, edge.item(1).index(count)?);
        let weight = weights.map_or(Ok(1.0), |weights| weights.item(index).number())?;
        intake.edge(source as u32, target as u32, step as f64, weight)?;
    }
    Ok(())
}

/// How many steps and vertices a series by step and vertex has.
fn size_of_series(series: &At<'_>) -> Result<(usize, usize)> {
    let steps = checked_steps(series, series.length()?)?;
    match series.item(0).length()? {
        0 => Err(series.item(0).error("a value for at least one vertex")),
        count => Ok((steps, count)),
    }
}

fn checked_steps(at: &At<'_>, steps: usize) -> Result<usize> {
    match steps {
        0 => Err(at.error("at least one step")),
        1..=MOST_STEPS => Ok(steps),
        _ => Err(at.error(&format!("at most {MOST_STEPS} steps"))),
    }
}

fn set_series(series: &At<'_>, count: usize, intake: &mut Intake) -> Result<()> {
    for step in 0..series.length()? {
        set_both(step, series.item(step).numbers(count, "vertex")?, intake)?;
    }
    Ok(())
}

fn set_both(step: Step, values: Vec<f32>, intake: &mut Intake) -> Result<()> {
    let set = |signal: &mut Signal, values| signal.set(step, 1, values);
    set(&mut intake.targets, values.clone())?;
    set(&mut intake.signal, values)
}
