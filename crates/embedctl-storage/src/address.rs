//! Addresses of objects as people write them: `s3://bucket/key`, `hf://datasets/org/name/file`.
//!
//! Known without the feature `cloud`, too, so that a program built without it can say what it lacks.

use std::fmt;
use std::path::Path;

use embedctl_common::error::{Error, Result};
use embedctl_common::named::named;
use embedctl_common::secrets::shown_address;

named! {
    /// The scheme, before `://`.
    #[derive(PartialOrd, Ord)]
    pub enum Scheme {
        /// Amazon S3 and compatible stores; also as `s3a://`.
        S3 = "s3",
        /// Google Cloud Storage.
        Gs = "gs",
        /// Azure Blob Storage.
        Az = "az",
        /// A web server.
        Http = "http",
        /// The same, encrypted.
        Https = "https",
        /// A dataset on the Hub: `hf://datasets/`.
        Hub = "hf",
    }
}

impl Scheme {
    /// Whether objects can be written there.
    #[must_use]
    pub fn is_writable(self) -> bool {
        matches!(self, Self::S3 | Self::Gs | Self::Az)
    }

    /// Whether it is a server of single files, which cannot be listed.
    #[must_use]
    pub fn is_web(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// The address of an object, of several (a pattern), or of all below a prefix (with a slash at its end).
///
/// Displayed without possible secrets: a password before the host, and a signature after `?`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    scheme: Scheme,
    /// Bucket or container; host and port, with the part before its `@`; `org/name@revision`.
    bucket: String,
    /// The object's name, as it is; percent-escaped and with its query for a web server.
    key: String,
}

impl Address {
    /// Whether a text is meant as an address and not as a path: `word://…`.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        })
    }

    /// The same for a path as the command line gives it.
    #[must_use]
    pub fn is_url_path(path: &Path) -> bool {
        path.to_str().is_some_and(Self::is_url)
    }

