//! Folders: what is in them, copying and removing them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::command::Verdict;

/// Everything below a folder by its path in it: the bytes of files, nothing for folders and links.
pub fn contents(folder: &Path) -> Verdict<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let inner = contents(&entry.path())?;
            found.insert(format!("{name}/"), Vec::new());
            found.extend(inner.into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            found.insert(name, if kind.is_file() { std::fs::read(entry.path())? } else { Vec::new() });
        }
    }
    Ok(found)
}

/// Copies what is in a folder into another one.
pub fn copy(from: &Path, to: &Path) -> Verdict {
    std::fs::create_dir_all(to)?;
    for (name, bytes) in contents(from)? {
        match name.strip_suffix('/') {
            Some(folder) => std::fs::create_dir_all(to.join(folder))?,
            None => std::fs::write(to.join(name), bytes)?,
        }
    }
    Ok(())
}

/// Removes a folder, whatever was done to its permissions.
pub fn remove(folder: &Path) {
    if std::fs::remove_dir_all(folder).is_err() {
        let _ = std::process::Command::new("chmod").arg("-R").arg("u+rwx").arg(folder).status();
        let _ = std::fs::remove_dir_all(folder);
    }
}
