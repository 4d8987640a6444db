//! Scaled dot-product attention over time, for every vertex by itself (Vaswani et al., 2017, equation 1; over
//! the steps of a window as in DySAT, Sankar et al., 2020, equation 2).
//!
//! Row `i` of step `t` looks at row `i` of the steps `s`:
//! `out_t = sum over s of softmax_s(q_t k_s / sqrt(d)) v_s`, for each head in its own columns. What is put
//! aside are the shares that the softmax gives.

use super::attention_loops::{Sizes, backward, forward};
use super::pieces::{by_pieces, taken};
use crate::clock::Stage;
use crate::cuda::{self, Argument, Device, Launch, Memory, Source};
use crate::error::{Error, Result, expect_input};
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

/// The kernels.
pub(crate) const ATTENTION: Source =
    Source { name: "attention", text: include_str!("attention.cu"), samples: &[&[]] };

struct Attention {
    heads: usize,
    causal: bool,
}

impl Attention {
    fn sizes(&self, inputs: &[Shape]) -> Sizes {
        let (steps, width) = (inputs.len() / 3, inputs[0].columns);
        Sizes { steps, width, heads: self.heads, causal: self.causal }
    }

    /// What all kernels are told: where the inputs are, and the sizes.
    fn arguments(&self, places: &Memory, sizes: Sizes) -> [Argument; 5] {
        let depth = sizes.width / sizes.heads;
        [
            places.all().into(),
            (sizes.steps as i32).into(),
            (sizes.heads as i32).into(),
            (depth as i32).into(),
            sizes.causal.into(),
        ]
    }
}

