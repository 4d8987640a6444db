//! Reads the real data sets, where they are at hand, and compares counts with those their description states.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::{Path, PathBuf};

use kymo_graph::load::side::{FeatureLayout, FeatureTable, read_features, read_labels, read_signal};
use kymo_graph::load::{self, Hints, Intake, Nature, Source};
use kymo_graph::time::TimeUnit;
use kymo_graph::{Error, Progress};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data")
}

fn open(path: &str) -> Option<Source> {
    match Source::open(&folder().join(path), &Progress::silent()) {
        Ok(source) => Some(source),
        Err(Error::Resource { .. }) => {
            eprintln!("skipped: there is no {path}");
            None
        }
        Err(other) => panic!("{path}: {other}"),
    }
}

fn read(path: &str, format: &str, columns: Option<&str>, bipartite: bool) -> Option<Intake> {
    let mut source = open(path)?;
    let format = load::find(format).unwrap();
    let columns = columns.map(|names| names.split(',').map(String::from).collect());
    let hints = Hints { columns, ..Hints::default() };
    let mut intake = Intake::new(&std::env::temp_dir(), 1 << 30, &Progress::silent());
    intake.nature = format.nature();
    intake.bipartite = bipartite;
    intake.id_kind = format.id_kind();
    format.read(&mut source, &hints, &mut intake).unwrap();
    Some(intake)
}

struct Set {
    path: &'static str,
    format: &'static str,
    recognised: bool,
    columns: Option<&'static str>,
    bipartite: bool,
    nature: Nature,
    rows: u64,
    vertices: usize,
    self_loops: u64,
}

const fn set(path: &'static str, format: &'static str, nature: Nature, rows: u64, vertices: usize) -> Set {
    Set {
        path,
        format,
        nature,
        rows,
        vertices,
        recognised: true,
        columns: None,
        bipartite: false,
        self_loops: 0,
    }
}

#[rustfmt::skip]
const SETS: &[Set] = &[
    set("collegemsg/CollegeMsg.txt.gz", "snap", Nature::Events, 59_835, 1_899),
    set("bitcoin-otc/soc-sign-bitcoinotc.csv.gz", "signed", Nature::Events, 35_592, 5_881),
    set("bitcoin-alpha/soc-sign-bitcoinalpha.csv.gz", "signed", Nature::Events, 24_186, 3_783),
    Set { self_loops: 3_484, ..set("enron-employees/ia-enron-employees.txt.gz", "konect", Nature::Events, 50_572, 151) },
    set("email-eu-core-temporal/email-Eu-core-temporal.txt.gz", "snap", Nature::Events, 332_334, 986),
    set("wikipedia-edits/wikipedia.txt.gz", "snap", Nature::Events, 157_474, 9_227),
    Set { self_loops: 116_109, ..set("sx-mathoverflow/sx-mathoverflow.txt.gz", "snap", Nature::Events, 506_550, 24_818) },
    Set {
        recognised: false, columns: Some("source,target,time,_"), self_loops: 7_588,
        ..set("higgs-activity/higgs-activity_time.txt.gz", "csv", Nature::Events, 563_069, 304_691)
    },
    Set { self_loops: 573, ..set("epinions-trust/soc-epinions-trust-dir.edges.gz", "konect", Nature::Events, 841_372, 131_828) },
    Set { bipartite: true, ..set("movielens-small/ratings.csv.gz", "csv", Nature::Events, 100_004, 671 + 9_066) },
    Set {
        recognised: false, columns: Some("time,source,target,source_label,target_label"),
        ..set("primary-school/primaryschool.csv.gz", "csv", Nature::Events, 125_773, 242)
    },
    set("sfhh-copresence/tij_pres_SFHH.txt.gz", "snap", Nature::Events, 1_417_485, 403),
    set("dblp-labelled/dblp.txt.gz", "snap", Nature::Events, 185_480, 25_387),
    Set {
        recognised: false, columns: Some("step,source,target,time"), self_loops: 1_584,
        ..set("enron-dysat/enron_16_snapshots.tsv.gz", "csv", Nature::Steps, 22_784, 143)
    },
    Set { self_loops: 34_405, ..set("as-733/deltas.tsv.gz", "deltas", Nature::Changes, 267_043, 7_716) },
    Set { self_loops: 20, ..set("chickenpox/chickenpox.json", "pygt", Nature::Fixed, 102, 20) },
    Set { self_loops: 15, ..set("pedalme/pedalme_london.json", "pygt", Nature::Fixed, 225, 15) },
    set("montevideo-bus/montevideo_bus.json.gz", "pygt", Nature::Fixed, 690, 675),
    Set { self_loops: 7_869, ..set("england-covid/england_covid.json.gz", "pygt", Nature::Steps, 82_529, 129) },
    Set { self_loops: 253, ..set("twitter-tennis/twitter_tennis_rg17.json.gz", "pygt", Nature::Steps, 40_839, 1_000) },
    set("cora/edges.tsv", "static", Nature::Fixed, 5_278, 2_708),
    set("citeseer/edges.tsv", "static", Nature::Fixed, 4_552, 3_327),
    set("pubmed/edges.tsv.gz", "static", Nature::Fixed, 44_324, 19_717),
    set("amazon-photo/edges.tsv.gz", "static", Nature::Fixed, 119_081, 7_650),
    set("facebook-pages/edges.tsv.gz", "static", Nature::Fixed, 170_823, 22_470),
    set("coauthor-physics/edges.tsv.gz", "static", Nature::Fixed, 247_962, 34_493),
    Set { self_loops: 87_442, ..set("cnr-2000/adjacency.txt.gz", "adjacency", Nature::Fixed, 3_216_152, 325_557) },
    Set { self_loops: 207, ..set("metr-la-week/los_adj.csv", "matrix", Nature::Fixed, 2_833, 207) },
];

