//! Rows along a route, and their gradients along the route reversed.

use std::sync::Arc;

use kymo_plan::Route;
use kymo_tensor::{Back, Error, Op, Result, Shape, Stage, Tape, Var, View};

use crate::team::Team;

struct Moved {
    team: Arc<Team>,
    route: Arc<Route>,
}

/// What a worker says when another does not do its part.
pub(super) fn peer(error: kymo_comm::Error) -> Error {
    Error::Peer(error.to_string())
}

impl Op for Moved {
    fn name(&self) -> &'static str {
        "rows moved"
    }

    /// Rows that move are those of neighbours elsewhere, but for states that go with their vertices.
    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = kymo_tensor::error::expect_inputs(self.name(), inputs)?;
        let expected = Shape::new(self.route.rows_in, x.columns);
        kymo_tensor::error::expect_shape(self.name(), "x", x, expected)?;
        Ok(Shape::new(self.route.rows_out, x.columns))
    }

    fn collective(&self) -> bool {
        true
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (x, columns, route) = (inputs[0].values, inputs[0].shape.columns, &self.route);
        let sent = self.team.send(&route.sends, x, columns).map_err(peer)?;
        let me = self.team.rank();
        for (&from, &to) in route.sends[me].iter().zip(&route.receives[me]) {
            let row = &x[from as usize * columns..][..columns];
            output[to as usize * columns..][..columns].copy_from_slice(row);
        }
        let put = |row: usize, values: &[f32]| output[row * columns..][..columns].copy_from_slice(values);
        self.team.receive(&route.receives, columns, sent, put).map_err(peer)
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (columns, route) = (back.output.shape.columns, &self.route);
        let sent = self.team.send(&route.receives, back.upstream, columns).map_err(peer)?;
        // Nobody may ask for it here while others do: what they sent has to be taken in any case.
        let mut nobody = Vec::new();
        let gradient = match back.take(0) {
            Some(gradient) => gradient,
            None => {
                nobody.resize(route.rows_in * columns, 0.0);
                &mut nobody[..]
            }
        };
        let me = self.team.rank();
        for (&from, &to) in route.sends[me].iter().zip(&route.receives[me]) {
            let values = &back.upstream[to as usize * columns..][..columns];
            add(&mut gradient[from as usize * columns..][..columns], values);
        }
        let sum = |row: usize, values: &[f32]| add(&mut gradient[row * columns..][..columns], values);
        self.team.receive(&route.sends, columns, sent, sum).map_err(peer)
    }
}

pub(super) fn add(sum: &mut [f32], values: &[f32]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// `x` with its rows moved along a route.
pub fn moved(tape: &mut Tape<'_>, team: &Arc<Team>, route: &Arc<Route>, x: Var) -> Result<Var> {
    if route.is_identity() {
        return Ok(x);
    }
    tape.apply(Moved { team: team.clone(), route: route.clone() }, &[x])
}
