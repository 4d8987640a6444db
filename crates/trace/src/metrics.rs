//! `metrics.jsonl`: what a run measured, one JSON object a line.
//!
//! A line counts when its newline is there. A kill can leave a last line without one; it was never finished,
//! and readers skip it. JSON has no NaN and no infinities: such numbers become `null`.
//!
//! The file of a run has one [`EpochRecord`](crate::schema::EpochRecord) a line.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use kymo_files::write_whole;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// A file of metrics being written.
pub struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
    lines: usize,
    line: Vec<u8>,
}

impl Log {
    /// Creates a new file; refuses to replace one.
    pub fn create(path: &Path) -> Result<Log> {
        let file = File::create_new(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Error::file(path, "exists already; continue that run, or choose another folder")
            }
            _ => Error::resource("cannot create", path)(error),
        })?;
        Ok(Log { path: path.into(), file, bytes: 0, lines: 0, line: Vec::new() })
    }

    /// Continues after the first `keep` lines and removes what follows them: a resumed run writes it again.
    ///
    /// A missing file is created where nothing is to be kept.
    pub fn reopen(path: &Path, keep: usize) -> Result<Log> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && keep == 0 => return Log::create(path),
            Err(error) => return Err(Error::resource("cannot open", path)(error)),
        };
        let bytes = end_of_line(file, path, keep)?;
        let length = std::fs::metadata(path).map_err(Error::resource("cannot open", path))?.len();
        if bytes < length {
            cut(path, bytes)?;
        }
        let file =
            OpenOptions::new().append(true).open(path).map_err(Error::resource("cannot open", path))?;
        Ok(Log { path: path.into(), file, bytes, lines: keep, line: Vec::new() })
    }

    /// Adds a line and hands it to the operating system: it survives the end of this process.
    ///
    /// Numbers that are not finite are written as `null`.
    pub fn append(&mut self, record: &impl Serialize) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, record)
            .map_err(|error| Error::file(&self.path, format!("cannot write a record as JSON: {error}")))?;
        if !self.line.starts_with(b"{") {
            let record = String::from_utf8_lossy(&self.line);
            return Err(Error::file(&self.path, format!("{record} is not a record; give it named fields")));
        }
        self.line.push(b'\n');
        self.file.write_all(&self.line).map_err(|error| {
            // A full disk can cut a line short; the next line must not follow the pieces of this one.
            let _ = self.file.set_len(self.bytes);
            Error::resource("cannot write", &self.path)(error)
        })?;
        self.bytes += self.line.len() as u64;
        self.lines += 1;
        Ok(())
    }

    /// How many lines the file has.
    pub fn lines(&self) -> usize {
        self.lines
    }
}

/// Where line number `keep` ends, counted in bytes.
fn end_of_line(file: File, path: &Path, keep: usize) -> Result<u64> {
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    let mut bytes = 0;
    for before in 0..keep {
        line.clear();
        bytes += file.read_until(b'\n', &mut line).map_err(Error::resource("cannot read", path))? as u64;
        if !line.ends_with(b"\n") {
            let problem = format!(
                "has {before} whole lines where {keep} are expected; resume from another checkpoint or start \
                 again"
            );
            return Err(Error::file(path, problem));
        }
    }
    Ok(bytes)
}

/// Shortens a file through a copy, so that a kill leaves the old file or the new one.
fn cut(path: &Path, bytes: u64) -> Result<()> {
    let copy = |copy: &mut _| std::io::copy(&mut File::open(path)?.take(bytes), copy).map(|_| ());
    Ok(write_whole(path, copy)?)
}

/// The lines of a file that end with a newline, numbered from 1; a last line that was cut short is left out.
pub(crate) fn whole_lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    (1..)
        .zip(text[..whole].split_inclusive(|&byte| byte == b'\n'))
        .map(|(number, line)| (number, &line[..line.len() - 1]))
}

