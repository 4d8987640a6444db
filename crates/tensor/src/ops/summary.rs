//! The rows that score highest, as columns (EvolveGCN-H, section 3.4): `y = x p / |p|`, the `k` highest rows
//! times `tanh(y)`, transposed. Of equal scores the lower row comes first; columns beyond the rows there are
//! stay zero.

use crate::cuda::{self, Device, Launch, Source};
use crate::error::{Result, expect_inputs, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

/// The kernels.
pub(crate) const SUMMARY: Source =
    Source { name: "summary", text: include_str!("summary.cu"), samples: &[&[]] };

struct Summary {
    count: usize,
}

/// What is put aside for each chosen row: its number, exact as bits, and its score.
const ASIDE: usize = 2;

impl Op for Summary {
    fn name(&self) -> &'static str {
        "summary"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x, score] = expect_inputs(self.name(), inputs)?;
        expect_shape(self.name(), "the scoring vector", score, Shape::new(x.columns, 1))?;
        Ok(Shape::new(x.columns, self.count))
    }

    fn saved(&self, _: &[Shape]) -> usize {
        ASIDE * self.count
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let x = inputs[0];
        let (order, scores) = highest(x, inputs[1].values, self.count);
        output.fill(0.0);
        saved.fill(f32::from_bits(u32::MAX));
        for (column, &row) in order.iter().enumerate() {
            let score = scores[row as usize];
            saved[ASIDE * column] = f32::from_bits(row);
            saved[ASIDE * column + 1] = score;
            for (at, &value) in x.row(row as usize).iter().enumerate() {
                output[at * self.count + column] = value * score.tanh();
            }
        }
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (x, vector) = (back.inputs[0], back.inputs[1].values);
        let length = norm(vector);
        let (mut to_x, mut to_vector) = (back.take(0), back.take(1));
        for (column, aside) in back.saved.chunks_exact(ASIDE).enumerate() {
            let row = aside[0].to_bits() as usize;
            if row >= x.shape.rows {
                continue;
            }
            let (score, values) = (aside[1], x.row(row));
            let factor = score.tanh();
            let upstream = |at: usize| back.upstream[at * self.count + column];
            let through: f32 = values.iter().enumerate().map(|(at, value)| upstream(at) * value).sum();
            let to_score = through * (1.0 - factor * factor);
            if let Some(gradient) = to_x.as_deref_mut() {
                let gradient = &mut gradient[row * values.len()..(row + 1) * values.len()];
                for (at, sum) in gradient.iter_mut().enumerate() {
                    *sum += upstream(at) * factor + to_score * vector[at] / length;
                }
            }
            if let Some(gradient) = to_vector.as_deref_mut() {
                // d(x p / |p|) / dp = x / |p| - (x p) p / |p|^3
                for (at, sum) in gradient.iter_mut().enumerate() {
                    *sum += to_score * (values[at] - score * vector[at] / length) / length;
                }
            }
        }
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, x) = (call.device, call.inputs[0]);
        // Which rows are chosen is decided on the host: there are few, and it is where the order is defined.
        let scores = scores_on(device, x, call.inputs[1])?;
        let mut saved = vec![f32::from_bits(u32::MAX); call.saved.len()];
        for (aside, row) in saved.chunks_exact_mut(ASIDE).zip(chosen(&scores, self.count)) {
            (aside[0], aside[1]) = (f32::from_bits(row), scores[row as usize]);
        }
        device.set(call.saved, &saved)?;
        let arguments = [
            x.values.into(),
            x.shape.rows.into(),
            (x.shape.columns as i32).into(),
            call.saved.into(),
            (self.count as i32).into(),
            call.output.into(),
        ];
        device.each(&SUMMARY, "summary", call.output.len(), &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let (device, x, vector) = (back.device, back.inputs[0], back.inputs[1].values);
        let (Shape { rows, columns }, count) = (x.shape, self.count);
        let (width, chosen) = (columns as i32, count as i32);
        let to_scores = device.take(count)?;
        let arguments = [
            count.into(),
            x.values.into(),
            rows.into(),
            width.into(),
            back.saved.into(),
            back.upstream.into(),
            to_scores.all().into(),
        ];
        device.run(&SUMMARY, "summary_to_scores", &[], Launch::each(32 * count), &arguments)?;
        if let Some(gradient) = back.gradients[0] {
            if !gradient.adds {
                device.clear(gradient.values)?;
            }
            let arguments = [
                rows.into(),
                width.into(),
                back.saved.into(),
                chosen.into(),
                vector.into(),
                back.upstream.into(),
                to_scores.all().into(),
                gradient.values.into(),
            ];
            device.each(&SUMMARY, "summary_to_rows", columns * count, &arguments)?;
        }
        let Some(gradient) = back.gradients[1] else { return Ok(()) };
        let arguments = [
            columns.into(),
            x.values.into(),
            rows.into(),
            back.saved.into(),
            chosen.into(),
            vector.into(),
            to_scores.all().into(),
            gradient.values.into(),
            gradient.adds.into(),
        ];
        device.run(&SUMMARY, "summary_to_vector", &[], Launch::each(32 * columns), &arguments)
    }
}

