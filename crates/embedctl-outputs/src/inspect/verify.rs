//! Some rows embedded again, with the model that the provenance names.

use serde::Serialize;
use serde_json::Value;

use super::Inspection;
use super::agreement::{AgreementLimits, ComparedRows, Measure, RowsAgreement};
use super::recorded::RecordedModel;
use crate::cancel::CancelToken;
use crate::engine::{EngineInfo, Resolved};
use crate::error::{Error, Place, Result};
use crate::identity::VectorIdentity;
use crate::input::{RecordReader, Source};
use crate::model::ModelOptions;
use crate::output::{self, ChosenVectors, Forms, TemporaryVectors};
use crate::setting::{INPUT, MODEL, TEXT_FIELD, VERIFY};
use crate::storage::Readable;
use embedctl_engine::Embedder;
use embedctl_records::options::InputOptions;
use embedctl_records::quantize::Dtype;
use embedctl_records::template::Template;
use embedctl_vectors::RowParts;

/// Where the rows' texts are.
#[derive(Debug, Clone)]
pub struct Texts {
    /// Their input, one record per row, in the rows' order.
    pub sources: Vec<Source>,
    /// How to read it.
    pub input: InputOptions,
}

/// The result of embedding rows again.
#[derive(Debug, Clone, Serialize)]
pub struct Verification {
    /// Rows that were embedded again.
    pub rows: usize,
    /// The column with the lowest agreement.
    #[serde(flatten)]
    pub worst: ColumnAgreement,
    /// Each kind's column, where there are several kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnAgreement>,
    /// The engine that ran the model.
    pub engine: EngineInfo,
}

/// How near a column's vectors are to those that were made again.
#[derive(Debug, Clone, Serialize)]
pub struct ColumnAgreement {
    /// Its name; empty in a format without names.
    pub column: String,
    /// The least cosine between a vector of the file and the new one; 0 where a row has another number of vectors.
    pub least_cosine: f64,
    /// Their mean.
    pub mean_cosine: f64,
    /// Of scores and of sparse vectors' entries, the greatest difference between two, which decides in place of cosines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<f32>,
    /// The row of the least cosine, or of the greatest difference, from 0.
    pub worst_row: u64,
    /// Whether that is as near as it should be.
    pub same: bool,
}

impl ColumnAgreement {
    /// The measure that decides, in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self.apart {
            Some(apart) => format!("largest difference {apart:.2e}"),
            None => format!("least cosine {:.6}", self.least_cosine),
        }
    }
}

/// The model that made a file, with what overrode its own files, as the provenance says; `named` is another place where it
/// is, and `options` say where models are kept.
///
/// # Errors
/// If the file has no provenance, or that has a setting that this version does not know.
pub fn recorded_model(
    file: &Inspection,
    named: Option<&str>,
    options: &ModelOptions,
) -> Result<ModelOptions> {
    Ok(RecordedModel::of(provenance(file)?, named, options)?.options)
}

fn provenance(file: &Inspection) -> Result<&Value> {
    (file.provenance.as_ref()).ok_or_else(|| refused(file, "has no provenance, in it or beside it"))
}

fn refused(file: &Inspection, reason: &str) -> Error {
    Error::usage(format!("{VERIFY}: {} {reason}", file.path.display()))
}

