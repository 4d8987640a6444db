//! From files to a store: read, number the vertices, cut the time, write the steps.

mod columns;
mod steps;
mod vertices;

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cut::{Cut, Cutter, Folder, Length, Life, WeightRule};
use crate::error::{Error, Place, Result};
use crate::load::side::{FeatureLayout, read_features, read_labels, read_signal};
use crate::load::{self, EdgeFeatures, Hints, Intake, Meaning, Nature, Source};
use crate::progress::Progress;
use crate::store::{FeatureKind, Plan, Store, Writer};
use crate::time::{Calendar, TimeUnit};
use vertices::{Arranged, Side};

/// What to read and what to make of it. What is `None` is decided by the input.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The format by name.
    pub format: Option<String>,
    /// What to tell the reader.
    pub hints: Hints,
    /// Whether sources and targets are two separate sets, as users and items are.
    pub bipartite: bool,
    /// How the time is cut.
    pub cut: Option<Cut>,
    /// How long edges stay.
    pub life: Option<Life>,
    /// What the weight of an edge with several rows is.
    pub weight: Option<WeightRule>,
    /// Whether every row counts in both directions.
    pub undirected: bool,
    /// Whether rows that join a vertex to itself are left out.
    pub drop_self_loops: bool,
    /// What the features of vertices are.
    pub features: Features,
    /// How a file of features is written.
    pub feature_layout: FeatureLayout,
    /// Segments a row of features is split into.
    pub segments: usize,
    /// A file with one value for each vertex and step.
    pub signal: Option<PathBuf>,
    /// A file with the class of each vertex.
    pub labels: Option<PathBuf>,
    /// Bytes of memory to keep to.
    pub memory: usize,
    /// Whether a store that is in the way may be replaced.
    pub replace: bool,
}

/// Where the features of vertices come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Features {
    /// The signal where the input has one, else degrees.
    #[default]
    Auto,
    /// Nowhere: there are none, unless the user names features of edges.
    None,
    /// In- and out-degree at each step.
    Degrees,
    /// Those of edges and nothing beside them.
    Events,
    /// A file.
    File(PathBuf),
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            format: None,
            hints: Hints::default(),
            bipartite: false,
            cut: None,
            life: None,
            weight: None,
            undirected: false,
            drop_self_loops: false,
            features: Features::default(),
            feature_layout: FeatureLayout::default(),
            segments: 4,
            signal: None,
            labels: None,
            memory: 4 << 30,
            replace: false,
        }
    }
}

/// Steps an input of events is cut into by default.
const USUAL_STEPS: usize = 50;

/// The least memory that makes sense: below this buffers and tables alone take more.
pub const LEAST_MEMORY: usize = 64 << 20;

/// What came of it, besides the store itself.
#[derive(Debug)]
pub struct Outcome {
    /// The new store.
    pub store: Store,
    /// The format that was read.
    pub format: &'static str,
    /// What each column was taken for, where the input is a table.
    pub read_as: Vec<Meaning>,
    /// How the time was cut.
    pub cut: Cut,
    /// How long edges stay.
    pub life: Life,
    /// How weights came about.
    pub weight: WeightRule,
    /// Things the user may want to know.
    pub notes: Vec<String>,
}

/// Reads `inputs` into a new store at `output`. Where it fails, nothing is left behind.
pub fn ingest(
    inputs: &[PathBuf],
    output: &Path,
    settings: &Settings,
    progress: &Progress,
) -> Result<Outcome> {
    check(inputs, settings)?;
    let mut writer = Writer::create(output, settings.replace)?;
    // The rest is for the snapshots and the part being written.
    let mut intake = Intake::new(writer.scratch(), settings.memory / 10 * 7, progress);
    let format = read(inputs, settings, &mut intake, progress)?;
    let mut side = Side::default();
    if let Some(path) = &settings.labels {
        side.labels = read_labels(&mut Source::open(path, progress)?, &mut intake)?;
    }
    if let Features::File(path) = &settings.features {
        let mut source = Source::open(path, progress)?;
        side.table = Some(read_features(&mut source, settings.feature_layout, &mut intake)?);
    }
    let read_as = std::mem::take(&mut intake.read_as);
    let (cut, life, weight) =
        (choose_cut(settings, &intake), choose_life(settings, &intake), choose_weight(settings, &intake));
    let mut notes = Vec::new();
    if intake.yearly && settings.cut.is_none() {
        notes.push(
            "times are years: each is a step (choose others with --window, --steps or --events)".into(),
        );
    }
    let cutter = cutter(cut, &intake)?;
    let (unit, bipartite, self_loops) = (intake.unit, intake.bipartite, intake.self_loops);
    let (ids, left, ranks) = std::mem::take(&mut intake.ids).rank();
    let mut arranged = Arranged::new(&mut intake, side, &ranks, cut, settings)?;
    notes.append(&mut arranged.notes);
    if arranged.features.kind == FeatureKind::Degrees && settings.features == Features::Auto {
        notes.push("features: in- and out-degrees of each step (choose others with --features)".into());
    }
    writer.plan(Plan {
        directed: !settings.undirected,
        left: bipartite.then_some(left),
        time_unit: if unit == TimeUnit::Date { TimeUnit::S } else { unit },
        features: arranged.features,
        classes: arranged.classes.clone(),
        part_bytes: (settings.memory / 16).clamp(1 << 20, 64 << 20),
    });
    writer.add_vertices(&ids)?;
    drop(ids);
    writer.fixed(&arranged.fixed)?;
    writer.self_loops(self_loops);
    let mut provenance = json!({
        "command": "ingest",
        "kymo": env!("CARGO_PKG_VERSION"),
        "format": format,
        "columns": read_as.iter().map(Meaning::word).collect::<Vec<_>>(),
        "inputs": inputs
            .iter()
            .map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
            .collect::<Vec<_>>(),
        "cut": cut,
        "edge_life": life,
        "weight": weight,
        "undirected": settings.undirected,
        "self_loops": if settings.drop_self_loops { "drop" } else { "keep" },
    });
    if !arranged.names.is_empty() {
        provenance["edge_features"] = json!(arranged.carried);
        provenance["feature_columns"] = json!(arranged.names);
    }
    writer.provenance(provenance);
    let folder = Folder {
        rule: weight,
        undirected: settings.undirected,
        drop_self_loops: settings.drop_self_loops,
        ranks: &ranks,
    };
    steps::write(&mut writer, intake, &cutter, folder, life, &mut arranged, settings.memory, progress)?;
    Ok(Outcome { store: writer.finish()?, format, read_as, cut, life, weight, notes })
}

