//! Files as people have them (tests/messy, with the script that wrote them): each is read rightly, or refused
//! with a reason. docs/messy-files.md shows what comes of each, and is held against it here.

use std::path::{Path, PathBuf};

use kymo_graph::Progress;
use kymo_graph::load::{self, EdgeFeatures, Hints, IdKind, Intake, Source};
use kymo_graph::random::Random;
use kymo_graph::time::DateOrder;

use super::columns;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messy")
}

fn read(path: &Path, hints: &Hints) -> kymo_graph::Result<(&'static str, Intake)> {
    let mut source = Source::open(path, &Progress::silent())?;
    let format = match &hints.columns {
        Some(_) => load::find("csv")?,
        None => load::detect(&mut source, hints)?,
    };
    let mut intake = Intake::new(&std::env::temp_dir(), 64 << 20, &Progress::silent());
    intake.nature = format.nature();
    intake.bipartite = format.bipartite();
    intake.id_kind = format.id_kind();
    format.read(&mut source, hints, &mut intake)?;
    Ok((format.name(), intake))
}

/// The hints that options of the command make.
fn hints(options: &str) -> Hints {
    let words: Vec<&str> = options.split_whitespace().collect();
    let mut hints = Hints::default();
    for pair in words.chunks(2) {
        match pair {
            ["--columns", names] => hints.columns = columns(names).columns,
            ["--decimal", "comma"] => hints.style.decimal_comma = true,
            ["--dates", "mdy"] => hints.style.dates = Some(DateOrder::Mdy),
            ["--edge-features", names] => {
                hints.edge_features = EdgeFeatures::Named(names.split(',').map(String::from).collect());
            }
            ["--dates", "dmy"] => hints.style.dates = Some(DateOrder::Dmy),
            other => panic!("an option that the test does not know: {other:?}"),
        }
    }
    hints
}

/// A row of the table: the file, its first line, and what comes of it.
fn outcome(name: &str, truth: &str, options: &str) -> String {
    let path = folder().join(name);
    let result = match read(&path, &hints(options)) {
        Err(error) => {
            let text = error.to_string().replace(&path.display().to_string(), name);
            format!("refused: {text}")
        }
        Ok((format, intake)) => {
            let words: Vec<&str> = intake.read_as.iter().map(|column| column.word()).collect();
            if words.join(",") != truth {
                return format!("WRONG {name}, {format}: {} instead of {truth}\n", words.join(","));
            }
            let columns: Vec<String> = intake.read_as.iter().map(|column| column.to_string()).collect();
            let ids = if intake.id_kind == IdKind::Text { "names" } else { "numbers" };
            format!("read as {}; {} rows, ids are {ids}", columns.join(", "), intake.log.len())
        }
    };
    let asked = if options.is_empty() { String::new() } else { format!(" with `{options}`") };
    format!("| `{name}`{asked} | {} |\n", result.replace('|', "\\|"))
}

/// Nothing is read wrongly without a word, and the table in the documentation is what happens.
#[test]
fn messy_files_are_read_rightly_or_refused() {
    let truth = std::fs::read_to_string(folder().join("truth.tsv")).unwrap();
    let table: String = truth
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            outcome(fields[0], fields[1], fields[2])
        })
        .collect();
    let wrong: Vec<&str> = table.lines().filter(|line| line.starts_with("WRONG")).collect();
    assert_eq!(wrong, [""; 0]);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/messy-files.md");
    let text = std::fs::read_to_string(&page).unwrap_or_default();
    let begin = text.find("|---|---|\n").map_or(text.len(), |at| at + "|---|---|\n".len());
    if std::env::var_os("KYMO_WRITE_TABLE").is_some() {
        std::fs::write(&page, format!("{}{table}", &text[..begin])).unwrap();
    }
    assert_eq!(
        &text[begin..],
        table,
        "set KYMO_WRITE_TABLE=1 to write docs/messy-files.md again, and read it"
    );
}

/// Wherever the time and the weight stand, with a header or without, in any order of rows: a table is read as
/// what it is.
#[test]
fn columns_are_told_in_any_order() {
    let (random, mut drawn) = (Random::new(17), 0);
    let mut below = |end: u64| {
        drawn += 1;
        random.word(drawn) % end
    };
    let mut rows: Vec<[String; 4]> = (0..300)
        .map(|row| {
            let (source, target) = (below(50), below(50));
            let weight = below(1000) as f64 / 8.0 - 20.0;
            [
                source.to_string(),
                target.to_string(),
                weight.to_string(),
                (1_500_000_000 + 60 * row).to_string(),
            ]
        })
        .collect();
    let words = ["source", "target", "weight", "time"];
    let orders = [[0, 1, 2, 3], [0, 1, 3, 2], [0, 3, 1, 2], [3, 0, 1, 2], [3, 2, 0, 1]];
    for sorted_by in [3, 0] {
        rows.sort_by_key(|row| row[sorted_by].parse::<u64>().unwrap());
        for order in orders {
            for header in ["", "this,that,such,other\n"] {
                let row = |row: &[String; 4]| order.map(|column| row[column].clone()).join(",") + "\n";
                let text = header.to_owned() + &rows.iter().map(row).collect::<String>();
                let mut source = Source::from_bytes("f", text.into()).unwrap();
                let format = load::detect(&mut source, &Hints::default()).unwrap();
                let mut intake = Intake::new(&std::env::temp_dir(), 64 << 20, &Progress::silent());
                format.read(&mut source, &Hints::default(), &mut intake).unwrap();
                // Under a name that is not known, or before the target, a column is no weight.
                let place = |wanted: usize| order.iter().position(|&column| column == wanted);
                let expected = order.map(|column| match words[column] {
                    "weight" if !header.is_empty() || place(2) < place(1) => "_",
                    word => word,
                });
                let found: Vec<&str> = intake.read_as.iter().map(|column| column.word()).collect();
                assert_eq!(found, expected, "{order:?}, sorted by {sorted_by}, {header}");
                assert_eq!(intake.log.len(), 300);
            }
        }
    }
}
