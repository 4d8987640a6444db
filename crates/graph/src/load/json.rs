//! JSON values that know where they stand, so that complaints can name the path to them.

use std::fmt;

use serde_json::{Map, Value};

use super::Source;
use crate::error::{Error, Place, Result, listed, shortened};

/// Text beyond this is refused: as values it takes about ten times the memory.
const LONGEST: usize = 1 << 30;

/// Parses a whole input.
pub fn parse(source: &mut Source) -> Result<Value> {
    let bytes = source.read_all(LONGEST)?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(text).map_err(|error| {
        let place = Place::line(source.name(), error.line() as u64).column(error.column().max(1));
        if error.is_eof() {
            return Error::input(place, "the JSON ends early, expected more: the file is truncated");
        }
        // The message ends with the place, which is said already.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        let line = text.split(|&byte| byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
        let rest = line.get(error.column().saturating_sub(1)..).unwrap_or_default();
        let found = shortened(&String::from_utf8_lossy(rest));
        Error::input(place, format!("found '{found}', expected valid JSON: {message}"))
    })
}

/// A value and the path to it. Paths are made of references to the values around, so they cost nothing until
/// printed.
#[derive(Clone, Copy)]
pub struct At<'a> {
    value: &'a Value,
    file: &'a str,
    above: Option<&'a At<'a>>,
    key: Key<'a>,
}

#[derive(Clone, Copy)]
enum Key<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

const NOTHING: &Value = &Value::Null;

impl<'a> At<'a> {
    /// The outermost value of a file.
    pub fn root(value: &'a Value, file: &'a str) -> At<'a> {
        At { value, file, above: None, key: Key::Root }
    }

    fn below<'b>(&'b self, key: Key<'b>, value: Option<&'b Value>) -> At<'b> {
        At { value: value.unwrap_or(NOTHING), file: self.file, above: Some(self), key }
    }

    /// The value called `name`, if this is an object that has it.
    pub fn get<'b>(&'b self, name: &'b str) -> Option<At<'b>> {
        self.value.get(name).map(|value| self.below(Key::Name(name), Some(value)))
    }

    /// The value called `name`; an error where it is missing.
    pub fn need<'b>(&'b self, name: &'b str) -> Result<At<'b>> {
        let names = self.object()?;
        self.get(name).ok_or_else(|| {
            self.problem(format!("found the keys {}, expected '{name}' among them", listed(names.keys())))
        })
    }

    /// The value at `index`; null where there are fewer.
    pub fn item(&self, index: usize) -> At<'_> {
        self.below(Key::Index(index), self.value.get(index))
    }

    /// The names and values of an object.
    pub fn object(&self) -> Result<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.error("an object"))
    }

    /// How many values a list has.
    pub fn length(&self) -> Result<usize> {
        self.value.as_array().map(Vec::len).ok_or_else(|| self.error("a list"))
    }

    /// Fails unless this is a list of `count` values, one for each of `what`.
    pub fn expect_length(&self, count: usize, what: &str) -> Result<()> {
        match self.length()? {
            length if length == count => Ok(()),
            length => {
                Err(self.problem(format!("found {length} value(s), expected {count}: one for each {what}")))
            }
        }
    }

    /// A finite number in the precision weights and features are kept in.
    pub fn number(&self) -> Result<f32> {
        let number = self.value.as_f64().ok_or_else(|| self.error("a number"))? as f32;
        if number.is_finite() { Ok(number) } else { Err(self.error("a number below 3.4e38")) }
    }

    /// A list of `count` numbers, one for each of `what`.
    pub fn numbers(&self, count: usize, what: &str) -> Result<Vec<f32>> {
        self.expect_length(count, what)?;
        (0..count).map(|index| self.item(index).number()).collect()
    }

    /// A whole number from 0 below `end`.
    pub fn index(&self, end: usize) -> Result<usize> {
        let index = self.value.as_u64().and_then(|index| usize::try_from(index).ok());
        index.filter(|&index| index < end).ok_or_else(|| {
            self.error(&format!("the number of a vertex, a whole number from 0 and below {end}"))
        })
    }

    /// The id of a vertex as text, and whether it is a number.
    pub fn id(&self) -> Result<(String, bool)> {
        match self.value {
            Value::Number(number) if number.is_u64() => Ok((number.to_string(), true)),
            Value::String(text) if !text.is_empty() => Ok((text.clone(), false)),
            _ => Err(self.error("the id of a vertex, a whole number from 0 or a text")),
        }
    }

    /// A complaint: what is here is not what was expected.
    pub fn error(&self, expected: &str) -> Error {
        let found = match self.value {
            Value::Null => "nothing".into(),
            Value::Array(items) => format!("a list of {}", items.len()),
            Value::Object(_) => "an object".into(),
            plain => format!("'{}'", shortened(plain.to_string().trim_matches('"'))),
        };
        self.problem(format!("found {found}, expected {expected}"))
    }

    /// A complaint about what is here.
    pub fn problem(&self, problem: impl fmt::Display) -> Error {
        let problem = match self.key {
            Key::Root => problem.to_string(),
            _ => format!("at {self}: {problem}"),
        };
        Error::input(Place::file(self.file), problem)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        let first = self.above.is_none_or(|above| matches!(above.key, Key::Root));
        match self.key {
            Key::Root => Ok(()),
            Key::Index(index) => write!(f, "[{index}]"),
            Key::Name(name) => {
                let name = shortened(name);
                let dot = if first { "" } else { "." };
                let plain = name.starts_with(|c: char| c.is_alphabetic())
                    && name.chars().all(|c| c.is_alphanumeric() || c == '_');
                if plain { write!(f, "{dot}{name}") } else { write!(f, "{dot}{name:?}") }
            }
        }
    }
}
