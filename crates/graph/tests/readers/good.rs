//! Good inputs give the edges that are written in them.

use super::{columns, read, shown};
use kymo_graph::load::{self, EdgeFeatures, Hints, Meaning, Nature, Source};
use kymo_graph::time::TimeUnit;

#[test]
fn every_example_is_recognised_and_read() {
    let expected: &[(&str, &[&str])] = &[
        ("pygt", &["PEST BACS 0 1", "BACS VAS 0 0.5", "VAS VAS 0 2"]),
        ("jodie", &["0 0 0 1", "1 1 36 1", "1 0 77 1"]),
        (
            "tgb",
            &[
                "0xb2d8 0x1df4 1648771200 4056.44",
                "0x54bb 0x17d6 1648771200 1",
                "0xb2d8 0x17d6 1648857600 2.5",
            ],
        ),
        ("csv", &["2 31 835355493 4", "1 31 1260759144 2.5", "1 1029 1260759179 3"]),
        ("deltas", &["1 3 0 1", "1 6 0 1", "1 3 1 NaN", "6 3 1 1"]),
        ("konect", &["1 2 979081200 -1", "3 4 979081200 1", "1 4 979081205.5 1"]),
        ("snap", &["1 2 1082040961 1", "3 4 1082155839 1", "5 2 1082414391 1"]),
        ("signed", &["6 2 1289241911.72836 4", "6 5 1289241941.53378 2", "1 15 1289243140.39049 -1"]),
        ("static", &["0 633 0 1", "0 1862 0 1", "1 2 0 1"]),
        (
            "matrix",
            &[
                "0 0 0 1",
                "0 3 0 0.5",
                "1 1 0 1",
                "2 2 0 1",
                "2 5 0 0.25",
                "3 0 0 0.5",
                "3 3 0 1",
                "4 4 0 1",
                "5 2 0 0.25",
                "5 5 0 1",
                "6 6 0 1",
            ],
        ),
        (
            "adjacency",
            &[
                "0 1 0 1", "0 2 0 1", "0 3 0 1", "0 4 0 1", "1 0 0 1", "1 2 0 1", "3 0 0 1", "4 1 0 1",
                "4 3 0 1",
            ],
        ),
    ];
    assert_eq!(expected.len(), load::ALL.len());
    for (format, (name, edges)) in load::ALL.iter().zip(expected) {
        assert_eq!(format.name(), *name);
        let mut source = Source::from_bytes("f", format.example().into()).unwrap();
        assert_eq!(load::detect(&mut source, &Hints::default()).unwrap().name(), *name);
        let intake = read(name, &Hints::default(), format.example()).unwrap();
        assert_eq!(intake.nature, format.nature(), "{name}");
        assert_eq!(shown(intake), *edges, "{name}");
    }
}

#[test]
fn line_ends_and_marks_do_not_matter() {
    for format in load::ALL {
        let plain = shown(read(format.name(), &Hints::default(), format.example()).unwrap());
        let other = format!("\u{feff}{}", format.example().replace('\n', "\r\n"));
        let mut source = Source::from_bytes("f", other.clone().into()).unwrap();
        assert_eq!(load::detect(&mut source, &Hints::default()).unwrap().name(), format.name());
        assert_eq!(
            shown(read(format.name(), &Hints::default(), &other).unwrap()),
            plain,
            "{}",
            format.name()
        );
        let unended = format.example().trim_end();
        assert_eq!(
            shown(read(format.name(), &Hints::default(), unended).unwrap()),
            plain,
            "{}",
            format.name()
        );
    }
}

