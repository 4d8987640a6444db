//! Files that are there whole or not at all: the one way in which Kymo replaces a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::lock::is_at;
use crate::place::{follow, parent};
use crate::rename::{rename_new, sync_folder};

/// Writes a file under a temporary name beside its final one, makes it durable and renames it.
///
/// The old file, if there is one, stays until the new one is complete. On failure nothing is left behind. A
/// link stays, and what it leads to is replaced. A pipe or a device cannot be replaced: it is written to.
///
/// ```
/// use std::io::Write;
///
/// let folder = std::env::temp_dir();
/// let path = folder.join(format!("kymo-write-whole-{}", std::process::id()));
/// kymo_files::write_whole(&path, |file| file.write_all(b"all of it"))?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_whole(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    write(path, fill, |from, to| fs::rename(from, to))
}

/// The same for a file that is not to replace another, not even one that came up meanwhile.
pub fn write_new(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    write(path, fill, rename_new)
}

fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    rename: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<()> {
    let failed = Error::on("cannot write", path);
    if is_stream(path) {
        // At the end of what is there, should it be a file that standard output was sent to.
        let write = || {
            let mut stream = BufWriter::new(OpenOptions::new().append(true).open(path)?);
            fill(&mut stream)?;
            stream.flush()
        };
        return write().map_err(failed);
    }
    let target = follow(path).map_err(&failed)?;
    let mut partial = target.clone().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut file = BufWriter::new(claim(&partial).map_err(&failed)?);
    let write = || {
        fill(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        rename(&partial, &target)
    };
    write().map_err(|error| {
        // The error worth reporting is the first one, not that the partial file could not be removed.
        let _ = fs::remove_file(&partial);
        failed(error)
    })?;
    sync_folder(parent(&target)).map_err(failed)
}

/// Opens a file to be written from its beginning, and locks it. Another process that writes it is waited for;
/// what a dead one left is taken over.
fn claim(partial: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(partial)?;
        match file.lock() {
            Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        // The process before has given it its final name by now, or has removed it.
        if is_at(&file, partial) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}

/// Whether a path leads to a pipe, a device or an open file of this process, such as /dev/stdout: nothing
/// that could be replaced.
pub fn is_stream(path: &Path) -> bool {
    let Ok(facts) = fs::metadata(path) else { return false };
    if !facts.is_file() {
        return !facts.is_dir();
    }
    // Standard output may well be a file; the way to it leads through these folders.
    let open = |path: &Path| path.starts_with("/proc") || path.starts_with("/dev/fd");
    let (mut at, mut links) = (path.to_path_buf(), 0);
    while !open(&at) && links < 40 {
        let Ok(next) = fs::read_link(&at) else { return false };
        at = parent(&at).join(next);
        links += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = (fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_whole(&path, |file| file.write_all(b"old")).unwrap();
        let failed = write_whole(&path, |file| {
            file.write_all(b"new")?;
            Err(io::Error::other("the disk is full"))
        });
        let expected = format!("cannot write {}: the disk is full", path.display());
        assert_eq!(failed.unwrap_err().to_string(), expected);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write_whole(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_place_that_cannot_be_written_keeps_no_partial_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write_whole(&folder.path().join("none/file"), |_| Ok(())).is_err());
        // A folder in the place of the file: only the rename fails.
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join("inside"), "").unwrap();
        let error = write_whole(&taken, |file| file.write_all(b"new")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write {}", taken.display())), "{error}");
        assert_eq!(names(folder.path()), ["taken"]);
        assert!(taken.join("inside").exists());
    }

    /// A file that comes up while the new one is written is not replaced unasked.
    #[test]
    fn a_new_file_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let late = write_new(&path, |file| {
            fs::write(&path, "first")?;
            file.write_all(b"second")
        });
        assert_eq!(late.unwrap_err().source.kind(), ErrorKind::AlreadyExists);
        assert_eq!(
            (fs::read(&path).unwrap(), names(folder.path())),
            (b"first".to_vec(), vec!["file".into()])
        );
        fs::remove_file(&path).unwrap();
        write_new(&path, |file| file.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
    }

    #[test]
    fn what_a_dead_process_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(folder.path().join("file.partial"), "longer than what comes now").unwrap();
        write_whole(&path, |file| file.write_all(b"whole")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn writers_of_one_file_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        write_whole(path, |file| {
                            // Past the buffer, so that pieces of it reach the file one after the other.
                            (0..40).try_for_each(|_| file.write_all(&[writer; 1000]))
                        })
                        .unwrap();
                        let found = fs::read(path).unwrap();
                        assert_eq!(found.len(), 40_000);
                        assert!(found.iter().all(|&byte| byte == found[0]), "pieces of two writers");
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_what_they_lead_to_is_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("real")).unwrap();
        for (name, target) in [("link", "real/there"), ("dangling", "real/new")] {
            let link = folder.path().join(name);
            symlink(target, &link).unwrap();
            write_whole(&link, |file| file.write_all(name.as_bytes())).unwrap();
            assert!(link.is_symlink());
            assert_eq!(fs::read_to_string(folder.path().join(target)).unwrap(), name);
        }
        assert_eq!(names(folder.path()), ["dangling", "link", "real"]);
    }

    /// Standard output that goes to a file is that file, opened: what follows must not be lost.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_file_is_written_to_and_not_replaced() {
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut out = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        out.write_all(b"before\n").unwrap();
        let open = PathBuf::from(format!("/proc/self/fd/{}", out.as_raw_fd()));
        let link = folder.path().join("stdout");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        for way in [&open, &link] {
            assert!(is_stream(way) && !is_stream(&path));
            write_whole(way, |file| file.write_all(b"table\n")).unwrap();
        }
        out.write_all(b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\ntable\ntable\nafter\n");
    }
}
