//! Counts of what a run embedded and may not be meant so: empty texts, ids that are all null, cut texts, vectors of zeros.

use super::CutTokens;
use crate::error::Place;
use crate::record::{Origin, RowParts, SourceNames, Texts, Window};
use crate::setting::ID_FIELD;
use arrow::array::Array;
use embedctl_records::options::InputOptions;

/// Counts over the windows that were read.
#[derive(Debug, Default)]
pub(super) struct RunTally {
    records: u64,
    /// Records with an id.
    with_id: u64,
    /// Whether the input has the field of ids.
    has_id_field: bool,
    /// Texts of nothing but white space.
    pub(super) empty: PlacedCount,
    /// Vectors of zeros alone.
    zero: PlacedCount,
    /// Texts without any token.
    pub(super) without_tokens: u64,
    /// Tokens that were cut off.
    pub(super) cut: CutTokens,
}

/// A count, with the place of the first.
#[derive(Debug, Default)]
pub(super) struct PlacedCount {
    pub(super) count: u64,
    first: Option<Place>,
}

impl PlacedCount {
    fn add(&mut self, origin: Origin, names: &SourceNames) {
        self.count += 1;
        self.first.get_or_insert_with(|| origin.place(names));
    }

    /// A note: `one` or `several` with their number, and the first place; `None` if there are none.
    fn note(&self, one: &str, several: &str) -> Option<String> {
        let place = self.first.as_ref()?;
        let what = match self.count {
            1 => format!("1 {one}"),
            count => format!("{count} {several}"),
        };
        Some(format!("{what} (the first is {place})"))
    }
}

impl RunTally {
    /// Counts the records of a window with these texts.
    pub(super) fn add(&mut self, window: &Window, texts: &Texts, names: &SourceNames) {
        for (text, origin) in texts.iter().zip(window.origins()) {
            if text.trim_ascii().is_empty() {
                self.empty.add(origin, names);
            }
        }
        self.has_id_field |= window.has_id_field;
        self.records += texts.len() as u64;
        let ids = window.columns.columns().first();
        self.with_id += ids.map_or(0, |ids| (ids.len() - ids.null_count()) as u64);
    }

    /// Counts the vector of a row.
    pub(super) fn add_vector(&mut self, vector: RowParts<'_>, origin: Origin, names: &SourceNames) {
        let mut values = vector.values().flatten();
        if values.all(|&value| value == 0.0) {
            self.zero.add(origin, names);
        }
    }

    /// Notes for the user about them; `scores`: rows have scores, which may well be zero.
    pub(super) fn notes(&self, input: &InputOptions, scores: bool) -> Vec<String> {
        let empty = self.empty.note(
            "text is empty and embedded like any other",
            "texts are empty and embedded like any other",
        );
        let zero = self.zero.note(
            "vector is all zeros and has no cosine with any other",
            "vectors are all zeros and have no cosine with any other",
        );
        let mut notes = Vec::from_iter(empty);
        notes.extend(zero.filter(|_| !scores));
        // A batch that is answered as it came has no ids of its own.
        let field = input
            .id_field
            .as_ref()
            .filter(|_| !input.batches.are_whole());
        if let Some(field) = field
            && self.records > 0
            && self.with_id == 0
            && self.has_id_field
        {
            notes.push(format!(
                "all ids are null: no record has a value in `{field}`; name the field that holds ids with \
                 `{ID_FIELD}`, or leave the column out with `{ID_FIELD} none`"
            ));
        }
        if self.without_tokens > 0 {
            notes.push(format!(
                "{} no tokens; {} pooling an empty sequence",
                match self.without_tokens {
                    1 => "1 text has".to_owned(),
                    texts => format!("{texts} texts have"),
                },
                match self.without_tokens {
                    1 => "its vector comes from",
                    _ => "their vectors come from",
                }
            ));
        }
        notes
    }
}