#[test]
fn inputs_are_recognised_or_left_to_the_user() {
    for (text, expected) in [
        ("1 2 3\n4 5 6.5\n", None),
        ("# a remark\n1\t2\t979081200\n", Some("snap")),
        ("1 2 1 979081200\n", None),
        ("% bip\n1 2\n", Some("konect")),
        ("0 1 5 6\n1 -1 5 6\n", Some("deltas")),
        ("7 1 5 979081200\n9 1 7 979081201\n", None),
        ("1 2 979081200 1\n", None),
        ("1 2 979081200 RT\n", Some("csv")),
        ("31220,1558,1567,3B,3B\n", None),
        ("0\t5\t16\t1998-11-13T12:07:00\n", None),
        ("1,2,979081200,1\n", None),
        ("1,2,979081200,0.5\n2,1,979081201,-3\n", Some("csv")),
        ("1,2\n3,4\n", Some("static")),
        ("source,target\n3,4\n", Some("static")),
        ("node_1 node_2\n3 4\n", Some("static")),
        ("src;dst;t\n3;4;5\n", Some("csv")),
        ("snapshot|from|to\n3|4|5\n", Some("csv")),
        ("ts,source,target\n1,2,3\n", Some("csv")),
        ("ts,source,target\n1,AA1,3\n", Some("tgb")),
        ("year,nation,trading nation,weight\n1987,Fiji,Chad,0.5\n", Some("tgb")),
        (",u,i,ts,label,idx\n0,1,2,3.0,0.0,1\n", Some("jodie")),
        ("user_id,item_id,timestamp,state_label,f\n1,1,0,0,1,2\n", Some("jodie")),
        ("{\"edges\": []}", Some("pygt")),
        ("one two\n", Some("csv")),
        ("773869,767541,767542,717447,717446,717445,773062\n64.4,67.6,67.1,61.5,66.9,68.75,65.1\n", None),
    ] {
        let mut source = Source::from_bytes("f", text.into()).unwrap();
        match (load::detect(&mut source, &Hints::default()), expected) {
            (Ok(format), expected) => assert_eq!(Some(format.name()), expected, "{text}"),
            (Err(error), expected) => assert!(expected.is_none(), "{error}"),
        }
    }
}

#[test]
fn named_columns_are_found_in_any_order_and_case() {
    for (hints, text, expected) in [
        (Hints::default(), "Rating;TS;Dst;SRC\n-2;9.5;1;0\n", "0 1 9.5 -2"),
        (Hints::default(), "w\tt\tto\tfrom\tnote\n3\t8\t1\t0\t\n", "0 1 8 3"),
        (Hints::default(), "u v date\n0 1 1970-01-02\n", "0 1 86400 1"),
        (Hints::default(), "u|v|datetime|label\n0|1|1970-01-02 00:00:01|x\n", "0 1 86401 1"),
        (Hints::default(), "\"user\",\"item\",\"timestamp\",\"title\"\n0,1,5,\"a, b\"\n", "0 1 5 1"),
        (columns("time,_,source,target"), "7,x,0,1\n", "0 1 7 1"),
        (columns("time,source,target"), "Time,Source,Target\n7,0,1\n", "0 1 7 1"),
        (columns("source,target,step,time"), "0 1 3 99\n", "0 1 3 1"),
        (Hints { delimiter: Some(b':'), ..columns("u,v,t") }, "0:1:2\n", "0 1 2 1"),
        (Hints { delimiter: Some(b' '), ..columns("u,v,t") }, " 0  1\t2\n", "0 1 2 1"),
    ] {
        assert_eq!(shown(read("csv", &hints, text).unwrap()), [expected], "{text}");
    }
}

