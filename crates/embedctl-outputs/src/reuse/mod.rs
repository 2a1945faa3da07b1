//! An earlier output, whose vectors are taken again for equal texts.
//!
//! Texts are known by their hashes, which stand beside the parts of a folder; of another output its column of texts
//! is hashed. Of each row 20 bytes stay in memory; vectors are read when they are wanted.

mod index;
#[cfg(test)]
#[path = "reuse_tests.rs"]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;

use serde_json::Value;

use self::index::Index;
use crate::error::{Error, Place, Result};
use crate::identity::{self, VectorIdentity};
use crate::input::{RecordReader, Source};
use crate::job::{Part, State, text_hash};
use crate::output::proof::Proof;
use crate::output::{self, ChosenVectors, Forms, OutputFormat, OutputOptions, TemporaryVectors};
use crate::record::{RowParts, RowVectors};
use crate::setting::{CHUNK_TEXT, KEEP, ON_ERROR, REUSE};
use crate::storage::{Readable, SharedFolder};
use embedctl_records::marks::TextHash;
use embedctl_records::options::InputOptions;
use embedctl_records::quantize::Dtype;
use embedctl_records::template::Template;
use embedctl_vectors::is_finite;

/// Bytes of a row at most, where texts are read from the output itself.
const MAX_ROW_BYTES: usize = 64 << 20;

/// Files that are open at a time: a folder has more parts than a process may have open files.
const MAX_OPEN: usize = if cfg!(test) { 1 } else { 64 };

/// An earlier output, opened.
#[derive(Debug, Clone)]
pub struct EarlierOutput {
    /// The option that names it, and how, for messages.
    asked: String,
    place: OutputPlacement,
    format: OutputFormat,
    /// Provenance of a single file, with the hashes of its content; `None` for a folder, whose parts are checked.
    made: Value,
    /// That nothing proves its vectors, for the user.
    unproven: Option<String>,
    /// The identity of its vectors.
    identity: VectorIdentity,
    /// Column of the texts that were embedded, where there may be one.
    text: Option<String>,
    /// Column of the first texts, where pairs were scored: `text` has the second ones.
    query: Option<String>,
    /// Whether sparse vectors are maps from terms to weights.
    has_maps: bool,
    /// How the vectors' columns were called, if otherwise than usual.
    embedding_field: Option<String>,
    parts: Vec<EarlierPart>,
}

/// The remedy, or the advice to run without an earlier output.
fn or_without(first: &str) -> String {
    format!("{first}, or leave {REUSE} out")
}

/// Its storage.
#[derive(Debug, Clone)]
enum OutputPlacement {
    Folder(Arc<dyn SharedFolder>, Arc<State>),
    /// A file of this machine, or an object.
    File(Readable),
}

/// A file of it.
#[derive(Debug, Clone, Default)]
struct EarlierPart {
    /// Its name in the folder.
    file: String,
    /// Its record in the job, with the hashes of its rows' texts; `None` for a single file.
    part: Option<Part>,
    /// Its rows; of a single file known once its texts were read.
    rows: Option<u64>,
}

impl EarlierOutput {
    /// Looks at the folder of parts in `storage`; `asked` says how it was asked for.
    ///
    /// # Errors
    /// If there is none.
    pub fn folder(asked: String, storage: Arc<dyn SharedFolder>) -> Result<Self> {
        let state = State::read(storage.as_ref(), None)?;
        let job = state.job.as_ref();
        let job = job.and_then(|job| Some((job, OutputFormat::of_name(&job.format)?)));
        let Some((job, format)) = job else {
            return Err(
                Error::usage(format!("{asked}: the folder holds no output in parts"))
                    .with_remedy("name a file that embedctl has written, or a folder of its parts"),
            );
        };
        let field = |key: &str| job.fingerprint.get(key).and_then(Value::as_str);
        let chunked = (job.fingerprint.get("chunking")).is_some_and(|it| !it.is_null());
        let text = match (chunked, job.fingerprint.get("text_template")) {
            (true, _) => Some("chunk_text".to_owned()),
            (false, Some(_)) => None,
            (false, None) => field("text").map(str::to_owned),
        };
        let parts = state.parts.values().map(|part| EarlierPart {
            file: part.file.clone(),
            rows: Some(part.info.rows),
            part: Some(part.clone()),
        });
        let unproven = state.of_older().map(|older| format!("{asked}: {older}"));
        Ok(Self {
            made: Value::Null,
            unproven,
            asked,
            format,
            identity: job.fingerprint.identity(),
            text,
            // A template makes pairs, so the parts have no column of them.
            query: None,
            has_maps: job.fingerprint.get("sparse_tokens").is_some(),
            embedding_field: field("embedding_field").map(str::to_owned),
            parts: parts.collect(),
            place: OutputPlacement::Folder(storage, Arc::new(state)),
        })
    }

