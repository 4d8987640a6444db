//! The command as a user meets it.

use crate::fixture::Bench;
use kymo::graph::store::FeatureKind;
use kymo::graph::{Edge, Store};
use std::io::Write;
use std::process::{Command, Stdio};

/// Rows with repeated edges, out of order, with self-loops.
fn rows(count: u64) -> Vec<String> {
    let row = |i: u64| {
        let hash = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (i << 7);
        format!(
            "{} {} {}\n",
            100 + hash % 50,
            100 + (hash >> 20) % 50,
            1_000_000 + i * 10 - (hash >> 40) % 300
        )
    };
    (0..count).map(row).collect()
}

#[test]
fn the_first_commands_of_a_newcomer_work() {
    let bench = Bench::new();
    let answer = bench.kymo("generate arxiv-like --scale 0.002 -o demo");
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(
        answer.out.contains("100 steps") && answer.out.contains("next: kymo inspect demo"),
        "{}",
        answer.out
    );
    let answer = bench.kymo("inspect demo");
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(answer.out.contains("edges"), "{}", answer.out);
    assert_eq!(bench.names(), ["demo"]);
}

#[test]
fn inspect_has_the_promised_keys() {
    let bench = Bench::new();
    bench.file("events.txt", rows(500).concat());
    let summary = bench.json("ingest events.txt --steps 7 -o store");
    let facts = bench.json("inspect store");
    for key in ["vertices", "events", "self_loops", "steps", "edges"] {
        assert_eq!(facts[key], summary[key], "{key}");
    }
    assert_eq!(facts["steps"], 7);
    assert_eq!(facts["events"], 500);
    let steps = facts["per_step"].as_array().unwrap();
    assert_eq!(steps.len(), 7);
    let sum = |key: &str| steps.iter().map(|step| step[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((Some(sum("edges")), sum("events")), (facts["edges"].as_u64(), 500));
}

/// Lives of vertices as a person would read them off the events.
#[test]
fn inspect_shows_when_vertices_come_and_go() {
    let bench = Bench::new();
    // 1 and 2 at all four steps, although 1 rests at the third; 3 at two steps, 4 and 5 at one each.
    let events = ["1 2 0", "1 3 1", "2 3 1", "1 2 1", "2 3 2", "4 5 2", "1 2 3"];
    bench.file("events.txt", events.join("\n"));
    bench.done("ingest events.txt --steps 4 -o store");
    let facts = bench.json("inspect store");
    let steps = facts["per_step"].as_array().unwrap();
    let of = |key: &str| steps.iter().map(|step| step[key].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((of("active"), of("present")), (vec![2, 3, 4, 2], vec![2, 3, 5, 2]));
    assert_eq!(facts["sequences"]["lengths"], serde_json::json!([0, 2, 1, 0, 2]));
    assert_eq!(facts["sequences"]["quartiles"], serde_json::json!([1, 2, 4]));
    let text = bench.done("inspect store").out;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "1 to 4 of 4 steps from first to last edge, mean 2.4, quartiles 1, 2, 4; 2 vertices at all \
                steps";
    assert!(words.contains(told), "{text}");
    assert!(text.contains("present vertices"), "{text}");
    // Where all vertices stay, there is nothing to say.
    bench.file("steady.txt", ["1 2 0", "1 2 1"].join("\n"));
    bench.done("ingest steady.txt --columns source,target,time --steps 2 -o steady");
    assert!(!bench.done("inspect steady").out.contains("sequences"));
}

#[test]
fn lists_and_help_come_from_the_registries() {
    let bench = Bench::new();
    let help = |verb: &str| bench.kymo(&format!("{verb} --help")).out;
    for (what, names, verb) in [
        ("formats", kymo::graph::load::ALL.iter().map(|f| f.name()).collect::<Vec<_>>(), "ingest"),
        ("generators", kymo::graph::generate::ALL.iter().map(|g| g.name()).collect(), "generate"),
    ] {
        let list = bench.json(&format!("list {what}"));
        let listed: Vec<&str> =
            list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(listed[..names.len()], names[..]);
        let text = bench.kymo(&format!("list {what}")).out;
        for name in names {
            assert!(text.contains(name) && help(verb).contains(name), "{name}");
        }
    }
    let (models, text) = (bench.json("list models"), bench.kymo("list models").out);
    let models = models.as_array().unwrap();
    assert_eq!(models.len(), kymo::model::zoo::ALL.len());
    for (listed, recipe) in models.iter().zip(kymo::model::zoo::ALL) {
        assert_eq!(listed["name"], recipe.name);
        assert_eq!(
            (&listed["model"]["paper"], &listed["model"]["weave"]),
            (&recipe.paper.into(), &recipe.parts[2].into())
        );
        assert!(text.contains(recipe.name) && text.contains(recipe.paper));
    }
}

#[test]
fn the_order_of_rows_the_number_of_threads_and_the_compression_do_not_matter() {
    let bench = Bench::new();
    let mut rows = rows(3000);
    rows.sort_by_key(|row| row.split(' ').nth(2).unwrap().trim().to_owned());
    bench.file("sorted.txt", rows.concat());
    // Rows of the same time keep their order: move whole times, not rows.
    let mut times: Vec<Vec<String>> = Vec::new();
    for row in &rows {
        let time = |row: &str| row.split(' ').nth(2).unwrap().to_owned();
        match times.last_mut() {
            Some(last) if time(&last[0]) == time(row) => last.push(row.clone()),
            _ => times.push(vec![row.clone()]),
        }
    }
    times.sort_by_key(|rows| rows[0].bytes().map(u64::from).sum::<u64>() % 97);
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    zipped.write_all(times.concat().concat().as_bytes()).unwrap();
    bench.file("sorted.txt.gz", zipped.finish().unwrap());
    bench.json("ingest sorted.txt --events 100 -o a");
    let run = |threads: &str, input: &str, output: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        let answer = bench.command(
            command
                .env("RAYON_NUM_THREADS", threads)
                .args(["ingest", input, "--events", "100", "-o", output]),
        );
        assert_eq!(answer.code, 0, "{}", answer.err);
    };
    run("1", "sorted.txt.gz", "b");
    run("5", "sorted.txt.gz", "c");
    let (a, b, c) = (bench.files("a"), bench.files("b"), bench.files("c"));
    assert_eq!(b, c);
    for (name, content) in a.iter().filter(|(name, _)| name.ends_with("safetensors")) {
        assert!(&b[name] == content, "{name}");
    }
}

#[test]
fn sorting_on_disk_gives_the_same_store() {
    let bench = Bench::new();
    // More than the least budget holds: the log spills, and the one large step is folded in pieces.
    bench.file("events.txt", rows(700_000).concat());
    bench.json("ingest events.txt --time-unit s --window 3500000s -o roomy --memory 4GiB");
    bench.json("ingest events.txt --time-unit s --window 3500000s -o tight --memory 64MiB");
    let (roomy, tight) =
        (Store::open(&bench.path("roomy")).unwrap(), Store::open(&bench.path("tight")).unwrap());
    assert_eq!((roomy.steps(), tight.steps()), (3, 3));
    for t in 0..3 {
        assert_eq!(roomy.snapshot(t).unwrap(), tight.snapshot(t).unwrap());
    }
    assert_eq!(bench.names(), ["events.txt", "roomy", "tight"]);
    only_files_of_a_store(&bench, "tight");
}

/// Fails where what was sorted on disk is still there.
fn only_files_of_a_store(bench: &Bench, name: &str) {
    for name in bench.files(name).keys() {
        assert!(name == "manifest.json" || name.ends_with(".safetensors"), "{name}");
    }
}

#[test]
fn several_inputs_and_standard_input_are_read() {
    let bench = Bench::new();
    let rows = rows(400);
    bench.file("all.txt", rows.concat());
    bench.file("one.txt", rows[..150].concat());
    bench.file("two.txt", rows[150..].concat());
    bench.json("ingest all.txt -o all");
    bench.json("ingest one.txt two.txt -o parts");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["ingest", "-", "-o", "piped"])
        .current_dir(bench.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(rows.concat().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let arrays = |name: &str| {
        let mut files = bench.files(name);
        files.remove("manifest.json");
        files
    };
    assert!(arrays("all") == arrays("parts") && arrays("all") == arrays("piped"));
}

#[test]
fn generated_stores_are_the_same_for_any_number_of_threads() {
    let bench = Bench::new();
    for (kind, extra) in
        [("uniform", "--undirected"), ("power-law", "--trend stackoverflow"), ("ex500k", "--scale 0.002")]
    {
        for threads in ["1", "4"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
            let args = format!("generate {kind} {extra} --steps 6 --seed 7 -o {kind}-{threads}");
            assert_eq!(
                bench.command(command.env("RAYON_NUM_THREADS", threads).args(args.split_whitespace())).code,
                0
            );
        }
        let store = |threads: &str| bench.files(&format!("{kind}-{threads}"));
        assert!(store("1") == store("4"), "{kind}");
    }
}

#[test]
fn settings_do_what_they_say() {
    let bench = Bench::new();
    bench.file(
        "events.csv",
        "src,dst,timestamp_ms,weight\n1,2,0,2\n1,2,500,3\n2,2,900,1\n2,3,1000,1\n3,1,2500,4\n",
    );
    let open = |args: &str| {
        bench.json(&format!("ingest events.csv {args} -o s --overwrite"));
        Store::open(&bench.path("s")).unwrap()
    };
    let list = |store: &Store, t: usize| -> Vec<(u32, u32, f32)> {
        let snapshot = store.snapshot(t).unwrap();
        snapshot.edges.iter().enumerate().map(|(i, e)| (e.source(), e.target(), snapshot.weight(i))).collect()
    };
    let store = open("--window 1s");
    assert_eq!(store.manifest().time_unit, kymo::graph::time::TimeUnit::Ms);
    assert_eq!(list(&store, 0), [(0, 1, 5.0), (1, 1, 1.0)]);
    assert_eq!(list(&store, 1), [(1, 2, 1.0)]);
    assert_eq!(list(&store, 2), [(2, 0, 4.0)]);
    assert_eq!(list(&open("--window 1s --weight count --self-loops drop"), 0), [(0, 1, 2.0)]);
    assert_eq!(list(&open("--window 1s --weight last"), 0)[0], (0, 1, 3.0));
    assert_eq!(list(&open("--window 1s --weight none"), 0)[0], (0, 1, 1.0));
    assert_eq!(list(&open("--window 1s --undirected --weight none"), 1), [(2, 1, 1.0), (1, 2, 1.0)]);
    assert_eq!(list(&open("--window 1s --edge-life 1"), 1), [(0, 1, 5.0), (1, 1, 1.0), (1, 2, 1.0)]);
    assert_eq!(open("--window 1s --edge-life forever").snapshot(2).unwrap().len(), 4);
    assert_eq!(open("--events 2").steps(), 3);
    assert_eq!(open("--window year").steps(), 1);
    assert_eq!(open("--bipartite").vertices(), 6);
    let summary = bench.json("ingest events.csv --self-loops drop -o s --overwrite");
    assert_eq!(
        (&summary["events"], &summary["self_loops"]),
        (&5.into(), &1.into()),
        "they are facts of the input"
    );
    let degrees = open("--window 1s").features(0).unwrap().into_owned();
    assert_eq!(degrees, [0.0, 1.0, 2.0, 1.0, 0.0, 0.0]);
}

#[test]
fn events_with_labels_and_features_become_those_of_vertices() {
    let bench = Bench::new();
    let header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n";
    bench.file("jodie.csv", format!("{header}0,0,0,0,1,2\n0,1,1,1,3,4\n1,0,5,0,7,8\n"));
    bench.json("ingest jodie.csv --window 3 --features events --segments 2 -o s");
    let store = Store::open(&bench.path("s")).unwrap();
    assert_eq!((store.vertices(), store.manifest().left), (4, Some(2)));
    assert_eq!(store.manifest().labels.classes, ["0", "1"]);
    assert_eq!(store.labels(0).unwrap(), (&[0][..], &[1][..]), "the label of the last event counts");
    assert_eq!(store.labels(1).unwrap(), (&[1][..], &[0][..]));
    assert_eq!(*store.features(0).unwrap(), [2.0, 3.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(*store.features(1).unwrap(), [0.0, 0.0, 7.0, 8.0, 7.0, 8.0, 0.0, 0.0]);
    // Beside degrees by default; not at all, if the user says so.
    let summary = bench.done("ingest jodie.csv --window 3 -o both").out;
    assert!(summary.contains("column 4 label, column 5 feature, column 6 feature\n"), "{summary}");
    assert!(summary.contains("note: features: degrees of each step, and means of 2 feature(s)"), "{summary}");
    let both = Store::open(&bench.path("both")).unwrap();
    let ln = |degree: f32| degree.ln_1p();
    let rows = both.features(1).unwrap().into_owned();
    assert_eq!(rows[4..12], [0.0, ln(1.0), 7.0, 8.0, ln(1.0), 0.0, 7.0, 8.0]);
    let said = &both.manifest().provenance;
    assert_eq!(said["edge_features"], serde_json::json!(["f0", "f1"]));
    assert_eq!(said["feature_columns"][3], "mean of 'f1' over events at it");
    let shown = bench.done("inspect both").out;
    assert!(shown.contains("of edges          2 features, as means by vertex and step: f0, f1"), "{shown}");
    for none in ["--edge-features none", "--features none"] {
        bench.json(&format!("ingest jodie.csv --window 3 {none} -o none --overwrite"));
        let store = Store::open(&bench.path("none")).unwrap();
        assert!(store.manifest().features.kind != FeatureKind::Dense, "{none}");
        assert_eq!(store.labels(1).unwrap(), (&[1][..], &[0][..]), "{none}");
    }
}

#[test]
fn features_of_edges_stand_for_the_events_of_their_step() {
    let bench = Bench::new();
    bench.file("pay.csv", "from,to,day,amount,fee\n1,2,0,10,1\n3,2,0,30,2\n2,2,0,50,6\n1,3,2,20,4\n");
    let rows = |options: &str, step: usize| {
        bench.json(&format!(
            "ingest pay.csv --window 1d --edge-features fee --features events {options} -o s --overwrite"
        ));
        Store::open(&bench.path("s")).unwrap().features(step).unwrap().into_owned()
    };
    // To a vertex, then from it; an edge that lives on carries nothing any more.
    assert_eq!(rows("", 0), [0.0, 1.0, 3.0, 6.0, 0.0, 2.0]);
    assert_eq!(rows("--edge-life 5", 1), [0.0; 6]);
    assert_eq!(rows("--edge-life 5", 2), [0.0, 4.0, 0.0, 0.0, 4.0, 0.0]);
    assert_eq!(rows("--undirected", 0), [1.0, 3.0, 2.0]);
    assert_eq!(rows("--undirected --self-loops drop", 0), [1.0, 1.5, 2.0]);
    // Beside a file of features, and beside a signal.
    bench.file("features.csv", "id,x\n1,0.5\n2,7\n3,8\n");
    bench.json("ingest pay.csv --window 1d --edge-features fee --undirected --features features.csv -o f");
    let beside_file = Store::open(&bench.path("f")).unwrap();
    assert_eq!(*beside_file.features(0).unwrap(), [0.5, 1.0, 7.0, 3.0, 8.0, 2.0]);
    assert_eq!(*beside_file.features(2).unwrap(), [0.5, 4.0, 7.0, 0.0, 8.0, 4.0]);
    bench.file("signal.csv", "1,2,3\n1,2,3\n4,5,6\n7,8,9\n");
    bench.json("ingest pay.csv --window 1d --edge-features fee --undirected --signal signal.csv -o g");
    let beside_signal = Store::open(&bench.path("g")).unwrap();
    assert_eq!(*beside_signal.features(1).unwrap(), [4.0, 0.0, 5.0, 0.0, 6.0, 0.0]);
    assert_eq!(*beside_signal.features(2).unwrap(), [7.0, 4.0, 8.0, 0.0, 9.0, 4.0]);
    // Sparse features have no room for them.
    bench.file("sparse.txt", "id x\n1 3\n2 4 7\n3 9\n");
    let sparse = "--features sparse.txt --feature-layout sparse";
    let error = bench.refused(&format!("ingest pay.csv --edge-features fee {sparse} -o no"));
    assert!(error.contains("--edge-features: features of edges cannot stand beside"), "{error}");
}

#[test]
fn features_of_edges_need_columns_that_carry_them() {
    let bench = Bench::new();
    bench.file("a.csv", "u,i,ts,label,x\n0,0,0,0,1\n");
    bench.file("b.csv", "u,i,ts,label,x,y\n0,0,0,0,1,2\n");
    bench.file("lists.txt", "1 2\n0 2\n0 1\n");
    for (args, expected) in [
        ("a.csv b.csv", "has 2 feature(s) of edges, the input before it 1; read them into separate stores"),
        ("lists.txt --format adjacency --edge-features 2", "inputs of the format adjacency have no columns"),
        (
            "a.csv --edge-features z",
            "--edge-features: 'z' is no column of a.csv, which has u, i, ts, label, x",
        ),
        ("a.csv --edge-features none --features events", "the events of this input carry no features"),
    ] {
        let error = bench.refused(&format!("ingest {args} -o no"));
        assert!(error.contains(expected), "{args}: {error}");
    }
}

#[test]
fn features_of_edges_are_the_same_with_little_memory_and_any_number_of_threads() {
    let bench = Bench::new();
    let mut text = String::from("u,i,ts,label,a,b,c,d,e,f,g,h\n");
    for row in 0..400_000u64 {
        let draw = |place: u64| (row * 7919 + place * 104_729) % 1_000_003;
        text.push_str(&format!("{},{},{},{}", draw(1) % 3000, draw(2) % 900, draw(3) % 700_000, draw(4) % 2));
        (5..13).for_each(|place| text.push_str(&format!(",{}", draw(place) as f64 / 999_983.0 - 0.3)));
        text.push('\n');
    }
    bench.file("events.csv", text);
    // One large step, which is folded in pieces, and small ones.
    let ingest = |memory: &str, threads: &str, name: &str| {
        let args = format!("ingest events.csv --window 600000s --memory {memory} -o {name}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        let answer = bench.command(command.env("RAYON_NUM_THREADS", threads).args(args.split_whitespace()));
        assert_eq!(answer.code, 0, "{}", answer.err);
        Store::open(&bench.path(name)).unwrap()
    };
    let (roomy, tight) = (ingest("4GiB", "3", "roomy"), ingest("64MiB", "1", "tight"));
    for t in 0..roomy.steps() {
        assert_eq!(roomy.snapshot(t).unwrap(), tight.snapshot(t).unwrap());
        let bits = |store: &Store| -> Vec<u32> {
            store.features(t).unwrap().iter().map(|value| value.to_bits()).collect()
        };
        assert_eq!(bits(&roomy), bits(&tight), "step {t}");
        assert_eq!(roomy.labels(t).unwrap(), tight.labels(t).unwrap());
    }
    assert_eq!((roomy.steps(), roomy.manifest().features.width), (2, 10));
    assert_eq!(bench.names(), ["events.csv", "roomy", "tight"]);
    only_files_of_a_store(&bench, "tight");
}

#[test]
fn labels_may_change_from_step_to_step() {
    let bench = Bench::new();
    bench.file("events.txt", "7 8 0\n8 9 10\n9 7 25\n");
    bench.file("labels.csv", "time,node,label\n0,7,good\n4,7,bad\n12,9,good\n25,5,bad\n");
    bench.json("ingest events.txt --format snap --window 10 --labels labels.csv -o s");
    let store = Store::open(&bench.path("s")).unwrap();
    assert_eq!(store.manifest().labels.classes, ["bad", "good"]);
    assert!(!store.manifest().labels.fixed && store.manifest().labels.per_step);
    let labels = |t| store.labels(t).unwrap();
    assert_eq!(
        labels(0),
        (&[1][..], &[0][..]),
        "vertices 5, 7, 8, 9 are 0 to 3; the last label of a step counts"
    );
    assert_eq!((labels(1), labels(2)), ((&[3][..], &[1][..]), (&[0][..], &[0][..])));
    bench.file("late.csv", "time,node,label\n99,7,good\n");
    let answer = bench.kymo("ingest events.txt --format snap --window 10 --labels late.csv -o late");
    assert!(answer.code == 2 && answer.err.contains("found a label at time 99"), "{}", answer.err);
}

#[test]
fn from_static_keeps_what_belongs_to_vertices() {
    let bench = Bench::new();
    let edges: String =
        (0..40).flat_map(|u| (1..5).map(move |d| format!("{u}\t{}\n", (u + d * 7) % 40))).collect();
    bench.file("edges.tsv", edges);
    bench.file("nodes.tsv", (0..40).map(|v| format!("{v}\t{}\ttrain\n", v % 3)).collect::<String>());
    bench.file("features.txt", (0..40).map(|v| format!("{} {}\n", v % 5, 7 + v % 2)).collect::<String>());
    bench.json(
        "ingest edges.tsv --undirected --labels nodes.tsv --features features.txt --feature-layout \
         sparse -o static",
    );
    bench.json("generate from-static static --steps 8 --trend linear -o moving");
    let (before, after) =
        (Store::open(&bench.path("static")).unwrap(), Store::open(&bench.path("moving")).unwrap());
    assert_eq!(after.steps(), 8);
    assert_eq!(
        (before.fixed().unwrap(), before.ids().unwrap()),
        (after.fixed().unwrap(), after.ids().unwrap())
    );
    let whole = before.snapshot(0).unwrap();
    for t in 0..8 {
        let part = after.snapshot(t).unwrap();
        assert!(
            part.len() < whole.len() && part.edges.iter().all(|edge| whole.edges.binary_search(edge).is_ok())
        );
        assert!(part.edges.iter().all(|edge| part.edges.binary_search(&Edge::reversed(*edge)).is_ok()));
    }
}

/// An interrupted command ends by itself, says so, and leaves nothing behind.
#[cfg(unix)]
#[test]
fn an_interruption_leaves_nothing_behind() {
    let bench = Bench::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["ingest", "-", "--format", "snap", "-o", "store"])
        .current_dir(bench.path(""))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(rows(100_000).concat().as_bytes()).unwrap();
    while bench.names().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    // The reader checks for interruption every 65,536 rows: it needs some to go on with.
    while child.try_wait().unwrap().is_none() {
        let _ = input.write_all(rows(20_000).concat().as_bytes());
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped; nothing was written"));
    assert_eq!(bench.names(), [] as [String; 0]);
}

/// The summary says what each column was taken for, and years become steps.
#[test]
fn a_summary_says_what_columns_were_taken_for() {
    let bench = Bench::new();
    let rows: String =
        (0..200).map(|i| format!("{},n{},n{},{}\n", 1990 + i / 20, i % 7, i % 9, i % 5)).collect();
    bench.file("trade.csv", format!("year,nation,nation,value\n{rows}"));
    let summary = bench.json("ingest trade.csv -o trade");
    assert_eq!((summary["steps"].as_u64(), summary["vertices"].as_u64()), (Some(10), Some(9)));
    let columns = summary["columns"].as_array().unwrap();
    let roles: Vec<&str> = columns.iter().map(|column| column["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["time", "source", "target", "weight"]);
    assert_eq!((columns[0]["name"].as_str(), columns[0]["unit"].as_str()), (Some("year"), Some("years")));
    let said = bench.done("ingest trade.csv --steps 4 -o other");
    assert!(said.out.contains("read as: 'year' time (years), 'nation' source"), "{}", said.out);
}
