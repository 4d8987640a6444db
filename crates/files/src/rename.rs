//! Renaming: without replacing anything, or two names at once.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Gives `from` the name `to`, which must be free: a plain rename would replace a file or an empty folder.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match flagged(from, to, Flag::NoReplace) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            if to.symlink_metadata().is_ok() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        answer => answer,
    }
}

/// Exchanges two names in one instant; `Unsupported` where the system cannot.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    flagged(one, other, Flag::Exchange)
}

enum Flag {
    NoReplace,
    Exchange,
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn flagged(from: &Path, to: &Path, flag: Flag) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let flags = match flag {
        Flag::NoReplace => RenameFlags::NOREPLACE,
        Flag::Exchange => RenameFlags::EXCHANGE,
    };
    renameat_with(CWD, from, CWD, to, flags).map_err(|error| match error {
        // What file systems answer that do not know the flag, such as NFS.
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP => ErrorKind::Unsupported.into(),
        error => error.into(),
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn flagged(_: &Path, _: &Path, _: Flag) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Makes the names in a folder durable: without this a power failure can undo a rename. Only Unix can open a
/// folder to do so.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
