//! Two files of one run under one name would replace each other, or the input: refused before any work.

use std::path::Path;

use super::options::{Destination, OutputOptions};
use super::place::{Identity, OutputPlace};
use super::sidecar::SIDECARS;
use embedctl_common::atomic::with_ending;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{CALIBRATION, OUTPUT, REUSE, SetBy};

/// Refuses to write `path`, which `option` names, where it is one of the files that are read, or lies in one of the folders.
///
/// # Errors
/// If it is or does; the message names both.
pub fn refuse_to_replace<'a>(
    (option, path): (SetBy, &Path),
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let own = Identity::of_path(path);
    let mut read = read.into_iter();
    let Some(other) = read.find(|it| own.is(&Identity::of_path(it)) || own.is_inside(it)) else {
        return Ok(());
    };
    let (shown, other) = (path.display(), other.display());
    Err(Error::usage(format!(
        "{option} {shown} is read, too, or lies in it: {other}"
    ))
    .with_remedy("write to another place"))
}

/// Refuses a run if two of its files are the same: the output, its sidecars, `others` that are written with it (with
/// their options), inputs, the calibration, and an earlier output whose vectors are reused. Files are the same by
/// name, through links of either kind, or as standard input or output. Also refuses `others` in a folder of parts that
/// is written or reused. An input without a path is standard input.
///
/// # Errors
/// If two are; the message names both. Or if the output's format is unknown.
pub fn refuse_overlap<'a>(
    output: &OutputOptions,
    is_folder: bool,
    others: &[(SetBy, &Path)],
    inputs: impl IntoIterator<Item = Option<&'a Path>>,
    reuse: Option<&Path>,
) -> Result<()> {
    let mut known = Vec::new();
    let mut add = |what: String, identity: Identity| -> Result<()> {
        if let Some((other, _)) = known.iter().find(|(_, one)| identity.is(one)) {
            return Err(Error::usage(format!("{what} is the same file as {other}"))
                .with_remedy("give each its own"));
        }
        known.push((what, identity));
        Ok(())
    };
    for path in inputs {
        let (what, identity) = match path {
            None => ("standard input".to_owned(), Identity::of_stdin()),
            Some(path) => (
                format!("the input {}", path.display()),
                Identity::of_path(path),
            ),
        };
        // An input may well be read twice.
        let _ = add(what, identity);
    }
    if let Some(calibration) = &output.calibration {
        let path = calibration.file();
        let what = format!("{CALIBRATION} {}", path.display());
        let _ = add(what, Identity::of_path(path));
    }
    let mut folders = Vec::new();
    match &output.destination {
        Destination::Stdout => add("standard output".to_owned(), Identity::of_stdout())?,
        Destination::Path(path) if is_folder => folders.push((OutputPlace::OUTPUT, path.as_path())),
        Destination::Path(path) => {
            add(
                format!("{OUTPUT} {}", path.display()),
                Identity::of_path(path),
            )?;
            let place = OutputPlace::find(&output.destination, OutputPlace::OUTPUT)?;
            if let Some(path) = place.file() {
                let sidecars = output.resolved_format()?.possible_sidecars();
                let own: Vec<_> = sidecars.iter().map(|it| with_ending(path, it)).collect();
                let former = SIDECARS
                    .existing(path)
                    .filter(|it| output.force && !own.contains(it));
                for sidecar in own.iter().cloned().chain(former) {
                    let what = format!("{}, which {OUTPUT} writes or replaces,", sidecar.display());
                    add(what, Identity::of_path(&sidecar))?;
                }
            }
        }
    }
    if let Some(path) = reuse {
        folders.push((REUSE.into(), path));
        // The output may take its place.
        let files = SIDECARS.existing(path).chain([path.to_path_buf()]);
        for file in files {
            let what = format!("{}, read for {REUSE}", file.display());
            let _ = add(what, Identity::of_path(&file));
        }
    }
    for (option, path) in others {
        let (shown, identity) = (path.display(), Identity::of_path(path));
        if let Some((whose, folder)) = (folders.iter()).find(|(_, it)| identity.is_inside(it)) {
            let reason = format!("{option} {shown} lies in the folder that {whose} names");
            let folder = folder.display();
            return Err(Error::usage(reason).with_remedy(format!("write it outside of {folder}")));
        }
        add(format!("{option} {shown}"), identity)?;
    }
    Ok(())
}
