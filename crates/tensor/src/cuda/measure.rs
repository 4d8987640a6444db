//! What a GPU can do: how fast it copies, and how fast and how exact its products are in each precision.

use super::device::{Device, Options, Precision};
use crate::error::Result;

/// What was measured on a GPU.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Bytes read and written a second while copying within its memory.
    pub copied: f64,
    /// Bytes a second from the host.
    pub uploaded: f64,
    /// Of each precision the operations a second of a large product, and how far the product is off, relative
    /// to its norm.
    pub products: Vec<(&'static str, f64, f64)>,
}

/// The sides of the product that is timed, and of the one that is compared with the host's.
const LARGE: usize = 4096;
const SMALL: usize = 256;

/// The smallest of a few times, in seconds.
fn seconds(device: &Device, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::MAX;
    for _ in 0..8 {
        least = least.min(f64::from(device.time(&mut work)?) / 1e3);
    }
    Ok(least)
}

/// Numbers between -1 and 1.
fn numbers(count: usize, salt: u64) -> Vec<f32> {
    let value = |place: u64| {
        let z = (place ^ salt << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((z ^ (z >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count as u64).map(value).collect()
}

/// How far products are off on this device, relative to their norm in double precision.
pub fn product_error(device: &Device) -> Result<f64> {
    let (left, right) = (numbers(SMALL * SMALL, 1), numbers(SMALL * SMALL, 2));
    let (a, b, output) = (device.upload(&left)?, device.upload(&right)?, device.take(SMALL * SMALL)?);
    let (a, b) = (a.all().factor(SMALL), b.all().factor(SMALL));
    device.product([SMALL; 3], a, b, 0.0, (output.all(), SMALL))?;
    let found = device.read(output.all())?;
    let (mut off, mut norm) = (0.0, 0.0);
    for row in 0..SMALL {
        for column in 0..SMALL {
            let term = |k: usize| f64::from(left[row * SMALL + k]) * f64::from(right[k * SMALL + column]);
            let exact: f64 = (0..SMALL).map(term).sum();
            off += (f64::from(found[row * SMALL + column]) - exact).powi(2);
            norm += exact * exact;
        }
    }
    Ok((off / norm).sqrt())
}

/// Measures the GPU of this number.
pub fn measure(number: usize) -> Result<Measured> {
    let open = |precision| Device::open(Options { number, precision, budget: None });
    let device = open(Precision::Single)?;
    let count = 64 << 20;
    let host = vec![1.0f32; count / 4];
    let [from, to] = [device.take(count)?, device.take(count)?];
    device.clear(from.all())?;
    let copying = seconds(&device, || device.copy(from.all(), to.all()))?;
    let uploading = seconds(&device, || device.set(from.all(), &host))?;
    let mut products = Vec::new();
    for (name, precision) in Precision::ALL {
        let device = open(precision)?;
        let values = numbers(LARGE * LARGE, 3);
        let (a, b) = (device.upload(&values)?, device.upload(&values)?);
        let output = device.take(LARGE * LARGE)?;
        let (left, right) = (a.all().factor(LARGE), b.all().factor(LARGE));
        let time = seconds(&device, || device.product([LARGE; 3], left, right, 0.0, (output.all(), LARGE)))?;
        products.push((name, 2.0 * (LARGE as f64).powi(3) / time, product_error(&device)?));
    }
    Ok(Measured {
        copied: 8.0 * count as f64 / copying,
        uploaded: 4.0 * host.len() as f64 / uploading,
        products,
    })
}
