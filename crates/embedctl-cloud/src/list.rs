//! Listings: the objects that an address means, with size, etag and time.

use std::collections::HashSet;
use std::fs::File;
use std::future::Future;
use std::sync::Arc;

use globset::GlobBuilder;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, ListResult, ObjectMeta, ObjectStore};

use super::failure::Failure;
use super::local_copy::LocalCopy;
use super::refusal::{Operation, is_denied, is_missing, says_nothing};
use super::store::{Bucket, ObjectLocation, Stores};
use super::version::{FetchedBody, Version};
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_hub::{dataset, dataset_address};
use embedctl_storage::{Address, Child, Scheme, bare_etag, sidecar_key};

/// An object that was found, and the store that has it. Cloning it is cheap.
#[derive(Debug, Clone)]
pub(super) struct FoundObject {
    pub(super) storage: Stores,
    pub(super) location: ObjectLocation,
    address: Address,
    version: Version,
    /// Shared by all clones.
    pub(super) copy: Arc<LocalCopy>,
}

impl FoundObject {
    /// Its address.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.version.size
    }

    /// The version of its content (an ETag), if the store gives one; of a dataset the commit.
    pub(super) fn etag(&self) -> Option<&str> {
        self.version.etag.as_deref()
    }

    fn new(storage: &Stores, location: ObjectLocation, address: Address, version: Version) -> Self {
        Self {
            storage: storage.clone(),
            location,
            address,
            version,
            copy: Arc::default(),
        }
    }

    /// The object beside it, with `ending` after its name, if there is one. A signed address is signed for one object
    /// alone.
    ///
    /// # Errors
    /// If the store refuses.
    pub(super) fn beside(&self, ending: &str) -> Result<Option<Self>> {
        if self.address.scheme().is_web() && self.address.key().contains('?') {
            return Ok(None);
        }
        let beside = self.address.with_ending(ending);
        let instead = sidecar_key(beside.key()).map(|key| beside.with_key(key));
        match (self.storage.look_for(&beside)?, instead) {
            (None, Some(instead)) => self.storage.look_for(&instead),
            (found, _) => Ok(found),
        }
    }

    /// Whether the content of an answer is still the one that was listed. The Hub's storage has ETags of its own, and a
    /// commit never changes.
    pub(super) fn is_still(&self, answered: &Version) -> bool {
        match self.address.scheme() {
            Scheme::Hub => self.version.size == answered.size,
            _ => self.version.is_same(answered),
        }
    }

    /// Whether every later answer can be told from that of another content.
    pub(super) fn is_certain(&self) -> bool {
        self.version.is_certain
    }
}

impl Stores {
    /// The objects of `address`: the one with that name, all that match a pattern, or all below a prefix,
    /// sorted by address.
    ///
    /// # Errors
    /// If there is none, or the store refuses; both errors have a remedy.
    pub(super) fn list(&self, address: &Address) -> Result<Vec<FoundObject>> {
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
                    Error::usage(format!("'{address}' is not a pattern: {}", error.kind()))
                })?
                .compile_matcher();
            objects.retain(|object| pattern.is_match(object.address.key()));
        } else if several {
            // Web consoles make these to show a folder.
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
    pub(super) fn children(&self, prefix: &Address) -> Result<Vec<Child>> {
        let listed = self.listed(prefix, prefix.key(), ListingExtent::Children)?;
        let name = |path: &Path| path.filename().unwrap_or_default().to_owned();
        let objects = listed.objects.iter().map(|meta| Child {
            name: name(&meta.location),
            size: meta.size,
            etag: bare_etag(meta.e_tag.as_deref()),
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

    /// One object by its name, if there is one. An object that a web server forbids counts as missing.
    ///
    /// # Errors
    /// If the store refuses.
    pub(super) fn look_for(&self, address: &Address) -> Result<Option<FoundObject>> {
        if address.scheme() == Scheme::Hub {
            return Ok(self.list_dataset(address)?.into_iter().next());
        }
        let is_hidden = |failure: &Failure| address.scheme().is_web() && is_denied(failure);
        let location = self.location(address, None)?;
        match self.head(&location)? {
            Ok(version) => Ok(Some(FoundObject::new(
                self,
                location,
                address.clone(),
                version,
            ))),
            Err(failure) if is_missing(&failure) || is_hidden(&failure) => Ok(None),
            Err(failure) => Err(self.explain(address, Operation::Read, failure)),
        }
    }

    /// One object by its name.
    ///
    /// # Errors
    /// If it is not there, or the store refuses.
    pub(super) fn look(&self, address: &Address) -> Result<FoundObject> {
        if address.scheme() == Scheme::Hub {
            let found = self.look_for(address)?;
            return found.ok_or_else(|| missing(address, false));
        }
        let location = self.location(address, None)?;
        let failure = match self.head(&location)? {
            Ok(version) => return Ok(FoundObject::new(self, location, address.clone(), version)),
            Err(failure) => failure,
        };
        if address.scheme().is_web() {
            // An address may be signed for `GET` alone. Its body is not read.
            return match self.get(&location)? {
                Ok((version, None)) => {
                    Ok(FoundObject::new(self, location, address.clone(), version))
                }
                // One that its server gives without a length was fetched whole, once and for all.
                Ok((version, Some(content))) => {
                    let version = Version {
                        is_certain: false,
                        ..version
                    };
                    let found = FoundObject::new(self, location, address.clone(), version);
                    let copy = Arc::new(LocalCopy::of_unknown_length(content));
                    Ok(FoundObject { copy, ..found })
                }
                Err(failure) if is_missing(&failure) => Err(missing(address, false)),
                Err(failure) => Err(self.explain(address, Operation::Read, failure)),
            };
        }
        if is_missing(&failure) || is_denied(&failure) || says_nothing(&failure) {
            let listed = pages(self.bucket(address)?, address.key(), ListingExtent::Any);
            match self.attempt(listed)? {
                Ok(below) if is_missing(&failure) => {
                    return Err(missing(
                        address,
                        below.is_ok_and(|it| !it.objects.is_empty()),
                    ));
                }
                Err(why) if is_missing(&failure) && is_denied(&why) => {
                    return Err(missing(address, false));
                }
                Err(why) => return Err(self.explain(address, Operation::Read, why)),
                Ok(_) => {}
            }
        }
        Err(self.explain(address, Operation::Read, failure))
    }

    /// The store's answer about one name.
    pub(super) fn head(&self, location: &ObjectLocation) -> Result<Result<Version, Failure>> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let ObjectLocation { store, path } = location.clone();
        self.attempt(async move {
            let got = store.get_opts(&path, options).await?;
            Ok(Version::answered(&got))
        })
    }

    /// A web server's answer about one name, with the content where the answer has no length.
    fn get(&self, location: &ObjectLocation) -> Result<Result<(Version, Option<File>), Failure>> {
        let ObjectLocation { store, path } = location.clone();
        self.attempt(async move {
            let got = store.get_opts(&path, GetOptions::default()).await?;
            let whole = got.extensions.get::<FetchedBody>();
            let content = whole.and_then(FetchedBody::take);
            Ok((Version::answered(&got), content))
        })
    }

    /// Everything below a prefix, or below the folders in which a pattern begins.
    fn list_below(&self, address: &Address) -> Result<Vec<FoundObject>> {
        let store: Arc<dyn ObjectStore> = self.bucket(address)?;
        let listed = self.listed(address, address.fixed_prefix(), ListingExtent::Everything)?;
        let object = |meta: ObjectMeta| {
            let location = ObjectLocation {
                store: Arc::clone(&store),
                path: meta.location.clone(),
            };
            let address = address.with_key(meta.location.as_ref());
            FoundObject::new(self, location, address, Version::listed(&meta))
        };
        Ok(listed.objects.into_iter().map(object).collect())
    }

    fn listed(&self, address: &Address, prefix: &str, extent: ListingExtent) -> Result<ListResult> {
        let listed = pages(self.bucket(address)?, prefix, extent);
        let listed = self.wait(address, Operation::List, listed)?;
        listed.map_err(|reason| {
            Error::new(ErrorKind::Storage, address, reason)
                .with_remedy("check the address of the store, or name a longer prefix")
        })
    }

    fn list_dataset(&self, address: &Address) -> Result<Vec<FoundObject>> {
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
                let location = self.location(&one, Some(url))?;
                let version = Version::fixed(size, dataset.commit.clone());
                Ok(FoundObject::new(self, location, one, version))
            })
            .collect()
    }
}

