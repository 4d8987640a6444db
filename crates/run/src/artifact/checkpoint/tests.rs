//! Tests of checkpoints: what is written comes back, and damage is found.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::path::PathBuf;

fn small() -> Checkpoint {
    let array = |shape: &[usize], values: &[f32]| Array { shape: shape.into(), values: values.into() };
    let arrays = [
        ("bias", array(&[], &[0.5])),
        ("empty", array(&[0, 3], &[])),
        ("weight", array(&[2, 3], &[1.0, -0.0, f32::INFINITY, f32::NAN, 1e-42, -7.25])),
    ];
    Checkpoint {
        facts: json!({ "epoch": 3, "rate": 0.1, "name": "a \"b\" ü" }),
        arrays: arrays.into_iter().map(|(name, array)| (name.to_string(), array)).collect(),
    }
}

/// All that must come back, with floats as their bits: NaN is equal to nothing, and the two zeros are equal.
fn bits(checkpoint: &Checkpoint) -> String {
    let arrays = checkpoint.arrays.iter().map(|(name, array)| {
        let bits: Vec<u32> = array.values.iter().map(|value| value.to_bits()).collect();
        (name, &array.shape, bits)
    });
    format!("{} {:?}", checkpoint.facts, arrays.collect::<Vec<_>>())
}

fn written(checkpoint: &Checkpoint) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    checkpoint.write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (folder, path, bytes)
}

/// What reading a file with these bytes answers.
fn answer(path: &Path, bytes: &[u8]) -> Result<Checkpoint> {
    std::fs::write(path, bytes).unwrap();
    Checkpoint::read(path)
}

fn is_refused(path: &Path, bytes: &[u8], how: &str) {
    let error = answer(path, bytes).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("c.safetensors: ") && error.contains("start again or use another checkpoint"));
    assert!(error.contains(how), "{error}");
}

#[test]
fn other_readers_of_safetensors_read_the_arrays() {
    let (_folder, _, bytes) = written(&small());
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.len(), 3);
    let weight = file.tensor("weight").unwrap();
    assert_eq!((weight.dtype(), weight.shape()), (Dtype::F32, &[2, 3][..]));
    assert_eq!(weight.data()[20..], (-7.25f32).to_le_bytes());
    let (header, _) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header % 8, 0);
}

#[test]
fn the_same_content_gives_the_same_bytes_and_replaces_what_was_there() {
    let (folder, path, bytes) = written(&small());
    for _ in 0..5 {
        small().write(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(matches!(small().write(&path.join("c")), Err(Error::Resource { .. })));
}

#[test]
fn arrays_that_make_no_sense_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c");
    for (name, shape) in [("x", vec![2, 2]), ("x", vec![usize::MAX, 2]), (RESERVED, vec![3])] {
        let array = Array { shape, values: vec![0.0; 3] };
        let checkpoint = Checkpoint { facts: Value::Null, arrays: [(name.to_string(), array)].into() };
        let error = checkpoint.write(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn files_that_are_something_else_are_refused() {
    let (_folder, path, bytes) = written(&small());
    for length in 0..bytes.len() {
        is_refused(&path, &bytes[..length], "");
    }
    is_refused(&path, b"", "ends too early");
    is_refused(&path, &bytes[..bytes.len() - 1], "has 27 bytes of arrays where its header says 28");
    is_refused(&path, &[&bytes[..], b"x"].concat(), "has 29 bytes");
    is_refused(&path, &[&u64::MAX.to_le_bytes()[..], &bytes[8..]].concat(), "too few");
    is_refused(&path, &[&[0; 8][..], &bytes[8..]].concat(), "header that cannot be read");
    is_refused(&path, b"source,target,time\n1,2,3\n4,5,6\n", "too few");
    let other = |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    is_refused(&path, &other("{}"), "no mark");
    is_refused(&path, &other(r#"{"__metadata__":{"kymo":"checkpoint 9"}}"#), "reads \"checkpoint 1\"");
    is_refused(&path, &other(r#"{"__metadata__":{"kymo":"checkpoint 1","facts":"1"}}"#), "no checksum");
    assert!(matches!(Checkpoint::read(&path.join("none")), Err(Error::Resource { .. })));
}

/// A checksum that was made of bad facts is no excuse for them.
#[test]
fn facts_that_are_not_json_are_refused() {
    let (_folder, path, _) = written(&small());
    let about = About { kymo: VERSION, facts: "{", checksum: Checksum::of("{").finish() };
    let header = serde_json::to_vec(&Header { about, arrays: BTreeMap::new() }).unwrap();
    is_refused(&path, &[&(header.len() as u64).to_le_bytes()[..], &header].concat(), "not valid JSON");
}

#[test]
fn every_flipped_byte_is_found_or_does_no_harm() {
    let (_folder, path, mut bytes) = written(&small());
    for at in 0..bytes.len() {
        for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
            bytes[at] ^= flip;
            match answer(&path, &bytes) {
                Ok(read) => assert_eq!(bits(&read), bits(&small()), "byte {at}, flipped {flip}"),
                Err(error) => assert!(matches!(error, Error::File { .. }), "{error}"),
            }
            bytes[at] ^= flip;
        }
    }
    assert!(answer(&path, &bytes).is_ok());
}

fn array() -> impl Strategy<Value = Array> {
    prop::collection::vec(0usize..5, 0..4).prop_flat_map(|shape| {
        let count = shape.iter().product::<usize>();
        // Every pattern of bits, so also those of NaN and of infinity.
        prop::collection::vec(any::<u32>(), count).prop_map(move |bits| Array {
            shape: shape.clone(),
            values: bits.into_iter().map(f32::from_bits).collect(),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn everything_comes_back_bit_for_bit(
        arrays in prop::collection::btree_map(".{0,12}", array(), 0..6),
        number in any::<f64>(),
        text in ".{0,20}",
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
    ) {
        let checkpoint = Checkpoint { facts: json!({ "number": number, text: [null, -1] }), arrays };
        let (_folder, path, mut bytes) = written(&checkpoint);
        let read = Checkpoint::read(&path).unwrap();
        prop_assert_eq!(bits(&read), bits(&checkpoint));
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        if let Ok(read) = answer(&path, &bytes) {
            prop_assert_eq!(bits(&read), bits(&checkpoint));
        }
    }

    /// More values than fit one block.
    #[test]
    fn long_arrays_come_back(count in BLOCK - 2..3 * BLOCK, first in any::<u32>()) {
        let value = |i: u32| f32::from_bits(first ^ i.wrapping_mul(0x9e37_79b9));
        let values: Vec<f32> = (0..count as u32).map(value).collect();
        let arrays = [("x".to_string(), Array { shape: vec![count], values })].into();
        let checkpoint = Checkpoint { facts: Value::Null, arrays };
        let (_folder, path, _) = written(&checkpoint);
        let read = Checkpoint::read(&path).unwrap();
        prop_assert_eq!(bits(&read), bits(&checkpoint));
    }
}
