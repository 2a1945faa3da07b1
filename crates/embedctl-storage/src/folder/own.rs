//! Where a job's own files lie. Readers take every file of a folder for a part of its table: polars whatever its name,
//! Hugging Face's `datasets` if its ending is `.json`. So all files but the parts lie in a folder beside theirs:
//! `_vectors.embedctl/` beside `vectors/`. Names that begin with `_` are skipped by readers of both.
//!
//! A job names them `_embedctl/…` in any case. They lie under this name among the parts if an older version began the
//! job, and where nothing can be put beside the folder: at the root of a bucket or of a mounted file system, in a folder
//! that cannot be written to, or where another user has taken the name.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Address;

/// The folder of a job's own files, in the names of its files.
pub const OWN: &str = "_embedctl";

/// The folder of sidecars that readers of JSON Lines would take for parts, among a job's own files.
const SIDECARS: &str = "sidecars";

/// Endings of these sidecars.
const LINES: [&str; 3] = [".jsonl.json", ".jsonl.gz.json", ".jsonl.zst.json"];

/// The name of the folder beside the one that is called `name`.
fn beside(name: &str) -> String {
    format!("_{name}.embedctl")
}

/// The name of a file of a job below the folder beside its parts; `None` for a file that lies among them.
pub(super) fn within(name: &str) -> Option<String> {
    match name.strip_prefix(OWN) {
        Some("") => Some(String::new()),
        Some(rest) => rest.strip_prefix('/').map(str::to_owned),
        None => is_sidecar(name).then(|| format!("{SIDECARS}/{name}")),
    }
}

fn is_sidecar(name: &str) -> bool {
    !name.contains('/') && LINES.iter().any(|ending| name.ends_with(ending))
}

/// The folder of sidecars, if `folder` is the top of a job's.
pub(super) fn sidecars(folder: &str) -> Option<String> {
    folder.is_empty().then(|| format!("{OWN}/{SIDECARS}"))
}

/// Where the sidecar at this path of a part may lie instead.
pub(crate) fn sidecar(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str().filter(|name| is_sidecar(name))?;
    let folder = match path.parent()? {
        parent if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    Some(folder_beside(folder)?.join(SIDECARS).join(name))
}

/// Where the sidecar under this key of a part may lie instead.
#[must_use]
pub fn sidecar_key(key: &str) -> Option<String> {
    let (folder, name) = key.rsplit_once('/')?;
    is_sidecar(name).then(|| format!("{}{SIDECARS}/{name}", key_beside(folder)))
}

/// The key beside that of a folder, with a slash at its end; `folder` has none and is not empty.
pub(super) fn key_beside(folder: &str) -> String {
    let (parent, name) = match folder.rsplit_once('/') {
        Some((parent, name)) => (format!("{parent}/"), name),
        None => (String::new(), folder),
    };
    format!("{parent}{}/", beside(name))
}

/// The folder for the own files of the job whose parts lie in `folder`, which need not exist.
#[must_use]
pub fn own_folder(folder: &Path) -> PathBuf {
    let inside = folder.join(OWN);
    if fs::symlink_metadata(&inside).is_ok() {
        return inside;
    }
    let is_usable = |beside: &PathBuf| match fs::symlink_metadata(beside) {
        Ok(found) => is_of_owner(&found, folder),
        Err(_) => can_hold(beside, folder),
    };
    folder_beside(folder).filter(is_usable).unwrap_or(inside)
}

/// Whether what was found beside `folder` belongs to this user or to the folder's owner. In a folder like `/tmp`, others
/// may take the name first.
#[cfg(unix)]
fn is_of_owner(beside: &fs::Metadata, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: it has no arguments and cannot fail.
    let own = beside.uid() == unsafe { libc::geteuid() };
    own || fs::metadata(folder).is_ok_and(|folder| folder.uid() == beside.uid())
}

#[cfg(not(unix))]
fn is_of_owner(_: &fs::Metadata, _: &Path) -> bool {
    true
}

/// The folder for the own files of a job whose parts lie below the address, without a slash at its end; an older version
/// may have put them in the folder [`OWN`] among the parts.
#[must_use]
pub fn own_address(folder: &Address) -> Address {
    match folder.key().trim_end_matches('/') {
        "" => folder.with_key(OWN),
        key => folder.with_key(key_beside(key).trim_end_matches('/')),
    }
}

/// The folder beside `folder`; for a link, beside the one that it leads to.
fn folder_beside(folder: &Path) -> Option<PathBuf> {
    let is_plain = !fs::symlink_metadata(folder).is_ok_and(|it| it.is_symlink());
    if is_plain && let Some(name) = folder.file_name() {
        return Some(folder.with_file_name(os_beside(name.to_owned())?));
    }
    let whole = folder.canonicalize().ok()?;
    let name = whole.file_name()?.to_owned();
    Some(whole.with_file_name(os_beside(name)?))
}

fn os_beside(name: OsString) -> Option<String> {
    name.into_string().ok().map(|name| beside(&name))
}

/// Whether a file can be moved from `beside` into `folder`: both are on one file system, and the folder above may be
/// written to.
fn can_hold(beside: &Path, folder: &Path) -> bool {
    let parent = embedctl_common::atomic::parent(beside);
    match (fs::metadata(folder), fs::metadata(parent)) {
        // It will be created there.
        (Err(_), _) => true,
        (Ok(folder), Ok(above)) => {
            is_one_device(&folder, &above) && tempfile::tempfile_in(parent).is_ok()
        }
        _ => false,
    }
}

#[cfg(unix)]
fn is_one_device(one: &fs::Metadata, two: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    one.dev() == two.dev()
}

#[cfg(not(unix))]
fn is_one_device(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_are_told_from_parts() {
        let own = |name: &str| within(name);
        assert_eq!(own("_embedctl").as_deref(), Some(""));
        assert_eq!(own("_embedctl/a/b.json").as_deref(), Some("a/b.json"));
        for ending in LINES {
            let name = format!("part-00001-00000{ending}");
            assert_eq!(own(&name), Some(format!("sidecars/{name}")));
        }
        for part in [
            "",
            "_embedctl2",
            "part-00001-00000.jsonl",
            "part-00001-00000.npy.json",
            "_SUCCESS",
        ] {
            assert_eq!(own(part), None, "{part}");
        }
    }

    #[test]
    fn own_files_lie_beside_the_folder_unless_an_older_version_put_them_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(own_folder(&at("out/")), at("_out.embedctl"));
        assert_eq!(own_folder(&at("none/out")), at("none/_out.embedctl"));
        fs::create_dir_all(at("out/_embedctl")).unwrap();
        assert_eq!(own_folder(&at("out")), at("out/_embedctl"));
        assert_eq!(own_folder(Path::new("/")), Path::new("/_embedctl"));
    }

    #[cfg(unix)]
    #[test]
    fn own_files_lie_beside_the_target_of_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("far/away")).unwrap();
        std::os::unix::fs::symlink(real.join("far/away"), real.join("here")).unwrap();
        assert_eq!(
            own_folder(&real.join("here")),
            real.join("far/_away.embedctl")
        );
    }

    #[test]
    fn keys_lie_beside_the_prefix() {
        assert_eq!(key_beside("a/b/out"), "a/b/_out.embedctl/");
        assert_eq!(key_beside("out"), "_out.embedctl/");
        let sidecar = sidecar_key("a/out/part-00001-00000.jsonl.json");
        assert_eq!(
            sidecar.as_deref(),
            Some("a/_out.embedctl/sidecars/part-00001-00000.jsonl.json")
        );
        assert_eq!(sidecar_key("a/out/part.npy.json"), None);
    }
}
