//! The constant columns of a step as a matrix with a row for each of some vertices: no other rows are read.

use kymo_graph::store::StoredFeatures;
use kymo_graph::{Place, Step, Store, Vertex};

use super::degrees::{Degrees, log_of_one_plus};
use super::features::{Constant, Inputs};
use super::stored::Stored;
use crate::error::{Error, Result};

impl Inputs {
    /// The constant columns of some vertices at step `t`, scaled; the degrees of all vertices at that step,
    /// inward and outward, are at hand.
    pub fn rows(
        &self,
        store: &Store,
        t: Step,
        degrees: (&[u32], &[u32]),
        vertices: &[Vertex],
    ) -> Result<Vec<f32>> {
        let (columns, width) = (self.constant.columns(), self.constant_width());
        let mut rows = vec![0.0; vertices.len() * width];
        if width == 0 {
            return Ok(rows);
        }
        // The current step first, then those before it; what lies before the first step is the mean.
        for lag in 0..self.lags.min(t + 1) {
            let place = |row: usize| row * width + lag * columns..row * width + (lag + 1) * columns;
            match self.constant {
                Constant::None => {}
                Constant::Stored(_) => {
                    let stored = Stored::new(store, columns, t - lag..t - lag + 1)?;
                    self.stored_rows(&stored, vertices, |row, column, values| {
                        self.scales.write(column, values, &mut rows[place(row)][column..][..values.len()]);
                    });
                }
                Constant::Degrees | Constant::OneHot(_) if lag == 0 => {
                    for (row, &vertex) in vertices.iter().enumerate() {
                        let degrees = [degrees.0[vertex as usize], degrees.1[vertex as usize]];
                        self.write_degrees(degrees, &mut rows[place(row)]);
                    }
                }
                Constant::Degrees | Constant::OneHot(_) => {
                    let degrees = Degrees::new(store, Constant::Degrees, t - lag)?;
                    for (row, &vertex) in vertices.iter().enumerate() {
                        self.write_degrees(degrees.of(vertex), &mut rows[place(row)]);
                    }
                }
            }
        }
        Ok(rows)
    }

    /// Calls `write` with the row, first column and values of everything that is stored of these vertices at
    /// the last step of `stored`: the latest values come last.
    fn stored_rows(
        &self,
        stored: &Stored<'_>,
        vertices: &[Vertex],
        mut write: impl FnMut(usize, usize, &[f32]),
    ) {
        const ELSEWHERE: u32 = u32::MAX;
        let mut rows = vec![ELSEWHERE; self.vertices];
        (0..).zip(vertices).for_each(|(row, &vertex)| rows[vertex as usize] = row);
        for change in stored.changes() {
            match change {
                StoredFeatures::Whole(all) => {
                    for (row, &vertex) in vertices.iter().enumerate() {
                        write(row, 0, stored.row(all, vertex as usize));
                    }
                }
                StoredFeatures::Segments(segments) => {
                    for (vertex, column, values) in segments.iter() {
                        let row = rows[vertex as usize];
                        if row != ELSEWHERE {
                            write(row as usize, column, values);
                        }
                    }
                }
            }
        }
    }

    fn write_degrees(&self, [inward, outward]: [u32; 2], row: &mut [f32]) {
        match self.constant {
            Constant::OneHot(columns) => row[(outward as usize).min(columns - 1)] = 1.0,
            _ => self.scales.write(0, &[inward, outward].map(log_of_one_plus), row),
        }
    }
}

/// The complaint about a feature, of one step or of all.
pub fn not_a_number(
    store: &Store,
    t: Option<Step>,
    vertex: usize,
    column: usize,
    found: f32,
) -> Result<Error> {
    let name = store.ids()?.name(vertex as u32);
    let place = Place::file(store.path().display().to_string()).column(format!("feature {}", column + 1));
    let step = t.map_or(String::new(), |t| format!(", step {t}"));
    let problem = format!(
        "found {found} at vertex {name}{step}, expected a finite number; mend the input and ingest it again"
    );
    Ok(kymo_graph::Error::input(place, problem).into())
}
