//! The constant columns of a step as a matrix with a row for each of some vertices; also what the columns of
//! segments are held against.

use std::borrow::Cow;

use kymo_graph::{Place, Snapshot, Step, Store, Vertex};

use super::degrees::log_of_one_plus;
use super::features::{Constant, Inputs};
use crate::error::{Error, Result};

impl Inputs {
    /// The constant columns of vertices at step `t`, scaled; its snapshot is at hand.
    pub fn rows(
        &self,
        store: &Store,
        t: Step,
        snapshot: &Snapshot<'_>,
        vertices: &[Vertex],
    ) -> Result<Vec<f32>> {
        let columns = self.constant.columns();
        let width = self.constant_width();
        let mut rows = vec![0.0; vertices.len() * width];
        // The current step first, then those before it; what lies before the first step is the mean.
        for lag in 0..self.lags.min(t + 1) {
            let raw =
                if lag == 0 { self.raw(store, t, Some(snapshot))? } else { self.raw(store, t - lag, None)? };
            for (row, &vertex) in rows.chunks_exact_mut(width.max(1)).zip(vertices) {
                let raw = &raw[vertex as usize * columns..][..columns];
                self.scales.write(0, raw, &mut row[lag * columns..(lag + 1) * columns]);
            }
        }
        Ok(rows)
    }

    /// The constant columns of one step as they are.
    fn raw<'a>(&self, store: &'a Store, t: Step, snapshot: Option<&Snapshot<'_>>) -> Result<Cow<'a, [f32]>> {
        match self.constant {
            Constant::None => Ok(Cow::default()),
            Constant::Degrees => {
                let (inward, outward) = match snapshot {
                    Some(snapshot) => snapshot.degrees(self.vertices),
                    None => store.snapshot(t)?.degrees(self.vertices),
                };
                let logarithms = |(&inward, &outward): (&u32, &u32)| [inward, outward].map(log_of_one_plus);
                Ok(inward.iter().zip(&outward).flat_map(logarithms).collect())
            }
            Constant::OneHot(columns) => {
                let (_, outward) = match snapshot {
                    Some(snapshot) => snapshot.degrees(self.vertices),
                    None => store.snapshot(t)?.degrees(self.vertices),
                };
                let mut rows = vec![0.0; self.vertices * columns];
                for (row, &degree) in rows.chunks_exact_mut(columns).zip(&outward) {
                    row[(degree as usize).min(columns - 1)] = 1.0;
                }
                Ok(rows.into())
            }
            Constant::Stored(columns) => {
                let rows = store.features(t)?;
                if let Some(at) = rows.iter().position(|value| !value.is_finite()) {
                    return Err(not_a_number(store, Some(t), at / columns, at % columns, rows[at])?);
                }
                Ok(rows)
            }
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
