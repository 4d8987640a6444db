//! Records: what is written as one JSON object with a version, and how it is read and written.

use std::io::{ErrorKind, Write};
use std::path::Path;

use kymo_files::write_whole;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A JSON object of a run's folder that carries the version of its layout.
///
/// The version is raised where a field goes away or changes its meaning, and not where one is added. A record
/// is always written in the current layout, so also with the current version; one that was read keeps the
/// version of its file, which is 0 where the file was written before there were versions.
pub trait Record: Serialize + DeserializeOwned {
    /// The current version of its layout.
    const VERSION: u32;
    /// What it is, for messages: "the summary of a run".
    const WHAT: &'static str;
    /// What to do about a damaged one.
    const REMEDY: &'static str;

    /// Says which field has a value that cannot be, whatever the run; every file is checked when it is read.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Makes a type a [`Record`], with its version as a constant of its own and as what its field is written as,
/// and perhaps with a check of its values.
macro_rules! record {
    ($name:ident, $version:literal, $what:literal, $remedy:literal $(, $check:path)?) => {
        impl $name {
            /// The current version of this layout.
            pub const VERSION: u32 = $version;

            fn write_version<S: serde::Serializer>(_: &u32, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u32($version)
            }
        }

        impl $crate::schema::Record for $name {
            const VERSION: u32 = $version;
            const WHAT: &'static str = $what;
            const REMEDY: &'static str = $remedy;

            $(fn check(&self) -> Result<(), String> {
                $check(self)
            })?
        }
    };
}
pub(crate) use record;

#[derive(Deserialize)]
struct Versioned {
    #[serde(default)]
    version: u32,
}

/// Reads a record from JSON. The error says what is wrong with the text and what to do.
pub fn from_json<T: Record>(text: &[u8]) -> Result<T, String> {
    let wrong = |error: serde_json::Error| format!("is not {}: {error}; {}", T::WHAT, T::REMEDY);
    // The version comes first: what a later one consists of is not known.
    let Versioned { version } = serde_json::from_slice(text).map_err(wrong)?;
    if version > T::VERSION {
        let (what, known) = (T::WHAT, T::VERSION);
        return Err(format!(
            "is {what} of version {version}, and this Kymo knows up to {known}; update Kymo"
        ));
    }
    let record: T = serde_json::from_slice(text).map_err(wrong)?;
    record.check().map_err(|problem| format!("is not {}: {problem}; {}", T::WHAT, T::REMEDY))?;
    Ok(record)
}

/// Reads the record in a file; nothing where there is no file.
pub fn read<T: Record>(path: &Path) -> Result<Option<T>> {
    match std::fs::read(path) {
        Ok(text) => from_json(&text).map(Some).map_err(|problem| Error::file(path, problem)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::resource("cannot read", path)(error)),
    }
}

/// Writes a record into a file, which appears whole or not at all; an older one is replaced.
pub fn write<T: Record>(path: &Path, record: &T) -> Result<()> {
    Ok(write_whole(path, |file| {
        serde_json::to_writer_pretty(&mut *file, record)?;
        file.write_all(b"\n")
    })?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::Value;

    /// Checks what holds for every record: it comes back, it is written with the current version, it is read
    /// without a version and with fields that are not known, and a later version or the lack of `needed` is
    /// refused.
    pub(crate) fn check<T: Record + Clone + PartialEq + std::fmt::Debug>(record: &T, needed: &str) {
        let text = serde_json::to_vec(record).unwrap();
        assert_eq!(&from_json::<T>(&text).unwrap(), record);
        let whole: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(whole["version"], T::VERSION);
        let changed = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let mut object = whole.as_object().unwrap().clone();
            change(&mut object);
            from_json::<T>(&serde_json::to_vec(&object).unwrap())
        };
        let read = changed(&|object| drop(object.remove("version"))).unwrap();
        let written = serde_json::to_vec(&read).unwrap();
        assert_eq!(written, text, "what was read without a version is written with the current one");
        assert!(changed(&|object| drop(object.insert("added later".into(), 1.into()))).is_ok());
        let later = changed(&|object| drop(object.insert("version".into(), 99.into()))).unwrap_err();
        assert!(later.contains("of version 99, and this Kymo knows up to"), "{later}");
        assert!(later.ends_with("; update Kymo"), "{later}");
        let lacking = changed(&|object| drop(object.remove(needed))).unwrap_err();
        assert!(lacking.contains(&format!("is not {}: missing field `{needed}`", T::WHAT)), "{lacking}");
        assert!(lacking.ends_with(T::REMEDY), "{lacking}");
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Example {
        #[serde(default, serialize_with = "Example::write_version")]
        version: u32,
        value: u8,
    }

    record!(Example, 3, "an example", "write it again");

    #[test]
    fn records_keep_the_version_of_their_file_and_are_written_with_the_current_one() {
        check(&Example { version: Example::VERSION, value: 7 }, "value");
        assert_eq!(from_json::<Example>(b"{\"value\": 7}").unwrap(), Example { version: 0, value: 7 });
        let text = serde_json::to_string(&Example { version: 0, value: 7 }).unwrap();
        assert_eq!(text, r#"{"version":3,"value":7}"#);
    }

    #[test]
    fn files_are_read_and_written_and_damage_is_located() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("example.json");
        assert_eq!(read::<Example>(&path).unwrap(), None);
        let example = Example { version: 3, value: 7 };
        write(&path, &example).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\n  \"version\": 3,\n  \"value\": 7\n}\n");
        assert_eq!(read(&path).unwrap(), Some(example));
        std::fs::write(&path, "{\n  \"version\": 3,\n  \"val").unwrap();
        let error = read::<Example>(&path).unwrap_err().to_string();
        let expected = "example.json: is not an example: EOF while parsing a string at line 3 column 6";
        assert!(error.ends_with(&format!("{expected}; write it again")), "{error}");
        // The version is looked at before anything else.
        std::fs::write(&path, r#"{"value": "of another kind", "version": 4}"#).unwrap();
        let error = read::<Example>(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("is an example of version 4, and this Kymo knows up to 3; update Kymo"),
            "{error}"
        );
        assert!(read::<Example>(folder.path()).unwrap_err().to_string().starts_with("cannot read"));
    }
}
