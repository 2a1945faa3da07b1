//! A repository's list of files at one commit, and the request that fetches it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use ureq::http::{Method, StatusCode};

use super::Transfer;
use super::client::Client;
use super::digest::Digest;
use super::id::{ModelId, escaped, is_commit, is_path};
use super::settings::HubSettings;
use embedctl_common::error::{Error, Result};
use embedctl_net::RequestFault;

/// Bytes of a repository's description at most: a hundred thousand files.
const LARGEST_DESCRIPTION: u64 = 64 << 20;
/// Names that are no paths, named one by one.
const NAMED: usize = 5;

/// The files of a repository at one commit, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing(pub(super) BTreeMap<String, HubFile>);

/// The Hub's description of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HubFile {
    /// Bytes, where known.
    pub(super) size: Option<u64>,
    /// Hash of the content, where known.
    pub(super) digest: Option<Digest>,
}

impl Listing {
    pub(super) fn get(&self, path: &str) -> Option<&HubFile> {
        self.0.get(path)
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Reads a list that was stored by [`Listing::to_json`], or by `huggingface_hub`, which uses the same form.
    pub(super) fn from_json(bytes: &[u8]) -> Option<Self> {
        let stored: LfsObject = serde_json::from_slice(bytes).ok()?;
        (stored.format_version == FORMAT_VERSION).then(|| {
            let files = stored.files.into_iter().filter(|(path, _)| is_path(path));
            Self(files.map(|(path, file)| (path, file.into())).collect())
        })
    }

    /// The list as it is stored.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let stored = LfsObject {
            format_version: FORMAT_VERSION,
            files: self
                .0
                .iter()
                .map(|(path, file)| (path.clone(), file.into()))
                .collect(),
        };
        serde_json::to_vec_pretty(&stored).expect("strings and numbers are JSON")
    }
}

const FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct LfsObject {
    format_version: u32,
    files: BTreeMap<String, StoredFile>,
}

#[derive(Serialize, Deserialize)]
struct StoredFile {
    size: Option<u64>,
    blob_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lfs_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lfs_size: Option<u64>,
}

impl From<&HubFile> for StoredFile {
    fn from(file: &HubFile) -> Self {
        let (blob_id, lfs_sha256) = match &file.digest {
            Some(Digest::Sha256(text)) => (None, Some(text.clone())),
            Some(Digest::GitBlob(text)) => (Some(text.clone()), None),
            None => (None, None),
        };
        Self {
            size: file.size,
            blob_id,
            lfs_size: file.size.filter(|_| lfs_sha256.is_some()),
            lfs_sha256,
        }
    }
}

impl From<StoredFile> for HubFile {
    fn from(file: StoredFile) -> Self {
        let digest = file.lfs_sha256.or(file.blob_id);
        Self {
            size: file.lfs_size.or(file.size),
            digest: digest.and_then(|text| Digest::parse(&text)),
        }
    }
}

#[derive(Deserialize)]
struct Description {
    sha: Option<String>,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: Option<String>,
    size: Option<u64>,
}

/// Asks the Hub for a revision's commit and all of its files.
///
/// # Errors
/// If there is no such repository or revision, it may not be read, or the Hub cannot be reached.
pub(super) fn describe(
    client: &Client,
    model: &ModelId,
    transfer: &dyn Transfer,
) -> Result<(String, Listing)> {
    describe_kind(client, "models", model, &model.to_string(), transfer)
}

/// The same for a repository of another kind, by the API's word for it; `name` is for messages.
pub(super) fn describe_kind(
    client: &Client,
    kind: &str,
    model: &ModelId,
    name: &str,
    transfer: &dyn Transfer,
) -> Result<(String, Listing)> {
    let endpoint = &client.settings().endpoint;
    // `blobs`: with sizes and hashes, which otherwise take a request a file.
    let url = format!(
        "{endpoint}/api/{kind}/{}/revision/{}?blobs=true",
        model.repository,
        escaped(&model.revision, false)
    );
    let bytes = client.retrying(name, "its list of files", transfer, &|| 0, || {
        let answer = client.send(name, &Method::GET, &url, None)?;
        let mut bytes = Vec::new();
        let mut reader = std::io::Read::take(answer.reader(), LARGEST_DESCRIPTION);
        match std::io::Read::read_to_end(&mut reader, &mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(RequestFault::Transient {
                reason: format!("the answer was cut ({error})"),
                after: None,
            }),
        }
    })?;
    parsed(&bytes, name, client.settings(), transfer)
}

