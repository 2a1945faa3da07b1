//! An output whose rows are searched: its files, its provenance, and the column that is compared.

use std::path::Path;

use embedctl_vectors::{Neighbour, Terms};
use serde_json::Value;

use super::decoder::Decoder;
use super::files::{CorpusFile, CorpusFiles};
use super::nearest::{TakeStored, count_from_zero, nearest};
use crate::cancel::CancelToken;
use crate::error::{Error, Place, Result};
use crate::identity::VectorIdentity;
use crate::output::{self, ChosenVectors, Forms, MatrixRows, RowForm, TemporaryVectors};
use crate::record::{Numbers, RowVector};
use crate::setting::{DTYPE, VECTORS};
use crate::storage::{Location, Storage};
use embedctl_records::quantize::Dtype;

/// Rows of maps that are read at a time.
const MAPS_AT_A_TIME: u64 = 1024;

/// Takes a vector of the column: the number of its row, the type of its elements, and these.
type TakeColumn<'a> = dyn FnMut(u64, Dtype, &[f32]) -> Result<()> + 'a;

/// An output of `embed`, opened to be searched.
#[derive(Debug)]
pub struct Corpus {
    /// How it is called in messages.
    pub(super) name: String,
    pub(super) files: Vec<CorpusFile>,
    /// What the user should know: what a run has still to write of it, and which files are not there.
    pub warnings: Vec<String>,
    pub(super) made: Value,
    pub(super) identity: VectorIdentity,
    /// The form of the vectors that are compared, without sizes, and whether a row has others.
    pub(super) form: RowForm,
    pub(super) has_several: bool,
    /// The column; `None` where the provenance names none.
    column: Option<String>,
    /// The form of these vectors as they are stored, without sizes.
    stored: RowForm,
    /// Whether its sparse vectors are maps from terms to weights, and the terms once they are known.
    has_maps: bool,
    terms: Option<Terms>,
    pub(super) decoder: Decoder,
    dtype: Dtype,
    /// Components of a vector, where that is known.
    pub(super) dimensions: Option<usize>,
}

impl Corpus {
    /// Opens a file, a folder of parts, or an address. `asked` are the forms of vectors that are asked for.
    ///
    /// # Errors
    /// If it has no provenance or no row, or does not have vectors of one such kind.
    pub fn open(path: &Path, storage: Option<&Storage>, asked: &[RowForm]) -> Result<Self> {
        let location = Location::of(path)?;
        let name = location.to_string();
        let without = || {
            Error::usage(format!("{name}: it has no provenance, in it or beside it, so the model of its vectors is unknown"))
                .with_remedy("name a file that embedctl has written, or a folder of its parts")
        };
        let mut found = CorpusFiles::find(&name, &location, storage)?;
        let empty = || {
            Error::usage(format!(
                "{name}: it holds no vector, so there is nothing to find"
            ))
            .with_remedy("name an output with rows")
        };
        let is_one = matches!(&found.files[..], [only] if only.vectors.is_none());
        let first = found.files.first_mut().ok_or_else(empty)?;
        let made = output::provenance(&first.file, first.format)?.ok_or_else(without)?;
        if is_one {
            // Of a text in chunks each is a row.
            let rows = &made["rows"];
            first.vectors = rows["chunks"].as_u64().or(rows["embedded"].as_u64());
            if first.vectors == Some(0) {
                return Err(empty());
            }
        }
        let identity = VectorIdentity::of_provenance(&made);
        let (form, number, count) = chosen(&name, &identity, asked)?;
        let recorded = output::recorded_kinds(&made).into_iter().nth(number);
        let recorded = recorded.ok_or_else(without)?;
        let has_maps = recorded.form.is_none();
        let stored = recorded.form.clone().unwrap_or_else(|| form.clone());
        let dimensions = match number {
            0 => identity
                .settings
                .dimensions
                .as_ref()
                .and_then(|it| it.0.first().copied()),
            _ => recorded.width,
        };
        let decoder = Decoder::of(&recorded, 0, dimensions).ok_or_else(|| {
            Error::usage(format!(
                "{name}: its provenance lacks what {} vectors mean",
                recorded.dtype
            ))
            .with_remedy(format!("embed again, or with {DTYPE} f32"))
        })?;
        found.note_strange_rows()?;
        let CorpusFiles { files, warnings } = found;
        Ok(Self {
            name,
            files,
            warnings,
            made,
            form,
            has_several: count > 1,
            column: recorded.columns.into_iter().next(),
            stored,
            has_maps,
            terms: None,
            dtype: recorded.dtype,
            decoder,
            dimensions,
            identity,
        })
    }

