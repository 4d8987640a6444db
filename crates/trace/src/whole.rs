//! Files that are there whole or not at all: the one way in which Kymo replaces a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Writes a file under a temporary name beside its final one, makes it durable and renames it.
///
/// The old file, if there is one, stays until the new one is complete. On failure nothing is left behind.
///
/// ```
/// use std::io::Write;
///
/// let folder = std::env::temp_dir();
/// let path = folder.join(format!("kymo-write-whole-{}", std::process::id()));
/// kymo_trace::write_whole(&path, |file| file.write_all(b"all of it"))?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let write = || {
        let mut file = BufWriter::new(File::create(&partial)?);
        fill(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        std::fs::rename(&partial, path)
    };
    write().map_err(|error| {
        // The error worth reporting is the first one, not that the partial file could not be removed.
        let _ = std::fs::remove_file(&partial);
        Error::resource("cannot write", path)(error)
    })?;
    sync_folder(path)
}

/// Makes the name of a file durable: without this a power failure can undo the rename. Only Unix can open a
/// folder to do so.
fn sync_folder(path: &Path) -> Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let sync = || File::open(folder)?.sync_all();
        sync().map_err(Error::resource("cannot write", folder))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_whole(&path, |file| file.write_all(b"old")).unwrap();
        let failed = write_whole(&path, |file| {
            file.write_all(b"new")?;
            Err(std::io::Error::other("the disk is full"))
        });
        let expected = format!("cannot write {}: the disk is full", path.display());
        assert_eq!(failed.unwrap_err().to_string(), expected);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        write_whole(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_keeps_no_partial_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write_whole(&folder.path().join("none/file"), |_| Ok(())).is_err());
        // A folder in the place of the file: only the rename fails.
        let taken = folder.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        std::fs::write(taken.join("inside"), "").unwrap();
        let error = write_whole(&taken, |file| file.write_all(b"new")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write {}", taken.display())), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(taken.join("inside").exists());
    }
}
