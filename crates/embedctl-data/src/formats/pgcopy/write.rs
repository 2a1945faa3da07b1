//! PostgreSQL's `COPY … FROM … WITH (FORMAT binary)`: `id`, the kept fields, and the vectors in pgvector's types.
//!
//! The layout is that of PostgreSQL's documentation ("Binary Format" under COPY) and of pgvector's `recv`
//! functions: a `vector` is int16 components, int16 zero, float32 each; a `halfvec` the same with float16; a
//! `bit` int32 bits, then bytes from the highest bit on; a `sparsevec` int32 components, int32 entries, int32 zero, the
//! entries' int32 indices from 0, and their float32 values. All big-endian.

use std::io::Write;

use super::fields::{Fields, leave_out, sql_type};
use crate::record::Rows;
use crate::writing::encoding::{VectorColumn, VectorEncoding, taken};
use crate::writing::quantize::{Dtype, Elements};
use crate::writing::target::Target;
use crate::writing::writer::{Finish, VectorWriter};
use arrow::datatypes::Schema;
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::hash::Hash;
use embedctl_common::setting::{DIMENSIONS, MAX_ACTIVE_DIMS};
use embedctl_common::vectors::RowVector;

/// Signature, flags, length of an extension.
const HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Where a row would begin with its number of fields.
const TRAILER: i16 = -1;

/// pgvector's most components.
const MOST_COMPONENTS: usize = 16_000;

/// pgvector's most entries of a sparse vector.
const MOST_ENTRIES: usize = 16_000;

/// Encoded rows are handed to the system once this many bytes have gathered.
const BUFFER: usize = 1 << 20;

pub(super) struct PgcopyWriter {
    target: Target,
    encoding: VectorEncoding,
    buffer: Vec<u8>,
    hash: Hash,
    /// The columns as a table would declare them, once their types are known.
    columns: Option<String>,
}

impl PgcopyWriter {
    /// Begins a copy.
    ///
    /// # Errors
    /// If pgvector has no such vectors.
    pub fn new(target: Target, encoding: VectorEncoding) -> Result<Self> {
        let is_sparse = encoding.sparse().is_some();
        for VectorColumn { dimensions, .. } in encoding.columns() {
            if !is_sparse && *dimensions > MOST_COMPONENTS {
                return Err(Error::usage(format!(
                    "pgvector's vectors have {MOST_COMPONENTS} components at most, but these {dimensions}"
                ))
                .with_remedy(format!("cut them with {DIMENSIONS}")));
            }
        }
        Ok(Self {
            target,
            encoding,
            buffer: HEADER.to_vec(),
            hash: Hash::default(),
            columns: None,
        })
    }

    fn append(&mut self) -> Result<()> {
        if self.target.has_sidecars() {
            self.hash.add(&self.buffer);
        }
        let written = self.target.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|error| self.target.error(error))
    }

    /// The columns with their types in SQL.
    fn declare(&mut self, columns: &Schema) -> Result<()> {
        if self.columns.is_none() {
            let kept = columns.fields().iter();
            let kept = kept.map(|field| Ok((field.name().clone(), sql_type(field)?.to_owned())));
            let mut all: Vec<(String, String)> = kept.collect::<Result<_>>()?;
            for column in self.encoding.columns() {
                let kind = match self.encoding.dtype() {
                    _ if self.encoding.is_single() => "real".to_owned(),
                    _ if self.encoding.sparse().is_some() => {
                        format!("sparsevec({})", column.dimensions)
                    }
                    Dtype::F32 => format!("vector({})", column.dimensions),
                    Dtype::F16 => format!("halfvec({})", column.dimensions),
                    _ => format!("bit({})", column.dimensions),
                };
                all.push((column.name.clone(), kind));
            }
            let declared = |(name, kind): &(String, String)| {
                format!("\"{}\" {kind}", name.replace('"', "\"\""))
            };
            self.columns = Some(all.iter().map(declared).collect::<Vec<_>>().join(", "));
        }
        Ok(())
    }
}

