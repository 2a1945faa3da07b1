//! Names of an output's parts, and whether one path lies in another.

use std::fs;
use std::path::{Path, PathBuf};

use super::{JobOptions, names};
use crate::error::{Error, Place, Result};
use crate::output::{Destination, OutputFormat, OutputOptions};
use crate::setting::{OUTPUT, PART_ROWS, SHARD};
use crate::storage::{Address, Location, SharedFolder, own_address, own_folder};

/// Whether an output is a folder: it says so by a `/` at its end, or is one.
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    text.ends_with(b"/")
        || text.ends_with(std::path::MAIN_SEPARATOR_STR.as_bytes())
        || fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The folder for the parts of a single file while it is made.
#[must_use]
pub fn parts_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".parts");
    name.into()
}

/// Where the manifest of a job lies, for messages.
#[must_use]
pub fn manifest_place(storage: &dyn SharedFolder) -> Place {
    storage.place(names::MANIFEST)
}

/// The folder of the lists of rejected records of the job that writes the folder `path`, for messages.
#[must_use]
pub fn rejects_of(path: &Path) -> String {
    let list = names::REJECTS.trim_start_matches(names::OWN);
    match Location::of(path) {
        Ok(Location::Remote(address)) => format!("{}{list}", own_address(&address)),
        _ => format!("{}{list}", own_folder(path).display()),
    }
}

/// The format of a folder's parts: as the options say, or as the folder is called; else Parquet. `None` where the output
/// is no folder.
#[must_use]
pub fn folder_format(output: &OutputOptions) -> Option<OutputFormat> {
    let Destination::Path(path) = &output.destination else {
        return None;
    };
    let format = output.format.or_else(|| OutputFormat::from_path(path));
    is_folder(path).then_some(format.unwrap_or(OutputFormat::Parquet))
}

/// Whether a path is a folder of parts or lies in it, or among the job's own files: inputs must not lie in the output.
#[must_use]
pub fn is_inside(path: &Path, folder: &Path) -> bool {
    match (Location::of(path), Location::of(folder)) {
        (Ok(Location::Remote(path)), Ok(Location::Remote(folder))) => {
            path.to_string().starts_with(&folder.to_string())
        }
        (Ok(Location::Local(path)), Ok(Location::Local(folder))) => {
            let own = own_folder(&folder);
            let path = path.canonicalize();
            let is_in = |folder: &Path| {
                let folder = folder.canonicalize();
                path.as_ref()
                    .is_ok_and(|path| folder.is_ok_and(|folder| path.starts_with(folder)))
            };
            is_in(&folder) || is_in(&own)
        }
        _ => false,
    }
}

/// Refuses options that need a folder.
pub(super) fn refuse_file(path: &Path, options: &JobOptions) -> Result<()> {
    let shown = path.display();
    let refuse = |reason: String, remedy: String| Err(Error::usage(reason).with_remedy(remedy));
    if options.shard.count > 1 {
        return refuse(
            format!(
                "{SHARD} writes parts into a folder that all shards share, but {OUTPUT} {shown} is a file"
            ),
            format!("write {OUTPUT} {shown}/"),
        );
    }
    if options.part_rows.is_some() && !options.resume {
        return refuse(
            format!("{PART_ROWS} needs a folder for the parts, but {OUTPUT} {shown} is a file"),
            format!("write {OUTPUT} {shown}/"),
        );
    }
    if Address::is_url_path(path) && options.resume {
        return refuse(
            format!("{OUTPUT} {shown}: one object is written by one run"),
            format!("write parts to {shown}/, which can be resumed"),
        );
    }
    Ok(())
}