/// The commit and the files in the Hub's answer about the repository `name`.
///
/// # Errors
/// If it is not a Hub's.
fn parsed(
    bytes: &[u8],
    name: &str,
    settings: &HubSettings,
    transfer: &dyn Transfer,
) -> Result<(String, Listing)> {
    let endpoint = &settings.endpoint;
    let strange = |what: &str| {
        Error::model(
            name,
            format!("{endpoint} does not answer as a Hub does ({what})"),
        )
        .with_remedy("check HF_ENDPOINT, or a proxy's sign-in page")
    };
    if bytes.len() as u64 == LARGEST_DESCRIPTION {
        return Err(strange("its answer is too long"));
    }
    let description: Description =
        serde_json::from_slice(bytes).map_err(|error| strange(&error.to_string()))?;
    let commit = description
        .sha
        .filter(|sha| is_commit(sha))
        .ok_or_else(|| strange("there is no commit in it"))?;
    if description.siblings.len() > settings.net.limits.files {
        return Err(strange("it lists more files than a repository may have"));
    }
    let mut files = BTreeMap::new();
    let mut left_out = 0_usize;
    for sibling in description.siblings {
        // Git allows names that some systems do not, and a Hub could be up to something.
        if !is_path(&sibling.rfilename) {
            left_out += 1;
            if left_out <= NAMED {
                transfer.warning(&format!(
                    "{name}: '{}' is left out: that is not a path inside a repository on every system",
                    sibling.rfilename
                ));
            }
            continue;
        }
        let (size, digest) = match sibling.lfs {
            Some(lfs) => (lfs.size.or(sibling.size), lfs.sha256),
            None => (sibling.size, sibling.blob),
        };
        let digest = digest.and_then(|text| Digest::parse(&text));
        files.insert(sibling.rfilename, HubFile { size, digest });
    }
    if left_out > NAMED {
        let more = left_out - NAMED;
        transfer.warning(&format!("{name}: {more} more such names are left out"));
    }
    Ok((commit.to_ascii_lowercase(), Listing(files)))
}

/// The address of a file's content.
pub(super) fn address(client: &Client, repository: &str, commit: &str, path: &str) -> String {
    format!(
        "{}/{repository}/resolve/{commit}/{}",
        client.settings().endpoint,
        escaped(path, true)
    )
}

/// Asks for size and hash of one file, where the list has none (older mirrors).
pub(super) fn inspect(
    client: &Client,
    model: &ModelId,
    commit: &str,
    path: &str,
    transfer: &dyn Transfer,
) -> Result<HubFile> {
    let name = model.to_string();
    let url = address(client, &model.repository, commit, path);
    client.retrying(&name, path, transfer, &|| 0, || {
        let answer = client.send(&name, &Method::HEAD, &url, None)?;
        let etag = answer
            .hub
            .get("x-linked-etag")
            .or_else(|| answer.hub.get("etag"))
            .or_else(|| answer.headers.get("etag"))
            .and_then(|value| value.to_str().ok());
        let digest = etag.and_then(Digest::parse);
        // Of the file, not of an answer that redirects or refuses.
        let length = (answer.status == StatusCode::OK).then_some("content-length");
        let size = answer
            .header("x-linked-size")
            .or_else(|| answer.headers.get(length?)?.to_str().ok())
            .and_then(|size| size.parse().ok());
        if digest.is_none() {
            transfer.warning(&format!(
                "{path}: {} gives no hash for it, so only its size can be checked",
                client.settings().endpoint
            ));
        }
        Ok(HubFile { size, digest })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HubOptions, SilentTransfer};
    use embedctl_testing::assert_no_bug;
    use embedctl_testing::mutation::each_content;

    #[test]
    fn damaged_lists_of_a_hub_are_read_or_refused() {
        let settings = HubSettings::from_environment(&HubOptions::default()).unwrap();
        let (commit, blob, sum) = ("1".repeat(40), "b".repeat(40), "c".repeat(64));
        let answer = format!(
            r#"{{"sha": "{commit}", "siblings": [{{"rfilename": "config.json", "size": 12, "blobId": "{blob}"}},
                {{"rfilename": "onnx/model.onnx", "size": 7, "lfs": {{"sha256": "{sum}", "size": 9}}}}]}}"#
        );
        each_content("answer.json", answer.as_bytes(), 600, |bytes| {
            assert_no_bug(parsed(bytes, "org/name", &settings, &SilentTransfer));
        });
        let stored = format!(
            r#"{{"format_version": 1, "files": {{"a/model.onnx": {{"size": 7, "blob_id": "{blob}",
                "lfs_sha256": "{sum}", "lfs_size": 900}}}}}}"#
        );
        each_content("stored.json", stored.as_bytes(), 600, |bytes| {
            let listing = Listing::from_json(bytes).unwrap_or_default();
            assert!(listing.paths().all(is_path));
        });
    }

    #[test]
    fn a_list_is_stored_and_read_again() {
        let file = |size, digest: &str| HubFile {
            size: Some(size),
            digest: Digest::parse(digest),
        };
        let listing = Listing(BTreeMap::from([
            ("config.json".into(), file(12, &"b".repeat(40))),
            ("onnx/model.onnx".into(), file(1 << 33, &"c".repeat(64))),
            ("README.md".into(), HubFile::default()),
        ]));
        assert_eq!(Listing::from_json(&listing.to_json()), Some(listing));
        assert_eq!(
            Listing::from_json(b"{\"format_version\":2,\"files\":{}}"),
            None
        );
        assert_eq!(Listing::from_json(b"not JSON"), None);
    }

    #[test]
    fn the_list_of_huggingface_hub_is_read() {
        let text = format!(
            r#"{{"format_version": 1, "files": {{"model.onnx": {{"size": 7, "blob_id": "{}",
                "lfs_sha256": "{}", "lfs_size": 900, "xet_hash": "x"}}, "../up": {{"size": 1, "blob_id": "0"}}}}}}"#,
            "a".repeat(40),
            "d".repeat(64)
        );
        let listing = Listing::from_json(text.as_bytes()).unwrap();
        let file = listing.get("model.onnx").unwrap();
        assert_eq!(file.size, Some(900));
        assert_eq!(file.digest, Some(Digest::Sha256("d".repeat(64))));
        assert!(!listing.contains("../up"));
    }
}
