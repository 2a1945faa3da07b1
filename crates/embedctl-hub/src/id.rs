//! Names of models on the Hub, checked before they become paths or addresses.

use std::fmt;
use std::str::FromStr;

/// The branch that is meant where none is named.
const DEFAULT_REVISION: &str = "main";

/// A repository, and a branch, tag or commit of it: `org/name@revision`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelId {
    /// `org/name`, or `name` for the Hub's oldest repositories.
    pub repository: String,
    /// Branch, tag, `refs/pr/N`, or full commit.
    pub revision: String,
}

impl ModelId {
    /// An id of a repository and a revision. Both are checked, since they become paths and addresses.
    ///
    /// # Errors
    /// If there can be no such repository or revision; the reason names it.
    pub fn new(repository: &str, revision: &str) -> Result<Self, String> {
        let is_name = |part: &str| {
            !part.is_empty()
                && !part.starts_with(['.', '-'])
                && !part.ends_with('.')
                // The cache writes the slash as two dashes: such a name would share another's folder.
                && !part.contains("--")
                && !part.contains("..")
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let is_repository =
            repository.split('/').count() <= 2 && repository.split('/').all(is_name);
        if !is_repository || !is_path(revision) {
            return Err(format!(
                "'{repository}@{revision}' is not a Hub id of the form org/name or org/name@revision"
            ));
        }
        Ok(Self {
            repository: repository.to_owned(),
            // Folders are called by commits: one spelling for each.
            revision: if is_commit(revision) {
                revision.to_ascii_lowercase()
            } else {
                revision.to_owned()
            },
        })
    }

    /// Whether the revision is a full commit, whose content can never change.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        is_commit(&self.revision)
    }

    /// The repositories that may be meant, the likeliest first: a name without an organization is one of
    /// sentence-transformers', as there, or else one of the Hub's oldest.
    #[must_use]
    pub fn meanings(&self) -> Vec<Self> {
        if self.repository.contains('/') {
            return vec![self.clone()];
        }
        let repository = format!("sentence-transformers/{}", self.repository);
        let revision = self.revision.clone();
        vec![
            Self {
                repository,
                revision,
            },
            self.clone(),
        ]
    }

    /// The same repository at a commit.
    #[must_use]
    pub fn at(&self, commit: &str) -> Self {
        Self {
            repository: self.repository.clone(),
            revision: commit.to_owned(),
        }
    }
}

/// Whether a revision is a full commit: 40 hexadecimal digits.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.revision == DEFAULT_REVISION {
            f.write_str(&self.repository)
        } else {
            write!(f, "{}@{}", self.repository, self.revision)
        }
    }
}

impl FromStr for ModelId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (repository, revision) = text.split_once('@').unwrap_or((text, DEFAULT_REVISION));
        Self::new(repository, revision).map_err(|_| {
            format!("'{text}' is not a Hub id of the form org/name or org/name@revision")
        })
    }
}

/// Whether a text is a path that stays inside the folder it is joined to, on every system.
pub(super) fn is_path(path: &str) -> bool {
    path.split('/').all(is_file_name)
}

/// Whether a text is the name of one file or folder on every system, and not the way to another.
pub(super) fn is_file_name(name: &str) -> bool {
    let stem = name
        .split('.')
        .next()
        .unwrap_or_default()
        .to_ascii_uppercase();
    let is_device = match stem.as_bytes() {
        b"CON" | b"PRN" | b"AUX" | b"NUL" => true,
        [b'C', b'O', b'M', number] | [b'L', b'P', b'T', number] => number.is_ascii_digit(),
        _ => false,
    };
    !name.is_empty()
        && name.len() <= 255
        // Windows leaves dots and blanks at the end out: "..." and ".. " are the way up as well.
        && !name.ends_with(['.', ' '])
        && !name.contains(|character: char| matches!(character, '/' | '\\' | ':') || character.is_control())
        && !is_device
}

/// A path inside a repository, or a revision, as part of an address.
pub(super) fn escaped(text: &str, keep_slashes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || b"-_.~".contains(&byte)
            || (keep_slashes && byte == b'/');
        if plain {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_with_and_without_a_revision() {
        for (text, repository, revision) in [
            ("org/name", "org/name", "main"),
            ("gpt2", "gpt2", "main"),
            ("org/name@v1.0", "org/name", "v1.0"),
            ("org/name@refs/pr/7", "org/name", "refs/pr/7"),
        ] {
            let id: ModelId = text.parse().unwrap();
            assert_eq!(
                (id.repository.as_str(), id.revision.as_str()),
                (repository, revision)
            );
            assert_eq!(id.to_string(), text);
        }
        for wrong in [
            "",
            "/",
            "a/b/c",
            "../x",
            "org/../x",
            "./x",
            "org/na me",
            "org/name@",
            "org/name@../x",
            "org/name@a//b",
            "org/name@C:\\x",
            "-x/y",
            "org/a--b",
            "org/a..b",
            "org/name.",
            "org/name@a\nb",
        ] {
            assert!(wrong.parse::<ModelId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_full_commit_pins() {
        let id: ModelId = format!("org/name@{}", "a1".repeat(20)).parse().unwrap();
        assert!(id.is_pinned());
        let capitals: ModelId = format!("org/name@{}", "A1".repeat(20)).parse().unwrap();
        assert_eq!(capitals, id);
        assert!(!"org/name@a1a1".parse::<ModelId>().unwrap().is_pinned());
    }

    #[test]
    fn paths_stay_inside() {
        for inside in [
            "a",
            "onnx/model.onnx",
            "1_Pooling/config.json",
            "..a/b",
            "console.json",
        ] {
            assert!(is_path(inside), "{inside}");
        }
        for outside in [
            "",
            "/a",
            "a/",
            "a//b",
            "../a",
            "a/../b",
            "a\\b",
            "c:a",
            "a/./b",
            ".. /a",
            "a.",
            "a\n",
            "\u{1b}[2J",
            "\u{9b}x",
            "nul",
            "a/COM1.txt",
            "Aux.json",
        ] {
            assert!(!is_path(outside), "{outside}");
        }
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(escaped("a b/c#d?.json", true), "a%20b/c%23d%3F.json");
        assert_eq!(escaped("refs/pr/1", false), "refs%2Fpr%2F1");
    }
}
