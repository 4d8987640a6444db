//! What Kymo's sums and exchanges between processes take, and what MPI itself takes for the same bytes:
//! `mpirun -n 3 wire bare` and `mpirun -n 3 wire kymo`; `native` leaves sums to MPI.
//!
//! Each line: what, bytes of a worker, seconds of the fastest round.

#![allow(clippy::print_stdout, clippy::unwrap_used, unsafe_code)]

use std::ffi::c_int;
use std::time::{Duration, Instant};

use kymo_comm::remote::Options;
use kymo_comm::{Comm, Tag, mpi};
use mpi_sys as ffi;

/// Numbers that are summed: gradients of small and of large models.
const SUMS: [usize; 5] = [1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22];

/// Numbers that go from each worker to each other.
const PARTS: [usize; 3] = [1 << 14, 1 << 18, 1 << 21];

/// Rounds, fewer where each takes long.
fn rounds(numbers: usize) -> usize {
    (1 << 24) / numbers.max(1 << 14) + 8
}

/// Seconds of the fastest round, from when all begin to when all are done.
fn fastest<T>(numbers: usize, wait: impl Fn(), ready: impl Fn() -> T, mut round: impl FnMut(T)) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds(numbers) {
        let with = ready();
        wait();
        let begun = Instant::now();
        round(with);
        wait();
        best = best.min(begun.elapsed().as_secs_f64());
    }
    best
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("bare") => bare(),
        Some("native") => kymo(true),
        _ => kymo(false),
    }
}

fn kymo(native_sums: bool) {
    let comm = mpi::connect(Options { native_sums, deadline: Duration::from_secs(60) }).unwrap();
    let comm: &dyn Comm = &*comm;
    let say = |what: &str, bytes: usize, seconds: f64| {
        if comm.rank() == 0 {
            println!("{what} {bytes} {seconds:.9}");
        }
    };
    let wait = || comm.barrier().unwrap();
    for numbers in SUMS {
        let mut values = vec![1.0f32; numbers];
        let seconds = fastest(numbers, wait, || (), |()| comm.all_reduce(&mut values).unwrap());
        say("sum", 4 * numbers, seconds);
    }
    for numbers in PARTS {
        let parts = || {
            let part = |to: usize| match to == comm.rank() {
                true => Vec::new(),
                false => {
                    let mut part = comm.buffer(numbers);
                    part.resize(numbers, 1.0);
                    part
                }
            };
            (0..comm.size()).map(part).collect::<Vec<Vec<f32>>>()
        };
        let seconds = fastest(numbers, wait, parts, |parts| {
            comm.all_to_all(parts).unwrap().into_iter().for_each(|part| comm.recycle(part));
        });
        say("exchange", 4 * numbers * (comm.size() - 1), seconds);
        let others = |ahead: bool| {
            let (rank, size) = (comm.rank(), comm.size());
            (1..size).map(move |offset| (rank + if ahead { offset } else { size - offset }) % size)
        };
        let seconds = fastest(numbers, wait, parts, |mut parts| {
            others(true).for_each(|to| comm.send(to, Tag(7), std::mem::take(&mut parts[to])).unwrap());
            others(false).for_each(|from| comm.recycle(comm.receive(from, Tag(7)).unwrap()));
        });
        say("rows", 4 * numbers * (comm.size() - 1), seconds);
    }
}

fn bare() {
    // SAFETY: calls in the order that MPI asks for, with buffers of the lengths that are given.
    unsafe {
        let mut provided = 0;
        let level = ffi::RSMPI_THREAD_SERIALIZED;
        ffi::MPI_Init_thread(std::ptr::null_mut(), std::ptr::null_mut(), level, &mut provided);
        let comm = ffi::RSMPI_COMM_WORLD;
        let (mut rank, mut size) = (0, 0);
        ffi::MPI_Comm_rank(comm, &mut rank);
        ffi::MPI_Comm_size(comm, &mut size);
        let say = |what: &str, bytes: usize, seconds: f64| {
            if rank == 0 {
                println!("{what} {bytes} {seconds:.9}");
            }
        };
        let wait = || {
            ffi::MPI_Barrier(comm);
        };
        for numbers in SUMS {
            let (values, mut sums) = (vec![1.0f32; numbers], vec![0.0f32; numbers]);
            let seconds = fastest(
                numbers,
                wait,
                || (),
                |()| {
                    let (from, to) = (values.as_ptr().cast(), sums.as_mut_ptr().cast());
                    ffi::MPI_Allreduce(from, to, numbers as c_int, ffi::RSMPI_FLOAT, ffi::RSMPI_SUM, comm);
                },
            );
            say("sum", 4 * numbers, seconds);
        }
        for numbers in PARTS {
            let all = numbers * size as usize;
            let (values, mut received) = (vec![1.0f32; all], vec![0.0f32; all]);
            let seconds = fastest(
                numbers,
                wait,
                || (),
                |()| {
                    let (from, to) = (values.as_ptr().cast(), received.as_mut_ptr().cast());
                    let count = numbers as c_int;
                    ffi::MPI_Alltoall(from, count, ffi::RSMPI_FLOAT, to, count, ffi::RSMPI_FLOAT, comm);
                },
            );
            say("exchange", 4 * numbers * (size as usize - 1), seconds);
        }
        ffi::MPI_Finalize();
    }
}
