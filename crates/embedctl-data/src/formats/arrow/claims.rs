//! Compressed buffers of Arrow's messages. Each begins with the length that it claims to have when it is decompressed, and
//! the decoder reserves that much before it looks at the content: 2^36 in eight bytes end the process. The claims are
//! compared with the bytes that are there before the decoder gets them. (The limit belongs into `arrow_ipc::compression`,
//! which could grow its output as the content arrives, as it does for bodies.)

use std::collections::VecDeque;
use std::io::{self, Read};

use arrow::error::ArrowError;
use arrow::ipc::{CompressionType, Message, root_as_message};
use zstd::zstd_safe::get_frame_content_size;

/// Each byte of LZ4 becomes 255 at most.
const LZ4_RATIO: u64 = 255;

/// Bytes of a message that are believed, whatever its size: zstd makes a few bytes of millions of equal values.
const BELIEVED: u64 = 512 << 20;

/// Bytes that a buffer claims before its content begins.
const PREFIX: usize = 8;

/// Bytes of a buffer that are looked at: its claim, and the head of a zstd frame.
const HEAD: usize = PREFIX + 18;

/// The mark before a message's length.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The compressed buffers of a message that were not looked at yet, in the order of their places.
#[derive(Debug)]
pub(super) struct ClaimedBuffers {
    places: VecDeque<(u64, u64)>,
    codec: CompressionType,
    /// What the buffers so far claim together, and may claim.
    claimed: u64,
    most: u64,
}

impl ClaimedBuffers {
    /// The buffers of a message with a body of so many bytes; none where nothing is compressed.
    ///
    /// # Errors
    /// If one leads out of the body, or some share their bytes: each is compressed on its own.
    fn of(message: &Message<'_>, body: u64) -> Result<Option<Self>, ArrowError> {
        let batch = message.header_as_record_batch().or_else(|| {
            let dictionary = message.header_as_dictionary_batch()?;
            dictionary.data()
        });
        let compression = batch.and_then(|batch| Some((batch, batch.compression()?)));
        let Some((batch, compression)) = compression else {
            return Ok(None);
        };
        let place = |buffer: &arrow::ipc::Buffer| {
            let offset = u64::try_from(buffer.offset()).ok()?;
            let length = u64::try_from(buffer.length()).ok()?;
            (offset.checked_add(length)? <= body).then_some((offset, length))
        };
        let places = batch.buffers().into_iter().flatten().map(place);
        let places: Option<Vec<_>> = places.collect();
        let mut places = places.ok_or_else(|| {
            ArrowError::IpcError("a compressed buffer leads out of its record batch".to_owned())
        })?;
        places.retain(|(_, length)| *length > 0);
        places.sort_unstable();
        let overlap = |pair: &[(u64, u64)]| pair[0].0.saturating_add(pair[0].1) > pair[1].0;
        if places.windows(2).any(overlap) {
            let reason = "its compressed buffers overlap";
            return Err(ArrowError::IpcError(reason.to_owned()));
        }
        let all = places.iter().map(|(_, length)| *length);
        let all = all.fold(0, u64::saturating_add);
        Ok(Some(Self {
            places: places.into(),
            codec: compression.codec(),
            claimed: 0,
            most: all.saturating_mul(LZ4_RATIO).max(BELIEVED),
        }))
    }

    /// Looks at the head of a buffer of `length` bytes.
    ///
    /// # Errors
    /// If it claims more than its bytes can become.
    fn look(&mut self, head: &[u8], length: u64) -> Result<(), ArrowError> {
        let Some((claim, content)) = head.split_first_chunk::<PREFIX>() else {
            return Ok(()); // the decoder refuses it
        };
        // Nothing in it, or nothing compressed.
        let Ok(claim) = u64::try_from(i64::from_le_bytes(*claim)) else {
            return Ok(());
        };
        let refuse = |most: u64| {
            let length = length.saturating_sub(PREFIX as u64);
            Err(ArrowError::IpcError(format!(
                "a buffer of {length} bytes claims to hold {claim}, but holds {most} at most"
            )))
        };
        let most = match self.codec {
            CompressionType::LZ4_FRAME => length.saturating_mul(LZ4_RATIO),
            _ => match get_frame_content_size(content) {
                Ok(Some(size)) => size,
                Ok(None) => u64::MAX,
                Err(_) => 0,
            },
        };
        if claim > most {
            return refuse(most);
        }
        self.claimed = self.claimed.saturating_add(claim);
        if self.claimed > self.most {
            return Err(ArrowError::IpcError(format!(
                "its compressed buffers claim to hold {} bytes, but the limit for their size is {}",
                self.claimed, self.most
            )));
        }
        Ok(())
    }
}

/// Checks a block of a file: a message, and from `head` bytes on its body.
///
/// # Errors
/// If a compressed buffer claims too much.
pub(super) fn check(block: &[u8], head: usize) -> Result<(), ArrowError> {
    // The decoder looks for the message in the whole block, too. Whatever is wrong with it is the decoder's to say.
    let Ok(message) = root_as_message(behind_length(block)) else {
        return Ok(());
    };
    let body = block.get(head..).unwrap_or_default();
    let Some(mut buffers) = ClaimedBuffers::of(&message, body.len() as u64)? else {
        return Ok(());
    };
    while let Some((offset, length)) = buffers.places.pop_front() {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let buffer = body.get(start..).unwrap_or_default();
        let looked = usize::try_from(length.min(HEAD as u64)).unwrap_or(HEAD);
        buffers.look(&buffer[..looked.min(buffer.len())], length)?;
    }
    Ok(())
}

