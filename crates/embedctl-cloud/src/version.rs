//! The version of an object's content: size, ETag and time of change, as every response gives them.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use chrono::DateTime;
use http::HeaderMap;
use http::header::{DATE, ETAG, LAST_MODIFIED};
use object_store::{Extensions, GetResult, ObjectMeta};

use embedctl_common::threads::locked;
use embedctl_storage::bare_etag;

/// `Last-Modified` has whole seconds: a change within the second of the answer could leave it as it was.
const SETTLED: Duration = Duration::from_secs(2);

/// One content of an object.
#[derive(Debug, Clone)]
pub(super) struct Version {
    /// Bytes.
    pub size: u64,
    /// Strong, or weak (`W/"…"`).
    pub etag: Option<String>,
    /// In whole seconds.
    pub modified: Option<SystemTime>,
    /// Whether another content would have another ETag or time.
    pub is_certain: bool,
}

/// Headers of a web server's answer that `object_store` drops or misuses. They travel as the answer's extension.
#[derive(Debug, Clone)]
struct WebHeaders {
    weak_etag: Option<String>,
    date: Option<SystemTime>,
}

/// The content of an answer without a length, which was fetched to its end. It travels as the answer's extension, and is
/// read as the answer's body until it is taken.
#[derive(Debug, Clone)]
pub(super) struct FetchedBody(Arc<Mutex<Option<File>>>);

impl FetchedBody {
    pub(super) fn new(file: File) -> Self {
        Self(Arc::new(Mutex::new(Some(file))))
    }

    /// The file; its body is at its end then. `None` if it was taken before.
    pub(super) fn take(&self) -> Option<File> {
        locked(&self.0).take()
    }
}

impl Read for FetchedBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut *locked(&self.0) {
            Some(file) => file.read(buffer),
            None => Ok(0),
        }
    }
}

/// Removes headers from a web server's response that `object_store` misuses: a weak ETag, by which it would resume a
/// body without looking at the time, and a time in no known form.
pub(super) fn keep_besides(headers: &mut HeaderMap, extensions: &mut Extensions) {
    let time = |headers: &HeaderMap, name| {
        let text = headers.get(name)?.to_str().ok()?;
        Some(SystemTime::from(DateTime::parse_from_rfc2822(text).ok()?))
    };
    if time(headers, LAST_MODIFIED).is_none() {
        headers.remove(LAST_MODIFIED);
    }
    let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok());
    let weak_etag = etag.filter(|etag| is_weak(etag)).map(str::to_owned);
    if weak_etag.is_some() {
        headers.remove(ETAG);
    }
    let date = time(headers, DATE);
    extensions.insert(WebHeaders { weak_etag, date });
}

impl Version {
    /// As a listing gives it.
    pub(super) fn listed(meta: &ObjectMeta) -> Self {
        Self::new(meta, None)
    }

    /// As an answer about this object alone gives it.
    pub(super) fn answered(got: &GetResult) -> Self {
        Self::new(&got.meta, got.extensions.get())
    }

    /// A content that its address names and that never changes.
    pub(super) fn fixed(size: u64, etag: String) -> Self {
        Self {
            size,
            etag: Some(etag),
            modified: None,
            is_certain: true,
        }
    }

    fn new(meta: &ObjectMeta, besides: Option<&WebHeaders>) -> Self {
        let seconds = u64::try_from(meta.last_modified.timestamp()).unwrap_or(0);
        // Without a time, `object_store` gives the beginning of all times.
        let modified = (seconds > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let weak = besides.and_then(|besides| besides.weak_etag.clone());
        let etag = meta.e_tag.clone().or(weak);
        let date = besides.and_then(|besides| besides.date);
        let now = date.unwrap_or_else(SystemTime::now);
        let is_settled = |modified| now.duration_since(modified).is_ok_and(|age| age >= SETTLED);
        Self {
            size: meta.size,
            is_certain: etag.is_some() || modified.is_some_and(is_settled),
            etag,
            modified,
        }
    }

    /// Whether `other`, of a later answer, is the same content as far as both tell. A strong ETag decides alone; else
    /// everything counts that this one had.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        if self.size != other.size || !self.is_certain {
            return self.size == other.size;
        }
        let same_etag = bare_etag(self.etag.as_deref()) == bare_etag(other.etag.as_deref());
        match &self.etag {
            Some(etag) if !is_weak(etag) => same_etag,
            etag => {
                (etag.is_none() || same_etag)
                    && (self.modified.is_none() || self.modified == other.modified)
            }
        }
    }
}

fn is_weak(etag: &str) -> bool {
    etag.starts_with("W/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(size: u64, etag: Option<&str>, modified: Option<u64>, date: u64) -> Version {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let meta = ObjectMeta {
            location: object_store::path::Path::default(),
            last_modified: time(modified.unwrap_or(0)).into(),
            size,
            e_tag: etag.filter(|etag| !is_weak(etag)).map(str::to_owned),
            version: None,
        };
        let besides = WebHeaders {
            weak_etag: etag.filter(|etag| is_weak(etag)).map(str::to_owned),
            date: Some(time(date)),
        };
        Version::new(&meta, Some(&besides))
    }

    #[test]
    fn every_validator_that_was_told_counts() {
        let (strong, weak) = (Some("\"1\""), Some("W/\"1\""));
        for (one, other, is_same) in [
            // A strong ETag decides: machines behind one name have files of different times.
            ((9, strong, Some(50)), (9, Some("1"), Some(60)), true),
            ((9, strong, Some(50)), (9, Some("\"2\""), Some(50)), false),
            ((9, strong, None), (8, strong, None), false),
            ((9, strong, None), (9, None, None), false),
            // A weak one with the time.
            ((9, weak, Some(50)), (9, weak, Some(50)), true),
            ((9, weak, Some(50)), (9, weak, Some(51)), false),
            ((9, weak, Some(50)), (9, Some("W/\"2\""), Some(50)), false),
            ((9, weak, Some(50)), (9, weak, None), false),
            ((9, weak, None), (9, weak, Some(50)), true),
            // A time alone.
            ((9, None, Some(50)), (9, None, Some(50)), true),
            ((9, None, Some(50)), (9, None, Some(51)), false),
            ((9, None, Some(50)), (8, None, Some(50)), false),
            ((9, None, Some(50)), (9, strong, Some(50)), true),
        ] {
            let of = |(size, etag, modified)| version(size, etag, modified, 99);
            assert!(of(one).is_certain);
            assert_eq!(of(one).is_same(&of(other)), is_same, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_time_of_just_now_tells_nothing() {
        for (modified, is_certain) in [(97, true), (98, false), (99, false), (100, false)] {
            assert_eq!(version(9, None, Some(modified), 99).is_certain, is_certain);
        }
        assert!(!version(9, None, None, 99).is_certain);
        assert!(version(9, Some("W/\"1\""), Some(99), 99).is_certain);
    }
}
