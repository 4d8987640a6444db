//! Settings from several sources: defaults, then a TOML file, then options of the command, each over the one
//! before.
//!
//! What settings there are and of what type follows from the defaults, written as TOML. A field that TOML
//! leaves out, as an `Option` that is `None` or an empty map, would not be known, so types of settings have
//! none of these; "nothing" is a value of its own, such as 0 or "". Names of fields have no dots.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned};
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use crate::error::{Error, Result};

/// A dotted key, its value as typed, and where it came from, for error messages: `("model.hidden", "128",
/// "--set")`.
pub type Override = (String, String, String);

/// The settings that result from the defaults of `T`, the file, and the overrides in their order.
///
/// The value of an override is read as TOML where that is possible, and is a text otherwise; where a text is
/// expected, it is always one.
pub fn resolve<T>(file: Option<&Path>, overrides: &[Override]) -> Result<T>
where
    T: Serialize + DeserializeOwned + Default,
{
    resolve_over(&T::default(), file, overrides)
}

/// The same over other settings than the defaults.
pub fn resolve_over<T>(base: &T, file: Option<&Path>, overrides: &[Override]) -> Result<T>
where
    T: Serialize + DeserializeOwned,
{
    let known = Known::of(base)?;
    let mut changes = match file {
        Some(path) => known.read(path)?,
        None => Vec::new(),
    };
    for (key, typed, origin) in overrides {
        changes.push(known.typed(key.trim(), typed, origin)?);
    }
    let mut settings = known.table.clone();
    for change in &changes {
        change.apply(&mut settings);
    }
    T::deserialize(settings).map_err(|error| known.blame::<T>(&changes, &error))
}

/// Settings as the text of a TOML file, from which `resolve` makes the same settings.
pub fn to_toml<T: Serialize>(value: &T) -> Result<String> {
    toml::to_string(value)
        .map_err(|error| Error::settings("settings", format!("cannot be written as TOML: {error}")))
}

/// The dotted keys in which two settings differ, each with its value on the left and on the right.
pub fn differences<T: Serialize>(left: &T, right: &T) -> Vec<String> {
    let (left, right) = match (Known::of(left), Known::of(right)) {
        (Ok(left), Ok(right)) => (left.defaults, right.defaults),
        (Err(error), _) | (_, Err(error)) => return vec![error.to_string()],
    };
    let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    // Compared as text, in which a number that is none is equal to itself.
    let shown = |value: Option<&Value>| value.map_or("nothing".into(), Value::to_string);
    let pairs = keys.into_iter().map(|key| (key, shown(left.get(key)), shown(right.get(key))));
    pairs
        .filter(|(_, left, right)| left != right)
        .map(|(key, left, right)| format!("{key}: {left} and {right}"))
        .collect()
}

/// The keys of all settings, with their values as text.
pub fn entries<T: Serialize>(settings: &T) -> Result<Vec<(String, String)>> {
    let known = Known::of(settings)?.defaults;
    Ok(known.iter().map(|(key, value)| (key.clone(), value.to_string())).collect())
}

/// A setting that some source gives.
struct Change {
    /// The source and the key, for complaints.
    place: String,
    key: String,
    value: Value,
}

impl Change {
    fn apply(&self, settings: &mut Table) {
        let (sections, name) = self.key.rsplit_once('.').unwrap_or(("", &self.key));
        let mut table = Some(settings);
        for section in sections.split('.').filter(|section| !section.is_empty()) {
            table = table.and_then(|table| table.get_mut(section)).and_then(Value::as_table_mut);
        }
        if let Some(table) = table {
            table.insert(name.into(), self.value.clone());
        }
    }
}

/// What settings there are.
struct Known {
    table: Table,
    /// The default of every setting by its dotted key.
    defaults: BTreeMap<String, Value>,
    sections: BTreeSet<String>,
}

impl Known {
    /// Through text rather than values: only there is the `f32` 0.1 the number 0.1.
    fn of<T: Serialize>(default: &T) -> Result<Known> {
        let table = toml::from_str(&to_toml(default)?)
            .map_err(|error| Error::settings("settings", format!("are not a table: {}", error.message())))?;
        let mut known = Known { table: Table::new(), defaults: BTreeMap::new(), sections: BTreeSet::new() };
        known.add("", &table);
        known.table = table;
        Ok(known)
    }

    fn add(&mut self, section: &str, table: &Table) {
        for (name, value) in table {
            let key = joined(section, name);
            match value {
                Value::Table(inner) => {
                    self.add(&key, inner);
                    self.sections.insert(key);
                }
                _ => {
                    self.defaults.insert(key, value.clone());
                }
            }
        }
    }

    /// What a file changes. Of several mistakes the first in the file is reported.
    fn read(&self, path: &Path) -> Result<Vec<Change>> {
        let text = std::fs::read_to_string(path).map_err(Error::resource("cannot read", path))?;
        let place = |at: usize| {
            let line = 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
            format!("{}, line {line}", path.display())
        };
        let table = DeTable::parse(&text).map_err(|error| {
            let place = error.span().map_or_else(|| path.display().to_string(), |span| place(span.start));
            Error::settings(place, format!("is not valid TOML: {}", error.message().trim_end()))
        })?;
        let mut found = Vec::new();
        self.collect("", table.get_ref(), &mut found);
        found.sort_by_key(|(at, ..)| *at);
        let change = |(at, key, value): (usize, String, Result<Value, String>)| {
            let place = format!("{}: {key}", place(at));
            match value {
                Ok(value) => Ok(Change { place, key, value }),
                Err(problem) => Err(Error::settings(place, problem)),
            }
        };
        found.into_iter().map(change).collect()
    }