#[test]
fn units_come_from_the_user_the_header_or_the_values() {
    let unit = |format: &str, hints: &Hints, text: &str| read(format, hints, text).unwrap().unit;
    let told = Hints { time_unit: Some(TimeUnit::H), ..Hints::default() };
    for (name, expected) in [
        ("timestamp", TimeUnit::Step),
        ("timestamp_ms", TimeUnit::Ms),
        ("time_us", TimeUnit::Us),
        ("ts_ns", TimeUnit::Ns),
        ("t_s", TimeUnit::S),
        ("Time_H", TimeUnit::H),
        ("ts_d", TimeUnit::D),
        ("day", TimeUnit::D),
        ("year", TimeUnit::Step),
    ] {
        assert_eq!(unit("csv", &Hints::default(), &format!("u,v,{name}\n1,2,3\n")), expected, "{name}");
        assert_eq!(unit("csv", &told, &format!("u,v,{name}\n1,2,3\n")), TimeUnit::H, "{name}");
    }
    assert_eq!(unit("csv", &Hints::default(), "u,v,t\n1,2,2012-03-01\n"), TimeUnit::Date);
    for (time, expected) in [
        ("1330560000", TimeUnit::S),
        ("1330560000000", TimeUnit::Ms),
        ("1330560000000000", TimeUnit::Us),
        ("1330560000000000000", TimeUnit::Ns),
        ("13305600000", TimeUnit::Step),
    ] {
        assert_eq!(unit("snap", &Hints::default(), &format!("1 2 {time}\n")), expected, "{time}");
    }
    assert_eq!(unit("tgb", &Hints::default(), "ts_ms,u,v\n1,2,3\n"), TimeUnit::Ms);
    assert_eq!(unit("snap", &told, "1 2 3\n"), TimeUnit::H);
    for name in ["pygt", "deltas", "static", "matrix", "adjacency"] {
        let format = load::find(name).unwrap();
        assert_eq!(unit(name, &told, format.example()), TimeUnit::Step, "{name}");
    }
}

#[test]
fn konect_without_times_is_one_graph() {
    for (text, nature, expected) in [
        ("% sym\n1 2\n", Nature::Fixed, "1 2 0 1"),
        ("% sym\n1,2,-5\n", Nature::Fixed, "1 2 0 -5"),
        ("1 2 3 4\n", Nature::Events, "1 2 4 3"),
    ] {
        let intake = read("konect", &Hints::default(), text).unwrap();
        assert_eq!(intake.nature, nature);
        assert_eq!(shown(intake), [expected]);
    }
}

