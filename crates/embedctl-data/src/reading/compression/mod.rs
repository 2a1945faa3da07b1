//! Compressed sources, decompressed while they are read: all members of gzip, all frames of zstd, all streams
//! of bzip2 and xz.
//!
//! A name that ends in `.gz`, `.zst`, `.bz2` or `.xz` is a promise. Any other source is recognised by its first bytes,
//! so that `curl … | embedctl embed -i jsonl` needs no decompressor between: none of these starts
//! begins UTF-8 text that anybody writes.

mod explain;
mod gzip;
mod start;

use std::io::{self, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use self::explain::TruncatedSource;
pub use self::explain::{explain, explain_start};
use self::gzip::Members;

/// How much compressed data is read at a time.
const CHUNK: usize = 64 * 1024;

/// Memory that xz may use: `xz -9` needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

/// How a source is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceCompression {
    Plain,
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

impl SourceCompression {
    /// Its name and the ending of files, where it is one.
    fn names(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Plain => None,
            Self::Gzip => Some(("gzip", ".gz")),
            Self::Zstd => Some(("zstd", ".zst")),
            Self::Bzip2 => Some(("bzip2", ".bz2")),
            Self::Xz => Some(("xz", ".xz")),
        }
    }
}

/// Decompresses `source`, and says how it was compressed; `named` is the compression that its name promises. Reads the first
/// bytes.
pub(crate) fn decode(
    mut source: CountedSource,
    named: Option<SourceCompression>,
) -> io::Result<(Box<dyn Read + Send>, SourceCompression)> {
    let start = start::read(&mut source, named)?;
    let found = start::encoding(&start, named);
    if let Some(named) = named.filter(|&named| named != found) {
        let kind = if start::is_cut(&start, named) {
            ErrorKind::UnexpectedEof
        } else {
            ErrorKind::InvalidInput
        };
        return Err(kind.into());
    }
    let all = io::Cursor::new(start).chain(source);
    let buffered = |all| BufReader::with_capacity(CHUNK, all);
    let reader: Box<dyn Read + Send> = match found {
        SourceCompression::Plain => Box::new(all),
        SourceCompression::Gzip => Box::new(Members::new(GzDecoder::new(buffered(all)))),
        SourceCompression::Zstd => {
            Box::new(zstd::stream::read::Decoder::with_buffer(buffered(all))?)
        }
        SourceCompression::Bzip2 => Box::new(MultiBzDecoder::new(buffered(all))),
        SourceCompression::Xz => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
            Box::new(XzDecoder::new_stream(buffered(all), stream))
        }
    };
    Ok((reader, found))
}

/// Counts the bytes that are read, and finds a source that became shorter.
pub(crate) struct CountedSource {
    source: Box<dyn Read + Send>,
    count: Arc<AtomicU64>,
    /// How much there must be at least.
    size: u64,
}

impl CountedSource {
    /// `size` is its size when the run began, if known: a source that ends before was cut short.
    pub(crate) fn new(source: Box<dyn Read + Send>, size: Option<u64>) -> Self {
        Self {
            source,
            count: Arc::new(AtomicU64::new(0)),
            size: size.unwrap_or(0),
        }
    }

    /// Bytes read so far.
    pub(crate) fn count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.count)
    }
}

