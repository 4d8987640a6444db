//! Every real data set, read by the command and counted in the store: vertices, rows, self-loops, steps and
//! more, as their publishers state them.

use crate::fixture::{Bench, data};
use kymo::graph::Store;

/// A data set: its files, how it is read, and vertices, rows, self-loops and steps as stated.
struct Set {
    input: &'static str,
    args: &'static str,
    counts: [u64; 4],
}

const fn set(input: &'static str, args: &'static str, counts: [u64; 4]) -> Set {
    Set { input, args, counts }
}

const SETS: &[Set] = &[
    set("collegemsg/CollegeMsg.txt.gz", "--window 190080s", [1899, 59835, 0, 89]),
    set("bitcoin-otc/soc-sign-bitcoinotc.csv.gz", "--window 1200000s", [5881, 35592, 0, 138]),
    set("bitcoin-alpha/soc-sign-bitcoinalpha.csv.gz", "--window 1200000s", [3783, 24186, 0, 137]),
    set("enron-employees/ia-enron-employees.txt.gz", "--window month", [151, 50572, 3484, 38]),
    set(
        "email-eu-core-temporal/email-Eu-core-temporal.txt.gz",
        "--window 7d --time-unit s",
        [986, 332334, 0, 115],
    ),
    set("wikipedia-edits/wikipedia.txt.gz", "--window 1d --time-unit s", [9227, 157474, 0, 31]),
    set("sx-mathoverflow/sx-mathoverflow.txt.gz", "--steps 60", [24818, 506550, 116109, 60]),
    set(
        "higgs-activity/higgs-activity_time.txt.gz",
        "--columns source,target,time,_ --events 10000",
        [304691, 563069, 7588, 57],
    ),
    set(
        "epinions-trust/soc-epinions-trust-dir.edges.gz",
        "--window month --edge-life forever",
        [131828, 841372, 573, 32],
    ),
    set("movielens-small/ratings.csv.gz", "--window year --bipartite --weight last", [9737, 100004, 0, 22]),
    set(
        "primary-school/primaryschool.csv.gz",
        "--columns time,source,target,source_label,target_label --time-unit s --window 1h --undirected",
        [242, 125773, 0, 33],
    ),
    set("sfhh-copresence/tij_pres_SFHH.txt.gz", "", [403, 1417485, 0, 50]),
    set(
        "enron-dysat/enron_16_snapshots.tsv.gz",
        "--columns step,source,target,_ --weight count",
        [143, 22784, 1584, 16],
    ),
    set(
        "dblp-labelled/dblp.txt.gz",
        "--steps 25 --undirected --labels dblp-labelled/node2label.txt",
        [25387, 185480, 0, 25],
    ),
    set("chickenpox/chickenpox.json", "", [20, 102, 20, 521]),
    set("pedalme/pedalme_london.json", "", [15, 225, 15, 35]),
    set("montevideo-bus/montevideo_bus.json.gz", "", [675, 690, 0, 744]),
    set("england-covid/england_covid.json.gz", "", [129, 82529, 7869, 61]),
    set("twitter-tennis/twitter_tennis_rg17.json.gz", "", [1000, 40839, 253, 120]),
    set(
        "metr-la-week/los_adj.csv",
        "--format matrix --signal metr-la-week/los_speed.csv.gz",
        [207, 2833, 207, 2016],
    ),
    set(
        "cora/edges.tsv",
        "--undirected --features cora/features.txt.gz --labels cora/nodes.tsv",
        [2708, 5278, 0, 1],
    ),
    set(
        "citeseer/edges.tsv",
        "--undirected --features citeseer/features.txt.gz --labels citeseer/nodes.tsv",
        [3327, 4552, 0, 1],
    ),
    set("pubmed/edges.tsv.gz", "--undirected --labels pubmed/nodes.tsv", [19717, 44324, 0, 1]),
    set(
        "amazon-photo/edges.tsv.gz",
        "--undirected --features amazon-photo/features.txt.gz --labels amazon-photo/nodes.tsv",
        [7650, 119081, 0, 1],
    ),
    set(
        "facebook-pages/edges.tsv.gz",
        "--undirected --features facebook-pages/features.txt.gz --labels facebook-pages/nodes.tsv",
        [22470, 170823, 0, 1],
    ),
    set(
        "coauthor-physics/edges.tsv.gz",
        "--undirected --features coauthor-physics/features.txt.gz --labels coauthor-physics/nodes.tsv",
        [34493, 247962, 0, 1],
    ),
    set("cnr-2000/adjacency.txt.gz", "--format adjacency", [325557, 3216152, 87442, 1]),
];

