//! How values are written: quotes, decimal commas, dates, missing values, bounds; and what reaches the store.

use std::path::PathBuf;

use super::{columns, read, shown};
use kymo_graph::cut::{Cut, Life, WeightRule};
use kymo_graph::ingest::{Settings, ingest};
use kymo_graph::load::Hints;
use kymo_graph::load::row::Style;
use kymo_graph::time::{DateOrder, TimeUnit};
use kymo_graph::{Ids, Progress, Store};

fn dated(order: DateOrder) -> Hints {
    Hints { style: Style { dates: Some(order), ..Style::default() }, ..Hints::default() }
}

/// Writes files into a folder, ingests the first, and hands the store over with its folder.
fn stored(files: &[(&str, &str)], settings: Settings) -> Result<(Store, tempfile::TempDir), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, text) in files {
        std::fs::write(path(name), text).unwrap();
    }
    let beside = |file: Option<PathBuf>| file.map(|file| folder.path().join(file));
    let settings = Settings {
        signal: beside(settings.signal.clone()),
        labels: beside(settings.labels.clone()),
        ..settings
    };
    let outcome = ingest(&[path(files[0].0)], &path("store"), &settings, &Progress::silent());
    let place = format!("{}/", folder.path().display());
    let outcome = outcome.map_err(|error| error.to_string().replace(&place, ""))?;
    Ok((outcome.store, folder))
}

#[test]
fn quoted_names_may_hold_quotes_and_line_ends() {
    let text = "ts,u,v\n1,\"a\nb\",\"say \"\"hi\"\"\"\n2,\"a\nb\",c\n";
    let intake = read("tgb", &Hints::default(), text).unwrap();
    assert_eq!(shown(intake), ["a\nb say \"hi\" 1 1", "a\nb c 2 1"]);
    // Without a header, the first row counts as well.
    let hints = Hints { delimiter: Some(b','), ..columns("time,source,target,_") };
    let intake = read("csv", &hints, "1,2,3,\"two\nlines\"\n4,5,6,x\n").unwrap();
    assert_eq!(shown(intake), ["2 3 1 1", "5 6 4 1"]);
}

#[test]
fn decimal_commas_are_read_by_option_and_named_without_it() {
    let text = "source;target;time;weight\n1;2;0,5;3,5\n2;3;1;-4\n";
    let error = read("csv", &Hints::default(), text).err().unwrap().to_string();
    assert!(error.contains("f, line 2, column 3 (time): found '0,5'") && error.contains("--decimal comma"));
    let hints = Hints { style: Style { decimal_comma: true, ..Style::default() }, ..Hints::default() };
    let plain = ["1 2 0.5 3.5", "2 3 1 -4"];
    assert_eq!(shown(read("csv", &hints, text).unwrap()), plain);
    // Blanks between the fields, and no header that would show them.
    let bare = Hints { columns: columns("source,target,time,weight").columns, ..hints };
    assert_eq!(shown(read("csv", &bare, "1 2 0,5 3,5\n2 3 1 -4\n").unwrap()), plain);
}

#[test]
fn dates_in_other_orders_are_read_by_option_and_named_without_it() {
    let text = "source,target,date\n1,2,01/02/1970 12:00 AM\n2,3,01/03/1970\n";
    let error = read("csv", &Hints::default(), text).err().unwrap().to_string();
    assert!(
        error.contains("line 2, column 3 (time)") && error.contains("--dates mdy or --dates dmy"),
        "{error}"
    );
    let intake = read("csv", &dated(DateOrder::Mdy), text).unwrap();
    assert_eq!((intake.unit, intake.range), (TimeUnit::Date, Some((86400.0, 172800.0))));
    let intake = read("csv", &dated(DateOrder::Dmy), text).unwrap();
    assert_eq!(intake.range, Some((31.0 * 86400.0, 59.0 * 86400.0)));
    // Years first need no option, but eight digits do: they may count seconds.
    let first = read("csv", &Hints::default(), "u,v,date\n1,2,1970/01/02\n").unwrap();
    assert_eq!((first.unit, first.range), (TimeUnit::Date, Some((86400.0, 86400.0))));
    let digits = "u,v,t\n1,2,19700102\n";
    assert_eq!(read("csv", &Hints::default(), digits).unwrap().range, Some((19700102.0, 19700102.0)));
    assert_eq!(read("csv", &dated(DateOrder::Ymd), digits).unwrap().range, Some((86400.0, 86400.0)));
}

#[test]
fn missing_vertices_are_refused_and_quoted_ones_are_names() {
    for missing in ["", "NA", "nan", "null", "None", "-"] {
        let error = read("tgb", &Hints::default(), &format!("ts,u,v\n1,a,b\n2,{missing},b\n"));
        let error = error.err().unwrap().to_string();
        assert!(error.starts_with("f, line 3, column 2 (source): found"), "{missing}: {error}");
    }
    assert_eq!(shown(read("tgb", &Hints::default(), "ts,u,v\n1,\"NA\",b\n").unwrap()), ["NA b 1 1"]);
}

