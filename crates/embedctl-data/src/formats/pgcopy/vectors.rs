//! Vectors read back from among the fields of PostgreSQL's binary COPY.

use std::io::{self, Read};

use crate::vectors::{ended, failed, faulty, in_order, unreadable};
use crate::writing::encoding::VECTOR_COLUMNS;
use crate::writing::made;
use embedctl_common::error::Result;
use embedctl_records::pgcopy::{PgColumn, PgVector, read_rows};
use embedctl_records::vectors::TakeVector;
use embedctl_storage::Readable;

/// The start of a file, before flags and an extension's length.
const PGCOPY: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Reads a file of rows `fields, (length, bytes)…`. The provenance beside the file names the fields that are vectors.
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
    let name = file.path().display().to_string();
    read_rows(&mut bytes, &name, declared.as_deref(), take).map_err(|fault| faulty(file, fault))?;
    ended(file, bytes)
}

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
}