#[test]
fn rows_may_carry_the_classes_of_their_vertices() {
    let hints = columns("time,source,target,source_label,target_label");
    let intake = read("csv", &hints, "1,7,8,3B,4A\n2,8,9,4A,3B\n").unwrap();
    assert_eq!(intake.classes.list, ["3B", "4A"]);
    assert_eq!((0..3).map(|v| intake.classes.of[&v]).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn static_lists_may_have_a_header_and_weights() {
    for text in ["source,target,weight\n1,2,0.5\n", "1\t2  0.5\n", "id_1;id_2;w\n1;2;0.5\n"] {
        assert_eq!(shown(read("static", &Hints::default(), text).unwrap()), ["1 2 0 0.5"], "{text}");
    }
}

/// The names of the features of edges, and what each row carries.
fn carried(format: &str, hints: &Hints, text: &str) -> (Vec<String>, Vec<Option<Vec<f32>>>) {
    let intake = read(format, hints, text).unwrap();
    let (mut rows, mut events) = (Vec::new(), intake.log.sorted(1 << 20).unwrap());
    while events.take().unwrap().is_some() {
        rows.push(events.carried().map(<[f32]>::to_vec));
    }
    (intake.edge_features.unwrap_or_default(), rows)
}

fn features(names: &str) -> Hints {
    let names = names.split(',').map(String::from).collect();
    Hints { edge_features: EdgeFeatures::Named(names), ..Hints::default() }
}

#[test]
fn jodie_has_a_label_and_features_in_every_row() {
    let example = load::find("jodie").unwrap().example();
    let told = |hints: &Hints, text: &str| {
        let (names, rows) = carried("jodie", hints, text);
        (names.join(" "), rows.into_iter().map(|row| row.unwrap()).collect::<Vec<_>>())
    };
    let all = vec![vec![0.0, -0.175, 0.25], vec![0.0, -0.5, 0.0], vec![1.0, 1.5, 2.0]];
    assert_eq!(told(&Hints::default(), example), ("f0 f1".into(), all));
    let none = Hints { edge_features: EdgeFeatures::None, ..Hints::default() };
    assert_eq!(told(&none, example), (String::new(), vec![vec![0.0], vec![0.0], vec![1.0]]));
    assert_eq!(told(&features("6"), example).1, [[0.0, 0.25], [0.0, 0.0], [1.0, 2.0]]);
    let named = "u,i,ts,label,Price,kind of\n0,1,2,-1,3,4\n";
    assert_eq!(told(&Hints::default(), named), ("Price kind of".into(), vec![vec![-1.0, 3.0, 4.0]]));
    assert_eq!(told(&features("Kind Of,price"), named).1, [[-1.0, 4.0, 3.0]]);
    let indexed = told(&Hints::default(), ",u,i,ts,label,idx\n0,1,2,3.0,1.0,1\n");
    assert_eq!(indexed, (String::new(), vec![vec![1.0]]));
    let index_first = told(&Hints::default(), ",u,i,ts,label,a\n0,1,2,3.0,1.0,7\n");
    assert_eq!(index_first, ("a".into(), vec![vec![1.0, 7.0]]));
}

#[test]
fn tgb_has_features_where_there_are_numbers_behind_its_weights() {
    for (text, names, row) in [
        ("ts,src,dst,w,size,kind,score\n1,a,b,2,3,x,-0.5\n2,b,c,2,4,y,1e3\n", "size score", vec![4.0, 1e3]),
        ("ts,src,dst,size\n1,a,b,3\n2,b,c,4.5\n", "size", vec![4.5]),
        // Not all are numbers, rows are counted, or nothing is left.
        ("ts,src,dst,size\n1,a,b,3\n2,b,c,NA\n", "", vec![]),
        ("ts,src,dst,w,idx\n1,a,b,3,1\n2,b,c,3,2\n3,b,c,3,3\n", "", vec![]),
        ("ts,src,dst,w\n1,a,b,3\n2,b,c,4\n", "", vec![]),
    ] {
        let (found, rows) = carried("tgb", &Hints::default(), text);
        assert_eq!(found.join(" "), names, "{text}");
        assert_eq!(rows.last().unwrap().clone().unwrap_or_default(), row, "{text}");
    }
    let some = carried("tgb", &features("score"), "ts,src,dst,w,size,score\n1,a,b,2,3,7\n2,b,c,2,4,8\n");
    assert_eq!(some, (vec!["score".into()], vec![Some(vec![7.0]), Some(vec![8.0])]));
}

#[test]
fn tables_have_the_features_that_the_user_names() {
    let header = "from,to,time,amount,kind,duration\n";
    let rows = "1,2,10,5,a,60\n2,1,5,7,b,90.5\n";
    let with_header = format!("{header}{rows}");
    assert_eq!(carried("csv", &Hints::default(), &with_header), (vec![], vec![None, None]));
    // A weight may be a feature as well; rows stay with their events when these are sorted.
    let hints = features("duration,Amount");
    let expected =
        (vec!["duration".into(), "amount".into()], vec![Some(vec![90.5, 7.0]), Some(vec![60.0, 5.0])]);
    assert_eq!(carried("csv", &hints, &with_header), expected);
    assert_eq!(shown(read("csv", &hints, &with_header).unwrap()), ["2 1 5 7", "1 2 10 5"]);
    let words: Vec<String> =
        read("csv", &hints, &with_header).unwrap().read_as.iter().map(ToString::to_string).collect();
    assert_eq!(words[3..], ["'amount' weight and feature", "'kind' skipped", "'duration' feature"]);
    // Without a header, by what the user calls the columns or by their numbers.
    for (told, name, title) in [
        ("source,target,time,_,_,duration", "duration", "duration"),
        ("source,target,time,_,_,_", "6", "column 6"),
    ] {
        let hints = Hints { columns: columns(told).columns, ..features(name) };
        let (names, rows) = carried("csv", &hints, rows);
        assert_eq!((names.join(","), rows[0].clone()), (title.into(), Some(vec![90.5])), "{name}");
    }
    let plain = "1 2 979081200 3.5\n2 3 979081205 4\n7 1 979081300 -1\n";
    let (names, rows) = carried("csv", &features("4"), plain);
    assert_eq!((names.join(","), rows[0].clone()), ("column 4".into(), Some(vec![3.5])));
    // What takes an edge back carries nothing.
    let changes = "step,op,source,target,size\n0,1,1,2,8\n1,-1,1,2,9\n";
    assert_eq!(carried("csv", &features("size"), changes).1, [Some(vec![8.0]), None]);
    // Other formats with columns know them, too.
    assert_eq!(carried("static", &features("3"), "1 2 0.5\n").1, [Some(vec![0.5])]);
}

#[test]
fn many_features_are_said_in_a_few_words() {
    let names: Vec<String> = (0..20).map(|number| format!("x{number}")).collect();
    let text = format!("u,i,ts,label,{}\n1,2,3,0{}\n", names.join(","), ",7".repeat(20));
    let words = Meaning::listed(&read("jodie", &Hints::default(), &text).unwrap().read_as);
    assert!(words.ends_with("'label' label, 'x0' to 'x19' features (20)"), "{words}");
    let few = read("jodie", &features("x0,x3"), &text).unwrap().read_as;
    let words = Meaning::listed(&few);
    assert!(words.contains("'x0' feature, 'x1' skipped, 'x2' skipped, 'x3' feature"), "{words}");
}

/// A graph a day.
pub const BY_DAY: &str = r#"{"edge_mapping": {"edge_index": {"1": [[1, 0]], "0": [[0, 1], [1, 1]]},
        "edge_weight": {"1": [3], "0": [1, 2.5]}}, "time_periods": 2, "y": [[1, 2], [3, 4]]}"#;

