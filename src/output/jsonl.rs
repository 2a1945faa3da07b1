//! JSONL: one object per row, `id` first, `embedding` last.

use std::io::Write;

use super::columns::{Columns, push};
use super::target::Target;
use super::{EMBEDDING, Finish, Hash, VectorWriter, check_shape};
use crate::error::Result;
use crate::record::Rows;

/// Encoded rows are handed to the system once this many bytes have gathered.
const BUFFER: usize = 1 << 20;

pub(super) struct JsonlWriter {
    target: Target,
    dimensions: usize,
    buffer: Vec<u8>,
    hash: Hash,
}

impl JsonlWriter {
    pub fn new(target: Target, dimensions: usize) -> Self {
        Self {
            target,
            dimensions,
            buffer: Vec::new(),
            hash: Hash::default(),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.target.has_sidecars() {
            self.hash.add(&self.buffer);
        }
        let written = self.target.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|error| self.target.error(error))
    }
}

impl VectorWriter for JsonlWriter {
    fn write(&mut self, rows: Rows) -> Result<()> {
        check_shape(&rows, self.dimensions)?;
        let columns = Columns::new(&rows.columns)?;
        let key = format!(",\"{EMBEDDING}\":");
        for row in 0..rows.len() {
            for column in 0..columns.len() {
                self.buffer.push(if column == 0 { b'{' } else { b',' });
                columns.write(column, row, &mut self.buffer);
            }
            self.buffer.extend_from_slice(key.as_bytes());
            push(&mut self.buffer, rows.vector(row));
            self.buffer.extend_from_slice(b"}\n");
            if self.buffer.len() >= BUFFER {
                self.flush()?;
            }
        }
        // Whoever reads a stream gets whole windows at once.
        self.flush()
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        let provenance = finish.provenance(&[("lines", &self.hash)]);
        self.target.provenance(&provenance)?;
        self.target.publish(finish.rejects)
    }
}
