//! Reading records: sources in a row, decompressed, cut into windows.
//!
//! ```text
//!  source ──► compression ──► lines ──► text │ jsonl ──► window
//!  files,     gzip, zstd      limit,    records           texts, columns, rejects
//!  pipes                      numbers
//! ```
//!
//! A reader holds one window and one record at most, whatever the size of the sources; a record above
//! the limit is rejected while it is being read.

mod cells;
mod columns;
mod compression;
mod fields;
mod format;
mod json;
mod jsonl;
mod lines;
mod paths;
mod source;
mod text;
mod window;

#[cfg(test)]
mod tests;

use std::str;
use std::sync::Arc;

pub use fields::{IdType, Keep, KeepType};
pub use format::InputFormat;
pub use source::Source;

use crate::error::{Error, Result};
use crate::record::{Origin, SourceNames, Window};
use columns::Columns;
use jsonl::Jsonl;
use lines::Line;
use source::{Opened, Planned, Stdin};
use window::Filling;

/// The remedy where there is no better one; follows another remedy.
const SKIP: &str = "or leave such records out with `--on-error skip`";

/// Records in a window at most, unless the caller says otherwise.
pub const DEFAULT_WINDOW_ROWS: usize = 8192;

/// Bytes of text after which a window is closed, unless the caller says otherwise.
pub const WINDOW_BYTES: usize = 16 << 20;

/// Bytes of a record at most, unless the caller says otherwise.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 4 << 20;

/// The largest limit of a record, and the largest size of a window: a column of strings holds 2 GiB.
const MOST_BYTES: usize = 1 << 30;

/// How to read.
#[derive(Debug, Clone)]
pub struct InputOptions {
    /// Format of every source; `None`: from each path's ending, text for standard input. Compression is
    /// recognised in any case: by the ending, else by the first bytes.
    pub format: Option<InputFormat>,
    /// JSONL field that holds the text; nested as `a.b`.
    pub text_field: String,
    /// JSONL field that holds the id; nested as `a.b`.
    pub id_field: String,
    /// Type of the `id` column.
    pub id_type: IdType,
    /// Fields carried through to the output.
    pub keep: Vec<Keep>,
    /// Bytes of a record at most; 1 GiB is the most that is allowed.
    pub max_record_bytes: usize,
    /// Records in a window at most.
    pub window_rows: usize,
    /// Bytes of text, ids and kept fields after which a window is closed.
    pub window_bytes: usize,
}

/// Reads windows from sources.
pub struct RecordReader {
    options: InputOptions,
    sources: Vec<Planned>,
    names: SourceNames,
    stdin: Option<Stdin>,
    /// The source that is read, the last of those that were begun.
    opened: Option<Opened>,
    begun: usize,
    failed: bool,
    /// Bytes of the sources that were read to their end.
    consumed: u64,
    jsonl: Jsonl,
    filling: Filling,
}

impl RecordReader {
    /// Looks at every source, so that a missing or unreadable file is found before any work, and decides
    /// formats. Reads nothing yet, and never waits: FIFOs and devices are opened when their turn comes.
    ///
    /// # Errors
    /// If options contradict each other, a source cannot be opened, or its format is unknown.
    pub fn open(sources: &[Source], options: InputOptions) -> Result<Self> {
        let stdin = sources.contains(&Source::Stdin).then(Stdin::take);
        Self::open_with(sources, options, stdin)
    }

    fn open_with(sources: &[Source], options: InputOptions, stdin: Option<Stdin>) -> Result<Self> {
        check(sources, &options)?;
        let sources = sources
            .iter()
            .map(|source| Planned::new(source, options.format, stdin.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        for source in &sources {
            check_text(source, &options)?;
        }
        let columns = Columns::new(options.id_type, &options.keep, &options.text_field);
        let window_bytes = options.window_bytes.min(MOST_BYTES);
        Ok(Self {
            names: sources.iter().map(|source| source.name.clone()).collect(),
            sources,
            stdin,
            opened: None,
            begun: 0,
            failed: false,
            consumed: 0,
            jsonl: Jsonl::new(&options),
            filling: Filling::new(columns, options.window_rows, window_bytes),
            options,
        })
    }

    /// Names of the sources as shown in messages; [`crate::record::Origin::source`] counts in it.
    #[must_use]
    pub fn names(&self) -> SourceNames {
        Arc::clone(&self.names)
    }

    /// Size of all sources together, where all are regular files.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    /// Reads the next window; `None` at the end. A window may hold rejects alone.
    ///
    /// # Errors
    /// If a source cannot be read to its end, or if standard input without a format holds JSONL. Bad
    /// records are no error here but [`Window::rejects`].
    pub fn next_window(&mut self) -> Result<Option<Window>> {
        if self.failed {
            return Ok(None);
        }
        // A decoder that has failed may pretend to be at its end: never ask it again.
        self.failed = true;
        self.fill()?;
        self.failed = false;
        if self.filling.records() == 0 {
            return Ok(None);
        }
        let consumed = self.consumed + self.opened.as_ref().map_or(0, Opened::consumed);
        self.filling.close(consumed).map(Some)
    }

    /// Reads until the window is full or the sources are at their end.
    fn fill(&mut self) -> Result<()> {
        while !self.filling.is_full() {
            let Some(opened) = &mut self.opened else {
                let Some(source) = self.sources.get(self.begun) else {
                    break;
                };
                self.begun += 1;
                self.opened = Some(source.open(&mut self.stdin, self.options.max_record_bytes)?);
                continue;
            };
            let index = self.begun - 1;
            let source = &self.sources[index];
            let line = match opened.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.consumed += opened.consumed();
                    self.opened = None;
                    continue;
                }
                Err(error) => return Err(source.failed(opened, error)),
            };
            let origin = Origin {
                source: u32::try_from(index).expect("fewer than 2^32 sources"),
                line: line.number,
                offset: line.offset,
            };
            read(
                source,
                &line,
                origin,
                &self.options,
                &self.jsonl,
                &mut self.filling,
            )?;
        }
        Ok(())
    }

