//! What stands for the object stores in a program that was built without the feature `cloud`: nothing that could
//! ever be made, and the error that says how to get it.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::time::SystemTime;

use super::{Address, StorageOption};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::model::hub::Settings;

/// Nobody has one.
#[derive(Debug, Clone)]
pub struct Storage(Infallible);

/// Nobody has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object(Infallible);

/// Nobody has one.
#[derive(Debug)]
pub struct ObjectReader(Infallible);

/// Nobody has one.
#[derive(Debug)]
pub struct ObjectFile(Infallible);

/// Nobody has one.
#[derive(Debug)]
pub struct ObjectWriter(Infallible);

#[allow(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate)] // as with the feature
impl Storage {
    pub fn new(_: Settings, _: Vec<StorageOption>, _: &CancelToken) -> Result<Self> {
        Err(Error::usage(
            "this embedctl was built without object stores (s3://, gs://, az://, https://, hf://)",
        )
        .with_remedy("build it with the feature `cloud` (cargo install --features cloud), or copy the files here"))
    }

    pub fn for_last_words(&self) -> Result<Self> {
        match self.0 {}
    }

    pub fn list(&self, _: &Address) -> Result<Vec<Object>> {
        match self.0 {}
    }

    pub fn look(&self, _: &Address) -> Result<Object> {
        match self.0 {}
    }

    pub fn look_for(&self, _: &Address) -> Result<Option<Object>> {
        match self.0 {}
    }

    pub fn children(&self, _: &Address) -> Result<Vec<(String, u64)>> {
        match self.0 {}
    }

    pub fn create(&self, _: &Address, _: bool) -> Result<ObjectWriter> {
        match self.0 {}
    }

    pub fn put_new(&self, _: &Address, _: Vec<u8>) -> Result<bool> {
        match self.0 {}
    }

    pub fn put_over(&self, _: &Address, _: Vec<u8>) -> Result<()> {
        match self.0 {}
    }

    pub fn remove(&self, _: &Address) -> Result<()> {
        match self.0 {}
    }

    pub fn exists(&self, _: &Address) -> Result<bool> {
        match self.0 {}
    }
}

#[allow(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate)] // as with the feature
impl Object {
    pub fn address(&self) -> &Address {
        match self.0 {}
    }

    pub fn size(&self) -> u64 {
        match self.0 {}
    }

    pub fn etag(&self) -> Option<&str> {
        match self.0 {}
    }

    pub fn modified(&self) -> Option<SystemTime> {
        match self.0 {}
    }

    pub fn read_from(&self, _: u64) -> ObjectReader {
        match self.0 {}
    }

    pub fn read_whole(&self, _: u64) -> Result<Vec<u8>> {
        match self.0 {}
    }

    pub fn random_access(&self) -> ObjectFile {
        match self.0 {}
    }

    pub fn beside(&self, _: &str) -> Result<Option<Self>> {
        match self.0 {}
    }
}

#[allow(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate)] // as with the feature
impl ObjectFile {
    pub fn size(&self) -> u64 {
        match self.0 {}
    }

    pub fn object(&self) -> &Object {
        match self.0 {}
    }

    pub fn read_at(&self, _: u64, _: usize) -> Result<Vec<u8>> {
        match self.0 {}
    }
}

#[allow(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate)] // as with the feature
impl ObjectWriter {
    pub fn address(&self) -> &Address {
        match self.0 {}
    }

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
