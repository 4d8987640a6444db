//! The command: everything is in [`kymo::cli`].

use std::process::ExitCode;

mod allocator;

fn main() -> ExitCode {
    allocator::return_large_arrays();
    allocator::watch_aborts();
    ExitCode::from(kymo::cli::process::main())
}
