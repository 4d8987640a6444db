//! Files that appear whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Writes a file under a temporary name beside its final one, makes it durable and renames it.
///
/// Whatever was at `path` is there until the new file is complete. On failure nothing is left behind.
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
        // The half-written file is of no use to anybody; that it could not be removed is not the news.
        let _ = std::fs::remove_file(&partial);
        Error::resource("cannot write", path)(error)
    })?;
    sync_folder(path)
}

/// Makes the name of a file durable, where the system can: a rename is lost with the power otherwise.
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
        assert_eq!(
            failed.unwrap_err().to_string(),
            format!("cannot write {}: the disk is full", path.display())
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        write_whole(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_whole(&folder.path().join("none/file"), |_| Ok(())).is_err());
    }
}
