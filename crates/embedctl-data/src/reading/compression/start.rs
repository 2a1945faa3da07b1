//! How a stream is compressed, by its first bytes.

use std::io::{self, ErrorKind, Read};

use super::SourceCompression;

const GZIP_START: &[u8] = &[0x1f, 0x8b, 8];
const ZSTD_START: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ_START: &[u8] = b"\xfd7zXZ\0";
/// `BZh` and a level, then the start of a block (pi) or of the end (its square root).
const BZIP2_START: &[u8] = b"BZh";
const BZIP2_BLOCKS: [&[u8]; 2] = [b"1AY&SY", b"\x17rE8P\x90"];

/// The compression that begins with `start`; `named` is the one that the source's name promises.
pub(crate) fn encoding(start: &[u8], named: Option<SourceCompression>) -> SourceCompression {
    match start {
        _ if start.starts_with(GZIP_START) => SourceCompression::Gzip,
        _ if start.starts_with(ZSTD_START) => SourceCompression::Zstd,
        _ if start.starts_with(XZ_START) => SourceCompression::Xz,
        _ if is_bzip2(start) => SourceCompression::Bzip2,
        // A skippable frame of zstd; parallel compressors begin with one. It is ASCII, so the
        // name has to say that this is zstd.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] if named == Some(SourceCompression::Zstd) => {
            SourceCompression::Zstd
        }
        _ => SourceCompression::Plain,
    }
}

/// Bytes of the longest start: bzip2's.
const LONGEST_START: usize = BZIP2_START.len() + 1 + 6;

fn is_bzip2(start: &[u8]) -> bool {
    let block = start.get(BZIP2_START.len() + 1..).unwrap_or_default();
    start.starts_with(BZIP2_START) && BZIP2_BLOCKS.iter().any(|known| block.starts_with(known))
}

/// The first bytes, no more of them than it takes to decide: a pipe may be slow to give the next.
pub(crate) fn read(
    source: &mut impl Read,
    named: Option<SourceCompression>,
) -> io::Result<Vec<u8>> {
    let mut start = [0; LONGEST_START];
    let mut length = 0;
    while length < start.len() && may_become(&start[..length], named) {
        match source.read(&mut start[length..]) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(start[..length].to_vec())
}

/// Whether more bytes could make `start` that of a compressed stream.
fn may_become(start: &[u8], named: Option<SourceCompression>) -> bool {
    let kinds = [
        SourceCompression::Gzip,
        SourceCompression::Zstd,
        SourceCompression::Bzip2,
        SourceCompression::Xz,
    ];
    let skippable = named == Some(SourceCompression::Zstd) && start.len() < ZSTD_START.len();
    skippable || kinds.iter().any(|&kind| is_cut(start, kind))
}

fn is_less(start: &[u8], whole: &[u8]) -> bool {
    start.len() < whole.len() && whole.starts_with(start)
}

/// Whether `start` is less than the start of a stream of this kind.
pub(crate) fn is_cut(start: &[u8], kind: SourceCompression) -> bool {
    match kind {
        SourceCompression::Gzip => is_less(start, GZIP_START),
        SourceCompression::Zstd => is_less(start, ZSTD_START),
        SourceCompression::Xz => is_less(start, XZ_START),
        SourceCompression::Bzip2 => match start.split_at_checked(BZIP2_START.len() + 1) {
            None => BZIP2_START.starts_with(start) || start.starts_with(BZIP2_START),
            Some((head, block)) => {
                let known = |known: &&[u8]| known.len() > block.len() && known.starts_with(block);
                head.starts_with(BZIP2_START) && BZIP2_BLOCKS.iter().any(known)
            }
        },
        SourceCompression::Plain => false,
    }
}
