//! Writing an object in parts, which are invisible until the last request completes the upload. An upload that is
//! dropped earlier is aborted and leaves nothing.

use std::collections::VecDeque;
use std::io::{self, Write};

use bytes::Bytes;
use crossbeam_channel::{Receiver, bounded};
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use super::RETRIES;
use super::WrittenObject;
use super::address::Address;
use super::failure::{Failure, was_cut, watched};
use super::refusal::{Operation, exists, is_denied, is_missing, says_nothing};
use super::store::{ObjectLocation, Storage};
use super::version::bare;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::remedies;
use embedctl_common::setting::FORCE;

/// Bytes of a part. Stores want 5 MiB at least, some want all alike.
const PART: usize = 16 << 20;
/// Stores take 10,000 parts: after so many, they are twice as large each.
const PARTS_OF_A_SIZE: usize = 2_000;
/// Parts on their way at a time.
const IN_FLIGHT: usize = 3;

/// An object that is being written. Dropped before [`ObjectWriter::finish`], it leaves nothing.
#[derive(Debug)]
pub struct ObjectWriter {
    storage: Storage,
    address: Address,
    location: ObjectLocation,
    replace: bool,
    upload: Option<Box<dyn MultipartUpload>>,
    buffer: Vec<u8>,
    parts: usize,
    in_flight: VecDeque<Receiver<Result<(), Failure>>>,
}

impl Storage {
    /// Begins to write an object: fails at once where nothing could be written. Nothing stands under the name
    /// before [`ObjectWriter::finish`].
    ///
    /// # Errors
    /// If there is such an object and `replace` is not given, its place is read only, or the store refuses.
    pub fn create(&self, address: &Address, replace: bool) -> Result<ObjectWriter> {
        refuse_read_only(address)?;
        let location = self.location(address, None)?;
        let found = if replace {
            KnownName::Nothing
        } else {
            self.find(address, &location)?
        };
        if found == KnownName::Object {
            return Err(taken(address));
        }
        let (store, path) = (location.store.clone(), location.path.clone());
        let begun = async move { store.put_multipart(&path).await };
        let upload = self.wait(address, Operation::Write, begun)?;
        let writer = ObjectWriter {
            storage: self.clone(),
            address: address.clone(),
            location,
            replace,
            upload: Some(upload),
            buffer: Vec::new(),
            parts: 0,
            in_flight: VecDeque::new(),
        };
        if found == KnownName::Unknown {
            return Err(Error::usage(format!(
                "{address}: the credentials allow writing but not reading, so it is unknown whether the object \
                 exists; pass {FORCE} to replace whatever is there"
            )));
        }
        Ok(writer)
    }

    /// Writes a short object by one request, unless the name exists. Returns the written object; `None` if the name
    /// exists. The store decides, so exactly one of several writers succeeds. A request that was cut is repeated; the
    /// object may then be that of the first attempt, which its content shows.
    ///
    /// # Errors
    /// If its place is read only, or the store refuses.
    pub fn put_new(
        &self,
        address: &Address,
        bytes: impl Into<Bytes>,
    ) -> Result<Option<WrittenObject>> {
        self.put_new_for(address, address, bytes)
    }

    /// The same; messages name `shown`.
    fn put_new_for(
        &self,
        shown: &Address,
        address: &Address,
        bytes: impl Into<Bytes>,
    ) -> Result<Option<WrittenObject>> {
        refuse_read_only(address)?;
        let location = self.location(address, None)?;
        let bytes = bytes.into();
        let mut attempt = 0;
        loop {
            let failure = match self.put(&location, bytes.clone(), PutMode::Create)? {
                Ok(written) => return Ok(Some(written)),
                Err(failure) if exists(&failure) && attempt == 0 => return Ok(None),
                Err(failure) if exists(&failure) => return self.holds(address, &bytes),
                Err(failure) => failure,
            };
            // `object_store` repeats requests that were not sent, but not one that may have been carried out.
            if attempt == RETRIES || !was_cut(&failure) {
                return Err(self.explain(shown, Operation::Write, failure));
            }
            self.pause(attempt)?;
            attempt += 1;
        }
    }

