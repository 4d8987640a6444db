//! The command: everything is in [`kymo::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(kymo::cli::process::main())
}
