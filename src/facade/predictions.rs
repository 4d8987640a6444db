//! Predictions as a table: the step they are about, vertices by their original ids, and what is said of them.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use kymo_files::write_whole;
use kymo_graph::{Ids, Step};
use kymo_run::task::Table;
use kymo_run::{Part, Result};

/// What to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predict {
    pub(super) at: At,
    pub(super) top: usize,
}

/// Where to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// After the last step of the store.
    Last,
    /// After a step.
    Step(Step),
    /// At all samples of a part, with the truth.
    Part(Part),
}

impl Predict {
    /// What comes after all that is in the store.
    pub fn next() -> Predict {
        Predict { at: At::Last, top: 10 }
    }

    /// What comes after a step: the model sees nothing that is later.
    pub fn after(step: Step) -> Predict {
        Predict { at: At::Step(step), ..Predict::next() }
    }

    /// Everything that is predicted in a part of the data, each with what came true in the last column,
    /// `truth`; what has no truth is left out.
    pub fn part(part: Part) -> Predict {
        Predict { at: At::Part(part), ..Predict::next() }
    }

    /// Targets for each source, in link prediction; 10 where nothing is said.
    pub fn top(self, top: usize) -> Predict {
        Predict { top, ..self }
    }
}

/// What a model predicts.
pub struct Predictions {
    /// The last step that the model saw, and what it said then; in the order of time.
    tables: Vec<(Step, Table)>,
    horizon: usize,
    ids: Ids,
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The step it is about. The store may not have it yet.
    pub step: Step,
    /// How many steps after the last one that the model saw.
    pub horizon: usize,
    /// The vertex it is about, or source and target of a link, by their original ids.
    pub vertices: Vec<String>,
    /// What is predicted, as the last columns say: a value, or a class and its probability, or a score and
    /// its probability; then the truth where that was asked for.
    pub values: Vec<String>,
}

impl Predictions {
    pub(super) fn new(tables: Vec<(Step, Table)>, horizon: usize, ids: Ids) -> Predictions {
        Predictions { tables, horizon, ids }
    }

    /// The last step that the model saw; of several, the last one.
    pub fn step(&self) -> Step {
        self.tables.last().map_or(0, |(step, _)| *step)
    }

    /// How many steps later lies what is predicted: 0 where it holds for all steps. Of several, the most.
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// The step that the predictions are about; of several, the last one. The store may not have it yet.
    pub fn about(&self) -> Step {
        self.step() + self.horizon
    }

    /// The names of what a row has: those of vertices, then those of values.
    pub fn columns(&self) -> &[&'static str] {
        self.tables.first().map_or(&[], |(_, table)| &table.header)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tables.iter().map(|(_, table)| table.values.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, by steps, horizons and vertices; the links of a source begin with the likeliest.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.tables.iter().flat_map(move |(step, table)| {
            let rows = table.vertices.iter().zip(&table.values).enumerate();
            rows.map(move |(number, (vertices, values))| {
                let horizon = table.horizons.get(number).copied().unwrap_or(self.horizon);
                Row {
                    step: step + horizon,
                    horizon,
                    vertices: vertices.iter().map(|&vertex| self.ids.name(vertex)).collect(),
                    values: values.clone(),
                }
            })
        })
    }

    /// Writes them as CSV. Every line begins with the step it is about and the horizon, then it has the
    /// columns of a row.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "step,horizon,{}", self.columns().join(","))?;
        for Row { step, horizon, vertices, values } in self.rows() {
            let fields: Vec<Cow<'_, str>> =
                vertices.iter().chain(&values).map(|field| quoted(field)).collect();
            writeln!(out, "{step},{horizon},{}", fields.join(","))?;
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
            horizons: Vec::new(),
        };
        let ids = Ids::Text(vec!["say \"x\"".into(), "two\nlines".into()]);
        let predictions = Predictions::new(vec![(3, table)], 2, ids);
        let mut text = Vec::new();
        predictions.write_csv(&mut text).unwrap();
        let expected = "step,horizon,vertex,class\n\
                        5,2,\"say \"\"x\"\"\",\"a,b\"\n\
                        5,2,\"two\nlines\",plain\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!((predictions.len(), predictions.step(), predictions.about()), (2, 3, 5));
    }

    #[test]
    fn rows_of_several_horizons_and_steps_say_what_they_are_about() {
        let table = |value: &str| Table {
            header: vec!["vertex", "value"],
            vertices: vec![vec![0], vec![0]],
            values: vec![vec![value.into()], vec![value.into()]],
            horizons: vec![1, 4],
        };
        let predictions = Predictions::new(vec![(3, table("a")), (4, table("b"))], 4, Ids::Number(vec![7]));
        let mut text = Vec::new();
        predictions.write_csv(&mut text).unwrap();
        let expected = "step,horizon,vertex,value\n4,1,7,a\n7,4,7,a\n5,1,7,b\n8,4,7,b\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!((predictions.len(), predictions.step(), predictions.about()), (4, 4, 8));
    }
}