/// One graph whose nodes carry their series.
pub const NODES: &str = r#"{"nodes": [{"bus_stop": 52, "y": [1, 3], "id": 0}, {"bus_stop": 7, "y": [2, 4]}],
        "links": [{"source": 52, "target": 7, "weight": 0.5}]}"#;

/// A graph a step, with features and targets.
pub const NUMBERED: &str = r#"{"1": {"edges": [[1, 0]], "weights": [3], "y": [3, 4], "X": [[5, 6], [7, 8]]},
        "0": {"edges": [[0, 1], [1, 1]], "weights": [1, 2.5], "y": [1, 2], "X": [[1, 2], [3, 4]]},
        "time_periods": 2, "node_ids": {"b": 0, "a": 1}}"#;

#[test]
fn the_dialects_of_pygt_agree_on_what_they_mean() {
    for (text, nature, features, expected) in [
        (
            BY_DAY,
            Nature::Steps,
            [[1.0, 2.0].to_vec(), [3.0, 4.0].to_vec()],
            &["0 1 0 1", "1 1 0 2.5", "1 0 1 3"][..],
        ),
        (NODES, Nature::Fixed, [[1.0, 2.0].to_vec(), [3.0, 4.0].to_vec()], &["52 7 0 0.5"]),
        (
            NUMBERED,
            Nature::Steps,
            [[1.0, 2.0, 3.0, 4.0].to_vec(), [5.0, 6.0, 7.0, 8.0].to_vec()],
            &["b a 0 1", "a a 0 2.5", "a b 1 3"],
        ),
    ] {
        let intake = read("pygt", &Hints::default(), text).unwrap();
        assert_eq!(intake.nature, nature);
        assert_eq!(intake.signal.steps, features);
        assert_eq!(intake.targets.steps, [[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(shown(intake), expected);
    }
}

#[test]
fn adjacency_keeps_vertices_without_edges_and_those_beyond_the_last_line() {
    let intake = read("adjacency", &Hints::default(), "# remark\n3 9\n\n\n").unwrap();
    assert_eq!(intake.ids.rank().0, kymo_graph::Ids::Number(vec![0, 1, 2, 3, 9]));
}
