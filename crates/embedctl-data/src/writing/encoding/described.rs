//! What a run's provenance says of the form of its vectors.

use serde_json::{Map, Value, json};

use super::VectorEncoding;
use crate::writing::forms;

/// Key of a provenance that names the columns of vectors, by which they are told from lists that were kept.
pub(crate) const VECTOR_COLUMNS: &str = "vector_columns";

/// Key of a provenance with how the other kinds of vectors that a row has were written.
pub(crate) const BESIDE: &str = "vectors_beside";

impl VectorEncoding {
    /// Adds to a run's provenance how its vectors were written.
    pub fn describe(&self, provenance: &mut Map<String, Value>) {
        provenance.insert("dtype".to_owned(), self.dtype.name().into());
        forms::describe(&self.form, provenance);
        let names = self.columns.iter().map(|column| column.name.as_str());
        provenance.insert(VECTOR_COLUMNS.to_owned(), names.collect());
        let columns = self.columns.iter();
        let ranges = columns.filter_map(|it| Some((it.name.clone(), it.ranges.as_ref()?)));
        let ranges: Map<String, Value> = ranges.map(|(name, it)| (name, json!(it))).collect();
        if !ranges.is_empty() {
            provenance.insert("calibration".to_owned(), json!({"ranges": ranges}));
        }
        if !self.beside.is_empty() {
            let beside = self.beside.iter().map(|kind| {
                let mut own = Map::new();
                kind.describe(&mut own);
                let width = kind
                    .columns
                    .iter()
                    .map(|column| column.dimensions)
                    .sum::<usize>();
                own.insert("dimensions".to_owned(), width.into());
                Value::Object(own)
            });
            provenance.insert(BESIDE.to_owned(), beside.collect());
        }
    }
}