fn check(inputs: &[PathBuf], settings: &Settings) -> Result<()> {
    if inputs.is_empty() {
        return Err(Error::settings("INPUT", "name at least one file, or - for standard input"));
    }
    if inputs.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Error::settings("INPUT", "standard input (-) can be read only once"));
    }
    if settings.memory < LEAST_MEMORY {
        let problem =
            format!("found {} bytes, expected at least {} MiB", settings.memory, LEAST_MEMORY >> 20);
        return Err(Error::settings("--memory", problem));
    }
    if settings.segments == 0 {
        return Err(Error::settings("--segments", "found 0, expected at least 1"));
    }
    Ok(())
}

/// Reads all inputs, which are of one format, and says which.
fn read(
    inputs: &[PathBuf],
    settings: &Settings,
    intake: &mut Intake,
    progress: &Progress,
) -> Result<&'static str> {
    let mut format = settings.format.as_deref().map(load::find).transpose()?;
    if format.is_none() && settings.hints.columns.is_some() {
        format = Some(load::find("csv")?);
    }
    intake.style = settings.hints.style;
    let no_weights = matches!(settings.weight, Some(WeightRule::Count | WeightRule::None));
    let mut hints = Hints { no_weights: settings.hints.no_weights || no_weights, ..settings.hints.clone() };
    if settings.features == Features::None && hints.edge_features == EdgeFeatures::Usual {
        hints.edge_features = EdgeFeatures::None;
    }
    for path in inputs {
        let mut source = Source::open(path, progress)?;
        intake.inputs.push(source.name().into());
        let before = intake.log.len();
        let format = match format {
            Some(format) => format,
            None => *format.insert(load::detect(&mut source, &settings.hints)?),
        };
        intake.nature = format.nature();
        intake.bipartite = settings.bipartite || format.bipartite();
        if intake.ids.is_empty() {
            intake.id_kind = settings.hints.ids.unwrap_or(format.id_kind());
        }
        format.read(&mut source, &hints, intake)?;
        intake.finish_input()?;
        let named = matches!(hints.edge_features, EdgeFeatures::Named(_));
        if named && intake.log.len() > before && intake.edge_features.is_none() {
            let problem = format!("inputs of the format {} have no columns to name", format.name());
            return Err(Error::settings("--edge-features", problem));
        }
        if intake.log.len() == before {
            let problem = format!(
                "has no rows; expected at least one, as in '{}'",
                format.example().lines().next().unwrap_or("")
            );
            return Err(Error::input(Place::file(source.name()), problem));
        }
    }
    if let Some(path) = &settings.signal {
        read_signal(&mut Source::open(path, progress)?, intake)?;
    }
    Ok(format.map_or("", |format| format.name()))
}

fn choose_cut(settings: &Settings, intake: &Intake) -> Cut {
    settings.cut.unwrap_or(match intake.nature {
        Nature::Events if intake.yearly && intake.unit == TimeUnit::Date => Cut::Calendar(Calendar::Year),
        Nature::Events if intake.yearly => Cut::Window(Length { number: 1.0, seconds: None }),
        Nature::Events => Cut::Steps(USUAL_STEPS),
        Nature::Steps | Nature::Changes | Nature::Fixed => Cut::Numbered,
    })
}

fn choose_life(settings: &Settings, intake: &Intake) -> Life {
    settings.life.unwrap_or(match intake.nature {
        Nature::Events | Nature::Steps => Life::Steps(0),
        Nature::Changes | Nature::Fixed => Life::Forever,
    })
}

fn choose_weight(settings: &Settings, intake: &Intake) -> WeightRule {
    settings.weight.unwrap_or(match intake.nature {
        Nature::Changes => WeightRule::Last,
        Nature::Events | Nature::Steps | Nature::Fixed => WeightRule::Sum,
    })
}

fn cutter(cut: Cut, intake: &Intake) -> Result<Cutter> {
    let (mut first, mut last) = intake.range.unwrap_or_default();
    let signal = intake.signal.steps.len().max(intake.targets.steps.len());
    if cut == Cut::Numbered && signal > 0 {
        // The steps of a signal are numbered from 0, whatever the first edge.
        (first, last) = (0.0, last.max(signal as f64 - 1.0));
    }
    Cutter::new(cut, intake.unit, first, last, intake.log.len())
}