    /// All settings of a table: where they are in the text, their key, and their value or what is wrong with
    /// it.
    fn collect(
        &self,
        section: &str,
        table: &DeTable<'_>,
        found: &mut Vec<(usize, String, Result<Value, String>)>,
    ) {
        for (name, value) in table.iter() {
            let key = joined(section, name.get_ref());
            let value = match (self.defaults.get(&key), value.get_ref()) {
                (Some(default), _) => plain(value).and_then(|value| fitted(default, value)),
                (None, DeValue::Table(inner)) if self.sections.contains(&key) => {
                    self.collect(&key, inner, found);
                    continue;
                }
                (None, DeValue::Table(_)) => Err(self.no_section(&key)),
                (None, _) => Err(self.no_setting(&key)),
            };
            found.push((name.span().start, key, value));
        }
    }

    /// What an option changes.
    fn typed(&self, key: &str, typed: &str, origin: &str) -> Result<Change> {
        let place = format!("{origin}: {key}");
        let Some(default) = self.defaults.get(key) else {
            return Err(Error::settings(place, self.no_setting(key)));
        };
        let value = match (typed.trim().parse(), default) {
            (Ok(Value::String(text)), _) => Value::String(text),
            (Ok(value), default) if !default.is_str() => value,
            _ => Value::String(typed.into()),
        };
        match fitted(default, value) {
            Ok(value) => Ok(Change { place, key: key.into(), value }),
            Err(problem) => Err(Error::settings(place, problem)),
        }
    }

    /// A value can have the right type and still be none that `T` takes: the change that broke it is found by
    /// repeating them.
    fn blame<T: DeserializeOwned>(&self, changes: &[Change], error: &toml::de::Error) -> Error {
        let mut settings = self.table.clone();
        for change in changes {
            change.apply(&mut settings);
            if let Err(error) = T::deserialize(settings.clone()) {
                let default = self.defaults.get(&change.key).map_or(String::new(), Value::to_string);
                let problem = format!("{}; the default is {default}", error.message().trim_end());
                return Error::settings(&change.place, problem);
            }
        }
        Error::settings("settings", error.message())
    }

    fn no_setting(&self, key: &str) -> String {
        if self.sections.contains(key) {
            return format!("is a section, not a setting; {}", self.listed(key));
        }
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_string();
        let mut meant: Vec<&str> =
            self.defaults.keys().map(String::as_str).filter(|known| last(known) == name).collect();
        if meant.is_empty() {
            // A key without a section is compared with names alone: its section is not a typing mistake.
            let compared = |known: &str| if section.is_empty() { last(known) } else { known.into() };
            meant.extend(nearest(key, name, self.defaults.keys(), compared));
        }
        let meant =
            if meant.is_empty() { String::new() } else { format!("; did you mean {}?", meant.join(" or ")) };
        let section = if self.sections.contains(section) { section } else { "" };
        let end = if meant.is_empty() { ";" } else { "" };
        format!("there is no such setting{meant}{end} {}", self.listed(section))
    }

    fn no_section(&self, key: &str) -> String {
        match nearest(key, key, &self.sections, str::to_string) {
            Some(meant) => format!("there is no such section; did you mean [{meant}]? {}", self.listed("")),
            None => format!("there is no such section; {}", self.listed("")),
        }
    }

    /// What is in a section, or at the top where its name is empty.
    fn listed(&self, section: &str) -> String {
        let within = |key: &String| {
            let (of, name) = key.rsplit_once('.').unwrap_or(("", key));
            (of == section).then(|| name.to_string())
        };
        let sections = self.sections.iter().filter_map(within).map(|name| format!("[{name}]"));
        let names: Vec<String> = sections.chain(self.defaults.keys().filter_map(within)).collect();
        let place = if section.is_empty() { "there are".into() } else { format!("[{section}] has") };
        format!("{place} {}", names.join(", "))
    }
}

fn joined(section: &str, name: &str) -> String {
    if section.is_empty() { name.into() } else { format!("{section}.{name}") }
}

/// The known name with the fewest typing mistakes, if they are few for the length of `name`.
fn nearest<'a>(
    given: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a String>,
    compared: impl Fn(&str) -> String,
) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(given, &compared(known));
    let best = known.into_iter().map(|known| (distance(known), known.as_str())).min()?;
    (best.0 <= 1 + name.chars().count() / 3).then_some(best.1)
}

fn plain(value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    Value::deserialize(ValueDeserializer::from(value.clone()))
        .map_err(|error| error.message().trim_end().into())
}

/// The value as the type of the default has it, or why it cannot be.
fn fitted(default: &Value, given: Value) -> Result<Value, String> {
    match (default, given) {
        (Value::Float(_), Value::Integer(number)) => Ok(Value::Float(number as f64)),
        (Value::Array(defaults), Value::Array(given)) => match defaults.first() {
            Some(first) => given
                .into_iter()
                .map(|element| fitted(first, element))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            // An empty list says nothing about what may be in it.
            None => Ok(Value::Array(given)),
        },
        (default, given) if default.same_type(&given) => Ok(given),
        (default, given) => Err(format!("found {given}, expected {} such as {default}", expected(default))),
    }
}

fn expected(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text in quotes",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false,",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list in brackets",
        Value::Table(_) => "a section",
    }
}

#[cfg(test)]
mod tests;
