//! Matrices (NPY, fbin and its kin), and vectors among the fields of PostgreSQL's binary COPY.

use std::io::{self, Read};
use std::path::Path;

use half::f16;

use super::{StoredVector, TakeVector, failed, unreadable};
use crate::error::Result;
use crate::output::options::OutputFormat;
use crate::output::quantize::Dtype;

/// What comes before the first row of PostgreSQL's binary COPY, and its length of flags and extension.
const PGCOPY: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// A field that is longer holds no vector.
const MAX_FIELD: usize = 1 << 20;

pub(super) fn npy(path: &Path, mut file: impl Read, take: &mut TakeVector<'_>) -> Result<()> {
    let (rows, width, dtype) = npy_shape(path, &mut file)?;
    matrix(path, file, rows, width, dtype, take)
}

/// Reads a matrix' header: its rows, their width, and the type of its values, which follow.
pub(super) fn npy_shape(path: &Path, file: &mut impl Read) -> Result<(u64, u64, Dtype)> {
    let refuse = |what: &str| unreadable(path, format!("it is no NPY matrix: {what}"));
    let mut start = [0; 10];
    file.read_exact(&mut start)
        .map_err(|error| failed(path, error))?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(refuse("it does not begin as one"));
    }
    let mut length = usize::from(u16::from_le_bytes([start[8], start[9]]));
    if start[6] > 1 {
        // The length has four bytes.
        let mut rest = [0; 2];
        file.read_exact(&mut rest)
            .map_err(|error| failed(path, error))?;
        length += usize::from(u16::from_le_bytes(rest)) << 16;
    }
    if length > MAX_FIELD {
        return Err(refuse("its header has no end"));
    }
    let mut header = vec![0; length];
    file.read_exact(&mut header)
        .map_err(|error| failed(path, error))?;
    let header = String::from_utf8_lossy(&header);
    let after = |key: &str| {
        let (_, rest) = header.split_once(&format!("'{key}':"))?;
        Some(rest.trim_start())
    };
    if !after("fortran_order").is_some_and(|order| order.starts_with("False")) {
        return Err(refuse("its values are not row by row").with_remedy("numpy.ascontiguousarray"));
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

pub(super) fn bin(
    path: &Path,
    mut file: impl Read,
    format: OutputFormat,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let (rows, width, dtype) = bin_shape(path, &mut file, format)?;
    matrix(path, file, rows, width, dtype, take)
}

/// The same of a file of `format`.
pub(super) fn bin_shape(
    path: &Path,
    file: &mut impl Read,
    format: OutputFormat,
) -> Result<(u64, u64, Dtype)> {
    let mut number = || {
        let mut bytes = [0; 4];
        let read = file.read_exact(&mut bytes);
        read.map(|()| u64::from(u32::from_le_bytes(bytes)))
            .map_err(|error| failed(path, error))
    };
    let (rows, width) = (number()?, number()?);
    let dtype = match format {
        OutputFormat::I8bin => Dtype::Int8,
        OutputFormat::U8bin => Dtype::Uint8,
        _ => Dtype::F32,
    };
    Ok((rows, width, dtype))
}

fn matrix(
    path: &Path,
    mut file: impl Read,
    rows: u64,
    width: u64,
    dtype: Dtype,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let bytes = usize::try_from(width)
        .ok()
        .and_then(|width| width.checked_mul(dtype.bytes()));
    let wide = |bytes: &usize| *bytes <= MAX_FIELD && (*bytes > 0 || rows == 0);
    let Some(bytes) = bytes.filter(wide) else {
        return Err(unreadable(
            path,
            format!("its vectors would be {width} wide"),
        ));
    };
    let mut row = vec![0; bytes];
    for _ in 0..rows {
        file.read_exact(&mut row)
            .map_err(|error| failed(path, error))?;
        let values: Vec<f32> = match dtype {
            Dtype::F16 => floats(&row, |two| f16::from_le_bytes(two).to_f32()),
            Dtype::Int8 => floats(&row, |[one]| f32::from(one.cast_signed())),
            Dtype::Uint8 => floats(&row, |[one]| f32::from(one)),
            _ => floats(&row, f32::from_le_bytes),
        };
        take(StoredVector {
            column: "",
            dtype,
            values: &values,
        })?;
    }
    ended(path, file)
}

/// Makes sure that nothing follows, which nobody would see.
fn ended(path: &Path, mut file: impl Read) -> Result<()> {
    match file.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(unreadable(path, "it goes on behind its last row")
            .with_remedy("its beginning or its end is damaged; copy or make it again")),
        Err(error) => Err(failed(path, error)),
    }
}

/// A file of rows `fields, (length, bytes)…`: what looks like a `vector` or `halfvec`. The format has no names:
/// a column is called by its number, from 1.
pub(super) fn pgcopy(path: &Path, mut file: impl Read, take: &mut TakeVector<'_>) -> Result<()> {
    let failed = |error: io::Error| failed(path, error);
    let mut start = [0; 19];
    file.read_exact(&mut start).map_err(failed)?;
    if &start[..11] != PGCOPY || start[15..] != [0; 4] {
        return Err(unreadable(
            path,
            "it does not begin as PostgreSQL's binary COPY",
        ));
    }
    loop {
        let fields = i16::from_be_bytes(array(&mut file).map_err(failed)?);
        if fields == -1 {
            return ended(path, file);
        }
        if fields < 0 {
            return Err(unreadable(
                path,
                format!("a row says that it has {fields} fields"),
            ));
        }
        for field in 1..=fields {
            let length = i32::from_be_bytes(array(&mut file).map_err(failed)?);
            let Ok(length) = u64::try_from(length) else {
                if length == -1 {
                    continue; // null
                }
                let reason = format!("a field says that it has {length} bytes");
                return Err(unreadable(path, reason));
            };
            let mut bytes = Vec::new();
            let whole = (&mut file).take(length).read_to_end(&mut bytes);
            if whole.map_err(failed)? as u64 != length {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
            let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
                continue;
            };
            let [a, b, 0, 0] = *head else {
                continue;
            };
            let dimensions = usize::from(u16::from_be_bytes([a, b]));
            let (dtype, values) = match rest.len() {
                _ if dimensions == 0 => continue,
                length if length == dimensions * 4 => {
                    (Dtype::F32, floats(rest, f32::from_be_bytes))
                }
                length if length == dimensions * 2 => {
                    let half = |two| f16::from_be_bytes(two).to_f32();
                    (Dtype::F16, floats(rest, half))
                }
                _ => continue,
            };
            take(StoredVector {
                column: &field.to_string(),
                dtype,
                values: &values,
            })?;
        }
    }
}

fn array<const N: usize>(file: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes).map(|()| bytes)
}

pub(super) fn floats<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<N>();
    numbers.iter().map(|number| read(*number)).collect()
}