/// Embeds `count` rows of a file again, spread over all of it, and compares. `resolved` is the
/// [recorded model](recorded_model).
///
/// # Errors
/// If the file has no provenance, the model differs from the recorded one, or the texts are unavailable.
pub fn verify(
    file: &Inspection,
    count: usize,
    texts: &Texts,
    resolved: Resolved,
    cancel: &CancelToken,
) -> Result<Verification> {
    let refuse = |reason: &str| refused(file, reason);
    let made = provenance(file)?;
    if made
        .get("chunking")
        .is_some_and(|chunking| !chunking.is_null())
    {
        return Err(refuse("holds chunks of texts, which are not verified"));
    }
    let identity = VectorIdentity::of_provenance(made);
    let columns = file.columns.iter();
    let columns = columns.map(|column| (column.column.as_str(), column.widest));
    let kinds = output::kinds_of(made, &columns.collect::<Vec<_>>());
    let (numbers, forms) = kinds.ok_or_else(|| refuse("holds no vector that is read back"))?;
    let mut dtypes = file.columns.iter().map(|column| column.dtype);
    let is_float = |dtype: &&str| [Dtype::F32.name(), Dtype::F16.name()].contains(dtype);
    if let Some(dtype) = dtypes.find(|dtype| !is_float(dtype)) {
        return Err(refuse(&format!(
            "holds {dtype}, but only f32 and f16 are verified"
        )));
    }
    let mut all = 0;
    for_each_row(file, &forms, &mut |_| all += 1)?;
    let wanted = rows(all, count);
    let (mut vectors, mut row) = (forms.no_rows(), 0);
    for_each_row(file, &forms, &mut |vector| {
        if wanted.get(vectors.len()) == Some(&row) {
            vectors.push(vector);
        }
        row += 1;
    })?;
    let found = self::texts(texts, made, &wanted, all, cancel)?;

    let mut embedder = Embedder::open(RecordedModel::pooled(made, resolved)?, cancel)?;
    same_model(&embedder, &identity)?;
    let again = embedder.embed_rows(&found)?;
    let are_scores = identity.settings.scores.is_some();
    let parts = vectors.parts().iter().zip(numbers);
    let columns: Result<Vec<ColumnAgreement>> = (forms.each().zip(parts))
        .map(|((form, mut columns), (old, number))| {
            let measure = match are_scores {
                true => Measure::GreatestDifference,
                false => Measure::of(form),
            };
            let mut compared = ComparedRows::new(measure);
            let new = again.parts().get(number);
            let new =
                new.ok_or_else(|| refuse("holds more kinds of vectors than its model gives"))?;
            for (old, new) in old.iter().zip(new.iter()) {
                compared.add(old, new);
            }
            let (name, _) = columns.next().unwrap_or_default();
            let limits = AgreementLimits::again(identity.precision());
            Ok(column(name, &wanted, compared.end(limits)))
        })
        .collect();
    let columns = columns?;
    let worst = columns.iter().find(|one| !one.same).unwrap_or(&columns[0]);
    Ok(Verification {
        rows: wanted.len(),
        worst: worst.clone(),
        columns: match columns.len() {
            1 => Vec::new(),
            _ => columns,
        },
        engine: embedder.engine().clone(),
    })
}

