//! Reading and seeking in bytes that lie anywhere, in chunks.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::Bytes;

/// Reads and seeks in bytes, for formats that want both: in chunks, so that small reads cost no request.
pub struct Seeking {
    bytes: Arc<dyn Bytes>,
    chunk: u64,
    at: u64,
    buffer: Vec<u8>,
    buffered: u64,
}

impl Seeking {
    const CHUNK: u64 = 256 * 1024;

    pub(crate) fn new(bytes: Arc<dyn Bytes>) -> Self {
        Self::in_chunks(bytes, Self::CHUNK, 0)
    }

    /// From `at` on, so many bytes at a time.
    pub fn in_chunks(bytes: Arc<dyn Bytes>, chunk: u64, at: u64) -> Self {
        Self {
            bytes,
            chunk,
            at,
            buffer: Vec::new(),
            buffered: 0,
        }
    }
}

impl Read for Seeking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.len().saturating_sub(self.at);
        let wanted = rest.min(into.len() as u64);
        let Ok(length) = usize::try_from(wanted) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if length == 0 {
            return Ok(0);
        }
        let ahead = self.at.checked_sub(self.buffered);
        let within = ahead.filter(|&ahead| ahead + wanted <= self.buffer.len() as u64);
        let start = match within {
            Some(start) => start,
            None if wanted >= self.chunk => {
                self.bytes.read_at(self.at, &mut into[..length])?;
                self.at += wanted;
                return Ok(length);
            }
            None => {
                let chunk = rest.min(self.chunk);
                self.buffer
                    .resize(usize::try_from(chunk).unwrap_or(length), 0);
                self.bytes.read_at(self.at, &mut self.buffer)?;
                self.buffered = self.at;
                0
            }
        };
        let start = usize::try_from(start).map_err(io::Error::other)?;
        into[..length].copy_from_slice(&self.buffer[start..start + length]);
        self.at += wanted;
        Ok(length)
    }
}

impl Seek for Seeking {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.bytes.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bytes::FileBytes;

    #[test]
    fn seeking_reads_the_same_in_any_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let content: Vec<u8> = (0..=255).cycle().take(1000).collect();
        fs::write(&path, &content).unwrap();
        let bytes: Arc<dyn Bytes> = Arc::new(FileBytes::new(&path, 1000));
        for chunk in [1, 7, 64, 5000] {
            let mut seeking = Seeking::in_chunks(Arc::clone(&bytes), chunk, 3);
            let mut part = [0; 10];
            seeking.read_exact(&mut part).unwrap();
            assert_eq!(part, content[3..13]);
            seeking.seek(SeekFrom::End(-20)).unwrap();
            let mut rest = Vec::new();
            seeking.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, content[980..]);
            seeking.seek(SeekFrom::Current(-990)).unwrap();
            seeking.read_exact(&mut part).unwrap();
            assert_eq!(part, content[10..20]);
        }
    }
}
