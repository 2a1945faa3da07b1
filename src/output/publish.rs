//! The last step: what was written beside its name gets it, sidecars first.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::fault::with_remedy;
use super::place::parent;
use super::temporary::{self, Temporary};
use crate::error::{Error, Result};

/// Ending of the file that holds a run's provenance.
pub(super) const PROVENANCE: &str = ".json";

/// Ending of the file that says which record each row of an array came from.
pub(super) const ROWS: &str = ".rows.jsonl";

/// A sidecar that is larger than this was not written as provenance.
const MAX_PROVENANCE: u64 = 1 << 20;

/// `path` with `ending` after it: `out.npy` and `.json` make `out.npy.json`.
pub(super) fn sidecar_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Gives every file its name; the last one is the main file.
///
/// With `force`, what stands under these names is replaced, and sidecars of a former output under the
/// main name go first. Without it, nothing is ever overwritten, even if it appeared a moment ago.
///
/// # Errors
/// If the system refuses; sidecars that had their names lose them again.
pub(super) fn publish(files: &[(&Temporary, &Path)], force: bool) -> Result<()> {
    let Some(((main, main_path), sidecars)) = files.split_last() else {
        return Ok(());
    };
    for (file, path) in files {
        file.sync()
            .map_err(|error| Error::io("write to", path, with_remedy(error)))?;
    }
    let replaced = fs::metadata(main_path).ok().filter(|_| force);
    if let Some(old) = &replaced {
        // A courtesy: whoever could read the old file can read the new one. Not every system can.
        let _ = fs::set_permissions(main.path(), old.permissions());
    }

    // Held until the end: an exit that removes temporaries finds either all of this done, or none.
    let mut live = temporary::live();
    if !files
        .iter()
        .all(|(file, _)| live.iter().any(|path| path == file.path()))
    {
        return Err(Error::Interrupted);
    }
    if force {
        let known = sidecars.iter().map(|(_, path)| path.to_path_buf());
        let former = [PROVENANCE, ROWS].map(|ending| sidecar_path(main_path, ending));
        let former = former
            .into_iter()
            .filter(|path| replaced.is_some() && is_sidecar(path));
        for path in known.chain(former) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io("replace", path, error));
                }
                _ => {}
            }
        }
    }
    for (index, (file, path)) in files.iter().enumerate() {
        if let Err(error) = take_name(file.path(), path, force) {
            for (_, path) in &files[..index] {
                let _ = fs::remove_file(path);
            }
            return Err(Error::io("create", path, with_remedy(error)));
        }
        live.retain(|alive| alive != file.path());
    }
    drop(live);
    sync_folder(parent(main_path));
    Ok(())
}

/// Moves a file to its name.
fn take_name(file: &Path, path: &Path, force: bool) -> io::Result<()> {
    let appeared = || {
        io::Error::new(
            ErrorKind::AlreadyExists,
            "something else appeared under that name during the run; \
             move it away, or pass --force to replace a file",
        )
    };
    // Renaming over a device or a FIFO would replace it.
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(appeared());
    }
    if force {
        return fs::rename(file, path);
    }
    // Of the portable calls, only a hard link refuses to overwrite.
    match fs::hard_link(file, path) {
        Ok(()) => {
            // The result stands; a second name for it that stays is no reason to fail.
            let _ = fs::remove_file(file);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(appeared()),
        // No hard links here (FAT, some network shares): look, then rename.
        Err(_) if fs::symlink_metadata(path).is_ok() => Err(appeared()),
        Err(_) => fs::rename(file, path),
    }
}

/// Whether a file beside a replaced output was written by an earlier run, by its beginning: somebody's
/// own `data.parquet.json` is none of ours.
fn is_sidecar(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut content = Vec::new();
    if file.take(MAX_PROVENANCE).read_to_end(&mut content).is_err() {
        return false;
    }
    if path
        .as_os_str()
        .as_encoded_bytes()
        .ends_with(ROWS.as_bytes())
    {
        return content.is_empty() || content.starts_with(br#"{"row":0,"#);
    }
    serde_json::from_slice::<serde_json::Value>(&content)
        .is_ok_and(|value| value["schema"].is_u64() && value["model"].is_object())
}

/// Makes the new names durable, where that is possible.
fn sync_folder(folder: &Path) {
    if cfg!(unix) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}
