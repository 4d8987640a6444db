//! `kymo predict`: a table with the original ids.

use std::collections::BTreeSet;

use safetensors::SafeTensors;

use crate::fixture::Bench;

/// Names as people have them: with commas and quotes.
const NAMES: [&str; 5] = ["Doe, Jane", "5\" disk", "plain", "a \"b\", c", "größe"];

/// The fields of a line of CSV, read as other programs do.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut inside) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if inside && letters.peek() == Some(&'"') => {
                letters.next();
                fields.last_mut().unwrap().push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => fields.push(String::new()),
            letter => fields.last_mut().unwrap().push(letter),
        }
    }
    assert!(!inside, "{line} has an open quote");
    fields
}

/// The rows of a table, without the step they are about and the horizon, which all of them must have, and
/// without the header, which must be this one.
fn rows(bench: &Bench, name: &str, [step, horizon]: [&str; 2], header: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(bench.path(name)).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert_eq!(first, format!("step,horizon,{header}"));
    let without = |line| {
        let mut fields = fields(line);
        let about: Vec<String> = fields.drain(..2).collect();
        assert_eq!(about, [step, horizon], "{line}");
        fields
    };
    rest.lines().map(without).collect()
}

/// A store called `named` of twenty steps between people with difficult names, two of whom have classes.
fn make_named(bench: &Bench) {
    let count = NAMES.len();
    let mut events = String::from("source;target;time\n");
    let mut labels = String::from("step;vertex;class\n");
    for step in 0..20 {
        for (index, name) in NAMES.iter().enumerate() {
            events.push_str(&format!("{name};{};{step}\n", NAMES[(index + 1 + step % 3) % count]));
        }
        labels.push_str(&format!("{step};{};good\n{step};{};so, so\n", NAMES[0], NAMES[1]));
    }
    bench.file("events.csv", events);
    bench.file("labels.csv", labels);
    bench.done("ingest events.csv --ids text --window 1 --labels labels.csv -o named");
}

#[test]
fn values_have_the_ids_of_their_vertices() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 2 -o run");
    let answer = bench.done("predict run -o out.csv");
    let said = "60 predictions about step 20, by what is known up to step 19, in out.csv\n";
    assert_eq!(answer.out, said);
    let next = rows(&bench, "out.csv", ["20", "1"], "vertex,value");
    assert_eq!(next.len(), 60);
    for (vertex, row) in next.iter().enumerate() {
        assert_eq!(row[0], vertex.to_string());
        assert!(row[1].parse::<f32>().unwrap().is_finite(), "{row:?}");
    }
    let before = std::fs::read(bench.path("out.csv")).unwrap();
    let error = bench.refused("predict run --step 7 -o out.csv");
    assert_eq!(error, "--output: out.csv is there already; --overwrite replaces it");
    assert_eq!(std::fs::read(bench.path("out.csv")).unwrap(), before);
    bench.done("predict run --step 7 -o out.csv --overwrite");
    assert_ne!(rows(&bench, "out.csv", ["8", "1"], "vertex,value"), next, "another step, other predictions");
    bench.done("predict run --step 19 -o out.csv --overwrite");
    assert_eq!(rows(&bench, "out.csv", ["20", "1"], "vertex,value"), next, "the last step is the default");
    let error = bench.refused("predict run --step 20 -o none.csv");
    assert_eq!(error, "--step: found 20, but the steps of the store are 0 to 19");
    assert!(bench.refused("predict run -o none/out.csv").starts_with("cannot write none/out.csv: "));
}

#[test]
fn classes_and_names_with_commas_and_quotes_survive() {
    let bench = Bench::new();
    make_named(&bench);
    bench.done("train named --task node-classification --epochs 3 -o run");
    bench.done("predict run -o out.csv");
    let rows = rows(&bench, "out.csv", ["20", "1"], "vertex,class,probability");
    let mut names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    names.sort_unstable();
    let mut expected = NAMES;
    expected.sort_unstable();
    assert_eq!(names, expected);
    for row in &rows {
        assert!(["good", "so, so"].contains(&row[1].as_str()), "{row:?}");
        let probability: f64 = row[2].parse().unwrap();
        assert!((0.5..=1.0).contains(&probability), "the likelier of two classes: {row:?}");
    }
}

