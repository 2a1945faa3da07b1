//! Some rows embedded again, with the model that the provenance names.

use serde::Serialize;
use serde_json::Value;

use super::Inspection;
use super::recorded::RecordedModel;
use crate::Embedder;
use crate::cancel::CancelToken;
use crate::engine::{Cosine, EngineInfo, EngineOptions};
use crate::error::{Error, Place, Result};
use crate::identity::VectorIdentity;
use crate::input::{InputOptions, RecordReader, Source, Template};
use crate::model::ModelOptions;
use crate::output::{self, Dtype, OutputFormat};
use crate::setting::{INPUT, MODEL, TEXT_FIELD, VERIFY};
use crate::storage::Readable;

/// Least cosine of a row that counts as equal; less for vectors that were computed in 8 bits.
const LEAST: f64 = 0.999;
const LEAST_INT8: f64 = 0.99;

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
pub struct Verified {
    /// Rows that were embedded again.
    pub rows: usize,
    /// The least cosine between a row's vector and the new one.
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
    /// The engine that ran the model.
    pub engine: EngineInfo,
}

/// Embeds `count` rows of a file again, spread over all of it, and compares. `options` and `engine` say where
/// models are kept and what is to run them; the model and what overrode its files come from the provenance,
/// unless `model` names another place where it is.
///
/// # Errors
/// If the file has no provenance, the model differs from the recorded one, or the texts are unavailable.
pub fn verify(
    file: &Inspection,
    count: usize,
    texts: &Texts,
    model: Option<&str>,
    options: &ModelOptions,
    engine: &EngineOptions,
    cancel: &CancelToken,
) -> Result<Verified> {
    let path = file.path.display();
    let refuse = |reason: &str| Error::usage(format!("{VERIFY}: {path} {reason}"));
    let made = (file.provenance.as_ref())
        .ok_or_else(|| refuse("has no provenance, in it or beside it"))?;
    if made
        .get("chunking")
        .is_some_and(|chunking| !chunking.is_null())
    {
        return Err(refuse("holds chunks of texts, which are not verified"));
    }
    let identity = VectorIdentity::of_provenance(made);
    if let Some(kinds) = &identity.settings.vectors {
        return Err(refuse(&format!(
            "holds vectors of several kinds ({}), and one kind is verified",
            kinds.join(", ")
        ))
        .with_remedy("embed some of its texts again and compare the columns"));
    }
    if identity.settings.multi.is_some() {
        return Err(refuse(
            "holds a vector for each token; verify-model compares such vectors, with this file after --against",
        ));
    }
    let column = (file.columns.first()).ok_or_else(|| refuse("holds no vector"))?;
    let dtype = identity.dtype.as_deref().unwrap_or(column.dtype);
    if ![Dtype::F32.name(), Dtype::F16.name()].contains(&dtype) {
        return Err(refuse(&format!(
            "holds {dtype}, and only f32 and f16 are verified"
        )));
    }
    let wanted = rows(column.vectors, count);
    let vectors = vectors(&file.file, &column.column, &wanted)?;
    let found = self::texts(texts, made, &wanted, column.vectors, cancel)?;

    let options = RecordedModel::of(made, model, options)?.open(engine)?;
    let mut embedder = Embedder::open(&options, engine)?;
    same_model(&embedder, &identity)?;
    let width = embedder.dimensions();
    let again = embedder.embed_rows(&found)?;
    let again: Vec<Vec<f32>> = again.iter().map(|row| row.in_full(width)).collect();
    let cosines: Vec<f64> = vectors
        .iter()
        .zip(&again)
        .map(|(old, new)| {
            // Of as many components as the shorter one has: one may have been cut.
            let width = old.len().min(new.len());
            Cosine::between(&old[..width], &new[..width])
        })
        .collect();
    let cosine = Cosine::of(cosines.iter().copied());
    let (least, mean) = cosine.map_or((1.0, 1.0), |cosine| (cosine.least, cosine.mean));
    let worst = cosines.iter().position(|one| *one <= least || one.is_nan());
    let by_difference = identity.settings.scores.is_some() || identity.settings.sparse.is_some();
    if by_difference {
        let apart = vectors.iter().zip(&again).map(|(old, new)| {
            let differences = old.iter().zip(new).map(|(a, b)| (a - b).abs());
            let finite = differences.map(|it| if it.is_nan() { f32::INFINITY } else { it });
            finite.fold(0.0, f32::max)
        });
        let worst = apart.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let (worst, apart) = worst.unwrap_or((0, 0.0));
        return Ok(Verified {
            rows: cosines.len(),
            least_cosine: least,
            mean_cosine: mean,
            apart: Some(apart),
            worst_row: wanted.get(worst).copied().unwrap_or(0),
            same: apart <= most_apart(identity.precision()),
            engine: embedder.engine().clone(),
        });
    }
    let enough = match identity.precision() {
        Some("int8") => LEAST_INT8,
        _ => LEAST,
    };
    Ok(Verified {
        rows: cosines.len(),
        least_cosine: least,
        mean_cosine: mean,
        apart: None,
        worst_row: worst.map_or(0, |worst| wanted[worst]),
        same: least >= enough,
        engine: embedder.engine().clone(),
    })
}

/// How far a score may be from what it was.
fn most_apart(precision: Option<&str>) -> f32 {
    match precision {
        Some("int8") => 0.1,
        Some("int16") => 0.01,
        _ => 1e-3,
    }
}

/// The file that holds the texts of an output's rows, if they were kept: itself, or of a matrix the one beside it.
///
/// # Errors
/// If there is none, or a store refuses.
pub fn kept_texts(file: &Readable) -> Result<Option<Readable>> {
    match OutputFormat::from_path(file.path()).is_some_and(OutputFormat::is_matrix) {
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

fn vectors(file: &Readable, column: &str, wanted: &[u64]) -> Result<Vec<Vec<f32>>> {
    let mut found = Vec::with_capacity(wanted.len());
    let mut row = 0;
    output::read_vectors(file, &mut |vector| {
        if vector.column == column {
            if wanted.get(found.len()) == Some(&row) {
                found.push(vector.values.to_vec());
            }
            row += 1;
        }
        Ok(())
    })?;
    Ok(found)
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
            let reject = window.rejects.first()?;
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
        "{VERIFY}: {} has {row} texts{bad}, and there are {all} vectors",
        names.join(", ")
    ))
    .with_remedy(format!(
        "name the run's input with {INPUT}, and the field of its texts with {TEXT_FIELD}"
    )))
}

/// Refuses a model whose files differ from those in the provenance.
fn same_model(embedder: &Embedder, then: &VectorIdentity) -> Result<()> {
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