/// Reads a set; side files are named relative to the data as the input is.
fn ingest(bench: &Bench, set: &Set, name: &str) -> Option<(serde_json::Value, Store)> {
    let input = data(set.input)?;
    let side = |word: &str| match word.contains('/') {
        true => data(word).map(|path| path.display().to_string()),
        false => Some(word.to_owned()),
    };
    let args: Vec<String> = set.args.split_whitespace().map(side).collect::<Option<_>>()?;
    let summary = bench.json(&format!("ingest {} {} -o {name}", input.display(), args.join(" ")));
    Some((summary, Store::open(&bench.path(name)).unwrap()))
}

#[test]
fn every_set_has_the_stated_counts() {
    let bench = Bench::new();
    for (index, set) in SETS.iter().enumerate() {
        let Some((summary, store)) = ingest(&bench, set, &index.to_string()) else { continue };
        let counts = ["vertices", "events", "self_loops", "steps"].map(|key| summary[key].as_u64().unwrap());
        assert_eq!(counts, set.counts, "{}", set.input);
        store.verify().unwrap();
        std::fs::remove_dir_all(bench.path(&index.to_string())).unwrap();
    }
}

/// Rules that know nothing about links come to little by `mrr-balanced`, on growing graphs and on one with
/// two sides; and by what TGB draws, `inspect` warns of them.
#[test]
fn balanced_pairs_of_real_sets_withstand_attacks() {
    let bench = Bench::new();
    for name in ["collegemsg", "bitcoin-otc", "movielens-small"] {
        let set = SETS.iter().find(|set| set.input.starts_with(name)).unwrap();
        let Some(_) = ingest(&bench, set, name) else { continue };
        let told = bench.json(&format!("inspect {name}"));
        let attacks = told["attacks"].as_object().unwrap();
        let reached = |metric: &str| {
            let others = attacks.iter().filter(|(attack, _)| *attack != "random");
            others.map(|(_, metrics)| metrics[metric].as_f64().unwrap()).fold(0.0, f64::max)
        };
        let chance = attacks["random"]["mrr-balanced"].as_f64().unwrap();
        assert!(reached("mrr-balanced") < 2.25 * chance, "{name}: {} {chance}", reached("mrr-balanced"));
        assert!(reached("mrr-tgb") > 0.25, "{name}: {}", reached("mrr-tgb"));
        let report = bench.done(&format!("inspect {name}")).out;
        assert!(report.contains("Rules that know nothing about links") && report.contains("mrr-tgb: "));
    }
}

#[test]
fn no_window_of_the_published_sizes_is_empty() {
    let bench = Bench::new();
    for (index, set) in SETS[..3].iter().enumerate() {
        let Some((_, store)) = ingest(&bench, set, &index.to_string()) else { continue };
        assert!(
            (0..store.steps())
                .all(|t| store.events(t).unwrap() > 0 && !store.snapshot(t).unwrap().is_empty())
        );
    }
}

/// The data set comes with a table of its 733 snapshots: vertices, edges, self-loops, edges added and
/// removed.
#[test]
fn all_733_snapshots_of_the_autonomous_systems_are_as_their_table_says() {
    let (Some(deltas), Some(table)) = (data("as-733/deltas.tsv.gz"), data("as-733/snapshots.tsv")) else {
        return;
    };
    let bench = Bench::new();
    for undirected in ["", "--undirected"] {
        let summary = bench.json(&format!("ingest {} {undirected} -o store --overwrite", deltas.display()));
        assert_eq!(summary["edges"], 6_260_128);
        assert_eq!(summary["events"], 267_043);
        let inspected = bench.json("inspect store");
        let steps = inspected["per_step"].as_array().unwrap();
        let table = std::fs::read_to_string(&table).unwrap();
        assert_eq!((steps.len(), table.lines().count()), (733, 733));
        let store = Store::open(&bench.path("store")).unwrap();
        let directed = undirected.is_empty();
        let mut walk = store.walk();
        for (line, step) in table.lines().zip(steps) {
            let stated: Vec<u64> = line
                .split('\t')
                .enumerate()
                .filter(|(i, _)| *i != 1)
                .map(|(_, x)| x.parse().unwrap())
                .collect();
            let stop = walk.step().unwrap().unwrap();
            let count = |list: &[(kymo::graph::Edge, f32)]| {
                list.iter().filter(|(edge, _)| directed || edge.source() <= edge.target()).count() as u64
            };
            let found = ["step", "active", "edges", "self_loops"].map(|key| step[key].as_u64().unwrap());
            assert_eq!(found[..], stated[..4], "{line}");
            assert_eq!([count(&stop.delta.added), count(&stop.delta.removed)][..], stated[4..], "{line}");
        }
    }
}