/// Which edges will be there is not known, so edges of steps that are there are told about, all of them.
#[test]
fn edges_that_are_there_are_told_about_and_others_are_not() {
    let bench = Bench::new();
    bench.make_weighted();
    let input = std::fs::read_to_string(bench.path("weighted.csv")).unwrap();
    let weight = |step: &str, row: &[String]| {
        let key = format!("{step},{},{},", row[0], row[1]);
        let found = input.lines().rfind(|line| line.starts_with(&key)).unwrap();
        found.rsplit(',').next().unwrap().parse::<f64>().unwrap()
    };
    for (task, header) in [("edge-regression", "value"), ("edge-classification", "class,probability")] {
        let answer = bench.done(&format!("train weighted --task {task} --epochs 2 -o {task}"));
        let next = format!("kymo predict {task} --split test -o predictions.csv\n");
        assert!(answer.out.ends_with(&next), "{}", answer.out);
        let error = bench.refused(&format!("predict {task} -o out.csv"));
        assert!(error.starts_with("--step: step 20 is not in the store"), "{error}");
        assert!(error.contains("ask for a step before 19") && error.contains("--split test"), "{error}");
        bench.done(&format!("predict {task} --step 15 -o {task}.csv"));
        let told = rows(&bench, &format!("{task}.csv"), ["16", "1"], &format!("source,target,{header}"));
        let edges = |line: &&str| line.starts_with("16,");
        let pairs: BTreeSet<&str> =
            input.lines().filter(edges).map(|line| line.rsplit_once(',').unwrap().0).collect();
        assert_eq!(told.len(), pairs.len(), "every edge of the step once");
        bench.done(&format!("predict {task} --split test -o {task}-test.csv"));
        let text = std::fs::read_to_string(bench.path(&format!("{task}-test.csv"))).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next().unwrap(), format!("step,horizon,source,target,{header},truth"));
        let mut steps = BTreeSet::new();
        for line in lines {
            let fields = fields(line);
            let weight = weight(&fields[0], &fields[2..]);
            let truth = match task {
                "edge-regression" => weight.to_string(),
                _ if weight < 0.0 => "negative".into(),
                _ => "positive".into(),
            };
            assert_eq!(fields.last(), Some(&truth), "{line}");
            steps.insert(fields[0].clone());
        }
        assert!(steps.len() > 1 && steps.contains("19"), "{steps:?}");
    }
}

#[test]
fn links_are_ranked_for_every_source() {
    let bench = Bench::new();
    make_named(&bench);
    bench.done("train named --task link-prediction --epochs 2 -o run");
    // No vertex is linked to itself in this data, so none is a target of its own.
    for (options, each) in [("--top 2", 2), ("", NAMES.len() - 1)] {
        bench.done(&format!("predict run {options} -o out.csv --overwrite"));
        let rows = rows(&bench, "out.csv", ["20", "1"], "source,target,score,probability");
        assert_eq!(rows.len(), each * NAMES.len());
        for group in rows.chunks(each) {
            let scores: Vec<f32> = group.iter().map(|row| row[2].parse().unwrap()).collect();
            assert!(scores.is_sorted_by(|a, b| a >= b), "{group:?}");
            for (row, &score) in group.iter().zip(&scores) {
                let (told, odds) = (row[3].parse::<f64>().unwrap(), f64::from(score).exp());
                assert!((told - odds / (1.0 + odds)).abs() < 1e-6, "{row:?}");
            }
            assert!(
                group
                    .iter()
                    .all(|row| row[0] == group[0][0] && row[1] != row[0] && NAMES.contains(&row[1].as_str()))
            );
        }
        let mut sources: Vec<&str> = rows.iter().step_by(each).map(|row| row[0].as_str()).collect();
        sources.dedup();
        assert_eq!(sources.len(), NAMES.len());
    }
}

/// A table says what it is about, also when it lies alone.
#[test]
fn the_step_that_is_predicted_follows_from_the_horizon() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 --set task.horizon=3 -o run");
    bench.done("predict run --step 7 -o out.csv");
    assert_eq!(rows(&bench, "out.csv", ["10", "3"], "vertex,value").len(), 60);
    // Links are always those of the next step.
    bench.done("train small --task link-prediction --epochs 1 --set task.horizon=3 -o links");
    bench.done("predict links -o links.csv");
    assert!(!rows(&bench, "links.csv", ["20", "1"], "source,target,score,probability").is_empty());
}

