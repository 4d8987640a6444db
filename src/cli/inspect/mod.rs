//! `kymo inspect`: what is in a store, or what a run took.

mod report;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use kymo_files::place::is_run;
use kymo_graph::stats::{Stats, stats};
use kymo_graph::{Progress, Store};
use kymo_run::data::snapshots_in_memory;
use kymo_run::task::attacked;
use kymo_run::{Error, Result};
use kymo_trace::schema::{Metrics, RunFolder};
use serde::Serialize;

use super::console::Console;
use super::layout;
use super::numbers::{exact, plural};
use super::watch::Watch;
use super::{cannot_print, print_json, train};

/// Describe a store: its size, how it changes from step to step, and what there is to learn from it. Of a
/// run, say where its time went and what it held.
///
/// Read this before training. A graph that changes little from step to step (high overlap) gains from
/// incremental aggregation; one with skewed degrees needs a partition that balances edges, not vertices; one
/// with steps of very different sizes needs a schedule that pairs large with small.
#[derive(Clone, Debug, clap::Args)]
pub struct Inspect {
    /// The store: the folder that `kymo ingest` or `kymo generate` made; or the folder of a run.
    pub store: PathBuf,
    /// Print everything as one JSON object, for programs; the steps are in `per_step`. Of a run, its
    /// summary.json.
    #[arg(long)]
    pub json: bool,
    /// Print a table with a line for every step behind the report.
    #[arg(long, conflicts_with = "json")]
    pub steps: bool,
}

/// What is said of a store.
#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    stats: Stats,
    /// Nothing where there are no steps.
    memory: Option<InMemory>,
    /// What rules that know nothing about links reach by metrics of links. Nothing where no links come, where
    /// there are too few steps to test on, or where it takes too long.
    attacks: Option<BTreeMap<String, Metrics>>,
}

/// Bytes of all snapshots in memory.
#[derive(Clone, Copy, Serialize)]
struct InMemory {
    /// If every one had its edges, matrices and features to itself.
    whole: u64,
    /// As graph convolution has them held in training.
    held: u64,
}

/// Describes the store or the run on `out`.
pub fn run(args: &Inspect, out: &mut Console) -> Result<()> {
    if is_run(&args.store) {
        return describe_run(args, out);
    }
    let store = Arc::new(Store::open(&args.store)?);
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "looking", out);
    let stats = stats(&store, &progress)?;
    let attacks = attacked(&store, &progress)?;
    drop(watch);
    let sizes = if store.steps() > 0 { Some(snapshots_in_memory(&store)?) } else { None };
    let memory = sizes.map(|[whole, held]| InMemory { whole, held });
    if args.json {
        return Ok(print_json(out, &Described { stats, memory, attacks })?);
    }
    let name = args.store.file_name().unwrap_or(args.store.as_os_str());
    let mut text = report::report(&name.to_string_lossy(), &stats, memory, out.columns());
    if let Some(attacks) = &attacks {
        text.push_str(&report::warning(attacks, out.columns()));
    }
    if args.steps {
        text.push_str(&layout::fit(&report::table(&stats.per_step), out.columns()));
    }
    Ok(out.write_all(text.as_bytes()).map_err(cannot_print)?)
}

