//! A column of vectors.

use embedctl_records::quantize::{Dtype, Elements, Ranges};

/// A column of vectors.
#[derive(Debug)]
pub(crate) struct VectorColumn {
    /// Its name, where the format has names.
    pub name: String,
    /// Components of a vector.
    pub dimensions: usize,
    /// Elements of a vector as it is written.
    pub width: usize,
    pub(super) ranges: Option<Ranges>,
}

impl VectorColumn {
    pub(super) fn elements(&self, values: Vec<f32>, dtype: Dtype) -> Elements {
        Elements::new(values, self.dimensions, dtype, self.ranges.as_ref())
    }
}
