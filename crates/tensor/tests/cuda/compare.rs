//! One computation on the host and on a GPU.

use kymo_tensor::cuda::{self, Device, Options, Precision};
use kymo_tensor::{Arena, Result, Shape, Tape, Var};

thread_local! {
    // Opened once for each test, which has a thread of its own: opening takes longer than most comparisons.
    static DEVICES: [Option<Device>; 2] = [Precision::Single, Precision::Tf32].map(open);
}

fn open(precision: Precision) -> Option<Device> {
    match Device::open(Options { precision, ..Options::default() }) {
        Ok(device) => Some(device),
        Err(missing) => {
            assert_eq!(cuda::count(), 0, "{missing}");
            eprintln!("skipped: {missing}");
            None
        }
    }
}

/// The GPU, or a word about why the test is skipped.
pub fn device(precision: Precision) -> Option<Device> {
    DEVICES.with(|devices| devices[usize::from(precision != Precision::Single)].clone())
}

/// Numbers between -1 and 1 that follow from a salt.
pub fn numbers(rows: usize, columns: usize, salt: u64) -> (Shape, Vec<f32>) {
    let value = |place: u64| {
        let mut z =
            (place + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt.wrapping_mul(0xD1B5_4A32_D192_ED03);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (Shape::new(rows, columns), (0..(rows * columns) as u64).map(value).collect())
}

/// A matrix, and whether its gradient is wanted.
pub type Input = ((Shape, Vec<f32>), bool);

/// Inputs whose gradients are all wanted.
pub fn wanted(inputs: Vec<(Shape, Vec<f32>)>) -> Vec<Input> {
    inputs.into_iter().map(|input| (input, true)).collect()
}

/// The value of a computation, and the gradients of its inputs, for an upstream gradient that is different
/// everywhere.
fn run(
    arena: &Arena,
    inputs: &[Input],
    build: &dyn Fn(&mut Tape<'_>, &[Var]) -> Result<Var>,
) -> Vec<Vec<f32>> {
    let mut tape = Tape::new(arena);
    let vars: Vec<Var> = inputs
        .iter()
        .map(|((shape, values), wanted)| match wanted {
            true => tape.parameter(*shape, values).unwrap(),
            false => tape.constant(*shape, values).unwrap(),
        })
        .collect();
    let output = build(&mut tape, &vars).unwrap();
    let shape = tape.shape(output);
    let (_, seed) = numbers(shape.rows, shape.columns, 99);
    let mut found = vec![tape.read(output).unwrap().into_owned()];
    if tape.wants_gradient(output) {
        let gradients = tape.backward_with(output, &seed).unwrap();
        for (&var, (_, wanted)) in vars.iter().zip(inputs) {
            let gradient = gradients.read(var).unwrap().map(|values| values.into_owned());
            found.push(if *wanted { gradient.unwrap_or_default() } else { Vec::new() });
        }
    }
    found
}

/// Fails unless a computation comes to the same on the GPU as on the host, and twice to the same bits.
pub fn same(name: &str, inputs: &[Input], build: impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var>) {
    same_within(Precision::Single, [1e-5, 1e-4], name, inputs, build);
}

/// As [`same`], with products in another precision, and values and gradients within so much of their largest.
pub fn same_within(
    precision: Precision,
    tolerances: [f32; 2],
    name: &str,
    inputs: &[Input],
    build: impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var>,
) {
    let Some(device) = device(precision) else { return };
    let host = run(&Arena::new(), inputs, &build);
    let arena = Arena::on(device);
    let found = run(&arena, inputs, &build);
    for (number, (expected, found)) in host.iter().zip(&found).enumerate() {
        let what =
            if number == 0 { "its value".into() } else { format!("the gradient of input {}", number - 1) };
        let tolerance = tolerances[usize::from(number > 0)];
        assert_eq!(found.len(), expected.len(), "{name}: {what}");
        let largest = expected.iter().fold(0.0f32, |most, value| most.max(value.abs())).max(1e-3);
        let (mut off, mut norm) = (0.0, 0.0);
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            off += f64::from(found - expected).powi(2);
            norm += f64::from(*expected).powi(2);
            assert!(
                (found - expected).abs() <= tolerance * largest,
                "{name}: {what} has {found} at {place}, expected {expected} (largest {largest})"
            );
        }
        // The worst number may be far off by bad luck (a sum of thousands that nearly cancel each other is,
        // on the host as well); many together may not.
        let apart = (off / norm.max(1e-6)).sqrt();
        let few = expected.len() < 64;
        assert!(
            few || apart <= f64::from(tolerance) / 4.0,
            "{name}: {what} is off by {apart:.1e} of its norm"
        );
    }
    for _ in 0..2 {
        let again = run(&arena, inputs, &build);
        let bits = |all: &[Vec<f32>]| all.iter().flatten().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert!(bits(&again) == bits(&found), "{name}: other bits when it is done again");
    }
}
