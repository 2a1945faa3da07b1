//! How to read, and which settings contradict each other.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::fields::{IdType, Keep, KeepType};
use super::format::InputFormat;
use super::source::{Planned, Source};
use super::template::Template;
use crate::error::{Error, Result};
use crate::position::Position;

/// The largest limit of a record, and the largest size of a window: a column of strings holds 2 GiB.
pub(super) const MOST_BYTES: usize = 1 << 30;

/// Records in a window at most, unless the caller says otherwise.
pub const DEFAULT_WINDOW_ROWS: usize = 8192;

/// Bytes of text after which a window is closed, unless the caller says otherwise.
pub const WINDOW_BYTES: usize = 16 << 20;

/// What stands for all fields in `--keep`.
const ALL: &str = "*";

/// Bytes of a record at most, unless the caller says otherwise.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 4 << 20;

/// How to read.
#[derive(Debug, Clone)]
pub struct InputOptions {
    /// Format of every source; `None`: from each path's ending, text for standard input. Compression is
    /// recognised in any case: by the ending, else by the first bytes.
    pub format: Option<InputFormat>,
    /// What parts the fields of CSV and TSV; `None`: a comma, and a tab.
    pub csv_delimiter: Option<Delimiter>,
    /// Field or column that holds the text; nested as `a.b`.
    pub text_field: String,
    /// What a text is put together from, in place of that field.
    pub text_template: Option<Template>,
    /// Field or column that holds the id; nested as `a.b`.
    pub id_field: String,
    /// Type of the `id` column.
    pub id_type: IdType,
    /// Fields carried through to the output; one called `*` is all that there are.
    pub keep: Vec<Keep>,
    /// Bytes of a record at most; 1 GiB is the most that is allowed.
    pub max_record_bytes: usize,
    /// Records in a window at most.
    pub window_rows: usize,
    /// Bytes of text, ids and kept fields after which a window is closed.
    pub window_bytes: usize,
    /// Reads of rejected records what can be read, into [`crate::record::Window::rejected`]: for outputs in which
    /// they stay.
    pub rejected_columns: bool,
    /// Adds the columns `file` and `line`, which say where each record stood.
    pub source_columns: bool,
    /// Reads that many records, from the beginning.
    pub limit: Option<u64>,
    /// Draws that many records of those that are read.
    pub sample: Option<u64>,
    /// What the draw depends on, beside the input.
    pub seed: u64,
    /// Makes each record batch of a table a window of its own, whatever its size, with all of its columns in
    /// [`crate::record::Window::batch`].
    pub window_per_batch: bool,
    /// Whether standard input holds Arrow stream after stream: each ends as an input does, and
    /// [`crate::input::RecordReader::next_stream`] goes on.
    pub streams: bool,
    /// Where to begin, as an earlier run's [`crate::record::Window::position`] says; what comes before it is not
    /// read. Types of kept fields that no `NAME:TYPE` and no table gives are decided anew, by the first
    /// window from there.
    pub start: Option<Position>,
    /// Which parts of which sources are read; `None`: all of them.
    pub shares: Option<Vec<Share>>,
}

/// A part of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index into the list of sources.
    pub source: u32,
    /// What of it.
    pub part: Part,
}

/// A byte that parts the fields of CSV: of ASCII, and neither a quote nor part of a line's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter(pub(super) u8);

impl FromStr for Delimiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"\\t" | b"tab" => Ok(Self(b'\t')),
            [byte] if byte.is_ascii() && !b"\"\r\n\0".contains(byte) => Ok(Self(*byte)),
            _ => Err(
                "it is one character of ASCII, such as ';' or '|' (a tab: '\\t'), and no quote or line break"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Delimiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'\t' => formatter.write_str("tabs"),
            b',' => formatter.write_str("commas"),
            byte => write!(formatter, "`{}`", char::from(byte)),
        }
    }
}

/// What of a source is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// Of lines that are not compressed: those that begin in these bytes. Cuts that follow one another give
    /// every line once.
    Bytes {
        /// The first byte.
        start: u64,
        /// The byte behind the last.
        end: u64,
    },
    /// Of Parquet and of Arrow's files: these rows.
    Rows {
        /// The first one's number, from 0.
        start: u64,
        /// The number behind the last one's.
        end: u64,
    },
}

impl InputOptions {
    /// Whether the user has named the field of the id: the default need not be there, ids are null then.
    pub(super) fn names_id(&self) -> bool {
        self.id_field != Self::default().id_field
    }

    /// Whether all fields are kept.
    pub(super) fn keeps_all(&self) -> bool {
        self.keep.iter().any(|keep| keep.name == ALL)
    }

    /// The fields that are kept by name.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Keep> {
        self.keep.iter().filter(|keep| keep.name != ALL)
    }

    /// The fields that texts are made of, and the option that names them.
    /// What texts are made of, for a provenance: a field or a template; `None` for the field `text`.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.text_template {
            Some(template) => Some(template.to_string()),
            None => Some(self.text_field.clone()).filter(|field| field != "text"),
        }
    }

    pub(super) fn texts(&self) -> (&'static str, &[String]) {
        match &self.text_template {
            Some(template) => ("--text-template", template.fields()),
            None => ("--text-field", std::slice::from_ref(&self.text_field)),
        }
    }
}