/// A message behind its mark and its length or (before 0.15) its length alone.
pub(super) fn behind_length(head: &[u8]) -> &[u8] {
    let skip = if head.starts_with(&CONTINUATION) {
        8
    } else {
        4
    };
    head.get(skip..).unwrap_or_default()
}

/// A stream of messages, whose claims are checked as they pass: before the reader has a whole body, and decodes it.
pub(super) struct CheckedMessages<R> {
    inner: R,
    part: MessagePart,
    /// Bytes of the part that are remembered.
    kept: Vec<u8>,
}

/// The part of a message that comes next.
enum MessagePart {
    /// A mark and a length, or a length.
    Length,
    /// So many bytes about the body.
    Head(usize),
    /// Up to that place; the buffers that are to be looked at, and the place that is reached.
    Body {
        end: u64,
        at: u64,
        buffers: Option<ClaimedBuffers>,
    },
    /// Not a message: the reader says so.
    Unknown,
}

impl<R> CheckedMessages<R> {
    /// Checks what is read from `inner`, which begins with a message.
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            part: MessagePart::Length,
            kept: Vec::new(),
        }
    }

    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), ArrowError> {
        while !bytes.is_empty() {
            let (next, used) = match &mut self.part {
                MessagePart::Unknown => return Ok(()),
                MessagePart::Length => {
                    let wanted = if self.kept.starts_with(&CONTINUATION) {
                        8
                    } else {
                        4
                    };
                    let used = keep(&mut self.kept, wanted, bytes);
                    (length_told(&self.kept), used)
                }
                MessagePart::Head(length) => {
                    let used = keep(&mut self.kept, *length, bytes);
                    let is_whole = self.kept.len() == *length;
                    (is_whole.then(|| body_told(&self.kept)).transpose()?, used)
                }
                MessagePart::Body { end, at, buffers } => {
                    let left = usize::try_from(*end - *at).unwrap_or(usize::MAX);
                    let used = left.min(bytes.len());
                    look_within(buffers, &mut self.kept, *at, &bytes[..used])?;
                    *at += used as u64;
                    ((at == end).then_some(MessagePart::Length), used)
                }
            };
            bytes = &bytes[used..];
            if let Some(next) = next {
                self.kept.clear();
                self.part = match next {
                    // No body: the next message follows.
                    MessagePart::Body { end: 0, .. } | MessagePart::Head(0) => MessagePart::Length,
                    next => next,
                };
            }
        }
        Ok(())
    }
}

/// Keeps bytes until there are `wanted`; returns how many were taken.
fn keep(kept: &mut Vec<u8>, wanted: usize, bytes: &[u8]) -> usize {
    let used = (wanted - kept.len()).min(bytes.len());
    kept.extend_from_slice(&bytes[..used]);
    used
}

/// The part that follows a mark and a length, once they are complete.
fn length_told(kept: &[u8]) -> Option<MessagePart> {
    let length = match kept.strip_prefix(&CONTINUATION) {
        Some(length) => length.try_into().ok()?,
        None => kept.try_into().ok()?,
    };
    let length = usize::try_from(i32::from_le_bytes(length));
    Some(length.map_or(MessagePart::Unknown, MessagePart::Head))
}

/// The part that follows a message's head.
fn body_told(head: &[u8]) -> Result<MessagePart, ArrowError> {
    let Ok(message) = root_as_message(head) else {
        return Ok(MessagePart::Unknown);
    };
    Ok(match u64::try_from(message.bodyLength()) {
        Err(_) => MessagePart::Unknown,
        Ok(end) => MessagePart::Body {
            end,
            at: 0,
            buffers: ClaimedBuffers::of(&message, end)?,
        },
    })
}

/// Looks at the heads of the buffers that are in `bytes`, which begin at `at` of a body; `kept` is the beginning of a
/// head whose rest is not there yet.
fn look_within(
    buffers: &mut Option<ClaimedBuffers>,
    kept: &mut Vec<u8>,
    at: u64,
    bytes: &[u8],
) -> Result<(), ArrowError> {
    let Some(buffers) = buffers else {
        return Ok(());
    };
    let end = at + bytes.len() as u64;
    while let Some((offset, length)) = buffers.places.front().copied() {
        let wanted = usize::try_from(length.min(HEAD as u64)).unwrap_or(HEAD);
        let from = offset.saturating_add(kept.len() as u64);
        if from >= end {
            return Ok(());
        }
        let start = usize::try_from(from.saturating_sub(at)).unwrap_or(0);
        keep(kept, wanted, &bytes[start..]);
        if kept.len() < wanted {
            return Ok(());
        }
        buffers.places.pop_front();
        let head = std::mem::take(kept);
        buffers.look(&head, length)?;
    }
    Ok(())
}

impl<R: Read> Read for CheckedMessages<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.pass(&into[..count])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(count)
    }
}