impl Read for CountedSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read(into)?;
        let before = self.count.fetch_add(bytes as u64, Ordering::Relaxed);
        if bytes == 0 && before < self.size && !into.is_empty() {
            let short = TruncatedSource {
                read: before,
                size: self.size,
            };
            // No `UnexpectedEof`: Arrow takes that between two messages for the end.
            return Err(io::Error::new(ErrorKind::InvalidData, short));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;
    use embedctl_common::error::Cause;

    pub fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    pub fn zstd(data: &[u8]) -> Vec<u8> {
        zstd::encode_all(data, 1).unwrap()
    }

    pub fn bzip2(data: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    pub fn xz(data: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    /// The decoded bytes, or the explanation of the error.
    fn read(
        data: &[u8],
        named: Option<SourceCompression>,
    ) -> Result<(String, SourceCompression), String> {
        let source = CountedSource::new(Box::new(io::Cursor::new(data.to_vec())), None);
        let consumed = source.count();
        let (mut reader, encoding) = decode(source, named).map_err(|error| {
            let why = explain_start(named.unwrap_or(SourceCompression::Plain), &error);
            why.map(|cause| cause.to_string()).unwrap_or_default()
        })?;
        let mut text = String::new();
        match reader.read_to_string(&mut text) {
            Ok(_) => {
                assert_eq!(consumed.load(Ordering::Relaxed), data.len() as u64);
                Ok((text, encoding))
            }
            Err(error) => Err(explain(encoding, &error).unwrap().to_string()),
        }
    }

    #[test]
    fn all_members_and_frames_are_read() {
        let gzipped = [gzip(b"one\n"), gzip(b""), gzip(b"two\n")].concat();
        let zstandard = [zstd(b"one\n"), zstd(b""), zstd(b"two\n")].concat();
        let bzipped = [bzip2(b"one\n"), bzip2(b""), bzip2(b"two\n")].concat();
        let xzed = [xz(b"one\n"), xz(b""), xz(b"two\n")].concat();
        for (data, encoding) in [
            (gzipped, SourceCompression::Gzip),
            (zstandard, SourceCompression::Zstd),
            (bzipped, SourceCompression::Bzip2),
            (xzed, SourceCompression::Xz),
        ] {
            for named in [Some(encoding), None] {
                assert_eq!(read(&data, named), Ok(("one\ntwo\n".to_owned(), encoding)));
            }
        }
    }

    #[test]
    fn zeros_may_pad_gzip_and_nothing_else_may() {
        for zeros in [1, 7, 512, 3 * CHUNK] {
            let padded = [gzip(b"one\n"), gzip(b"two\n"), vec![0; zeros]].concat();
            assert_eq!(
                read(&padded, None),
                Ok(("one\ntwo\n".to_owned(), SourceCompression::Gzip))
            );
            let followed = [padded, gzip(b"three\n")].concat();
            let reason = read(&followed, None).unwrap_err();
            assert!(reason.contains("not gzip follow"), "{reason}");
        }
    }

    #[test]
    fn a_source_that_is_shorter_than_it_was_is_an_error() {
        for data in [
            b"some text".to_vec(),
            gzip(b"some text"),
            zstd(b"some text"),
            Vec::new(),
        ] {
            let size = data.len() as u64;
            let read = |size| {
                let source =
                    CountedSource::new(Box::new(io::Cursor::new(data.clone())), Some(size));
                let mut text = Vec::new();
                decode(source, None).and_then(|(mut reader, _)| reader.read_to_end(&mut text))
            };
            // One that has grown is read to its end.
            assert!(read(size).is_ok() && read(size.saturating_sub(1)).is_ok());
            let error = read(size + 1).unwrap_err();
            let Cause { reason, remedy } = explain(SourceCompression::Plain, &error).unwrap();
            assert!(reason.contains("bytes when the run began"), "{reason}");
            assert_eq!(remedy.as_deref(), Some("run again when it is complete"));
        }
    }

    #[test]
    fn a_skippable_frame_may_come_first_where_the_name_says_zstd() {
        let data = [&b"\x50\x2a\x4d\x18\x02\0\0\0ab"[..], &zstd(b"text")].concat();
        assert_eq!(
            read(&data, Some(SourceCompression::Zstd)),
            Ok(("text".to_owned(), SourceCompression::Zstd))
        );
    }

    #[test]
    fn plain_data_passes_through() {
        for text in [
            "",
            "(",
            "()",
            "\u{1f}",
            "plain",
            "B",
            "BZh",
            "BZh9",
            "BZh91AY",
            "BZh91AY is no block",
        ] {
            assert_eq!(
                read(text.as_bytes(), None),
                Ok((text.to_owned(), SourceCompression::Plain))
            );
        }
    }

    #[test]
    fn every_truncation_is_found() {
        let text = "some words, some more words, and some words again\n".repeat(20);
        for (data, encoding) in [
            (gzip(text.as_bytes()), SourceCompression::Gzip),
            (zstd(text.as_bytes()), SourceCompression::Zstd),
            (bzip2(text.as_bytes()), SourceCompression::Bzip2),
            (xz(text.as_bytes()), SourceCompression::Xz),
        ] {
            for length in 0..data.len() {
                let reason = read(&data[..length], Some(encoding)).unwrap_err();
                assert!(reason.contains("truncated"), "{length}: {reason}");
            }
        }
    }

    #[test]
    fn damage_and_strange_bytes_are_told_apart() {
        let mut damaged = gzip(b"some text that is long enough to be damaged in the middle");
        let last = damaged.len() - 8;
        damaged[last] ^= 1;
        let reason = read(&damaged, None).unwrap_err();
        assert!(reason.contains("gzip stream is damaged"), "{reason}");

        let followed = [gzip(b"text"), b"strange bytes".to_vec()].concat();
        let reason = read(&followed, None).unwrap_err();
        assert!(reason.contains("not gzip follow"), "{reason}");

        let followed = [zstd(b"text"), b"strange bytes".to_vec()].concat();
        let reason = read(&followed, None).unwrap_err();
        assert!(reason.contains("zstd stream is damaged"), "{reason}");
    }

    #[test]
    fn a_name_is_a_promise() {
        for (named, other) in [
            (SourceCompression::Gzip, zstd(b"text")),
            (SourceCompression::Zstd, gzip(b"text")),
            (SourceCompression::Gzip, b"plain text".to_vec()),
            (SourceCompression::Bzip2, b"BZhplain text".to_vec()),
            (SourceCompression::Xz, gzip(b"text")),
        ] {
            let reason = read(&other, Some(named)).unwrap_err();
            assert!(reason.contains("its name ends in"), "{reason}");
        }
    }
}
