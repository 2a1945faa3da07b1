//! Writing an object in parts, which are invisible until the last request completes the upload. An upload that is
//! dropped earlier is aborted and leaves nothing.

use std::collections::VecDeque;
use std::io::{self, Write};

use bytes::Bytes;
use crossbeam_channel::{Receiver, bounded};
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use super::RETRIES;
use super::failure::{Failure, was_cut, watched};
use super::refusal::{Operation, exists, is_denied, is_missing, says_nothing};
use super::store::{ObjectLocation, Stores};
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::remedies;
use embedctl_common::setting::FORCE;
use embedctl_storage::{Address, ObjectStores as _, ObjectWriter, WrittenObject, bare_etag};

/// Bytes of a part. Stores want 5 MiB at least, some want all alike.
const PART: usize = 16 << 20;
/// Stores take 10,000 parts: after so many, they are twice as large each.
const PARTS_OF_A_SIZE: usize = 2_000;
/// Parts on their way at a time.
const IN_FLIGHT: usize = 3;

/// An object that is being written.
#[derive(Debug)]
pub(super) struct Upload {
    storage: Stores,
    address: Address,
    location: ObjectLocation,
    replace: bool,
    upload: Option<Box<dyn MultipartUpload>>,
    buffer: Vec<u8>,
    parts: usize,
    in_flight: VecDeque<Receiver<Result<(), Failure>>>,
}

impl Stores {
    pub(super) fn create(&self, address: &Address, replace: bool) -> Result<Upload> {
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
        let upload = self
            .attempt_to_the_end(begun)?
            .map_err(|failure| self.explain(address, Operation::Write, failure))?;
        // Dropped, it is aborted.
        let writer = Upload {
            storage: self.clone(),
            address: address.clone(),
            location,
            replace,
            upload: Some(upload),
            buffer: Vec::new(),
            parts: 0,
            in_flight: VecDeque::new(),
        };
        if self.cancel().is_cancelled() {
            return Err(Error::interrupted());
        }
        if found == KnownName::Unknown {
            return Err(Error::usage(format!(
                "{address}: the credentials allow writing but not reading, so it is unknown whether the object \
                 exists; pass {FORCE} to replace whatever is there"
            )));
        }
        Ok(writer)
    }

    pub(super) fn put_new(&self, address: &Address, bytes: Bytes) -> Result<Option<WrittenObject>> {
        refuse_read_only(address)?;
        let location = self.location(address, None)?;
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
                return Err(self.explain(address, Operation::Write, failure));
            }
            self.pause(attempt)?;
            attempt += 1;
        }
    }

    pub(super) fn prove_conditional_writes(
        &self,
        shown: &Address,
        address: &Address,
        bytes: Bytes,
    ) -> Result<()> {
        let location = self.location(address, None)?;
        let is_refused = match self.put(&location, bytes, PutMode::Create)? {
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

    pub(super) fn put_over(&self, address: &Address, bytes: Bytes) -> Result<()> {
        refuse_read_only(address)?;
        let location = self.location(address, None)?;
        self.put(&location, bytes, PutMode::Overwrite)?
            .map(drop)
            .map_err(|failure| self.explain(address, Operation::Write, failure))
    }

    pub(super) fn remove(&self, address: &Address) -> Result<()> {
        refuse_read_only(address)?;
        let ObjectLocation { store, path } = self.location(address, None)?;
        match self.attempt(async move { store.delete(&path).await })? {
            Err(failure) if !is_missing(&failure) => {
                Err(self.explain(address, Operation::Write, failure))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn exists(&self, address: &Address) -> Result<bool> {
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
                etag: bare_etag(put.e_tag.as_deref()),
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

impl ObjectWriter for Upload {
    fn finish(mut self: Box<Self>) -> Result<()> {
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
        let done = storage.attempt_to_the_end(complete);
        // An upload that was not completed is aborted when this is dropped.
        if !matches!(done, Ok(Ok(()))) {
            self.upload = result.try_recv().ok();
        }
        done?.map_err(|failure| storage.explain(&self.address, Operation::Write, failure))
    }
}

impl Upload {
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

impl Write for Upload {
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

impl Drop for Upload {
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
