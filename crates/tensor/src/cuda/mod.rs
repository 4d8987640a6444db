//! The door to NVIDIA GPUs: everything that knows CUDA is in this folder, and in the `.cu` files beside the
//! operations.
//!
//! `Driver` is what the cargo feature `cuda` opens: two dozen calls, found in libraries when the program
//! runs, so that it is built where there is no CUDA. Without the feature there is no value of that type, and
//! everything above it is compiled and checked all the same. Above it are memory that is used again
//! (`memory`), kernels that are compiled when they are first needed ([`kernels`]), and a [`Device`] that
//! operations speak to.
//!
//! All work goes to one stream, in order: memory that is given back may be used again at once.

pub(crate) mod call;
mod device;
#[cfg_attr(feature = "cuda", path = "enabled.rs")]
#[cfg_attr(not(feature = "cuda"), path = "disabled.rs")]
mod driver;
pub mod kernels;
pub(crate) mod lines;
mod measure;
mod memory;
mod resident;
pub(crate) mod tape;
pub(crate) mod transpose;

pub use call::{Back, Call, Slice, Sum, View};
pub(crate) use device::{Argument, Launch};
pub use device::{Device, Facts, Options, Precision};
pub use kernels::Source;
pub use measure::{Measured, measure, product_error};
pub use memory::Memory;
pub(crate) use memory::room;
pub use resident::Resident;

/// What of CUDA is found on this machine: each library, and whether it is there.
pub fn libraries() -> Vec<(&'static str, bool)> {
    driver::libraries()
}

/// GPUs that can be opened; none where the driver is missing.
pub fn count() -> usize {
    driver::count()
}