/// Hands over the vectors of each row that has some, in order.
fn for_each_row(
    file: &Inspection,
    forms: &Forms,
    take: &mut dyn FnMut(RowParts<'_>),
) -> Result<()> {
    let (file, format) = (&file.file, output::format_of(&file.file)?);
    let mut chosen = ChosenVectors::open(file, format, forms, &mut TemporaryVectors::default())?;
    chosen.for_each(take)?;
    chosen.close();
    Ok(())
}

/// How near the vectors of a column's `rows` are; `agreement` is `None` where there are none.
fn column(name: &str, rows: &[u64], agreement: Option<RowsAgreement>) -> ColumnAgreement {
    let by_difference = |it: &RowsAgreement| it.measure == Measure::GreatestDifference;
    let row = agreement.as_ref().and_then(|it| rows.get(it.farthest));
    let cosine = agreement.as_ref().map(|it| it.cosine);
    let [least, mean] = cosine.map_or([1.0; 2], |cosine| [cosine.least, cosine.mean]);
    ColumnAgreement {
        column: name.to_owned(),
        least_cosine: least,
        mean_cosine: mean,
        worst_row: row.copied().unwrap_or(0),
        same: agreement.as_ref().is_none_or(|it| it.same),
        apart: agreement.filter(by_difference).map(|it| it.apart),
    }
}

/// The file that holds the texts of an output's rows, if they were kept: itself, or of a matrix the one beside it.
///
/// # Errors
/// If there is none, or a store refuses.
pub fn kept_texts(file: &Readable) -> Result<Option<Readable>> {
    match output::format_of(file)?.is_matrix() {
        true => file.bytes.beside(output::ROWS),
        false => Ok(Some(file.clone())),
    }
}

/// Numbers of `count` rows, spread over all.
fn rows(all: u64, count: usize) -> Vec<u64> {
    let count = (count as u64).min(all);
    (0..count)
        .map(|index| (u128::from(index) * u128::from(all) / u128::from(count)) as u64)
        .collect()
}

/// Reads texts that are made of what they were made of then, unless a field is named, or there are no fields.
fn reader(texts: &Texts, made: &Value) -> Result<RecordReader> {
    let mut input = texts.input.clone();
    let named = made["text"].as_str().filter(|_| input.text().is_none());
    if let Some(query) = made["query"].as_str() {
        let template = named.and_then(|text| text.parse().ok());
        let field = named.unwrap_or(&input.text_field);
        let pair = Template::of_pair(query, field, template.as_ref());
        input.text_template = Some(pair);
    } else if let Some(text) = made["text"].as_str().filter(|_| input.text().is_none()) {
        match text.parse() {
            Ok(template) => input.text_template = Some(template),
            Err(_) => text.clone_into(&mut input.text_field),
        }
    }
    RecordReader::open(&texts.sources, input)
        .or_else(|_| RecordReader::open(&texts.sources, texts.input.clone()))
}

/// The wanted rows' texts. There must be as many as there are vectors, since a missing text cannot be found.
fn texts(
    texts: &Texts,
    made: &Value,
    wanted: &[u64],
    all: u64,
    cancel: &CancelToken,
) -> Result<Vec<String>> {
    let mut reader = reader(texts, made)?;
    let names = reader.names();
    let mut found = Vec::with_capacity(wanted.len());
    let mut row = 0;
    let mut bad = None;
    while let Some(window) = reader.next_window()? {
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        bad = bad.or_else(|| {
            let reject = window.rejects().next()?;
            let name = names.get(reject.origin.source as usize)?;
            let place = Place::file(name).line(reject.origin.line);
            Some(format!(" ({place} has none: {})", reject.cause.reason))
        });
        for text in window.texts.iter() {
            if wanted.get(found.len()) == Some(&row) {
                found.push(text.to_owned());
            }
            row += 1;
        }
    }
    if row == all {
        return Ok(found);
    }
    let bad = bad.unwrap_or_default();
    Err(Error::usage(format!(
        "{VERIFY}: {} has {row} texts{bad}, but there are {all} vectors",
        names.join(", ")
    ))
    .with_remedy(format!(
        "name the run's input with {INPUT}, and the field of its texts with {TEXT_FIELD}"
    )))
}

/// Refuses a model whose files differ from those in the provenance.
///
/// # Errors
/// If they differ, with the first difference.
pub fn same_model(embedder: &Embedder, then: &VectorIdentity) -> Result<()> {
    let weights = embedder.engine().provider.weights_of(embedder.model());
    let here = embedder.model().provenance(weights)?;
    for (path, hash) in then.files.iter().flatten() {
        let own = here.files.iter().find(|own| own.path == *path);
        if own.is_some_and(|own| own.sha256 != *hash) {
            return Err(Error::model(
                &here.id,
                format!("is not the one that made the vectors: its {path} has another SHA-256"),
            )
            .with_remedy(format!("name the folder that holds that one with {MODEL}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_over_all() {
        assert_eq!(rows(10, 5), [0, 2, 4, 6, 8]);
        assert_eq!(rows(3, 10), [0, 1, 2]);
        assert!(rows(0, 10).is_empty());
    }
}
