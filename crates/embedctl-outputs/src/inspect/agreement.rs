//! How near two vectors of a row are, and the rule by which those of each kind count as the same.

use serde::Serialize;

use crate::engine::Cosine;
use embedctl_vectors::{RowForm, RowVector};

/// Least cosine of vectors that were made again by the same model; less for those that were computed in 8 bits.
const LEAST_AGAIN: f64 = 0.999;
const LEAST_AGAIN_INT8: f64 = 0.99;

/// Least cosine to another program's vectors, where both compute in single precision: larger differences are not rounding.
const LEAST_OF_REFERENCE: f64 = 0.9999;

/// The measure that decides whether vectors of a kind are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The least cosine: of dense vectors, and of the vectors of tokens.
    LeastCosine,
    /// The greatest difference of two numbers: of scores, and of sparse vectors over the union of their entries. A cosine
    /// hides an entry that is small beside the others, and of a single number it tells the sign alone.
    GreatestDifference,
}

impl Measure {
    /// That of numbers of this form.
    pub(crate) fn of(form: &RowForm) -> Self {
        match form.has_direction() {
            true => Self::LeastCosine,
            false => Self::GreatestDifference,
        }
    }
}

/// How far vectors may be from each other that count as the same.
#[derive(Debug, Clone, Copy)]
pub struct AgreementLimits {
    /// The least cosine.
    pub least_cosine: f64,
    /// The greatest difference.
    pub most_apart: f32,
}

impl AgreementLimits {
    /// Of vectors that the same model gives again in this precision.
    pub(crate) fn again(precision: Option<&str>) -> Self {
        Self {
            least_cosine: match precision {
                Some("int8") => LEAST_AGAIN_INT8,
                _ => LEAST_AGAIN,
            },
            most_apart: most_apart(precision),
        }
    }

    /// Of another program's vectors, where the model computes in this precision. `reduced` is the least cosine that is
    /// accepted of a precision below the single one.
    #[must_use]
    pub fn of_reference(precision: Option<&str>, reduced: f64) -> Self {
        Self {
            least_cosine: match precision {
                None | Some("fp32") => LEAST_OF_REFERENCE,
                Some(_) => reduced,
            },
            most_apart: most_apart(precision),
        }
    }

    /// Whether vectors that are as far apart count as the same.
    pub(crate) fn allow(self, measure: Measure, least_cosine: f64, apart: f32) -> bool {
        match measure {
            Measure::LeastCosine => least_cosine >= self.least_cosine,
            Measure::GreatestDifference => apart <= self.most_apart,
        }
    }
}

/// How far a score or an entry may be from the other.
fn most_apart(precision: Option<&str>) -> f32 {
    match precision {
        Some("int8" | "bf16") => 0.1,
        Some("int16") => 0.01,
        _ => 1e-3,
    }
}

/// How near two vectors of one kind are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Nearness {
    /// The cosine; of vectors of tokens the least; 0 where there are more of them on one side.
    pub cosine: f64,
    /// The greatest difference; infinite where a number is NaN, or there are more vectors on one side.
    pub apart: f32,
}

impl Nearness {
    /// That of two vectors. Of vectors in full as many components count as the shorter one has: one may have been cut.
    pub fn between(old: RowVector<'_>, new: RowVector<'_>) -> Self {
        let Some(vectors) = old.aligned(new) else {
            return Self {
                cosine: 0.0,
                apart: f32::INFINITY,
            };
        };
        let cosines = vectors.iter().map(|(old, new)| Cosine::between(old, new));
        let numbers = vectors
            .iter()
            .flat_map(|(old, new)| old.iter().zip(new.iter()));
        Self {
            cosine: cosines.fold(1.0, least),
            apart: greatest_difference(numbers.map(|(old, new)| (*old, *new))),
        }
    }

    /// How far they are from each other by a measure; more is farther.
    pub fn distance(self, measure: Measure) -> f64 {
        match measure {
            Measure::LeastCosine if self.cosine.is_nan() => f64::INFINITY,
            Measure::LeastCosine => 1.0 - self.cosine,
            Measure::GreatestDifference => f64::from(self.apart),
        }
    }
}

/// Rows of one kind, compared one after another.
pub(crate) struct ComparedRows {
    measure: Measure,
    /// Of each row.
    cosines: Vec<f64>,
    /// The greatest difference of all rows.
    apart: f32,
    /// The farthest row: its distance, and its place among them.
    farthest: Option<(f64, usize)>,
}

