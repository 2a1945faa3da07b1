//! Compares a model's vectors with the vectors of another program, usually sentence-transformers, for the same texts.

use serde::Serialize;

use crate::embedder::Embedder;
use crate::engine::Cosine;
use crate::error::{Error, Place, Result};
use crate::input::RecordReader;
use crate::output::read_vectors;
use crate::pool::is_finite;
use crate::setting::{DIMENSIONS, TEXTS};
use crate::storage::Readable;
use embedctl_common::vectors::RowVector;

/// How two programs' vectors compare.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Least and mean cosine.
    pub cosine: Cosine,
    /// The largest difference between two components.
    pub apart: f32,
    /// The median of the cosines.
    pub median: f64,
    /// Whether the differences are those of another number type and not of single texts: every text differs, most of
    /// them by about as much, and none by more than rounding does.
    pub rounding: bool,
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
                "holds vectors of {} components, but this model's have {width}",
                vector.values.len()
            ))
            .with_remedy(format!(
                "name the model that made them, or say {DIMENSIONS}"
            )));
        }
        if !is_finite(vector.values) {
            return Err(strange(format!(
                "holds NaN or infinity in vector {}, so there is nothing to compare it with",
                vectors.len() / width + 1
            ))
            .with_remedy(
                "make these vectors again in single precision: some models exceed the range of float16",
            ));
        }
        vectors.extend(vector.values);
        Ok(())
    })?;
    let mut theirs = vectors.chunks_exact(width);
    let mut apart = 0.0_f32;
    // The totals, and the text and row of the least cosine.
    let mut found: Option<(Cosine, usize, String)> = None;
    let mut cosines = Vec::new();
    let names = records.names();
    while let Some(window) = records.next_window()? {
        if let Some(reject) = window.rejects.first() {
            let origin = reject.origin;
            let place = Place::file(names[origin.source as usize].clone()).line(origin.line);
            return Err(Error::input(place, reject.cause.clone()));
        }
        let texts: Vec<&str> = window.texts.iter().collect();
        let rows = embedder.embed_rows(&texts)?;
        for (text, ours) in texts.iter().zip(rows.iter()) {
            // Of sparse vectors the union of the entries counts; of vectors of tokens each.
            let vectors_of_row: Vec<Vec<f32>> = match ours {
                RowVector::Multi(row) => row.vectors().map(<[f32]>::to_vec).collect(),
                RowVector::Dense(_) | RowVector::Sparse(_) | RowVector::Several(_) => {
                    vec![ours.in_full(width)]
                }
            };
            for ours in vectors_of_row {
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
                cosines.push(Cosine::between(&ours, theirs));
                let cosine = Cosine::of(cosines.last().copied()).expect("there is one");
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
    cosines.sort_by(f64::total_cmp);
    Ok(Comparison {
        cosine,
        apart,
        median: cosines[cosines.len() / 2],
        rounding: is_rounding(&cosines),
        dimensions: width,
        worst: Worst { row, text, ids },
    })
}

/// Whether these cosines, in ascending order, are those of vectors that were computed in bfloat16. Vectors of one text in
/// two programs that both compute in single precision are closer than 1e-6. Another tokenizer changes few texts, and
/// another prompt, pooling or network all of them by far more.
fn is_rounding(cosines: &[f64]) -> bool {
    const FEW: usize = 3;
    const EQUAL: f64 = 2e-6;
    const MOST: f64 = 0.02;
    let distance = |at: usize| 1.0 - cosines[at];
    let Some(last) = cosines.len().checked_sub(1).filter(|last| *last + 1 >= FEW) else {
        return false;
    };
    // A text may be close by chance.
    let (near, middle, far) = (distance(last - last / 20), distance(last / 2), distance(0));
    near > EQUAL && far < MOST && far < 100.0 * middle
}

fn counts(strange: &impl Fn(String) -> Error, vectors: usize, texts: &str) -> Error {
    strange(format!(
        "holds {vectors} vectors, but there are {texts} texts"
    ))
    .with_remedy(format!(
        "name the texts that they were made of, in the same order, with {TEXTS}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(distances: &[f64]) -> bool {
        let mut cosines: Vec<f64> = distances.iter().map(|distance| 1.0 - distance).collect();
        cosines.sort_by(f64::total_cmp);
        is_rounding(&cosines)
    }

    #[test]
    fn rounding_is_told_from_other_tokens_and_other_networks() {
        // Measured on sentence-transformers' vectors in bfloat16: small and large networks.
        assert!(is(&[3.7e-5, 4.6e-5, 6.1e-5]));
        assert!(is(&[1.1e-5, 5.6e-5, 5.1e-4, 4e-5, 7e-5]));
        assert!(is(&[2e-4, 4.4e-4, 9e-4]));
        // Single precision, and one text with other tokens.
        assert!(!is(&[1e-8, 2e-7, -1e-9]));
        assert!(!is(&[1e-7, 1e-7, 1e-7, 0.004]));
        assert!(!is(&[1e-7, 1e-7, 0.3]));
        // Another prompt or pooling.
        assert!(!is(&[0.1, 0.2, 0.15]));
        assert!(!is(&[0.03, 0.01, 0.05]));
        // Too few to tell.
        assert!(!is(&[5e-5, 5e-5]) && !is(&[5e-5]) && !is(&[]));
    }
}
