//! A sparse matrix as `scipy.sparse.load_npz` reads it (compressed rows), and beside it the file that describes its rows:
//! a ZIP archive of NPY arrays, which is not compressed.
//!
//! The archive's members say how long they are before they begin, so that entries gather in temporary files. Written by hand,
//! since the crate `zip` writes such a head only by seeking back, and the output is hashed as it is written.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use flate2::Crc;

use super::write::RowDescriptions;
use super::{BATCH_ROWS, batch_of};
use crate::formats::output::WriterParts;
use crate::vectors::{TakeBatch, failed, in_order, no_such_vectors, unreadable};
use crate::writing::encoding::{VectorEncoding, column_of, taken};
use crate::writing::npy::{HEADER, header};
use crate::writing::target::Target;
use crate::writing::writer::{Finish, VectorWriter};
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_records::numbers::{array, entries, index_bytes, value_bytes};
use embedctl_records::quantize::Dtype;
use embedctl_records::record::Rows;
use embedctl_records::vectors::{CUT, StoredVector, TakeVector, in_full};
use embedctl_storage::Readable;
use embedctl_vectors::{Forms, Numbers};

/// The arrays of an archive, in their order.
const MEMBERS: [&str; 5] = ["data", "indices", "indptr", "format", "shape"];

/// Sizes and offsets from this one on stand in an extra field.
const LARGE: u64 = 0xffff_ffff;

/// Bytes of an archive's members at most that are held at a time to be read back: an index and a value of each entry.
const MOST_ROW: u64 = 1 << 24;

/// An array of which more and more is known.
struct GrowingArray {
    file: BufWriter<File>,
    bytes: u64,
    crc: Crc,
}

impl GrowingArray {
    fn new(target: &Target) -> Result<Self> {
        let file = tempfile::tempfile();
        let file =
            file.map_err(|error| Error::io("write a temporary file for", target.shown(), error))?;
        Ok(Self {
            file: BufWriter::new(file),
            bytes: 0,
            crc: Crc::new(),
        })
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.crc.update(bytes);
        self.file.write_all(bytes)
    }
}

pub(super) struct NpzWriter {
    target: Target,
    encoding: VectorEncoding,
    rows: RowDescriptions,
    values: GrowingArray,
    indices: GrowingArray,
    ends: GrowingArray,
    entries: u64,
    hash: Hash,
    written: u64,
    /// The central directory, as far as it is known.
    directory: Vec<u8>,
}

impl NpzWriter {
    /// Begins an archive.
    pub fn new(begin: WriterParts) -> Result<Self> {
        let mut target = begin.target;
        let rows = RowDescriptions::begin(&mut target, begin.names, begin.names_files)?;
        let mut ends = GrowingArray::new(&target)?;
        let begun = ends.add(&0_i64.to_le_bytes());
        begun.map_err(|error| target.error(error))?;
        Ok(Self {
            values: GrowingArray::new(&target)?,
            indices: GrowingArray::new(&target)?,
            ends,
            target,
            encoding: begin.encoding,
            rows,
            entries: 0,
            hash: Hash::default(),
            written: 0,
            directory: Vec::new(),
        })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.add(bytes);
        self.written += bytes.len() as u64;
        let written = self.target.write_all(bytes);
        written.map_err(|error| self.target.error(error))
    }

