//! Rows along a route, and their gradients along the route reversed.

use std::sync::Arc;

use kymo_plan::Route;
use kymo_tensor::{Back, Error, Op, Result, Shape, Stage, Tape, Var, View};

use super::exchange::Exchange;
use crate::workers::{RowTag, WorkerGroup};

struct Moved(Exchange);

/// An error between workers as operations of the engine report it.
pub(crate) fn inside(error: kymo_comm::Error) -> Error {
    match error {
        kymo_comm::Error::Peer { rank, what } => Error::Peer { rank, what },
        kymo_comm::Error::Usage(what) => Error::Bug(what),
    }
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
        let expected = Shape::new(self.0.route.rows_in, x.columns);
        kymo_tensor::error::expect_shape(self.name(), "x", x, expected)?;
        Ok(Shape::new(self.0.route.rows_out, x.columns))
    }

    fn collective(&self) -> bool {
        true
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (x, columns, route) = (inputs[0].values, inputs[0].shape.columns, &self.0.route);
        let sent = self.0.send(x, columns)?;
        let me = self.0.group.rank();
        for (&from, &to) in route.sends[me].iter().zip(&route.receives[me]) {
            let row = &x[from as usize * columns..][..columns];
            output[to as usize * columns..][..columns].copy_from_slice(row);
        }
        let put = |row: usize, values: &[f32]| output[row * columns..][..columns].copy_from_slice(values);
        self.0.receive(columns, sent, put)
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (columns, route) = (back.output.shape.columns, &self.0.route);
        let sent = self.0.send_back(back.upstream, columns)?;
        // Others may ask for a gradient that is not wanted here: what they sent has to be received in any
        // case.
        let mut unwanted = Vec::new();
        let gradient = match back.take(0) {
            Some(gradient) => gradient,
            None => {
                unwanted.resize(route.rows_in * columns, 0.0);
                &mut unwanted[..]
            }
        };
        let me = self.0.group.rank();
        for (&from, &to) in route.sends[me].iter().zip(&route.receives[me]) {
            let values = &back.upstream[to as usize * columns..][..columns];
            add(&mut gradient[from as usize * columns..][..columns], values);
        }
        let sum = |row: usize, values: &[f32]| add(&mut gradient[row * columns..][..columns], values);
        self.0.receive_back(columns, sent, sum)
    }
}

pub(super) fn add(sum: &mut [f32], values: &[f32]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// `x` with its rows moved along a route.
pub fn moved(
    tape: &mut Tape<'_>,
    group: &Arc<WorkerGroup>,
    route: &Arc<Route>,
    tag: RowTag,
    x: Var,
) -> Result<Var> {
    exchanged(tape, Exchange::exact(group.clone(), route.clone(), tag), x)
}

/// `x` with its rows moved as an exchange moves them.
pub(super) fn exchanged(tape: &mut Tape<'_>, exchange: Exchange, x: Var) -> Result<Var> {
    if exchange.route.is_identity() {
        return Ok(x);
    }
    tape.apply(Moved(exchange), &[x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    #[test]
    fn errors_between_workers_keep_rank_and_class_inside_the_engine() {
        let peer = inside(kymo_comm::Error::peer(3, "has gone"));
        assert!(matches!(&peer, Error::Peer { rank: 3, what } if what == "has gone"));
        let usage = inside(kymo_comm::Error::usage("there is no worker 9"));
        assert_eq!(crate::Error::from(usage).class(), Class::Bug);
    }
}