#[test]
fn snapshots_features_classes_and_signals_are_as_published() {
    let bench = Bench::new();
    let open = |name: &str| {
        let set = SETS.iter().find(|set| set.input.starts_with(name)).unwrap();
        let store = bench.path(&name.replace('/', ""));
        if store.exists() {
            return Some(Store::open(&store).unwrap());
        }
        ingest(&bench, set, &name.replace('/', "")).map(|(_, store)| store)
    };
    if let Some(store) = open("enron-dysat/") {
        assert_eq!(store.manifest().edges, 2347);
    }
    if let Some(store) = open("primary-school/") {
        let names = ["1A", "1B", "2A", "2B", "3A", "3B", "4A", "4B", "5A", "5B", "Teachers"];
        assert_eq!(store.manifest().labels.classes, names);
        let classes = store.fixed().unwrap().classes;
        let sizes: Vec<usize> =
            (0..11).map(|class| classes.iter().filter(|&&c| c == class).count()).collect();
        assert_eq!(sizes, [23, 25, 23, 26, 23, 22, 21, 23, 22, 24, 10]);
    }
    if let Some(store) = open("dblp-labelled/") {
        assert_eq!(store.manifest().labels.classes.len(), 10);
        let mut all: Vec<_> = (0..25).flat_map(|t| store.snapshot(t).unwrap().edges.to_vec()).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.iter().filter(|edge| edge.source() <= edge.target()).count(), 119_899);
    }
    for (name, width, entries, classes) in [
        ("cora/", 1433, 49216, 7),
        ("citeseer/", 3703, 105165, 6),
        ("amazon-photo/", 745, 1979909, 8),
        ("facebook-pages/", 4714, 314583, 4),
        ("coauthor-physics/", 8415, 1137311, 5),
    ] {
        let Some(store) = open(name) else { continue };
        let sparse = store.fixed().unwrap().sparse.unwrap();
        assert_eq!((sparse.width, sparse.values.len()), (width, entries), "{name}");
        assert_eq!(store.manifest().labels.classes.len(), classes, "{name}");
    }
    if let Some(store) = open("citeseer/") {
        assert_eq!(store.fixed().unwrap().classes.iter().filter(|&&class| class == -1).count(), 15);
    }
    if let Some(store) = open("cora/") {
        let splits = store.fixed().unwrap().splits;
        assert_eq!(
            [1, 2, 3].map(|part| splits.iter().filter(|&&split| split == part).count()),
            [140, 500, 1000]
        );
    }
    if let Some(store) = open("chickenpox/") {
        assert_eq!(store.ids().unwrap().name(0), "BACS");
        assert_eq!(store.features(520).unwrap().len(), 20);
        assert_eq!(store.targets(520).unwrap().1, &*store.features(520).unwrap());
        assert_eq!(store.snapshot(0).unwrap(), store.snapshot(520).unwrap());
    }
    if let Some(store) = open("twitter-tennis/") {
        assert_eq!(store.ids().unwrap().name(1), "RafaelNadal");
        assert_eq!(
            (store.manifest().features.width, store.features(0).unwrap()[..2].to_vec()),
            (2, vec![29.0, 0.022167487])
        );
        assert_eq!(store.targets(0).unwrap().1[..5], [181.0, 7.0, 4.0, 1.0, 4.0]);
    }
    if let Some(store) = open("england-covid/") {
        assert_eq!(store.manifest().edges, 82529);
        let sizes: Vec<usize> = (0..61).map(|t| store.snapshot(t).unwrap().len()).collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&836), Some(&2158)));
    }
    if let Some(store) = open("metr-la-week/") {
        let values: Vec<f32> = (0..2016).flat_map(|t| store.features(t).unwrap().into_owned()).collect();
        assert!(values.iter().all(|value| (1.0..=70.0).contains(value)));
    }
}
