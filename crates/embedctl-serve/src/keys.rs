//! The keys of clients, from a file.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::API_KEY_FILE;
use embedctl_common::{hash, small_file};

/// A longer file holds no keys.
const MAX_BYTES: u64 = 1 << 20;

/// Keys of clients. Their hashes alone are kept: a comparison of hashes takes no time that tells anything about a key.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeys(BTreeSet<String>);

impl ApiKeys {
    /// Reads a file with a key on each line. Empty lines, and lines that begin with `#`, are none.
    ///
    /// # Errors
    /// If it cannot be read, has no key, or a key that no header could hold.
    pub fn read(path: &Path) -> Result<Self> {
        let text = small_file::read_text(path, MAX_BYTES)
            .map_err(|error| Error::io("read", path, error))?;
        let refuse = |reason: &str| {
            Error::usage(format!("{API_KEY_FILE} {}: {reason}", path.display()))
                .with_remedy("write one key per line, of visible ASCII characters")
        };
        let mut keys = BTreeSet::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(refuse("a key has characters that a header cannot hold"));
            }
            keys.insert(hash::of(line));
        }
        if keys.is_empty() {
            return Err(refuse("it has no key"));
        }
        Ok(Self(keys))
    }

    /// Whether the value of a header `Authorization` has one of them: as programs send it (`Bearer KEY`), or as the password
    /// that a browser asks a person for (`Basic`, with any name).
    pub(crate) fn allow(&self, header: Option<&[u8]>) -> bool {
        let header = header.unwrap_or_default().trim_ascii();
        let Some(space) = header.iter().position(|&byte| byte == b' ') else {
            return false;
        };
        let (scheme, value) = (&header[..space], header[space..].trim_ascii());
        let is_known = |key: &[u8]| self.0.contains(&hash::of(key));
        if scheme.eq_ignore_ascii_case(b"bearer") {
            return is_known(value);
        }
        let decoded = STANDARD.decode(value).unwrap_or_default();
        let colon = decoded.iter().position(|&byte| byte == b':');
        scheme.eq_ignore_ascii_case(b"basic")
            && colon.is_some_and(|at| is_known(&decoded[at + 1..]))
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<ApiKeys> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        ApiKeys::read(file.path())
    }

    #[test]
    fn a_key_is_one_of_the_files_lines() {
        let keys = keys("# team\nsk-1\n\n  sk-2 \r\n").unwrap();
        for (header, allowed) in [
            ("Bearer sk-1", true),
            ("bearer sk-2", true),
            ("Bearer  sk-1 ", true),
            ("Bearer sk-3", false),
            ("Bearer ", false),
            ("Bearer # team", false),
            ("Basic sk-1", false),
            ("Basic Om5v", false),
            ("Basic OnNrLTE=", true),
            ("basic YW5uYTpzay0y", true),
            ("Basic c2stMTp4", false),
            ("Digest sk-1", false),
            ("sk-1", false),
            ("", false),
        ] {
            assert_eq!(keys.allow(Some(header.as_bytes())), allowed, "{header:?}");
        }
        assert!(!keys.allow(None));
        assert!(!format!("{keys:?}").contains("sk"));
    }

    #[test]
    fn a_file_without_keys_is_refused() {
        for text in ["", "# only this\n", "k\u{e9}y\n", "two words\n"] {
            let error = keys(text).unwrap_err().to_string();
            assert!(error.contains("--api-key-file"), "{error}");
            assert!(!error.contains("words"), "no key is shown: {error}");
        }
    }
}
