//! Sources: found and judged before any work, opened one at a time when their turn comes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::compression::{self, CountedSource, SourceCompression};
use super::pace::{ReadAhead, WindowPacing};
use crate::reading::format;
use embedctl_common::error::{Cause, Error, ErrorKind, Place, Result};
use embedctl_common::setting::INPUT_FORMAT;
use embedctl_common::small_file;
use embedctl_records::batch_lines::BatchLines;
use embedctl_records::elements::ElementLines;
use embedctl_records::format::InputFormat;
use embedctl_records::html::PageText;
use embedctl_records::lines::{LineReader, ReadFault, TextStart, is_utf16};
use embedctl_records::options::Part;
use embedctl_records::position::Seek;
use embedctl_records::source::SourceFacts;
use embedctl_storage::{Bytes, FileBytes, Readable};

/// Bytes by which HTML is known.
const HTML_START: u64 = 256;

/// How standard input is called in messages.
pub(crate) const STDIN: &str = "standard input";

/// Where records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file, a FIFO or a device.
    Path(PathBuf),
    /// Anything else that has a name and can be read anywhere.
    Object(Readable),
}

impl Source {
    /// The path of a file, or the name of an object; none for standard input.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdin => None,
            Self::Object(object) => Some(Path::new(&object.name)),
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

/// An inspected source.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub facts: SourceFacts,
    pub source: Source,
    /// The compression that its name promises.
    pub encoding: Option<SourceCompression>,
    /// Its size, where it is a regular file or an object.
    pub bytes: Option<u64>,
    /// The part of it that is read.
    pub part: Part,
    /// Where to begin: lines or rows before, and how to get there.
    pub start: Option<(u64, Seek)>,
}

fn unknown(name: &str) -> Error {
    let path = Path::new(name);
    if let Some(cause) = format::foreign_ending(path) {
        return Error::input(Place::file(name), cause);
    }
    if format::is_document(path) {
        return Error::usage(format!("{name} is a document, not a list of records")).with_remedy(
            format!(
                "say `{INPUT_FORMAT} {}` to embed it as one text, or `{INPUT_FORMAT} text` to embed its lines",
                InputFormat::File
            ),
        );
    }
    Error::usage(format!(
        "cannot tell the format of {name}: known endings are .txt, .jsonl, .ndjson, .json, .csv and .tsv, each \
         also with .gz, .zst, .bz2 or .xz, .parquet, .arrow, .arrows, .ipc and .feather, and for documents .md, \
         .markdown, .rst, .html, .htm and .xhtml"
    ))
    .with_remedy(format!("say which it is with `{INPUT_FORMAT}`, for example `{INPUT_FORMAT} text` or `{INPUT_FORMAT} jsonl`"))
}

/// Standard input, taken once.
pub(crate) struct Stdin {
    pub reader: Box<dyn Read + Send>,
    pub bytes: Option<u64>,
}

