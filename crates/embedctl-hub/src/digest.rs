//! The two hashes the Hub names content by: SHA-256 for files kept outside git (LFS), git's blob SHA-1 for
//! the rest. A cached file is called by its hash, so a cache can be verified without the network.

use std::io::{self, Read};
use std::path::Path;

use sha1::{Digest as _, Sha1};

use embedctl_common::cancel::CancelToken;
use embedctl_common::hash::{Hash, hex};
use embedctl_common::small_file;

/// The expected hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Digest {
    /// SHA-256 of the content, 64 hexadecimal digits.
    Sha256(String),
    /// Git's name for the content, 40 hexadecimal digits: SHA-1 of a header with the size, and the content.
    GitBlob(String),
}

impl Digest {
    /// Reads an etag or a blob's file name.
    pub(super) fn parse(etag: &str) -> Option<Self> {
        let etag = etag.trim();
        let etag = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"');
        if !etag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let text = etag.to_ascii_lowercase();
        match text.len() {
            64 => Some(Self::Sha256(text)),
            40 => Some(Self::GitBlob(text)),
            _ => None,
        }
    }

    /// The name of a blob with this content.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Sha256(text) | Self::GitBlob(text) => text,
        }
    }

    /// Its name in messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "SHA-256",
            Self::GitBlob(_) => "git blob SHA-1",
        }
    }
}

/// The content of a file, summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileSums {
    /// Bytes.
    pub(super) size: u64,
    /// SHA-256, in hexadecimal.
    pub(super) sha256: String,
    /// Git's blob SHA-1, in hexadecimal, where it was asked for.
    git_blob: Option<String>,
}

impl FileSums {
    /// Whether this content is the expected one.
    pub(super) fn matches(&self, digest: &Digest) -> bool {
        match digest {
            Digest::Sha256(expected) => *expected == self.sha256,
            Digest::GitBlob(expected) => self.git_blob.as_ref() == Some(expected),
        }
    }

    /// The found counterpart of an expected hash.
    pub(super) fn like(&self, digest: &Digest) -> &str {
        match digest {
            Digest::Sha256(_) => &self.sha256,
            Digest::GitBlob(_) => self.git_blob.as_deref().unwrap_or("unknown"),
        }
    }
}

/// Reads a file to its end and sums it up, with the hash that `expected` is of. `None`: cancelled meanwhile.
pub(super) fn sums(
    path: &Path,
    expected: Option<&Digest>,
    cancel: &CancelToken,
) -> io::Result<Option<FileSums>> {
    let mut file = small_file::open(path)?;
    let mut sha256 = Hash::default();
    let mut git = matches!(expected, Some(Digest::GitBlob(_))).then(Sha1::new);
    if let Some(git) = &mut git {
        git.update(format!("blob {}\0", file.metadata()?.len()));
    }
    let mut buffer = vec![0; 1 << 18];
    let mut size = 0;
    loop {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        sha256.add(&buffer[..count]);
        if let Some(git) = &mut git {
            git.update(&buffer[..count]);
        }
        size += count as u64;
    }
    Ok(Some(FileSums {
        size,
        sha256: sha256.hex(),
        git_blob: git.map(|git| hex(&git.finalize())),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_read_in_every_spelling() {
        let sha1 = "ce013625030ba8dba906f756967f9e9ca394464a";
        for etag in [
            sha1.to_owned(),
            format!("\"{sha1}\""),
            format!("W/\"{sha1}\""),
            sha1.to_uppercase(),
        ] {
            assert_eq!(
                Digest::parse(&etag),
                Some(Digest::GitBlob(sha1.into())),
                "{etag}"
            );
        }
        let sha256 = "a".repeat(64);
        assert_eq!(Digest::parse(&sha256), Some(Digest::Sha256(sha256.clone())));
        for wrong in ["", "\"\"", "abc", "0x12", &"g".repeat(40)] {
            assert_eq!(Digest::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn content_is_summed_as_git_and_sha256sum_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hello");
        std::fs::write(&path, "hello\n").unwrap();
        // `git hash-object` and `sha256sum` of the same six bytes.
        let git = Digest::parse("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        let sha256 =
            Digest::parse("5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03")
                .unwrap();
        let of = |digest: &Digest| {
            sums(&path, Some(digest), &CancelToken::new())
                .unwrap()
                .unwrap()
        };
        assert_eq!(of(&git).size, 6);
        assert!(of(&git).matches(&git) && of(&git).matches(&sha256));
        assert!(!of(&sha256).matches(&git), "it was not asked for");
        let other = Digest::GitBlob("0".repeat(40));
        assert!(!of(&other).matches(&other));
    }

    #[test]
    fn a_cancelled_sum_stops() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hello");
        std::fs::write(&path, "hello\n").unwrap();
        let cancel = CancelToken::new();
        cancel.cancel();
        assert_eq!(sums(&path, None, &cancel).unwrap(), None);
    }
}
