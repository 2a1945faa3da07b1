//! Hidden names beside a file's own: recognizable, and of one process alone.

use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use crate::hash::Hash;

/// A part of all hidden names.
const MARK: &str = ".embedctl-";

/// How much of the final name a hidden name repeats; names end at 255 bytes on most systems.
const NAME_BYTES: usize = 100;

/// A path of its own beside `path`: `.NAME.embedctl-PID-RANDOM` and `ending`.
#[must_use]
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let prefix = prefix(path.file_name().unwrap_or_default());
    let pid = std::process::id();
    path.with_file_name(format!("{prefix}{pid}-{:016x}{ending}", random()))
}

/// Whether a path is of a file that is being written, or was left by a killed process.
#[must_use]
pub fn is_hidden(path: &str) -> bool {
    path.contains(MARK)
}

/// `path` with `ending` after it: `out.npy` and `.json` make `out.npy.json`.
#[must_use]
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether `name` is `PREFIX` with `PID-RANDOM.tmp` behind it.
pub(super) fn is_temporary(name: &OsStr, prefix: &str) -> bool {
    let own = || {
        let rest = name.to_str()?.strip_prefix(prefix)?;
        let (pid, random) = rest.strip_suffix(".tmp")?.split_once('-')?;
        let digits = pid.bytes().all(|byte| byte.is_ascii_digit());
        let hex = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(digits && hex && !pid.is_empty())
    };
    own() == Some(true)
}

/// A random number.
#[must_use]
pub fn random() -> u64 {
    // A hasher's keys are the standard library's one source of them.
    RandomState::new().build_hasher().finish()
}

/// `.NAME.embedctl-`: the beginning of all hidden names of a file.
pub(super) fn prefix(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    if text.len() <= NAME_BYTES && name.to_str().is_some() {
        return format!(".{text}{MARK}");
    }
    // Names that begin alike must not be taken for each other.
    let mut hash = Hash::default();
    hash.add(name.as_encoded_bytes());
    let end = text.floor_char_boundary(NAME_BYTES);
    format!(".{}~{}{MARK}", &text[..end], &hash.hex()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_are_hidden_and_short_enough() {
        let long = PathBuf::from("ü".repeat(120));
        let name = |path: &Path| beside(path, ".tmp").to_str().expect("UTF-8").to_owned();
        let (one, two) = (name(&long), name(&long));
        assert_ne!(one, two);
        assert!(one.starts_with(".ü") && one.ends_with(".tmp"), "{one}");
        assert!(one.len() < 200, "{one}");
        let longer = PathBuf::from("ü".repeat(121));
        assert!(is_temporary(OsStr::new(&one), &prefix(long.as_os_str())));
        assert!(!is_temporary(OsStr::new(&one), &prefix(longer.as_os_str())));
        assert!(!is_temporary(
            OsStr::new(".a.embedctl-1-x.tmp"),
            ".a.embedctl-"
        ));
        assert!(is_hidden(&one) && !is_hidden("onnx/embedctl-model.onnx"));
    }
}
