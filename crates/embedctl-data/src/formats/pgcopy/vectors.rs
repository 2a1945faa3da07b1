//! Vectors read back from among the fields of PostgreSQL's binary COPY.

use std::io::{self, Read};

use half::f16;

use crate::vectors::{
    StoredVector, TakeVector, array, ended, failed, floats, in_full, in_order, unreadable,
};
use crate::writing::encoding::VECTOR_COLUMNS;
use crate::writing::made;
use crate::writing::quantize::Dtype;
use embedctl_common::error::Result;
use embedctl_storage::Readable;

/// The start of a file, before flags and an extension's length.
const PGCOPY: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Reads a file of rows `fields, (length, bytes)…`. The provenance beside the file names the fields that are vectors.
/// Without it, every field with the bytes of a `vector` or a `halfvec` is taken and named by its number, from 1. A `bit`
/// field is given as its bytes.
pub(super) fn read(file: &Readable, take: &mut TakeVector<'_>) -> Result<()> {
    let mut bytes = in_order(file)?;
    let declared = declared(file)?;
    let failed = |error: io::Error| failed(file, error);
    let mut start = [0; 19];
    bytes.read_exact(&mut start).map_err(failed)?;
    if &start[..11] != PGCOPY || start[15..] != [0; 4] {
        return Err(unreadable(
            file.path(),
            "it does not begin as PostgreSQL's binary COPY",
        ));
    }
    let mut field = Vec::new();
    for row in 0.. {
        let fields = i16::from_be_bytes(array(&mut bytes).map_err(failed)?);
        if fields == -1 {
            return ended(file, bytes);
        }
        if fields < 0 {
            return Err(unreadable(
                file.path(),
                format!("a row claims {fields} fields"),
            ));
        }
        for number in 1..=fields {
            let length = i32::from_be_bytes(array(&mut bytes).map_err(failed)?);
            let Ok(length) = u64::try_from(length) else {
                if length == -1 {
                    continue; // null
                }
                let reason = format!("a field claims {length} bytes");
                return Err(unreadable(file.path(), reason));
            };
            field.clear();
            let whole = (&mut bytes).take(length).read_to_end(&mut field);
            if whole.map_err(failed)? as u64 != length {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
            let index = usize::from(number.unsigned_abs()) - 1;
            let (column, kind) = match &declared {
                None => (number.to_string(), None),
                Some(columns) => match columns.get(index) {
                    Some((name, Some(kind))) => (name.clone(), Some(*kind)),
                    _ => continue,
                },
            };
            let Some((dtype, values)) = vector(&field, kind) else {
                if kind.is_none() {
                    continue;
                }
                let reason = format!("its column {column} holds a value that is not a vector");
                return Err(unreadable(file.path(), reason));
            };
            take(StoredVector {
                column: &column,
                row,
                dtype,
                values: &values,
            })?;
        }
    }
    Ok(())
}

/// pgvector's types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PgVector {
    Vector,
    Halfvec,
    Bit,
    Sparsevec,
    /// PostgreSQL's own type, of a column of single numbers.
    Real,
}

/// A column's name, and its type if it holds vectors.
type PgColumn = (String, Option<PgVector>);

/// The table's columns, as the provenance beside a copy declares them, and which of them are vectors; `None`
/// where nothing does.
fn declared(file: &Readable) -> Result<Option<Vec<PgColumn>>> {
    let made = made::beside(file)?;
    let Some(made) = made else { return Ok(None) };
    let named = |name: &str| {
        let names = made[VECTOR_COLUMNS].as_array().into_iter().flatten();
        names
            .filter_map(|name| name.as_str())
            .any(|one| one == name)
    };
    let columns = made["columns"].as_str().and_then(columns_of);
    // A kept column may hold numbers, too.
    let is_kept = |(name, kind): &PgColumn| *kind == Some(PgVector::Real) && !named(name);
    Ok(columns.map(|columns| {
        let columns = columns.into_iter();
        let own = columns.map(|column| match is_kept(&column) {
            true => (column.0, None),
            false => column,
        });
        own.collect()
    }))
}

