//! Arrays of numbers in lines of JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::vectors::{CUT, TakeBatch, failed, guarded, in_order};
use crate::writing::format::Compression;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::json::ReaderBuilder;
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::vectors::Forms;
use embedctl_records::quantize::Dtype;
use embedctl_records::sparse::SparseColumn;
use embedctl_records::vectors::{RecordedColumns, StoredVector, TakeVector, in_full};
use embedctl_storage::Readable;

/// A line that is longer holds no vector of any model.
const MAX_LINE: u64 = 64 << 20;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 256;

/// A name; borrowed from its line where it holds no escape.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// A sparse vector.
#[derive(Deserialize)]
struct SparseParts {
    indices: Vec<u32>,
    values: Vec<f32>,
}

pub(super) fn read(
    file: &Readable,
    compression: Compression,
    recorded: &RecordedColumns,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let failed = |error| failed(file, error);
    let mut lines = BufReader::new(lines(file, compression)?);
    let mut line = Vec::new();
    for line_number in 1_u64.. {
        line.clear();
        let length = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line);
        if length.map_err(failed)? == 0 {
            return Ok(());
        }
        // Values that were kept may be beyond what a number holds here.
        let object: BTreeMap<FieldName<'_>, &RawValue> =
            serde_json::from_slice(&line).map_err(|error| {
                let reason = format!("line {line_number} is not a JSON object: {error}");
                Error::input(Place::file(&file.name), reason).with_remedy(CUT)
            })?;
        let names = || object.keys().map(|key| key.0.as_ref());
        for (FieldName(column), value) in &object {
            if !recorded.takes(column, names()) {
                continue;
            }
            let own = recorded.column(column);
            let kind = recorded.kind(column);
            let dtype = own.and_then(|own| own.dtype).unwrap_or(Dtype::F32);
            let number = || {
                let number = serde_json::from_str::<f32>(value.get()).ok();
                number.filter(|_| own.is_some()).map(|number| vec![number])
            };
            if kind.is_some_and(|kind| !kind.is_one_per_row()) {
                let vectors = serde_json::from_str::<Option<Vec<Vec<f32>>>>(value.get());
                let vectors = vectors.map_err(|error| {
                    let reason = format!("line {line_number} has no list of vectors: {error}");
                    Error::input(Place::file(&file.name), reason)
                })?;
                for values in vectors.iter().flatten() {
                    take(StoredVector {
                        column,
                        row: line_number - 1,
                        dtype,
                        values,
                    })?;
                }
                continue;
            }
            let list = serde_json::from_str::<Vec<Option<f32>>>(value.get()).ok();
            let whole =
                |list: &Vec<Option<f32>>| list.iter().copied().collect::<Option<Vec<f32>>>();
            let is_vector =
                |list: &Vec<Option<f32>>| own.is_some() || list.iter().any(Option::is_some);
            if list
                .as_ref()
                .is_some_and(|it| whole(it).is_none() && is_vector(it))
            {
                let reason =
                    format!("line {line_number} has a vector with null in the place of a number");
                return Err(Error::input(Place::file(&file.name), reason)
                    .with_remedy("write it again, or make the vector null as a whole"));
            }
            let list = list.as_ref().and_then(whole);
            let entries = || {
                let width = own?.width?;
                let SparseParts { indices, values } = serde_json::from_str(value.get()).ok()?;
                in_full(width, indices.into_iter().zip(values))
            };
            let list = list.or_else(entries);
            let Some(values) = list.or_else(number) else {
                continue;
            };
            take(StoredVector {
                column,
                row: line_number - 1,
                dtype,
                values: &values,
            })?;
        }
    }
    Ok(())
}

/// The columns of vectors of these forms, batch by batch.
pub(super) fn batches(
    file: &Readable,
    compression: Compression,
    forms: &Forms,
    take: &mut TakeBatch<'_>,
) -> Result<()> {
    let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, false)));
    let fields = forms.columns().map(|(form, name, _)| {
        let column = match SparseColumn::of(form) {
            Some(sparse) => sparse.data_type(),
            None if form.written_as().is_one_per_row() => list(DataType::Float32),
            None => list(list(DataType::Float32)),
        };
        Field::new(name, column, true)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    let lines = BufReader::new(lines(file, compression)?);
    let mut reader = guarded(file, || {
        ReaderBuilder::new(schema)
            .with_batch_size(BATCH_ROWS)
            .build(lines)
    })?;
    while let Some(batch) = guarded(file, || reader.next().transpose())? {
        take(batch)?;
    }
    Ok(())
}

/// The lines of a file, decompressed.
///
/// # Errors
/// If it cannot be read, or is not compressed so.
pub(super) fn lines(file: &Readable, compression: Compression) -> Result<Box<dyn Read>> {
    decompressed(in_order(file)?, compression).map_err(|error| failed(file, error))
}

fn decompressed(
    bytes: impl BufRead + 'static,
    compression: Compression,
) -> io::Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => Box::new(bytes),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(bytes)),
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(bytes)?),
    })
}
