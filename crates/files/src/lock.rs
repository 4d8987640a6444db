//! A lock that ends with its process: an advisory lock on a file that names who holds it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A lock that this process holds. The system gives it up when the process ends, whatever ends it; the file
/// that a dead process leaves is taken over by the next one.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: Option<File>,
}

impl Lock {
    /// Locks the file at `path`, which is made where it is missing and removed when the lock is given up.
    /// Fails at once while another process has it; `subject` is what that process is at work on.
    pub fn take(path: &Path, subject: &Path) -> Result<Lock> {
        loop {
            let failed = Error::on("cannot lock", path);
            let (mut file, new) = open(path).map_err(&failed)?;
            let holder = holder(file.try_lock(), new).map_err(&failed)?;
            if holder != Holder::Here {
                return Err(Error::on("cannot write", subject)(busy(&mut file, &holder, path)));
            }
            // The holder before may have removed the file after it was opened here: then the lock is on a
            // file that nobody else will find.
            if is_at(&file, path) {
                let note = format!("process {} on {}", std::process::id(), host());
                let write = |file: &mut File| {
                    file.set_len(0)?;
                    file.rewind()?;
                    file.write_all(note.as_bytes())
                };
                write(&mut file).map_err(failed)?;
                return Ok(Lock { path: path.to_path_buf(), file: Some(file) });
            }
        }
    }

    /// Ends the lock as the death of the process would: its file stays.
    #[cfg(test)]
    pub(crate) fn abandon(&mut self) {
        self.file = None;
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only the file that is locked: the folder may have been moved, and another one be in its place.
        if self.file.as_ref().is_some_and(|file| is_at(file, &self.path)) {
            // While it is still locked. What cannot be removed is taken over by the next process.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens the file, and says whether it is a new one.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Another process may have removed it in between.
            options.create(true).truncate(false).open(path).map(|file| (file, false))
        }
        Err(error) => Err(error),
    }
}

/// Who holds a lock.
#[derive(Debug, PartialEq)]
enum Holder {
    Here,
    Elsewhere,
    /// There is no telling whether the process that has it is still there.
    Unknown,
}

/// Reads the answer of the system for a file that was there before or is `new`. Where the file system has no
/// locks, the process that made the file holds it.
fn holder(answer: Result<(), TryLockError>, new: bool) -> io::Result<Holder> {
    match answer {
        Ok(()) => Ok(Holder::Here),
        Err(TryLockError::WouldBlock) => Ok(Holder::Elsewhere),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
            Ok(if new { Holder::Here } else { Holder::Unknown })
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Says who holds the lock on a file, and what to do about it.
fn busy(file: &mut File, holder: &Holder, path: &Path) -> io::Error {
    let mut note = String::new();
    // A process that has just taken it may not have written its name yet.
    let named = file.read_to_string(&mut note).is_ok() && !note.is_empty();
    let who = if named { &note } else { "another process" };
    let elsewhere = named && !note.ends_with(&format!(" on {}", host()));
    let advice = match holder {
        Holder::Unknown => format!("wait for it to end; if it has ended, remove {}", path.display()),
        // A file server keeps the locks of a machine that has disappeared for a while.
        _ if elsewhere => "wait for it to end, or end it there; if that machine is gone, try again when \
                           the file server has let go of its locks, usually after a minute or two"
            .into(),
        _ => "wait for it to end, or end it".into(),
    };
    io::Error::new(ErrorKind::ResourceBusy, format!("{who} is writing there; {advice}"))
}

/// The name of this machine.
fn host() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this machine".into());
    name
}

/// Whether a path leads to this very file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    let same = {
        use std::os::unix::fs::MetadataExt;
        let id = |facts: io::Result<fs::Metadata>| facts.map(|facts| (facts.dev(), facts.ino())).ok();
        id(file.metadata()).is_some_and(|opened| id(fs::metadata(path)) == Some(opened))
    };
    // Elsewhere a file cannot be asked who it is: an open file keeps its name for as long.
    #[cfg(not(unix))]
    let same = file.metadata().is_ok() && path.exists();
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_keeps_others_out_and_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take(&path, folder.path()).unwrap();
        let error = Lock::take(&path, Path::new("run")).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::ResourceBusy);
        let who = format!("cannot write run: process {} on {} is writing there", std::process::id(), host());
        assert!(error.to_string().starts_with(&who), "{error}");
        drop(lock);
        assert!(!path.exists(), "a lock that was given up leaves no file");
        Lock::take(&path, folder.path()).unwrap();
    }

    #[test]
    fn what_a_dead_process_left_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "process 1 on a machine with a long name that is gone").unwrap();
        let lock = Lock::take(&path, folder.path()).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with(&host()), "nothing of the old note is left");
        assert!(Lock::take(&path, folder.path()).is_err());
        drop(lock);
        assert!(!path.exists());
    }

    /// Whose machine may have disappeared cannot be known from here: the message says how long it may take.
    #[test]
    fn a_holder_on_another_machine_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _lock = Lock::take(&path, folder.path()).unwrap();
        let here = Lock::take(&path, Path::new("run")).unwrap_err().to_string();
        assert!(here.ends_with("wait for it to end, or end it"), "{here}");
        fs::write(&path, format!("process 7 on not-{}", host())).unwrap();
        let there = Lock::take(&path, Path::new("run")).unwrap_err().to_string();
        assert!(there.contains("if that machine is gone, try again"), "{there}");
    }

    /// A lock on a file that was removed meanwhile keeps nobody out: it must be taken again.
    #[test]
    fn many_threads_never_hold_one_lock_together() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (inside, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while taken.load(Ordering::SeqCst) < 300 {
                        if let Ok(lock) = Lock::take(&path, folder.path()) {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
                            taken.fetch_add(1, Ordering::SeqCst);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
    }

    /// The folder may be moved away while it is locked, and another process lock the one that follows.
    #[test]
    fn only_the_own_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path, folder.path()).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        let second = Lock::take(&path, folder.path()).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn without_locks_the_file_itself_is_one() {
        let none = || Err(TryLockError::Error(ErrorKind::Unsupported.into()));
        assert_eq!(holder(none(), true).unwrap(), Holder::Here);
        assert_eq!(holder(none(), false).unwrap(), Holder::Unknown);
        assert!(holder(Err(TryLockError::Error(ErrorKind::PermissionDenied.into())), true).is_err());
    }
}
