//! Memory of a card, memory that a card copies from and to, and streams.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::slice;
use std::sync::Arc;

use embedctl_common::error::{Error, Result};

use crate::card::Card;
use crate::library::{DevicePointer, Object};

/// Values that may be copied byte by byte.
///
/// # Safety
/// Every pattern of bits is a value, and there is no padding.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: numbers.
unsafe impl Plain for u8 {}
// SAFETY: numbers.
unsafe impl Plain for u16 {}
// SAFETY: numbers.
unsafe impl Plain for i32 {}
// SAFETY: numbers.
unsafe impl Plain for f32 {}

/// Bytes of a card's memory.
pub(crate) struct DeviceMemory {
    card: Arc<Card>,
    pub(crate) pointer: DevicePointer,
    pub(crate) bytes: usize,
}

impl DeviceMemory {
    /// Allocates `bytes`, at least one.
    pub(crate) fn new(card: &Arc<Card>, bytes: usize) -> Result<Self> {
        card.enter()?;
        let (mut pointer, bytes) = (0, bytes.max(1));
        // SAFETY: the pointer leads to a pointer.
        let status = unsafe { (card.libraries.driver.allocate)(&raw mut pointer, bytes) };
        card.check(status, &format!("allocate {bytes} bytes on the card"))?;
        Ok(Self {
            card: Arc::clone(card),
            pointer,
            bytes,
        })
    }

    /// Allocates memory for `values`, and copies them there.
    pub(crate) fn of<T: Plain>(
        card: &Arc<Card>,
        values: &[T],
        stream: &CardStream,
    ) -> Result<Self> {
        let memory = Self::new(card, size_of_val(values))?;
        stream.write(memory.pointer, values)?;
        stream.wait()?;
        Ok(memory)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: it was allocated, and is freed once. The driver waits for work that uses it.
            unsafe { (self.card.libraries.driver.free)(self.pointer) };
        }
    }
}

/// Memory of this machine that a card copies from and to beside its work.
pub(crate) struct HostMemory<T> {
    card: Arc<Card>,
    pointer: Object,
    count: usize,
    values: PhantomData<T>,
}

// SAFETY: it is memory of its own.
unsafe impl<T: Plain + Send> Send for HostMemory<T> {}

impl<T: Plain> HostMemory<T> {
    /// Allocates `count` values, which are zero.
    pub(crate) fn new(card: &Arc<Card>, count: usize) -> Result<Self> {
        card.enter()?;
        let bytes = count
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::internal("a batch's size overflows"))?
            .max(1);
        let mut pointer = ptr::null_mut();
        // SAFETY: the pointer leads to a pointer.
        let status = unsafe { (card.libraries.driver.host_allocate)(&raw mut pointer, bytes, 0) };
        card.check(
            status,
            &format!("allocate {bytes} bytes that the card reads"),
        )?;
        // SAFETY: so many bytes were allocated.
        unsafe { ptr::write_bytes(pointer.cast::<u8>(), 0, bytes) };
        Ok(Self {
            card: Arc::clone(card),
            pointer,
            count,
            values: PhantomData,
        })
    }

    pub(crate) fn values(&self) -> &[T] {
        // SAFETY: so many values were allocated, and every pattern of bits is one.
        unsafe { slice::from_raw_parts(self.pointer.cast(), self.count) }
    }

    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; nobody else has the memory.
        unsafe { slice::from_raw_parts_mut(self.pointer.cast(), self.count) }
    }
}

impl<T> Drop for HostMemory<T> {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: it was allocated, and is freed once.
            unsafe { (self.card.libraries.driver.host_free)(self.pointer) };
        }
    }
}

/// Work that a card does in order, beside that of other streams.
pub(crate) struct CardStream {
    pub(crate) card: Arc<Card>,
    pub(crate) object: Object,
}

// SAFETY: a stream may be used by any thread.
unsafe impl Send for CardStream {}

impl CardStream {
    pub(crate) fn new(card: &Arc<Card>) -> Result<Self> {
        /// Without waiting for the stream that all programs of a process share.
        const NON_BLOCKING: u32 = 1;
        card.enter()?;
        let mut object = ptr::null_mut();
        // SAFETY: the pointer leads to a pointer.
        let status = unsafe { (card.libraries.driver.stream)(&raw mut object, NON_BLOCKING) };
        card.check(status, "make a stream")?;
        Ok(Self {
            card: Arc::clone(card),
            object,
        })
    }

    /// Waits until all is done.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the stream is there.
        let status = unsafe { (self.card.libraries.driver.synchronize)(self.object) };
        self.card.check(status, "run the model")
    }

    /// Copies values to the card. They must stay until the stream was waited for.
    pub(crate) fn write<T: Plain>(&self, to: DevicePointer, values: &[T]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let from = values.as_ptr().cast::<c_void>();
        // SAFETY: the driver checks the card's address; the values are there.
        let status = unsafe {
            (self.card.libraries.driver.to_device)(to, from, size_of_val(values), self.object)
        };
        self.card.check(status, "copy to the card")
    }

    /// Copies values from the card, which are there when the stream was waited for.
    pub(crate) fn read<T: Plain>(
        &self,
        from: DevicePointer,
        to: &mut HostMemory<T>,
        count: usize,
    ) -> Result<()> {
        let values = to.values_mut();
        let values = values
            .get_mut(..count)
            .ok_or_else(|| Error::internal("a copy is larger than its place"))?;
        if values.is_empty() {
            return Ok(());
        }
        let (bytes, to) = (size_of_val(values), values.as_mut_ptr().cast::<c_void>());
        // SAFETY: there is room for so many values, which stays as long as its owner.
        let status = unsafe { (self.card.libraries.driver.to_host)(to, from, bytes, self.object) };
        self.card.check(status, "copy from the card")
    }
}

impl Drop for CardStream {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: the stream was made, and is destroyed once. What it still does uses memory that outlives it: owners
            // drop their stream first, and wait.
            unsafe {
                (self.card.libraries.driver.synchronize)(self.object);
                (self.card.libraries.driver.destroy_stream)(self.object);
            }
        }
    }
}

/// A place in a stream that can be waited for.
pub(crate) struct StreamMark {
    card: Arc<Card>,
    object: Object,
}

// SAFETY: an event may be used by any thread.
unsafe impl Send for StreamMark {}

impl StreamMark {
    pub(crate) fn new(card: &Arc<Card>) -> Result<Self> {
        /// A thread that waits sleeps, and no time is taken: the processor has texts to tokenize.
        const SLEEPS_UNTIMED: u32 = 1 | 2;
        card.enter()?;
        let mut object = ptr::null_mut();
        // SAFETY: the pointer leads to a pointer.
        let status = unsafe { (card.libraries.driver.event)(&raw mut object, SLEEPS_UNTIMED) };
        card.check(status, "make an event")?;
        Ok(Self {
            card: Arc::clone(card),
            object,
        })
    }

    /// Puts the event behind all that the stream has to do.
    pub(crate) fn record(&self, stream: &CardStream) -> Result<()> {
        // SAFETY: both are there.
        let status = unsafe { (self.card.libraries.driver.record)(self.object, stream.object) };
        self.card.check(status, "mark a batch's end")
    }

    /// Waits until the stream has come to where the event was recorded last.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the event is there.
        let status = unsafe { (self.card.libraries.driver.wait_event)(self.object) };
        self.card.check(status, "run the model")
    }
}

impl Drop for StreamMark {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: the event was made, and is destroyed once.
            unsafe { (self.card.libraries.driver.destroy_event)(self.object) };
        }
    }
}