    /// Whether its vectors are maps from terms to weights, whose [terms](Corpus::know_terms) are not known.
    #[must_use]
    pub fn lacks_terms(&self) -> bool {
        self.has_maps && self.terms.is_none()
    }

    /// Takes the terms of its model, or [`Terms::as_met`] where its rows are compared with each other alone.
    pub fn know_terms(&mut self, terms: Terms) {
        self.terms = Some(terms);
    }

    /// The `most` nearest rows to each query, best first; `besides` is left out.
    ///
    /// # Errors
    /// If the output cannot be read, or holds other vectors.
    pub fn nearest(
        &self,
        queries: &Numbers,
        most: usize,
        besides: Option<u64>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Neighbour>>> {
        let width = queries.width();
        if let (Some(width), Some(own)) = (width, self.dimensions)
            && width != own
        {
            return Err(Error::internal(format!(
                "a query of {width} components for rows of {own}"
            )));
        }
        let (found, rows) = nearest(queries, &self.decoder, most, besides, |feed| {
            let mut width = KnownWidth::default();
            for file in &self.files {
                match self.matrix(file)? {
                    Some(matrix) => {
                        self.check_count(file, matrix.rows())?;
                        if matrix.rows() > 0 {
                            width.check(self, file, matrix.width())?;
                            feed.matrix(matrix, file.first, cancel)?;
                        }
                    }
                    None => {
                        let take = &mut |number, row: RowVector<'_>| feed.row(number, row);
                        self.for_each_of(file, &mut width, cancel, take)?;
                    }
                }
            }
            Ok(())
        })?;
        if rows == 0 {
            return Err(self.is_empty());
        }
        Ok(found)
    }

    /// The vector of a row, as a query.
    ///
    /// # Errors
    /// If it has none, or the output cannot be read.
    pub fn vector(&self, wanted: u64, cancel: &CancelToken) -> Result<Numbers> {
        let mut found: Option<Numbers> = None;
        let place = self.files.partition_point(|file| file.first <= wanted);
        let file = &self.files[place.saturating_sub(1)];
        let own = wanted - file.first;
        if let Some(matrix) = self.matrix(file)? {
            KnownWidth::default().check(self, file, matrix.width())?;
            if own < matrix.rows() {
                let (mut room, mut stored, mut elements) = Default::default();
                matrix.read(own..own + 1, &mut room, &mut stored)?;
                let row = from_zero(matrix.dtype(), &stored, &mut elements);
                return Ok(self.decoded(RowVector::of_vector(row)));
            }
        } else if let Some(mut chosen) = self.chosen(file)? {
            chosen.read(&[own], &mut |_, row| {
                found = Some(self.decoded(row.first()));
            })?;
        } else {
            let take = &mut |number, row: RowVector<'_>| {
                if number != wanted {
                    return Ok(());
                }
                found = Some(self.decoded(row));
                // Ends the reading: what follows is not wanted.
                Err(Error::internal("the row was found"))
            };
            let read = self.for_each_of(file, &mut KnownWidth::default(), cancel, take);
            if found.is_none() {
                read?;
            }
        }
        found.ok_or_else(|| {
            Error::usage(format!("{}: row {wanted} has no vector", self.name))
                .with_remedy("choose another row")
        })
    }