/// Where the inputs are, in the memory of the GPU.
fn places(device: &Device, inputs: &[cuda::View<'_>]) -> Result<Memory> {
    let places: Vec<u64> = inputs.iter().map(|input| input.values.at()).collect();
    device.upload(&places)
}

fn shapes(inputs: &[View<'_>]) -> Vec<Shape> {
    inputs.iter().map(|input| input.shape).collect()
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn stage(&self) -> Stage {
        Stage::Time
    }

    fn joins_steps(&self) -> bool {
        true
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let Some(&first) = inputs.first() else {
            return Err(Error::shape(self.name(), "no steps were given"));
        };
        for (index, &shape) in inputs.iter().enumerate() {
            expect_input(self.name(), index, shape, first)?;
        }
        if self.heads == 0 || !first.columns.is_multiple_of(self.heads) {
            let problem = format!("{} columns cannot be shared by {} heads", first.columns, self.heads);
            return Err(Error::shape(self.name(), problem));
        }
        Ok(Shape::new(first.rows, inputs.len() / 3 * first.columns))
    }

    /// For each row, head and step the shares of all steps.
    fn saved(&self, inputs: &[Shape]) -> usize {
        let Sizes { steps, heads, .. } = self.sizes(inputs);
        inputs[0].rows * heads * steps * steps
    }

    fn scratch(&self, inputs: &[Shape]) -> usize {
        inputs[0].rows * self.sizes(inputs).steps
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let sizes = self.sizes(&shapes(inputs));
        if !output.is_empty() {
            by_pieces(inputs[0].shape.rows, &mut [Some(output), Some(saved)], |range, slots| {
                forward(sizes, inputs, range, taken(slots, 0), taken(slots, 1));
            });
        }
        Ok(())
    }

    fn backward(&self, back: Back<'_, '_>) -> Result<()> {
        let (inputs, saved) = (back.inputs, back.saved);
        let sizes = self.sizes(&shapes(inputs));
        let upstream = View { shape: back.output.shape, values: back.upstream };
        if back.output.shape.is_empty() {
            return Ok(());
        }
        let count = inputs.len();
        let mut slots: Vec<Option<&mut [f32]>> =
            back.gradients.iter_mut().map(|slot| slot.as_deref_mut()).collect();
        slots.push(Some(back.scratch));
        by_pieces(upstream.shape.rows, &mut slots, |range, slots| {
            let scores = taken(slots, count);
            let shares = sizes.heads * sizes.steps * sizes.steps;
            let shares = &saved[range.start * shares..range.end * shares];
            let upstream = upstream.rows(range.clone()).values;
            backward(sizes, inputs, range, (upstream, shares), scores, slots);
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        if call.output.is_empty() {
            return Ok(());
        }
        let (device, shape) = (call.device, call.inputs[0].shape);
        let sizes = self.sizes(&vec![shape; call.inputs.len()]);
        let places = places(device, call.inputs)?;
        let mut arguments = self.arguments(&places, sizes).to_vec();
        arguments.extend([Argument::from(sizes.scale()), call.saved.into()]);
        device.each(&ATTENTION, "attention_shares", shape.rows * sizes.heads * sizes.steps, &arguments)?;
        let mut arguments = self.arguments(&places, sizes).to_vec();
        arguments.extend([Argument::from(call.saved), call.output.into()]);
        device.each(&ATTENTION, "attention_output", call.output.len(), &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        if back.output.shape.is_empty() {
            return Ok(());
        }
        let (device, shape, count) = (back.device, back.inputs[0].shape, back.inputs.len());
        let sizes = self.sizes(&vec![shape; count]);
        let (places, scores) = (places(device, back.inputs)?, device.take(back.saved.len())?);
        let mut arguments = self.arguments(&places, sizes).to_vec();
        arguments.extend([
            Argument::from(sizes.scale()),
            back.saved.into(),
            back.upstream.into(),
            scores.all().into(),
        ]);
        let threads = shape.rows * sizes.heads * sizes.steps;
        device.each(&ATTENTION, "attention_scores_back", threads, &arguments)?;
        let place = |sum: &Option<cuda::Sum<'_>>| sum.map_or(0, |sum| sum.values.at());
        let gradients = device.upload(&back.gradients.iter().map(place).collect::<Vec<u64>>())?;
        let adds = |sum: &Option<cuda::Sum<'_>>| i32::from(sum.is_some_and(|sum| sum.adds));
        let adds = device.upload(&back.gradients.iter().map(adds).collect::<Vec<i32>>())?;
        let mut arguments = vec![Argument::from(shape.len())];
        arguments.extend(self.arguments(&places, sizes));
        arguments.extend([
            Argument::from(back.saved),
            scores.all().into(),
            back.upstream.into(),
            gradients.all().into(),
            adds.all().into(),
        ]);
        let launch = Launch { blocks: [Launch::each(shape.len()).blocks[0], count], ..Launch::each(1) };
        device.run(&ATTENTION, "attention_back", &[], launch, &arguments)
    }
}

impl Tape<'_> {
    /// Attention over the steps of a window, for every row by itself: the outputs of all steps side by side.
    ///
    /// Queries, keys and values are one matrix a step. The columns are shared by the heads. If it is causal,
    /// a step looks only at itself and at those before.
    pub fn attention(
        &mut self,
        queries: &[Var],
        keys: &[Var],
        values: &[Var],
        heads: usize,
        causal: bool,
    ) -> Result<Var> {
        if queries.len() != keys.len() || queries.len() != values.len() {
            let problem = format!(
                "{} queries, {} keys and {} values were given, expected as many of each",
                queries.len(),
                keys.len(),
                values.len()
            );
            return Err(Error::shape("attention", problem));
        }
        self.apply(Attention { heads, causal }, &[queries, keys, values].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{assert_close, numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    fn inputs(rows: usize, steps: usize, width: usize) -> Vec<(Shape, Vec<f32>)> {
        (0..3 * steps).map(|index| numbers(rows, width, index as u32 + 1)).collect()
    }

    fn build(heads: usize, causal: bool) -> impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var> {
        move |tape, vars| {
            let steps = vars.len() / 3;
            tape.attention(&vars[..steps], &vars[steps..2 * steps], &vars[2 * steps..], heads, causal)
        }
    }

    /// Attention as it is written down, in double precision.
    fn exact(inputs: &[(Shape, Vec<f32>)], heads: usize, causal: bool) -> Vec<f64> {
        let (steps, Shape { rows, columns: width }) = (inputs.len() / 3, inputs[0].0);
        let depth = width / heads;
        let at = |which: usize, row: usize, column: usize| f64::from(inputs[which].1[row * width + column]);
        let mut output = vec![0.0; rows * steps * width];
        for (row, head, t) in
            (0..rows).flat_map(|row| (0..heads).flat_map(move |head| (0..steps).map(move |t| (row, head, t))))
        {
            let columns = head * depth..(head + 1) * depth;
            let shares: Vec<f64> = (0..if causal { t + 1 } else { steps })
                .map(|s| {
                    let dot: f64 = columns.clone().map(|c| at(t, row, c) * at(steps + s, row, c)).sum();
                    (dot / (depth as f64).sqrt()).exp()
                })
                .collect();
            let sum: f64 = shares.iter().sum();
            for column in columns {
                output[row * steps * width + t * width + column] =
                    shares.iter().enumerate().map(|(s, p)| p / sum * at(2 * steps + s, row, column)).sum();
            }
        }
        output
    }

    #[test]
    fn gradients_and_values() {
        for (rows, steps, width, heads) in
            [(1, 1, 1, 1), (1, 3, 4, 2), (4, 2, 1, 1), (3, 4, 6, 3), (2, 3, 38, 2)]
        {
            for causal in [false, true] {
                let inputs = inputs(rows, steps, width);
                gradient(&inputs, 1e-2, build(heads, causal)).unwrap();
                let found = run(&inputs, &build(heads, causal));
                assert_close(&found[0], exact(&inputs, heads, causal), "attention");
            }
        }
        same_for_any_thread_count(&inputs(1500, 3, 4), build(2, true));
    }

    #[test]
    fn extremes_are_finite_and_the_same_matrix_may_be_all_three() {
        let mut large = inputs(5, 3, 4);
        large.iter_mut().flat_map(|(_, values)| values).for_each(|value| *value *= 1e4);
        assert!(run(&large, &build(2, false)).iter().flatten().all(|value| value.is_finite()));
        let one = [numbers(2, 4, 1), numbers(2, 4, 2)];
        gradient(&one, 1e-2, |tape, vars| tape.attention(vars, vars, vars, 2, true)).unwrap();
    }

    #[test]
    fn wrong_shapes() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let (a, b) = (tape.filled(Shape::new(2, 3), 1.0), tape.filled(Shape::new(2, 4), 1.0));
        let error = tape.attention(&[a], &[a], &[b], 1, false).unwrap_err().to_string();
        assert_eq!(error, "attention: input 2 is 2 x 4, expected 2 x 3");
        let error = tape.attention(&[a], &[a], &[a], 2, false).unwrap_err().to_string();
        assert_eq!(error, "attention: 3 columns cannot be shared by 2 heads");
        let error = tape.attention(&[a, a], &[a], &[a], 1, false).unwrap_err().to_string();
        assert_eq!(error, "attention: 2 queries, 1 keys and 1 values were given, expected as many of each");
        assert!(
            tape.attention(&[], &[], &[], 1, false).is_err()
                && tape.attention(&[a], &[a], &[a], 0, true).is_err()
        );
    }
}
