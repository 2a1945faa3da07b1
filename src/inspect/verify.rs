//! Some rows embedded again, with the model that the provenance names.

use serde::Serialize;
use serde_json::Value;

use super::Inspection;
use crate::Embedder;
use crate::cancel::CancelToken;
use crate::engine::{self, Cosine, EngineInfo, EngineOptions};
use crate::error::{Error, Place, Result};
use crate::identity::{VectorIdentity, VectorSettings};
use crate::input::{InputOptions, RecordReader, Source};
use crate::model::{Model, ModelOptions, PoolingMode, WeightsKind};
use crate::output::{self, Dtype};
use crate::setting::{INPUT, MODEL, TEXT_FIELD, VERIFY};
use crate::storage::Readable;

/// Least cosine of a row that counts as equal; less for what was computed in 8 bits.
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
    /// The row of the least cosine, from 0.
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

    let options = model_options(made, &identity, model, options, engine)?;
    let mut embedder = Embedder::open(&options, engine)?;
    same_model(&embedder, &identity)?;
    let again = embedder.embed(&found)?;
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
    let enough = match identity.precision() {
        Some("int8") => LEAST_INT8,
        _ => LEAST,
    };
    Ok(Verified {
        rows: cosines.len(),
        least_cosine: least,
        mean_cosine: mean,
        worst_row: worst.map_or(0, |worst| wanted[worst]),
        same: least >= enough,
        engine: embedder.engine().clone(),
    })
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
    if let Some(text) = made["text"].as_str().filter(|_| input.text().is_none()) {
        match text.parse() {
            Ok(template) => input.text_template = Some(template),
            Err(_) => text.clone_into(&mut input.text_field),
        }
    }
    RecordReader::open(&texts.sources, input)
        .or_else(|_| RecordReader::open(&texts.sources, texts.input.clone()))
}

/// The wanted rows' texts. There must be as many as there are vectors: what is left out cannot be told.
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

/// The model that made a file, with what overrode its own files.
fn model_options(
    made: &Value,
    identity: &VectorIdentity,
    model: Option<&str>,
    options: &ModelOptions,
    engine: &EngineOptions,
) -> Result<ModelOptions> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let id = text(&made["model"]["id"]).unwrap_or_default();
    let name = match (model, text(&made["model"]["revision"])) {
        (Some(model), _) => model.to_owned(),
        (None, Some(revision)) => format!("{id}@{revision}"),
        (None, None) => id,
    };
    let VectorSettings {
        model_file,
        pooling,
        prompt,
        max_length,
        include_prompt: _, // the model's files say so
        normalized: _,     // these change lengths, which a cosine does not show
        normalized_before_cut: _,
        dimensions: _, // as many components are compared as there are
    } = identity.settings.clone();
    let native = identity.weights() == WeightsKind::Checkpoint;
    let parse = |name: &String| name.parse::<PoolingMode>().map_err(Error::usage);
    let pooling: Vec<PoolingMode> = (pooling.iter().flatten().map(parse)).collect::<Result<_>>()?;
    let precision = identity.precision().filter(|_| native);
    let precision = precision.map(|it| it.parse().map_err(Error::usage));
    let mut options = ModelOptions {
        model: name,
        prompt,
        max_length,
        model_file: model_file.filter(|_| !native),
        precision: precision.transpose()?,
        ..options.clone()
    };
    // Named again, the model's own modes would be another thing than its own.
    let (settled, _) = engine::settle(&options, engine)?;
    if !pooling.is_empty() && Model::open(&settled)?.config.pooling != pooling {
        options.pooling = Some(pooling);
    }
    Ok(options)
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
