//! Forms of an output that are made of its float vectors: in another type, or cut to fewer components.

use std::fmt;
use std::str::FromStr;

use embedctl_records::quantize::{Dtype, Ranges};
use embedctl_vectors::Numbers;

use super::decoder::Decoder;
use crate::error::{Error, Result};

/// A form: its width, where vectors are cut, and its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DerivedForm {
    /// Components that are kept; `None`: all.
    pub dimensions: Option<usize>,
    /// The type of a component.
    pub dtype: Dtype,
}

impl fmt::Display for DerivedForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.dimensions, self.dtype) {
            (Some(width), Dtype::F32) => write!(f, "{width}d"),
            (Some(width), dtype) => write!(f, "{width}d+{dtype}"),
            (None, dtype) => write!(f, "{dtype}"),
        }
    }
}

impl FromStr for DerivedForm {
    type Err = String;

    /// `int8`, `256d`, `256d+ubinary`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (width, dtype) = match text.split_once('+') {
            Some((width, dtype)) => (Some(width), Some(dtype)),
            None if text.starts_with(|first: char| first.is_ascii_digit()) => (Some(text), None),
            None => (None, Some(text)),
        };
        let dimensions = width.map(|text| {
            let number = text.strip_suffix('d').unwrap_or(text).parse::<usize>();
            (number.ok().filter(|width| *width > 0))
                .ok_or_else(|| format!("{text:?} is no width; write it as 256d"))
        });
        let dtype = dtype.map(|name| name.parse::<Dtype>().map_err(|cause| cause.to_string()));
        let dtype = dtype.transpose()?;
        Ok(Self {
            dimensions: dimensions.transpose()?,
            dtype: dtype.unwrap_or_default(),
        })
    }
}

impl DerivedForm {
    /// Refuses a form that is wider than the vectors.
    ///
    /// # Errors
    /// If it is.
    pub(super) fn check(&self, width: usize) -> Result<()> {
        match self.dimensions {
            Some(own) if own > width => Err(Error::usage(format!(
                "{self}: the vectors have {width} components, so they cannot be cut to {own}"
            ))
            .with_remedy("choose a smaller width")),
            _ => Ok(()),
        }
    }

    /// What makes vectors of this form.
    pub(super) fn maker(&self, width: usize, normalize: bool, ranges: Option<Ranges>) -> FormMaker {
        FormMaker {
            width,
            normalize,
            dtype: self.dtype,
            ranges,
        }
    }
}

/// Makes vectors of a form out of float vectors.
pub(super) struct FormMaker {
    width: usize,
    /// Whether cut vectors get length 1 again, as the whole ones have.
    normalize: bool,
    dtype: Dtype,
    ranges: Option<Ranges>,
}

impl FormMaker {
    /// How its elements become numbers.
    pub fn decoder(&self) -> Decoder {
        match (self.dtype, &self.ranges) {
            (Dtype::Binary | Dtype::Ubinary, _) => Decoder::Bits {
                dimensions: self.width,
            },
            (Dtype::Int8 | Dtype::Uint8, Some(ranges)) => {
                Decoder::steps(&ranges.min, ranges.max.clone())
            }
            _ => Decoder::Floats,
        }
    }

    /// The stored elements of a vector, those of bytes from 0 on.
    pub fn make(&self, numbers: &[f32], stored: &mut Vec<f32>) {
        first_components(numbers, self.width, self.normalize, stored);
        // Bytes from 0 on are what the decoder reads.
        let dtype = match self.dtype {
            Dtype::Int8 => Dtype::Uint8,
            Dtype::Binary => Dtype::Ubinary,
            dtype => dtype,
        };
        dtype.round_trip(stored, self.ranges.as_ref());
    }

    /// These vectors as a reader of this form has them.
    pub fn made(&self, vectors: &Numbers) -> Numbers {
        let decoder = self.decoder();
        let (mut stored, mut numbers) = (Vec::new(), Vec::new());
        for row in vectors.iter() {
            self.make(row.values(), &mut stored);
            decoder.decode(&stored, &mut numbers);
        }
        Numbers::in_full(self.width, numbers)
    }
}

/// The first `width` components, of length 1 again if that is asked for.
pub(super) fn first_components(numbers: &[f32], width: usize, normalize: bool, out: &mut Vec<f32>) {
    out.clear();
    out.extend_from_slice(&numbers[..width.min(numbers.len())]);
    if normalize && width < numbers.len() {
        let length = out.iter().map(|it| it * it).sum::<f32>().sqrt();
        if length > 0.0 {
            out.iter_mut().for_each(|it| *it /= length);
        }
    }
}

/// Vectors of which a row has one, cut to `width`; others as they are.
pub(super) fn cut(vectors: &Numbers, width: Option<usize>) -> Numbers {
    match (vectors.row_len(), width) {
        (Some(own), Some(width)) if width < own => {
            let rows = vectors.values().chunks_exact(own);
            let cut = rows.flat_map(|row| row[..width].iter().copied());
            Numbers::in_full(width, cut.collect())
        }
        _ => vectors.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_it_is_shown() {
        for name in ["int8", "f16", "ubinary", "256d", "64d+binary"] {
            assert_eq!(name.parse::<DerivedForm>().unwrap().to_string(), name);
        }
        assert_eq!("256".parse::<DerivedForm>().unwrap().to_string(), "256d");
        for name in ["", "0d", "256d+", "int9", "d", "256d+int8+f16"] {
            assert!(name.parse::<DerivedForm>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_cut_vector_has_length_1_again_and_its_elements_are_those_of_a_file() {
        let form: DerivedForm = "2d+uint8".parse().unwrap();
        let mut ranges = Ranges::new(2);
        ranges.add(&[0.0, 0.0]);
        // No component lies on a bound between two steps: 0.8 / (1 / 255) is 203 or 204 by rounding.
        ranges.add(&[1.1, 1.1]);
        let maker = form.maker(2, true, Some(ranges));
        let mut stored = Vec::new();
        maker.make(&[3.0, 4.0, 12.0], &mut stored);
        assert_eq!(stored, [139.0, 185.0]);
        let bits: DerivedForm = "binary".parse().unwrap();
        bits.maker(3, false, None)
            .make(&[1.0, -1.0, 0.5], &mut stored);
        assert_eq!(stored, [160.0]);
    }
}
