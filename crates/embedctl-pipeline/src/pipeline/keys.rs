//! Keys of rows for stores that want one: `chunk_id`, and `uuid`.

use std::fmt::Write;
use std::sync::Arc;

use sha1::{Digest, Sha1};

use super::assembly::{Assembly, OutputRow};
use crate::record::{Origin, SourceNames};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::error::ArrowError;
use embedctl_records::value_text::IdTexts;

/// The namespace of URLs (RFC 9562): Python's `uuid.NAMESPACE_URL`.
const NAMESPACE_URL: u128 = 0x6ba7b811_9dad_11d1_80b4_00c04fd430c8;

/// The ids of some records, and the names of their sources.
struct RecordKeys<'a> {
    ids: IdTexts<'a>,
    names: &'a SourceNames,
}

impl<'a> RecordKeys<'a> {
    /// Of records with these ids; `None` if they have a type that ids do not have.
    fn of(ids: &'a ArrayRef, names: &'a SourceNames) -> Option<Self> {
        let ids = IdTexts::of(ids.as_ref())?;
        Some(Self { ids, names })
    }

    fn source(&self, origin: &Origin) -> &str {
        let name = self.names.get(origin.source as usize);
        name.map_or("", String::as_str)
    }

    /// `ID#CHUNK`; `SOURCE:LINE#CHUNK` of a record without an id.
    fn chunk_id(&self, row: usize, origin: &Origin, chunk: u32) -> String {
        match self.ids.get(row) {
            Some(id) => format!("{id}#{chunk}"),
            None => format!("{}:{}#{chunk}", self.source(origin), origin.line),
        }
    }

    /// The UUID (version 5, of [`NAMESPACE_URL`]) of the lines source, id and chunk; `:LINE` stands for a missing id.
    fn uuid(&self, row: usize, origin: &Origin, chunk: Option<u32>) -> String {
        let id = self
            .ids
            .get(row)
            .unwrap_or_else(|| format!(":{}", origin.line));
        let mut name = format!("{}\n{id}", self.source(origin));
        if let Some(chunk) = chunk {
            write!(name, "\n{chunk}").expect("a string takes every character");
        }
        hyphenated(version_5(&name))
    }
}

/// The UUID of a name below [`NAMESPACE_URL`].
fn version_5(name: &str) -> u128 {
    let hash = Sha1::new()
        .chain_update(NAMESPACE_URL.to_be_bytes())
        .chain_update(name)
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x50;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    u128::from_be_bytes(bytes)
}

/// In groups of 8, 4, 4, 4 and 12 digits.
fn hyphenated(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

impl Assembly<'_> {
    /// The columns `chunk_id` and `uuid` of some rows; `records` are theirs.
    pub(super) fn keys(
        &self,
        records: &RecordBatch,
        planned: &[OutputRow],
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let keys = RecordKeys::of(records.column(0), self.names)
            .ok_or_else(|| ArrowError::SchemaError("ids of a nested type".to_owned()))?;
        let part = |row: &OutputRow| Some(self.spans?[row.text? as usize].part);
        let rows = || planned.iter().enumerate();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        if self.extra.chunk_id {
            let ids = rows().map(|(number, row)| {
                let part = part(row)?;
                Some(keys.chunk_id(number, &row.origin, part))
            });
            arrays.push(Arc::new(ids.collect::<StringArray>()));
        }
        if self.extra.uuid {
            let ids = rows().map(|(number, row)| Some(keys.uuid(number, &row.origin, part(row))));
            arrays.push(Arc::new(ids.collect::<StringArray>()));
        }
        Ok(arrays)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow::array::*;

    /// As `uuid.uuid5(uuid.NAMESPACE_URL, name)` gives them in Python.
    #[test]
    fn names_have_the_uuids_of_other_programs() {
        for (name, uuid) in PYTHON {
            assert_eq!(hyphenated(version_5(name)), uuid, "{name:?}");
        }
    }

    #[test]
    fn ids_of_every_type_are_keys() {
        let names: SourceNames = ["in.parquet".to_owned()].into();
        let times = TimestampMicrosecondArray::from(vec![Some(0), None]);
        let decimals = Decimal128Array::from(vec![Some(150), None]);
        let decimals = decimals.with_precision_and_scale(9, 2).unwrap();
        let bytes = FixedSizeBinaryArray::try_from_iter([[1, 0xab], [0, 0]].iter()).unwrap();
        let columns: [(ArrayRef, &str); 9] = [
            (Arc::new(Int64Array::from(vec![-1, 2])), "-1#7"),
            (
                Arc::new(UInt64Array::from(vec![u64::MAX, 2])),
                "18446744073709551615#7",
            ),
            (Arc::new(decimals), "1.50#7"),
            (Arc::new(Date32Array::from(vec![1, 2])), "1970-01-02#7"),
            (Arc::new(times.clone()), "1970-01-01T00:00:00#7"),
            (
                Arc::new(times.with_timezone("UTC")),
                "1970-01-01T00:00:00Z#7",
            ),
            (Arc::new(bytes), "01ab#7"),
            (
                Arc::new(BinaryArray::from(vec![b"\x01".as_slice(), b""])),
                "01#7",
            ),
            (
                Arc::new(StringArray::from(vec![Some("\"ä\n"), None])),
                "\"ä\n#7",
            ),
        ];
        let origin = Origin {
            source: 0,
            line: 9,
            offset: 0,
        };
        for (ids, expected) in columns {
            let keys = RecordKeys::of(&ids, &names).unwrap();
            assert_eq!(
                keys.chunk_id(0, &origin, 7),
                expected,
                "{}",
                ids.data_type()
            );
            if ids.is_null(1) {
                assert_eq!(keys.chunk_id(1, &origin, 7), "in.parquet:9#7");
            }
        }
    }

    const PYTHON: [(&str, &str); 3] = [
        ("", "1b4db7eb-4057-5ddf-91e0-36dec72071f5"),
        ("docs.jsonl\n17", "21767c6a-6c84-5b9d-9032-5fc6c9c3e11f"),
        ("corpus/ä.csv\n7\n3", "9a924bbb-93dd-523a-bec3-60c3b2e17e30"),
    ];
}
