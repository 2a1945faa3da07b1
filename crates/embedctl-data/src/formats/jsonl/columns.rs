//! The fields of vectors in a line.

use crate::json_values as json;
use crate::record::Rows;
use crate::writing::encoding::{EncodedVectors, VectorEncoding, taken};
use crate::writing::quantize::Elements;
use crate::writing::sparse::SparseColumn;
use embedctl_common::error::Result;
use embedctl_common::vectors::Numbers;

/// Vectors of one kind, ready to be written row by row.
pub(super) enum JsonVectors {
    /// In full.
    Full {
        /// Each field's name, the width of its vectors, and their elements.
        fields: Vec<(Vec<u8>, usize, Elements)>,
        /// Whether a row has one number, which is no list.
        is_single: bool,
        /// How many vectors each row has, where that is any number.
        counts: Option<Vec<usize>>,
        /// The first vector of the next row, where they are counted.
        next: usize,
    },
    /// Those entries that are not zero.
    Entries {
        key: Vec<u8>,
        form: SparseColumn,
        rows: Numbers,
    },
}

/// Begins the next field of a line's object: its first, or one more.
pub(super) fn begin_field(key: &[u8], out: &mut Vec<u8>) {
    separate(out);
    out.extend_from_slice(key);
}

/// The comma between two fields, unless the object has none so far.
pub(super) fn separate(out: &mut Vec<u8>) {
    if out.last().is_some_and(|last| *last != b'{') {
        out.push(b',');
    }
}

impl JsonVectors {
    /// Takes the vectors of some rows.
    ///
    /// # Errors
    /// If a value is beyond its type.
    pub(super) fn of(encoding: &VectorEncoding, rows: &mut Rows) -> Result<Self> {
        let columns = encoding.columns();
        if let Some(form) = encoding.sparse() {
            return Ok(Self::Entries {
                key: json::key(&columns[0].name),
                form,
                rows: taken(rows)?,
            });
        }
        let EncodedVectors {
            columns: encoded,
            counts,
        } = encoding.encode(rows)?;
        let fields = columns.iter().zip(encoded);
        let fields =
            fields.map(|(column, elements)| (json::key(&column.name), column.width, elements));
        Ok(Self::Full {
            fields: fields.collect(),
            is_single: encoding.is_single(),
            counts,
            next: 0,
        })
    }

    /// Appends the fields of the next row, whose number is `row`.
    ///
    /// # Errors
    /// If a term is unknown.
    pub(super) fn write(&mut self, row: usize, is_missing: bool, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Full {
                fields,
                is_single,
                counts,
                next,
            } => {
                let own = counts.as_ref().map(|counts| *next..*next + counts[row]);
                *next = own.as_ref().map_or(0, |own| own.end);
                for (key, width, elements) in fields {
                    begin_field(key, out);
                    match &own {
                        _ if is_missing => out.extend_from_slice(b"null"),
                        Some(own) => push_vectors(elements, own.clone(), *width, out),
                        None if *is_single => elements.push_number(row, out),
                        None => elements.push_json(row, *width, out),
                    }
                }
            }
            Self::Entries { key, form, rows } => {
                begin_field(key, out);
                match is_missing {
                    true => out.extend_from_slice(b"null"),
                    false => form.push_json(rows.get(row), out)?,
                }
            }
        }
        Ok(())
    }
}

/// A list of vectors, those of the places `own`.
fn push_vectors(elements: &Elements, own: std::ops::Range<usize>, width: usize, out: &mut Vec<u8>) {
    out.push(b'[');
    for (place, vector) in own.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        elements.push_json(vector, width, out);
    }
    out.push(b']');
}
