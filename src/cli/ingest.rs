//! `kymo ingest`: files become a store.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kymo_graph::cut::{Cut, Life, WeightRule};
use kymo_graph::ingest::{self, Features, LEAST_MEMORY, Settings};
use kymo_graph::load::row::Style;
use kymo_graph::load::side::FeatureLayout;
use kymo_graph::load::{self, EdgeFeatures, Hints, IdKind, Meaning};
use kymo_graph::time::{DateOrder, TimeUnit};
use kymo_graph::{Error, Progress, Result, Store};
use kymo_run::config::machine::{machine_memory, process_memory};
use serde::Serialize;

use super::console::Console;
use super::numbers::{bytes, exact};
use super::watch::Watch;

/// Read files into a store of snapshots
///
/// The format, what is between fields and what each column means are detected unless given, and said in the
/// summary; a file that can be read in two ways is refused. Files packed with gzip, zstd, xz or bzip2 are
/// unpacked, and rows out of order are sorted. Events are cut into steps by --window, --steps or --events
/// (default: 50 windows of one length); inputs that number their steps keep them.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Ingest {
    /// Files to read, all of one format; - is standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Where to put the store
    #[arg(short, long)]
    output: PathBuf,
    /// The format, see `kymo list formats`
    #[arg(short, long)]
    format: Option<String>,

    /// Cut into windows of this length (7d, 12h, 190080s; a plain number counts in the unit of the file) or
    /// into calendar units: hour, day, week, month, quarter, year
    #[arg(long, group = "cut", help_heading = "Steps")]
    window: Option<Cut>,
    /// Cut into this many windows of one length
    #[arg(long, group = "cut", value_name = "N", help_heading = "Steps")]
    steps: Option<usize>,
    /// Cut into windows of this many events
    #[arg(long, group = "cut", value_name = "N", help_heading = "Steps")]
    events: Option<usize>,
    /// Steps an edge stays after its last event, or 'forever' [default: 0; forever where the input lists
    /// changes]
    #[arg(long, value_name = "K", help_heading = "Steps")]
    edge_life: Option<Life>,

    /// The weight of an edge with several rows in a step: their sum (a row without weight counts 1), their
    /// count, the last one, or none [default: sum]
    #[arg(long, value_enum, help_heading = "Edges")]
    weight: Option<Weight>,
    /// Add every row in both directions
    #[arg(long, help_heading = "Edges")]
    undirected: bool,
    /// What to do with rows that join a vertex to itself
    #[arg(long, value_enum, default_value = "keep", help_heading = "Edges")]
    self_loops: SelfLoops,

    /// What the columns of a table are, in their order, where they cannot be told or were told wrongly:
    /// source, target, time, step, weight, source_label, target_label, names for --edge-features, and _ for
    /// one to skip; a header is skipped
    #[arg(long, value_delimiter = ',', value_name = "NAMES", help_heading = "Reading")]
    columns: Option<Vec<String>>,
    /// The character between fields: a character, or tab, comma, semicolon, space
    #[arg(long, value_parser = delimiter, value_name = "CHAR", help_heading = "Reading")]
    delimiter: Option<u8>,
    /// What times count: s, ms, us, ns, m, h, d, date (ISO 8601), step (nothing)
    #[arg(long, value_name = "UNIT", help_heading = "Reading")]
    time_unit: Option<TimeUnit>,
    /// Dates that are not ISO 8601: mdy (12/31/2012 5:30 PM), dmy (31.12.2012 17:30) or ymd (20121231)
    #[arg(long, value_name = "ORDER", help_heading = "Reading")]
    dates: Option<DateOrder>,
    /// What stands before the decimals of numbers
    #[arg(long, value_enum, default_value = "point", help_heading = "Reading")]
    decimal: Decimal,
    /// How vertices are written
    #[arg(long, value_enum, help_heading = "Reading")]
    ids: Option<Ids>,
    /// Sources and targets are two separate sets, as users and items
    #[arg(long, help_heading = "Reading")]
    bipartite: bool,

    /// Features of edges, by the names or the numbers of their columns: means over the events of a vertex in
    /// a step become columns of it; none leaves them out [default: all that jodie has, the further numbers of
    /// tgb, none elsewhere]
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS|none", help_heading = "Edges")]
    edge_features: Option<Vec<String>>,

    /// Features of vertices: degrees, events (features of edges and nothing beside them), none, or a file
    /// (line i is the vertex with id i) [default: the signal of the input, else degrees]
    #[arg(long, value_name = "KIND|FILE", help_heading = "Vertices")]
    features: Option<String>,
    /// How the file of features is written: auto, dense or sparse
    #[arg(long, default_value = "auto", value_name = "LAYOUT", help_heading = "Vertices")]
    feature_layout: FeatureLayout,
    /// Segments a row of features is split into; only changed segments are stored
    #[arg(long, default_value_t = 4, help_heading = "Vertices")]
    segments: usize,
    /// A table with a column for each vertex and a row for each step: features, and values to predict
    #[arg(long, value_name = "FILE", help_heading = "Vertices")]
    signal: Option<PathBuf>,
    /// Classes of vertices: vertex, class and possibly train, val or test; with a header that names a step or
    /// time column, classes of that step
    #[arg(long, value_name = "FILE", help_heading = "Vertices")]
    labels: Option<PathBuf>,

    /// Keep to about this much memory by sorting on disk (512MiB, 4GiB); two snapshots must fit [default:
    /// half of what the machine, or the control group of the process, has]
    #[arg(long, value_parser = memory, value_name = "SIZE")]
    memory: Option<usize>,
    /// Replace a store that is there already
    #[arg(long)]
    overwrite: bool,
    /// Print JSON instead of a summary
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Weight {
    Sum,
    Count,
    Last,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum SelfLoops {
    Keep,
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Decimal {
    Point,
    Comma,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Ids {
    /// Whole numbers from 0
    Number,
    /// Any text
    Text,
}

fn after_help() -> String {
    let names: Vec<&str> = load::ALL.iter().map(|format| format.name()).collect();
    format!(
        "Formats: {}\n\n\
         Examples:\n  \
         kymo ingest CollegeMsg.txt.gz --window 190080s -o messages\n  \
         kymo ingest trades.csv --window month --weight count --undirected -o trades\n  \
         kymo ingest contacts.csv --columns time,source,target,source_label,target_label -o school\n  \
         kymo ingest edges.tsv --features features.txt.gz --labels nodes.tsv --undirected -o cora\n  \
         zcat big.csv.gz | kymo ingest - --format csv --memory 1GiB -o big",
        names.join(", ")
    )
}

fn delimiter(text: &str) -> std::result::Result<u8, String> {
    match (text, text.as_bytes()) {
        ("tab" | "\\t", _) => Ok(b'\t'),
        ("comma", _) => Ok(b','),
        ("semicolon", _) => Ok(b';'),
        ("space" | "blank", _) => Ok(b' '),
        (_, &[byte]) => Ok(byte),
        _ => Err("expected one character, or tab, comma, semicolon, space".into()),
    }
}

fn memory(text: &str) -> std::result::Result<usize, String> {
    let cut = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let unit = match text[cut..].to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1048576.0,
        "g" | "gb" | "gib" => 1073741824.0,
        "t" | "tb" | "tib" => 1099511627776.0,
        _ => return Err("expected a size such as 512MiB or 4GiB".into()),
    };
    let number: f64 =
        text[..cut].trim().parse().map_err(|_| "expected a size such as 512MiB or 4GiB".to_owned())?;
    let size = number * unit;
    if size >= LEAST_MEMORY as f64 && size < 1e18 {
        return Ok(size as usize);
    }
    Err(format!("expected at least {}", bytes(LEAST_MEMORY as u64)))
}

/// Half of the memory that there is, where it is known.
fn usual_memory() -> usize {
    machine_memory().map_or(4 << 30, |bytes| bytes / 2).max(LEAST_MEMORY)
}

impl Ingest {
    fn settings(&self) -> Settings {
        Settings {
            format: self.format.clone(),
            hints: Hints {
                columns: self.columns.clone(),
                delimiter: self.delimiter,
                time_unit: self.time_unit,
                timed: self.window.is_some() || self.steps.is_some() || self.events.is_some(),
                ids: self.ids.map(|ids| match ids {
                    Ids::Number => IdKind::Number,
                    Ids::Text => IdKind::Text,
                }),
                style: Style { decimal_comma: self.decimal == Decimal::Comma, dates: self.dates },
                no_weights: false,
                edge_features: match self.edge_features.as_deref() {
                    None => EdgeFeatures::Usual,
                    Some([one]) if one == "none" => EdgeFeatures::None,
                    Some(names) => EdgeFeatures::Named(names.to_vec()),
                },
            },
            bipartite: self.bipartite,
            cut: self.window.or(self.steps.map(Cut::Steps)).or(self.events.map(Cut::Events)),
            life: self.edge_life,
            weight: self.weight.map(|weight| match weight {
                Weight::Sum => WeightRule::Sum,
                Weight::Count => WeightRule::Count,
                Weight::Last => WeightRule::Last,
                Weight::None => WeightRule::None,
            }),
            undirected: self.undirected,
            drop_self_loops: self.self_loops == SelfLoops::Drop,
            features: match self.features.as_deref() {
                None => Features::Auto,
                Some("none") => Features::None,
                Some("degrees") => Features::Degrees,
                Some("events") => Features::Events,
                Some(file) => Features::File(file.into()),
            },
            feature_layout: self.feature_layout,
            segments: self.segments,
            signal: self.signal.clone(),
            labels: self.labels.clone(),
            memory: self.memory.unwrap_or_else(usual_memory),
            replace: self.overwrite,
        }
    }
}

/// Reads the inputs and prints a summary.
pub fn run(args: &Ingest, out: &mut Console) -> Result<()> {
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "reading", out);
    let begun = std::time::Instant::now();
    let outcome = ingest::ingest(&args.inputs, &args.output, &args.settings(), &progress);
    drop(watch);
    let outcome = outcome?;
    let mut notes = outcome.notes;
    if args.window.is_none()
        && args.steps.is_none()
        && args.events.is_none()
        && matches!(outcome.cut, Cut::Steps(_))
    {
        notes.insert(
            0,
            "cut into 50 windows of one length (choose others with --window, --steps or --events)".into(),
        );
    }
    let taken = process_memory().map_or(0, |(_, most)| most);
    if let Some(memory) = args.memory.filter(|&memory| taken > memory) {
        let [taken, memory] = [taken, memory].map(|size| bytes(size as u64));
        notes.push(format!("{taken} of memory were taken, not {memory}: two snapshots must fit"));
    }
    let written = Written::of(&outcome.store, begun.elapsed()).with_format(outcome.format, outcome.read_as);
    written.print(args.json, &notes, out)
}

/// The closing summary of a command that wrote a store.
#[derive(Serialize)]
pub struct Written {
    store: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<Meaning>,
    vertices: u64,
    events: u64,
    self_loops: u64,
    steps: u64,
    edges: u64,
    bytes: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory: Option<u64>,
}

impl Written {
    /// The summary of a store.
    pub fn of(store: &Store, time: Duration) -> Self {
        let manifest = store.manifest();
        Written {
            store: store.path().display().to_string(),
            format: None,
            columns: Vec::new(),
            vertices: manifest.vertices,
            events: manifest.events,
            self_loops: manifest.self_loops,
            steps: manifest.steps,
            edges: manifest.edges,
            bytes: store.bytes(),
            seconds: time.as_secs_f64(),
            peak_memory: process_memory().map(|(_, most)| most as u64),
        }
    }

    fn with_format(self, format: &'static str, columns: Vec<Meaning>) -> Self {
        Written { format: Some(format), columns, ..self }
    }

    /// Prints the summary, and notes below it.
    pub fn print(&self, json: bool, notes: &[String], out: &mut Console) -> Result<()> {
        if json {
            return super::print_json(out, self);
        }
        if out.quiet {
            return Ok(());
        }
        let from = self.format.map(|format| format!(" ({format})")).unwrap_or_default();
        let mut print = || {
            writeln!(
                out,
                "{}: {} vertices, {} steps, {} edges over all steps, from {} \
                 events{from}; {} on disk, {:.2} s",
                self.store,
                exact(self.vertices),
                self.steps,
                exact(self.edges),
                exact(self.events),
                bytes(self.bytes),
                self.seconds,
            )?;
            if !self.columns.is_empty() {
                writeln!(out, "read as: {}", Meaning::listed(&self.columns))?;
            }
            for note in notes {
                writeln!(out, "note: {note}")?;
            }
            writeln!(out, "next: kymo inspect {}", self.store)
        };
        print().map_err(|error: std::io::Error| {
            Error::resource("cannot write", std::path::Path::new("standard output"))(error)
        })
    }
}
