//! Fuzzing within a process: bytes for every reader, whole ingests, and settings. Whatever they are, a
//! result comes out, never a panic.

use std::path::{Path, PathBuf};

use kymo::Settings;
use kymo::graph::cut::{Cut, Life};
use kymo::graph::ingest::{Features, Settings as Ingest, ingest};
use kymo::graph::load::side::{FeatureLayout, read_features, read_labels, read_signal};
use kymo::graph::load::{ALL, Format, Hints, IdKind, Source, detect, read_bytes};
use kymo::graph::time::DateOrder;
use kymo::graph::{Progress, stats};
use kymo::run::config::overlay;

use crate::command::{Fault, Verdict};
use crate::draw::{Draw, WORDS};

/// Steps of a store that is looked at whole.
const MOST_LOOKED_AT: usize = 10_000;

/// Tries one case; errors are what is hoped for, panics are caught by the caller.
pub fn case(draw: &mut Draw, folder: &Path) -> Verdict {
    match draw.below(10) {
        0..=3 => reader(draw, folder),
        4 => side(draw, folder),
        5..=6 => whole(draw, folder),
        _ => settings(draw, folder),
    }
}

/// An input: the example of a format or a table, as it is, with a field replaced, or after an unsteady hand;
/// and the format, where it is known.
pub fn input(draw: &mut Draw) -> (Vec<u8>, Option<&'static dyn Format>) {
    let format = (!draw.one_in(4)).then(|| *draw.pick(ALL));
    let mut bytes = format.map_or_else(|| table(draw), |format| format.example().as_bytes().to_vec());
    if draw.one_in(4) {
        // Longer than what a format is recognised by.
        bytes = bytes.repeat(1 + draw.below(60));
    }
    match draw.below(8) {
        0 | 1 => {}
        2..=5 => replace_field(draw, &mut bytes),
        6 => {
            let at = draw.below(bytes.len());
            bytes[at..].iter_mut().take(1).for_each(|byte| *byte ^= 1 << draw.below(8));
        }
        _ => draw.mutate(&mut bytes, WORDS),
    }
    (bytes, format)
}

/// Replaces one field: what the reader makes of the rest stays meaningful.
fn replace_field(draw: &mut Draw, bytes: &mut Vec<u8>) {
    let ends = |byte: &u8| b",;\t \n[]\":".contains(byte);
    let at = draw.below(bytes.len());
    let begin = bytes[..at].iter().rposition(ends).map_or(0, |end| end + 1);
    let end = bytes[at..].iter().position(ends).map_or(bytes.len(), |end| at + end);
    let field = field(draw, 2);
    bytes.splice(begin..end.max(begin), field.into_bytes());
}

/// A table with a header or without, separated by anything, with rows that are mostly right.
fn table(draw: &mut Draw) -> Vec<u8> {
    let headers =
        ["source,target,time", "source,target,time,weight", "step,source,target", "src,dst,timestamp,x,y"];
    let others = [
        "target,source",
        "time",
        "source,source,time",
        "a,b,c",
        "source,target,weight,label,Ä,",
        "day,src,dst,weight",
    ];
    let header = if draw.one_in(4) { *draw.pick(&others) } else { *draw.pick(&headers) };
    let between = *draw.pick(&[",", ",", ",", "\t", ";", " ", "|", ", ", "::"]);
    let end = *draw.pick(&["\n", "\n", "\n", "\r\n", "\n\n", "\r"]);
    let columns = header.split(',').count();
    let mut text = if draw.one_in(4) { String::new() } else { header.replace(',', between) + end };
    let strange = *draw.pick(&[10, 100, 1000]);
    for _ in 0..draw.below(60) {
        let ragged = if draw.one_in(2 * strange) { draw.below(9) } else { columns };
        let fields: Vec<String> = (0..ragged).map(|_| field(draw, strange)).collect();
        text += &(fields.join(between) + end);
    }
    text.into_bytes()
}