/// The objects below a prefix that are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListingExtent {
    /// All objects.
    Everything,
    /// Its direct children, and the names of folders.
    Children,
    /// The first page that holds an object.
    Any,
}

/// Bytes of a listing that are kept, at most: some millions of names.
const LARGEST_LISTING: usize = 1 << 30;

/// Pages without a name that may follow one another: stores may answer so where much was deleted.
const EMPTY_PAGES: u32 = 1000;

/// Requests the objects below `prefix` page by page. The inner `Err`: the listing has no end.
fn pages(
    bucket: Arc<dyn Bucket>,
    prefix: &str,
    extent: ListingExtent,
) -> impl Future<Output = object_store::Result<Result<ListResult, String>>> + Send + 'static {
    let prefix = match prefix.trim_end_matches('/') {
        "" => None,
        prefix => Some(format!("{prefix}/")),
    };
    async move {
        let mut all = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: object_store::Extensions::new(),
        };
        let (mut kept, mut empty) = (0_usize, 0);
        let mut tokens: HashSet<String> = HashSet::new();
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions {
                delimiter: (extent == ListingExtent::Children).then_some("/".into()),
                page_token,
                ..PaginatedListOptions::default()
            };
            let page = bucket.list_paginated(prefix.as_deref(), options).await?;
            let found = page.result;
            empty = match found.objects.is_empty() && found.common_prefixes.is_empty() {
                true => empty + 1,
                false => 0,
            };
            let names = found.objects.iter().map(|one| one.location.as_ref().len());
            let folders = found.common_prefixes.iter().map(|one| one.as_ref().len());
            kept += names
                .map(|name| name + size_of::<ObjectMeta>())
                .chain(folders)
                .sum::<usize>();
            all.objects.extend(found.objects);
            all.common_prefixes.extend(found.common_prefixes);
            let token = page.page_token.filter(|token| !token.is_empty());
            let Some(token) = token else { break };
            if extent == ListingExtent::Any && !all.objects.is_empty() {
                break;
            }
            kept += token.len();
            let reason = if !tokens.insert(token.clone()) {
                "its server sends the same page of the listing again and again".to_owned()
            } else if empty == EMPTY_PAGES {
                format!("its server sends {empty} pages of the listing without a name")
            } else if kept > LARGEST_LISTING {
                format!(
                    "its listing is longer than {} objects",
                    all.objects.len() + all.common_prefixes.len()
                )
            } else {
                page_token = Some(token);
                continue;
            };
            return Ok(Err(reason));
        }
        // A folder may be on two pages.
        all.common_prefixes.sort();
        all.common_prefixes.dedup();
        Ok(Ok(all))
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