impl Stdin {
    /// Reads nothing.
    pub(crate) fn take() -> Self {
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

/// The means to open a source: standard input, and the pauses of the source that is read.
pub(crate) struct SourceOpener<'r> {
    pub stdin: &'r mut Option<Stdin>,
    pub pace: &'r mut WindowPacing,
}

impl Planned {
    /// Looks at a source and decides its format. A regular file is opened and closed again, so that one
    /// that cannot be read fails now, and thousands need no descriptors. Anything else can be opened only
    /// once (a process substitution), or must not be opened before its turn (a FIFO whose writer serves
    /// another one first).
    pub(crate) fn new(
        index: u32,
        source: &Source,
        format: Option<InputFormat>,
        stdin: Option<&Stdin>,
    ) -> Result<Self> {
        let plan = |name: String, format, encoding, bytes| Self {
            facts: SourceFacts {
                index,
                name,
                format,
                guessed: false,
            },
            source: source.clone(),
            encoding,
            bytes,
            part: Part::Whole,
            start: None,
        };
        let path = match source {
            Source::Path(path) => path,
            Source::Stdin => {
                let bytes = stdin.and_then(|stdin| stdin.bytes);
                let format_or = format.unwrap_or(InputFormat::Text);
                let mut plan = plan(STDIN.to_owned(), format_or, None, bytes);
                plan.facts.guessed = format.is_none();
                return Ok(plan);
            }
            Source::Object(Readable { name, bytes }) => {
                let (ending, encoding) = format::by_ending(Path::new(name));
                let format = format.or(ending).ok_or_else(|| unknown(name))?;
                return plan(name.clone(), format, encoding, Some(bytes.len())).checked();
            }
        };
        let failed = |error| Error::io("read", path, error);
        let name = path.display().to_string();
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::usage(format!("there is no input {name}"))
                .with_remedy("check its name and folder"),
            _ => failed(error),
        })?;
        if metadata.is_dir() {
            let files = path.join("*.jsonl");
            return Err(
                Error::usage(format!("{name} is a directory")).with_remedy(format!(
                    "name the files in it, for example `{}`",
                    files.display()
                )),
            );
        }
        let (ending, encoding) = format::by_ending(path);
        let mut format = format.or(ending);
        if metadata.is_file() {
            let mut file = File::open(path).map_err(failed)?;
            if format.is_none() {
                let mut start = Vec::new();
                file.by_ref()
                    .take(16)
                    .read_to_end(&mut start)
                    .map_err(failed)?;
                format = format::recognised(&start);
                if let Some(cause) = format::foreign(&start, path).filter(|_| format.is_none()) {
                    return Err(Error::input(Place::file(&name), cause));
                }
            }
        }
        let format = format.ok_or_else(|| unknown(&name))?;
        let bytes = metadata.is_file().then_some(metadata.len());
        plan(name, format, encoding, bytes).checked()
    }

    /// Refuses a table that is compressed as a whole.
    fn checked(self) -> Result<Self> {
        if self.facts.format.is_table() && self.encoding.is_some() {
            return Err(self
                .facts
                .usage(format!(
                    "it is compressed as a whole, but {} is read in parts",
                    self.facts.format
                ))
                .with_remedy("decompress it first, it compresses its columns itself"));
        }
        Ok(self)
    }

    /// Its bytes, where they can be read anywhere.
    pub(crate) fn bytes(&self) -> Option<Arc<dyn Bytes>> {
        match &self.source {
            Source::Object(object) => Some(Arc::clone(&object.bytes)),
            Source::Path(path) => Some(Arc::new(FileBytes::new(path, self.bytes?))),
            Source::Stdin => None,
        }
    }

    /// Its bytes in order, from the beginning; those of a source that may pause are read ahead.
    pub(crate) fn stream(&self, opener: &mut SourceOpener<'_>) -> Result<Box<dyn Read + Send>> {
        let reader: Box<dyn Read + Send> = match &self.source {
            Source::Stdin => match opener.stdin.take() {
                Some(stdin) => stdin.reader,
                None => return Err(Error::internal("standard input read twice")),
            },
            Source::Path(path) => {
                let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
                Box::new(file)
            }
            Source::Object(object) => (object.bytes.reader_from(0))
                .map_err(|error| Error::io("read", &object.name, error))?,
        };
        opener.pace.source = None;
        if !self.may_pause() {
            return Ok(reader);
        }
        let ahead = ReadAhead::of(reader)?;
        opener.pace.source = Some(ahead.clone());
        Ok(Box::new(ahead))
    }

    /// Whether it can only be read from its beginning: it is compressed, has a header, or is one record or array.
    pub(crate) fn is_whole(&self) -> bool {
        let is_rewritten =
            self.facts.format == InputFormat::File || self.facts.format.is_rewritten();
        self.encoding.is_some() || self.facts.format.has_header() || is_rewritten
    }

    /// Whether it is a pipe, a device, or another source of unknown size.
    pub(crate) fn may_pause(&self) -> bool {
        self.bytes.is_none()
    }

    /// Opens the source and reads its first bytes.
    pub fn open(&self, opener: &mut SourceOpener<'_>, limit: usize) -> Result<OpenSource> {
        if let Some((lines, Seek::Byte { byte })) = self.start
            && let Some(bytes) = self.bytes()
        {
            let failed = |error| Error::io("read", &self.facts.name, error);
            let reader = bytes.reader_from(byte).map_err(failed)?;
            let rest = self.bytes.map(|bytes| bytes.saturating_sub(byte));
            let counted = CountedSource::new(reader, rest);
            opener.pace.source = None;
            return Ok(OpenSource {
                compressed: counted.count(),
                lines: self.lines(LineReader::behind(Box::new(counted), limit, lines, byte)),
                encoding: SourceCompression::Plain,
                is_rewritten: false,
            });
        }
        let counted = CountedSource::new(self.stream(opener)?, self.bytes);
        let compressed = counted.count();
        let decoded = compression::decode(counted, self.encoding);
        let (reader, encoding) = decoded.map_err(|error| {
            let named = self.encoding.unwrap_or(SourceCompression::Plain);
            let reason = compression::explain_start(named, &error);
            self.error(reason, 0, error)
        })?;
        let reader: Box<dyn Read + Send> = match self.facts.format {
            InputFormat::Json => Box::new(ElementLines::new(reader, &self.facts.name)),
            InputFormat::OpenAiBatch => Box::new(BatchLines::new(reader, &self.facts.name)),
            InputFormat::File => {
                let path = Path::new(&self.facts.name);
                let (mut start, mut reader) = (Vec::new(), reader);
                // Only a name that says nothing leaves it to the content, as that of standard input does.
                if !format::is_document(path) {
                    let mut first = reader.by_ref().take(HTML_START);
                    first.read_to_end(&mut start).map_err(|error| {
                        Error::behind(&error).unwrap_or_else(|| Error::io("read", path, error))
                    })?;
                }
                let is_page = format::is_html(path) || format::begins_html(&start);
                let reader = io::Cursor::new(start).chain(reader);
                match is_page {
                    true => Box::new(PageText::new(Box::new(reader), limit)),
                    false => Box::new(reader),
                }
            }
            _ => reader,
        };
        let lines = self.lines(LineReader::new(reader, limit));
        let mut opened = OpenSource {
            lines: match encoding {
                SourceCompression::Plain => lines,
                _ => lines.of_compressed(Arc::clone(&compressed)),
            },
            encoding,
            is_rewritten: self.facts.format.is_rewritten(),
            compressed,
        };
        match opened.lines.begin(format::may_begin) {
            Ok(TextStart::Utf8) => {
                let ahead = opened.lines.ahead();
                if let Some(cause) = format::foreign(ahead, Path::new(&self.facts.name))
                    .or_else(|| self.lfs_pointer(ahead))
                {
                    return Err(Error::input(Place::file(&self.facts.name), cause));
                }
                self.skip(&mut opened)?;
                Ok(opened)
            }
            // A document is one record, which is rejected as such.
            Ok(TextStart::Utf16(_)) if self.facts.format == InputFormat::File => Ok(opened),
            Ok(TextStart::Utf16(name)) => Err(Error::input(
                Place::file(&self.facts.name),
                is_utf16("is", name),
            )),
            Err(error) => Err(self.failed(&opened, error)),
        }
    }

    /// What it is if it is a pointer of Git LFS: no JSON begins as one, and text is one only as a whole.
    fn lfs_pointer(&self, ahead: &[u8]) -> Option<Cause> {
        if self.facts.format.is_json() {
            return small_file::lfs_pointer(ahead);
        }
        let is_whole = self.bytes == Some(ahead.len() as u64);
        (small_file::whole_lfs_pointer(ahead)).filter(|_| is_whole)
    }

    /// The reader of its lines; a document is one.
    fn lines(&self, reader: LineReader) -> LineReader {
        match self.facts.format {
            InputFormat::File => reader.whole(),
            _ => reader,
        }
    }

    /// Passes over the lines before the start and before this part.
    fn skip(&self, opened: &mut OpenSource) -> Result<()> {
        let lines = self.start.map_or(0, |(lines, _)| lines);
        let byte = match self.part {
            Part::Bytes { start, .. } => start,
            Part::Whole | Part::Rows { .. } => 0,
        };
        if byte > 0 && opened.encoding != SourceCompression::Plain {
            return Err(self
                .facts
                .usage("a compressed input cannot be read in parts"));
        }
        while opened.lines.number() < lines || opened.lines.offset() < byte {
            match opened.lines.next_line() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return Err(self.failed(opened, error)),
            }
        }
        Ok(())
    }

    /// The error of a source that cannot be read on.
    pub(crate) fn failed(&self, opened: &OpenSource, error: io::Error) -> Error {
        let reason = compression::explain(opened.encoding, &error);
        self.error(reason, opened.lines.number(), error)
    }

    /// The error of a source whose records cannot be read on.
    pub(crate) fn faulty(&self, opened: &OpenSource, fault: ReadFault) -> Error {
        match fault {
            ReadFault::Source(error) => self.failed(opened, error),
            ReadFault::Content(error) => error,
        }
    }

    /// Reads once, for a line that is not all here yet.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub(crate) fn read_on(&self, opened: &mut OpenSource) -> Result<()> {
        let read = opened.lines.read_on();
        read.map_err(|error| self.failed(opened, error))
    }

    fn error(&self, cause: Option<Cause>, line: u64, error: io::Error) -> Error {
        // A store's refusal, in words already.
        if let Some(own) = Error::behind(&error) {
            return own;
        }
        let place = match line {
            0 => Place::file(&self.facts.name),
            line => Place::file(&self.facts.name).line(line),
        };
        match cause {
            // A pipe that breaks on the way in is not a closed output.
            None => Error::new(ErrorKind::Io, "", "read").at(place),
            Some(cause) => Error::input(place, cause),
        }
        .caused_by(error)
    }
}

/// A source whose turn it is.
pub(crate) struct OpenSource {
    pub lines: LineReader,
    encoding: SourceCompression,
    /// Whether its lines are made of others, so that it is read from its beginning.
    is_rewritten: bool,
    compressed: Arc<AtomicU64>,
}

impl OpenSource {
    /// Where the next line stands.
    pub(crate) fn place(&self) -> (u64, Seek) {
        let seek = match self.encoding {
            SourceCompression::Plain if !self.is_rewritten => Seek::Byte {
                byte: self.lines.offset(),
            },
            _ => Seek::Reread,
        };
        (self.lines.number(), seek)
    }

    /// How many bytes of the source (compressed, where it is) were consumed.
    pub(crate) fn consumed(&self) -> u64 {
        match self.encoding {
            SourceCompression::Plain => self.lines.offset(),
            // Decompressed bytes in a buffer count as consumed: their compressed size is unknown.
            _ => self.compressed.load(Ordering::Relaxed),
        }
    }
}
