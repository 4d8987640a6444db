//! `kymo list`: what there is to choose from, straight from the registries.

use std::io::Write;

use clap::{Args, ValueEnum};
use kymo_graph::{generate, load};
use kymo_model::{metric, zoo};
use kymo_plan::{partition, schedule, strategy};
use kymo_run::config::overlay;
use kymo_run::{Settings, task};
use serde::Serialize;

use super::console::Console;

/// List what Kymo can read, generate and train
#[derive(Args, Debug)]
pub struct List {
    /// What to list
    what: What,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Formats that `kymo ingest` reads
    Formats,
    /// Kinds of graphs that `kymo generate` makes
    Generators,
    /// Models, with their parts and papers
    Models,
    /// What can be predicted
    Tasks,
    /// How predictions are evaluated
    Metrics,
    /// Ways to distribute the work over workers
    Strategies,
    /// Ways to cut a graph into parts, which strategies use
    Partitioners,
    /// Ways to assign windows to workers and iterations, which `kymo simulate` compares
    Schedulers,
    /// Every setting of `kymo train` with its default, as a file for --config
    Settings,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    defaults: Option<generate::Params>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ModelFacts>,
    /// Whether it can be used: some need a feature that the program was built without.
    #[serde(skip_serializing_if = "Option::is_none")]
    built: Option<bool>,
}

/// What a model is made of, and where it was published.
#[derive(Clone, Copy, Serialize)]
struct ModelFacts {
    structure: &'static str,
    time: &'static str,
    weave: &'static str,
    paper: &'static str,
}

impl Entry {
    fn new(name: &'static str, about: &'static str) -> Self {
        Entry { name, about, example: None, defaults: None, model: None, built: None }
    }
}

/// Prints the list.
pub fn run(args: &List, out: &mut Console) -> kymo_run::Result<()> {
    let entries: Vec<Entry> = match args.what {
        What::Formats => load::ALL
            .iter()
            .map(|format| Entry {
                example: Some(format.example()),
                ..Entry::new(format.name(), format.about())
            })
            .collect(),
        What::Generators => generate::ALL
            .iter()
            .map(|kind| Entry { defaults: Some(kind.defaults()), ..Entry::new(kind.name(), kind.about()) })
            .chain([Entry::new(generate::FROM_STATIC, super::generate::FROM_STATIC_ABOUT)])
            .collect(),
        What::Models => zoo::ALL
            .iter()
            .map(|recipe| {
                let ([structure, time, weave], paper) = (recipe.parts, recipe.paper);
                let model = Some(ModelFacts { structure, time, weave, paper });
                Entry { model, ..Entry::new(recipe.name, recipe.about) }
            })
            .collect(),
        What::Tasks => task::ALL.iter().map(|task| Entry::new(task.name(), task.about())).collect(),
        What::Metrics => metric::ALL.iter().map(|metric| Entry::new(metric.name(), metric.about())).collect(),
        What::Strategies => strategy::ALL
            .iter()
            .map(|strategy| Entry {
                built: Some(strategy.is_built()),
                ..Entry::new(strategy.name, strategy.about)
            })
            .collect(),
        What::Partitioners => partition::ALL
            .iter()
            .map(|partitioner| Entry::new(partitioner.name(), partitioner.about()))
            .collect(),
        What::Schedulers => schedule::ALL
            .iter()
            .map(|scheduler| Entry {
                built: Some(scheduler.is_there()),
                ..Entry::new(scheduler.name(), scheduler.about())
            })
            .collect(),
        What::Settings => Vec::new(),
    };
    if matches!(args.what, What::Settings) {
        return list_settings(args.json, out);
    }
    if args.json {
        return Ok(super::print_json(out, &entries)?);
    }
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    for Entry { name, about, model, built, .. } in entries {
        let parts = model.map(|facts| {
            let ModelFacts { structure, time, weave, paper } = facts;
            format!("{:width$}  {structure} x {time}, {weave}; {paper}", "")
        });
        let missing = if built == Some(false) { " [not in this build]" } else { "" };
        for line in std::iter::once(format!("{name:width$}  {about}{missing}")).chain(parts) {
            let text = out.hanging(&line, width + 2);
            write!(out, "{text}").map_err(super::cannot_print)?;
        }
    }
    Ok(())
}

/// The settings as the file that `--config` takes, each below what it means.
fn list_settings(json: bool, out: &mut dyn Write) -> kymo_run::Result<()> {
    if json {
        return Ok(super::print_json(out, &Settings::default())?);
    }
    let text = overlay::to_toml(&Settings::default())?;
    let mut section = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = Settings::SECTIONS.iter().find(|section| section.name == name);
            write_comment(out, "#", section.map_or(&[], |section| section.about))?;
        }
        let key = line.split_once(" = ").map(|(key, _)| key);
        let setting =
            section.and_then(|section| section.settings.iter().find(|setting| Some(setting.name) == key));
        if let Some(setting) = setting {
            write_comment(out, "#", setting.about)?;
            for choice in setting.choices {
                write_comment(out, &format!("#   {}:", choice.name), choice.about)?;
            }
        }
        writeln!(out, "{line}").map_err(super::cannot_print)?;
    }
    Ok(())
}

/// Lines of a description, behind what makes them a comment.
fn write_comment(out: &mut dyn Write, mark: &str, about: &[&str]) -> kymo_run::Result<()> {
    let text = about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    if !text.is_empty() {
        writeln!(out, "{mark} {text}").map_err(super::cannot_print)?;
    }
    Ok(())
}
