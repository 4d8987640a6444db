//! Whether a gradient is one: compared with finite differences in double precision steps.

use std::borrow::Cow;

use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::op::Shape;
use crate::tape::{Tape, Var};

/// Compares the gradient of `sum(probe * build(inputs))` with central differences, for every number of every
/// input.
///
/// Values are single precision, so the step is large and the tolerance is relative to the largest gradient:
/// `tolerance` of 1e-2 finds every wrong formula.
pub fn gradient(
    inputs: &[(Shape, Vec<f32>)],
    tolerance: f32,
    build: impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var>,
) -> Result<()> {
    let arena = Arena::new();
    let evaluate = |inputs: &[(Shape, Vec<f32>)]| -> Result<f64> {
        let mut tape = Tape::new(&arena);
        let vars = inputs
            .iter()
            .map(|(shape, values)| tape.parameter(*shape, values))
            .collect::<Result<Vec<_>>>()?;
        let output = build(&mut tape, &vars)?;
        Ok(tape
            .value(output)?
            .iter()
            .zip(probe())
            .map(|(&value, probe)| f64::from(value) * f64::from(probe))
            .sum())
    };
    let mut tape = Tape::new(&arena);
    let vars =
        inputs.iter().map(|(shape, values)| tape.parameter(*shape, values)).collect::<Result<Vec<_>>>()?;
    let output = build(&mut tape, &vars)?;
    let seed: Vec<f32> = probe().take(tape.value(output)?.len()).collect();
    let gradients = tape.backward_with(output, &seed)?;
    for (which, &var) in vars.iter().enumerate() {
        let found =
            gradients.read(var)?.map(Cow::into_owned).unwrap_or_else(|| vec![0.0; inputs[which].1.len()]);
        let mut expected = Vec::new();
        for at in 0..found.len() {
            let mut moved = inputs.to_vec();
            let step = 1e-2f32;
            moved[which].1[at] = inputs[which].1[at] + step;
            let high = evaluate(&moved)?;
            moved[which].1[at] = inputs[which].1[at] - step;
            let low = evaluate(&moved)?;
            expected.push(((high - low) / (2.0 * f64::from(step))) as f32);
        }
        let largest = expected.iter().fold(1e-1f32, |largest, value| largest.max(value.abs()));
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // Written so that a gradient that is not a number fails, too.
            let close = (found - expected).abs() <= tolerance * largest;
            if !close {
                let problem = format!(
                    "input {which}, number {at}: the gradient is {found}, differences give {expected}"
                );
                return Err(Error::shape("gradient check", problem));
            }
        }
    }
    Ok(())
}

/// Fixed numbers that weigh the outputs, so that no two of them can stand in for each other.
fn probe() -> impl Iterator<Item = f32> {
    (0u32..).map(|i| ((i.wrapping_mul(2654435761) >> 16) % 1000) as f32 / 500.0 - 1.0)
}
