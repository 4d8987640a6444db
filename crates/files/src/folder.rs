//! A folder that appears whole, in place of another one or of nothing.
//!
//! The folder NAME is written as `.NAME.partial` beside it, under the lock `.NAME.lock`. When it is complete,
//! the two names are exchanged in one instant, and what was replaced is removed. Where the system cannot
//! exchange names, the old folder steps aside as `.NAME.old`; should the writer die before the new one is in
//! place, the next writer or reader puts the old one back. So whatever ends a writer, and whenever, there is
//! the old folder or the new one, and nothing that blocks the next writer.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::lock::Lock;
use crate::place::{follow, hidden, parent, resolve};
use crate::rename::{exchange, rename_new, sync_folder};

/// A folder that is being written. What is not finished disappears with it.
#[derive(Debug)]
pub struct NewFolder {
    path: PathBuf,
    partial: PathBuf,
    old: PathBuf,
    // Last: it is given up when all else has been put in order.
    _lock: Lock,
}

impl NewFolder {
    /// Begins a folder that is to be at `path`; a link there is followed. Fails while another process writes
    /// one. What a dead process left is removed, or put back where it was about to be replaced, if it is
    /// `ours`.
    pub fn begin(path: &Path, ours: impl Fn(&Path) -> bool) -> Result<NewFolder> {
        let failed = Error::on("cannot write", path);
        let path = follow(path).map_err(&failed)?;
        let beside =
            |ending| hidden(&path, ending).ok_or(io::Error::new(ErrorKind::InvalidInput, "is no name"));
        let (partial, old) = (beside("partial").map_err(&failed)?, beside("old").map_err(&failed)?);
        let lock = beside("lock").map_err(&failed)?;
        let folder = parent(&path);
        fs::create_dir_all(folder).map_err(Error::on("cannot create", folder))?;
        let lock = Lock::take(&lock, &path)?;
        remove(&partial)?;
        put_back(&path, &old, &ours)?;
        if ours(&old) {
            // Under a name that is removed in any state: half of a folder would be nobody's.
            rename_new(&old, &partial).map_err(Error::on("cannot remove", &old))?;
            remove(&partial)?;
        }
        fs::create_dir(&partial).map_err(Error::on("cannot create", &partial))?;
        Ok(NewFolder { path, partial, old, _lock: lock })
    }

    /// Where to write.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Gives the folder its name. A folder that is there is replaced where `replace` is set; otherwise the
    /// error is `AlreadyExists`.
    pub fn finish(self, replace: bool) -> Result<()> {
        self.publish(replace, exchange, &mut || Ok(()))
    }

