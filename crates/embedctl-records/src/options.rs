//! How to read.

use serde_json::{Value, json};

use crate::csv_options::CsvOptions;
use crate::fields::{IdType, Keep, LineIds};
use crate::format::InputFormat;
use crate::json_values::add_value;
use crate::position::Position;
use crate::record::RecordFields;
use crate::template::Template;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use embedctl_common::setting::{QUERY_FIELD, Setting, TEXT_FIELD, TEXT_TEMPLATE};

/// The largest limit of a record, and the largest size of a window: a column of strings holds 2 GiB.
pub const MOST_BYTES: usize = 1 << 30;

/// Records in a window at most, unless the caller says otherwise.
pub const DEFAULT_WINDOW_ROWS: usize = 8192;

/// Bytes of text after which a window is closed, unless the caller says otherwise.
pub const WINDOW_BYTES: usize = 16 << 20;

/// The field of ids, and the output's column of them, unless a kept field is called so.
pub const ID: &str = "id";

/// Stands beside the ids of a run's fingerprint where those of JSON decide their type. Before they did, nothing stood there.
const TYPED: &str = "typed";

/// The name that stands for all fields.
pub const ALL: &str = "*";

/// Of documents in chunks, the field of the headings above a chunk.
pub const HEADING: &str = "heading";

/// Bytes of a record at most, unless the caller says otherwise.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 4 << 20;

/// How to read.
#[derive(Debug, Clone)]
pub struct InputOptions {
    /// Format of every source; `None`: from each path's ending, text for standard input. Compression is
    /// recognised in any case: by the ending, else by the first bytes.
    pub format: Option<InputFormat>,
    /// How the fields of CSV and TSV are written.
    pub csv: CsvOptions,
    /// Field or column that holds the text; nested as `a.b`.
    pub text_field: String,
    /// The template of the text, in place of that field.
    pub text_template: Option<Template>,
    /// Field or column that holds the id; nested as `a.b`. `None`: records have no ids, and the output no column of them.
    pub id_field: Option<String>,
    /// Type of the `id` column.
    pub id_type: IdType,
    /// What ids of JSON become where they keep their type: an older run that is resumed decides it.
    pub line_ids: LineIds,
    /// Fields carried through to the output; one called `*` is all that there are.
    pub keep: Vec<Keep>,
    /// Bytes of a record at most; 1 GiB is the most that is allowed.
    pub max_record_bytes: usize,
    /// Records in a window at most.
    pub window_rows: usize,
    /// Bytes of text, ids and kept fields after which a window is closed.
    pub window_bytes: usize,
    /// Adds the columns `file` and `line`, which say where each record stood.
    pub source_columns: bool,
    /// Reads that many records, from the beginning.
    pub limit: Option<u64>,
    /// Draws that many of the records that are read.
    pub sample: Option<u64>,
    /// The seed of the draw.
    pub seed: u64,
    /// How the record batches of tables become windows.
    pub batches: BatchWindows,
}

/// How the record batches of a table become windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchWindows {
    /// Windows are cut from them by the limits of windows.
    #[default]
    Cut,
    /// Each is a window of its own, whatever its size, with all of its columns in [`crate::record::Window::batch`].
    Whole,
    /// The same, of standard input that holds Arrow stream after stream: each ends as an input does, and
    /// `RecordReader::next_stream` goes on.
    WholeOfStreams,
}

impl BatchWindows {
    /// Whether each is a window of its own.
    #[must_use]
    pub fn are_whole(self) -> bool {
        self != Self::Cut
    }

    /// Whether one stream may follow another.
    #[must_use]
    pub fn are_of_streams(self) -> bool {
        self == Self::WholeOfStreams
    }
}

/// The part of an input that is read, and what an earlier run knew of it. Everything by default.
#[derive(Debug, Clone, Default)]
pub struct InputRange {
    /// Where to begin, as an earlier run's [`crate::record::Window::position`] says; what comes before it is not
    /// read. Types of kept fields that no `NAME:TYPE` and no table gives are decided anew, by the first
    /// window from there, unless `columns` says them.
    pub start: Option<Position>,
    /// The types of kept columns, as `RecordReader::columns` gives them, where they are those of
    /// another run and not of what is read first.
    pub columns: Option<SchemaRef>,
    /// The parts of sources that are read; `None`: all of them.
    pub shares: Option<Vec<Share>>,
}

/// A part of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index into the list of sources.
    pub source: u32,
    /// The part of it.
    pub part: Part,
}

