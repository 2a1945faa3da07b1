//! What a worker copies to and from the card, in memory that the card reads and writes beside its work.

use std::sync::Arc;

use embedctl_common::error::{Error, Result};

use super::grown;
use crate::card::Card;
use crate::library::DevicePointer;
use crate::memory::{CardStream, DeviceMemory, HostMemory, StreamMark};

/// What a worker copies to and from the card.
pub(super) struct HostSide {
    pub(super) card: Arc<Card>,
    /// Reached when the worker's batch is done.
    pub(super) done: StreamMark,
    pub(super) is_enqueued: bool,
    pub(super) numbers: Vec<i32>,
    pub(super) pinned_numbers: Option<HostMemory<i32>>,
    pub(super) result: Option<HostMemory<f32>>,
}

impl HostSide {
    /// Waits for the work that uses its memory.
    pub(super) fn wait(&mut self) -> Result<()> {
        match std::mem::take(&mut self.is_enqueued) {
            true => self.done.wait(),
            false => Ok(()),
        }
    }

    /// Copies the numbers to the card, where they begin at the address that is returned.
    pub(super) fn send(
        &mut self,
        stream: &CardStream,
        device: &mut Option<DeviceMemory>,
    ) -> Result<DevicePointer> {
        let count = self.numbers.len();
        let room = count.next_power_of_two();
        if self
            .pinned_numbers
            .as_ref()
            .is_none_or(|it| it.values().len() < count)
        {
            self.pinned_numbers = None;
            self.pinned_numbers = Some(HostMemory::new(&self.card, room)?);
        }
        let device = grown(&self.card, stream, device, room * 4)?.pointer;
        if let Some(pinned) = &mut self.pinned_numbers {
            pinned.values_mut()[..count].copy_from_slice(&self.numbers);
            self.is_enqueued = true;
            stream.write(device, &pinned.values()[..count])?;
        }
        Ok(device)
    }

    /// Enqueues the copy of a result, which is there when [`HostSide::done`] is reached.
    pub(super) fn receive(
        &mut self,
        stream: &CardStream,
        from: DevicePointer,
        count: usize,
    ) -> Result<()> {
        if self
            .result
            .as_ref()
            .is_none_or(|it| it.values().len() < count)
        {
            self.result = None;
            self.result = Some(HostMemory::new(&self.card, count.next_power_of_two())?);
        }
        let host = (self.result.as_mut()).ok_or_else(|| Error::internal("no result"))?;
        stream.read(from, host, count)
    }
}

impl Drop for HostSide {
    fn drop(&mut self) {
        // The card may still read and write its memory. One that fails does neither.
        let _ = self.wait();
    }
}
