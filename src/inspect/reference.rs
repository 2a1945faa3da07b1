//! Comparing a model's vectors with those that another program made of the same texts: sentence-transformers, as a
//! rule.

use serde::Serialize;

use crate::embedder::Embedder;
use crate::engine::Cosine;
use crate::error::{Error, Place, Result};
use crate::input::RecordReader;
use crate::output::read_vectors;
use crate::setting::{DIMENSIONS, TEXTS};
use crate::storage::Readable;

/// How two programs' vectors compare.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Least and mean cosine.
    pub cosine: Cosine,
    /// The largest difference between two components.
    pub apart: f32,
    /// Width of a vector.
    pub dimensions: usize,
    /// The text with the least cosine.
    pub worst: Worst,
}

/// The text whose vectors are the farthest from each other.
#[derive(Debug, Clone, Serialize)]
pub struct Worst {
    /// Its number, counted from 1: the row of the vectors, and the record of the texts.
    pub row: usize,
    /// Its id.
    pub text: String,
    /// Its token ids, special tokens and prompt among them.
    pub ids: Vec<u32>,
}

/// Embeds the texts of `records` and compares each with its row of the vectors in `file` (a format that embedctl
/// writes, `NumPy`'s among them; any element type).
///
/// # Errors
/// If the texts or the file cannot be read, there is none, they are not as many as each other or not as wide as the
/// model's vectors, a record is bad, or the engine fails.
pub fn against(
    embedder: &mut Embedder,
    mut records: RecordReader,
    file: &Readable,
) -> Result<Comparison> {
    let width = embedder.dimensions();
    let strange = |reason: String| Error::input(Place::file(&file.name), reason);
    let mut vectors: Vec<f32> = Vec::new();
    read_vectors(file, &mut |vector| {
        if vector.values.len() != width {
            return Err(strange(format!(
                "holds vectors of {} components, and this model's have {width}",
                vector.values.len()
            ))
            .with_remedy(format!(
                "name the model that made them, or say {DIMENSIONS}"
            )));
        }
        vectors.extend(vector.values);
        Ok(())
    })?;
    let mut theirs = vectors.chunks_exact(width);
    let mut apart = 0.0_f32;
    // The totals, and the text and row of the least cosine.
    let mut found: Option<(Cosine, usize, String)> = None;
    let names = records.names();
    while let Some(window) = records.next_window()? {
        if let Some(reject) = window.rejects.first() {
            let origin = reject.origin;
            let place = Place::file(names[origin.source as usize].clone()).line(origin.line);
            return Err(Error::input(place, reject.cause.clone()));
        }
        let texts: Vec<&str> = window.texts.iter().collect();
        for (text, ours) in texts.iter().zip(embedder.embed(&texts)?) {
            let theirs = theirs
                .next()
                .ok_or_else(|| counts(&strange, vectors.len() / width, "more"))?;
            let differences = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
            // A NaN stays, which `max` would drop.
            apart = differences.fold(apart, |most, by| {
                if most.is_nan() || most >= by {
                    most
                } else {
                    by
                }
            });
            let cosine = Cosine::of([Cosine::between(&ours, theirs)]).expect("there is one");
            found = Some(match found {
                Some((all, row, worst)) if all.least <= cosine.least => {
                    (all.join(cosine), row, worst)
                }
                before => {
                    let all = before.map_or(cosine, |(all, ..)| all.join(cosine));
                    (all, all.texts, (*text).to_owned())
                }
            });
        }
    }
    if theirs.next().is_some() {
        return Err(counts(&strange, vectors.len() / width, "fewer"));
    }
    let Some((cosine, row, text)) = found else {
        return Err(strange(
            "holds no vector, so there is nothing to compare".to_owned(),
        ));
    };
    let ids = embedder.tokenize(&[&text].iter().collect()).get(0).to_vec();
    Ok(Comparison {
        cosine,
        apart,
        dimensions: width,
        worst: Worst { row, text, ids },
    })
}

fn counts(strange: &impl Fn(String) -> Error, vectors: usize, texts: &str) -> Error {
    strange(format!(
        "holds {vectors} vectors, and there are {texts} texts"
    ))
    .with_remedy(format!(
        "name the texts that they were made of, in the same order, with {TEXTS}"
    ))
}
