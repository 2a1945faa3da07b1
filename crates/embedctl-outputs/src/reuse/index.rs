//! Where the texts of an earlier output are: 20 bytes for each of its rows.

use crate::error::{Error, Result};
use crate::setting::REUSE;
use embedctl_records::marks::TextHash;

/// Hashes of texts, sorted, each with a row that holds its text.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<IndexEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct IndexEntry {
    hash: TextHash,
    row: u32,
}

impl Index {
    /// Adds the text of row `row`.
    ///
    /// # Errors
    /// If there are more rows than are counted.
    pub(super) fn add(&mut self, hash: TextHash, row: u64) -> Result<()> {
        let row = u32::try_from(row).map_err(|_| {
            Error::usage(format!(
                "{REUSE}: an output of more than 2^32 rows is not looked up"
            ))
        })?;
        // The hash of no text at all.
        if hash != TextHash::default() {
            self.entries.push(IndexEntry { hash, row });
        }
        Ok(())
    }

    /// Makes it ready to be asked.
    pub(super) fn sort(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup_by_key(|entry| entry.hash);
    }

    /// The first row of the text with that hash.
    pub(super) fn find(&self, hash: &TextHash) -> Option<u64> {
        let found = self.entries.binary_search_by_key(hash, |entry| entry.hash);
        found.ok().map(|at| u64::from(self.entries[at].row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_of_a_text_is_found() {
        let mut index = Index::default();
        for (row, byte) in [7, 3, 7, 0, 5].into_iter().enumerate() {
            index.add([byte; 16], row as u64).unwrap();
        }
        index.sort();
        let found = [3, 5, 7, 0, 9].map(|byte| index.find(&[byte; 16]));
        assert_eq!(found, [Some(1), Some(4), Some(0), None, None]);
        assert!(index.add([1; 16], 1 << 32).is_err());
        assert_eq!(size_of::<IndexEntry>(), 20);
    }
}