#[test]
fn weights_that_are_missing_can_be_left_unread() {
    let files = [("f", "u,v,t,w\n1,2,0,3\n1,2,1,NA\n")];
    let settings = |weight| Settings { weight, cut: Some(Cut::Steps(1)), ..Settings::default() };
    let error = stored(&files, settings(None)).unwrap_err();
    assert!(error.starts_with("f, line 3, column 4 (weight): found 'NA'") && error.contains("--weight none"));
    for rule in [WeightRule::None, WeightRule::Count] {
        assert_eq!(stored(&files, settings(Some(rule))).unwrap().0.manifest().edges, 1);
    }
}

#[test]
fn sums_beyond_all_weights_name_the_edge_the_step_and_the_file() {
    let rows = "source,target,step,weight\nb,a,0,1\nb,a,3,2e38\nb,a,3,2e38\n";
    let settings = |life, undirected| {
        let ids = Some(kymo_graph::load::IdKind::Text);
        Settings {
            hints: Hints { ids, ..Hints::default() },
            life: Some(life),
            undirected,
            ..Settings::default()
        }
    };
    let error = stored(&[("f.csv", rows)], settings(Life::Steps(0), false)).unwrap_err();
    assert_eq!(
        error,
        "f.csv: the weights of the edge b -> a in step 3 sum to 4e38, expected at most 3.4e38; scale them, \
         or pass --weight last, count or none"
            .replace("4e38,", &format!("{:e},", 2.0 * f64::from(2e38f32)))
    );
    // In two steps it is too much only where the edge lives on, or where both directions count.
    let two = "source,target,step,weight\nb,a,0,2e38\na,b,0,2e38\nb,a,1,2e38\n";
    assert!(stored(&[("f", two)], settings(Life::Steps(0), false)).is_ok());
    assert!(stored(&[("f", two)], settings(Life::Steps(1), false)).unwrap_err().contains("b -> a in step 1"));
    assert!(stored(&[("f", two)], settings(Life::Steps(0), true)).unwrap_err().contains("in step 0"));
}

#[test]
fn labels_of_events_are_classes() {
    let jodie = |labels: &[&str]| {
        let mut text = String::from("user_id,item_id,timestamp,state_label,f\n");
        for (time, label) in labels.iter().enumerate() {
            text += &format!("1,2,{time},{label},0.5\n");
        }
        read("jodie", &Hints::default(), &text).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(jodie(&["0", "1.0", "-1", "999"]), Ok(()));
    for label in ["1.9", "4294967295", "1000000", "-2", "", "NA"] {
        let error = jodie(&["0", label]).unwrap_err();
        assert!(error.starts_with("f, line 3, column 4 (label): found"), "{label}: {error}");
    }
    // Few rows do not have a thousand classes; many may.
    let error = jodie(&["0", "1000", "7"]).unwrap_err();
    assert!(error.starts_with("f, line 3, column 4 (label): found '1000', expected a class below 1000, or"));
    let many: Vec<String> = (0..1500).map(|label| label.to_string()).collect();
    assert_eq!(jodie(&many.iter().map(String::as_str).collect::<Vec<_>>()), Ok(()));
}

#[test]
fn names_in_a_signal_become_the_names_of_vertices_without_any() {
    let files = [("a.csv", "0,1\n1,0\n"), ("s.csv", "north,south\n1,2\n3,4\n"), ("l", "south,1\nnorth,0\n")];
    let settings = || Settings {
        format: Some("matrix".into()),
        signal: Some("s.csv".into()),
        labels: Some("l".into()),
        ..Settings::default()
    };
    let (store, _folder) = stored(&files, settings()).unwrap();
    assert_eq!(store.ids().unwrap(), Ids::Text(vec!["north".into(), "south".into()]));
    assert_eq!(store.fixed().unwrap().classes, [0, 1]);
    // Names that mean something to the graph must all do so, and each vertex needs a column.
    let names = |header: &str| {
        let signal = format!("{header}\n1,2,3\n");
        let settings = Settings { signal: Some("s".into()), cut: Some(Cut::Steps(1)), ..Settings::default() };
        stored(&[("f", "ts,u,v\n1,a,b\n2,b,c\n"), ("s", &signal)], settings).unwrap_err()
    };
    let error = names("a,b,d");
    assert!(error.ends_with("each of 3 vertices; no vertex is called d; no column is called c"), "{error}");
    let error = names("x,y,z");
    assert!(error.ends_with("; no vertex is called x, y, z; no column is called a, b, c"), "{error}");
}

#[test]
fn a_signal_has_a_row_for_each_step() {
    let files = [("f", "u,v,t\n0,1,0\n1,0,10\n"), ("s", "0,1\n1,2\n3,4\n5,6\n")];
    let settings =
        |steps| Settings { signal: Some("s".into()), cut: Some(Cut::Steps(steps)), ..Settings::default() };
    assert_eq!(stored(&files, settings(3)).unwrap().0.steps(), 3);
    for steps in [2, 4] {
        let error = stored(&files, settings(steps)).unwrap_err();
        let expected = format!("signal: has values for 3 step(s), but the graph has {steps}");
        assert!(error.starts_with(&expected), "{error}");
    }
}
