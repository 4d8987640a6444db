//! Where this program keeps what saves time later and decides nothing: compiled kernels, costs of this
//! machine.

use std::path::PathBuf;

/// The user's cache folder for this program: `$XDG_CACHE_HOME/kymo`, or `~/.cache/kymo`. Paths that are not
/// absolute do not count, as the rule for those variables has it.
pub fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("kymo"))
}
