//! One matrix, and beside it a file that says which record each of its rows came from: NPY, and `fbin`, `i8bin`,
//! `u8bin` as DiskANN, cuVS and usearch read them (rows and width as u32, then the values).

use std::io::Write;

use crate::formats::json_columns;
use crate::formats::output::WriterParts;
use crate::writing::encoding::VectorEncoding;
use crate::writing::npy;
use crate::writing::sidecar;
use crate::writing::target::Target;
use crate::writing::target::sidecars::Sidecar;
use crate::writing::writer::{Finish, VectorWriter};
use embedctl_common::background_hash::BackgroundHash;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::hash::Hash;
use embedctl_common::setting::OUTPUT_FORMAT;
use embedctl_records::json_rows::describe_rows;
use embedctl_records::record::{Rows, SourceNames};

/// Bytes of rows' descriptions that gather before they are handed to the system.
const BUFFER: usize = 1 << 20;

/// The file beside a matrix that says which record each of its rows came from.
pub(super) struct RowDescriptions {
    sidecar: Sidecar,
    names: SourceNames,
    names_files: bool,
    rows: u64,
    buffer: Vec<u8>,
    described: Hash,
}

impl RowDescriptions {
    /// Begins it beside `target`; the source of each row is named if there are several, or by `names_files`.
    pub fn begin(target: &mut Target, names: SourceNames, names_files: bool) -> Result<Self> {
        let sidecar = target
            .sidecar(sidecar::ROWS)?
            .ok_or_else(|| Error::internal("a matrix was begun on a stream"))?;
        Ok(Self {
            sidecar,
            names_files: names_files || names.len() > 1,
            names,
            rows: 0,
            buffer: Vec::new(),
            described: Hash::default(),
        })
    }

    /// How many rows are described.
    pub fn count(&self) -> u64 {
        self.rows
    }

    /// The hash of its bytes.
    pub fn hash(&self) -> &Hash {
        &self.described
    }

    /// Describes some rows.
    pub fn write(&mut self, rows: &Rows) -> Result<()> {
        let mut columns = json_columns(&rows.columns)?;
        let names = self.names_files.then_some(&self.names);
        let mut row = 0;
        while row < rows.len() {
            let known = (self.rows, names);
            row = describe_rows(rows, row, &mut columns, known, BUFFER, &mut self.buffer)?;
            self.described.add(&self.buffer);
            let written = self.sidecar.write_all(&self.buffer);
            self.buffer.clear();
            written?;
        }
        self.rows += rows.len() as u64;
        Ok(())
    }
}

/// The file beside a matrix of tokens' vectors that says how many each row has.
struct LengthsFile {
    sidecar: Sidecar,
    rows: u64,
}

impl LengthsFile {
    fn begin(target: &mut Target) -> Result<Self> {
        let mut sidecar = target
            .sidecar(sidecar::LENGTHS)?
            .ok_or_else(|| Error::internal("a matrix was begun on a stream"))?;
        sidecar.write_all(&npy::lengths(0))?;
        Ok(Self { sidecar, rows: 0 })
    }

    fn write(&mut self, lengths: &[usize]) -> Result<()> {
        self.rows += lengths.len() as u64;
        let bytes = lengths.iter().flat_map(|&it| (it as u64).to_le_bytes());
        self.sidecar.write_all(&bytes.collect::<Vec<_>>())
    }

    /// Completes its header, and returns the hash of the file.
    fn finish(mut self) -> Result<Hash> {
        self.sidecar.complete(&npy::lengths(self.rows))
    }
}

pub(super) struct MatrixWriter {
    target: Target,
    is_npy: bool,
    encoding: VectorEncoding,
    rows: RowDescriptions,
    /// How many vectors each row has, where that is any number.
    lengths: Option<LengthsFile>,
    /// Rows of the matrix.
    vectors: u64,
    /// Of the values, without the header: of the array's bytes as a reader has them.
    values: BackgroundHash,
}

impl MatrixWriter {
    /// Begins a matrix on a target that can be rewritten.
    pub fn new(begin: WriterParts, is_npy: bool) -> Result<Self> {
        let mut target = begin.target;
        let lengths = begin
            .encoding
            .has_lengths()
            .then(|| LengthsFile::begin(&mut target))
            .transpose()?;
        let mut writer = Self {
            lengths,
            vectors: 0,
            rows: RowDescriptions::begin(&mut target, begin.names, begin.names_files)?,
            target,
            is_npy,
            encoding: begin.encoding,
            values: BackgroundHash::new(&begin.clock),
        };
        writer.append(&writer.header()?)?;
        Ok(writer)
    }

    /// The header: of the same length for any number of rows.
    fn header(&self) -> Result<Vec<u8>> {
        let width = self.encoding.columns()[0].width;
        if self.is_npy {
            return Ok(npy::matrix(self.encoding.dtype(), self.vectors, width).into());
        }
        let count = self.vectors;
        let rows = u32::try_from(count).map_err(|_| {
            let reason = format!("{count} rows are more than its header can say");
            Error::new(ErrorKind::Usage, self.target.shown().display(), reason).with_remedy(
                format!("choose {OUTPUT_FORMAT} npy or {OUTPUT_FORMAT} parquet, or cut the input"),
            )
        })?;
        let width = u32::try_from(width).expect("no model has vectors of so many components");
        Ok([rows.to_le_bytes(), width.to_le_bytes()].concat())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.target
            .write_all(bytes)
            .map_err(|error| self.target.error(error))
    }
}

impl VectorWriter for MatrixWriter {
    fn write(&mut self, mut rows: Rows) -> Result<()> {
        self.encoding.check_shape(&rows)?;
        let mut count = rows.len();
        let encoded = self.encoding.encode(&mut rows)?;
        if let (Some(lengths), Some(counts)) = (&mut self.lengths, &encoded.counts) {
            lengths.write(counts)?;
            count = counts.iter().sum();
        }
        self.vectors += count as u64;
        self.rows.write(&rows)?;
        for elements in encoded.columns {
            let values = elements.into_little_endian();
            self.values.add(&values);
            self.append(&values)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        let header = self.header()?;
        self.target.overwrite(0, &header)?;
        let mut first = Hash::default();
        first.add(&header);
        let lengths = self.lengths.take().map(LengthsFile::finish).transpose()?;
        let mut hashes = vec![
            ("header", &first),
            ("values", self.values.hash()),
            ("rows", self.rows.hash()),
        ];
        hashes.extend(lengths.as_ref().map(|lengths| ("lengths", lengths)));
        self.target
            .provenance(&finish.provenance(&self.encoding, &hashes))?;
        self.target.publish(finish.into_rejects())
    }
}