    /// Writes a member: the header of an array, and the array's bytes.
    fn member(&mut self, name: &str, header: &[u8], mut array: GrowingArray) -> Result<()> {
        let name = format!("{name}.npy");
        let mut crc = Crc::new();
        crc.update(header);
        crc.combine(&array.crc);
        let (size, offset) = (header.len() as u64 + array.bytes, self.written);
        let short = |size: u64| u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes();
        let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes();
        // Both sizes, and in the directory the offset, where they need more than four bytes.
        let extra = |numbers: &[u64]| {
            let mut extra = Vec::new();
            if numbers.iter().any(|number| *number >= LARGE) {
                let count = u16::try_from(8 * numbers.len()).unwrap_or(0);
                extra.extend([1, 0]);
                extra.extend(count.to_le_bytes());
                numbers
                    .iter()
                    .for_each(|number| extra.extend(number.to_le_bytes()));
            }
            extra
        };
        let (local, central) = (extra(&[size, size]), extra(&[size, size, offset]));
        let shown = |number: u64, extra: &[u8]| match extra.is_empty() {
            true => short(number),
            false => u32::MAX.to_le_bytes(),
        };
        // Version 4.5 knows large sizes; no compression; midnight of 1 January 1980.
        let common = |extra: &[u8]| -> Vec<u8> {
            [
                &[45, 0, 0, 0, 0, 0, 0, 0, 33, 0][..],
                &crc.sum().to_le_bytes(),
                &shown(size, extra),
                &shown(size, extra),
                &length(name.as_bytes()),
                &length(extra),
            ]
            .concat()
        };
        let mut head = [&b"PK\x03\x04"[..], &common(&local)].concat();
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(&local);
        self.append(&head)?;
        self.append(header)?;
        let failed = |error, target: &Target| {
            Error::io("read the temporary file for", target.shown(), error)
        };
        array
            .file
            .flush()
            .map_err(|error| self.target.error(error))?;
        let mut file = array
            .file
            .into_inner()
            .map_err(|error| self.target.error(error.into_error()))?;
        file.seek(SeekFrom::Start(0))
            .map_err(|error| failed(error, &self.target))?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = file
                .read(&mut buffer)
                .map_err(|error| failed(error, &self.target))?;
            if count == 0 {
                break;
            }
            self.append(&buffer[..count])?;
        }
        let entry = [
            &b"PK\x01\x02\x2d\x00"[..],
            &common(&central),
            // No comment; the first disk; no attributes.
            &[0; 10],
            &shown(offset, &central),
            name.as_bytes(),
            &central,
        ];
        self.directory.extend(entry.concat());
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let (start, size) = (self.written, self.directory.len() as u64);
        let directory = std::mem::take(&mut self.directory);
        self.append(&directory)?;
        let members = MEMBERS.len() as u64;
        let short = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        if start >= LARGE {
            let at = self.written;
            let mut end = b"PK\x06\x06".to_vec();
            end.extend(44_u64.to_le_bytes());
            end.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            for number in [members, members, size, start] {
                end.extend(number.to_le_bytes());
            }
            end.extend(b"PK\x06\x07\0\0\0\0");
            end.extend(at.to_le_bytes());
            end.extend(1_u32.to_le_bytes());
            self.append(&end)?;
        }
        let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
        for _ in 0..2 {
            end.extend(&members.to_le_bytes()[..2]);
        }
        end.extend(short(size));
        end.extend(short(start));
        end.extend([0; 2]);
        self.append(&end)
    }
}

impl VectorWriter for NpzWriter {
    fn write(&mut self, mut rows: Rows) -> Result<()> {
        self.encoding.check_shape(&rows)?;
        self.rows.write(&rows)?;
        let rows = taken(&mut rows)?;
        let entries = rows.entries();
        let (indices, values, ends) =
            entries.ok_or_else(|| Error::internal("vectors in full for sparse ones"))?;
        // scipy's indices are int32.
        let (indices, values) = (index_bytes(indices), value_bytes(values));
        let before = self.entries;
        self.entries += rows.values().len() as u64;
        let ends: Vec<u8> = (ends.iter())
            .flat_map(|&end| (before + end as u64).to_le_bytes())
            .collect();
        let gathered = (self.indices.add(&indices))
            .and_then(|()| self.values.add(&values))
            .and_then(|()| self.ends.add(&ends));
        gathered
            .map_err(|error| Error::io("write a temporary file for", self.target.shown(), error))
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        let (rows, entries) = (self.rows.count(), self.entries);
        let width = self.encoding.columns()[0].dimensions as u64;
        for name in MEMBERS {
            let mut small = GrowingArray::new(&self.target)?;
            let (kind, shape, array) = match name {
                "data" => ("<f4", format!("{entries},"), &mut self.values),
                "indices" => ("<i4", format!("{entries},"), &mut self.indices),
                "indptr" => ("<i8", format!("{},", rows + 1), &mut self.ends),
                "format" => {
                    let added = small.add(b"csr");
                    added.map_err(|error| self.target.error(error))?;
                    ("|S3", String::new(), &mut small)
                }
                _ => {
                    let added = small.add(&[rows.to_le_bytes(), width.to_le_bytes()].concat());
                    added.map_err(|error| self.target.error(error))?;
                    ("<i8", "2,".to_owned(), &mut small)
                }
            };
            let array = std::mem::replace(array, GrowingArray::new(&self.target)?);
            self.member(name, &header(kind, &shape), array)?;
        }
        self.end()?;
        let hashes = [("stream", &self.hash), ("rows", self.rows.hash())];
        self.target
            .provenance(&finish.provenance(&self.encoding, &hashes))?;
        self.target.publish(finish.into_rejects())
    }
}

/// Hands every row of an archive that embedctl wrote to `take`, in full.
pub(super) fn read(file: &Readable, take: &mut TakeVector<'_>) -> Result<()> {
    let mut number = 0;
    for_each_row(file, &mut |width, entries| {
        number += 1;
        let full = in_full(width, entries);
        take(StoredVector {
            column: "",
            row: number - 1,
            dtype: Dtype::F32,
            values: &full.ok_or_else(|| damaged(file, "it has an index beyond its width"))?,
        })
    })
}