/// A field, one in `strange` of which is no small number.
fn field(draw: &mut Draw, strange: usize) -> String {
    if !draw.one_in(strange) {
        return draw.below(20).to_string();
    }
    let field = match draw.below(6) {
        0..=2 => draw.pick(WORDS).to_string(),
        3 => (draw.word() as i64).to_string(),
        4 => f64::from_bits(draw.word()).to_string(),
        _ => format!("{}-{:02}-{:02}", 1900 + draw.below(200), draw.below(14), draw.below(33)),
    };
    if draw.one_in(5) { format!("\"{field}\"") } else { field }
}

fn hints(draw: &mut Draw) -> Hints {
    let names = ["source", "target", "time", "step", "weight", "_", "source_label", "target_label", "", "x"];
    let mut hints = Hints::default();
    if draw.one_in(20) {
        hints.columns = Some((0..draw.below(7)).map(|_| draw.pick(&names).to_string()).collect());
    }
    if draw.one_in(20) {
        hints.delimiter = Some(*draw.pick(b",;\t |\0\n\"\xff1"));
    }
    if draw.one_in(20) {
        hints.time_unit = draw.pick(&["s", "ms", "ns", "d", "date", "step", "us", "h"]).parse().ok();
    }
    if draw.one_in(5) {
        hints.ids = Some(*draw.pick(&[IdKind::Number, IdKind::Text]));
    }
    if draw.one_in(10) {
        hints.style.dates = Some(*draw.pick(&[DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd]));
    }
    hints.style.decimal_comma = draw.one_in(10);
    hints
}

fn reader(draw: &mut Draw, folder: &Path) -> Verdict {
    let ((bytes, own), hints) = (input(draw), hints(draw));
    let found = || {
        let source = Source::from_bytes("input", bytes.clone());
        source.and_then(|mut source| detect(&mut source, &hints)).ok()
    };
    let format = match draw.below(6) {
        0 => *draw.pick(ALL),
        1 => found().unwrap_or(*draw.pick(ALL)),
        _ => own.or_else(found).unwrap_or(*draw.pick(ALL)),
    };
    let read = read_bytes(format, &hints, "input", bytes, folder);
    in_words(read.map(drop))
}

/// An error has to say something.
fn in_words<E: std::fmt::Display>(result: Result<(), E>) -> Verdict {
    match result {
        Err(error) if error.to_string().trim().is_empty() => Err(Fault::new("an error without a word", "")),
        _ => Ok(()),
    }
}

/// A file that goes with an input.
fn side_file(draw: &mut Draw) -> Vec<u8> {
    let examples = [
        "0 red train\n1 blue test\n2 red val\n",
        "vertex,class,step\n0,red,0\n1,blue,1\n",
        "0.5 1 2\n1 0 3.5\n-1 2e3 0\n",
        "0:1 3:2.5\n\n1:1\n",
        "0,1,2\n0.5,1,2\n1,-1,3\n",
    ];
    let mut bytes = if draw.one_in(8) { table(draw) } else { draw.pick(&examples).as_bytes().to_vec() };
    match draw.below(4) {
        0 => {}
        1 | 2 => replace_field(draw, &mut bytes),
        _ => draw.mutate(&mut bytes, WORDS),
    }
    bytes
}

fn side(draw: &mut Draw, folder: &Path) -> Verdict {
    let graph = b"0 1 0\n1 2 1\n".to_vec();
    let snap = kymo::graph::load::find("snap");
    let intake = snap.and_then(|format| read_bytes(format, &Hints::default(), "graph", graph, folder));
    let mut intake = intake.map_err(|error| Fault::new("the trial itself failed", error.to_string()))?;
    let bytes = side_file(draw);
    let Ok(mut source) = Source::from_bytes("input", bytes) else { return Ok(()) };
    match draw.below(3) {
        0 => in_words(read_labels(&mut source, &mut intake).map(drop)),
        1 => in_words(read_features(&mut source, FeatureLayout::Auto, &mut intake).map(drop)),
        _ => in_words(read_signal(&mut source, &mut intake).map(drop)),
    }
}