/// The `count` highest rows, the highest first, and the scores of all.
fn highest(x: View<'_>, vector: &[f32], count: usize) -> (Vec<u32>, Vec<f32>) {
    let length = norm(vector);
    let scores: Vec<f32> = (0..x.shape.rows).map(|row| dot(x.row(row), vector) / length).collect();
    (chosen(&scores, count), scores)
}

/// The scores of all rows, computed on the GPU to the same bits as here, in the memory of the host.
fn scores_on(device: &Device, x: cuda::View<'_>, vector: cuda::View<'_>) -> Result<Vec<f32>> {
    let Shape { rows, columns } = x.shape;
    let scores = device.take(rows)?;
    let arguments = [x.values.into(), vector.values.into(), (columns as i32).into(), scores.all().into()];
    device.each(&SUMMARY, "summary_scores", rows, &arguments)?;
    device.read(scores.all())
}

/// The rows of the `count` highest scores, the highest first.
fn chosen(scores: &[f32], count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    let higher = |&a: &u32, &b: &u32| scores[b as usize].total_cmp(&scores[a as usize]).then(a.cmp(&b));
    if order.len() > count && count > 0 {
        order.select_nth_unstable_by(count - 1, higher);
        order.truncate(count);
    }
    order.sort_unstable_by(higher);
    order.truncate(count);
    order
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The length of a vector, at least a little, so that a vector of zeros scores zero.
fn norm(vector: &[f32]) -> f32 {
    dot(vector, vector).sqrt().max(1e-12)
}

impl Tape<'_> {
    /// Which rows [`Tape::summary`] would choose, ascending.
    pub fn highest(&self, x: Var, score: Var, count: usize) -> Result<Vec<u32>> {
        Summary { count }.shape(&[self.shape(x), self.shape(score)])?;
        let mut rows = match self.arena().device() {
            None => highest(self.view(x)?, self.value(score)?, count).0,
            Some(device) => {
                let view = |var| Ok(cuda::View { shape: self.shape(var), values: self.slice(device, var)? });
                chosen(&scores_on(device, view(x)?, view(score)?)?, count)
            }
        };
        rows.sort_unstable();
        Ok(rows)
    }

    /// The `count` highest rows of `x` by their product with `score`, as columns.
    pub fn summary(&mut self, x: Var, score: Var, count: usize) -> Result<Var> {
        self.apply(Summary { count }, &[x, score])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::gradient;

    #[test]
    fn the_highest_rows_are_taken_in_order() {
        let arena = crate::Arena::new();
        let mut tape = Tape::new(&arena);
        let (x, p) = (vec![1.0, 0.0, 3.0, 1.0, 3.0, 2.0, 2.0, 9.0], vec![2.0, 0.0]);
        let x = tape.copied(Shape::new(4, 2), &x).unwrap();
        let p = tape.copied(Shape::new(2, 1), &p).unwrap();
        let y = tape.summary(x, p, 3).unwrap();
        let (three, two) = (3f32.tanh(), 2f32.tanh());
        assert_eq!(
            tape.value(y).unwrap(),
            [3.0 * three, 3.0 * three, 2.0 * two, three, 2.0 * three, 9.0 * two]
        );
        let wide = tape.summary(x, p, 5).unwrap();
        assert_eq!(tape.value(wide).unwrap()[4], 0.0);
    }

    #[test]
    fn gradients_are_those_of_differences() {
        let x: Vec<f32> = (0..15).map(|i| (i as f32 * 1.7).sin()).collect();
        for count in [1, 2, 5, 7] {
            let inputs = [(Shape::new(5, 3), x.clone()), (Shape::new(3, 1), vec![0.5, -1.0, 0.3])];
            gradient(&inputs, 1e-2, |tape, vars| tape.summary(vars[0], vars[1], count)).unwrap();
        }
    }
}
