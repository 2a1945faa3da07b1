//! JSONL: one object per row, `id` first, the vectors last.

use std::io::{self, Write};

use flate2::write::GzEncoder;

use crate::formats::json_columns;
use crate::writing::encoding::VectorEncoding;
use crate::writing::format::Compression;
use crate::writing::target::Target;
use crate::writing::writer::{Finish, VectorWriter};
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_common::safe_text::printable_json;
use embedctl_records::json_rows::append_lines;
use embedctl_records::record::Rows;

/// Encoded rows are handed on once this many bytes have gathered.
const BUFFER: usize = 1 << 20;

/// Levels of compression: zstd's own default, and gzip's.
const ZSTD_LEVEL: i32 = 3;
const GZIP_LEVEL: u32 = 6;

pub(super) struct JsonlWriter {
    sink: LineSink,
    /// Whether a terminal shows the lines.
    is_shown: bool,
    encoding: VectorEncoding,
    buffer: Vec<u8>,
    hash: Hash,
}

/// The target, behind a compressor or not.
enum LineSink {
    Plain(Target),
    Gzip(GzEncoder<Target>),
    Zstd(zstd::Encoder<'static, Target>),
}

impl JsonlWriter {
    pub fn new(target: Target, encoding: VectorEncoding, compression: Compression) -> Result<Self> {
        let is_shown = compression == Compression::None && target.is_terminal();
        let sink = match compression {
            Compression::None => LineSink::Plain(target),
            Compression::Gzip => {
                LineSink::Gzip(GzEncoder::new(target, flate2::Compression::new(GZIP_LEVEL)))
            }
            Compression::Zstd => {
                let encoder = zstd::Encoder::new(target, ZSTD_LEVEL);
                LineSink::Zstd(encoder.map_err(|error| Error::internal(format!("zstd: {error}")))?)
            }
        };
        Ok(Self {
            sink,
            is_shown,
            encoding,
            buffer: Vec::new(),
            hash: Hash::default(),
        })
    }

    fn append(&mut self) -> Result<()> {
        if self.sink.target().has_sidecars() {
            self.hash.add(&self.buffer);
        }
        let written = match std::str::from_utf8(&self.buffer) {
            Ok(text) if self.is_shown => self.sink.write_all(printable_json(text).as_bytes()),
            _ => self.sink.write_all(&self.buffer),
        };
        self.buffer.clear();
        written.map_err(|error| self.sink.target().error(error))
    }
}

impl VectorWriter for JsonlWriter {
    fn write(&mut self, mut rows: Rows) -> Result<()> {
        self.encoding.check_shape(&rows)?;
        if rows.is_empty() {
            return Ok(());
        }
        let mut vectors = self.encoding.each_kind(&mut rows, VectorEncoding::json)?;
        let mut columns = json_columns(&rows.columns)?;
        let mut row = 0;
        while row < rows.len() {
            row = append_lines(
                &rows,
                row,
                &mut columns,
                &mut vectors,
                BUFFER,
                &mut self.buffer,
            )?;
            self.append()?;
        }
        // The reader of a stream gets whole windows at once.
        let flushed = self.sink.flush();
        flushed.map_err(|error| self.sink.target().error(error))
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        let ended = self.sink.end();
        let target = self.sink.target();
        ended.map_err(|error| target.error(error))?;
        target.provenance(&finish.provenance(&self.encoding, &[("lines", &self.hash)]))?;
        target.publish(finish.into_rejects())
    }
}

impl Drop for JsonlWriter {
    fn drop(&mut self) {
        // A compressor writes its end when it is dropped, and the output is given up.
        self.sink.target().abandon();
    }
}

impl LineSink {
    fn target(&mut self) -> &mut Target {
        match self {
            Self::Plain(target) => target,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        }
    }

    /// Writes the end of a compressed stream.
    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(encoder) => encoder.try_finish(),
            Self::Zstd(encoder) => encoder.do_finish(),
        }
    }
}

impl Write for LineSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(target) => target.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(target) => target.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}