/// From a file to a store, which must then be what it says it is.
fn whole(draw: &mut Draw, folder: &Path) -> Verdict {
    let path = |name: &str, bytes: Vec<u8>| -> Verdict<PathBuf> {
        std::fs::write(folder.join(name), bytes)?;
        Ok(folder.join(name))
    };
    let file = path("input", input(draw).0)?;
    let labels = draw.one_in(16).then(|| path("labels", side_file(draw))).transpose()?;
    let signal = draw.one_in(16).then(|| path("signal", side_file(draw))).transpose()?;
    let features = match draw.below(16) {
        0 => Features::None,
        1 => Features::Events,
        2 => Features::File(path("features", side_file(draw))?),
        _ => Features::Auto,
    };
    let cuts = ["7d", "1", "1e-9", "month", "year", "hour", "0", "1e300", "nan", "3s"];
    let cut = match draw.below(9) {
        0 => draw.pick(&cuts).parse().ok(),
        1 => Some(Cut::Steps(*draw.pick(&[0, 1, 2, 50, 1_000_000, usize::MAX]))),
        2 => Some(Cut::Events(*draw.pick(&[0, 1, 3, usize::MAX]))),
        _ => None,
    };
    let life =
        draw.one_in(4).then(|| draw.pick(&["forever", "0", "1", "18446744073709551615"]).parse::<Life>());
    let settings = Ingest {
        format: draw.one_in(10).then(|| draw.pick(ALL).name().to_owned()),
        hints: hints(draw),
        bipartite: draw.one_in(12),
        cut,
        life: life.and_then(Result::ok),
        undirected: draw.one_in(4),
        drop_self_loops: draw.one_in(4),
        segments: if draw.one_in(12) { *draw.pick(&[1, 0, 1000, usize::MAX]) } else { 4 },
        memory: 256 << 20,
        features,
        labels,
        signal,
        ..Ingest::default()
    };
    match ingest(&[file], &folder.join("store"), &settings, &Progress::silent()) {
        Ok(outcome) => {
            let store = &outcome.store;
            let looked = || match store.steps() {
                // A look at a million steps takes longer than a case may.
                steps if steps > MOST_LOOKED_AT => Ok(()),
                _ => stats::stats(store, &Progress::silent()).map(drop),
            };
            let checked = store.verify().and_then(|()| looked());
            let wrong =
                |error: kymo::graph::Error| Fault::new("a store that is not whole", error.to_string());
            checked.map_err(wrong)
        }
        Err(error) if folder.join("store").exists() => {
            Err(Fault::new("a failed ingest left a store", error.to_string()))
        }
        error => in_words(error.map(drop)),
    }
}

/// The dotted keys of all settings.
pub fn keys() -> Vec<String> {
    let text = overlay::to_toml(&Settings::default()).unwrap_or_default();
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.push(format!("{section}.{key}"));
        }
    }
    keys
}

/// Settings from a file and from overrides, and what is built of them before anything is trained.
fn settings(draw: &mut Draw, folder: &Path) -> Verdict {
    let keys = keys();
    let mut file = None;
    if draw.one_in(2) {
        let mut text = overlay::to_toml(&Settings::default()).unwrap_or_default().into_bytes();
        if draw.one_in(2) {
            draw.mutate(&mut text, WORDS);
        } else {
            replace_field(draw, &mut text);
        }
        std::fs::write(folder.join("settings.toml"), text)?;
        file = Some(folder.join("settings.toml"));
    }
    let override_of = |draw: &mut Draw| {
        let mut key = draw.pick(&keys).clone().into_bytes();
        if draw.one_in(10) {
            draw.mutate(&mut key, WORDS);
        }
        (String::from_utf8_lossy(&key).into_owned(), field(draw, 2), "--set".to_owned())
    };
    let overrides: Vec<_> = (0..draw.below(3)).map(|_| override_of(draw)).collect();
    let resolved: kymo::Result<Settings> = overlay::resolve(file.as_deref(), &overrides);
    let checked = resolved.and_then(|settings| {
        settings.check()?;
        // What is written is read again as the same.
        let text = overlay::to_toml(&settings)?;
        std::fs::write(folder.join("again.toml"), text).ok();
        let again: Settings = overlay::resolve(Some(&folder.join("again.toml")), &[])?;
        Ok(overlay::differences(&settings, &again))
    });
    match checked {
        Ok(different) if different.is_empty() => Ok(()),
        Ok(different) => Err(Fault::new("settings that do not come back", different.join("; "))),
        error => in_words(error.map(drop)),
    }
}
