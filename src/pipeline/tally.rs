//! Records that are embedded and may not be meant so: empty texts, and ids that are all null.

use super::fault::record_place;
use crate::error::Place;
use crate::input::InputOptions;
use crate::record::{SourceNames, Texts, Window};
use crate::setting::ID_FIELD;
use arrow::array::Array;

/// Counts of such records in the windows that were read.
#[derive(Debug, Default)]
pub(super) struct RecordTally {
    records: u64,
    /// Records with an id.
    with_id: u64,
    /// Whether the input has the field of ids.
    has_id_field: bool,
    /// Texts of nothing but white space.
    pub(super) empty: u64,
    first_empty: Option<Place>,
}

impl RecordTally {
    /// Counts the records of a window with these texts.
    pub(super) fn add(&mut self, window: &Window, texts: &Texts, names: &SourceNames) {
        for (text, origin) in texts.iter().zip(&window.origins) {
            if text.trim_ascii().is_empty() {
                self.empty += 1;
                self.first_empty
                    .get_or_insert_with(|| record_place(names, origin));
            }
        }
        self.has_id_field |= window.has_id_field;
        self.records += texts.len() as u64;
        let ids = window.columns.columns().first();
        self.with_id += ids.map_or(0, |ids| (ids.len() - ids.null_count()) as u64);
    }

    /// Notes for the user about them.
    pub(super) fn notes(&self, input: &InputOptions) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(place) = &self.first_empty {
            let texts = match self.empty {
                1 => "1 text is".to_owned(),
                count => format!("{count} texts are"),
            };
            notes.push(format!(
                "{texts} empty and embedded like any other (the first is {place})"
            ));
        }
        // A batch that is answered as it came has no ids of its own.
        let field = input.id_field.as_ref().filter(|_| !input.window_per_batch);
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
        notes
    }
}
