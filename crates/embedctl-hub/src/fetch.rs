//! The download of one file: written beside its place, resumed after an earlier run, verified, and only then
//! published.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use ureq::http::{Method, StatusCode};

use super::Transfer;
use super::client::Client;
use super::digest::{FileSums, sums};
use super::files::{create_folder_of, open_to_write};
use super::listing::HubFile;
use super::select::is_metadata;
use embedctl_common::atomic;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::CACHE_DIR;
use embedctl_net::{RequestFault, ResponseLimits, is_transient};

/// Bytes read at a time.
const CHUNK: usize = 1 << 16;

/// A file to be fetched.
pub(super) struct FetchedContent<'a> {
    /// The model, for messages.
    pub(super) model: &'a str,
    /// Path inside the repository.
    pub(super) path: &'a str,
    /// Its address.
    pub(super) url: &'a str,
    /// Its expected content.
    pub(super) remote: &'a HubFile,
}

/// Bytes of a file at most, by its path and by the size that was told.
fn size_limit(limits: &ResponseLimits, path: &str, told: Option<u64>) -> u64 {
    let limit = match told {
        Some(_) => limits.file,
        None => limits.unmeasured,
    };
    match is_metadata(path) {
        true => limit.min(limits.metadata),
        false => limit,
    }
}

/// Fetches content into `incomplete`, verifies it, and renames it to `place`.
///
/// # Errors
/// If it does not arrive, differs from the Hub's description, or cannot be written. The received part stays in
/// `incomplete` unless it is known to be wrong.
pub(super) fn fetch(
    client: &Client,
    content: &FetchedContent,
    incomplete: &Path,
    place: &Path,
    transfer: &dyn Transfer,
) -> Result<FileSums> {
    let limits = &client.settings().net.limits;
    let limit = size_limit(limits, content.path, content.remote.size);
    if content.remote.size.is_some_and(|size| size > limit) {
        return Err(too_long(content, limit));
    }
    create_folder_of(incomplete)?;
    create_folder_of(place)?;
    let length = |path: &Path| fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
    // Without a hash, the partial content of an earlier run cannot be verified.
    if content.remote.digest.is_none() && length(incomplete) > 0 {
        fs::remove_file(incomplete).map_err(|error| Error::io("remove", incomplete, error))?;
    }
    transfer.began(content.path, content.remote.size, length(incomplete));
    // Content that was begun by an earlier run may be wrong without anybody's fault: it gets a second
    // chance from the beginning, and so does, once, content that was spoiled on its way.
    let mut chances = if length(incomplete) > 0 { 2 } else { 1 };
    loop {
        client.retrying(
            content.model,
            content.path,
            transfer,
            &|| length(incomplete),
            || go_on(client, content, incomplete, transfer),
        )?;
        let found = sums(incomplete, content.remote.digest.as_ref(), client.cancel())
            .map_err(|error| Error::io("read", incomplete, error))?
            .ok_or(Error::interrupted())?;
        let Some(wrong) = difference(content.remote, &found) else {
            publish(incomplete, place)?;
            return Ok(found);
        };
        fs::remove_file(incomplete).map_err(|error| Error::io("remove", incomplete, error))?;
        if chances == 0 {
            let reason = format!(
                "{}: the downloaded content does not match the Hub's record ({wrong}) and was discarded",
                content.path
            );
            return Err(Error::model(content.model, reason).with_remedy(
                "try again; if it happens again, a mirror or proxy in between changes files",
            ));
        }
        chances -= 1;
        transfer.restarted(content.path, &wrong);
    }
}

/// The difference between the content and the expected one; `None` if there is none.
pub(super) fn difference(remote: &HubFile, found: &FileSums) -> Option<String> {
    if let Some(size) = remote.size.filter(|&size| size != found.size) {
        return Some(format!("{} bytes instead of {size}", found.size));
    }
    let digest = remote.digest.as_ref()?;
    (!found.matches(digest)).then(|| {
        format!(
            "its {} is {} instead of {}",
            digest.kind(),
            found.like(digest),
            digest.as_str()
        )
    })
}