/// Says what a run that has finished took.
fn describe_run(args: &Inspect, out: &mut Console) -> Result<()> {
    let path = args.store.display();
    if args.steps {
        return Err(Error::settings("--steps", format!("{path} is a run; only a store has steps to list")));
    }
    let Some(summary) = RunFolder::open(&args.store)?.summary()? else {
        let problem =
            format!("the run {path} has not finished; kymo train --resume -o {path} goes on with it");
        return Err(Error::settings("STORE", problem));
    };
    if args.json {
        return Ok(print_json(out, &summary)?);
    }
    let text = format!(
        "{path}: {} with {} parameters, best of {}: epoch {}\n{}",
        summary.model,
        exact(summary.parameters as u64),
        plural(summary.epochs as u64, ["epoch", "epochs"]),
        summary.best_epoch,
        train::costs(&summary)
    );
    let text = out.fit(&text);
    Ok(out.write_all(text.as_bytes()).map_err(cannot_print)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_graph::generate::{Params, find, generate};
    use kymo_graph::store::{FeatureFacts, FeatureKind, Fixed, Plan, Writer};
    use kymo_graph::time::TimeUnit;
    use kymo_graph::{Edge, Ids, Snapshot, StepData, StepEdges};
    use std::path::Path;
    use std::sync::Mutex;

    /// A writer that the test can read.
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);
    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn print(store: &Path, json: bool, steps: bool) -> String {
        print_in(None, store, json, steps)
    }

    fn print_in(columns: Option<usize>, store: &Path, json: bool, steps: bool) -> String {
        let page = Page::default();
        let asked = Inspect { store: store.into(), json, steps };
        run(&asked, &mut Console::new(page.clone(), columns)).unwrap();
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    fn generated(path: &Path, steps: usize) {
        let kind = find("power-law").unwrap();
        let params = Params { steps, ..kind.defaults().scaled(0.05) };
        let mut writer = Writer::create(path, false).unwrap();
        let features = FeatureFacts { kind: FeatureKind::Dense, width: 32, segments: 4 };
        let classes = (0..12).map(|class| format!("class {class}")).collect();
        let time_unit = TimeUnit::Step;
        writer.plan(Plan { directed: true, features, classes, time_unit, ..Plan::default() });
        writer.add_vertices(&Ids::Number((0..params.vertices as u64).collect())).unwrap();
        let classes = (0..params.vertices as i32).map(|v| v % 12).collect();
        writer.fixed(&Fixed { classes, splits: vec![1; params.vertices], sparse: None }).unwrap();
        for step in generate(kind, &params).unwrap() {
            writer.push(step.unwrap()).unwrap();
        }
        writer.finish().unwrap();
    }

    #[test]
    fn the_report_states_the_facts_on_one_screen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small");
        generated(&path, 100);
        let text = print(&path, false, false);
        let facts = [
            "small: 500 vertices, 100 steps, 500,000 edges",
            "0 to 100",
            "directed, unweighted",
            "as full snapshots",
            "times smaller",
            "dense, 32 columns in 4 segments",
            "as whole snapshots, ",
            "49,000 values at 98 steps",
            "12 classes",
            "class 7 (42)",
            "and 4 more",
            "Edges by step: 5.0 k to 5.0 k, mean 5.0 k",
            "500 train",
            "20.0 % to 20.0 %",
            "└────",
            "Rules that know nothing about links",
        ];
        let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for fact in facts {
            assert!(unwrapped.contains(fact), "{fact} is not in\n{text}");
        }
        // Popular targets have many links here, which not every metric is proof against.
        assert!(text.contains("\n  mrr-tgb: ") && !text.contains("\n  mrr-balanced: "), "{text}");
        assert!(text.lines().count() <= 55, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{text}");
        let table = print(&path, false, true);
        assert_eq!(table.lines().count(), text.lines().count() + 2 + 100);
    }

    /// Nothing is wider than the terminal, nothing is lost in a narrow one, and a wide one is used.
    #[test]
    fn the_report_fits_the_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small");
        generated(&path, 300);
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
        for columns in [24, 30, 40, 60, 80, 120, 200] {
            let text = print_in(Some(columns), &path, false, true);
            assert!(widest(&text) <= columns, "{columns} columns:\n{text}");
            let words: String = text.split_whitespace().collect();
            for fact in ["timessmaller", "and4more", "500train", "5.0kto5.0k,mean5.0k", "overlap", "maxin"] {
                assert!(words.contains(fact), "{fact} is not in {columns} columns:\n{text}");
            }
        }
        assert!(widest(&print_in(Some(200), &path, false, false)) > 190);
        assert_eq!(print_in(Some(80), &path, false, true), print(&path, false, true));
        let narrow = print_in(Some(1), &path, false, false);
        assert!(widest(&narrow) <= 24, "{narrow}");
    }

    #[test]
    fn one_step_is_described_without_a_course() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("single");
        generated(&path, 1);
        let text = print(&path, false, false);
        assert!(text.contains("1 step, 5,000 edges"), "{text}");
        for misleading in ["└", "overlap", "mean", "times smaller", "█"] {
            assert!(!text.contains(misleading), "{misleading} is in\n{text}");
        }
    }

    /// Where most links lead to vertices that are new, a rule that knows that alone does well.
    #[test]
    fn links_that_can_be_found_without_knowledge_are_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        for (name, new) in [("replaced", true), ("steady", false)] {
            let path = folder.path().join(name);
            let mut writer = Writer::create(&path, false).unwrap();
            writer.plan(Plan { directed: true, ..Plan::default() });
            writer.add_vertices(&Ids::Number((0..100).collect())).unwrap();
            for step in 0..20u32 {
                let target = |k: u32| if new { 4 * step + k } else { k };
                let edges = (0..4).map(|k| Edge::new(90 + k, target(k))).collect();
                let edges = StepEdges::All(Snapshot::from_edges(edges));
                writer.push(StepData { edges, ..StepData::default() }).unwrap();
            }
            writer.finish().unwrap();
            let text = print(&path, false, false);
            let warned = text.contains("Of the links of the last steps 100.0 % lead to vertices");
            assert_eq!(warned, new, "{text}");
            let json: serde_json::Value = serde_json::from_str(&print(&path, true, false)).unwrap();
            assert_eq!(json["averages"]["new_targets"]["mean"].as_f64(), Some(f64::from(u8::from(new))));
        }
    }

    #[test]
    fn times_are_dates_where_they_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let begin = 1_000_000_000.0;
        for (name, unit, from, shown) in [
            ("seconds", TimeUnit::S, begin, "2001-09-09 01:46:40 to 2001-09-11 01:46:40"),
            ("relative", TimeUnit::S, 0.0, "0 to 172800 s"),
            ("dates", TimeUnit::Date, 0.0, "1970-01-01 to 1970-01-03"),
        ] {
            let path = folder.path().join(name);
            let mut writer = Writer::create(&path, false).unwrap();
            writer.plan(Plan { time_unit: unit, left: Some(1), ..Plan::default() });
            writer.add_vertices(&Ids::Number(vec![5, 6, 7])).unwrap();
            for step in 0..2u32 {
                let begin = from + f64::from(step) * 86400.0;
                let weight = 2.5 + step as f32;
                let list = vec![(Edge::new(0, 1 + step), weight), (Edge::new(1 + step, 0), weight)];
                let edges = StepEdges::All(Snapshot::from_weighted(list));
                let data = StepData { begin, end: begin + 86400.0, edges, ..StepData::default() };
                writer.push(data).unwrap();
            }
            writer.finish().unwrap();
            let text = print(&path, false, false);
            for fact in [shown, "undirected, weighted (2.5 to 3.5)", "1 vertex on the left", "2 on the right"]
            {
                assert!(text.contains(fact), "{fact} is not in\n{text}");
            }
        }
    }

    #[test]
    fn the_json_has_the_keys_that_programs_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small");
        generated(&path, 5);
        let json: serde_json::Value = serde_json::from_str(&print(&path, true, false)).unwrap();
        for key in ["vertices", "events", "self_loops", "steps", "edges"] {
            assert!(json[key].is_u64(), "{key}");
        }
        assert_eq!((json["steps"].as_u64(), json["per_step"].as_array().map(Vec::len)), (Some(5), Some(5)));
        assert!(json["per_step"][0]["change"].is_null() && json["per_step"][1]["change"].is_f64());
        // A matrix of 5,000 edges with a loop at each of 500 vertices at every step; features that are more
        // than those of one step and fewer than those of all.
        let [whole, held] = ["whole", "held"].map(|key| json["memory"][key].as_u64().unwrap());
        let matrices = 5 * (8 * 5_500 + 12 * 500);
        assert!(held > matrices + 64_000 && held < matrices + 5 * 64_000, "{held}");
        assert_eq!(whole, 5 * (500 * (32 * 4 + 60) + 5_000 * 36));
    }

    #[test]
    fn a_writer_that_fails_is_an_error_of_the_machine() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small");
        generated(&path, 2);
        let error = run(&Inspect { store: path, json: false, steps: false }, &mut Console::new(Full, None))
            .unwrap_err();
        assert!(error.to_string().starts_with("cannot write standard output: "), "{error}");
        let missing = Inspect { store: folder.path().join("none"), json: false, steps: false };
        assert!(
            run(&missing, &mut Console::new(Full, None))
                .unwrap_err()
                .to_string()
                .contains("there is no such store")
        );
    }
}
