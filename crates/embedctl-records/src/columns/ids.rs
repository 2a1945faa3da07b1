//! The column of ids: strings, or integers where all of the first ids are.

use super::InputColumns;
use crate::cells::{Basis, Builder, Cell};
use crate::fields::KeepType;
use arrow::array::AsArray;
use embedctl_common::setting::ID_TYPE;

/// What the ids of a window are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InferredIds {
    /// Integers of 64 bits.
    integers: usize,
    /// Anything else but null.
    others: usize,
}

impl InputColumns {
    /// Whether records of lines give integers as ids; otherwise strings.
    pub(crate) fn has_int_ids(&self) -> bool {
        matches!(self.id.kind, Some((KeepType::Int, _)))
    }

    /// Whether ids are strings because the user says so: then numbers of any kind are, as they are written.
    pub(crate) fn wants_text_ids(&self) -> bool {
        matches!(self.id.kind, Some((KeepType::String, Basis::Declared)))
    }

    /// Why ids are integers, if they are.
    pub(crate) fn reason_of_int_ids(&self) -> String {
        match self.id.kind {
            Some((_, Basis::Declared)) => format!("ids are integers here (`{ID_TYPE}`)"),
            _ => "the ids before it are integers".to_owned(),
        }
    }

    /// Appends an id. While ids decide their column's type, integers are gathered as their digits.
    pub(super) fn push_id(&mut self, id: &Cell<'_>) {
        let Some(inferred) = &mut self.inferred else {
            return self.id.builder.push(id);
        };
        match id {
            Cell::Int(number) => {
                inferred.integers += 1;
                let digits = Cell::String(number.to_string().into());
                self.id.builder.push(&digits);
            }
            id => {
                inferred.others += usize::from(*id != Cell::Null);
                self.id.builder.push(id);
            }
        }
    }

    /// Makes the column of ids one of integers, if all of the first window are.
    pub(super) fn decide_ids(&mut self) {
        let are_integers = |ids: &InferredIds| ids.others == 0 && ids.integers > 0;
        if self.inferred.take().filter(are_integers).is_none() {
            return;
        }
        let digits = self.id.builder.finish();
        let digits = digits.as_string::<i32>();
        let mut integers = Builder::new(Some(KeepType::Int));
        for id in digits {
            let integer = id.and_then(|digits| digits.parse().ok());
            integers.push(&integer.map_or(Cell::Null, Cell::Int));
        }
        self.id.kind = Some((KeepType::Int, Basis::Values));
        self.id.builder = integers;
        self.renew();
    }
}