    /// Reads an address.
    ///
    /// # Errors
    /// If its scheme is unknown, or it lacks a bucket, a host or a dataset.
    pub fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Gs,
            "az" => Scheme::Az,
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "hf" => return Self::dataset(text, rest),
            other => {
                let remedy = match other {
                    "file" => "write the path alone, without file://",
                    "abfs" | "abfss" | "azure" | "wasb" | "wasbs" => {
                        "write az://CONTAINER/PATH, and name the account with AZURE_STORAGE_ACCOUNT_NAME"
                    }
                    "gcs" => "write gs://BUCKET/PATH",
                    _ => "addresses begin with s3://, gs://, az://, https:// or hf://datasets/",
                };
                return Err(Error::usage(format!(
                    "'{}' begins with {other}://, which is not known",
                    shown_address(text)
                ))
                .with_remedy(remedy));
            }
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            let lacks = match scheme {
                Scheme::Http | Scheme::Https => "host",
                Scheme::Az => "container",
                _ => "bucket",
            };
            return Err(
                Error::usage(format!("'{}' names no {lacks}", shown_address(text))).with_remedy(
                    format!(
                        "write it as {}://{}/PATH",
                        scheme.name(),
                        lacks.to_uppercase()
                    ),
                ),
            );
        }
        if scheme.is_writable() {
            Self::refuse_secrets(scheme, text, bucket, key)?;
        }
        Ok(Self {
            scheme,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Addresses of buckets hold no credentials: they would stand in messages and outputs.
    fn refuse_secrets(scheme: Scheme, text: &str, bucket: &str, key: &str) -> Result<()> {
        let (_, query) = key.split_once('?').unwrap_or_default();
        let query = query.to_ascii_lowercase();
        let is_signed = "x-amz- x-goog- signature= sig="
            .split_ascii_whitespace()
            .any(|word| query.contains(word));
        let (what, remedy) = if bucket.contains(['@', ':']) {
            let remedy = "leave out what stands before the name, and set the store's own variables (AWS_ACCESS_KEY_ID \
                          and AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_ACCOUNT_KEY, GOOGLE_APPLICATION_CREDENTIALS)";
            ("credentials", remedy)
        } else if is_signed {
            (
                "a signature",
                "write the signed address as it was given, with https://",
            )
        } else {
            return Ok(());
        };
        let name = scheme.name();
        let shown = shown_address(text);
        Err(
            Error::usage(format!("'{shown}' holds {what}, but {name}:// takes none"))
                .with_remedy(remedy),
        )
    }

    /// `datasets/org/name[@revision]/path`, as `huggingface_hub` reads it.
    fn dataset(text: &str, rest: &str) -> Result<Self> {
        let wrong = || {
            Error::usage(format!("'{}' names no file of a dataset", shown_address(text))).with_remedy(
                "write it as hf://datasets/ORG/NAME/PATH or hf://datasets/ORG/NAME@REVISION/PATH, where PATH \
                 may be a pattern such as data/*.parquet",
            )
        };
        let rest = rest.strip_prefix("datasets/").ok_or_else(wrong)?;
        let (org, rest) = rest.split_once('/').ok_or_else(wrong)?;
        let (name, key) = rest.split_once('/').ok_or_else(wrong)?;
        // Branches with slashes that the Hub makes itself.
        let (mut bucket, mut key) = (format!("{org}/{name}"), key.to_owned());
        if name.ends_with("@refs") {
            let mut parts = key.splitn(3, '/');
            if let (Some(kind @ ("convert" | "pr")), Some(which), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            {
                bucket = format!("{bucket}/{kind}/{which}");
                key = path.to_owned();
            }
        }
        Ok(Self {
            scheme: Scheme::Hub,
            bucket: bucket.replace("%2F", "/").replace("%2f", "/"),
            key,
        })
    }

    /// The kind of place.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Bucket, container or dataset; of a web server also the part before the `@`.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The object's name in the bucket; of a web server with the query.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The same place, another object.
    #[must_use]
    pub fn with_key(&self, key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            ..self.clone()
        }
    }

    /// The object beside it, with `ending` after its name.
    #[must_use]
    pub fn with_ending(&self, ending: &str) -> Self {
        self.with_key(format!("{}{ending}", self.key))
    }

    /// Whether it means all objects below it.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        !self.scheme.is_web() && (self.key.is_empty() || self.key.ends_with('/'))
    }

    /// Whether it is a pattern. A web server's files cannot be listed, and `?` begins its query.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        !self.scheme.is_web() && self.key.contains(['*', '?', '[', '{'])
    }

    /// The folders before the first one that is a pattern, with their last slash.
    #[must_use]
    pub fn fixed_prefix(&self) -> &str {
        let fixed = self.key.split(['*', '?', '[', '{']).next().unwrap_or("");
        &fixed[..fixed.rfind('/').map_or(0, |slash| slash + 1)]
    }

    /// Its path, by whose ending the format is known.
    #[must_use]
    pub fn path(&self) -> &Path {
        let key = match self.scheme.is_web() {
            true => self.key.split(['?', '#']).next().unwrap_or_default(),
            false => &self.key,
        };
        Path::new(key)
    }

    /// The address as it is asked for, secrets and all.
    #[must_use]
    pub fn in_full(&self) -> String {
        format!("{}://{}/{}", self.scheme.name(), self.bucket, self.key)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::Hub => write!(f, "hf://datasets/{}/{}", self.bucket, self.key),
            scheme if scheme.is_web() => f.write_str(&shown_address(&self.in_full())),
            _ => f.write_str(&self.in_full()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, scheme, bucket, key, shown) in [
            (
                "s3://b/a b/c#d?.jsonl",
                Scheme::S3,
                "b",
                "a b/c#d?.jsonl",
                "s3://b/a b/c#d?.jsonl",
            ),
            ("S3A://b/x", Scheme::S3, "b", "x", "s3://b/x"),
            ("gs://b", Scheme::Gs, "b", "", "gs://b/"),
            (
                "https://me:pw@host:8443/a/b.jsonl.gz?X-Amz-Signature=5ecret",
                Scheme::Https,
                "me:pw@host:8443",
                "a/b.jsonl.gz?X-Amz-Signature=5ecret",
                "https://host:8443/a/b.jsonl.gz",
            ),
            (
                "hf://datasets/org/name@v1/data/*.parquet",
                Scheme::Hub,
                "org/name@v1",
                "data/*.parquet",
                "hf://datasets/org/name@v1/data/*.parquet",
            ),
            (
                "hf://datasets/org/name@refs/convert/parquet/default/0.parquet",
                Scheme::Hub,
                "org/name@refs/convert/parquet",
                "default/0.parquet",
                "hf://datasets/org/name@refs/convert/parquet/default/0.parquet",
            ),
            (
                "hf://datasets/org/name@refs%2Fpr%2F1/x",
                Scheme::Hub,
                "org/name@refs/pr/1",
                "x",
                "hf://datasets/org/name@refs/pr/1/x",
            ),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                (address.scheme, address.bucket(), address.key()),
                (scheme, bucket, key),
                "{text}"
            );
            assert_eq!(address.to_string(), shown);
        }
    }

    #[test]
    fn what_is_none_says_how_to_write_it() {
        for (text, part) in [
            ("ftp://host/x", "s3://, gs://, az://"),
            ("file:///tmp/x", "without file://"),
            ("abfss://c@a.dfs.core.windows.net/x", "az://CONTAINER"),
            ("s3:///x", "names no bucket"),
            ("https:///x", "names no host"),
            ("hf://org/name/x", "hf://datasets/ORG/NAME/PATH"),
            ("hf://datasets/org/name", "hf://datasets/ORG/NAME/PATH"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let error = Address::parse("ftp://me:pw@host/x?sig=1").unwrap_err();
        assert!(!error.to_string().contains("pw") && !error.to_string().contains("sig"));
    }

    #[test]
    fn only_a_scheme_makes_a_url() {
        for (text, is_url) in [
            ("s3://b", true),
            ("nothing://x", true),
            ("a/b://c", false),
            ("C:\\x", false),
            ("://x", false),
            ("s3:/x", false),
        ] {
            assert_eq!(Address::is_url(text), is_url, "{text}");
        }
    }

    #[test]
    fn patterns_and_prefixes_are_told_from_names() {
        let of = |text: &str| {
            let address = Address::parse(text).unwrap();
            let fixed = address.fixed_prefix().to_owned();
            (address.is_prefix(), address.is_pattern(), fixed)
        };
        assert_eq!(of("s3://b/a/"), (true, false, "a/".into()));
        assert_eq!(of("s3://b"), (true, false, String::new()));
        assert_eq!(of("s3://b/a/b-*/c.txt"), (false, true, "a/".into()));
        assert_eq!(of("s3://b/*"), (false, true, String::new()));
        assert_eq!(of("https://h/a?b=*"), (false, false, String::new()));
    }
}