    /// A row's vector in numbers, as rows of one.
    pub(super) fn decoded(&self, row: RowVector<'_>) -> Numbers {
        let decoded = |stored: &[f32]| {
            let mut numbers = Vec::new();
            self.decoder.decode(stored, &mut numbers);
            numbers
        };
        row.mapped(decoded)
    }

    /// How it is called in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The paths of its files, where they are on this machine.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.file.path())
    }

    /// Components of a vector in full, which a query has, too; `None` of sparse vectors.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        self.dimensions.filter(|_| self.is_dense())
    }

    /// The type of its vectors' components.
    pub(super) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Whether a row has one vector in full.
    pub(super) fn is_dense(&self) -> bool {
        self.stored.is_dense()
    }

    /// Bytes of a row's vector as it is stored: of sparse ones an index of four bytes beside each value.
    pub(super) fn stored_bytes(&self, row: RowVector<'_>) -> u64 {
        let index = row.indices().map_or(0, |_| size_of::<u32>());
        (row.values().len() * (self.dtype.bytes() + index)) as u64
    }

    /// Whether its vectors are floats and those of `other` were made of the same ones: in another type, or cut.
    pub(super) fn is_finer_form_of(&self, other: &Self) -> bool {
        let plain = |it: &Self| {
            let mut settings = it.identity.settings.clone();
            settings.dimensions = None;
            settings.normalized_before_cut = None;
            (it.identity.files.clone(), settings)
        };
        let is_narrower = match (self.dimensions, other.dimensions) {
            (Some(own), Some(other)) => other <= own,
            _ => false,
        };
        let is_float = matches!(self.decoder, Decoder::Floats);
        self.is_dense() && is_float && is_narrower && plain(self) == plain(other)
    }

    /// The error of an output without a vector.
    pub(super) fn is_empty(&self) -> Error {
        Error::usage(format!("{}: it holds no vector", self.name))
            .with_remedy("name an output with rows")
    }

    /// Hands over each row that has a vector, as it is stored, elements of bytes from 0 on.
    pub(super) fn for_each(&self, cancel: &CancelToken, take: &mut TakeStored<'_>) -> Result<()> {
        let mut width = KnownWidth::default();
        for file in &self.files {
            self.for_each_of(file, &mut width, cancel, take)?;
        }
        Ok(())
    }

    /// The same of one file.
    fn for_each_of(
        &self,
        file: &CorpusFile,
        width: &mut KnownWidth,
        cancel: &CancelToken,
        take: &mut TakeStored<'_>,
    ) -> Result<()> {
        let mut check = |file: &CorpusFile, own: usize| match cancel.is_cancelled() {
            true => Err(Error::interrupted()),
            false => width.check(self, file, own),
        };
        let is_counted = file.format.facts().lengths().is_some();
        let mut rows = 0;
        let take: &mut TakeStored<'_> = &mut |number, row| {
            rows += 1;
            take(number, row)
        };
        let read = match self.stored.is_one_per_row() {
            true if self.has_maps => self.of_maps(file, take),
            true => self.of_rows(file, &mut check, take),
            false if is_counted => self.of_lengths(file, &mut check, take),
            false => self.of_tokens(file, &mut check, take),
        };
        file.file.bytes.close();
        read?;
        self.check_count(file, rows)
    }

    /// Checks that a file holds all vectors that were written to it.
    ///
    /// # Errors
    /// If rows are lost.
    fn check_count(&self, file: &CorpusFile, rows: u64) -> Result<()> {
        // A row of tokens may have none.
        match file.vectors.filter(|_| self.stored.is_one_per_row()) {
            Some(written) if written > rows => Err(Error::input(
                Place::file(&file.file.name),
                format!("holds {rows} rows with vectors, but {written} were written"),
            )
            .with_remedy("look at it with `embedctl inspect`, and write it again")),
            _ => Ok(()),
        }
    }

    /// Vectors of floats by the numbers of their rows.
    fn chosen(&self, file: &CorpusFile) -> Result<Option<ChosenVectors>> {
        match (&self.column, self.dimensions, &self.decoder) {
            (Some(column), Some(width), Decoder::Floats) if self.is_dense() => {
                let forms = Forms::of_column(column, RowForm::Dense(vec![width]));
                ChosenVectors::in_place(&file.file, file.format, &forms)
            }
            _ => Ok(None),
        }
    }

    /// The rows of a file that can be read from anywhere.
    fn matrix(&self, file: &CorpusFile) -> Result<Option<MatrixRows>> {
        match self.is_dense() {
            true => output::matrix_rows(&file.file, file.format),
            false => Ok(None),
        }
    }

    /// A vector in each row.
    fn of_rows(
        &self,
        file: &CorpusFile,
        check: &mut dyn FnMut(&CorpusFile, usize) -> Result<()>,
        take: &mut TakeStored<'_>,
    ) -> Result<()> {
        let mut room = Vec::new();
        let mut rows: Option<Numbers> = None;
        self.read(file, &mut |row, dtype, stored| {
            check(file, stored.len())?;
            if self.is_dense() {
                return take(
                    row,
                    RowVector::of_vector(from_zero(dtype, stored, &mut room)),
                );
            }
            let none = || self.stored.of_width(stored.len()).no_rows();
            let rows = rows.get_or_insert_with(none);
            rows.clear();
            rows.push_full(from_zero(dtype, stored, &mut room));
            take(row, rows.get(0))
        })
    }

    /// A map from terms to weights in each row.
    fn of_maps(&self, file: &CorpusFile, take: &mut TakeStored<'_>) -> Result<()> {
        let terms = self.terms.as_ref().ok_or_else(|| {
            Error::internal(format!(
                "{}: the terms of its maps are not known",
                self.name
            ))
        })?;
        let column = self.column.as_deref().unwrap_or_default();
        let forms = Forms::of_column(column, self.stored.of_width(terms.count)).with_terms(terms);
        let mut temporary = TemporaryVectors::default();
        let mut chosen = ChosenVectors::open(&file.file, file.format, &forms, &mut temporary)?;
        let (mut start, mut taken) = (0, Ok(()));
        while start < chosen.rows() && taken.is_ok() {
            let end = chosen.rows().min(start + MAPS_AT_A_TIME);
            let rows: Vec<u64> = (start..end).collect();
            chosen.read(&rows, &mut |index, row| {
                if taken.is_ok() {
                    taken = take(file.first + start + index as u64, row.first());
                }
            })?;
            start = end;
        }
        taken
    }

    /// A vector for each token, in rows.
    fn of_tokens(
        &self,
        file: &CorpusFile,
        check: &mut dyn FnMut(&CorpusFile, usize) -> Result<()>,
        take: &mut TakeStored<'_>,
    ) -> Result<()> {
        let mut room = Vec::new();
        // The row whose vectors are being read, and their width.
        let mut current: Option<(u64, usize)> = None;
        let mut values: Vec<f32> = Vec::new();
        let end =
            |current: Option<(u64, usize)>, values: &mut Vec<f32>, take: &mut TakeStored<'_>| {
                let Some((row, width)) = current else {
                    return Ok(());
                };
                let taken = take(row, RowVector::of_vectors(width, values));
                values.clear();
                taken
            };
        self.read(file, &mut |row, dtype, stored| {
            check(file, stored.len())?;
            if current.is_some_and(|(current, _)| current != row) {
                end(current, &mut values, take)?;
            }
            current = Some((row, stored.len()));
            values.extend_from_slice(from_zero(dtype, stored, &mut room));
            Ok(())
        })?;
        end(current, &mut values, take)
    }

    /// A vector for each token, in a matrix beside which stands how many each row has.
    fn of_lengths(
        &self,
        file: &CorpusFile,
        check: &mut dyn FnMut(&CorpusFile, usize) -> Result<()>,
        take: &mut TakeStored<'_>,
    ) -> Result<()> {
        let width = self.decoder.elements(self.dimensions.unwrap_or_default());
        check(file, width)?;
        let is_signed = matches!(self.dtype, Dtype::Int8 | Dtype::Binary);
        let counted = |stored: &[f32]| from_zero(Dtype::Int8, stored, &mut Vec::new()).to_vec();
        let forms = Forms::of_column("", self.stored.of_width(width));
        let mut temporary = TemporaryVectors::default();
        let mut chosen = ChosenVectors::open(&file.file, file.format, &forms, &mut temporary)?;
        let (mut row, mut taken) = (file.first, Ok(()));
        chosen.for_each(&mut |vectors| {
            if taken.is_ok() {
                taken = match is_signed {
                    true => take(row, vectors.first().mapped(counted).get(0)),
                    false => take(row, vectors.first()),
                };
            }
            row += 1;
        })?;
        taken
    }

    /// Hands over the vectors of the column, with the numbers of their rows in the output.
    fn read(&self, file: &CorpusFile, take: &mut TakeColumn<'_>) -> Result<()> {
        let mut column = self.column.clone();
        output::read_vectors(&file.file, &mut |vector| {
            let is_this = vector.column.is_empty()
                || vector.column == column.get_or_insert_with(|| vector.column.to_owned());
            match is_this {
                true => take(file.first + vector.row, vector.dtype, vector.values),
                false => Ok(()),
            }
        })
    }
}

