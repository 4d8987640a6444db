//! Bad inputs give an error that says where, what was found and what was expected.

use super::{columns, read};
use kymo_graph::load::{self, EdgeFeatures, Hints};

/// Format, input, and how the error must read; parts are separated by `…`.
const BAD: &[(&str, &str, &str)] = &[
    // Too few and too many columns, other separators.
    (
        "snap",
        "1 2 3\n4 5\n",
        "f, line 2: found 2 field(s) separated by blanks, expected 3: source, target, time",
    ),
    ("snap", "1,2,3\n", "f, line 1: found 1 field(s) separated by blanks, expected 3"),
    ("signed", "1,2,3,4\n1,2,3,4,5\n", "f, line 2: found 5 field(s) separated by ',', expected 4"),
    ("signed", "1 2 3 4\n", "f, line 1: found 1 field(s) separated by ',', expected 4"),
    ("konect", "% x\n1\n", "f, line 2: found 1 field(s), expected 2 to 4"),
    ("konect", "1 2 3 4 5\n", "f, line 1: found 5 field(s), expected 2 to 4"),
    ("konect", "1 2 3 4\n1 2 3\n", "f, line 2: found 3 field(s)…expected 4"),
    ("konect", "%%MatrixMarket matrix\n3 3 1\n", "f, line 1: is a Matrix Market file, expected an edge list"),
    ("deltas", "0 1 2 3\n0 1 2\n", "f, line 2: found 3 field(s)…expected 4: snapshot, op, source, target"),
    ("static", "1 2\n1 2 3\n", "f, line 2: found 3 field(s)…expected 2"),
    ("static", "1\n", "f, line 1: found 1 field(s), expected 2 or 3"),
    ("static", "1 2\n1,2\n", "f, line 2: found 1 field(s) separated by blanks, expected 2"),
    ("csv", "u,v,t\n1,2\n", "f, line 2: found 2 field(s) separated by ',', expected 3: u, v, t"),
    ("csv", "u,v,t\n1;2;3\n", "f, line 2: found 1 field(s) separated by ','"),
    (
        "jodie",
        "user_id,item_id,timestamp,state_label,f\n1,2,3\n",
        "f, line 2: found 3 field(s)…expected at least 4",
    ),
    (
        "jodie",
        "user_id,item_id,timestamp,state_label,f\n1,2,3,0,1\n1,2,3,0\n",
        "f, line 3: found 4 field(s), expected 5",
    ),
    (
        "jodie",
        "user_id,item_id,timestamp,state_label,f\n1,2,3,0,1,2\n1,2,3,0,1,x\n",
        "f, line 3, column 6 (edge feature): found 'x', expected a finite number (--edge-features says",
    ),
    (
        "jodie",
        "u,i,ts,label,a\n1,2,3,0,NA\n",
        "f, line 2, column 5 (edge feature): found 'NA', expected a finite number; the value is missing",
    ),
    (
        "jodie",
        "u,i,ts,label,a\n1,2,3,0,1e39\n",
        "f, line 2, column 5 (edge feature): found '1e39', expected a number below 3.4e38",
    ),
    ("tgb", "ts,u,v\n1,2\n", "f, line 2: found 2 field(s)…expected 3"),
    ("tgb", "ts,u,v,w,a\n1,2,3,4,5\n1,2,3,4\n", "f, line 3: found 4 field(s)…expected 5"),
    ("matrix", "1,0\n0\n", "f, line 2: found 1 field(s), expected 2 as in the first row"),
    ("matrix", "1,0\n", "f: ends after row 1, expected 2 rows for 2 columns"),
    ("matrix", "1\n1\n", "f, line 2: found row 2, expected 1 rows for 1 columns"),
    // Headers.
    ("csv", "a,v,t\n1;2;3\n", "f, line 1: found the columns a, v, t; expected one with the source"),
    ("csv", "u,b,t\n1;2;3\n", "f, line 1: found the columns u, b, t; expected one with the target"),
    ("csv", "1.5,2.5,3\n", "f: found 3 columns, expected a source…--columns source,target,time"),
    ("csv", "1,2,3\n", "f: nothing in its columns tells…--columns source,target,time"),
    ("csv", "u,v,t,op\n1,2,3,1\n", "f: found a column op, which needs a column step"),
    ("jodie", "a,b\n1,2\n", "f, line 1: found the columns a, b, expected a header that begins with user_id"),
    ("tgb", "u,v,ts\n1,2,3\n", "f, line 1, column 1 (time): found 'u', expected the name of the time"),
    ("tgb", "ts,u\n1,2\n", "f, line 1: found the columns ts, u, expected time, source, target"),
    // Ids.
    (
        "snap",
        "a 2 3\n",
        "f, line 1, column 1 (source): found 'a', expected a vertex id, a whole number from 0",
    ),
    (
        "snap",
        "1 -2 3\n",
        "f, line 1, column 2 (target): found '-2', expected a vertex id, which cannot be negative",
    ),
    (
        "snap",
        "1 99999999999999999999 3\n",
        "f, line 1, column 2 (target): found '99999999999999999999', expected a vertex id below",
    ),
    ("signed", "1.5,2,3,4\n", "f, line 1, column 1 (source): found '1.5', expected a vertex id"),
    ("konect", "% x\n1 x 3 4\n", "f, line 2, column 2 (target): found 'x', expected a vertex id"),
    ("deltas", "0 1 -2 3\n", "f, line 1, column 3 (source): found '-2', expected a vertex id"),
    ("static", "1 x\n", "f, line 1, column 2 (target): found 'x', expected a vertex id"),
    ("csv", "u,v,t\n,2,3\n", "f, line 2, column 1 (source): found nothing, expected a vertex id"),
    ("jodie", "u,i,ts,label\nx,2,3,0\n", "f, line 2, column 1 (source): found 'x', expected a vertex id"),
    ("tgb", "ts,u,v\n1,,3\n", "f, line 2, column 2 (source): found nothing, expected a vertex id or name"),
    ("adjacency", "1 2\n3 x\n", "f, line 2, column 2 (target): found 'x', expected a vertex id"),
    ("adjacency", "-1\n", "f, line 1, column 1 (target): found '-1', expected a vertex id"),
    // Times, steps, weights and labels.
    ("snap", "1 2 nan\n", "f, line 1, column 3 (time): found 'nan', expected a finite number"),
    ("snap", "1 2 1e400\n", "f, line 1, column 3 (time): found '1e400', expected a finite number"),
    ("signed", "1,2,inf,4\n", "f, line 1, column 3 (weight): found 'inf', expected a finite number"),
    ("signed", "1,2,1e39,4\n", "f, line 1, column 3 (weight): found '1e39', expected a number below 3.4e38"),
    ("konect", "1 2 x 4\n", "f, line 1, column 3 (weight): found 'x', expected a finite number"),
    ("static", "1 2 nan\n", "f, line 1, column 3 (weight): found 'nan', expected a finite number"),
    ("csv", "u,v,t\n1,2,noon\n", "f, line 2, column 3 (time): found 'noon', expected a finite number"),
    (
        "csv",
        "u,v,t\n1,2,2012-03-01\n1,2,2012-13-01\n",
        "f, line 3, column 3 (time): found '2012-13-01', expected a date",
    ),
    (
        "csv",
        "u,v,step\n1,2,-1\n",
        "f, line 2, column 3 (step): found '-1', expected a step, a whole number from 0",
    ),
    (
        "csv",
        "u,v,step\n1,2,99999999999\n",
        "f, line 2, column 3 (step): found '99999999999', expected a step…below 1000000",
    ),
    (
        "csv",
        "u,v,step,source_label\n1,2,0,a\n1,2,0,b\n",
        "f, line 3, column 4 (class): found 'b', expected 'a', the class",
    ),
    ("deltas", "0 2 1 3\n", "f, line 1, column 2 (op): found '2', expected 1 (the edge appears) or -1"),
    ("deltas", "0.5 1 1 3\n", "f, line 1, column 1 (step): found '0.5', expected a step"),
    ("deltas", "1000000 1 1 3\n", "f, line 1, column 1 (step): found '1000000', expected a step"),
    (
        "jodie",
        "u,i,ts,label\n1,2,3,x\n",
        "f, line 2, column 4 (label): found 'x', expected a class, a whole number from 0",
    ),
    ("tgb", "ts,u,v,weight\n1,2,3,x\n", "f, line 2, column 4 (weight): found 'x', expected a finite number"),
    ("tgb", "ts,u,v\nx,2,3\n", "f, line 2, column 1 (time): found 'x', expected a finite number"),
    ("matrix", "1,x\n0,1\n", "f, line 1, column 2 (weight): found 'x', expected a finite number"),
    ("matrix", "1,nan\n0,1\n", "f, line 1, column 2 (weight): found 'nan', expected a finite number"),
    // JSON: syntax.
    ("pygt", "{\"edges\": [[0, 1]\n", "f, line 2, column 1: the JSON ends early"),
    (
        "pygt",
        "{\"edges\":\n [[0, NaN]]}",
        "f, line 2, column 7: found 'NaN]]}', expected valid JSON: expected value",
    ),
    ("pygt", "[1, 2]", "f: found a list of 2, expected an object"),
    ("pygt", "{\"a\": 1}", "f: found the keys a; expected edges and X or FX"),
    ("pygt", "{} {}", "f, line 1, column 4: found '{}', expected valid JSON: trailing characters"),
    // JSON: contents.
    ("pygt", r#"{"edges": 3, "X": [[1]]}"#, "f: at edges: found '3', expected a list"),
    ("pygt", r#"{"edges": [[0]], "X": [[1]]}"#, "f: at edges[0]: found 1 value(s), expected 2"),
    (
        "pygt",
        r#"{"edges": [[0, 1]], "X": [[1]]}"#,
        "f: at edges[0][1]: found '1', expected the number of a vertex…below 1",
    ),
    (
        "pygt",
        r#"{"edges": [[0, -1]], "X": [[1]]}"#,
        "f: at edges[0][1]: found '-1', expected the number of a vertex",
    ),
    (
        "pygt",
        r#"{"edges": [[0, 0]], "weights": [], "X": [[1]]}"#,
        "f: at weights: found 0 value(s), expected 1: one for each edge",
    ),
    (
        "pygt",
        r#"{"edges": [[0, 0]], "weights": [null], "X": [[1]]}"#,
        "f: at weights[0]: found nothing, expected a number",
    ),
    (
        "pygt",
        r#"{"edges": [[0, 0]], "weights": [1e300], "X": [[1]]}"#,
        "f: at weights[0]: found '1e+300', expected a number below 3.4e38",
    ),
    ("pygt", r#"{"edges": [], "X": []}"#, "f: at X: found a list of 0, expected at least one step"),
    (
        "pygt",
        r#"{"edges": [], "X": [[]]}"#,
        "f: at X[0]: found a list of 0, expected a value for at least one vertex",
    ),
    (
        "pygt",
        r#"{"edges": [], "X": [[1, 2], [1]]}"#,
        "f: at X[1]: found 1 value(s), expected 2: one for each vertex",
    ),
    ("pygt", r#"{"edges": [], "X": [[1, "x"]]}"#, "f: at X[0][1]: found 'x', expected a number"),
    (
        "pygt",
        r#"{"edges": [], "X": [[1]], "node_ids": {"a": 4294967296}}"#,
        "f: at node_ids.a: found '4294967296', expected the number of a vertex",
    ),
    (
        "pygt",
        r#"{"edges": [], "X": [[1, 2]], "node_ids": {"a": 0}}"#,
        "f: at node_ids: found no name for the vertices 1, expected 2 names",
    ),
    (
        "pygt",
        r#"{"edges": [], "X": [[1, 2]], "node_ids": {"a": 0, "b": 0}}"#,
        "f: at node_ids.b: found '0', expected a number of its own; 'a' has it too",
    ),
    ("pygt", r#"{"edge_mapping": {}}"#, "f: found the keys edge_mapping, expected 'y' among them"),
    (
        "pygt",
        r#"{"edge_mapping": {"edge_index": {"50": []}}, "y": [[1]]}"#,
        "f: at edge_mapping.edge_index: found the day '50', expected a whole number below 1",
    ),
    (
        "pygt",
        r#"{"edge_mapping": {"edge_index": {"0": [[0, 7]]}}, "y": [[1]]}"#,
        "f: at edge_mapping.edge_index.\"0\"[0][1]: found '7', expected",
    ),
    (
        "pygt",
        r#"{"edge_mapping": {"edge_index": {"0": []}, "edge_weight": {}}, "y": [[1]]}"#,
        "f: at edge_mapping.edge_weight: found the keys , expected '0' among them",
    ),
    ("pygt", r#"{"nodes": [], "links": []}"#, "f: at nodes: found a list of 0, expected at least one node"),
    (
        "pygt",
        r#"{"nodes": [{"y": [1]}], "links": []}"#,
        "f: at nodes[0]: found the keys y, expected 'id' among them",
    ),
    (
        "pygt",
        r#"{"nodes": [{"id": 1, "y": [1]}, {"id": 1, "y": [1]}], "links": []}"#,
        "f: at nodes[1].id: found '1', expected an id that no node before has",
    ),
    (
        "pygt",
        r#"{"nodes": [{"id": 1, "y": [1]}, {"id": "a", "y": [1]}], "links": []}"#,
        "f: at nodes[1].id: found 'a', expected a whole number",
    ),
    (
        "pygt",
        r#"{"nodes": [{"id": 1, "y": [1]}, {"id": 2, "y": []}], "links": []}"#,
        "f: at nodes[1].y: found 0 value(s), expected 1: one for each step",
    ),
    (
        "pygt",
        r#"{"nodes": [{"id": 1, "y": [1]}], "links": [{"source": 1, "target": 2}]}"#,
        "f: at links[0].target: found '2', expected the id of one of the nodes",
    ),
    (
        "pygt",
        r#"{"0": {"edges": [], "y": [1]}, "2": {"edges": [], "y": [1]}}"#,
        "f: found the keys 0, 2, expected '1' among them",
    ),
    ("pygt", r#"{"0": {"y": [1]}}"#, "f: at \"0\": found the keys y, expected 'edges' among them"),
    (
        "pygt",
        r#"{"0": {"edges": [], "y": [1], "X": [[1, 2], [3, 4]]}}"#,
        "f: at \"0\".X: found 2 value(s), expected 1: one for each vertex",
    ),
    (
        "pygt",
        r#"{"0": {"edges": [], "y": [1, 2], "X": [[1, 2], [3]]}}"#,
        "f: at \"0\".X[1]: found 1 value(s), expected 2: one for each feature",
    ),
];

#[test]
fn errors_say_where_what_was_found_and_what_was_expected() {
    for (format, text, expected) in BAD {
        let Err(error) = read(format, &Hints::default(), text) else { panic!("{format} accepted {text:?}") };
        let (error, mut from) = (error.to_string(), 0);
        for (index, part) in expected.split('…').enumerate() {
            let at = error[from..].find(part).filter(|&at| index > 0 || at == 0);
            from += at.unwrap_or_else(|| panic!("{format} {text:?}\n gives {error}\n  not {expected}"))
                + part.len();
        }
        assert!(error.contains("found") || error.contains("expected") || error.contains("say "), "{error}");
    }
}

#[test]
fn nothing_is_an_error_and_remarks_alone_are_an_empty_graph() {
    for format in load::ALL {
        let error = read(format.name(), &Hints::default(), "").err().unwrap().to_string();
        assert_eq!(error, "f: is empty; expected at least one row");
        for text in ["# only\n# remarks\n", "% one\r\n", "#"] {
            match read(format.name(), &Hints::default(), text) {
                Ok(intake) => assert_eq!((intake.log.len(), intake.ids.len()), (0, 0), "{}", format.name()),
                Err(error) => assert_eq!((format.name(), &error.to_string()[..2]), ("pygt", "f,")),
            }
        }
    }
}

#[test]
fn columns_given_by_the_user_are_checked_as_settings() {
    for (names, expected) in [
        ("source,time", "--columns: found the columns source, time; expected one with the target"),
        ("time,target", "--columns: found the columns time, target; expected one with the source"),
    ] {
        let error = read("csv", &columns(names), "1,2\n").err().unwrap().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let error = load::find("cvs").err().unwrap().to_string();
    assert!(error.starts_with("--format: there is no format 'cvs'; known are pygt, "), "{error}");
}

#[test]
fn columns_that_cannot_be_features_of_edges_are_refused() {
    let table = "from,to,when,amount,memo\n1,2,3,4,x\n2,1,4,5,y\n";
    for (format, names, text, expected) in [
        ("csv", "price", table, "'price' is no column of f, which has from, to, when, amount, memo"),
        ("csv", "9", table, "'9' is no column of f, which has from"),
        ("csv", "amount,4", table, "the column '4' is named twice"),
        ("csv", "when", table, "column 3 of f is the time; features are in other columns"),
        ("csv", "to", table, "column 2 of f is the target; features are in other columns"),
        ("csv", "", table, "'' is no column of f"),
        ("snap", "4", "1 2 3\n", "'4' is no column of f; columns without names go by 1 to 3"),
        ("tgb", "from", "ts,from,to\n1,2,3\n", "column 2 of f is the source"),
        ("jodie", "ts", "u,i,ts,label,a\n1,2,3,0,5\n", "column 3 of f says which edge it is, when, or its"),
        ("jodie", "7", "u,i,ts,label,f\n1,2,3,0,5,6\n", "'7' is no column of f; columns without names"),
        ("jodie", "5", ",u,i,ts,label,idx\n0,1,2,3.0,1.0,1\n", "f has no features, but an index"),
    ] {
        let named = EdgeFeatures::Named(names.split(',').map(String::from).collect());
        let hints = Hints { edge_features: named, ..Hints::default() };
        let error = read(format, &hints, text).err().unwrap().to_string();
        assert!(
            error.starts_with("--edge-features: ") && error.contains(expected),
            "{format} {names}: {error}"
        );
    }
    let named = EdgeFeatures::Named(vec!["memo".into()]);
    let error = read("csv", &Hints { edge_features: named, ..Hints::default() }, table).err().unwrap();
    assert!(error.to_string().contains("f, line 2, column 5 (edge feature): found 'x'"), "{error}");
}

#[test]
fn messages_stay_short_whatever_the_input() {
    let wide = "column_with_a_name,".repeat(5_000);
    let long = "x".repeat(100_000);
    for (format, text) in [
        ("csv", wide.clone()),
        ("csv", format!("u,v,t,{wide}\n1,2\n")),
        ("jodie", wide.clone()),
        ("tgb", format!("{long},{wide}")),
        ("snap", format!("{long} 1 2\n")),
        ("pygt", format!("{{\"edges\": {long}")),
        ("pygt", format!("{{\"{long}\": 1}}")),
        ("pygt", format!("{{\"edges\": [], \"X\": [[1]], \"node_ids\": {{\"{long}\": \"{long}\"}}}}")),
    ] {
        let error = read(format, &Hints::default(), &text).err().unwrap().to_string();
        assert!(error.len() < 800, "{format}: {} bytes", error.len());
    }
}
