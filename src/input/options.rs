//! How to read, and which settings contradict each other.

use super::fields::{IdType, Keep, KeepType};
use super::format::InputFormat;
use super::source::{Planned, Source};
use crate::error::{Error, Result};

/// The largest limit of a record, and the largest size of a window: a column of strings holds 2 GiB.
pub(super) const MOST_BYTES: usize = 1 << 30;

/// Records in a window at most, unless the caller says otherwise.
pub const DEFAULT_WINDOW_ROWS: usize = 8192;

/// Bytes of text after which a window is closed, unless the caller says otherwise.
pub const WINDOW_BYTES: usize = 16 << 20;

/// Bytes of a record at most, unless the caller says otherwise.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 4 << 20;

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

impl Default for InputOptions {
    /// Fields `text` and `id`, ids as strings, nothing kept, records up to 4 MiB, windows of 8,192 records
    /// or 16 MiB.
    fn default() -> Self {
        Self {
            format: None,
            text_field: "text".to_owned(),
            id_field: "id".to_owned(),
            id_type: IdType::String,
            keep: Vec::new(),
            max_record_bytes: DEFAULT_MAX_RECORD_BYTES,
            window_rows: DEFAULT_WINDOW_ROWS,
            window_bytes: WINDOW_BYTES,
        }
    }
}

/// Checks what does not depend on any source's format.
pub(super) fn check(sources: &[Source], options: &InputOptions) -> Result<()> {
    let usage = |message: String| Err(Error::usage(message));
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
    if options.keep.len() > MOST_KEPT {
        return usage(format!(
            "`--keep` names {} fields, and takes {MOST_KEPT}; carry the object that holds them through as one \
             field instead (`--keep NAME:json`), or leave some out",
            options.keep.len()
        ));
    }
    let fields = [&options.text_field, &options.id_field];
    let kept = options.keep.iter().map(|keep| &keep.name);
    for name in fields.into_iter().chain(kept) {
        if name.matches('.').count() > MOST_DOTS {
            return usage(format!(
                "a field is named with more than {MOST_DOTS} dots, and JSON is not read as deeply as that: \
                 `{}…`",
                name.chars().take(20).collect::<String>()
            ));
        }
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

/// Dots in a field's name at most: objects inside each other are read to a depth of 128.
const MOST_DOTS: usize = 127;

/// Fields that can be kept: each is a column with buffers of its own all along.
const MOST_KEPT: usize = 1024;

/// Checks that no field is named where no source has any.
pub(super) fn check_fields(sources: &[Planned], options: &InputOptions) -> Result<()> {
    let defaults = InputOptions::default();
    let named = [
        ("--text-field", &options.text_field, &defaults.text_field),
        ("--id-field", &options.id_field, &defaults.id_field),
    ];
    for (option, name, default) in named {
        if name != default && sources.iter().all(|one| one.format == InputFormat::Text) {
            return Err(Error::usage(format!(
                "`{option} {name}` needs JSONL, but {} is read as text, which has no fields (its ids are \
                 line numbers); say `-i jsonl` if it is JSONL",
                sources.first().map_or("the input", |source| &source.name)
            )));
        }
    }
    Ok(())
}

/// Checks that nothing is asked of text that only JSONL has.
pub(super) fn check_text(source: &Planned, options: &InputOptions) -> Result<()> {
    let text_field = &options.text_field;
    let strange = options.keep.iter().find(|keep| {
        keep.name != *text_field || !matches!(keep.kind, None | Some(KeepType::String))
    });
    match strange {
        Some(keep) if source.format == InputFormat::Text => Err(Error::usage(format!(
            "`--keep {keep}` needs JSONL, but {} is read as text, which has only the text itself \
             (`--keep {text_field}`); say `-i jsonl` if it is JSONL",
            source.name
        ))),
        _ => Ok(()),
    }
}
