//! A sparse product whose rows are partly elsewhere: they are on their way while the product with those here
//! is computed.
//!
//! The backward pass is the same in the other direction: gradients of rows elsewhere are computed first and
//! sent, and are on their way while those of the rows here are computed.

use kymo_model::graph::Weighted;
use kymo_tensor::error::{expect_inputs, expect_shape};
use kymo_tensor::ops::{multiply_sparse, multiply_sparse_transposed};
use kymo_tensor::{Arena, Back, Op, Result, Shape, Stage, View};
use kymo_trace::Kind;

use super::exchange::Exchange;
use super::moved::add;

/// `A x`, with the columns of `A` that are here and those that are elsewhere.
pub(super) struct Product<'a> {
    pub(super) arena: &'a Arena,
    pub(super) exchange: Exchange,
    pub(super) here: Weighted,
    pub(super) beyond: Weighted,
}

impl Op for Product<'_> {
    fn name(&self) -> &'static str {
        "product with rows elsewhere"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        expect_shape(self.name(), "x", x, Shape::new(self.here.pattern.columns(), x.columns))?;
        Ok(Shape::new(self.here.pattern.rows(), x.columns))
    }

    fn collective(&self) -> bool {
        true
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (x, columns) = (inputs[0], inputs[0].shape.columns);
        let Exchange { group, route, .. } = &self.exchange;
        let sent = self.exchange.send(x.values, columns)?;
        group.recorder.time(Kind::Compute, "product here", || {
            multiply_sparse(self.arena, &self.here.pattern, &self.here.values, x, output, false);
        });
        let mut rows = self.arena.take(route.rows_out * columns);
        let put = |row: usize, values: &[f32]| rows[row * columns..][..columns].copy_from_slice(values);
        self.exchange.receive(columns, sent, put)?;
        let beyond = View { shape: Shape::new(route.rows_out, columns), values: &rows };
        multiply_sparse(self.arena, &self.beyond.pattern, &self.beyond.values, beyond, output, true);
        self.arena.give(rows);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let Exchange { group, route, .. } = &self.exchange;
        let columns = back.output.shape.columns;
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let mut rows = self.arena.zeros(route.rows_out * columns);
        multiply_sparse_transposed(
            self.arena,
            &self.beyond.pattern,
            &self.beyond.values,
            upstream,
            &mut rows,
        );
        let sent = self.exchange.send_back(&rows, columns)?;
        self.arena.give(rows);
        let mut unwanted = Vec::new();
        let gradient = match back.take(0) {
            Some(gradient) => {
                group.recorder.time(Kind::Compute, "product here", || {
                    let (pattern, values) = (&self.here.pattern, &self.here.values);
                    multiply_sparse_transposed(self.arena, pattern, values, upstream, gradient);
                });
                gradient
            }
            // Others may ask for it: what they sent has to be taken in any case.
            None => {
                unwanted.resize(route.rows_in * columns, 0.0);
                &mut unwanted[..]
            }
        };
        let sum = |row: usize, values: &[f32]| add(&mut gradient[row * columns..][..columns], values);
        self.exchange.receive_back(columns, sent, sum)
    }
}
