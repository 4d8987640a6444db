//! Files that are there whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Writes a file under another name and gives it its own when it is finished. A file that was there is replaced.
pub(crate) fn write(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let write = || {
        let mut out = BufWriter::new(File::create(&partial)?);
        content(&mut out)?;
        out.flush()?;
        out.get_ref().sync_data()?;
        std::fs::rename(&partial, path)
    };
    write().map_err(|error| {
        // The half-written file is of no use to anybody; that it could not be removed is not the news.
        let _ = std::fs::remove_file(&partial);
        Error::resource("cannot write", path)(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, |out| out.write_all(b"old")).unwrap();
        let failed = write(&path, |out| {
            out.write_all(b"new")?;
            Err(std::io::Error::other("full"))
        });
        assert!(failed.unwrap_err().to_string().ends_with("file: full"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