impl VectorWriter for PgcopyWriter {
    fn write(&mut self, mut rows: Rows) -> Result<()> {
        self.encoding.check_shape(&rows)?;
        if rows.is_empty() {
            return Ok(());
        }
        self.declare(rows.columns.schema_ref())?;
        let sparse = match self.encoding.sparse() {
            Some(_) => Some(taken(&mut rows)?),
            None => None,
        };
        let vectors = match sparse {
            Some(_) => Vec::new(),
            None => self.encoding.encode(&mut rows)?.columns,
        };
        let mut fields = Fields::new(&rows.columns)?;
        let count = rows.columns.num_columns() + self.encoding.columns().len();
        let count = i16::try_from(count)
            .map_err(|_| Error::usage(format!("PostgreSQL's tables have no {count} columns")))?;
        let is_single = self.encoding.is_single();
        for row in 0..rows.len() {
            self.buffer.extend(count.to_be_bytes());
            let written = fields.write(row, &mut self.buffer);
            written.map_err(|(field, reason)| {
                let record = rows.refs[row].record + 1;
                let place = Place::file(format!("record {record}, field {field}"));
                Error::input(place, reason).with_remedy(leave_out())
            })?;
            for (column, elements) in self.encoding.columns().iter().zip(&vectors) {
                match rows.is_missing(row) {
                    true => self.buffer.extend((-1_i32).to_be_bytes()),
                    false if is_single => push_real(elements, row, &mut self.buffer),
                    false => push_vector(column, elements, row, &mut self.buffer),
                }
            }
            if let Some(entries) = &sparse {
                let dimensions = self.encoding.columns()[0].dimensions;
                let entries = entries.get(row);
                if entries.values().len() > MOST_ENTRIES {
                    let record = rows.refs[row].record + 1;
                    return Err(Error::input(
                        Place::file(format!("record {record}")),
                        format!(
                            "its sparse vector has {} entries, but pgvector's have {MOST_ENTRIES} at most",
                            entries.values().len()
                        ),
                    )
                    .with_remedy(format!("keep fewer with {MAX_ACTIVE_DIMS}")));
                }
                match rows.is_missing(row) {
                    true => self.buffer.extend((-1_i32).to_be_bytes()),
                    false => push_sparse(dimensions, entries, &mut self.buffer),
                }
            }
            if self.buffer.len() >= BUFFER {
                self.append()?;
            }
        }
        self.append()
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        self.declare(&finish.schema)?;
        self.buffer.extend(TRAILER.to_be_bytes());
        self.append()?;
        let mut provenance = finish.provenance(&self.encoding, &[("stream", &self.hash)]);
        provenance["columns"] = self.columns.as_deref().into();
        self.target.provenance(&provenance)?;
        self.target.publish(finish.into_rejects())
    }
}

/// A field that is a `sparsevec`.
fn push_sparse(dimensions: usize, row: RowVector<'_>, out: &mut Vec<u8>) {
    let number =
        |count: usize| i32::try_from(count).expect("a vocabulary has fewer than 2^31 terms");
    let entries = row.values().len();
    for count in [12 + 8 * entries, dimensions, entries, 0] {
        out.extend(number(count).to_be_bytes());
    }
    for (index, _) in row.entries() {
        out.extend(number(index as usize).to_be_bytes());
    }
    for value in row.values() {
        out.extend(value.to_be_bytes());
    }
}

/// Appends the number of a row as a field.
fn push_real(elements: &Elements, row: usize, out: &mut Vec<u8>) {
    let number = match elements {
        Elements::F32(values) => values[row],
        Elements::F16(values) => values[row].to_f32(),
        Elements::U8(values) => values[row].into(),
        Elements::I8(values) => values[row].into(),
    };
    out.extend(4_i32.to_be_bytes());
    out.extend(number.to_be_bytes());
}

/// Appends row `row` of a column as a field: its length, then the value.
fn push_vector(column: &VectorColumn, elements: &Elements, row: usize, out: &mut Vec<u8>) {
    let part = row * column.width..(row + 1) * column.width;
    let short = |count: usize| i16::try_from(count).expect("16,000 at most were let in");
    let long = |count: usize| i32::try_from(count).expect("16,000 at most were let in");
    let size = match elements {
        Elements::F32(_) => 4,
        Elements::F16(_) => 2,
        Elements::U8(_) | Elements::I8(_) => 1,
    };
    out.extend(long(4 + size * column.width).to_be_bytes());
    match elements {
        // Bits, eight to a byte.
        Elements::U8(_) | Elements::I8(_) => out.extend(long(column.dimensions).to_be_bytes()),
        Elements::F32(_) | Elements::F16(_) => {
            out.extend(short(column.dimensions).to_be_bytes());
            out.extend(0_i16.to_be_bytes());
        }
    }
    match elements {
        Elements::F32(values) => out.extend(values[part].iter().flat_map(|it| it.to_be_bytes())),
        Elements::F16(values) => out.extend(values[part].iter().flat_map(|it| it.to_be_bytes())),
        Elements::U8(bytes) => out.extend_from_slice(&bytes[part]),
        // `binary` has subtracted 128.
        Elements::I8(bytes) => {
            let bytes = bytes[part].iter().map(|it| it.cast_unsigned());
            out.extend(bytes.map(|it| it.wrapping_add(128)));
        }
    }
}