/// The number of elements that the vectors read so far have.
#[derive(Default)]
struct KnownWidth(Option<usize>);

impl KnownWidth {
    /// Checks that another vector has as many as the others, and as the provenance says.
    fn check(&mut self, corpus: &Corpus, file: &CorpusFile, own: usize) -> Result<()> {
        let known = *self.0.get_or_insert(own);
        let dimensions = corpus.decoder.dimensions(own);
        let is_known = corpus.dimensions.is_none_or(|it| Some(it) == dimensions);
        if known == own && dimensions.is_some() && is_known {
            return Ok(());
        }
        Err(Error::input(
            Place::file(&file.file.name),
            format!("holds a vector of {own} elements, which its other vectors or its provenance do not have"),
        )
        .with_remedy("look at it with `embedctl inspect`"))
    }
}

/// Elements of int8 as those of uint8.
fn from_zero<'a>(dtype: Dtype, stored: &'a [f32], room: &'a mut Vec<f32>) -> &'a [f32] {
    if dtype != Dtype::Int8 {
        return stored;
    }
    room.clear();
    room.extend_from_slice(stored);
    count_from_zero(room);
    room
}

/// The form of the vectors that are compared, its number among the output's, and how many it has.
fn chosen(
    name: &str,
    identity: &VectorIdentity,
    asked: &[RowForm],
) -> Result<(RowForm, usize, usize)> {
    let settings = &identity.settings;
    if settings.scores.is_some() {
        return Err(
            Error::usage(format!("{name}: it holds scores, not vectors"))
                .with_remedy("name an output of embed"),
        );
    }
    let all = settings.vector_forms()?;
    let names: Vec<&str> = all.iter().map(RowForm::name).collect();
    let refuse = |why: String| {
        Error::usage(format!("{name}: {why} ({})", names.join(", ")))
            .with_remedy(format!("choose one of its kinds with {VECTORS}"))
    };
    let form = match (asked, &all[..]) {
        ([], [one]) | ([one], _) => one,
        ([], _) => {
            return Err(refuse("its rows have vectors of several kinds".to_owned()));
        }
        _ => return Err(refuse(format!("{VECTORS} names several kinds"))),
    };
    let number = all.iter().position(|own| own == form);
    let number = number.ok_or_else(|| refuse(format!("it has no {} vectors", form.name())))?;
    Ok((form.clone(), number, names.len()))
}
