//! The folder in which programs keep files of a user that they can make again.

use std::path::PathBuf;

use crate::trust;

/// The user's cache: `$XDG_CACHE_HOME`, else the system's usual place below the home folder. `None` where there is
/// none, and where another user could write to embedctl's part of it: files there decide vectors, or are run.
#[must_use]
pub fn user_cache() -> Option<PathBuf> {
    let folder = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| trust::doubt(&path.join("embedctl")).is_none())
    };
    if let Some(cache) = folder("XDG_CACHE_HOME") {
        return Some(cache);
    }
    if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else if cfg!(target_vendor = "apple") {
        folder("HOME").map(|home| home.join("Library/Caches"))
    } else {
        folder("HOME").map(|home| home.join(".cache"))
    }
}