    /// The object of that name, if this is its content.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn holds(&self, address: &Address, bytes: &[u8]) -> Result<Option<WrittenObject>> {
        match self.look_for(address)? {
            Some(object) if object.size() == bytes.len() as u64 => {
                let etag = bare(object.etag());
                let is_so = object.read_whole(bytes.len() as u64)? == bytes;
                Ok(is_so.then_some(WrittenObject { etag }))
            }
            _ => Ok(None),
        }
    }

    /// Proves that the store refuses to write a name twice: writes the object at `address` again as it is, if nothing else
    /// is there. `bytes` are its content, so a store that writes it changes nothing. Messages name `shown`.
    ///
    /// # Errors
    /// If it is written, or the store cannot be asked.
    pub fn prove_conditional_writes(
        &self,
        shown: &Address,
        address: &Address,
        bytes: impl Into<Bytes>,
    ) -> Result<()> {
        let location = self.location(address, None)?;
        let is_refused = match self.put(&location, bytes.into(), PutMode::Create)? {
            Ok(_) => false,
            Err(failure) if exists(&failure) => true,
            Err(failure) => return Err(self.explain(shown, Operation::Write, failure)),
        };
        if is_refused {
            return Ok(());
        }
        let reason = "the store does not refuse to write an object twice (it ignores If-None-Match), so two runs could \
                      overwrite each other's parts";
        Err(Error::new(ErrorKind::Storage, shown, reason).with_remedy(
            "use a store with conditional writes, or a newer version of this one; or write to a folder of this machine \
             and copy it",
        ))
    }

    /// Writes a short object by one request, in the place of one that may be there.
    ///
    /// # Errors
    /// If its place is read only, or the store refuses.
    pub fn put_over(&self, address: &Address, bytes: impl Into<Bytes>) -> Result<()> {
        refuse_read_only(address)?;
        let location = self.location(address, None)?;
        self.put(&location, bytes.into(), PutMode::Overwrite)?
            .map(drop)
            .map_err(|failure| self.explain(address, Operation::Write, failure))
    }

    /// Removes an object; one that is not there is no error.
    ///
    /// # Errors
    /// If its place is read only, or the store refuses.
    pub fn remove(&self, address: &Address) -> Result<()> {
        refuse_read_only(address)?;
        let ObjectLocation { store, path } = self.location(address, None)?;
        match self.attempt(async move { store.delete(&path).await })? {
            Err(failure) if !is_missing(&failure) => {
                Err(self.explain(address, Operation::Write, failure))
            }
            _ => Ok(()),
        }
    }

    /// Whether there is an object of that name.
    ///
    /// # Errors
    /// If the store does not tell.
    pub fn exists(&self, address: &Address) -> Result<bool> {
        let location = self.location(address, None)?;
        Ok(self.find(address, &location)? == KnownName::Object)
    }

    fn find(&self, address: &Address, location: &ObjectLocation) -> Result<KnownName> {
        match self.head(location)? {
            Ok(_) => Ok(KnownName::Object),
            Err(failure) if is_missing(&failure) => Ok(KnownName::Nothing),
            // Without the permission to list, a missing object is reported as forbidden.
            Err(failure) if is_denied(&failure) || says_nothing(&failure) => Ok(KnownName::Unknown),
            Err(failure) => Err(self.explain(address, Operation::Write, failure)),
        }
    }

    fn put(
        &self,
        location: &ObjectLocation,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<Result<WrittenObject, Failure>> {
        let ObjectLocation { store, path } = location.clone();
        let put = async move {
            let payload = PutPayload::from_bytes(bytes);
            let put = store.put_opts(&path, payload, mode.into()).await?;
            Ok(WrittenObject {
                etag: bare(put.e_tag.as_deref()),
            })
        };
        self.attempt(put)
    }
}

/// The known state of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownName {
    Nothing,
    Object,
    /// Unknown: the credentials do not allow reading or listing.
    Unknown,
}

