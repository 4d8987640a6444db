//! `kymo generate`: synthetic dynamic graphs.

use std::path::{Path, PathBuf};

use clap::Args;
use kymo_graph::generate::{self, FROM_STATIC, FromStatic, Params, Trend};
use kymo_graph::{Error, Progress, Result, Store};
use kymo_run::config::machine::{Memory, machine};

use super::console::Console;
use super::ingest::Written;
use super::numbers::bytes;
use super::watch::Watch;

/// One line about making a dynamic graph from a static one.
pub const FROM_STATIC_ABOUT: &str =
    "snapshots of a static graph by random edge deletion, as BLAD, DyGNeX and REAL make them";

/// Make a synthetic dynamic graph
///
/// Seeded, and the same for any number of threads. Features come with a target that a model which remembers
/// the last snapshot can predict and one that sees a single snapshot cannot; the error no model can beat is
/// recorded in the store.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Generate {
    /// What to make: a kind or preset of `kymo list generators`
    kind: String,
    /// The store with the static graph (from-static only); its last step is taken
    #[arg(value_name = "STORE")]
    graph: Option<PathBuf>,
    /// Where to put the store
    #[arg(short, long)]
    output: PathBuf,
    /// Scales the numbers of vertices and edges
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Vertices
    #[arg(long)]
    vertices: Option<usize>,
    /// Edges of a step, on average
    #[arg(long)]
    edges: Option<usize>,
    /// Steps
    #[arg(long)]
    steps: Option<usize>,
    /// Edges added and removed from step to step, over all edges (0 to 2)
    #[arg(long, value_name = "RATE")]
    edge_change: Option<f64>,
    /// Share of vertices whose features change from step to step (0 to 1)
    #[arg(long, value_name = "RATE")]
    feature_change: Option<f64>,
    /// Features of a vertex; 0 for none (degrees are used then)
    #[arg(long, value_name = "WIDTH")]
    features: Option<usize>,
    /// Segments the features are stored in
    #[arg(long)]
    segments: Option<usize>,
    /// How the number of edges moves: flat, linear or stackoverflow
    #[arg(long)]
    trend: Option<Trend>,
    /// Add the reverse of every edge (--undirected=false: do not)
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    undirected: Option<bool>,
    /// Make features 0 or 1 (--binary=false: normal)
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    binary: Option<bool>,
    /// Standard deviation of the noise in the targets
    #[arg(long)]
    noise: Option<f64>,
    /// Random seed
    #[arg(long)]
    seed: Option<u64>,
    /// Replace a store that is there already
    #[arg(long)]
    overwrite: bool,
    /// Print JSON instead of a summary
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    let names: Vec<&str> = generate::ALL.iter().map(|kind| kind.name()).chain([FROM_STATIC]).collect();
    format!(
        "Kinds: {}\n\n\
         Examples:\n  \
         kymo generate arxiv-like --scale 0.05 -o demo\n  \
         kymo generate power-law --vertices 5000 --edges 40000 --steps 20 -o small\n  \
         kymo generate from-static cora --steps 50 --trend stackoverflow -o cora-dynamic",
        names.join(", ")
    )
}

/// Makes the store and says what is in it.
pub fn run(args: &Generate, out: &mut Console) -> Result<()> {
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "generating", out);
    let begun = std::time::Instant::now();
    let store = make(args, &progress);
    drop(watch);
    Written::of(&store?, begun.elapsed()).print(args.json, &[], out)
}

fn make(args: &Generate, progress: &Progress) -> Result<Store> {
    if !(args.scale > 0.0 && args.scale.is_finite()) {
        return Err(Error::settings("--scale", format!("found {}, expected a number above 0", args.scale)));
    }
    if args.kind == FROM_STATIC {
        return from_static(args, progress);
    }
    let kind = generate::find(&args.kind)?;
    if args.graph.is_some() {
        return Err(Error::settings(
            "STORE",
            format!("'{}' starts from nothing; only from-static takes a store", args.kind),
        ));
    }
    let preset = kind.defaults().scaled(args.scale);
    let features = args.features.unwrap_or(preset.features);
    let params = Params {
        vertices: args.vertices.unwrap_or(preset.vertices),
        edges: args.edges.unwrap_or(preset.edges),
        steps: args.steps.unwrap_or(preset.steps),
        edge_change: args.edge_change.unwrap_or(preset.edge_change),
        feature_change: args.feature_change.unwrap_or(preset.feature_change),
        features,
        segments: args.segments.unwrap_or(preset.segments.min(features.max(1))),
        binary: args.binary.unwrap_or(preset.binary),
        trend: args.trend.unwrap_or(preset.trend),
        undirected: args.undirected.unwrap_or(preset.undirected),
        noise: args.noise.unwrap_or(preset.noise),
        seed: args.seed.unwrap_or(preset.seed),
    };
    check_memory(&params, &args.output)?;
    generate::write(kind, &params, &args.output, args.overwrite, progress)
}

/// Fails where a step, with what follows it up, does not fit into memory.
fn check_memory(params: &Params, output: &Path) -> Result<()> {
    params.check()?;
    let (vertices, edges) = (params.vertices as u64, params.edges as u64);
    let directions = if params.undirected { 2 } else { 1 };
    // Ids and degrees of vertices, three copies of their features, and of every edge what is there, what was
    // and what changed.
    let rows = vertices.saturating_mul(32 + 14 * params.features as u64);
    let needed = edges.saturating_mul(48 * directions).saturating_add(rows);
    match machine() {
        Some(Memory { available, .. }) if needed > available => {
            let problem = format!(
                "a step takes about {}, {} of memory are available; lower --vertices, --edges, --features or \
                 --scale",
                bytes(needed),
                bytes(available)
            );
            let full = std::io::Error::new(std::io::ErrorKind::OutOfMemory, problem);
            Err(Error::resource("cannot generate", output)(full))
        }
        _ => Ok(()),
    }
}

fn from_static(args: &Generate, progress: &Progress) -> Result<Store> {
    let path = args.graph.as_ref().ok_or_else(|| {
        Error::settings(
            "STORE",
            "from-static needs the store of a static graph: kymo generate from-static STORE -o NEW",
        )
    })?;
    let unused = [
        ("--vertices", args.vertices.is_some()),
        ("--features", args.features.is_some()),
        ("--feature-change", args.feature_change.is_some()),
        ("--segments", args.segments.is_some()),
        ("--undirected", args.undirected.is_some()),
        ("--binary", args.binary.is_some()),
        ("--noise", args.noise.is_some()),
        ("--scale", args.scale != 1.0),
    ];
    if let Some((setting, _)) = unused.iter().find(|(_, given)| *given) {
        return Err(Error::settings(
            *setting,
            "has no meaning with from-static: vertices and features are those of the graph",
        ));
    }
    let ask = FromStatic {
        edges: args.edges,
        steps: args.steps.unwrap_or(Params::GENERIC.steps),
        edge_change: args.edge_change.unwrap_or(Params::GENERIC.edge_change),
        trend: args.trend.unwrap_or(Trend::Stackoverflow),
        seed: args.seed.unwrap_or(Params::GENERIC.seed),
    };
    generate::write_from_static(&Store::open(path)?, &ask, &args.output, args.overwrite, progress)
}
