//! Compares a model's vectors with the vectors of another program, usually sentence-transformers, for the same texts.

use serde::Serialize;

use super::agreement::{AgreementLimits, ComparedRows, Measure};
use super::reference_rows::ReferenceRows;
use crate::engine::Cosine;
use crate::error::{Error, Place, Result};
use crate::input::RecordReader;
use crate::record::Window;
use crate::setting::TEXTS;
use crate::storage::Readable;
use embedctl_engine::Embedder;
use embedctl_vectors::{RowForm, RowVector};

/// How two programs' vectors compare.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The kind whose vectors are not the same; the first where all are.
    #[serde(flatten)]
    pub first: KindComparison,
    /// Each kind, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<KindComparison>,
}

/// How two programs' vectors of one kind compare.
#[derive(Debug, Clone, Serialize)]
pub struct KindComparison {
    /// The kind: `dense`, `sparse`, `multi` or `scores`.
    pub kind: String,
    /// What decides whether they are the same.
    pub measure: Measure,
    /// Whether they are.
    pub same: bool,
    /// Least and mean cosine of the texts. Of vectors of tokens a text has its least one, and 0 if it has more or fewer of
    /// them.
    pub cosine: Cosine,
    /// The greatest difference between two numbers: of components, of scores, of entries over their union. Infinite (null in
    /// JSON) where a text has more or fewer vectors.
    pub apart: f32,
    /// The median of the cosines.
    pub median: f64,
    /// Whether the differences are those of another number type and not of single texts: every text differs, most of
    /// them by about as much, and none by more than rounding does.
    pub rounding: bool,
    /// Width of a vector; for sparse ones, the number of terms.
    pub dimensions: usize,
    /// The text whose vectors are the farthest from each other.
    pub worst: FarthestText,
}

/// The text whose vectors are the farthest from each other, by the measure of their kind.
#[derive(Debug, Clone, Serialize)]
pub struct FarthestText {
    /// Its number, counted from 1: the row of the vectors, and the record of the texts.
    pub row: usize,
    /// Its id.
    pub text: String,
    /// Its token ids, special tokens and prompt among them.
    pub ids: Vec<u32>,
    /// How many vectors its tokens have here and in the reference, where they are not as many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<[usize; 2]>,
}

/// Embeds the texts of `records` and compares each with its row of the vectors in `file`, every kind that the model was
/// opened for by its own [`Measure`]. The file is of a format that embedctl writes, `NumPy`'s among them; dense vectors may
/// be of any element type.
///
/// # Errors
/// If the texts or the file cannot be read, there is none, they are not as many as each other or not as wide as the
/// model's vectors, a record is bad, or the engine fails.
pub fn against(
    embedder: &mut Embedder,
    mut records: RecordReader,
    file: &Readable,
    limits: AgreementLimits,
) -> Result<Comparison> {
    let forms = embedder.model().config.forms();
    let compared = forms.all().iter().map(ComparedKind::new);
    let mut compared: Vec<ComparedKind> = compared.collect();
    let mut theirs = ReferenceRows::read(file, forms)?;
    let names = records.names();
    while let Some(window) = records.next_window()? {
        refuse_rejects(&window, &names)?;
        let texts: Vec<&str> = window.texts.iter().collect();
        let rows = embedder.embed_rows(&texts)?;
        for (text, ours) in texts.iter().zip(rows.iter()) {
            let Some(row) = theirs.next(ours) else {
                return Err(counts(file, &theirs, "more"));
            };
            for (compared, (ours, theirs)) in compared.iter_mut().zip(ours.parts().zip(row.parts()))
            {
                compared.add(text, ours, theirs);
            }
        }
    }
    if !theirs.is_over() {
        return Err(counts(file, &theirs, "fewer"));
    }
    let ended = compared.into_iter().map(|it| it.end(embedder, limits));
    let columns: Option<Vec<KindComparison>> = ended.collect();
    let columns = columns.ok_or_else(|| {
        let reason = "holds no vector, so there is nothing to compare";
        Error::input(Place::file(&file.name), reason).with_remedy(format!(
            "name a file with a vector for each text of {TEXTS}"
        ))
    })?;
    let first = columns.iter().find(|one| !one.same).unwrap_or(&columns[0]);
    Ok(Comparison {
        first: first.clone(),
        columns: match columns.len() {
            1 => Vec::new(),
            _ => columns,
        },
    })
}

/// A kind of the model's vectors, compared text by text.
struct ComparedKind {
    name: String,
    dimensions: usize,
    rows: ComparedRows,
    /// The farthest text, and its numbers of vectors where they differ.
    farthest: Option<(String, Option<[usize; 2]>)>,
}

impl ComparedKind {
    fn new(form: &RowForm) -> Self {
        Self {
            name: form.name().to_owned(),
            dimensions: form.width(),
            rows: ComparedRows::new(Measure::of(form)),
            farthest: None,
        }
    }

    fn add(&mut self, text: &str, ours: RowVector<'_>, theirs: RowVector<'_>) {
        if self.rows.add(ours, theirs) {
            let counts = ours.count().zip(theirs.count());
            let counts = counts.map(|(ours, theirs)| [ours, theirs]);
            let counts = counts.filter(|[ours, theirs]| ours != theirs);
            self.farthest = Some((text.to_owned(), counts));
        }
    }

    /// The result; `None` where nothing was compared.
    fn end(self, embedder: &Embedder, limits: AgreementLimits) -> Option<KindComparison> {
        let mut found = self.rows.end(limits)?;
        let (text, vectors) = self.farthest?;
        let ids = embedder.tokenize(&[&text].iter().collect()).get(0).to_vec();
        found.cosines.sort_by(f64::total_cmp);
        Some(KindComparison {
            kind: self.name,
            measure: found.measure,
            same: found.same,
            cosine: found.cosine,
            apart: found.apart,
            median: found.cosines[found.cosines.len() / 2],
            rounding: is_rounding(&found.cosines),
            dimensions: self.dimensions,
            worst: FarthestText {
                row: found.farthest + 1,
                text,
                ids,
                vectors,
            },
        })
    }
}

/// A record that is not embedded would leave its vector without a text.
fn refuse_rejects(window: &Window, names: &[String]) -> Result<()> {
    let Some(reject) = window.rejects().next() else {
        return Ok(());
    };
    let origin = reject.origin;
    let place = Place::file(names[origin.source as usize].clone()).line(origin.line);
    Err(Error::input(place, reject.cause.clone()))
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

fn counts(file: &Readable, theirs: &ReferenceRows, texts: &str) -> Error {
    let reason = format!("holds {}, but there are {texts} texts", theirs.count());
    Error::input(Place::file(&file.name), reason).with_remedy(format!(
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
