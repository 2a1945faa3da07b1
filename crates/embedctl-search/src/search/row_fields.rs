//! What is known of an output's rows beside their vectors: ids, numbers of chunks and texts.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use serde::Serialize;
use serde_json::Value;

use super::corpus::Corpus;
use super::files::CorpusFile;
use super::wanted_lines::{WantedLines, WantedRows};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::input::{RecordReader, Source};
use crate::output::{self, OutputFormat, ROWS, RowTextFile, RowTexts};
use crate::record::{Origin, RecordFields, Window};
use crate::storage::Readable;
use embedctl_records::fields::{IdType, Keep};
use embedctl_records::options::{InputOptions, InputRange, Part, Share};
use embedctl_records::value_text::IdTexts;

/// Bytes of a row at most.
const MAX_ROW_BYTES: usize = 64 << 20;

/// The column of ids, where nothing else has its name.
const ID: &str = "id";

/// The field of texts, where no other is named.
const TEXT: &str = "text";

/// The column of a chunk's number.
pub(super) const CHUNK: &str = "chunk";

/// Stands between a text's id and the number of a chunk.
const CHUNK_MARK: char = '#';

/// The number of a row in the file beside a matrix.
const ROW: &str = "row";

/// So many rows are read one by one at most, where the format can: of more, all of the file.
const FEW_ROWS: usize = 64;

/// What is known of a row beside its vector.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RowFields {
    /// Its id, if it has one.
    pub id: Option<Value>,
    /// The number of the chunk in its text, from 0, where rows are chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// Its text, if it was kept.
    pub text: Option<String>,
}

impl RowFields {
    /// The id as text.
    #[must_use]
    pub fn id_text(&self) -> Option<String> {
        Some(match self.id.as_ref()? {
            Value::String(id) => id.clone(),
            other => other.to_string(),
        })
    }

    /// The id for people: of a chunk with its number, as `--like-row` takes it.
    #[must_use]
    pub fn shown_id(&self) -> Option<String> {
        let id = self.id_text()?;
        Some(match self.chunk {
            Some(chunk) => format!("{id}{CHUNK_MARK}{chunk}"),
            None => id,
        })
    }
}

