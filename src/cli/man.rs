//! `kymo man`: the help as manual pages.

use std::fs::{File, create_dir_all};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_mangen::Man as Page;
use kymo_run::{Error, Result};

use super::console::Console;
use super::numbers::plural;
use super::{Command, cannot_print};

/// Print the manual page, or write one for each verb
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kymo man | man -l -\n  kymo man ~/.local/share/man/man1")]
pub struct Man {
    /// The folder to write kymo.1, kymo-train.1 and so on to; without it, kymo.1 is printed
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Replace pages that are there already
    #[arg(long, requires = "folder")]
    overwrite: bool,
}

/// Prints the page, or writes all of them.
pub fn run(args: &Man, out: &mut Console) -> Result<()> {
    let mut command = Command::command();
    command.build();
    let Some(folder) = &args.folder else {
        return Ok(out.write_all(&rendered(command).map_err(cannot_print)?).map_err(cannot_print)?);
    };
    let verbs: Vec<clap::Command> = command.get_subcommands().cloned().collect();
    let page = |command: clap::Command| {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        (folder.join(format!("{name}.1")), command)
    };
    let pages: Vec<(PathBuf, clap::Command)> = std::iter::once(command).chain(verbs).map(page).collect();
    let there = pages.iter().find(|(path, _)| path.exists()).filter(|_| !args.overwrite);
    if let Some((path, _)) = there {
        let problem = format!("{} is there already; --overwrite replaces it", path.display());
        return Err(Error::settings("DIR", problem));
    }
    create_dir_all(folder).map_err(Error::resource("cannot create", folder))?;
    let count = pages.len() as u64;
    for (path, command) in pages {
        let write = |path: &Path| File::create(path)?.write_all(&rendered(command)?);
        write(&path).map_err(Error::resource("cannot write", &path))?;
    }
    if out.quiet {
        return Ok(());
    }
    let what = plural(count, ["page", "pages"]);
    Ok(writeln!(out, "{what} in {}", folder.display()).map_err(cannot_print)?)
}

fn rendered(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Page::new(command).render(&mut page)?;
    Ok(page)
}
