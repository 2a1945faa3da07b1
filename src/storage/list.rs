//! What there is: the objects that an address means, with size, etag and time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt;
use globset::GlobBuilder;
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};

use super::Child;
use super::address::{Address, Scheme};
use super::failure::Failure;
use super::refusal::{Doing, is_denied, is_missing, says_nothing};
use super::store::{Location, Storage};
use crate::error::{Error, Result};
use crate::model::hub::{dataset, dataset_address};

/// An object that was found. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Object {
    pub(super) storage: Storage,
    pub(super) location: Location,
    address: Address,
    size: u64,
    etag: Option<String>,
    modified: Option<SystemTime>,
}

/// An etag without its quotes: Azure quotes it in its header, and not where it lists.
pub(super) fn bare(etag: Option<&str>) -> Option<String> {
    etag.map(|it| it.trim_matches('"').to_owned())
}

/// By address: that is what it is called.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl Eq for Object {}

impl Object {
    /// What it is called.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What names its content, where the store tells; of a dataset the commit.
    #[must_use]
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// When it was last written, where the store tells.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    fn new(storage: &Storage, location: Location, address: Address, meta: &ObjectMeta) -> Self {
        let seconds = u64::try_from(meta.last_modified.timestamp()).unwrap_or(0);
        Self {
            storage: storage.clone(),
            location,
            address,
            size: meta.size,
            etag: meta.e_tag.clone(),
            // The time nothing says is the beginning of time.
            modified: (seconds > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
        }
    }

    /// What stands beside it, with `ending` after its name, if there is something. A signed address is signed for
    /// one object alone.
    ///
    /// # Errors
    /// If the store refuses.
    pub fn beside(&self, ending: &str) -> Result<Option<Self>> {
        if self.address.scheme().is_web() && self.address.key().contains('?') {
            return Ok(None);
        }
        self.storage.look_for(&self.address.with_ending(ending))
    }

    /// Whether what a store says of an object is still what was listed. The Hub's storage has etags of its own,
    /// and a commit never changes.
    pub(super) fn is_still(&self, meta: &ObjectMeta) -> bool {
        let same_etag = self.address.scheme() == Scheme::Hub
            || bare(self.etag.as_deref()) == bare(meta.e_tag.as_deref());
        same_etag && self.size == meta.size
    }
}

impl Storage {
    /// The objects that `address` means: the one of that name, those that a pattern fits, or all below a prefix,
    /// sorted by address.
    ///
    /// # Errors
    /// If there is none, or the store refuses; either says what helps.
    pub fn list(&self, address: &Address) -> Result<Vec<Object>> {
        let several = address.is_pattern() || address.is_prefix();
        let mut objects = match several {
            false => vec![self.look(address)?],
            true if address.scheme() == Scheme::Hub => self.list_dataset(address)?,
            true => self.list_below(address)?,
        };
        if address.is_pattern() {
            let pattern = GlobBuilder::new(address.key())
                .literal_separator(true)
                .build()
                .map_err(|error| {
                    Error::usage(format!("'{address}' is no pattern: {}", error.kind()))
                })?
                .compile_matcher();
            objects.retain(|object| pattern.is_match(object.address.key()));
        } else if several {
            // What consoles make to show a folder.
            objects.retain(|object| !object.address.key().ends_with('/'));
        }
        objects.sort_by(|one, other| one.address.cmp(&other.address));
        if objects.is_empty() {
            let what = match address.is_pattern() {
                true => "no object fits the pattern",
                false => "there is no object below it",
            };
            return Err(Error::usage(format!("{address}: {what}")).with_remedy("check its name"));
        }
        Ok(objects)
    }

    /// Names, sizes and etags of the objects directly below a prefix, sorted; none where there is nothing. What has
    /// objects below it in turn ends in a slash.
    ///
    /// # Errors
    /// If the store refuses.
    pub fn children(&self, prefix: &Address) -> Result<Vec<Child>> {
        let below = prefix.with_key(prefix.key().trim_end_matches('/'));
        let Location { store, path } = self.location(&below, None)?;
        let list = async move { store.list_with_delimiter(Some(&path)).await };
        let listed = self.wait(prefix, Doing::List, list)?;
        let name = |path: &Path| path.filename().unwrap_or_default().to_owned();
        let objects = listed.objects.iter().map(|meta| Child {
            name: name(&meta.location),
            size: meta.size,
            etag: bare(meta.e_tag.as_deref()),
        });
        let prefixes = listed.common_prefixes.iter().map(|path| Child {
            name: format!("{}/", name(path)),
            size: 0,
            etag: None,
        });
        let mut found: Vec<_> = objects.chain(prefixes).collect();
        found.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(found)
    }

