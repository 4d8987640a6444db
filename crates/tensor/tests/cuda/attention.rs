//! Attention over the steps of a window.

use crate::compare::{Input, numbers, same, wanted};

fn inputs(rows: usize, steps: usize, width: usize) -> Vec<Input> {
    wanted((0..3 * steps).map(|index| numbers(rows, width, index as u64 + 1)).collect())
}

#[test]
fn over_steps() {
    for (rows, steps, width, heads) in [
        (1, 1, 1, 1),
        (1, 3, 4, 2),
        (4, 2, 1, 1),
        (3, 4, 6, 3),
        (2, 3, 38, 2),
        (1000, 8, 64, 4),
        (300, 12, 33, 1),
        (50, 32, 16, 16),
        (20_000, 3, 8, 2),
        (0, 3, 4, 2),
        (5, 2, 0, 1),
    ] {
        for causal in [false, true] {
            let mut inputs = inputs(rows, steps, width);
            let name =
                format!("attention, {rows} rows, {steps} steps, {width} columns, {heads} heads, {causal}");
            same(&name, &inputs, |tape, vars| {
                tape.attention(&vars[..steps], &vars[steps..2 * steps], &vars[2 * steps..], heads, causal)
            });
            same(&format!("{name}, all three the same"), &inputs[..steps], |tape, vars| {
                tape.attention(vars, vars, vars, heads, causal)
            });
            same(&format!("{name}, twice"), &inputs, |tape, vars| {
                let (q, k, v) = (&vars[..steps], &vars[steps..2 * steps], &vars[2 * steps..]);
                let one = tape.attention(q, k, v, heads, causal)?;
                let other = tape.attention(v, k, q, heads, causal)?;
                tape.add(one, other)
            });
            inputs.iter_mut().step_by(2).for_each(|input| input.1 = false);
            same(&format!("{name}, some constant"), &inputs, |tape, vars| {
                tape.attention(&vars[..steps], &vars[steps..2 * steps], &vars[2 * steps..], heads, causal)
            });
        }
    }
    let mut large = inputs(5, 3, 4);
    large.iter_mut().flat_map(|((_, values), _)| values).for_each(|value| *value *= 6.0);
    same("large numbers", &large, |tape, vars| tape.attention(&vars[..3], &vars[3..6], &vars[6..], 2, false));
}