#[test]
fn counts_are_those_of_the_description() {
    for set in SETS {
        let Some(source) = open(set.path) else { continue };
        match load::detect(&source) {
            Ok(format) => assert_eq!((format.name(), true), (set.format, set.recognised), "{}", set.path),
            Err(error) => assert!(!set.recognised, "{error}"),
        }
        drop(source);
        let mut intake = read(set.path, set.format, set.columns, set.bipartite).unwrap();
        // Vertices without edges are only in the file of labels.
        let labels = Path::new(set.path).with_file_name("nodes.tsv");
        if set.format == "static" {
            read_labels(&mut open(labels.to_str().unwrap()).unwrap(), &mut intake).unwrap();
        }
        let found = (intake.log.len(), intake.ids.len(), intake.self_loops, intake.nature);
        assert_eq!(found, (set.rows, set.vertices, set.self_loops, set.nature), "{}", set.path);
    }
}

#[test]
fn signals_have_a_value_for_every_vertex_and_step() {
    for (path, steps, vertices, width) in [
        ("chickenpox/chickenpox.json", 521, 20, 1),
        ("pedalme/pedalme_london.json", 35, 15, 1),
        ("montevideo-bus/montevideo_bus.json.gz", 744, 675, 1),
        ("england-covid/england_covid.json.gz", 61, 129, 1),
        ("twitter-tennis/twitter_tennis_rg17.json.gz", 120, 1_000, 2),
    ] {
        let Some(intake) = read(path, "pygt", None, false) else { continue };
        assert_eq!(intake.unit, TimeUnit::Step);
        assert_eq!((intake.signal.steps.len(), intake.signal.width), (steps, width), "{path}");
        assert!(intake.signal.steps.iter().all(|values| values.len() == vertices * width), "{path}");
        assert_eq!((intake.targets.steps.len(), intake.targets.width), (steps, 1), "{path}");
        assert!(intake.targets.steps.iter().all(|values| values.len() == vertices), "{path}");
    }
    let Some(mut intake) = read("metr-la-week/los_adj.csv", "matrix", None, false) else { return };
    let mut speeds = open("metr-la-week/los_speed.csv.gz").unwrap();
    read_signal(&mut speeds, &mut intake).unwrap();
    assert_eq!((intake.signal.steps.len(), intake.targets.steps.len()), (2_016, 2_016));
    assert!(intake.signal.steps.iter().flatten().all(|&speed| (1.0..=70.0).contains(&speed)));
}

#[test]
fn classes_and_features_of_static_graphs_are_complete() {
    for (name, classes, unlabelled, splits, features) in [
        ("cora", 7, 0, 1_640, Some((1_433, 49_216))),
        ("citeseer", 6, 15, 1_620, Some((3_703, 105_165))),
        ("pubmed", 3, 0, 1_560, None),
        ("amazon-photo", 8, 0, 0, Some((745, 1_979_909))),
        ("facebook-pages", 4, 0, 0, Some((4_714, 314_583))),
        ("coauthor-physics", 5, 0, 0, Some((8_415, 1_137_311))),
    ] {
        let mut intake = Intake::new(&std::env::temp_dir(), 1 << 30, &Progress::silent());
        let Some(mut nodes) = open(&format!("{name}/nodes.tsv")) else { continue };
        let labels = read_labels(&mut nodes, &mut intake).unwrap();
        let found = (intake.classes.list.len(), labels.unlabelled, labels.splits.len());
        assert_eq!(found, (classes, unlabelled, splits), "{name}");
        let Some((columns, entries)) = features else { continue };
        let mut source = open(&format!("{name}/features.txt.gz")).unwrap();
        let table = read_features(&mut source, FeatureLayout::Auto, &mut intake).unwrap();
        let FeatureTable::Sparse { width, vertices, indices, .. } = table else { panic!("{name} is sparse") };
        assert_eq!((width, indices.len(), vertices.len()), (columns, entries, intake.ids.len()), "{name}");
    }
}

#[test]
fn classes_come_with_the_rows_or_beside_them() {
    let columns = Some("time,source,target,source_label,target_label");
    if let Some(intake) = read("primary-school/primaryschool.csv.gz", "csv", columns, false) {
        assert_eq!((intake.classes.list.len(), intake.classes.of.len()), (11, 242));
    }
    let Some(mut labels) = open("dblp-labelled/node2label.txt") else { return };
    let mut intake = Intake::new(&std::env::temp_dir(), 1 << 30, &Progress::silent());
    read_labels(&mut labels, &mut intake).unwrap();
    assert_eq!((intake.classes.list.len(), intake.classes.of.len()), (10, 25_387));
}

#[test]
fn files_that_hold_no_graph_are_not_taken_for_one() {
    for path in ["metr-la-week/los_speed.csv.gz", "as-733/snapshots.tsv", "movielens-small/README.txt"] {
        let Some(source) = open(path) else { continue };
        assert_eq!(load::detect(&source).ok().map(|format| format.name()), None, "{path}");
    }
}
