//! Message passing with the results of all layers side by side (Panagopoulos et al., AAAI 2021, MPNN-LSTM).

use kymo_tensor::{Result, Tape, Var};

use super::{Layers, Structure};
use crate::frame::Frame;
use crate::params::{Bound, Slot};

/// Layers whose results are all kept.
pub struct Mpnn(pub Layers);

impl Mpnn {
    /// Columns of all layers but the last.
    fn before(&self) -> usize {
        let layers = &self.0.0;
        layers[..layers.len().saturating_sub(1)].iter().map(|layer| layer.width()).sum()
    }
}

impl Structure for Mpnn {
    fn slots(&self) -> Vec<Slot> {
        self.0.slots()
    }

    fn width(&self) -> usize {
        self.before() + self.0.width()
    }

    fn hops(&self) -> usize {
        self.0.hops()
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        frame: &Frame<'a>,
        mut x: Var,
    ) -> Result<Var> {
        let mut all = Vec::new();
        for (number, layer) in self.0.0.iter().enumerate() {
            x = layer.exchange(tape, params, frame, x)?;
            if number + 1 < self.0.0.len() {
                x = layer.rows(tape, params, x)?;
            }
            all.push(x);
        }
        if all.len() == 1 { Ok(x) } else { tape.concatenate_columns(&all) }
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Var) -> Result<Var> {
        let (before, columns) = (self.before(), tape.shape(exchanged).columns);
        if before == 0 {
            return self.0.rows(tape, params, exchanged);
        }
        let last = tape.slice_columns(exchanged, before..columns)?;
        let last = self.0.rows(tape, params, last)?;
        let earlier = tape.slice_columns(exchanged, 0..before)?;
        tape.concatenate_columns(&[earlier, last])
    }
}
