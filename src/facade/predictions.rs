//! Predictions as a table: the step they are about, vertices by their original ids, and what is said of them.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use kymo_files::write_whole;
use kymo_graph::{Ids, Step};
use kymo_run::Result;
use kymo_run::task::Table;

/// What to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predict {
    /// The last step that the model sees; the last of the store where nothing is said.
    pub(super) after: Option<Step>,
    pub(super) top: usize,
}

impl Predict {
    /// What comes after all that is in the store.
    pub fn next() -> Predict {
        Predict { after: None, top: 10 }
    }

    /// What comes after a step: the model sees nothing that is later.
    pub fn after(step: Step) -> Predict {
        Predict { after: Some(step), ..Predict::next() }
    }

    /// Targets for each source, in link prediction; 10 where nothing is said.
    pub fn top(self, top: usize) -> Predict {
        Predict { top, ..self }
    }
}

/// What a model predicts.
pub struct Predictions {
    step: Step,
    horizon: usize,
    table: Table,
    ids: Ids,
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The vertex it is about, or source and target of a link, by their original ids.
    pub vertices: Vec<String>,
    /// What is predicted, as the last columns say: a value, or a class and its probability, or a score.
    pub values: Vec<String>,
}

impl Predictions {
    pub(super) fn new(step: Step, horizon: usize, table: Table, ids: Ids) -> Predictions {
        Predictions { step, horizon, table, ids }
    }

    /// The last step that the model saw.
    pub fn step(&self) -> Step {
        self.step
    }

    /// How many steps later lies what is predicted: 0 where it holds for all steps.
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// The step that the predictions are about. The store may not have it yet.
    pub fn about(&self) -> Step {
        self.step + self.horizon
    }

    /// The names of what a row has: those of vertices, then those of values.
    pub fn columns(&self) -> &[&'static str] {
        &self.table.header
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, in the order of vertices; the links of a source begin with the likeliest.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let rows = self.table.vertices.iter().zip(&self.table.values);
        rows.map(|(vertices, values)| Row {
            vertices: vertices.iter().map(|&vertex| self.ids.name(vertex)).collect(),
            values: values.clone(),
        })
    }

    /// Writes them as CSV. Every line begins with the step it is about and the horizon, then it has the
    /// columns of a row.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "step,horizon,{}", self.columns().join(","))?;
        let (about, horizon) = (self.about(), self.horizon);
        for Row { vertices, values } in self.rows() {
            let fields: Vec<Cow<'_, str>> =
                vertices.iter().chain(&values).map(|field| quoted(field)).collect();
            writeln!(out, "{about},{horizon},{}", fields.join(","))?;
        }
        Ok(())
    }

    /// Writes a CSV file, the whole of it or nothing; a file of that name is replaced. A pipe or a device is
    /// written to.
    pub fn save_csv(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(write_whole(path.as_ref(), |file| self.write_csv(file))?)
    }
}

/// A field as CSV wants it.
fn quoted(field: &str) -> Cow<'_, str> {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")).into(),
        false => field.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_survive() {
        let table = Table {
            header: vec!["vertex", "class"],
            vertices: vec![vec![0], vec![1]],
            values: vec![vec!["a,b".into()], vec!["plain".into()]],
        };
        let ids = Ids::Text(vec!["say \"x\"".into(), "two\nlines".into()]);
        let predictions = Predictions::new(3, 2, table, ids);
        let mut text = Vec::new();
        predictions.write_csv(&mut text).unwrap();
        let expected = "step,horizon,vertex,class\n\
                        5,2,\"say \"\"x\"\"\",\"a,b\"\n\
                        5,2,\"two\nlines\",plain\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!((predictions.len(), predictions.step(), predictions.about()), (2, 3, 5));
    }
}