/// Reads every line. A last line that was not finished is skipped; any other that is not a JSON object is an
/// error.
pub fn read(path: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read(path).map_err(Error::resource("cannot read", path))?;
    let parse = |(number, line): (usize, &[u8])| match serde_json::from_slice(line) {
        Ok(record @ Value::Object(_)) => Ok(record),
        Ok(_) => Err(Error::line(path, number, "is not a JSON object; remove the line")),
        Err(error) => Err(Error::line(path, number, format!("is not valid JSON: {error}; remove the line"))),
    };
    whole_lines(&text).map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[derive(Serialize)]
    struct Record {
        epoch: usize,
        loss: f64,
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn lines_come_back_and_numbers_that_are_not_finite_are_null() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut log = Log::create(&path).unwrap();
        for (epoch, loss) in [0.1, f64::NAN, f64::INFINITY].into_iter().enumerate() {
            log.append(&Record { epoch, loss }).unwrap();
            // Every line is there at once.
            assert_eq!(read(&path).unwrap().len(), epoch + 1);
        }
        log.append(&json!({ "text": "two\nlines" })).unwrap();
        assert_eq!(log.lines(), 4);
        let expected = [
            json!({ "epoch": 0, "loss": 0.1 }),
            json!({ "epoch": 1, "loss": null }),
            json!({ "epoch": 2, "loss": null }),
            json!({ "text": "two\nlines" }),
        ];
        assert_eq!(read(&path).unwrap(), expected);
    }

    #[test]
    fn what_is_no_object_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut log = Log::create(&path).unwrap();
        let error = log.append(&3).unwrap_err().to_string();
        assert!(error.ends_with("metrics.jsonl: 3 is not a record; give it named fields"), "{error}");
        let pairs: std::collections::BTreeMap<(u8, u8), u8> = [((1, 2), 3)].into();
        assert!(log.append(&pairs).unwrap_err().to_string().contains("as JSON"));
        log.append(&json!({})).unwrap();
        assert_eq!((read(&path).unwrap(), log.lines()), (vec![json!({})], 1));
    }

    #[test]
    fn a_file_that_is_there_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{}\n").unwrap();
        let error = Log::create(&path).err().unwrap().to_string();
        assert!(error.contains("metrics.jsonl: exists already"), "{error}");
        assert_eq!(read(&path).unwrap().len(), 1);
    }

    #[test]
    fn bad_lines_are_named_except_one_that_was_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let answer = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            read(&path).map(|records| records.len()).map_err(|error| error.to_string())
        };
        assert_eq!(answer(b""), Ok(0));
        assert_eq!(answer(b"{\"a\":"), Ok(0));
        assert_eq!(answer(b"{}\n{\"a\": 1"), Ok(1));
        for (text, line) in
            [(&b"{}\n{\"a\":\n{}\n"[..], 2), (b"{}\n\n", 2), (b"\xff\n{}", 1), (b"{}\n{}\n3\n", 3)]
        {
            let error = answer(text).unwrap_err();
            assert!(error.contains(&format!("metrics.jsonl, line {line}: is not")), "{error}");
        }
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().starts_with("cannot read"));
    }

    #[test]
    fn lines_that_were_never_there_cannot_be_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        assert!(Log::reopen(&path, 1).err().unwrap().to_string().starts_with("cannot open"));
        assert_eq!(Log::reopen(&path, 0).unwrap().lines(), 0);
        std::fs::write(&path, "{}\n{}").unwrap();
        let error = Log::reopen(&path, 2).err().unwrap().to_string();
        assert!(error.contains("has 1 whole lines where 2 are expected; resume from"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"{}\n{}");
        assert_eq!(names(folder.path()), ["metrics.jsonl"]);
    }

    proptest! {
        /// A run that is killed anywhere after a checkpoint and resumed leaves the same file.
        #[test]
        fn resuming_repeats_no_line(lines in 1usize..12, kept in 0usize..12, killed in 0.0..1.0) {
            let kept = kept.min(lines);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("metrics.jsonl");
            let write = |log: &mut Log| {
                for epoch in log.lines()..lines {
                    log.append(&Record { epoch, loss: 1.0 / epoch as f64 }).unwrap();
                }
            };
            write(&mut Log::create(&path).unwrap());
            let whole = std::fs::read(&path).unwrap();
            let ends: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] == b'\n').collect();
            let least = if kept == 0 { 0 } else { ends[kept - 1] + 1 };
            let left = least + ((whole.len() - least) as f64 * killed) as usize;
            std::fs::write(&path, &whole[..left]).unwrap();
            let mut log = Log::reopen(&path, kept).unwrap();
            prop_assert_eq!(log.lines(), kept);
            prop_assert_eq!(&std::fs::read(&path).unwrap(), &whole[..least]);
            write(&mut log);
            prop_assert_eq!(std::fs::read(&path).unwrap(), whole);
            prop_assert_eq!(names(folder.path()), ["metrics.jsonl"]);
        }
    }
}