impl ComparedRows {
    /// None yet.
    pub fn new(measure: Measure) -> Self {
        Self {
            measure,
            cosines: Vec::new(),
            apart: 0.0,
            farthest: None,
        }
    }

    /// Adds a row; whether its vectors are farther from each other than those of all rows before.
    pub fn add(&mut self, old: RowVector<'_>, new: RowVector<'_>) -> bool {
        let near = Nearness::between(old, new);
        let distance = near.distance(self.measure);
        let is_farthest = self.farthest.is_none_or(|(most, _)| distance > most);
        if is_farthest {
            self.farthest = Some((distance, self.cosines.len()));
        }
        self.cosines.push(near.cosine);
        self.apart = self.apart.max(near.apart);
        is_farthest
    }

    /// The result; `None` without a row.
    pub fn end(self, limits: AgreementLimits) -> Option<RowsAgreement> {
        let cosine = Cosine::of(self.cosines.iter().copied())?;
        let (_, farthest) = self.farthest?;
        Some(RowsAgreement {
            measure: self.measure,
            same: limits.allow(self.measure, cosine.least, self.apart),
            cosine,
            apart: self.apart,
            farthest,
            cosines: self.cosines,
        })
    }
}

/// How near rows of one kind are.
pub(crate) struct RowsAgreement {
    pub measure: Measure,
    /// Whether all of them count as the same.
    pub same: bool,
    /// Least and mean cosine of the rows.
    pub cosine: Cosine,
    /// The greatest difference of two numbers.
    pub apart: f32,
    /// The place of the farthest row, the first of those that are equally far.
    pub farthest: usize,
    /// Of each row.
    pub cosines: Vec<f64>,
}

fn greatest_difference(pairs: impl Iterator<Item = (f32, f32)>) -> f32 {
    let finite = |it: f32| if it.is_nan() { f32::INFINITY } else { it };
    let apart = pairs.map(|(old, new)| finite((old - new).abs()));
    apart.fold(0.0, f32::max)
}

/// The lesser; NaN where one is.
fn least(one: f64, other: f64) -> f64 {
    if one.is_nan() || one <= other {
        one
    } else {
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_a_cosine_hides_is_a_difference() {
        let near = Nearness::between(
            RowVector::of_entries(&[3, 9], &[2.0, 0.01]),
            RowVector::of_entries(&[3, 9], &[2.0, 0.02]),
        );
        assert!(near.cosine > 0.9999 && (near.apart - 0.01).abs() < 1e-6);
        // An entry that one side lacks counts as well.
        let near = Nearness::between(
            RowVector::of_entries(&[3], &[2.0]),
            RowVector::of_entries(&[3, 9], &[2.0, 0.5]),
        );
        assert_eq!(near.apart, 0.5);
        let limits = AgreementLimits::of_reference(None, 0.0);
        assert!(!limits.allow(Measure::GreatestDifference, near.cosine, near.apart));
    }

    #[test]
    fn other_numbers_of_vectors_are_as_far_apart_as_can_be() {
        let multi = |values| RowVector::of_vectors(2, values);
        let two = multi(&[1.0, 0.0, 0.0, 1.0]);
        let same = Nearness::between(two, two);
        assert_eq!((same.cosine, same.apart), (1.0, 0.0));
        let other = Nearness::between(two, multi(&[1.0, 0.0]));
        assert_eq!((other.cosine, other.apart), (0.0, f32::INFINITY));
    }

    #[test]
    fn nan_is_no_agreement() {
        let near = Nearness::between(
            RowVector::of_vector(&[1.0, f32::NAN]),
            RowVector::of_vector(&[1.0, 0.0]),
        );
        for measure in [Measure::LeastCosine, Measure::GreatestDifference] {
            assert_eq!(near.distance(measure), f64::INFINITY);
            assert!(!AgreementLimits::again(None).allow(measure, near.cosine, near.apart));
        }
    }

    #[test]
    fn lower_precision_is_given_more() {
        let of = |precision| {
            let limits = AgreementLimits::of_reference(precision, 0.99);
            (limits.least_cosine, limits.most_apart)
        };
        assert_eq!(of(None), (0.9999, 1e-3));
        assert_eq!(of(Some("fp32")), (0.9999, 1e-3));
        assert_eq!(of(Some("int16")), (0.99, 0.01));
        assert_eq!(of(Some("int8")), (0.99, 0.1));
        let again = AgreementLimits::again(Some("int8"));
        assert_eq!((again.least_cosine, again.most_apart), (0.99, 0.1));
        assert_eq!(AgreementLimits::again(None).least_cosine, 0.999);
    }
}
