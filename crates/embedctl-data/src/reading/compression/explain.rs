//! Errors of compressed sources with their remedies: the decoders' own messages have neither.

use std::io::{self, ErrorKind};

use super::SourceCompression;
use embedctl_common::error::Cause;
use embedctl_records::expansion::ExpansionGuard;

/// The meaning of `error` for a stream of this kind, and the remedy. `None`: nothing about the stream, the
/// system could not read it.
pub fn explain(encoding: SourceCompression, error: &io::Error) -> Option<Cause> {
    if let Some(short) = error
        .get_ref()
        .and_then(|it| it.downcast_ref::<TruncatedSource>())
    {
        return Some(Cause::of(short.to_string()).with("run again when it is complete"));
    }
    if let Some(expands) = error
        .get_ref()
        .and_then(|it| it.downcast_ref::<ExpansionGuard>())
    {
        let remedy = "if the line is right, decompress the file first";
        return Some(Cause::of(expands.to_string()).with(remedy));
    }
    let (name, _) = encoding.names()?;
    if error.raw_os_error().is_some() {
        return None;
    }
    let message = error.to_string();
    let (reason, remedy) = match error.kind() {
        ErrorKind::UnexpectedEof => (
            format!("the {name} stream is incomplete, so the file is truncated"),
            "fetch it or compress it again",
        ),
        // The first member's header was right, so these bytes follow a member.
        _ if encoding == SourceCompression::Gzip && message.contains("header") => (
            format!("bytes that are not gzip follow the gzip stream ({message})"),
            "remove them or compress the file again",
        ),
        _ if encoding == SourceCompression::Xz && message.contains("memory") => (
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

/// The error for a source whose first bytes are not of the compression that its name promises.
pub fn explain_start(named: SourceCompression, error: &io::Error) -> Option<Cause> {
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

/// A file that has become shorter since the run began.
#[derive(Debug, thiserror::Error)]
#[error(
    "it had {size} bytes when the run began and ends after {read} now: it was cut or replaced during \
     the run"
)]
pub(crate) struct TruncatedSource {
    pub read: u64,
    pub size: u64,
}
