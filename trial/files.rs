//! Folders: what is in them, laying out scenes, removing them.
//!
//! Runs note where their store is, so a scene that is laid out elsewhere must be told, and files are compared
//! without the folder they are in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kymo::run::artifact::Checkpoint;

use crate::command::{Fault, Verdict};

/// Files by their paths in a folder.
type Files = BTreeMap<String, Vec<u8>>;

/// A folder with stores and runs that cases begin with.
pub struct Scene {
    from: PathBuf,
    /// Its files as they are in each folder it was laid out in.
    laid: Mutex<BTreeMap<PathBuf, Arc<Files>>>,
}

/// Everything below a folder by its path in it: the bytes of files, nothing for folders and links.
pub fn contents(folder: &Path) -> Verdict<Files> {
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

impl Scene {
    /// The scene in a folder, which is complete.
    pub fn new(from: &Path) -> Scene {
        Scene { from: from.into(), laid: Mutex::default() }
    }

    /// Lays it out in a folder.
    pub fn lay(&self, to: &Path) -> Verdict {
        let known = self.laid.lock().unwrap_or_else(PoisonError::into_inner).get(to).cloned();
        if let Some(files) = known {
            return write(&files, to);
        }
        write(&contents(&self.from)?, to)?;
        let (from, place) = (self.from.display().to_string(), to.display().to_string());
        for (name, bytes) in contents(to)? {
            let path = to.join(&name);
            if name.ends_with("settings.toml") {
                std::fs::write(path, String::from_utf8_lossy(&bytes).replace(&from, &place))?;
            } else if name.ends_with("checkpoint.safetensors") {
                let wrong = |error: kymo::Error| Fault::new("the trial itself failed", error.to_string());
                let mut checkpoint = Checkpoint::read(&path).map_err(wrong)?;
                let facts = checkpoint.facts.to_string().replace(&from, &place);
                checkpoint.facts = serde_json::from_str(&facts).unwrap_or_default();
                checkpoint.write(&path).map_err(wrong)?;
            }
        }
        let files = Arc::new(contents(to)?);
        self.laid.lock().unwrap_or_else(PoisonError::into_inner).insert(to.into(), files);
        Ok(())
    }
}

fn write(files: &Files, to: &Path) -> Verdict {
    std::fs::create_dir_all(to)?;
    for (name, bytes) in files {
        match name.strip_suffix('/') {
            Some(folder) => std::fs::create_dir_all(to.join(folder))?,
            None => std::fs::write(to.join(name), bytes)?,
        }
    }
    Ok(())
}

/// What a file says, wherever its folder is.
pub fn placeless(folder: &Path, name: &str, bytes: &[u8]) -> Vec<u8> {
    let place = folder.display().to_string();
    if name.ends_with("settings.toml") {
        return String::from_utf8_lossy(bytes).replace(&place, "").into_bytes();
    }
    if !name.ends_with("checkpoint.safetensors") {
        return bytes.to_vec();
    }
    let Ok(checkpoint) = Checkpoint::read(&folder.join(name)) else { return bytes.to_vec() };
    let mut said = checkpoint.facts.to_string().replace(&place, "").into_bytes();
    for (name, array) in checkpoint.arrays {
        said.extend(format!("{name} {:?}", array.shape).into_bytes());
        said.extend(array.values.iter().flat_map(|value| value.to_le_bytes()));
    }
    said
}

/// Removes a folder, whatever was done to its permissions.
pub fn remove(folder: &Path) {
    if std::fs::remove_dir_all(folder).is_err() && folder.exists() {
        let _ = std::process::Command::new("chmod").arg("-R").arg("u+rwx").arg(folder).status();
        let _ = std::fs::remove_dir_all(folder);
    }
}