/// `"name" type, "name" type(n), …`, a quote in a name doubled.
fn columns_of(mut text: &str) -> Option<Vec<PgColumn>> {
    let mut columns = Vec::new();
    loop {
        text = text.strip_prefix('"')?;
        let mut name = String::new();
        loop {
            let (part, rest) = text.split_once('"')?;
            name.push_str(part);
            match rest.strip_prefix('"') {
                Some(rest) => {
                    name.push('"');
                    text = rest;
                }
                None => {
                    text = rest.strip_prefix(' ')?;
                    break;
                }
            }
        }
        let (kind, rest) = match text.split_once(", \"") {
            Some((kind, _)) => (kind, Some(&text[kind.len() + 2..])),
            None => (text, None),
        };
        let kind = match kind.split('(').next()? {
            "vector" => Some(PgVector::Vector),
            "halfvec" => Some(PgVector::Halfvec),
            "bit" => Some(PgVector::Bit),
            "sparsevec" => Some(PgVector::Sparsevec),
            "real" => Some(PgVector::Real),
            _ => None,
        };
        columns.push((name, kind));
        match rest {
            Some(rest) => text = rest,
            None => return Some(columns),
        }
    }
}

/// The components of a `sparsevec`: its width, the number of its entries, zero, then indices and values.
fn sparse(head: &[u8; 4], rest: &[u8]) -> Option<Vec<f32>> {
    let number = |bytes: [u8; 4]| usize::try_from(i32::from_be_bytes(bytes)).ok();
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (_, rest) = rest.split_first_chunk::<4>()?;
    let count = number(*count)?;
    if rest.len() != count.checked_mul(8)? {
        return None;
    }
    let (indices, values) = rest.split_at(4 * count);
    let (indices, _) = indices.as_chunks::<4>();
    let indices = indices.iter().map(|index| u32::from_be_bytes(*index));
    in_full(
        number(*head)?,
        indices.zip(floats(values, f32::from_be_bytes)),
    )
}

/// The components of a field that is a vector, of the kind that is declared.
fn vector(field: &[u8], kind: Option<PgVector>) -> Option<(Dtype, Vec<f32>)> {
    let (head, rest) = field.split_first_chunk::<4>()?;
    if kind == Some(PgVector::Real) {
        let number = f32::from_be_bytes(*head);
        return rest.is_empty().then(|| (Dtype::F32, vec![number]));
    }
    if kind == Some(PgVector::Bit) {
        let bits = usize::try_from(u32::from_be_bytes(*head)).ok()?;
        let whole = bits.div_ceil(8) == rest.len();
        return whole.then(|| (Dtype::Uint8, floats(rest, |[one]| f32::from(one))));
    }
    if kind == Some(PgVector::Sparsevec) {
        return sparse(head, rest).map(|values| (Dtype::F32, values));
    }
    let [a, b, 0, 0] = *head else { return None };
    let dimensions = usize::from(u16::from_be_bytes([a, b]));
    let is = |one: PgVector, size: usize| {
        kind.is_none_or(|kind| kind == one) && rest.len() == dimensions * size
    };
    if dimensions == 0 {
        return None;
    }
    if is(PgVector::Vector, 4) {
        return Some((Dtype::F32, floats(rest, f32::from_be_bytes)));
    }
    let half = |two| f16::from_be_bytes(two).to_f32();
    is(PgVector::Halfvec, 2).then(|| (Dtype::F16, floats(rest, half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_table_are_read_as_they_are_declared() {
        let found = columns_of(
            r#""id" text, "a ""b"", c" numeric(3), "v" vector(3), "h" halfvec(3), "b" bit(8)"#,
        );
        let found = found.unwrap();
        let named: Vec<_> = found
            .iter()
            .map(|(name, kind)| (name.as_str(), *kind))
            .collect();
        assert_eq!(
            named,
            [
                ("id", None),
                ("a \"b\", c", None),
                ("v", Some(PgVector::Vector)),
                ("h", Some(PgVector::Halfvec)),
                ("b", Some(PgVector::Bit)),
            ]
        );
        for damaged in ["", "id text", "\"id", "\"id\"text", "\"id\" text, id"] {
            let found = columns_of(damaged);
            assert!(found.is_none_or(|found| found.len() == 1), "{damaged}");
        }
    }

    #[test]
    fn what_is_no_vector_is_told_from_one() {
        let field = |head: [u8; 4], rest: usize| [&head[..], &vec![1; rest]].concat();
        assert!(
            vector(&field([0, 2, 0, 0], 8), None).is_some_and(|(dtype, _)| dtype == Dtype::F32)
        );
        assert!(
            vector(&field([0, 2, 0, 0], 4), None).is_some_and(|(dtype, _)| dtype == Dtype::F16)
        );
        assert!(vector(&field([0, 2, 0, 0], 4), Some(PgVector::Vector)).is_none());
        assert!(vector(&field([0, 0, 0, 12], 2), Some(PgVector::Bit)).is_some());
        assert!(vector(&field([0, 0, 0, 12], 2), None).is_none());
        assert!(vector(b"abc", None).is_none());
    }
}
