//! Compressed sources, decompressed while they are read: all members of gzip, all frames of zstd, all streams
//! of bzip2 and xz.
//!
//! A name that ends in `.gz`, `.zst`, `.bz2` or `.xz` is a promise. Any other source is recognised by its first bytes,
//! so that `curl … | embedctl embed -i jsonl` needs no decompressor between: none of these starts
//! begins UTF-8 text that anybody writes.

mod start;

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use crate::error::Cause;

/// How much compressed data is read at a time.
const CHUNK: usize = 64 * 1024;

/// Memory that xz may use: `xz -9` needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

/// How a source is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

impl Encoding {
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

/// A stream, decompressed.
pub(super) struct Decoded {
    pub reader: Box<dyn Read + Send>,
    pub encoding: Encoding,
    /// Bytes read from the source so far.
    pub consumed: Arc<AtomicU64>,
}

/// Decompresses `source`; `named` is what its name promises. Reads the first bytes.
///
/// `size` is what it held when the run began, where that is known: one that ends before was cut short.
pub(super) fn decode(
    source: Box<dyn Read + Send>,
    named: Option<Encoding>,
    size: Option<u64>,
) -> io::Result<Decoded> {
    let mut source = Counted::new(source, size);
    let consumed = source.count();
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
        Encoding::Plain => Box::new(all),
        Encoding::Gzip => Box::new(Members(Some(GzDecoder::new(buffered(all))))),
        Encoding::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(buffered(all))?),
        Encoding::Bzip2 => Box::new(MultiBzDecoder::new(buffered(all))),
        Encoding::Xz => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
            Box::new(XzDecoder::new_stream(buffered(all), stream))
        }
    };
    Ok(Decoded {
        reader,
        encoding: found,
        consumed,
    })
}

/// What `error` means for a stream of this kind, and the remedy. `None`: nothing about the stream, the
/// system could not read it.
pub(super) fn explain(encoding: Encoding, error: &io::Error) -> Option<Cause> {
    if let Some(short) = error.get_ref().and_then(|it| it.downcast_ref::<CutShort>()) {
        return Some(short.to_string().into());
    }
    let (name, _) = encoding.names()?;
    if error.raw_os_error().is_some() {
        return None;
    }
    let message = error.to_string();
    let (reason, remedy) = match error.kind() {
        ErrorKind::UnexpectedEof => (
            format!("the {name} stream ends before its end, so the file is truncated"),
            "fetch it or compress it again",
        ),
        // The first member's header was seen to be right, so this is what follows a member.
        _ if encoding == Encoding::Gzip && message.contains("header") => (
            format!("bytes that are not gzip follow the gzip stream ({message})"),
            "remove them or compress the file again",
        ),
        _ if encoding == Encoding::Xz && message.contains("memory") => (
            format!("the xz stream needs more than 256 MiB to be read ({message})"),
            "compress it again with `xz -9` or less, or pipe it in with `xz -dc`",
        ),
        _ if message.contains("too much memory") => (
            format!("the zstd stream needs a window of more than 128 MiB ({message})"),
            "compress it again without `--ultra` or `--long`, or pipe it in with `zstd -dc --long=31`",
        ),
        _ => (
            format!("the {name} stream is damaged ({message})"),
            "fetch it or compress it again",
        ),
    };
    Some(Cause::of(reason).with(remedy))
}

/// What a source is whose name promises a compression that its first bytes deny.
pub(super) fn explain_start(named: Encoding, error: &io::Error) -> Option<Cause> {
    let denies = error.kind() == ErrorKind::InvalidInput && error.raw_os_error().is_none();
    match named.names() {
        Some((name, ending)) if denies => Some(
            Cause::of(format!(
                "its name ends in {ending}, but it is not {name} data"
            ))
            .with("if it is not compressed, rename it"),
        ),
        _ => explain(named, error),
    }
}

/// Counts what is read, and finds that there is less than there was.
pub(super) struct Counted {
    source: Box<dyn Read + Send>,
    count: Arc<AtomicU64>,
    /// How much there must be at least.
    size: u64,
}

impl Counted {
    pub(super) fn new(source: Box<dyn Read + Send>, size: Option<u64>) -> Self {
        Self {
            source,
            count: Arc::new(AtomicU64::new(0)),
            size: size.unwrap_or(0),
        }
    }

    /// Bytes read so far.
    pub(super) fn count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.count)
    }
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read(into)?;
        let before = self.count.fetch_add(bytes as u64, Ordering::Relaxed);
        if bytes == 0 && before < self.size && !into.is_empty() {
            let short = CutShort {
                read: before,
                size: self.size,
            };
            return Err(io::Error::new(ErrorKind::UnexpectedEof, short));
        }
        Ok(bytes)
    }
}

