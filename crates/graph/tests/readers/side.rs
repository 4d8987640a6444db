//! Labels, features and signals beside a graph.

use super::read;
use kymo_graph::load::side::{
    FeatureLayout, FeatureTable, Labels, Split, read_features, read_labels, read_signal,
};
use kymo_graph::load::{Hints, Intake, Source};
use kymo_graph::{Error, Result};

fn graph(text: &str) -> Intake {
    read("static", &Hints::default(), text).unwrap()
}

fn source(text: &str) -> Source {
    Source::from_bytes("f", text.into()).unwrap()
}

fn labels(text: &str, intake: &mut Intake) -> Result<Labels> {
    read_labels(&mut source(text), intake)
}

fn features(text: &str, layout: FeatureLayout) -> Result<FeatureTable> {
    read_features(&mut source(text), layout, &mut graph("1 0\n"))
}

fn says<T>(result: Result<T>, expected: &str) {
    let error: Option<Error> = result.err();
    let error = error.map_or("no error".into(), |error| error.to_string());
    assert!(error.starts_with(expected), "{error}\nnot {expected}");
}

#[test]
fn labels_give_classes_and_splits_and_new_vertices() {
    for text in [
        "0\tx y\ttrain\n1\t-1\t-\n7\tz\tval\n2\t\ttest\n",
        "Node,Class,Split\r\n0,x y,train\r\n1,-1\r\n7,z,validation\r\n2,,test\r\n",
    ] {
        let mut intake = graph("1 0\n0 2\n");
        let found = labels(text, &mut intake).unwrap();
        assert_eq!(found.splits, [(1, Split::Train), (3, Split::Validation), (2, Split::Test)]);
        assert_eq!(found.unlabelled, 2);
        assert_eq!(intake.classes.list, ["x y", "z"]);
        assert_eq!((intake.classes.of[&1], intake.classes.of[&3], intake.classes.of.len()), (0, 1, 2));
        assert_eq!(intake.ids.len(), 4);
    }
    for (text, expected) in [
        ("0 a b\n", "f, line 1, column 3 (split): found 'b', expected train, val, test or -"),
        ("0 a train 1\n", "f, line 1: found 4 field(s), expected 1 to 3"),
        ("x a\n", "f, line 1, column 1 (vertex): found 'x', expected a vertex id"),
        ("0 a\n0 b\n", "f, line 2, column 2 (class): found 'b', expected 'a', the class this vertex has"),
    ] {
        says(labels(text, &mut graph("0 1\n")), expected);
    }
}

#[test]
fn features_are_dense_or_sparse_by_what_they_look_like() {
    let dense = |width, vertices: &[u32], values: &[f32]| FeatureTable::Dense {
        width,
        vertices: vertices.into(),
        values: values.into(),
    };
    let sparse =
        |width, vertices: &[u32], starts: &[usize], indices: &[u32], values: &[f32]| FeatureTable::Sparse {
            width,
            vertices: vertices.into(),
            starts: starts.into(),
            indices: indices.into(),
            values: values.into(),
        };
    // In the graph vertex 1 appears first, so line 0 belongs to the vertex numbered 1.
    for (text, layout, expected) in [
        ("0.5 1\n2 3\n", FeatureLayout::Auto, dense(2, &[1, 0], &[0.5, 1.0, 2.0, 3.0])),
        ("0,0,1\n1,0,1\n", FeatureLayout::Auto, dense(3, &[1, 0], &[0.0, 0.0, 1.0, 1.0, 0.0, 1.0])),
        ("id,a,b\n1,0.5,1\n9,2,3\n", FeatureLayout::Auto, dense(2, &[0, 2], &[0.5, 1.0, 2.0, 3.0])),
        ("2 4\n\n0 5\n", FeatureLayout::Auto, sparse(6, &[1, 0, 2], &[0, 2, 2, 4], &[2, 4, 0, 5], &[1.0; 4])),
        ("4:0.5 2\n1:3\n", FeatureLayout::Auto, sparse(5, &[1, 0], &[0, 2, 3], &[4, 2, 1], &[0.5, 1.0, 3.0])),
        ("1 2\n", FeatureLayout::Dense, dense(2, &[1], &[1.0, 2.0])),
        ("2 1\n", FeatureLayout::Sparse, sparse(3, &[1], &[0, 2], &[2, 1], &[1.0, 1.0])),
        ("node 1\n0 7\n", FeatureLayout::Sparse, sparse(8, &[1], &[0, 1], &[7], &[1.0])),
    ] {
        assert_eq!(features(text, layout).unwrap(), expected, "{text}");
    }
}

#[test]
fn bad_features_are_refused_with_their_place() {
    for (text, layout, expected) in [
        ("0.5 1\n2\n", FeatureLayout::Dense, "f, line 2: found 1 feature(s), expected 2 as in the first row"),
        ("0.5 1\n\n", FeatureLayout::Dense, "f, line 2: found 0 feature(s), expected 2"),
        (
            "0.5 x\n",
            FeatureLayout::Dense,
            "f, line 1, column 2 (feature): found 'x', expected a finite number",
        ),
        (
            "1 -2\n",
            FeatureLayout::Sparse,
            "f, line 1, column 2 (feature): found '-2', expected the index of a feature",
        ),
        (
            "4294967296\n",
            FeatureLayout::Sparse,
            "f, line 1, column 1 (feature): found '4294967296', expected the index",
        ),
        (
            "1:nan\n",
            FeatureLayout::Sparse,
            "f, line 1, column 1 (feature): found '1:nan', expected the index",
        ),
        ("1:\n", FeatureLayout::Sparse, "f, line 1, column 1 (feature): found '1:', expected the index"),
    ] {
        says(features(text, layout), expected);
    }
    let mut names = read("tgb", &Hints::default(), "ts,u,v\n1,a,b\n").unwrap();
    let expected = "f, line 1: found no vertex called '0' for this line, expected a header";
    says(read_features(&mut source("1 2\n"), FeatureLayout::Auto, &mut names), expected);
}

#[test]
fn signals_follow_the_names_in_their_header_or_the_order_of_the_vertices() {
    // Vertices are numbered as they appear: 5, 3, 9.
    for (text, expected) in [
        ("3,5,9\n1,2,3\n4,5,6\n", [[2.0, 1.0, 3.0], [5.0, 4.0, 6.0]]),
        ("a b c\n1 2 3\n4 5 6\n", [[2.0, 1.0, 3.0], [5.0, 4.0, 6.0]]),
        ("9,5,3\n1,2,3\n4,5,6\n", [[2.0, 3.0, 1.0], [5.0, 6.0, 4.0]]),
    ] {
        let mut intake = graph("5 3\n3 9\n");
        read_signal(&mut source(text), &mut intake).unwrap();
        assert_eq!(intake.signal.steps, expected, "{text}");
        assert_eq!(intake.targets, intake.signal);
        assert_eq!(intake.signal.width, 1);
    }
    for (text, expected) in [
        ("3,5\n1,2\n", "f, line 1: found 2 column(s), expected one for each of 3 vertices"),
        ("3,5,5\n1,2,3\n", "f, line 1, column 3 (header): found '5', expected each vertex once"),
        ("1.5,2,3\n", "f, line 1, column 1 (header): found '1.5', expected the id of a vertex"),
        ("3,5,9\n1,2\n", "f, line 2: found 2 value(s), expected 3 as in the header"),
        ("3,5,9\n1,x,2\n", "f, line 2, column 2 (value): found 'x', expected a finite number"),
    ] {
        says(read_signal(&mut source(text), &mut graph("5 3\n3 9\n")), expected);
    }
}