/// Classes that never change are about the step that the model sees.
#[test]
fn classes_that_never_change_have_no_horizon() {
    let bench = Bench::new();
    make_named(&bench);
    let labels: String = NAMES.iter().map(|name| format!("{name};good\n")).collect();
    bench.file("fixed.csv", format!("vertex;class\n{}", labels.replacen("good", "bad", 2)));
    bench.done("ingest events.csv --ids text --window 1 --labels fixed.csv -o fixed");
    bench.done("train fixed --task node-classification --epochs 1 -o run");
    bench.done("predict run -o out.csv");
    assert_eq!(rows(&bench, "out.csv", ["19", "0"], "vertex,class,probability").len(), NAMES.len());
}

/// All of a part, with what came true: the mean squared error of the file is that of the evaluation, for all
/// horizons together and for each.
#[test]
fn all_of_a_part_comes_with_the_truth_and_gives_the_metrics_again() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 2 --set task.horizons=1,3 -o run");
    let said = bench.done("predict run --split test -o out.csv").out;
    assert!(said.contains("predictions of the part for test, with the truth, in out.csv"), "{said}");
    let text = std::fs::read_to_string(bench.path("out.csv")).unwrap();
    let (header, lines) = text.split_once('\n').unwrap();
    assert_eq!(header, "step,horizon,vertex,value,truth");
    let lines: Vec<Vec<String>> = lines.lines().map(fields).collect();
    let error = |horizon: Option<&str>| {
        let rows = lines.iter().filter(|row| horizon.is_none_or(|horizon| row[1] == horizon));
        let squares: Vec<f64> = rows
            .map(|row| (row[3].parse::<f64>().unwrap() - row[4].parse::<f64>().unwrap()).powi(2))
            .collect();
        squares.iter().sum::<f64>() / squares.len() as f64
    };
    let test = bench.json("evaluate run");
    let near = |found: f64, told: &serde_json::Value| (found / told.as_f64().unwrap() - 1.0).abs() < 1e-4;
    assert!(near(error(None), &test["metrics"]["mse"]), "{} {}", error(None), test["metrics"]);
    for (number, horizon) in ["1", "3"].into_iter().enumerate() {
        let slice = &test["slices"][number];
        assert_eq!(slice["name"], format!("horizon {horizon}"));
        assert_eq!(slice["count"], lines.iter().filter(|row| row[1] == horizon).count());
        assert!(near(error(Some(horizon)), &slice["metrics"]["mse"]), "{horizon}: {slice}");
    }
    let table = bench.done("evaluate run").out;
    assert!(table.contains("\nhorizon 3 ") && table.contains("best baseline"), "{table}");
    let both = bench.kymo("predict run --split test --step 3 -o none.csv");
    assert!(both.err.contains("cannot be used with") && !bench.path("none.csv").exists(), "{}", both.err);
}

/// Classes and links have a truth, too.
#[test]
fn classes_and_links_of_a_part_have_a_truth() {
    let bench = Bench::new();
    make_named(&bench);
    bench.done("train named --task node-classification --epochs 1 -o classes");
    bench.done("predict classes --split validation -o classes.csv");
    let text = std::fs::read_to_string(bench.path("classes.csv")).unwrap();
    assert!(text.starts_with("step,horizon,vertex,class,probability,truth\n"), "{text}");
    // Two vertices have classes, at each of the steps of the part.
    let truths: Vec<(String, String)> =
        text.lines().skip(1).map(fields).map(|row| (row[2].clone(), row[5].clone())).collect();
    assert!(!truths.is_empty() && truths.len().is_multiple_of(2));
    for (vertex, class) in truths {
        assert_eq!(class, if vertex == NAMES[0] { "good" } else { "so, so" }, "{vertex}");
    }
    bench.done("train named --task link-prediction --epochs 1 -o links");
    bench.done("predict links --split test --top 5 -o links.csv");
    let text = std::fs::read_to_string(bench.path("links.csv")).unwrap();
    assert!(text.starts_with("step,horizon,source,target,score,probability,truth\n"), "{text}");
    for row in text.lines().skip(1).map(fields) {
        let place = |name: &String| NAMES.iter().position(|known| known == name).unwrap();
        let step: usize = row[0].parse().unwrap();
        let is_link = place(&row[3]) == (place(&row[2]) + 1 + step % 3) % NAMES.len();
        assert_eq!(row[6], if is_link { "1" } else { "0" }, "{row:?}");
    }
}