    /// One object by its name, if there is one. What a web server does not let one see is not there.
    ///
    /// # Errors
    /// If the store refuses.
    pub fn look_for(&self, address: &Address) -> Result<Option<Object>> {
        if address.scheme() == Scheme::Hub {
            return Ok(self.list_dataset(address)?.into_iter().next());
        }
        let is_hidden = |failure: &Failure| address.scheme().is_web() && is_denied(failure);
        let location = self.location(address, None)?;
        match self.head(&location)? {
            Ok(meta) => Ok(Some(Object::new(self, location, address.clone(), &meta))),
            Err(failure) if is_missing(&failure) || is_hidden(&failure) => Ok(None),
            Err(failure) => Err(self.explain(address, Doing::Read, failure)),
        }
    }

    /// One object by its name.
    ///
    /// # Errors
    /// If it is not there, or the store refuses.
    pub fn look(&self, address: &Address) -> Result<Object> {
        if address.scheme() == Scheme::Hub {
            let found = self.look_for(address)?;
            return found.ok_or_else(|| missing(address, false));
        }
        let location = self.location(address, None)?;
        let failure = match self.head(&location)? {
            Ok(meta) => return Ok(Object::new(self, location, address.clone(), &meta)),
            Err(failure) => failure,
        };
        if address.scheme().is_web() {
            // An address may be signed for `GET` alone. Its body is not read.
            let (store, path) = (location.store.clone(), location.path.clone());
            let got = async move { Ok(store.get_opts(&path, GetOptions::default()).await?.meta) };
            return match self.attempt(got)? {
                Ok(meta) => Ok(Object::new(self, location, address.clone(), &meta)),
                Err(failure) if is_missing(&failure) => Err(missing(address, false)),
                Err(failure) => Err(self.explain(address, Doing::Read, failure)),
            };
        }
        if is_missing(&failure) || is_denied(&failure) || says_nothing(&failure) {
            let prefix = Path::parse(address.key()).unwrap_or_default();
            let store = location.store.clone();
            let first = async move { store.list(Some(&prefix)).try_next().await };
            match self.attempt(first)? {
                Ok(below) if is_missing(&failure) => {
                    return Err(missing(address, below.is_some()));
                }
                Err(why) if is_missing(&failure) && is_denied(&why) => {
                    return Err(missing(address, false));
                }
                Err(why) => return Err(self.explain(address, Doing::Read, why)),
                Ok(_) => {}
            }
        }
        Err(self.explain(address, Doing::Read, failure))
    }

    /// What a store says of one name.
    pub(super) fn head(&self, location: &Location) -> Result<Result<ObjectMeta, Failure>> {
        let Location { store, path } = location.clone();
        self.attempt(async move { store.head(&path).await })
    }

    /// Everything below a prefix, or below the folders in which a pattern begins.
    fn list_below(&self, address: &Address) -> Result<Vec<Object>> {
        let below = address.with_key(address.fixed_prefix().trim_end_matches('/'));
        let Location { store, path } = self.location(&below, None)?;
        let listed = Arc::clone(&store);
        let list = async move { listed.list(Some(&path)).try_collect().await };
        let found: Vec<ObjectMeta> = self.wait(address, Doing::List, list)?;
        let object = |meta: ObjectMeta| {
            let location = Location {
                store: Arc::clone(&store),
                path: meta.location.clone(),
            };
            let address = address.with_key(meta.location.as_ref());
            Object::new(self, location, address, &meta)
        };
        Ok(found.into_iter().map(object).collect())
    }

    fn list_dataset(&self, address: &Address) -> Result<Vec<Object>> {
        let id = address.bucket();
        let dataset = dataset(self.settings(), self.cancel(), id)?;
        let several = address.is_pattern() || address.is_prefix();
        let is_meant = |path: &str| match several {
            true => path.starts_with(address.fixed_prefix()),
            false => path == address.key(),
        };
        let meant = dataset.files.iter().filter(|(path, _)| is_meant(path));
        meant
            .map(|(path, size)| {
                let url = dataset_address(self.settings(), id, &dataset.commit, path);
                let one = address.with_key(path.as_str());
                let size = size.ok_or_else(|| {
                    Error::usage(format!("{one}: the Hub does not tell how long it is"))
                })?;
                Ok(Object {
                    storage: self.clone(),
                    location: self.location(&one, Some(url))?,
                    address: one,
                    size,
                    etag: Some(dataset.commit.clone()),
                    modified: None,
                })
            })
            .collect()
    }
}

fn missing(address: &Address, is_folder: bool) -> Error {
    let remedy = if is_folder {
        format!("there are objects below that name: write {address}/ for all of them")
    } else {
        "check its name".to_owned()
    };
    Error::usage(format!("there is no object {address}")).with_remedy(remedy)
}
