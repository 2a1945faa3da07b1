//! PostgreSQL's `COPY … FROM … WITH (FORMAT binary)`: `id`, the kept fields, and the vectors in pgvector's types.
//!
//! The layout is that of PostgreSQL's documentation ("Binary Format" under COPY) and of pgvector's `recv`
//! functions: a `vector` is int16 components, int16 zero, float32 each; a `halfvec` the same with float16; a
//! `bit` int32 bits, then bytes from the highest bit on; a `sparsevec` int32 components, int32 entries, int32 zero, the
//! entries' int32 indices from 0, and their float32 values. All big-endian.

use std::io::Write;

use crate::formats::refused_type;
use crate::writing::encoding::{VectorColumn, VectorEncoding, taken};
use crate::writing::target::Target;
use crate::writing::writer::{Finish, VectorWriter};
use arrow::datatypes::Schema;
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_common::setting::DIMENSIONS;
use embedctl_records::pgcopy::fields::{Fields, check_type, sql_type};
use embedctl_records::pgcopy::{CopyVectors, append_rows};
use embedctl_records::quantize::Dtype;
use embedctl_records::record::Rows;

/// Signature, flags, length of an extension.
const HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Where a row would begin with its number of fields.
const TRAILER: i16 = -1;

/// pgvector's most components.
const MOST_COMPONENTS: usize = 16_000;

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
            let kept = kept.map(|field| {
                let refused = |reason: String| refused_type(field, &reason);
                check_type(field).map_err(refused)?;
                let kind = sql_type(field).map_err(refused)?;
                Ok((field.name().clone(), kind.to_owned()))
            });
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
        let vectors = match self.encoding.sparse() {
            Some(_) => CopyVectors::Sparse(taken(&mut rows)?),
            None => {
                let encoded = self.encoding.encode(&mut rows)?.columns;
                let shapes = self.encoding.columns().iter();
                let shapes = shapes.map(|column| (column.dimensions, column.width));
                CopyVectors::Full {
                    columns: shapes.zip(encoded).collect(),
                    is_single: self.encoding.is_single(),
                }
            }
        };
        let dimensions = self.encoding.columns()[0].dimensions;
        let mut fields = Fields::new(&rows.columns)?;
        let count = rows.columns.num_columns() + self.encoding.columns().len();
        let count = i16::try_from(count)
            .map_err(|_| Error::usage(format!("PostgreSQL's tables have no {count} columns")))?;
        let mut row = 0;
        while row < rows.len() {
            let of_row = (count, dimensions);
            let out = &mut self.buffer;
            row = append_rows(&rows, row, of_row, &mut fields, &vectors, BUFFER, out)?;
            self.append()?;
        }
        Ok(())
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
