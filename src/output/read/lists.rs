//! Lists of numbers in the columns of Parquet and Arrow.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Schema};
use arrow::ipc::reader::{FileReader, StreamReader};

use super::{StoredVector, TakeVector, refused};
use crate::error::{Error, Result};
use crate::output::quantize::Dtype;

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 1024;

pub(super) fn parquet(path: &Path, file: File, take: &mut TakeVector<'_>) -> Result<()> {
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| refused(path, &error))?;
    let columns = vectors_in(builder.schema());
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
    let reader = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
    for batch in reader.build().map_err(|error| refused(path, &error))? {
        of_batch(&batch.map_err(|error| refused(path, &error))?, take)?;
    }
    Ok(())
}

pub(super) fn arrow_file(path: &Path, file: File, take: &mut TakeVector<'_>) -> Result<()> {
    let refuse = |error| refused(path, &error);
    let open = |columns| FileReader::try_new(BufReader::new(file.try_clone()?), columns);
    let columns = vectors_in(&open(None).map_err(refuse)?.schema());
    for batch in open(Some(columns)).map_err(refuse)? {
        of_batch(&batch.map_err(refuse)?, take)?;
    }
    Ok(())
}

pub(super) fn arrow_stream(path: &Path, file: File, take: &mut TakeVector<'_>) -> Result<()> {
    let refuse = |error| refused(path, &error);
    let reader = StreamReader::try_new(BufReader::new(file), None).map_err(refuse)?;
    for batch in reader {
        of_batch(&batch.map_err(refuse)?, take)?;
    }
    Ok(())
}

fn vectors_in(schema: &Schema) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    let vectors = fields.filter(|(_, field)| element(field.data_type()).is_some());
    vectors.map(|(index, _)| index).collect()
}

/// What the elements of a list of numbers are.
fn element(list: &DataType) -> Option<Dtype> {
    let (DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item)) =
        list
    else {
        return None;
    };
    match item.data_type() {
        DataType::Float32 | DataType::Float64 => Some(Dtype::F32),
        DataType::Float16 => Some(Dtype::F16),
        DataType::Int8 => Some(Dtype::Int8),
        DataType::UInt8 => Some(Dtype::Uint8),
        _ => None,
    }
}

fn of_batch(batch: &RecordBatch, take: &mut TakeVector<'_>) -> Result<()> {
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let Some(dtype) = element(column.data_type()) else {
            continue;
        };
        for row in (0..column.len()).filter(|&row| column.is_valid(row)) {
            let values = cast(&list(column, row), &DataType::Float32)
                .map_err(|error| Error::internal(format!("reading vectors: {error}")))?;
            let column = field.name();
            let values = values.as_primitive::<Float32Type>().values();
            take(StoredVector {
                column,
                dtype,
                values,
            })?;
        }
    }
    Ok(())
}

fn list(column: &ArrayRef, row: usize) -> ArrayRef {
    match column.data_type() {
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::List(_) => column.as_list::<i32>().value(row),
        _ => column.as_list::<i64>().value(row),
    }
}