impl Corpus {
    /// Ids and texts of these rows; what the output does not hold is missing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn fields(&self, rows: &BTreeSet<u64>) -> Result<BTreeMap<u64, RowFields>> {
        let mut found = BTreeMap::new();
        for (file, end) in self.files_with_ends() {
            let own: Vec<u64> = rows
                .range(file.first..end)
                .map(|row| row - file.first)
                .collect();
            if own.is_empty() {
                continue;
            }
            let has_columns = self.rows_of(file, &WantedRows::Numbers(&own), &mut |rows| {
                rows.for_each(&mut |row, fields| {
                    if own.binary_search(&row).is_ok() {
                        found.insert(file.first + row, fields());
                    }
                    true
                })
            })?;
            file.file.bytes.close();
            let is_there = |row: &&u64| found.contains_key(&(file.first + **row));
            if let Some(row) = own.iter().find(|row| has_columns && !is_there(row)) {
                let name = match file.format.facts().row_texts {
                    RowTexts::Beside => format!("{}{ROWS}", file.file.name),
                    _ => file.file.name.clone(),
                };
                return Err(
                    Error::input(Place::file(name), format!("it ends before row {row}"))
                        .with_remedy("put back the file that was written"),
                );
            }
        }
        Ok(found)
    }

    /// The number of the first row with that id; of a chunk, also `ID#NUMBER`.
    ///
    /// # Errors
    /// If there is none, or ids are not in the output.
    pub fn row_of(&self, id: &str) -> Result<u64> {
        let of_chunk = id.rsplit_once(CHUNK_MARK).filter(|_| self.has_chunks());
        let of_chunk = of_chunk.and_then(|(text, chunk)| Some((text, chunk.parse().ok()?)));
        let whole = self.row_with((id, None))?;
        let row = match (whole, of_chunk) {
            (None, Some((text, chunk))) => self.row_with((text, Some(chunk)))?,
            (whole, _) => whole,
        };
        if let Some(row) = row {
            return Ok(row);
        }
        let (why, remedy) = if !self.has_readable_texts() {
            let why = "the ids of its rows are not read back from this format".to_owned();
            (why, "embed to another format")
        } else if self.ids()?.is_empty() {
            ("its rows have no ids".to_owned(), "embed with ids")
        } else {
            let why = format!("no row has the id {id:?}");
            (why, "name one of the ids in the output")
        };
        Err(Error::usage(format!("{}: {why}", self.name)).with_remedy(remedy))
    }

    /// Whether ids and texts can be read back, if the output holds them.
    #[must_use]
    pub fn has_readable_texts(&self) -> bool {
        let mut files = self.files.iter();
        files.all(|file| file.format.facts().row_texts != RowTexts::Nowhere)
    }

    fn row_with(&self, (id, chunk): (&str, Option<u64>)) -> Result<Option<u64>> {
        // In lines that others have written, an id may be written in another way.
        for wanted in [WantedRows::Holding(id), WantedRows::All] {
            for (file, _) in self.files_with_ends() {
                let mut found = None;
                self.rows_of(file, &wanted, &mut |rows| {
                    found = rows.with_id(id, chunk);
                    found.is_none()
                })?;
                file.file.bytes.close();
                if let Some(row) = found {
                    return Ok(Some(file.first + row));
                }
            }
        }
        Ok(None)
    }

    /// The id of each row, in the order of the output; none where they are not to be had.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub(super) fn ids(&self) -> Result<Vec<(u64, String)>> {
        let mut found = Vec::new();
        for (file, _) in self.files_with_ends() {
            self.rows_of(file, &WantedRows::All, &mut |rows| {
                rows.for_each_id(&mut |row, id| found.push((file.first + row, id)));
                true
            })?;
            file.file.bytes.close();
        }
        found.sort_by_key(|(row, _)| *row);
        Ok(found)
    }

    /// Whether rows are chunks of texts.
    #[must_use]
    pub fn has_chunks(&self) -> bool {
        self.made.get("chunking").is_some_and(|it| !it.is_null())
    }

    /// Whether texts were cut into chunks as those of another output, or were not cut in both.
    #[must_use]
    pub fn has_chunks_of(&self, other: &Self) -> bool {
        let chunking = |it: &Self| it.made.get("chunking").cloned().unwrap_or_default();
        chunking(self) == chunking(other)
    }

    /// The ways to read the texts that were embedded, where they may have been kept: their field, or the template that made
    /// them, and then the field that is usual.
    fn text_ways(&self) -> Vec<InputOptions> {
        let of_field = |field: &str| InputOptions {
            text_field: field.to_owned(),
            ..InputOptions::default()
        };
        let made = self.made["text"].as_str().unwrap_or(TEXT);
        if self.has_chunks() {
            return vec![of_field("chunk_text")];
        }
        if !made.contains('{') {
            return vec![of_field(made)];
        }
        let template = made.parse().ok().map(|template| InputOptions {
            text_template: Some(template),
            ..InputOptions::default()
        });
        template.into_iter().chain([of_field(TEXT)]).collect()
    }

    fn files_with_ends(&self) -> impl Iterator<Item = (&CorpusFile, u64)> {
        let ends = self.files.iter().skip(1).map(|file| file.first);
        self.files.iter().zip(ends.chain([u64::MAX]))
    }

    /// Hands over the rows of a file, window by window, until `take` has enough. Others than those that are `wanted` may be
    /// among them. False where there are neither ids nor texts.
    fn rows_of(
        &self,
        file: &CorpusFile,
        wanted: &WantedRows<'_>,
        take: &mut dyn FnMut(&FileRows<'_>) -> bool,
    ) -> Result<bool> {
        let Some(rows) = output::row_texts_of(&file.file, file.format)? else {
            return Ok(false);
        };
        let numbers = match wanted {
            WantedRows::Numbers(numbers) => Some(*numbers),
            WantedRows::All | WantedRows::Holding(_) => None,
        };
        // A stream has no index of its batches.
        let is_table = matches!(file.format, OutputFormat::Parquet | OutputFormat::Arrow);
        let shares = numbers
            .filter(|wanted| is_table && wanted.len() <= FEW_ROWS)
            .map(|wanted| {
                let share = |row: &u64| Share {
                    source: 0,
                    part: Part::Rows {
                        start: *row,
                        end: row + 1,
                    },
                };
                wanted.iter().map(share).collect()
            });
        let range = InputRange {
            shares,
            ..InputRange::default()
        };
        let last = numbers.and_then(<[u64]>::last).copied();
        let mut read = |lines: WantedLines| self.read_rows(&rows, &lines, &range, last, take);
        if !rows.is_lines {
            return read(WantedLines::all(&rows.file));
        }
        // An error among chosen lines would name another line than it has in the file.
        read(WantedLines::of(&rows.file, wanted)).or_else(|_| read(WantedLines::all(&rows.file)))
    }

    /// Hands over the rows that these lines, or all of the file, describe, up to that of number `last`.
    fn read_rows(
        &self,
        rows: &RowTextFile,
        lines: &WantedLines,
        range: &InputRange,
        last: Option<u64>,
        take: &mut dyn FnMut(&FileRows<'_>) -> bool,
    ) -> Result<bool> {
        let kept = [(CHUNK, self.has_chunks()), (ROW, rows.is_beside)];
        let kept = kept.into_iter().filter(|(_, is_there)| *is_there);
        let keep = |(name, _): (&str, bool)| Keep {
            name: name.to_owned(),
            kind: None,
        };
        let keep: Vec<Keep> = kept.map(keep).collect();
        let open = |(texts, has_texts): (InputOptions, bool)| {
            let options = InputOptions {
                format: Some(rows.format),
                max_record_bytes: MAX_ROW_BYTES,
                keep: keep.clone(),
                ..texts
            };
            let source = Source::Object(lines.file.clone());
            let reader = RecordReader::open(&[source], options.clone())?;
            let mut reader = reader.again(options.clone(), range)?;
            let first = reader.next_window()?;
            let has_decimals = options.id_field.as_deref().is_some_and(|id| {
                let mut rejects = first.iter().flat_map(Window::rejects);
                rejects.any(|reject| reject.fields.json(id).is_some_and(|id| is_decimal(&id)))
            });
            if has_decimals && options.id_type == IdType::Kept {
                return Err(Error::usage("ids with fractions, which are read as text"));
            }
            Ok::<_, Error>((options, has_texts, reader, first))
        };
        // The column of ids is called as their field is where a field `id` is kept beside it. A table without the texts is
        // read by its ids alone, of whatever type.
        let named = self.made["id"].as_str().map(str::to_owned);
        let columns = named.into_iter().chain([ID.to_owned()]);
        let ways = columns.flat_map(|id| {
            let types = [IdType::Kept, IdType::String].into_iter();
            let with_texts = types.flat_map({
                let id = id.clone();
                move |id_type| {
                    let ways = self.text_ways().into_iter();
                    let id = id.clone();
                    ways.map(move |texts| InputOptions {
                        id_field: Some(id.clone()),
                        id_type,
                        ..texts
                    })
                }
            });
            let without = InputOptions {
                text_template: format!("{{{id}}}").parse().ok(),
                id_field: Some(id),
                ..InputOptions::default()
            };
            let with_texts = with_texts.map(|options| (options, true));
            with_texts.chain([(without, false)])
        });
        let mut refused = None;
        let opened = ways.map(open).find_map(|way| match way {
            Ok(way) => Some(way),
            // It has no such column.
            Err(error) if error.kind() == ErrorKind::Usage => None,
            Err(error) => {
                refused.get_or_insert(error);
                None
            }
        });
        let Some((options, has_texts, mut reader, mut window)) = opened else {
            return refused.map_or(Ok(false), Err);
        };
        while let Some(own) = window {
            let rows = FileRows {
                window: &own,
                options: &options,
                has_texts,
                lines,
            };
            rows.check(&lines.file)?;
            let is_done = last.is_some_and(|last| {
                let numbers = own.origins().map(|origin| rows.number(origin));
                numbers.max().is_some_and(|number| number >= last)
            });
            if !take(&rows) || is_done {
                break;
            }
            window = reader.next_window()?;
        }
        Ok(true)
    }
}

/// Whether an id of JSON is a number with a fraction.
fn is_decimal(id: &str) -> bool {
    !id.starts_with('"') && id.contains(['.', 'e', 'E']) && id.parse::<f64>().is_ok()
}

/// Rows of a file, with what is known of them beside their vectors.
struct FileRows<'a> {
    window: &'a Window,
    options: &'a InputOptions,
    /// Whether the texts that are read are those that were embedded.
    has_texts: bool,
    lines: &'a WantedLines,
}