/// A file that has become shorter since the run began.
#[derive(Debug, thiserror::Error)]
#[error(
    "it had {size} bytes when the run began, and ends after {read} now: somebody has cut or replaced it \
     meanwhile; run again when it is complete"
)]
struct CutShort {
    read: u64,
    size: u64,
}

/// All members of a gzip file, and the zeros that may pad the last one (as tapes and some archives do).
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(mut member) = self.0.take() {
            let bytes = member.read(into)?;
            if bytes > 0 || into.is_empty() {
                self.0 = Some(member);
                return Ok(bytes);
            }
            let mut rest = member.into_inner();
            let mut padded = false;
            let followed = loop {
                let buffer = rest.fill_buf()?;
                let zeros = buffer.iter().take_while(|&&byte| byte == 0).count();
                let all = zeros == buffer.len();
                if buffer.is_empty() || !all {
                    padded |= zeros > 0;
                    break !all;
                }
                padded = true;
                rest.consume(zeros);
            };
            if followed && padded {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "bytes that are no gzip header follow zeros",
                ));
            }
            if followed {
                self.0 = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

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

    /// What is decoded, or the explanation of the error.
    fn read(data: &[u8], named: Option<Encoding>) -> Result<(String, Encoding), String> {
        let mut decoded =
            decode(Box::new(io::Cursor::new(data.to_vec())), named, None).map_err(|error| {
                let why = explain_start(named.unwrap_or(Encoding::Plain), &error);
                why.map(|cause| cause.to_string()).unwrap_or_default()
            })?;
        let mut text = String::new();
        match decoded.reader.read_to_string(&mut text) {
            Ok(_) => {
                assert_eq!(decoded.consumed.load(Ordering::Relaxed), data.len() as u64);
                Ok((text, decoded.encoding))
            }
            Err(error) => Err(explain(decoded.encoding, &error).unwrap().to_string()),
        }
    }

    #[test]
    fn all_members_and_frames_are_read() {
        let gzipped = [gzip(b"one\n"), gzip(b""), gzip(b"two\n")].concat();
        let zstandard = [zstd(b"one\n"), zstd(b""), zstd(b"two\n")].concat();
        let bzipped = [bzip2(b"one\n"), bzip2(b""), bzip2(b"two\n")].concat();
        let xzed = [xz(b"one\n"), xz(b""), xz(b"two\n")].concat();
        for (data, encoding) in [
            (gzipped, Encoding::Gzip),
            (zstandard, Encoding::Zstd),
            (bzipped, Encoding::Bzip2),
            (xzed, Encoding::Xz),
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
                Ok(("one\ntwo\n".to_owned(), Encoding::Gzip))
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
                let source = Box::new(io::Cursor::new(data.clone()));
                let mut text = Vec::new();
                decode(source, None, Some(size))
                    .and_then(|mut decoded| decoded.reader.read_to_end(&mut text))
            };
            // One that has grown is read to its end.
            assert!(read(size).is_ok() && read(size.saturating_sub(1)).is_ok());
            let error = read(size + 1).unwrap_err();
            let reason = explain(Encoding::Plain, &error).unwrap().reason;
            assert!(reason.contains("bytes when the run began"), "{reason}");
        }
    }

    #[test]
    fn a_skippable_frame_may_come_first_where_the_name_says_zstd() {
        let data = [&b"\x50\x2a\x4d\x18\x02\0\0\0ab"[..], &zstd(b"text")].concat();
        assert_eq!(
            read(&data, Some(Encoding::Zstd)),
            Ok(("text".to_owned(), Encoding::Zstd))
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
                Ok((text.to_owned(), Encoding::Plain))
            );
        }
    }

    #[test]
    fn every_truncation_is_found() {
        let text = "some words, some more words, and some words again\n".repeat(20);
        for (data, encoding) in [
            (gzip(text.as_bytes()), Encoding::Gzip),
            (zstd(text.as_bytes()), Encoding::Zstd),
            (bzip2(text.as_bytes()), Encoding::Bzip2),
            (xz(text.as_bytes()), Encoding::Xz),
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
            (Encoding::Gzip, zstd(b"text")),
            (Encoding::Zstd, gzip(b"text")),
            (Encoding::Gzip, b"plain text".to_vec()),
            (Encoding::Bzip2, b"BZhplain text".to_vec()),
            (Encoding::Xz, gzip(b"text")),
        ] {
            let reason = read(&other, Some(named)).unwrap_err();
            assert!(reason.contains("its name ends in"), "{reason}");
        }
    }
}
