//! Event files read back, checksums, names.

use super::*;
use proptest::prelude::*;

/// A scalar as a reader sees it.
#[derive(Clone, Debug, PartialEq)]
struct Scalar {
    tag: String,
    step: i64,
    value: f32,
    wall_time: f64,
}

/// The contents of all records; lengths and checksums must be right.
fn records(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while !file.is_empty() {
        let (length, rest) = file.split_at(8);
        let (check, rest) = rest.split_at(4);
        assert_eq!(check, masked(length).to_le_bytes());
        let (content, rest) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
        let (check, rest) = rest.split_at(4);
        assert_eq!(check, masked(content).to_le_bytes());
        found.push(content.to_vec());
        file = rest;
    }
    found
}

fn read_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (&byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// The fields of a message: number and content, a varint as its eight bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = read_varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                found.push((key >> 3, read_varint(&mut bytes).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => read_varint(&mut bytes) as usize,
            5 => 4,
            kind => panic!("kind {kind}"),
        };
        let (content, rest) = bytes.split_at(length);
        found.push((key >> 3, content.to_vec()));
        bytes = rest;
    }
    found
}

fn only<const N: usize>(fields: &[(u64, Vec<u8>)], numbers: [u64; N]) -> [Vec<u8>; N] {
    assert_eq!(fields.iter().map(|field| field.0).collect::<Vec<_>>(), numbers);
    std::array::from_fn(|i| fields[i].1.clone())
}

/// The scalars of a file, which must begin with its version.
fn read(path: &Path) -> Vec<Scalar> {
    let records = records(&std::fs::read(path).unwrap());
    let [_, version] = only(&fields(&records[0]), [1, 3]);
    assert_eq!(version, VERSION.as_bytes());
    let scalar = |record: &Vec<u8>| {
        let [wall_time, step, summary] = only(&fields(record), [1, 2, 5]);
        let [entry] = only(&fields(&summary), [1]);
        let [tag, value] = only(&fields(&entry), [1, 2]);
        Scalar {
            tag: String::from_utf8(tag).unwrap(),
            step: i64::from_le_bytes(step.try_into().unwrap()),
            value: f32::from_le_bytes(value.try_into().unwrap()),
            wall_time: f64::from_le_bytes(wall_time.try_into().unwrap()),
        }
    };
    records[1..].iter().map(scalar).collect()
}

#[test]
fn the_checksum_is_the_known_one() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(b""), 0);
}

#[test]
fn names_say_when_the_run_began_and_none_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new");
    let names: Vec<String> = [1234.9, 1234.0, -5.0, f64::NAN]
        .into_iter()
        .map(|begun| {
            let mut events = EventFile::create(&folder, "a/b c", begun).unwrap();
            events.scalar("loss", 1, 0.0, begun).unwrap();
            events.path().file_name().unwrap().to_string_lossy().into_owned()
        })
        .collect();
    let name = |seconds: &str, behind: &str| format!("events.out.tfevents.{seconds}.a_b_c{behind}");
    assert_eq!(
        names,
        [name("0000001234", ""), name("0000001234", ".1"), name("0000000000", ""), name("0000000000", ".1")]
    );
    assert!(names.iter().all(|name| read(&folder.join(name)).len() == 1));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = EventFile::create(&folder.path().join("file"), "x", 0.0).err().unwrap().to_string();
    assert!(error.starts_with("cannot create ") && error.contains("file"), "{error}");
}

proptest! {
    #[test]
    fn scalars_come_back(
        scalars in prop::collection::vec((".{0,200}", any::<i64>(), any::<f32>(), -1e12..1e12), 0..60)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path(), "x", 1e9).unwrap();
        let scalars: Vec<Scalar> = scalars
            .into_iter()
            .map(|(tag, step, value, wall_time)| Scalar { tag, step, value, wall_time })
            .collect();
        for s in &scalars {
            events.scalar(&s.tag, s.step, s.value, s.wall_time).unwrap();
            // Whatever is in the file so far ends with a whole record.
            prop_assert!(read(events.path()).len() <= scalars.len());
        }
        events.flush().unwrap();
        prop_assert_eq!(read(events.path()), scalars);
    }
}
