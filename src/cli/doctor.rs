//! `kymo doctor`: what this machine has, and how fast it is.

use std::io::Write;
use std::time::Instant;

use clap::Args;
use kymo_comm::measure::Measured;
use kymo_comm::mpi;
use kymo_run::config::machine::machine;
use kymo_run::launch::Processes;
use kymo_run::{Result, Settings};
use kymo_tensor::cuda::{self, Device, Options};
use kymo_tensor::op::{Shape, View};
use kymo_tensor::ops::multiply;
use rayon::prelude::*;
use serde::Serialize;

use super::numbers::{bytes, plural};
use super::{cannot_print, print_json};

/// Show what this machine has, and how fast it is
///
/// Cores, the memory that this process may have, and vector instructions; libraries of CUDA and GPUs, where
/// the program was built with `--features cuda`. Copies and products are measured, which takes a few seconds.
/// Under `mpirun` the wire between the processes is measured, too: what `kymo plan --wire` and `--latency`
/// are to be told.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kymo doctor\n  kymo doctor --json\n  mpirun -n 4 kymo doctor")]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    cores: usize,
    threads: usize,
    memory: Option<u64>,
    available_memory: Option<u64>,
    vector_instructions: Vec<&'static str>,
    /// Bytes read and written a second by all threads, and operations a second of a product.
    copied: f64,
    product: f64,
    built_with: Vec<&'static str>,
    wire: Option<Between>,
    cuda_libraries: Vec<(&'static str, bool)>,
    gpus: Vec<Gpu>,
    kernels: Option<String>,
}

/// What is between the processes that MPI started.
#[derive(Serialize)]
struct Between {
    processes: usize,
    hosts: usize,
    /// Bytes a second that each sends and receives while all exchange rows, and seconds of the smallest
    /// exchange.
    rate: f64,
    latency: f64,
}

/// The processes that this one was started with, where it can join them.
pub fn join() -> Result<Option<Processes>> {
    if mpi::is_built_in() { Processes::join(&Settings::default().parallel) } else { Ok(None) }
}

/// A GPU, or what is wrong with it.
#[derive(Serialize)]
struct Gpu {
    name: String,
    memory: u64,
    architecture: String,
    processors: usize,
    copied: f64,
    uploaded: f64,
    /// Of each precision operations a second, and the error of a product relative to its norm.
    products: Vec<(&'static str, f64, f64)>,
    problem: Option<String>,
}

/// Inspects, measures, and prints.
pub fn run(args: &Doctor, processes: Option<&Processes>, out: &mut dyn Write) -> Result<()> {
    let measured = processes.map(Processes::measure).transpose()?.flatten();
    let wire = processes.zip(measured).map(|(processes, Measured { rate, latency })| Between {
        processes: processes.count(),
        hosts: processes.hosts(),
        rate,
        latency,
    });
    if processes.is_some_and(|processes| !processes.leads()) {
        return Ok(());
    }
    let memory = machine();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        threads: rayon::current_num_threads(),
        memory: memory.map(|memory| memory.total),
        available_memory: memory.map(|memory| memory.available),
        vector_instructions: vector_instructions(),
        copied: copy_rate(),
        product: product_rate(),
        built_with: [
            ("cuda", cfg!(feature = "cuda")),
            ("ilp", cfg!(feature = "ilp")),
            ("mpi", mpi::is_built_in()),
        ]
        .into_iter()
        .filter_map(|(name, built)| built.then_some(name))
        .collect(),
        wire,
        cuda_libraries: cuda::libraries(),
        gpus: (0..cuda::count()).map(gpu).collect(),
        kernels: cuda::kernels::folder().map(|folder| folder.display().to_string()),
    };
    if args.json {
        return Ok(print_json(out, &report)?);
    }
    Ok(write!(out, "{}", text(&report)).map_err(cannot_print)?)
}