/// The rows of an archive as a column, batch by batch; `false` where several columns are wanted.
pub(super) fn batches(file: &Readable, wanted: &Forms, take: &mut TakeBatch<'_>) -> Result<bool> {
    let Some((name, width)) = wanted.alone() else {
        return Ok(false);
    };
    let mut rows = wanted.first().no_rows();
    let mut hand_over = |rows: &mut Numbers| {
        let none = rows.same();
        let array = column_of(std::mem::replace(rows, none))?;
        take(batch_of(name, array)?)
    };
    for_each_row(file, &mut |found, entries| {
        if found != width {
            return Err(no_such_vectors(file.path(), wanted));
        }
        rows.push_entries(entries);
        if rows.len() == BATCH_ROWS {
            hand_over(&mut rows)?;
        }
        Ok(())
    })?;
    hand_over(&mut rows).map(|()| true)
}

fn damaged(file: &Readable, reason: &str) -> Error {
    unreadable(file.path(), reason).with_remedy(CUT)
}

/// Hands over the entries of each row, and the width of the matrix.
fn for_each_row(
    file: &Readable,
    take: &mut dyn FnMut(usize, Vec<(u32, f32)>) -> Result<()>,
) -> Result<()> {
    let own = |wanted: &str| -> Result<(Box<dyn Read>, u64)> { member(file, wanted) };
    let (mut shape, _) = own("shape")?;
    let number = |bytes: &mut dyn Read| -> Result<u64> {
        let mut eight = [0; 8];
        bytes
            .read_exact(&mut eight)
            .map_err(|error| failed(file, error))?;
        Ok(u64::from_le_bytes(eight))
    };
    let (rows, width) = (number(&mut shape)?, number(&mut shape)?);
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    let ((mut data, _), (mut indices, _), (mut ends, _)) =
        (own("data")?, own("indices")?, own("indptr")?);
    let mut before = number(&mut ends)?;
    for _ in 0..rows {
        let end = number(&mut ends)?;
        let count = end.checked_sub(before).filter(|count| *count <= MOST_ROW);
        let count = count.ok_or_else(|| damaged(file, "its rows do not follow one another"))?;
        before = end;
        let own = |bytes: &mut dyn Read| -> Result<Vec<u8>> {
            let mut own = Vec::new();
            let read = bytes.take(4 * count).read_to_end(&mut own);
            match read.map_err(|error| failed(file, error))? as u64 == 4 * count {
                true => Ok(own),
                false => Err(failed(file, io::ErrorKind::UnexpectedEof.into())),
            }
        };
        let (indices, values) = (own(&mut indices)?, own(&mut data)?);
        take(width, entries(&indices, &values))?;
    }
    Ok(())
}

/// The bytes of the array of that name behind its header, and how many there are; members are not compressed.
fn member(file: &Readable, wanted: &str) -> Result<(Box<dyn Read>, u64)> {
    let mut bytes = BufReader::new(in_order(file)?);
    let failed = |error: io::Error| failed(file, error);
    let wanted = format!("{wanted}.npy");
    let refuse = || {
        let reason = format!("it is not a sparse matrix as embedctl writes it ({wanted})");
        unreadable(file.path(), reason)
    };
    loop {
        let head: [u8; 30] = array(&mut bytes).map_err(failed)?;
        if &head[..4] != b"PK\x03\x04" || head[8..10] != [0, 0] {
            return Err(refuse());
        }
        let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let mut size = u64::from(u32::from_le_bytes([head[18], head[19], head[20], head[21]]));
        let mut name = vec![0; usize::from(word(26))];
        let mut extra = vec![0; usize::from(word(28))];
        bytes.read_exact(&mut name).map_err(failed)?;
        bytes.read_exact(&mut extra).map_err(failed)?;
        if size == LARGE
            && let Some(large) = extra.get(4..12)
        {
            size = u64::from_le_bytes(large.try_into().map_err(|_| refuse())?);
        }
        if name == wanted.as_bytes() {
            let header: [u8; HEADER] = array(&mut bytes).map_err(failed)?;
            let size = size.checked_sub(HEADER as u64).ok_or_else(refuse)?;
            if &header[..6] != b"\x93NUMPY" {
                return Err(refuse());
            }
            return Ok((Box::new(bytes.take(size)), size));
        }
        let skipped = io::copy(&mut (&mut bytes).take(size), &mut io::sink());
        if skipped.map_err(failed)? < size {
            return Err(refuse());
        }
    }
}