/// One attempt: continues after the existing bytes, to the end.
fn go_on(
    client: &Client,
    content: &FetchedContent,
    incomplete: &Path,
    transfer: &dyn Transfer,
) -> Result<(), RequestFault> {
    let write = |error| written(content, incomplete, error);
    let mut file = open_to_write(incomplete).map_err(write)?;
    let mut have = file.metadata().map_err(write)?.len();
    let size = content.remote.size;
    if size.is_some_and(|size| have > size) {
        transfer.restarted(
            content.path,
            "the partial download was longer than the file",
        );
        have = 0;
        file.set_len(0).map_err(write)?;
    }
    // A run that was killed between the last byte and the verification; or an empty file.
    if size == Some(have) {
        return Ok(());
    }
    let from = (have > 0).then_some(have);
    let answer = client.send(content.model, &Method::GET, content.url, from)?;
    if answer.status == StatusCode::RANGE_NOT_SATISFIABLE {
        // The existing bytes are at least as long as the file, whose length is unknown.
        if size.is_none() {
            return Ok(());
        }
        file.set_len(0).map_err(write)?;
        return Err(RequestFault::Transient {
            reason: "the server says that the partial download is longer than the file".into(),
            after: Some(std::time::Duration::ZERO),
        });
    }
    if from.is_some() && answer.range_start() != from {
        // The server sends another part than it was asked for, or all of it.
        if answer.status == StatusCode::PARTIAL_CONTENT {
            file.set_len(0).map_err(write)?;
            return Err(RequestFault::Transient {
                reason: "the server sends another part of the file than requested".into(),
                after: Some(std::time::Duration::ZERO),
            });
        }
        transfer.restarted(
            content.path,
            "the server sends files from their beginning only",
        );
        have = 0;
        file.set_len(0).map_err(write)?;
    }
    let told = answer.told_size();
    let limit = size_limit(&client.settings().net.limits, content.path, size);
    let mut reader = answer.reader();
    let mut buffer = vec![0; CHUNK];
    loop {
        if client.cancel().is_cancelled() {
            return Err(Error::interrupted().into());
        }
        let count = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if client.cancel().is_cancelled() => {
                drop(error);
                return Err(Error::interrupted().into());
            }
            Err(error) if is_transient(&error) => {
                return Err(RequestFault::Transient {
                    reason: format!("the connection was cut after {have} bytes ({error})"),
                    after: None,
                });
            }
            Err(error) => {
                let reason = format!("{}: cannot be read from the network: {error}", content.path);
                return Err(Error::model(content.model, reason).into());
            }
        };
        file.write_all(&buffer[..count]).map_err(write)?;
        have += count as u64;
        transfer.advanced(content.path, count as u64);
        if size.is_some_and(|size| have > size) {
            return Ok(()); // too long: the verification will say so
        }
        if have > limit {
            let _ = file.set_len(0); // of no use to anybody
            return Err(too_long(content, limit).into());
        }
    }
    match size {
        // Else it came whole, and is another file: the verification will say so.
        Some(size) if have < size && told.is_none_or(|told| told == size) => {
            Err(RequestFault::Transient {
                reason: format!("the connection was cut after {have} of {size} bytes"),
                after: None,
            })
        }
        _ => Ok(()),
    }
}

/// The error for a file above the size limit.
pub(super) fn too_long(content: &FetchedContent, limit: u64) -> Error {
    let size = content.remote.size.map_or_else(
        || "its size, which the server does not give,".to_owned(),
        |size| format!("its size ({size} bytes)"),
    );
    let reason = format!(
        "{}: {size} is above {limit} bytes, the limit for such a file of a model",
        content.path
    );
    Error::model(content.model, reason).with_remedy("check HF_ENDPOINT and the name")
}

/// Makes verified content appear under its name, and stay there if the power fails.
pub(super) fn publish(incomplete: &Path, place: &Path) -> Result<()> {
    let sync = File::open(incomplete).and_then(|file| atomic::sync(&file));
    sync.and_then(|()| fs::rename(incomplete, place))
        .map_err(|error| Error::io("write", place, error))
}

/// A failed write. A full disk has a message of its own, since people can clear it.
fn written(content: &FetchedContent, incomplete: &Path, error: io::Error) -> RequestFault {
    let folder = incomplete.parent().unwrap_or(incomplete).display();
    let needs = content
        .remote
        .size
        .map_or_else(String::new, |size| format!(" ({size} bytes)"));
    RequestFault::Final(match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::model(
            content.model,
            format!(
                "{}{needs}: the disk is full at {folder} ({error})",
                content.path
            ),
        )
        .with_remedy(format!(
            "make room, or choose another folder with {CACHE_DIR} or HF_HUB_CACHE. The downloaded part is kept, and \
             the next run resumes from it"
        )),
        _ => Error::io("write", incomplete, error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_what_helps() {
        let content = FetchedContent {
            model: "org/name",
            path: "onnx/model.onnx",
            url: "",
            remote: &HubFile {
                size: Some(7),
                digest: None,
            },
        };
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let RequestFault::Final(error) =
                written(&content, Path::new("/cache/blobs/x"), kind.into())
            else {
                panic!("a full disk does not pass");
            };
            let error = error.to_string();
            for part in [
                "onnx/model.onnx (7 bytes)",
                "is full at /cache/blobs",
                "--cache-dir",
            ] {
                assert!(error.contains(part), "{error}");
            }
        }
    }
    #[test]
    fn metadata_and_what_nobody_measures_have_limits_of_their_own() {
        let limits = ResponseLimits::default();
        for (path, told, limit) in [
            ("onnx/model.onnx_data", Some(1), limits.file),
            ("onnx/model.onnx", None, limits.unmeasured),
            ("1_Pooling/config.json", Some(1), limits.metadata),
            ("tokenizer.json", None, limits.metadata),
        ] {
            assert_eq!(size_limit(&limits, path, told), limit, "{path}");
        }
    }
}
