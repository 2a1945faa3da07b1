//! Sources: found and judged before any work, opened one at a time when their turn comes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::compression::{self, Decoded, Encoding};
use super::format::{self, InputFormat};
use super::lines::{LineReader, Start};
use super::pace::Ahead;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::threads::exhausted;

/// How standard input is called in messages.
pub(super) const STDIN: &str = "standard input";

/// Where records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file, a FIFO or a device.
    Path(PathBuf),
}

impl Source {
    /// The path; none for standard input.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdin => None,
            Self::Path(path) => Some(path),
        }
    }
}

impl From<PathBuf> for Source {
    /// As on the command line: `-` is standard input.
    fn from(path: PathBuf) -> Self {
        if path == Path::new("-") {
            Self::Stdin
        } else {
            Self::Path(path)
        }
    }
}

/// A source that was looked at.
#[derive(Debug)]
pub(super) struct Planned {
    /// Its place among the sources.
    pub index: u32,
    pub source: Source,
    pub name: String,
    pub format: InputFormat,
    /// Whether nobody said that this is text.
    pub guessed: bool,
    /// The compression that its name promises.
    pub encoding: Option<Encoding>,
    /// Its size, where it is a regular file.
    pub bytes: Option<u64>,
}

/// Standard input, taken once.
pub(super) struct Stdin {
    pub reader: Box<dyn Read + Send>,
    pub bytes: Option<u64>,
}

impl Stdin {
    /// Reads nothing.
    pub(super) fn take() -> Self {
        #[cfg(unix)]
        {
            use std::io::Seek;
            use std::os::fd::AsFd;

            // A descriptor of our own: no second buffer, and the size where a file is redirected.
            if let Ok(descriptor) = io::stdin().as_fd().try_clone_to_owned() {
                let mut file = File::from(descriptor);
                let size = file.metadata().ok().filter(fs::Metadata::is_file);
                let bytes = size.and_then(|metadata| {
                    let position = file.stream_position().ok()?;
                    Some(metadata.len().saturating_sub(position))
                });
                return Self {
                    reader: Box::new(file),
                    bytes,
                };
            }
        }
        Self {
            reader: Box::new(io::stdin()),
            bytes: None,
        }
    }
}

impl Planned {
    /// Looks at a source and decides its format. A regular file is opened and closed again, so that one
    /// that cannot be read fails now, and thousands need no descriptors. Anything else can be opened only
    /// once (a process substitution), or must not be opened before its turn (a FIFO whose writer serves
    /// another one first).
    pub(super) fn new(
        index: u32,
        source: &Source,
        format: Option<InputFormat>,
        stdin: Option<&Stdin>,
    ) -> Result<Self> {
        let Source::Path(path) = source else {
            return Ok(Self {
                index,
                source: Source::Stdin,
                name: STDIN.to_owned(),
                format: format.unwrap_or(InputFormat::Text),
                guessed: format.is_none(),
                encoding: None,
                bytes: stdin.and_then(|stdin| stdin.bytes),
            });
        };
        let failed = |error| Error::io("read", path, error);
        let name = path.display().to_string();
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::usage(format!(
                "there is no input {name}; check its name and folder"
            )),
            _ => failed(error),
        })?;
        if metadata.is_dir() {
            return Err(Error::usage(format!(
                "{name} is a directory; name the files in it, for example `{}`",
                path.join("*.jsonl").display()
            )));
        }
        if metadata.is_file() {
            File::open(path).map_err(failed)?;
        }
        let (ending, encoding) = format::by_ending(path);
        let format = format.or(ending).ok_or_else(|| {
            Error::usage(format!(
                "cannot tell the format of {name}: endings that are known are .txt, .jsonl and .ndjson, \
                 each also with .gz or .zst; say `-i text` or `-i jsonl`"
            ))
        })?;
        Ok(Self {
            index,
            source: source.clone(),
            name,
            format,
            guessed: false,
            encoding,
            bytes: metadata.is_file().then_some(metadata.len()),
        })
    }

    /// Whether it is a pipe, a device, or something else whose size nobody knows.
    pub(super) fn may_pause(&self) -> bool {
        self.bytes.is_none()
    }

    /// Opens the source and reads its first bytes; one that may pause is read ahead.
    pub(super) fn open(
        &self,
        stdin: &mut Option<Stdin>,
        limit: usize,
    ) -> Result<(OpenSource, Option<Ahead>)> {
        let reader: Box<dyn Read + Send> = match &self.source {
            Source::Stdin => match stdin.take() {
                Some(stdin) => stdin.reader,
                None => return Err(Error::internal("standard input read twice")),
            },
            Source::Path(path) => {
                let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
                Box::new(file)
            }
        };
        let (reader, ahead): (Box<dyn Read + Send>, _) = if self.may_pause() {
            let ahead = Ahead::of(reader).map_err(exhausted)?;
            (Box::new(ahead.clone()), Some(ahead))
        } else {
            (reader, None)
        };
        let decoded = compression::decode(reader, self.encoding, self.bytes).map_err(|error| {
            let named = self.encoding.unwrap_or(Encoding::Plain);
            let reason = compression::explain_start(named, &error);
            self.error(reason, 0, error)
        })?;
        let Decoded {
            reader,
            encoding,
            consumed,
        } = decoded;
        let mut opened = OpenSource {
            lines: LineReader::new(reader, limit),
            encoding,
            compressed: consumed,
        };
        match opened.lines.begin() {
            Ok(Start::Utf8) => Ok((opened, ahead)),
            Ok(Start::Utf16(name)) => Err(Error::input(
                Place::file(&self.name),
                format!(
                    "is UTF-16; convert it to UTF-8 first, for example with `iconv -f {name} -t UTF-8`"
                ),
            )),
            Err(error) => Err(self.failed(&opened, error)),
        }
    }

    /// The error of a source that cannot be read on.
    pub(super) fn failed(&self, opened: &OpenSource, error: io::Error) -> Error {
        let reason = compression::explain(opened.encoding, &error);
        self.error(reason, opened.lines.number(), error)
    }

    fn error(&self, reason: Option<String>, line: u64, error: io::Error) -> Error {
        let place = match line {
            0 => Place::file(&self.name),
            line => Place::file(&self.name).line(line),
        };
        match reason {
            // A pipe that breaks on the way in is no reader of ours that went away.
            None => Error::new(ErrorKind::Io, "", "read").at(place),
            Some(reason) => Error::input(place, reason),
        }
        .caused_by(error)
    }
}

/// A source whose turn it is.
pub(super) struct OpenSource {
    pub lines: LineReader,
    encoding: Encoding,
    compressed: Arc<AtomicU64>,
}

impl OpenSource {
    /// How many bytes of the source (compressed, where it is) were consumed.
    pub(super) fn consumed(&self) -> u64 {
        match self.encoding {
            Encoding::Plain => self.lines.offset(),
            // What lies decompressed in a buffer counts as consumed; nobody can tell how much it is.
            Encoding::Gzip | Encoding::Zstd => self.compressed.load(Ordering::Relaxed),
        }
    }
}