/// Embeddings are what the head reads: with its weights, from the checkpoint, they make the probabilities
/// that the run predicts, in windows and step by step; other programs read the file.
#[test]
fn embeddings_are_what_the_head_reads() {
    let bench = Bench::new();
    make_named(&bench);
    for mode in ["windows", "truncated"] {
        let run = format!("run-{mode}");
        // Without what the classes of others say, which the head reads as well.
        let options = format!("--mode {mode} --epochs 3 --set task.labels=false");
        bench.done(&format!("train named --task node-classification {options} -o {run}"));
        bench.done(&format!("predict {run} --step 11 -o out.csv --overwrite"));
        let told = rows(&bench, "out.csv", ["12", "1"], "vertex,class,probability");
        let answer = bench.done(&format!("predict {run} --step 11 --embeddings -o {run}.safetensors"));
        let said = format!("5 embeddings of 32 columns, up to step 11, in {run}.safetensors\n");
        assert_eq!(answer.out, said);
        let bytes = std::fs::read(bench.path(&format!("{run}.safetensors"))).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let whole = |name: &str| file.tensor(name).unwrap();
        assert_eq!(whole("embeddings").shape(), [1, 5, 32]);
        assert_eq!(whole("step").data(), 11u64.to_le_bytes());
        let starts: Vec<u64> = words(whole("name.at").data());
        let names: Vec<&[u8]> =
            starts.windows(2).map(|ends| &whole("name").data()[ends[0] as usize..ends[1] as usize]).collect();
        assert_eq!(BTreeSet::from_iter(names.iter().copied()), BTreeSet::from(NAMES.map(str::as_bytes)));
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(header.is_multiple_of(8), "arrays are aligned where the file is mapped: {header}");
        let checkpoint = bench.of_run(&run, "checkpoint.safetensors");
        let checkpoint = SafeTensors::deserialize(&checkpoint).unwrap();
        let parameter = |name: &str| {
            let named = |full: &&&str| full.ends_with(name) && full.contains("best");
            let names = checkpoint.names();
            numbers(checkpoint.tensor(names.iter().find(named).unwrap()).unwrap().data())
        };
        let (weight, bias) = (parameter("head.weight"), parameter("head.bias"));
        let rows = numbers(whole("embeddings").data());
        for (name, row) in names.iter().zip(rows.chunks(32)) {
            let score = |class: usize| {
                bias[class] + row.iter().enumerate().map(|(k, x)| x * weight[2 * k + class]).sum::<f32>()
            };
            let likelier = 1.0 / (1.0 + (-(score(0) - score(1)).abs()).exp());
            let told = told.iter().find(|row| row[0].as_bytes() == *name).unwrap();
            let probability: f32 = told[2].parse().unwrap();
            assert!((probability - likelier).abs() < 1e-4, "{mode}: {told:?} {likelier}");
        }
    }
    bench.make_small();
    bench.done("train small --epochs 1 -o values");
    bench.done("predict values --split test --embeddings -o values.safetensors");
    let bytes = std::fs::read(bench.path("values.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let steps: Vec<u64> = words(file.tensor("step").unwrap().data());
    assert!(steps.len() > 1 && steps.windows(2).all(|pair| pair[1] == pair[0] + 1), "{steps:?}");
    assert_eq!(file.tensor("embeddings").unwrap().shape(), [steps.len(), 60, 32]);
    assert_eq!(words(file.tensor("id").unwrap().data()), (0..60).collect::<Vec<u64>>());
    let error = bench.refused("predict values --embeddings -o values.safetensors");
    assert_eq!(error, "--output: values.safetensors is there already; --overwrite replaces it");
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|number| f32::from_le_bytes(number.try_into().unwrap())).collect()
}
