//! Vectors read back from matrices: NPY, `fbin`, `i8bin` and `u8bin`.

use std::io::{BufRead, Read};

use super::MatrixOutput;
use crate::vectors::{ended, failed, faulty, in_order, unreadable};
use embedctl_common::error::{Error, Result};
use embedctl_records::numbers::{array, read_rows};
use embedctl_records::quantize::Dtype;
use embedctl_records::vectors::TakeVector;
use embedctl_storage::Readable;

/// A header or a row that is longer is none.
const MAX_BYTES: usize = 1 << 20;

/// Hands every row to `take`.
pub(super) fn read(file: &Readable, kind: MatrixOutput, take: &mut TakeVector<'_>) -> Result<()> {
    let mut bytes = in_order(file)?;
    let (rows, width, dtype) = shape(file, &mut bytes, kind)?;
    matrix(file, bytes, rows, width, dtype, take)
}

/// Reads a header: rows, their width, and the type of the values, which follow.
pub(super) fn shape(
    file: &Readable,
    bytes: &mut impl Read,
    kind: MatrixOutput,
) -> Result<(u64, u64, Dtype)> {
    let dtype = match kind {
        MatrixOutput::Npy => return npy_shape(file, bytes),
        MatrixOutput::Fbin => Dtype::F32,
        MatrixOutput::I8bin => Dtype::Int8,
        MatrixOutput::U8bin => Dtype::Uint8,
    };
    let mut number = || {
        let four = array(&mut *bytes).map_err(|error| failed(file, error))?;
        Ok::<_, Error>(u64::from(u32::from_le_bytes(four)))
    };
    Ok((number()?, number()?, dtype))
}

fn npy_shape(file: &Readable, bytes: &mut impl Read) -> Result<(u64, u64, Dtype)> {
    let refuse = |what: &str| unreadable(file.path(), format!("it is not an NPY matrix: {what}"));
    let failed = |error| failed(file, error);
    let start: [u8; 10] = array(bytes).map_err(failed)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(refuse("it does not begin as one"));
    }
    let mut length = usize::from(u16::from_le_bytes([start[8], start[9]]));
    if start[6] > 1 {
        // The length has four bytes.
        let rest = array(bytes).map_err(failed)?;
        length += usize::from(u16::from_le_bytes(rest)) << 16;
    }
    if length > MAX_BYTES {
        return Err(refuse("its header has no end"));
    }
    let mut header = vec![0; length];
    bytes.read_exact(&mut header).map_err(failed)?;
    let header = String::from_utf8_lossy(&header);
    let after = |key: &str| {
        let (_, rest) = header.split_once(&format!("'{key}':"))?;
        Some(rest.trim_start())
    };
    if !after("fortran_order").is_some_and(|order| order.starts_with("False")) {
        return Err(refuse("its values are not row by row")
            .with_remedy("save it so: numpy.save(path, numpy.ascontiguousarray(array))"));
    }
    let descr = after("descr").and_then(|text| text.strip_prefix('\'')?.split('\'').next());
    let dtype = match descr {
        Some("<f4") => Dtype::F32,
        Some("<f2") => Dtype::F16,
        Some("|i1") => Dtype::Int8,
        Some("|u1") => Dtype::Uint8,
        other => {
            let other = other.unwrap_or("nothing");
            return Err(refuse(&format!("its values are {other}"))
                .with_remedy("save it as float32: numpy.save(path, array.astype('float32'))"));
        }
    };
    let shape = after("shape").and_then(|text| text.strip_prefix('(')?.split(')').next());
    let shape: Option<Vec<u64>> = shape.and_then(|shape| {
        let numbers = shape.split(',').map(str::trim).filter(|it| !it.is_empty());
        numbers.map(|number| number.parse().ok()).collect()
    });
    match shape.as_deref() {
        Some(&[rows, width]) => Ok((rows, width, dtype)),
        _ => Err(refuse("it has other than two axes")),
    }
}

/// Bytes of a row.
///
/// # Errors
/// If rows are so wide, or have no component, that this is no matrix of vectors.
pub(super) fn row_bytes(file: &Readable, rows: u64, width: u64, dtype: Dtype) -> Result<usize> {
    let size = usize::try_from(width)
        .ok()
        .and_then(|width| width.checked_mul(dtype.bytes()));
    let wide = |size: &usize| *size <= MAX_BYTES && (*size > 0 || rows == 0);
    size.filter(wide)
        .ok_or_else(|| unreadable(file.path(), format!("its vectors would be {width} wide")))
}

fn matrix(
    file: &Readable,
    mut bytes: Box<dyn BufRead>,
    rows: u64,
    width: u64,
    dtype: Dtype,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let size = row_bytes(file, rows, width, dtype)?;
    let read = read_rows(&mut bytes, rows, size, dtype, take);
    read.map_err(|fault| faulty(file, fault))?;
    ended(file, bytes)
}