    /// Looks at a file, or an object; `output` says how the vectors' column is called in it.
    ///
    /// # Errors
    /// If it has no provenance.
    pub fn file(asked: String, file: Readable, output: &OutputOptions) -> Result<Self> {
        let format = output::format_of(&file)?;
        let made = output::provenance(&file, format)?.ok_or_else(|| {
            Error::usage(format!("{asked}: it has no provenance, in it or beside it"))
                .with_remedy("name a file that embedctl has written, or a folder of its parts")
        })?;
        let text = made["text"].as_str().unwrap_or("text").to_owned();
        let text = match &made["chunking"] {
            Value::Null => Some(text).filter(|text| !text.contains('{')),
            _ => Some("chunk_text".to_owned()),
        };
        // Reading all of it waits until a vector may be wanted.
        let unproven = (!output::proof::has_vectors(format, &made)).then(|| {
            format!(
                "{asked}: its vectors have no hash (written by an older version, or directly to an object store). They \
                 are reused unchecked"
            )
        });
        Ok(Self {
            unproven,
            format,
            identity: VectorIdentity::of_provenance(&made),
            query: made["query"].as_str().map(str::to_owned),
            has_maps: (output::recorded_kinds(&made).iter()).any(|kind| kind.form.is_none()),
            made,
            text,
            embedding_field: output.embedding_field.clone(),
            parts: vec![EarlierPart::default()],
            place: OutputPlacement::File(file),
            asked,
        })
    }

    /// Whether it has sparse vectors as maps from terms to weights: to be read, they take the model's terms
    /// ([`Forms::with_terms`]).
    #[must_use]
    pub fn has_maps(&self) -> bool {
        self.has_maps
    }

    /// Compares the identity of its vectors with that of a run's, as far as it is known.
    ///
    /// # Errors
    /// If a field differs; the message names all that do.
    pub fn check(&self, now: &VectorIdentity) -> Result<()> {
        let dtype = now.dtype();
        if ![Dtype::F32.name(), Dtype::F16.name()].contains(&dtype) {
            return Err(Error::usage(format!(
                "{}: vectors in {dtype} cannot be read back as they were",
                self.asked
            ))
            .with_remedy(or_without("write f32 or f16")));
        }
        let differences = self.identity.differences(now);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{}: it was made with other settings, but one output holds vectors of one kind: {}",
            self.asked,
            identity::listed(&differences)
        ))
        .with_remedy(or_without("give the same as then")))
    }

    /// Reads the hashes of its texts. `forms` are those of a row's numbers.
    ///
    /// # Errors
    /// If they are not to be had.
    pub fn open(mut self, forms: &Forms) -> Result<Reuse> {
        self.prove()?;
        let mut index = Index::default();
        let mut before = 0;
        let mut starts = Vec::with_capacity(self.parts.len());
        for number in 0..self.parts.len() {
            starts.push(before);
            let rows = self.hashes(number, &mut |row, hash| index.add(hash, before + row))?;
            self.parts[number].rows = Some(rows);
            before += rows;
        }
        index.sort();
        // A file tells their names itself.
        let forms = (forms.clone()).named(self.embedding_field.as_deref());
        let forms = output::named_in(Some(&self.made), forms).map_err(|(_, names)| {
            let reason = format!(
                "{}: it has no vectors like those of `{}`",
                self.asked,
                names.join("`, `")
            );
            Error::usage(reason)
                .with_remedy(or_without("name an output of the same kinds of vectors"))
        })?;
        Ok(Reuse {
            forms,
            old: self,
            index,
            starts,
            open: HashMap::new(),
            near: BTreeSet::new(),
            temporary: TemporaryVectors::default(),
        })
    }

    /// That nothing proves its vectors, for the user.
    #[must_use]
    pub fn unproven(&self) -> Option<&str> {
        self.unproven.as_deref()
    }

    /// Checks its files against the hashes in their provenance; in a folder, the files whose times or etags differ from
    /// their commits.
    fn prove(&self) -> Result<()> {
        let file = match &self.place {
            OutputPlacement::Folder(storage, state) => return state.check_parts(storage.as_ref()),
            OutputPlacement::File(file) => file,
        };
        match output::prove(file, self.format, &self.made)? {
            Proof::Whole | Proof::Older => Ok(()),
            Proof::Other(name) => Err(Error::input(
                Place::file(&file.name),
                format!(
                    "is not what was written: `{name}` has another SHA-256 than its provenance says"
                ),
            )
            .with_remedy(or_without("restore the file"))),
        }
    }

    /// Hands over the hashes of a part's texts, with the numbers of their rows; how many rows it has.
    fn hashes(
        &self,
        number: usize,
        take: &mut dyn FnMut(u64, TextHash) -> Result<()>,
    ) -> Result<u64> {
        let part = &self.parts[number];
        if let (OutputPlacement::Folder(storage, _), Some(part)) = (&self.place, &part.part)
            && let Some(bytes) = part.texts(storage.as_ref())?
        {
            let (hashes, _) = bytes.as_chunks();
            for (row, hash) in (0..).zip(hashes) {
                take(row, *hash)?;
            }
            return Ok(part.info.rows);
        }
        let without = |error: Option<Error>| {
            let reason = format!(
                "{}: it has neither hashes of its texts nor a column of them, so texts cannot be matched",
                self.asked
            );
            let refused = Error::usage(reason).with_remedy(format!(
                "reuse a folder of parts, which has the hashes, or an output with its texts ({KEEP} text; of chunks \
                 {CHUNK_TEXT}; of pairs {KEEP} with both fields)"
            ));
            match error {
                Some(error) => refused.caused_by(error),
                None => refused,
            }
        };
        let field = self.text.as_ref().ok_or_else(|| without(None))?;
        let file = self.open_part(part)?;
        let rows = output::row_texts_of(&file, self.format)?.ok_or_else(|| without(None))?;
        let options = InputOptions {
            format: Some(rows.format),
            text_field: field.clone(),
            text_template: (self.query.as_ref()).map(|query| Template::of_pair(query, field, None)),
            max_record_bytes: MAX_ROW_BYTES,
            ..InputOptions::default()
        };
        let mut read = 0;
        let mut reader = RecordReader::open(&[Source::Object(rows.file)], options)
            .map_err(|error| without(Some(error)))?;
        while let Some(window) = reader.next_window().map_err(|error| without(Some(error)))? {
            read += window.records() as u64;
            for (text, origin) in window.texts.iter().zip(window.origins()) {
                take(origin.line - 1, text_hash(text))?;
            }
        }
        Ok(read)
    }

    /// A part's file; of a folder on an object store it is fetched.
    fn open_part(&self, part: &EarlierPart) -> Result<Readable> {
        match &self.place {
            OutputPlacement::Folder(storage, _) => Readable::file(&storage.file(&part.file)?),
            OutputPlacement::File(file) => Ok(file.clone()),
        }
    }
}

