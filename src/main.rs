//! The command: parse, dispatch, print the error, set the exit code.

use std::process::ExitCode;

use clap::Parser;
use kymo::cli::Command;

fn main() -> ExitCode {
    let command = Command::parse();
    match command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("error: {error}");
            }
            ExitCode::from(error.class().exit_code())
        }
    }
}
