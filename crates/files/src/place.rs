//! What a path leads to: links, `..`, and the folders that Kymo itself makes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

/// The file that makes a folder a store.
pub const MANIFEST: &str = "manifest.json";
/// What the manifest of a store calls its format.
pub const STORE_FORMAT: &str = "kymo-store";
/// The file that a run goes on from.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// The settings of a run.
pub const SETTINGS: &str = "settings.toml";

/// Whether a folder is a store. Other programs have files called `manifest.json`, too, so its beginning
/// counts.
pub fn is_store(folder: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(folder.join(MANIFEST)).and_then(|file| file.take(200).read_to_end(&mut head));
    read.is_ok() && String::from_utf8_lossy(&head).contains(&format!("\"{STORE_FORMAT}\""))
}

/// Whether a folder is that of a run.
pub fn is_run(folder: &Path) -> bool {
    folder.join(CHECKPOINT).is_file() && folder.join(SETTINGS).is_file()
}

/// The innermost of the folders that a path leads to or lies in of which this is so.
pub fn enclosing(path: &Path, is: impl Fn(&Path) -> bool) -> io::Result<Option<PathBuf>> {
    Ok(resolve(path)?.ancestors().find(|folder| is(folder)).map(Path::to_path_buf))
}

/// Where a path leads: absolute, without links and `..`. The end of it need not be there yet.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !path.as_os_str().is_empty() => {}
        answer => return answer,
    }
    if let Ok(target) = fs::read_link(path) {
        return resolve(&parent(path).join(target));
    }
    let mut resolved = resolve(parent(path))?;
    match path.file_name() {
        Some(name) => resolved.push(name),
        // The path ends in `..`, behind a folder that is not there.
        None => drop(resolved.pop()),
    }
    Ok(resolved)
}

/// The way from a folder to a path, both resolved: it stays the same where both are moved together.
pub fn way(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

/// The path that a link leads to, so that what is there is replaced and the link stays; any other path as it
/// is.
pub fn follow(path: &Path) -> io::Result<PathBuf> {
    if path.is_symlink() { resolve(path) } else { Ok(path.to_path_buf()) }
}

/// The folder that a path is in.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path `.NAME.ENDING` beside a path with this name; `None` where the path has no name.
pub(crate) fn hidden(path: &Path, ending: &str) -> Option<PathBuf> {
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(".");
    name.push(ending);
    Some(parent(path).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_from_folders_to_paths() {
        for (from, to, expected) in [
            ("/a/run", "/a/store", "../store"),
            ("/a/run", "/a/run/data", "data"),
            ("/a/runs/first", "/b/store", "../../../b/store"),
            ("/", "/store", "store"),
        ] {
            let made = way(Path::new(from), Path::new(to));
            assert_eq!(made, Path::new(expected), "{from} {to}");
        }
    }

    #[test]
    fn only_what_kymo_writes_is_a_store_or_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(!is_store(path) && !is_run(path));
        fs::write(path.join(MANIFEST), "{\"name\": \"a page in a browser\"}").unwrap();
        fs::write(path.join(SETTINGS), "").unwrap();
        assert!(!is_store(path) && !is_run(path));
        fs::write(path.join(MANIFEST), "{\n  \"format\": \"kymo-store\",\n").unwrap();
        fs::write(path.join(CHECKPOINT), "").unwrap();
        assert!(is_store(path) && is_run(path));
        let inside = path.join("a/b/../c/../../d");
        assert_eq!(enclosing(&inside, is_store).unwrap(), Some(path.canonicalize().unwrap()));
        assert_eq!(enclosing(&path.join("../x"), is_store).unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_also_where_they_lead_nowhere_yet() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("real/inner")).unwrap();
        symlink("real/inner", path.join("link")).unwrap();
        symlink("link/new", path.join("second")).unwrap();
        symlink("itself", path.join("itself")).unwrap();
        for (given, expected) in [
            ("link", "real/inner"),
            ("link/..", "real"),
            ("link/../new", "real/new"),
            ("second", "real/inner/new"),
            ("second/deeper", "real/inner/new/deeper"),
            ("none/../real", "real"),
            ("none/..", ""),
        ] {
            assert_eq!(resolve(&path.join(given)).unwrap(), path.join(expected), "{given}");
        }
        assert!(resolve(&path.join("itself")).is_err());
        assert!(resolve(Path::new("")).is_err());
        assert_eq!(
            follow(&path.join("link/../real")).unwrap(),
            path.join("link/../real"),
            "no link at its end"
        );
    }
}