/// Vectors of an earlier output, to be taken again.
pub struct Reuse {
    old: EarlierOutput,
    index: Index,
    /// The first row of each part.
    starts: Vec<u64>,
    /// The forms of its vectors, with their columns.
    forms: Forms,
    /// The parts that vectors were read from, by their numbers.
    open: HashMap<usize, ChosenVectors>,
    /// The parts whose files may be open.
    near: BTreeSet<usize>,
    /// Where parts are laid out.
    temporary: TemporaryVectors,
}

/// Vectors that were found for some texts.
#[derive(Debug, Default)]
pub struct Found {
    /// Where each text's is.
    at: Vec<Option<usize>>,
    vectors: RowVectors,
}

impl Found {
    /// The vectors of text `text`, if they were found.
    #[must_use]
    pub fn get(&self, text: usize) -> Option<RowParts<'_>> {
        Some(self.vectors.get((*self.at.get(text)?)?))
    }
}

impl Reuse {
    /// Looks up distinct texts; each text that is found gets its vector in the earlier output.
    ///
    /// # Errors
    /// If vectors cannot be read.
    pub fn find<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> Result<Found> {
        let mut found = Found {
            vectors: self.forms.no_rows(),
            at: Vec::new(),
        };
        let mut wanted = Vec::new();
        for (number, text) in texts.enumerate() {
            found.at.push(None);
            if let Some(row) = self.index.find(&text_hash(text)) {
                wanted.push((row, number));
            }
        }
        wanted.sort_unstable();
        // The part that holds a row.
        let part = |row: u64| self.starts.partition_point(|&start| start <= row) - 1;
        for wanted in wanted.chunk_by(|one, other| part(one.0) == part(other.0)) {
            let part = part(wanted[0].0);
            let start = self.starts[part];
            let rows: Vec<u64> = wanted.iter().map(|(row, _)| row - start).collect();
            if self.near.len() == MAX_OPEN && !self.near.contains(&part) {
                let far = mem::take(&mut self.near);
                let far = far.iter().filter_map(|part| self.open.get(part));
                far.for_each(ChosenVectors::close);
            }
            self.near.insert(part);
            let vectors = match self.open.entry(part) {
                std::collections::hash_map::Entry::Occupied(open) => open.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(vectors(&self.old, part, &self.forms, &mut self.temporary)?)
                }
            };
            vectors.read(&rows, &mut |index, vector| {
                if vector.values().into_iter().all(is_finite) {
                    found.at[wanted[index].1] = Some(found.vectors.len());
                    found.vectors.push(vector);
                }
            })?;
        }
        Ok(found)
    }
}

/// Opens a part's vectors.
fn vectors(
    old: &EarlierOutput,
    part: usize,
    forms: &Forms,
    temporary: &mut TemporaryVectors,
) -> Result<ChosenVectors> {
    let part = &old.parts[part];
    let file = old.open_part(part)?;
    let vectors = ChosenVectors::open(&file, old.format, forms, temporary)?;
    match part.rows {
        Some(rows) if rows != vectors.rows() => Err(Error::input(
            Place::file(file.name),
            format!("holds {} vectors for {rows} rows", vectors.rows()),
        )
        .with_remedy(or_without(&format!(
            "only Parquet marks rows without a vector ({ON_ERROR} null): reuse a Parquet output"
        )))),
        _ => Ok(vectors),
    }
}
