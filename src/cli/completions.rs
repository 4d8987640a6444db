//! `kymo completions`: what shells need to complete options and verbs.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use kymo_run::Result;

use super::console::Console;
use super::{Command, cannot_print};

/// Print completions for a shell
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  kymo completions bash > ~/.local/share/bash-completion/completions/kymo\n  \
                  kymo completions zsh > ~/.zfunc/_kymo\n  \
                  kymo completions fish > ~/.config/fish/completions/kymo.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Completions, out: &mut Console) -> Result<()> {
    // The generator takes a failing writer for a bug: it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Command::command(), "kymo", &mut script);
    Ok(out.write_all(&script).map_err(cannot_print)?)
}
