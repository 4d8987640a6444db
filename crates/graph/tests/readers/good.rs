//! Good inputs give the edges that are written in them.

use super::{columns, read, shown};
use kymo_graph::load::{self, Hints, Intake, Nature, Source};
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

#[test]
fn jodie_features_are_read_when_they_are_wanted() {
    let format = load::find("jodie").unwrap();
    let annotated = |text: &str, wanted| {
        let mut intake = Intake::new(&std::env::temp_dir(), 1 << 20, &kymo_graph::Progress::silent());
        intake.bipartite = format.bipartite();
        intake.wants_event_features = wanted;
        format
            .read(&mut Source::from_bytes("f", text.into()).unwrap(), &Hints::default(), &mut intake)
            .unwrap();
        let (mut last, mut events) = (Vec::new(), intake.log.sorted(1 << 20).unwrap());
        while let Some(event) = events.take().unwrap() {
            intake.annotations.read(event.annotation().unwrap(), &mut last).unwrap();
        }
        (intake.annotations.features(), last)
    };
    assert_eq!(annotated(format.example(), true), (2, vec![1.0, 1.5, 2.0]));
    assert_eq!(annotated(format.example(), false), (0, vec![1.0]));
    assert_eq!(annotated(",u,i,ts,label,idx\n0,1,2,3.0,1.0,1\n", true), (0, vec![1.0]));
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