impl ObjectWriter {
    /// Its future address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Puts the object together under its name.
    ///
    /// # Errors
    /// If one of that name has appeared meanwhile and may not be replaced, or the store refuses. Then nothing new
    /// stands under the name.
    pub fn finish(mut self) -> Result<()> {
        let storage = self.storage.clone();
        if self.parts == 0 {
            // Short enough for one request; the store itself refuses it if the name exists.
            let bytes = std::mem::take(&mut self.buffer).into();
            let mode = if self.replace {
                PutMode::Overwrite
            } else {
                PutMode::Create
            };
            return match storage.put(&self.location, bytes, mode)? {
                Ok(_) => Ok(()), // dropping it aborts the parts that there never were
                Err(failure) if !self.replace && exists(&failure) => Err(taken(&self.address)),
                Err(failure) => Err(storage.explain(&self.address, Operation::Write, failure)),
            };
        }
        if !self.buffer.is_empty() {
            let rest = std::mem::take(&mut self.buffer);
            self.send(rest)?;
        }
        while let Some(part) = self.in_flight.pop_front() {
            self.arrived(&part)?;
        }
        if !self.replace && storage.find(&self.address, &self.location)? == KnownName::Object {
            return Err(taken(&self.address));
        }
        let Some(mut upload) = self.upload.take() else {
            return Err(Error::internal("an upload was completed twice"));
        };
        let (completed, result) = bounded(1);
        let complete = async move {
            let done = upload.complete().await.map(drop);
            let _ = completed.send(upload);
            done
        };
        let done = storage.attempt(complete);
        // An upload that was not completed is aborted when this is dropped.
        if !matches!(done, Ok(Ok(()))) {
            self.upload = result.try_recv().ok();
        }
        done?.map_err(|failure| storage.explain(&self.address, Operation::Write, failure))
    }

    fn size(&self) -> usize {
        PART << (self.parts / PARTS_OF_A_SIZE).min(6)
    }

    fn send(&mut self, part: Vec<u8>) -> Result<()> {
        while self.in_flight.len() >= IN_FLIGHT {
            if let Some(first) = self.in_flight.pop_front() {
                self.arrived(&first)?;
            }
        }
        let Some(upload) = &mut self.upload else {
            return Err(Error::internal("a part was written after the last"));
        };
        let put = upload.put_part(PutPayload::from_bytes(part.into()));
        let (sender, receiver) = bounded(1);
        self.storage.spawn(async move {
            let _ = sender.send(watched(put).await);
        });
        self.in_flight.push_back(receiver);
        self.parts += 1;
        Ok(())
    }

    fn arrived(&self, part: &Receiver<Result<(), Failure>>) -> Result<()> {
        match part.recv() {
            _ if self.storage.cancel().is_cancelled() => Err(Error::interrupted()),
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(self
                .storage
                .explain(&self.address, Operation::Write, failure)),
            Err(_) => Err(Error::internal("a part got lost")),
        }
    }
}

/// The cause of an error is one of this library's, which says what helps.
impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.size() - self.buffer.len();
        let count = bytes.len().min(room);
        self.buffer.extend_from_slice(&bytes[..count]);
        if count == room {
            let next = Vec::with_capacity(self.buffer.len());
            let part = std::mem::replace(&mut self.buffer, next);
            self.send(part).map_err(io::Error::other)?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // parts are invisible
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            let in_flight = std::mem::take(&mut self.in_flight);
            // A part that arrives after the upload was aborted would stay.
            for part in in_flight {
                let _ = part.recv_timeout(std::time::Duration::from_secs(1));
            }
            self.storage.clean_up(async move {
                let _ = upload.abort().await;
            });
        }
    }
}

fn refuse_read_only(address: &Address) -> Result<()> {
    if address.scheme().is_writable() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{address}: nothing can be written to {}://",
        address.scheme().name()
    ))
    .with_remedy("write to s3://, gs:// or az://, or to a file"))
}

fn taken(address: &Address) -> Error {
    Error::usage(format!("{address}: the object exists")).with_remedy(remedies::taken())
}
