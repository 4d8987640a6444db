//! The rooms of `crates/run`: each uses only those below it, so there is no import cycle between them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::tidy::{files, name, product, read, root};

const SOURCE: &str = "crates/run/src/";

/// The rooms from the bottom to the top, as the table at the head of the crate lists them.
fn rooms() -> Vec<String> {
    let text = read(&root().join(SOURCE).join("lib.rs"));
    let cell = |line: &str| Some(line.strip_prefix("//! | `")?.split('`').next()?.to_owned());
    text.lines().filter_map(cell).collect()
}

/// The room that a file of the crate belongs to.
fn room_of(path: &Path) -> Option<String> {
    let name = name(path);
    let rest = name.strip_prefix(SOURCE)?;
    let room = rest.split('/').next()?.trim_end_matches(".rs").to_owned();
    (room != "lib").then_some(room)
}

/// The rooms that a text of the crate refers to.
fn used(text: &str, rooms: &[String]) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut found = Vec::new();
    for line in code {
        for rest in line.split("crate::").skip(1) {
            let names = rest.trim_start_matches('{').split(|c: char| !c.is_alphanumeric() && c != '_');
            let first = names.into_iter().next().unwrap_or_default();
            if rooms.iter().any(|room| room == first) {
                found.push(first.to_owned());
            }
        }
    }
    found
}

#[test]
fn rooms_use_only_those_below_them() {
    let rooms = rooms();
    assert!(rooms.len() > 10, "{rooms:?}");
    let height: BTreeMap<&str, usize> =
        rooms.iter().enumerate().map(|(height, room)| (room.as_str(), height)).collect();
    for path in files(&[".rs"]) {
        let Some(room) = room_of(&path) else { continue };
        let Some(&own) = height.get(room.as_str()) else {
            panic!("{}: {room} is not in the table of {SOURCE}lib.rs", name(&path));
        };
        for other in used(&product(&read(&path)), &rooms) {
            assert!(height[other.as_str()] <= own, "{}: {room} may not use {other}", name(&path));
        }
    }
}

#[test]
fn every_room_is_there_and_says_what_it_is() {
    for room in rooms() {
        let folder = root().join(SOURCE).join(&room);
        let head = if folder.is_dir() { folder.join("mod.rs") } else { folder.with_extension("rs") };
        let text = read(&head);
        let about: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(about.join(" ").len() > 60, "{} does not say what the room is for", name(&head));
    }
}

#[test]
fn the_training_loop_can_be_read_in_one_sitting() {
    let path = root().join(SOURCE).join("train/training_loop.rs");
    let lines = read(&path).lines().count();
    assert!(lines <= 200, "{} has {lines} lines", name(&path));
}
