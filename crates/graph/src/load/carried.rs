//! Features of edges: which columns of a table they are, and what they are called.

use super::Intake;
use super::roles::tidied;
use super::row::Row;
use crate::error::{Error, Result, listed};

/// Which columns become features of edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EdgeFeatures {
    /// Those that the format has: none in a table whose columns may be anything.
    #[default]
    Usual,
    /// None.
    None,
    /// These, by the names in the header or by their numbers from 1.
    Named(Vec<String>),
}

impl EdgeFeatures {
    /// The columns that the user names in a table with these names in its header, or with this many columns
    /// without one; `None` where none are named.
    pub fn named(&self, header: &[&str], width: usize, source: &str) -> Result<Option<Vec<usize>>> {
        let EdgeFeatures::Named(names) = self else { return Ok(None) };
        let mut columns = Vec::new();
        for name in names {
            let called = |other: &&str| tidied(other) == tidied(name) && !name.trim().is_empty();
            let number = || name.trim().parse::<usize>().ok().filter(|number| (1..=width).contains(number));
            let place = header.iter().position(called).or_else(|| number().map(|number| number - 1));
            let problem = match place {
                Some(column) if columns.contains(&column) => format!("the column '{name}' is named twice"),
                Some(column) => {
                    columns.push(column);
                    continue;
                }
                None if header.iter().all(|name| matches!(*name, "" | "_")) => {
                    format!("'{name}' is no column of {source}; columns without names go by 1 to {width}")
                }
                None => format!("'{name}' is no column of {source}, which has {}", listed(header)),
            };
            return Err(Error::settings("--edge-features", problem));
        }
        Ok(Some(columns))
    }
}

/// Says what the features of edges in this input are called: all inputs have the same number of them. With
/// `labelled` events have a label, too.
pub fn announce(intake: &mut Intake, source: &str, labelled: bool, names: Vec<String>) -> Result<()> {
    // The row that told how many there are may be in the log already.
    let is_first = intake.edge_features.is_none() && intake.log.len() <= 1;
    let before = intake.edge_features.as_ref().map_or(0, Vec::len);
    if !is_first && before != names.len() {
        let problem =
            format!("{source} has {} feature(s) of edges, the input before it {before}", names.len());
        return Err(Error::settings("input", format!("{problem}; read them into separate stores")));
    }
    intake.labelled = labelled;
    intake.log.carry(usize::from(labelled) + names.len());
    intake.edge_features.get_or_insert(names);
    Ok(())
}

/// Reads the features in these columns of a row behind what `values` has already.
#[inline]
pub fn read(row: &Row<'_, '_>, columns: &[usize], values: &mut Vec<f32>) -> Result<()> {
    for &column in columns {
        values.push(row.value(column, FEATURE)?);
    }
    Ok(())
}

/// What messages call such a column.
pub const FEATURE: &str = "edge feature";

/// What the columns of an input are called, where a table does not say.
pub fn unnamed(column: usize) -> String {
    format!("column {}", column + 1)
}