impl Default for InputOptions {
    /// Fields `text` and `id`, ids as strings, nothing kept, records up to 4 MiB, windows of 8,192 records
    /// or 16 MiB.
    fn default() -> Self {
        Self {
            format: None,
            csv_delimiter: None,
            text_field: "text".to_owned(),
            text_template: None,
            id_field: "id".to_owned(),
            id_type: IdType::String,
            keep: Vec::new(),
            max_record_bytes: DEFAULT_MAX_RECORD_BYTES,
            window_rows: DEFAULT_WINDOW_ROWS,
            window_bytes: WINDOW_BYTES,
            rejected_columns: false,
            source_columns: false,
            limit: None,
            sample: None,
            seed: 0,
            window_per_batch: false,
            streams: false,
            start: None,
            shares: None,
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
    if options.text_template.is_some() && options.text_field != InputOptions::default().text_field {
        return usage(
            "`--text-template` names the fields of the text itself; leave `--text-field` out"
                .to_owned(),
        );
    }
    if let Some(keep) = options
        .keep
        .iter()
        .find(|keep| keep.name == ALL && keep.kind.is_some())
    {
        return usage(format!(
            "`--keep {keep}` gives all fields one type; name those that need a type beside it (`--keep '*,NAME:TYPE'`)"
        ));
    }
    let fields = [&options.id_field];
    let fields = fields.into_iter().chain(options.texts().1);
    let kept = options.keep.iter().map(|keep| &keep.name);
    for name in fields.chain(kept) {
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
            "file" | "line" if options.source_columns => {
                return usage(format!(
                    "`--keep {name}` clashes with the column `{name}` that `--source-columns` adds; leave one of \
                     them out"
                ));
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
    if let Some(template) = &options.text_template
        && let Some(text) = sources.iter().find(|one| one.format == InputFormat::Text)
    {
        return Err(text.usage(format!(
            "`--text-template {template}` needs fields, and text has none; say `-i jsonl` or `-i csv` if it is that"
        )));
    }
    for (option, name, default) in named {
        if name != default && sources.iter().all(|one| one.format == InputFormat::Text) {
            return Err(Error::usage(format!(
                "`{option} {name}` needs fields, but {} is read as text, which has none (its ids are line \
                 numbers); say `-i jsonl` if it is JSONL",
                sources.first().map_or("the input", |source| &source.name)
            )));
        }
    }
    Ok(())
}

/// Checks that a delimiter is not named where no source has any.
pub(super) fn check_delimiter(sources: &[Planned], options: &InputOptions) -> Result<()> {
    let has_one = |one: &Planned| matches!(one.format, InputFormat::Csv | InputFormat::Tsv);
    if options.csv_delimiter.is_some() && !sources.iter().any(has_one) {
        return Err(
            Error::usage("`--csv-delimiter` is about CSV, and no input is read as that")
                .with_remedy("leave it out, or say `-i csv`"),
        );
    }
    Ok(())
}

/// Checks that nothing is asked of text that only JSONL has.
pub(super) fn check_text(source: &Planned, options: &InputOptions) -> Result<()> {
    let text_field = &options.text_field;
    let strange = options.kept().find(|keep| {
        keep.name != *text_field || !matches!(keep.kind, None | Some(KeepType::String))
    });
    match strange {
        Some(keep) if source.format == InputFormat::Text => Err(Error::usage(format!(
            "`--keep {keep}` needs fields, but {} is read as text, which has only the text itself \
             (`--keep {text_field}`); say `-i jsonl` if it is JSONL",
            source.name
        ))),
        _ => Ok(()),
    }
}

/// The parts that are read, in order, from the start on.
pub(super) fn parts(sources: Vec<Planned>, options: &InputOptions) -> Result<Vec<Arc<Planned>>> {
    let first = options.start.map_or(0, |start| start.source);
    let wholes = (0..sources.len()).map(|source| (source, Part::Whole));
    let asked: Vec<(usize, Part)> = match &options.shares {
        None => wholes.collect(),
        Some(shares) => (shares.iter())
            .map(|share| (share.source as usize, share.part))
            .collect(),
    };
    let mut parts = Vec::with_capacity(asked.len());
    for (index, part) in asked {
        let source: &Planned = sources.get(index).ok_or_else(|| {
            Error::internal(format!("a share of source {index}, which is not there"))
        })?;
        let fits = match part {
            Part::Whole => true,
            Part::Bytes { .. } => !source.format.is_table() && source.encoding.is_none(),
            Part::Rows { .. } => source.format.is_table(),
        };
        if !fits {
            return Err(source.usage("this input cannot be read in such parts"));
        }
        if source.index < first {
            continue;
        }
        let start = options.start.filter(|start| start.source == source.index);
        parts.push(Arc::new(Planned {
            part,
            start: start.map(|start| (start.lines, start.seek)),
            ..source.clone()
        }));
    }
    Ok(parts)
}

/// A warning where ids are line numbers, and several sources have the same ones.
pub(super) fn repeated_ids(sources: &[Planned], options: &InputOptions) -> Option<String> {
    let texts = sources
        .iter()
        .filter(|one| one.format == InputFormat::Text)
        .count();
    (texts > 1 && !options.source_columns).then(|| {
        format!(
            "ids are line numbers, so those of {texts} text inputs repeat; `--source-columns` adds the columns \
             `file` and `line`, which tell records apart"
        )
    })
}
