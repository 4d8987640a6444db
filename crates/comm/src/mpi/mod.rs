//! MPI as a carrier of messages: the one place that knows of it.
//!
//! Built with the feature `mpi`, which needs the headers of Open MPI or MPICH and libclang. Without it, the
//! rest of the program is the same, and who starts it with `mpirun` is told how to get it.

use crate::Comm;
use crate::error::Result;
use crate::remote::Options;

#[cfg(feature = "mpi")]
#[allow(unsafe_code)]
mod calls;
#[cfg(feature = "mpi")]
mod library;
#[cfg(feature = "mpi")]
#[allow(unsafe_code)]
mod parcel;
pub mod siblings;

/// Variables that launchers set for the processes they start: Open MPI, PMIx (Slurm), MPICH and other PMI.
const LAUNCHED: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"];

/// Whether an MPI launcher started this process.
pub fn is_launched() -> bool {
    LAUNCHED.iter().any(|name| std::env::var_os(name).is_some())
}

/// This process's number among those that an MPI launcher started, where one did and says so.
pub fn launched_rank() -> Option<usize> {
    let said = |name| std::env::var(name).ok()?.parse().ok();
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"].into_iter().find_map(said)
}

/// Whether this program can use MPI.
pub const fn is_built_in() -> bool {
    cfg!(feature = "mpi")
}

/// Joins the processes that were started together.
#[cfg(feature = "mpi")]
pub fn connect(options: Options) -> Result<Box<dyn Comm>> {
    let wire = library::Library::open()?;
    let host = wire.host();
    Ok(Box::new(crate::remote::Remote::connect(Box::new(wire), &host, options)?))
}

/// Joins the processes that were started together: not without MPI.
#[cfg(not(feature = "mpi"))]
pub fn connect(_: Options) -> Result<Box<dyn Comm>> {
    Err(crate::Error::usage(
        "this program was built without MPI; install Open MPI or MPICH with its headers and libclang, and \
         build it with `cargo build --release --features mpi`",
    ))
}
