//! The fields of vectors in a line.

use crate::json_values as json;
use crate::record::Rows;
use crate::writing::encoding::VectorEncoding;
use crate::writing::quantize::Elements;
use crate::writing::sparse::SparseColumn;
use embedctl_common::error::Result;
use embedctl_common::vectors::SparseRows;

/// Vectors of one kind, ready to be written row by row.
pub(super) enum JsonVectors {
    /// In full: each field's name, the width of its vectors, and their elements.
    Dense {
        fields: Vec<(Vec<u8>, usize, Elements)>,
        /// Whether a row has one number, which is no list.
        is_single: bool,
    },
    /// Sparse.
    Sparse {
        key: Vec<u8>,
        form: SparseColumn,
        entries: SparseRows,
    },
    /// A vector for each token.
    Tokens {
        key: Vec<u8>,
        width: usize,
        elements: Elements,
        lengths: Vec<usize>,
        /// The first vector of the next row.
        next: usize,
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
            return Ok(Self::Sparse {
                key: json::key(&columns[0].name),
                form,
                entries: encoding.entries(rows)?,
            });
        }
        if encoding.has_lengths() {
            let (elements, lengths) = encoding.encode_tokens(rows)?;
            return Ok(Self::Tokens {
                key: json::key(&columns[0].name),
                width: columns[0].width,
                elements,
                lengths,
                next: 0,
            });
        }
        let encoded = columns.iter().zip(encoding.encode(rows)?);
        let fields =
            encoded.map(|(column, elements)| (json::key(&column.name), column.width, elements));
        Ok(Self::Dense {
            fields: fields.collect(),
            is_single: encoding.is_single(),
        })
    }

    /// Appends the fields of the next row, whose number is `row`.
    ///
    /// # Errors
    /// If a term is unknown.
    pub(super) fn write(&mut self, row: usize, is_missing: bool, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Dense { fields, is_single } => {
                for (key, width, elements) in fields {
                    begin_field(key, out);
                    match is_missing {
                        true => out.extend_from_slice(b"null"),
                        false if *is_single => elements.push_number(row, out),
                        false => elements.push_json(row, *width, out),
                    }
                }
            }
            Self::Sparse { key, form, entries } => {
                begin_field(key, out);
                match is_missing {
                    true => out.extend_from_slice(b"null"),
                    false => form.push_json(entries.get(row), out)?,
                }
            }
            Self::Tokens {
                key,
                width,
                elements,
                lengths,
                next,
            } => {
                begin_field(key, out);
                let own = *next..*next + lengths[row];
                *next = own.end;
                match is_missing {
                    true => out.extend_from_slice(b"null"),
                    false => push_vectors(elements, own, *width, out),
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
