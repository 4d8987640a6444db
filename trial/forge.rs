//! Forgery: files that are well formed, with checksums that fit, and say what cannot be.

use std::path::Path;

use kymo::graph::store::Manifest;
use kymo::run::artifact::Checkpoint;
use serde_json::{Value, json};

use crate::command::{Fault, Verdict};
use crate::draw::Draw;

/// Stands for a number that JSON cannot write, until the text is there.
const NAN: &str = "not-a-number";

/// Replaces something in a file of a store or a run by an extreme, with all checksums made right again. What
/// was done, or `None` where the file has nothing to replace.
pub fn forge(draw: &mut Draw, folder: &Path, name: &str) -> Verdict<Option<String>> {
    let path = folder.join(name);
    let bytes = std::fs::read(&path)?;
    let last = name.rsplit('/').next().unwrap_or(name);
    Ok(match last.rsplit('.').next().unwrap_or_default() {
        "json" => {
            let Ok(mut value) = serde_json::from_slice(&bytes) else { return Ok(None) };
            let what = replace(draw, &mut value);
            let manifest: Option<Manifest> = serde_json::from_value(value.clone()).ok();
            match manifest.filter(|_| last == "manifest.json") {
                Some(manifest) => drop(manifest.write(path.parent().unwrap_or(folder)).map_err(unwritten)?),
                None => std::fs::write(&path, written(&value))?,
            }
            Some(what)
        }
        "jsonl" => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let at = draw.below(lines.len());
            let Some(Ok(mut value)) = lines.get(at).map(|line| serde_json::from_str(line)) else {
                return Ok(None);
            };
            let what = replace(draw, &mut value);
            lines[at] = written(&value);
            std::fs::write(&path, lines.join("\n") + "\n")?;
            Some(format!("line {at}, {what}"))
        }
        "toml" => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let keys: Vec<&str> = text.lines().filter(|line| line.contains('=')).collect();
            let line = *draw.pick(&keys);
            let key = line.split('=').next().unwrap_or_default().trim();
            let extreme =
                *draw.pick(&["0", "-1", "1e18", "nan", "inf", "\"\"", "[]", "{}", "9e999", "true", "x"]);
            std::fs::write(&path, text.replacen(line, &format!("{key} = {extreme}"), 1))?;
            Some(format!("{key} = {extreme}"))
        }
        "safetensors" if last == "checkpoint.safetensors" => checkpoint(draw, &path)?,
        "safetensors" => arrays(draw, &path, bytes)?,
        _ => None,
    })
}

fn unwritten(error: impl std::fmt::Display) -> Fault {
    Fault::new("the trial itself failed", error.to_string())
}

fn written(value: &Value) -> String {
    value.to_string().replace(&format!("\"{NAN}\""), "NaN")
}

fn extreme(draw: &mut Draw) -> Value {
    let deep = (0..draw.below(200)).fold(json!([]), |inner, _| json!([inner]));
    let list = [
        json!(0),
        json!(-1),
        json!(1),
        json!(3),
        json!(1e18),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(-1e308),
        json!(0.5),
        json!(u32::MAX),
        json!(NAN),
        json!(""),
        json!("x"),
        json!("../x"),
        json!("é".repeat(10_000)),
        json!(null),
        json!(true),
        json!([]),
        json!({}),
        json!([1, 2]),
        deep,
    ];
    draw.pick(&list).clone()
}

/// Replaces, takes away or doubles one value at any depth; what was done.
fn replace(draw: &mut Draw, value: &mut Value) -> String {
    match value {
        Value::Object(fields) if !fields.is_empty() && !draw.one_in(12) => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            let key = draw.pick(&keys);
            if draw.one_in(12) {
                fields.remove(key);
                return format!("without {key}");
            }
            fields.get_mut(key).map(|field| format!("{key}.{}", replace(draw, field))).unwrap_or_default()
        }
        Value::Array(list) if !list.is_empty() && !draw.one_in(12) => {
            let at = draw.below(list.len());
            match draw.below(12) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                _ => return format!("{at}.{}", replace(draw, &mut list[at])),
            }
            format!("{at} removed or doubled")
        }
        _ => {
            *value = extreme(draw);
            value.to_string().chars().take(40).collect()
        }
    }
}

/// Changes facts or numbers of a checkpoint and writes it with its checksum.
fn checkpoint(draw: &mut Draw, path: &Path) -> Verdict<Option<String>> {
    let mut checkpoint = Checkpoint::read(path).map_err(unwritten)?;
    let what = if draw.one_in(2) {
        replace(draw, &mut checkpoint.facts)
    } else {
        let names: Vec<String> = checkpoint.arrays.keys().cloned().collect();
        let name = draw.pick(&names).clone();
        let Some(mut array) = checkpoint.arrays.remove(&name) else { return Ok(None) };
        let kept = match draw.below(4) {
            0 => None,
            1 => Some(format!("{name}.other")),
            2 => {
                array.values.truncate(array.values.len() / 2);
                array.shape = vec![array.values.len()];
                Some(name.clone())
            }
            _ => {
                let number = *draw.pick(&[f32::NAN, f32::INFINITY, f32::MAX, -0.0, 1e-45]);
                array.values.iter_mut().for_each(|value| *value = number);
                Some(name.clone())
            }
        };
        let what = format!("{name} became {kept:?}");
        checkpoint.arrays.extend(kept.map(|name| (name, array)));
        what
    };
    checkpoint.write(path).map_err(unwritten)?;
    Ok(Some(what))
}

/// Changes numbers or the header of a file of a store, and the checksums in its manifest.
fn arrays(draw: &mut Draw, path: &Path, mut bytes: Vec<u8>) -> Verdict<Option<String>> {
    let length = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length)) as usize;
    let what = if draw.one_in(3) {
        let Some(Ok(mut header)) = bytes.get(8..8 + length).map(serde_json::from_slice) else {
            return Ok(None);
        };
        let what = replace(draw, &mut header);
        let header = written(&header).into_bytes();
        bytes.splice(..8 + length, (header.len() as u64).to_le_bytes().into_iter().chain(header));
        format!("header: {what}")
    } else {
        let data = bytes.len().saturating_sub(8 + length) / 4;
        let at = 8 + length + 4 * draw.below(data);
        let word = *draw.pick(&[0, 1, 7, 60, u32::MAX, 1 << 31, f32::NAN.to_bits(), f32::MAX.to_bits()]);
        if let Some(four) = bytes.get_mut(at..at + 4) {
            four.copy_from_slice(&word.to_le_bytes());
        }
        format!("{word:#x} at {at}")
    };
    std::fs::write(path, &bytes)?;
    let folder = path.parent().unwrap_or(path);
    let mut manifest = Manifest::read(folder).map_err(unwritten)?;
    let files = manifest.parts.iter_mut().map(|part| &mut part.file);
    for entry in files.chain(&mut manifest.ids).chain(&mut manifest.fixed) {
        if path.ends_with(&entry.name) {
            (entry.bytes, entry.crc32) = (bytes.len() as u64, crc32fast::hash(&bytes));
        }
    }
    manifest.write(folder).map_err(unwritten)?;
    Ok(Some(what))
}
