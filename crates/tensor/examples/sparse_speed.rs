//! How fast sparse times dense is, against the speed at which the machine copies memory.
//!
//! `cargo run --release -p kymo-tensor --example sparse_speed`
//!
//! Bytes are counted as if nothing were ever found in a cache: each entry fetches a row, its column and its value, each row
//! of the result is written once. The share of the copying speed may therefore exceed one where much is found there.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use kymo_tensor::{Arena, Pattern, Result, Shape, Tape};
use rayon::prelude::*;

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 >> 32) ^ (self.0 >> 11);
        f64::from(mixed as u32) / f64::from(u32::MAX)
    }

    /// A vertex: any as likely as any other, or few of them much likelier, which lie anywhere.
    fn vertex(&mut self, count: usize, is_skewed: bool) -> u32 {
        let share = if is_skewed { self.next().powi(3) } else { self.next() };
        let rank = ((share * count as f64) as usize).min(count - 1);
        // A prime that divides no count used here, so that this is a permutation.
        (rank * 1_000_003 % count) as u32
    }
}

/// The least of some times, in seconds.
fn least(mut work: impl FnMut()) -> f64 {
    work();
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..15).map(time).fold(f64::INFINITY, f64::min)
}

/// Bytes read and written in a second by copying.
fn copy_speed() -> f64 {
    let source = vec![1.0f32; 64 << 20];
    let mut target = vec![0.0f32; source.len()];
    let half = source.len() / 2;
    let time = least(|| {
        target
            .par_chunks_mut(half)
            .zip(source.par_chunks(half))
            .for_each(|(target, source)| target.copy_from_slice(source));
    });
    (source.len() * 8) as f64 / time
}

/// Seconds of one product, and of one gradient of its right side.
fn spmm_times(pattern: &Arc<Pattern>, values: &Arc<Vec<f32>>, width: usize) -> Result<(f64, f64)> {
    let arena = Arena::new();
    let shape = Shape::new(pattern.columns(), width);
    let x: Vec<f32> = (0..shape.len()).map(|i| (i % 100) as f32 * 0.01).collect();
    let mut problem = Ok(());
    let forth = least(|| {
        let mut tape = Tape::new(&arena);
        let product =
            tape.constant(shape, &x).and_then(|x| tape.spmm_fixed(pattern.clone(), values.clone(), x));
        problem = product.map(|_| ());
    });
    problem?;
    let mut tape = Tape::new(&arena);
    let input = tape.parameter(shape, &x)?;
    let product = tape.spmm_fixed(pattern.clone(), values.clone(), input)?;
    let mut problem = Ok(());
    let back = least(|| {
        let seed = arena.take(pattern.rows() * width);
        problem = tape.backward_with(product, seed).map(|_| ());
    });
    problem?;
    Ok((forth, back))
}

fn main() -> Result<()> {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok();
    let (Some(one), Some(two)) = (pool(1), pool(2)) else { return Ok(()) };
    let copy = two.install(copy_speed);
    println!("copying, two threads: {:.1} GB/s read and written", copy / 1e9);
    println!("  vertices    entries degrees   width  product  GB/s  of copy  speed-up  gradient  speed-up");
    for (vertices, entries) in [(50_000usize, 500_000usize), (500_000, 5_000_000)] {
        for is_skewed in [false, true] {
            let mut random = Random(1);
            let mut edge = |_| (random.vertex(vertices, is_skewed), random.vertex(vertices, is_skewed));
            let edges: Vec<(u32, u32)> = (0..entries).map(&mut edge).collect();
            let pattern = Arc::new(Pattern::from_edges(vertices, vertices, edges)?);
            pattern.prepare_transpose();
            let values = Arc::new(vec![0.5; entries]);
            for width in [32, 64, 128] {
                let (forth_one, back_one) = one.install(|| spmm_times(&pattern, &values, width))?;
                let (forth, back) = two.install(|| spmm_times(&pattern, &values, width))?;
                let bytes = entries * (width * 4 + 8) + vertices * width * 4;
                let speed = bytes as f64 / forth;
                println!(
                    "{vertices:>10} {entries:>10} {:<9} {width:>5} {:>5.1} ms {:>5.1} {:>6.0} % {:>8.2}x {:>6.1} ms {:>8.2}x",
                    if is_skewed { "power law" } else { "uniform" },
                    forth * 1e3,
                    speed / 1e9,
                    100.0 * speed / copy,
                    forth_one / forth,
                    back * 1e3,
                    back_one / back,
                );
            }
        }
    }
    Ok(())
}
