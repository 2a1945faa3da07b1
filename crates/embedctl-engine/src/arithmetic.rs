//! The number format in which an engine computes, and its cost: the cosines between vectors of a sample and the exact
//! ones.

use serde::{Deserialize, Serialize};

use embedctl_common::Arithmetic;
use embedctl_common::error::{Error, Result};
use embedctl_common::named::named;
use embedctl_common::setting::{MIN_COSINE, PRECISION};
use embedctl_model::Precision;

named! {
    /// The numbers that a graph computes in: IEEE single precision, IEEE half precision, or the upper half of single
    /// precision.
    pub enum FloatType("precision of a graph", "choose one of") {
        F32 = "fp32",
        F16 = "fp16",
        Bf16 = "bf16",
    }
}

impl FloatType {
    /// The numbers of a graph that is built for this precision; `None`: no graph is built for it.
    #[must_use]
    pub fn built(precision: Option<Precision>) -> Option<Self> {
        match precision {
            None | Some(Precision::Fp32) => Some(Self::F32),
            Some(Precision::Fp16) => Some(Self::F16),
            Some(Precision::Bf16) => Some(Self::Bf16),
            Some(_) => None,
        }
    }
}

/// How far vectors are from the exact ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cosine {
    /// The least cosine between a vector and the exact one.
    pub least: f64,
    /// The mean.
    pub mean: f64,
    /// How many texts were compared.
    pub texts: usize,
    /// Their lengths; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Lengths>,
}

/// Lengths of some texts, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    /// Of the shortest.
    pub least: usize,
    /// Of the longest.
    pub most: usize,
}

impl Lengths {
    /// Of these lengths; `None` if there are none.
    #[must_use]
    pub fn of(lengths: impl IntoIterator<Item = usize>) -> Option<Self> {
        let one = |length| Self {
            least: length,
            most: length,
        };
        lengths.into_iter().map(one).reduce(Self::join)
    }

    fn of_both(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        a.into_iter().chain(b).reduce(Self::join)
    }

    fn join(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }
}

impl Cosine {
    /// The cosine of two vectors; 1 where both are zero, 0 where one is.
    #[must_use]
    pub fn between(a: &[f32], b: &[f32]) -> f64 {
        let product = |a: &[f32], b: &[f32]| -> f64 {
            let pairs = a.iter().zip(b);
            pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let (aa, bb) = (product(a, a), product(b, b));
        match (aa * bb).sqrt() {
            0.0 => f64::from(u8::from(aa == bb)),
            norms => product(a, b) / norms,
        }
    }

    /// Of these cosines; `None` if there are none. NaN counts as 0.
    #[must_use]
    pub fn of(cosines: impl IntoIterator<Item = f64>) -> Option<Self> {
        let one = |cosine: f64| {
            let cosine = if cosine.is_nan() { 0.0 } else { cosine };
            Self {
                least: cosine,
                mean: cosine,
                texts: 1,
                tokens: None,
            }
        };
        cosines.into_iter().map(one).reduce(Self::join)
    }

    /// Of both samples together.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let texts = self.texts + other.texts;
        #[allow(clippy::cast_precision_loss)]
        let mean =
            (self.mean * self.texts as f64 + other.mean * other.texts as f64) / texts.max(1) as f64;
        Self {
            least: self.least.min(other.least),
            mean,
            texts,
            tokens: Lengths::of_both(self.tokens, other.tokens),
        }
    }

    /// The same of texts of these lengths.
    #[must_use]
    pub fn with_lengths(self, lengths: impl IntoIterator<Item = usize>) -> Self {
        Self {
            tokens: Lengths::of(lengths),
            ..self
        }
    }

    /// Refuses a least cosine below `min_cosine` or, by default, [`Arithmetic::least_cosine`].
    ///
    /// # Errors
    /// With the next better precision as the remedy.
    pub fn check(&self, arithmetic: Arithmetic, min_cosine: Option<f64>) -> Result<()> {
        let asked = min_cosine.unwrap_or(arithmetic.least_cosine());
        if self.least >= asked {
            return Ok(());
        }
        let better = match arithmetic {
            Arithmetic::Int8 => format!("{PRECISION} int16"),
            _ => format!("{PRECISION} fp32"),
        };
        let reason = format!(
            "with {PRECISION} {arithmetic} the least cosine to fp32 over {} texts is {:.5}, below {MIN_COSINE} {asked}",
            self.texts, self.least
        );
        Err(Error::engine("native", reason).with_remedy(format!("{better} is more exact")))
    }
}

/// The way from a row's token states to its vector.
#[derive(Clone, Copy)]
pub struct FinishRow<'a> {
    /// From token states `[tokens, width]` and their width to the finished vector.
    pub finish: &'a (dyn Fn(&[f32], usize) -> Vec<f32> + Sync),
    /// Tells ways apart: two of one digest make the same vector of the same states.
    pub digest: &'a str,
}

/// Texts by which an engine's reduced precision is measured: prose, questions, lists and code of several
/// lengths and languages.
pub fn sample() -> impl Iterator<Item = &'static str> {
    include_str!("sample.txt").lines()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_sixty_four_texts_or_more_and_no_blank_one() {
        assert!(sample().count() >= 64);
        assert!(sample().all(|text| !text.trim().is_empty()));
    }

    #[test]
    fn cosines_look_at_directions_alone() {
        assert!((Cosine::between(&[1.0, 2.0], &[2.0, 4.0]) - 1.0).abs() < 1e-12);
        assert!(Cosine::between(&[1.0, 0.0], &[0.0, 1.0]).abs() < 1e-12);
        assert!((Cosine::between(&[0.0], &[0.0]) - 1.0).abs() < 1e-12);
        assert!(Cosine::between(&[0.0], &[1.0]).abs() < 1e-12);
    }

    #[test]
    fn samples_join_and_nan_is_the_worst() {
        let first = Cosine::of([1.0, 0.5]).unwrap();
        let both = first.join(Cosine::of([f64::NAN]).unwrap());
        assert_eq!(
            both,
            Cosine {
                least: 0.0,
                mean: 0.5,
                texts: 3,
                tokens: None,
            }
        );
        assert_eq!(Cosine::of([]), None);
    }

    #[test]
    fn a_cosine_below_the_limit_names_the_next_better_precision() {
        let cosine = Cosine::of([0.995]).unwrap();
        assert!(cosine.check(Arithmetic::Int8, None).is_ok());
        let error = cosine.check(Arithmetic::Int8, Some(0.999)).unwrap_err();
        assert!(error.to_string().contains("precision int16"), "{error}");
        let error = cosine.check(Arithmetic::Int16, None).unwrap_err();
        assert!(error.to_string().contains("precision fp32"), "{error}");
    }
}