/// The part of a source that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// The lines that begin in these bytes, for uncompressed formats of lines other than CSV. Adjacent ranges give every
    /// line once.
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
    #[must_use]
    pub fn names_id(&self) -> bool {
        self.id_field.is_some() && self.id_field != Self::default().id_field
    }

    /// Whether the first records decide the type of ids.
    #[must_use]
    pub fn infers_ids(&self) -> bool {
        self.id_field.is_some() && self.id_type == IdType::Kept && self.line_ids == LineIds::Typed
    }

    /// The options that decide rows or columns, each by its key in the fingerprint of a run.
    #[must_use]
    pub fn deciding(&self) -> Vec<(&'static str, Value)> {
        // An option that is added decides here whether it changes rows or columns.
        let Self {
            format,
            csv:
                CsvOptions {
                    delimiter,
                    quote,
                    escape,
                    null,
                },
            text_field,
            id_field,
            id_type,
            line_ids: _, // see `id`
            keep,
            max_record_bytes,
            window_rows: _,
            window_bytes,
            text_template,
            source_columns: _, // with the output's, whose sidecar has them in place of columns
            limit,
            sample,
            seed,
            batches: _,
        } = self;
        let mut all = vec![("input_format", json!(format!("{format:?}")))];
        let mut given = |key, value: Option<Value>| all.extend(value.map(|value| (key, value)));
        given("csv_delimiter", delimiter.map(|it| json!(it.to_string())));
        given("csv_quote", quote.map(|it| json!(it.to_string())));
        given("csv_escape", escape.map(|it| json!(it.to_string())));
        given("csv_null", null.as_ref().map(|it| json!(it)));
        given("text", Some(json!(text_field)));
        let template = text_template.as_ref();
        given("text_template", template.map(|it| json!(it.to_string())));
        given("limit", limit.map(|it| json!(it)));
        given("sample", sample.map(|it| json!(it)));
        given("seed", sample.map(|_| json!(seed)));
        let ids = match self.infers_ids() {
            true => json!([id_field, id_type.to_string(), TYPED]),
            false => json!([id_field, id_type.to_string()]),
        };
        let keep: Vec<String> = keep.iter().map(ToString::to_string).collect();
        all.extend([
            (ID, ids),
            ("keep", json!(keep)),
            ("reading", json!([max_record_bytes, window_bytes])),
        ]);
        all
    }

    /// Whether all fields are kept.
    pub(crate) fn keeps_all(&self) -> bool {
        self.keep.iter().any(|keep| keep.name == ALL)
    }

    /// The fields that are kept by name.
    pub fn kept(&self) -> impl Iterator<Item = &Keep> {
        self.keep.iter().filter(|keep| keep.name != ALL)
    }

    /// The field or template of texts, for a provenance; `None` for the field `text`.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match &self.text_template {
            Some(template) if template.is_pair() => {
                Some(template.written().to_owned()).filter(|field| field != "text")
            }
            Some(template) => Some(template.to_string()),
            None => Some(self.text_field.clone()).filter(|field| field != "text"),
        }
    }

    /// The field of the queries of pairs, for a provenance; `None` where texts are no pairs.
    #[must_use]
    pub fn query(&self) -> Option<String> {
        self.text_template.as_ref()?.first().map(str::to_owned)
    }

    /// The field of ids, for a provenance; `None` for the field `id`, and where there are no ids.
    #[must_use]
    pub fn ids(&self) -> Option<String> {
        self.id_field.clone().filter(|field| field != ID)
    }

    /// The fields of a record that was read: `row` of a window's `columns`, and its `text`. One that was made by a template
    /// is called `template_text`, since its fields are not known any more.
    #[must_use]
    pub fn record_fields(&self, columns: &RecordBatch, row: usize, text: &str) -> RecordFields {
        let mut fields = RecordFields::default();
        let places = if self.source_columns { 2 } else { 0 };
        let own = columns.num_columns().saturating_sub(places);
        let schema = columns.schema_ref().fields().iter();
        for (index, (field, column)) in schema.zip(columns.columns()).take(own).enumerate() {
            if index > 0 {
                add_value(&mut fields, field.name(), field, column, row);
                continue;
            }
            if let Some(name) = self.id_field.as_ref().filter(|_| column.is_valid(row)) {
                add_value(&mut fields, name, field, column, row);
            }
            match &self.text_template {
                Some(template) => template.add_fields(text, &mut fields),
                None => fields.add_text(&self.text_field, text),
            }
        }
        fields
    }

    /// The fields that texts are made of, and the option that names them.
    #[must_use]
    pub fn texts(&self) -> (Setting, &[String]) {
        match &self.text_template {
            Some(template) if template.is_pair() => (QUERY_FIELD, template.fields()),
            Some(template) => (TEXT_TEMPLATE, template.fields()),
            None => (TEXT_FIELD, std::slice::from_ref(&self.text_field)),
        }
    }
}

impl Default for InputOptions {
    /// Fields `text` and `id`, ids in their own types, nothing kept, records up to 4 MiB, windows of 8,192 records
    /// or 16 MiB.
    fn default() -> Self {
        Self {
            format: None,
            csv: CsvOptions::default(),
            text_field: "text".to_owned(),
            text_template: None,
            id_field: Some(ID.to_owned()),
            id_type: IdType::Kept,
            line_ids: LineIds::default(),
            keep: Vec::new(),
            max_record_bytes: DEFAULT_MAX_RECORD_BYTES,
            window_rows: DEFAULT_WINDOW_ROWS,
            window_bytes: WINDOW_BYTES,
            source_columns: false,
            limit: None,
            sample: None,
            seed: 0,
            batches: BatchWindows::Cut,
        }
    }
}