fn text(report: &Report) -> String {
    let rate = |rate: f64| format!("{:.1} GB/s", rate / 1e9);
    let memory = match (report.memory, report.available_memory) {
        (Some(total), Some(available)) => format!("{}, {} of it available", bytes(total), bytes(available)),
        _ => "unknown".into(),
    };
    let mut text = format!(
        "kymo {}\n\
         cores         {} ({} threads in use)\n\
         memory        {}\n\
         instructions  {}\n\
         copies        {}\n\
         products      {:.0} GFLOP/s in f32\n",
        report.version,
        report.cores,
        report.threads,
        memory,
        if report.vector_instructions.is_empty() {
            "none known".into()
        } else {
            report.vector_instructions.join(", ")
        },
        rate(report.copied),
        report.product / 1e9,
    );
    text.push_str(&format!("MPI           {}\n", between(report)));
    if !report.built_with.contains(&"cuda") {
        text.push_str(
            "CUDA          not in this program: build it with --features cuda \
             (nothing need be installed for that)\n",
        );
        return text;
    }
    let libraries: Vec<String> = report
        .cuda_libraries
        .iter()
        .map(|(name, there)| format!("lib{name} {}", if *there { "found" } else { "MISSING" }))
        .collect();
    text.push_str(&format!("CUDA          {}\n", libraries.join(", ")));
    if report.gpus.is_empty() {
        text.push_str("GPUs          none that can be opened\n");
    }
    for (number, gpu) in report.gpus.iter().enumerate() {
        if let Some(problem) = &gpu.problem {
            text.push_str(&format!("cuda:{number}        {problem}\n"));
            continue;
        }
        text.push_str(&format!(
            "cuda:{number}        {}, {}, {} multiprocessors, architecture {}\n              \
             copies {}, from the host {}\n",
            gpu.name,
            bytes(gpu.memory),
            gpu.processors,
            gpu.architecture,
            rate(gpu.copied),
            rate(gpu.uploaded)
        ));
        for (precision, operations, error) in &gpu.products {
            text.push_str(&format!(
                "              products in {precision}: {:.1} TFLOP/s, error {error:.1e}\n",
                operations / 1e12
            ));
        }
    }
    if let Some(folder) = &report.kernels {
        text.push_str(&format!("kernels       compiled when first needed, kept in {folder}\n"));
    }
    text
}

/// What there is to say of MPI and the wire.
fn between(report: &Report) -> String {
    match &report.wire {
        None if !report.built_with.contains(&"mpi") => {
            "not in this program: build it with --features mpi (docs/cluster.md)".into()
        }
        None => "in this program; mpirun -n N kymo doctor measures the wire".into(),
        Some(Between { processes, hosts, rate, latency }) => format!(
            "{processes} processes on {}: each sends and receives {:.1} MB/s while all exchange rows,\n\
             \x20             {:.3} ms a message: kymo plan --workers {processes} --wire {:.1}MB/s \
             --latency {latency:.6}",
            plural(*hosts as u64, ["host", "hosts"]),
            rate / 1e6,
            latency * 1e3,
            rate / 1e6,
        ),
    }
}

fn gpu(number: usize) -> Gpu {
    let measured = Device::open(Options { number, ..Options::default() })
        .and_then(|device| Ok((device.facts().clone(), cuda::measure(number)?)));
    match measured {
        Ok((facts, measured)) => Gpu {
            name: facts.name,
            memory: facts.bytes as u64,
            architecture: format!("{}.{}", facts.architecture.0, facts.architecture.1),
            processors: facts.processors,
            copied: measured.copied,
            uploaded: measured.uploaded,
            products: measured.products,
            problem: None,
        },
        Err(error) => Gpu {
            name: String::new(),
            memory: 0,
            architecture: String::new(),
            processors: 0,
            copied: 0.0,
            uploaded: 0.0,
            products: Vec::new(),
            problem: Some(error.to_string()),
        },
    }
}

fn vector_instructions() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let all = [
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("fma", std::is_x86_feature_detected!("fma")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ];
        all.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// The best time of a few tries.
fn least_seconds(mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed().as_secs_f64()
    };
    (0..5).map(time).fold(f64::MAX, f64::min)
}

/// Bytes read and written a second, by all threads, in blocks that fit no cache together.
fn copy_rate() -> f64 {
    let from = vec![1.0f32; 32 << 20];
    let mut to = vec![0.0f32; from.len()];
    let block = 1 << 18;
    let seconds = least_seconds(|| {
        to.par_chunks_mut(block).zip(from.par_chunks(block)).for_each(|(to, from)| to.copy_from_slice(from));
    });
    8.0 * from.len() as f64 / seconds
}

/// Operations a second of a product.
fn product_rate() -> f64 {
    let side = 1024;
    let (x, w) = (vec![0.5f32; side * side], vec![0.25f32; side * side]);
    let mut output = vec![0.0f32; side * side];
    let view = |values| View { shape: Shape::new(side, side), values };
    let seconds = least_seconds(|| multiply(view(&x), view(&w), &mut output));
    2.0 * (side as f64).powi(3) / seconds
}
