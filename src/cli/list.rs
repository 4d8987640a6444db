//! `kymo list`: what there is to choose from, straight from the registries.

use std::io::Write;

use clap::{Args, ValueEnum};
use kymo_graph::{Result, generate, load};
use serde::Serialize;

/// List what Kymo can read and generate
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
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    defaults: Option<generate::Params>,
}

/// Prints the list.
pub fn run(args: &List, out: &mut dyn Write) -> Result<()> {
    let entries: Vec<Entry> = match args.what {
        What::Formats => load::ALL
            .iter()
            .map(|f| Entry { name: f.name(), about: f.about(), example: Some(f.example()), defaults: None })
            .collect(),
        What::Generators => generate::ALL
            .iter()
            .map(|g| Entry { name: g.name(), about: g.about(), example: None, defaults: Some(g.defaults()) })
            .chain([Entry {
                name: super::generate::FROM_STATIC,
                about: super::generate::FROM_STATIC_ABOUT,
                example: None,
                defaults: None,
            }])
            .collect(),
    };
    if args.json {
        return super::print_json(out, &entries);
    }
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    for Entry { name, about, .. } in entries {
        writeln!(out, "{name:width$}  {about}").map_err(super::cannot_print)?;
    }
    Ok(())
}