    /// Schema of [`Window::columns`]. A kept field without a type is known after the first window that
    /// holds a text; before it, it is a string.
    #[must_use]
    pub fn schema(&self) -> arrow::datatypes::SchemaRef {
        self.filling.columns.schema()
    }
}

/// Takes one line as its source's format says.
fn read(
    source: &Planned,
    line: &Line<'_>,
    origin: Origin,
    options: &InputOptions,
    jsonl: &Jsonl,
    filling: &mut Filling,
) -> Result<()> {
    let limit = options.max_record_bytes;
    if line.length > limit as u64 {
        let reason = format!(
            "the record has {} bytes, more than the limit of {limit}; raise it with \
             `--max-record-bytes`, {SKIP}",
            line.length
        );
        filling.reject(origin, reason, line.bytes);
        return Ok(());
    }
    let text = match str::from_utf8(line.bytes) {
        Ok(text) => text,
        Err(error) => {
            let reason = format!(
                "the record is not valid UTF-8 at its byte {}; convert the input, for example with \
                 `iconv -t UTF-8`, {SKIP}",
                error.valid_up_to() + 1
            );
            filling.reject(origin, reason, line.bytes);
            return Ok(());
        }
    };
    let record = match source.format {
        InputFormat::Text => {
            if source.guessed && line.number == 1 && jsonl.recognises(text) {
                return Err(looks_like_jsonl(source, options));
            }
            let kept = options.keep.len();
            Ok(text::record(text, line.number, options.id_type, kept))
        }
        InputFormat::Jsonl if jsonl::is_blank(line.bytes) => return Ok(()),
        InputFormat::Jsonl => jsonl.record(text, &filling.columns),
    };
    match record {
        Ok(record) => filling.accept(origin, &record, line.bytes),
        Err(reason) => filling.reject(origin, reason, line.bytes),
    }
    Ok(())
}

fn looks_like_jsonl(source: &Planned, options: &InputOptions) -> Error {
    Error::Usage(format!(
        "{} looks like JSONL: its first record is a JSON object with the field `{}`; say `-i jsonl` to \
         embed that field, or `-i text` to embed the lines as they are",
        source.name, options.text_field
    ))
}

/// Checks what does not depend on any source's format.
fn check(sources: &[Source], options: &InputOptions) -> Result<()> {
    let usage = |message: String| Err(Error::Usage(message));
    if sources
        .iter()
        .filter(|&source| *source == Source::Stdin)
        .count()
        > 1
    {
        return usage("standard input (`-`) can be read only once".to_owned());
    }
    if options.max_record_bytes == 0 || options.max_record_bytes > MOST_BYTES {
        return usage(format!(
            "`--max-record-bytes` is {}, but it goes from 1 to {MOST_BYTES} (1 GiB)",
            options.max_record_bytes
        ));
    }
    if options.window_rows == 0 || options.window_bytes == 0 {
        return usage("a window needs room for a record; `--window` is 1 at least".to_owned());
    }
    for (index, keep) in options.keep.iter().enumerate() {
        let name = &keep.name;
        match name.as_str() {
            "id" => {
                return usage(
                    "`--keep id` clashes with the output's column `id`, which is always there; leave it \
                     out, and choose the field it is read from with `--id-field`"
                        .to_owned(),
                );
            }
            "embedding" => {
                return usage(
                    "`--keep embedding` clashes with the output's column `embedding`; leave it out, or \
                     rename the field in the input"
                        .to_owned(),
                );
            }
            _ => {}
        }
        if options.keep[..index]
            .iter()
            .any(|other| other.name == *name)
        {
            return usage(format!("`--keep` names the field `{name}` twice"));
        }
    }
    Ok(())
}

/// Checks that nothing is asked of text that only JSONL has.
fn check_text(source: &Planned, options: &InputOptions) -> Result<()> {
    let text_field = &options.text_field;
    let strange = options.keep.iter().find(|keep| {
        keep.name != *text_field || !matches!(keep.kind, None | Some(KeepType::String))
    });
    match strange {
        Some(keep) if source.format == InputFormat::Text => Err(Error::Usage(format!(
            "`--keep {keep}` needs JSONL, but {} is read as text, which has only the text itself \
             (`--keep {text_field}`); say `-i jsonl` if it is JSONL",
            source.name
        ))),
        _ => Ok(()),
    }
}
