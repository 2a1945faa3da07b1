//! Vectors of chosen rows: the interface of the formats that can do without the rows between.

use std::ops::Range;
use std::path::Path;

use super::unreadable;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::EMBEDDING_FIELD;
use embedctl_records::vectors::TakeRow;
use embedctl_vectors::Forms;

/// How a format reads vectors by the numbers of their rows.
pub(crate) trait ChosenRows: Send {
    /// How many rows there are.
    fn rows(&self) -> u64;

    /// Hands over the vectors of these rows, which ascend, each with the index of its row among them. A row without a
    /// vector is passed over.
    fn read(&mut self, rows: &[u64], take: &mut TakeRow<'_>) -> Result<()>;
}

/// Consecutive rows together.
pub(crate) fn runs(rows: &[u64]) -> impl Iterator<Item = Range<u64>> {
    (rows.chunk_by(|one, next| one + 1 == *next)).map(|run| run[0]..run[0] + run.len() as u64)
}

/// The error for a file without such vectors.
pub(crate) fn no_such_vectors(path: &Path, wanted: &Forms) -> Error {
    let wanted = wanted.columns().map(|(form, name, width)| {
        let about = form.qualifier();
        format!("`{name}` {about}of {width} numbers")
    });
    let wanted: Vec<String> = wanted.collect();
    unreadable(path, format!("holds no vectors {}", wanted.join(", ")))
        .with_remedy(format!("name their column as it was ({EMBEDDING_FIELD})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_one_another_are_read_together() {
        let found: Vec<_> = runs(&[0, 1, 2, 5, 7, 8]).collect();
        assert_eq!(found, [0..3, 5..6, 7..9]);
        assert_eq!(runs(&[]).count(), 0);
    }
}
