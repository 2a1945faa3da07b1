//! Stand-ins for the object stores in a build without the feature `cloud`: types without values, and the error that
//! names the feature.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::time::SystemTime;

use super::{Address, Child, StorageOption, WrittenObject};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::FULL;
use embedctl_hub::HubSettings;

/// A type without values.
#[derive(Debug, Clone)]
pub struct Storage(Infallible);

/// A type without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object(Infallible);

/// A type without values.
#[derive(Debug)]
pub struct ObjectReader(Infallible);

/// A type without values.
#[derive(Debug)]
pub struct ObjectFile(Infallible);

/// A type without values.
#[derive(Debug)]
pub struct ObjectWriter(Infallible);

/// Methods that cannot be called, since the type has no values. Documented in the build with the feature.
macro_rules! uncallable {
    ($name:ident { $(fn $call:ident($($argument:ty),*) -> $result:ty;)+ }) => {
        #[allow(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate)]
        impl $name {
            $(pub fn $call(&self $(, _: $argument)*) -> $result {
                match self.0 {}
            })+
        }
    };
}

#[allow(missing_docs, clippy::missing_errors_doc)] // as with the feature
impl Storage {
    pub fn new(_: HubSettings, _: Vec<StorageOption>, _: &CancelToken) -> Result<Self> {
        Err(Error::usage(
            "this embedctl was built without object stores (s3://, gs://, az://, https://, hf://)",
        )
        .with_remedy(format!("{FULL}; or copy the files here")))
    }
}

uncallable! {
    Storage {
        fn after_cancel() -> Result<Self>;
        fn list(&Address) -> Result<Vec<Object>>;
        fn look(&Address) -> Result<Object>;
        fn look_for(&Address) -> Result<Option<Object>>;
        fn holds(&Address, &[u8]) -> Result<Option<WrittenObject>>;
        fn prove_conditional_writes(&Address, &Address, Vec<u8>) -> Result<()>;
        fn children(&Address) -> Result<Vec<Child>>;
        fn create(&Address, bool) -> Result<ObjectWriter>;
        fn put_new(&Address, Vec<u8>) -> Result<Option<WrittenObject>>;
        fn put_over(&Address, Vec<u8>) -> Result<()>;
        fn remove(&Address) -> Result<()>;
        fn exists(&Address) -> Result<bool>;
    }
}

uncallable! {
    Object {
        fn address() -> &Address;
        fn size() -> u64;
        fn etag() -> Option<&str>;
        fn modified() -> Option<SystemTime>;
        fn read_from(u64) -> ObjectReader;
        fn copied() -> Option<&'static str>;
        fn read_whole(u64) -> Result<Vec<u8>>;
        fn random_access() -> ObjectFile;
        fn beside(&str) -> Result<Option<Self>>;
    }
}

uncallable! {
    ObjectFile {
        fn size() -> u64;
        fn object() -> &Object;
        fn read_at(u64, usize) -> Result<Vec<u8>>;
    }
}

uncallable! {
    ObjectWriter {
        fn address() -> &Address;
    }
}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl ObjectWriter {
    pub fn finish(self) -> Result<()> {
        match self.0 {}
    }
}

impl Read for ObjectReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}