impl FileRows<'_> {
    /// The number of a row in its file.
    fn number(&self, origin: Origin) -> u64 {
        self.lines.number(origin.line - 1)
    }

    fn id_of(&self, fields: &RecordFields) -> Option<Value> {
        let name = self.options.id_field.as_deref()?;
        let text = fields.json(name)?;
        let id: Value = serde_json::from_str(&text).ok()?;
        // A decimal has more digits than a float holds.
        Some(match id {
            Value::Null => return None,
            Value::Number(number) if number.to_string() != text => Value::String(text),
            id => id,
        })
    }

    /// Checks that a file beside a matrix describes the rows in their order.
    ///
    /// # Errors
    /// If a line is of another row.
    fn check(&self, file: &Readable) -> Result<()> {
        let Some(place) = self.options.keep.iter().position(|keep| keep.name == ROW) else {
            return Ok(());
        };
        let refuse = |line: u64, why: String| {
            Err(Error::input(Place::file(&file.name).line(line + 1), why)
                .with_remedy("put back the file that was written with the vectors"))
        };
        // The first column has the ids.
        let numbers = self.window.columns.column(place + 1);
        let numbers = numbers
            .as_primitive_opt::<Int64Type>()
            .into_iter()
            .flatten();
        for (written, origin) in numbers.zip(self.window.origins()) {
            let line = self.number(origin);
            if let Some(written) = written.filter(|written| u64::try_from(*written) != Ok(line)) {
                return refuse(line, format!("it is about row {written}, not {line}"));
            }
        }
        let mut rejects = self.window.rejects();
        match rejects.find(|reject| reject.fields.json(ROW).is_none()) {
            Some(reject) => refuse(self.number(reject.origin), "it is about no row".to_owned()),
            None => Ok(()),
        }
    }

    fn chunk_of(fields: &RecordFields) -> Option<u64> {
        serde_json::from_str(&fields.json(CHUNK)?).ok()
    }

    /// Hands over the number of each row, and the way to its fields; false where `take` wants no more.
    fn for_each(&self, take: &mut dyn FnMut(u64, &dyn Fn() -> RowFields) -> bool) -> bool {
        let (window, options) = (self.window, self.options);
        for (place, (text, origin)) in window.texts.iter().zip(window.origins()).enumerate() {
            let fields = || {
                let fields = options.record_fields(&window.columns, place, text);
                RowFields {
                    id: self.id_of(&fields),
                    chunk: Self::chunk_of(&fields),
                    text: self.has_texts.then(|| text.to_owned()),
                }
            };
            if !take(self.number(origin), &fields) {
                return false;
            }
        }
        // Rows without their text have an id all the same.
        window.rejects().all(|reject| {
            let fields = || RowFields {
                id: self.id_of(&reject.fields),
                chunk: Self::chunk_of(&reject.fields),
                text: None,
            };
            take(self.number(reject.origin), &fields)
        })
    }

    /// Hands over the number of each row that has an id, and the id.
    fn for_each_id(&self, take: &mut dyn FnMut(u64, String)) {
        let ids = IdTexts::of(self.window.columns.column(0).as_ref());
        for (place, origin) in self.window.origins().enumerate() {
            if let Some(id) = ids.as_ref().and_then(|ids| ids.get(place)) {
                take(self.number(origin), id);
            }
        }
        for reject in self.window.rejects() {
            let fields = RowFields {
                id: self.id_of(&reject.fields),
                chunk: Self::chunk_of(&reject.fields),
                text: None,
            };
            if let Some(id) = fields.id_text() {
                take(self.number(reject.origin), id);
            }
        }
    }

    /// The number of the first row with that id, and of that chunk where one is given.
    fn with_id(&self, wanted: &str, chunk: Option<u64>) -> Option<u64> {
        let mut first: Option<u64> = None;
        let mut add = |row: u64| first = Some(first.map_or(row, |first| first.min(row)));
        match chunk {
            None => self.for_each_id(&mut |row, id| {
                if id == wanted {
                    add(row);
                }
            }),
            Some(_) => {
                self.for_each(&mut |row, fields| {
                    let fields = fields();
                    if fields.chunk == chunk && fields.id_text().as_deref() == Some(wanted) {
                        add(row);
                    }
                    true
                });
            }
        }
        first
    }
}