    /// `step` comes after every change of a name, so that a test can end the writer there.
    fn publish(
        &self,
        replace: bool,
        exchange: impl Fn(&Path, &Path) -> io::Result<()>,
        step: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<()> {
        let NewFolder { path, partial, old, .. } = self;
        let failed = Error::on("cannot write", path);
        sync_folder(partial).map_err(&failed)?;
        if !(replace && path.exists()) {
            rename_new(partial, path).map_err(&failed)?;
        } else if let Err(error) = exchange(partial, path) {
            if error.kind() != ErrorKind::Unsupported {
                return Err(failed(error));
            }
            rename_new(path, old).map_err(Error::on("cannot make room at", old))?;
            step().map_err(&failed)?;
            rename_new(partial, path).map_err(|error| {
                // If this fails as well, the next writer or reader does it.
                let _ = rename_new(old, path);
                failed(error)
            })?;
            step().map_err(&failed)?;
            // As in `begin`.
            rename_new(old, partial).map_err(Error::on("cannot remove", old))?;
        }
        step().map_err(&failed)?;
        sync_folder(parent(path)).map_err(&failed)
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // What was not finished, or what was replaced. A failure here cannot be reported; the next writer
        // removes what stays behind.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

/// Keeps other writers out of the folder at `path`, for one that changes it where it is.
pub fn lock(path: &Path) -> Result<Lock> {
    let failed = Error::on("cannot lock", path);
    let resolved = resolve(path).map_err(&failed)?;
    let file = hidden(&resolved, "lock").ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
    Lock::take(&file, path)
}

/// Puts a folder back that a dead writer had moved aside, where nothing is at `path`. For readers: while a
/// writer is alive nothing happens.
pub fn restore(path: &Path, ours: impl Fn(&Path) -> bool) -> Result<()> {
    let (Some(old), Some(lock)) = (hidden(path, "old"), hidden(path, "lock")) else { return Ok(()) };
    if path.symlink_metadata().is_ok() || !ours(&old) {
        return Ok(());
    }
    match Lock::take(&lock, path) {
        Ok(_lock) => put_back(path, &old, &ours),
        Err(error) if error.source.kind() == ErrorKind::ResourceBusy => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes what a dead writer left beside a folder, should there be anything. While a writer is alive nothing
/// happens.
pub fn clear(path: &Path) -> Result<()> {
    let [Some(partial), Some(lock)] = ["partial", "lock"].map(|ending| hidden(path, ending)) else {
        return Ok(());
    };
    if !partial.exists() && !lock.exists() {
        return Ok(());
    }
    match Lock::take(&lock, path) {
        Ok(_lock) => remove(&partial),
        Err(error) if error.source.kind() == ErrorKind::ResourceBusy => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a folder, should there be one.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::on("cannot remove", folder)(error)),
        _ => Ok(()),
    }
}

fn put_back(path: &Path, old: &Path, ours: &impl Fn(&Path) -> bool) -> Result<()> {
    if path.symlink_metadata().is_ok() || !ours(old) {
        return Ok(());
    }
    rename_new(old, path).map_err(Error::on("cannot put back", old))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange on a file system that cannot.
    fn none(_: &Path, _: &Path) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn ours(folder: &Path) -> bool {
        folder.join("content").is_file()
    }

    fn begin(path: &Path) -> NewFolder {
        let folder = NewFolder::begin(path, ours).unwrap();
        fs::write(folder.partial().join("scratch"), "").unwrap();
        folder
    }

    /// Ends a folder as the death of its process would.
    fn die(folder: NewFolder) {
        let mut folder = std::mem::ManuallyDrop::new(folder);
        folder._lock.abandon();
    }

    fn content(path: &Path) -> Option<String> {
        fs::read_to_string(path.join("content")).ok()
    }

    fn make(path: &Path, content: &str, replace: bool) -> Result<()> {
        let folder = begin(path);
        fs::write(folder.partial().join("content"), content).unwrap();
        folder.finish(replace)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_folder_appears_whole_and_leaves_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new/name");
        make(&path, "first", false).unwrap();
        assert_eq!(make(&path, "second", false).unwrap_err().source.kind(), ErrorKind::AlreadyExists);
        assert_eq!(content(&path).unwrap(), "first");
        make(&path, "third", true).unwrap();
        assert_eq!(
            (content(&path).unwrap(), names(path.parent().unwrap())),
            ("third".into(), vec!["name".into()])
        );
        drop(begin(&path));
        assert_eq!(names(path.parent().unwrap()), ["name"]);
        // Not even an empty folder that came up meanwhile is replaced unasked.
        let late = place.path().join("late");
        let folder = begin(&late);
        fs::create_dir(&late).unwrap();
        assert_eq!(folder.finish(false).unwrap_err().source.kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn one_writer_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("name");
        let first = begin(&path);
        let error = NewFolder::begin(&path, ours).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::ResourceBusy, "{error}");
        assert!(first.partial().join("scratch").exists(), "the one who came later touched the first");
        drop(first);
        make(&path, "old", false).unwrap();
        let changing = lock(&path).unwrap();
        let error = NewFolder::begin(&path, ours).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::ResourceBusy, "{error}");
        assert!(!path.join("lock").exists() && place.path().join(".name.lock").exists());
        drop(changing);
        begin(&path);
        assert_eq!(names(place.path()), ["name"]);
    }

    /// Whenever a writer dies, with either way of replacing, there is the old folder or the new one for the
    /// next reader, and the next writer gets through.
    #[test]
    fn a_writer_may_die_after_any_step() {
        for can_exchange in [true, false] {
            for replace in [false, true] {
                for last in 0.. {
                    let place = tempfile::tempdir().unwrap();
                    let path = place.path().join("name");
                    if replace {
                        make(&path, "old", false).unwrap();
                    }
                    let folder = begin(&path);
                    fs::write(folder.partial().join("content"), "new").unwrap();
                    let mut steps = 0;
                    let mut step = || {
                        steps += 1;
                        if steps == last { Err(io::Error::other("dead")) } else { Ok(()) }
                    };
                    let how = if can_exchange { exchange } else { none };
                    // The 0th time it dies before anything is published.
                    let ended = last > 0 && folder.publish(replace, how, &mut step).is_ok();
                    die(folder);
                    restore(&path, ours).unwrap();
                    let found = content(&path);
                    let before = replace.then_some("old");
                    assert!(
                        [before, Some("new")].contains(&found.as_deref()),
                        "{can_exchange} {replace} {last}: {found:?}"
                    );
                    make(&path, "next", true).unwrap();
                    assert_eq!(content(&path).unwrap(), "next");
                    assert_eq!(names(place.path()), ["name"], "{can_exchange} {replace} {last}");
                    if ended {
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn readers_put_back_what_a_dead_writer_moved_aside_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("name");
        let old = place.path().join(".name.old");
        fs::create_dir(&old).unwrap();
        restore(&path, ours).unwrap();
        assert!(old.exists() && !path.exists(), "a folder of somebody else");
        fs::write(old.join("content"), "old").unwrap();
        let writer = Lock::take(&place.path().join(".name.lock"), &path).unwrap();
        restore(&path, ours).unwrap();
        assert!(old.exists() && !path.exists(), "its writer lives");
        drop(writer);
        restore(&path, ours).unwrap();
        assert_eq!((content(&path).unwrap(), names(place.path())), ("old".into(), vec!["name".into()]));
    }

    /// Where names cannot be exchanged, a folder of somebody else is not run over.
    #[test]
    fn a_foreign_folder_in_the_way_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("name");
        make(&path, "old", false).unwrap();
        let foreign = place.path().join(".name.old");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("mine"), "").unwrap();
        let folder = begin(&path);
        fs::write(folder.partial().join("content"), "new").unwrap();
        assert!(folder.publish(true, none, &mut || Ok(())).is_err());
        drop(folder);
        assert_eq!(content(&path).unwrap(), "old");
        make(&path, "new", true).unwrap();
        assert_eq!((content(&path).unwrap(), foreign.join("mine").exists()), ("new".into(), true));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_the_folder_it_leads_to_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().join("real");
        make(&real, "old", false).unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        let first = begin(&link);
        assert!(NewFolder::begin(&real, ours).is_err(), "one folder, one lock");
        drop(first);
        make(&link, "new", true).unwrap();
        assert_eq!(content(&real).unwrap(), "new");
        assert!(link.is_symlink());
    }
}
