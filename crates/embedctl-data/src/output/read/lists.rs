//! Lists of numbers in the columns of Parquet and Arrow.

use std::io::BufRead;
use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use half::f16;

use super::{CUT, Said, StoredVector, TakeVector, failed, guarded, in_order, unreadable};
use crate::input::{Chunks, check_arrow_file, next_arrow_batch};
use crate::output::quantize::Dtype;
use arrow::array::{Array, ArrayRef, AsArray, Float32Array, RecordBatch};
use arrow::datatypes::{DataType, Float16Type, Float64Type, Int8Type, Schema, UInt8Type};
use arrow::ipc::reader::{FileReader, StreamReader};
use embedctl_common::error::Result;
use embedctl_storage::Readable;

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 1024;

/// Numbers that room is made for at a time: a list's width counts for each row, be it null.
const BATCH_NUMBERS: usize = 4 << 20;

/// A width up to this is believed, however little the file holds: its rows may all be null.
const WIDE: usize = 1 << 16;

pub(super) fn parquet(file: &Readable, said: &Said, take: &mut TakeVector<'_>) -> Result<()> {
    let chunks = Chunks::new(Arc::clone(&file.bytes));
    let options = ArrowReaderOptions::new();
    let metadata = guarded(file, || ArrowReaderMetadata::load(&chunks, options))?;
    let columns = vectors_in(metadata.schema(), said);
    let groups = metadata.metadata().row_groups();
    let values = groups.iter().flat_map(RowGroupMetaData::columns);
    let held = values.map(ColumnChunkMetaData::num_values).max();
    let widest = (columns.iter())
        .filter_map(
            |&column| match metadata.schema().field(column).data_type() {
                DataType::FixedSizeList(_, width) => usize::try_from(*width).ok(),
                _ => None,
            },
        )
        .max();
    let widest = widest.unwrap_or(1).max(1);
    let held = held.and_then(|held| usize::try_from(held).ok());
    if widest > held.unwrap_or(0).max(WIDE) {
        let why = format!("it says that its vectors are of {widest} numbers, and it holds fewer");
        return Err(unreadable(file.path(), why).with_remedy(CUT));
    }
    let mask = ProjectionMask::roots(metadata.parquet_schema(), columns);
    let chunks = chunks.of_groups(groups.iter());
    let mut reader = guarded(file, || {
        ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata)
            .with_projection(mask)
            .with_batch_size((BATCH_NUMBERS / widest).clamp(1, BATCH_ROWS))
            .build()
    })?;
    while let Some(batch) = guarded(file, || reader.next().transpose())? {
        of_batch(&batch, said, take)?;
    }
    Ok(())
}

pub(super) fn arrow_file(file: &Readable, said: &Said, take: &mut TakeVector<'_>) -> Result<()> {
    let schema = guarded(file, || check_arrow_file(file.bytes.as_ref()))?;
    let columns = Some(vectors_in(&schema, said));
    let mut reader = guarded(file, || FileReader::try_new(file.seeking(), columns))?;
    let mut read = 0;
    while let Some(batch) = guarded(file, || next_arrow_batch(&mut reader, &mut read))? {
        of_batch(&batch, said, take)?;
    }
    Ok(())
}

/// A stream, or several one after another.
pub(super) fn arrow_stream(file: &Readable, said: &Said, take: &mut TakeVector<'_>) -> Result<()> {
    let mut bytes = in_order(file)?;
    loop {
        let mut reader = guarded(file, || StreamReader::try_new(&mut bytes, None))?;
        while let Some(batch) = guarded(file, || reader.next().transpose())? {
            of_batch(&batch, said, take)?;
        }
        drop(reader);
        let rest = bytes.fill_buf().map_err(|error| failed(file, error))?;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// The columns of vectors.
fn vectors_in(schema: &Schema, said: &Said) -> Vec<usize> {
    let lists =
        || (schema.fields().iter().enumerate()).filter(|(_, it)| element(it.data_type()).is_some());
    let names = || lists().map(|(_, field)| field.name().as_str());
    let vectors = lists().filter(|(_, field)| said.takes(field.name(), names()));
    vectors.map(|(index, _)| index).collect()
}

/// What the elements of a list of numbers are.
pub(super) fn element(list: &DataType) -> Option<Dtype> {
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

fn of_batch(batch: &RecordBatch, said: &Said, take: &mut TakeVector<'_>) -> Result<()> {
    for index in vectors_in(batch.schema_ref(), said) {
        let (field, column) = (batch.schema_ref().field(index), batch.column(index));
        let Some(dtype) = element(column.data_type()) else {
            continue;
        };
        let vectors = Vectors::of(column);
        for values in (0..column.len()).filter_map(|row| vectors.get(row)) {
            take(StoredVector {
                column: field.name(),
                dtype,
                values,
            })?;
        }
    }
    Ok(())
}

/// A column of lists of numbers, these as float32.
pub(super) struct Vectors<'a> {
    lists: &'a ArrayRef,
    values: Float32Array,
}

impl<'a> Vectors<'a> {
    /// Those of a column of which [`element`] knows what is in it.
    pub(super) fn of(lists: &'a ArrayRef) -> Self {
        let values = match lists.data_type() {
            DataType::FixedSizeList(..) => lists.as_fixed_size_list().values(),
            DataType::List(_) => lists.as_list::<i32>().values(),
            _ => lists.as_list::<i64>().values(),
        };
        let values = match values.data_type() {
            DataType::Float16 => values.as_primitive::<Float16Type>().unary(f16::to_f32),
            DataType::Float64 => values.as_primitive::<Float64Type>().unary(|it| it as f32),
            DataType::Int8 => values.as_primitive::<Int8Type>().unary(f32::from),
            DataType::UInt8 => values.as_primitive::<UInt8Type>().unary(f32::from),
            _ => values.as_primitive().clone(),
        };
        Self { lists, values }
    }

    /// The numbers of a row; `None` where it is null.
    pub(super) fn get(&self, row: usize) -> Option<&[f32]> {
        if self.lists.is_null(row) {
            return None;
        }
        let index = |offset: i64| usize::try_from(offset).ok();
        let range = match self.lists.data_type() {
            DataType::FixedSizeList(_, width) => {
                let start = self.lists.as_fixed_size_list().value_offset_at(row);
                start..start + usize::try_from(*width).ok()?
            }
            DataType::List(_) => {
                let offsets = self.lists.as_list::<i32>().value_offsets();
                index(offsets[row].into())?..index(offsets[row + 1].into())?
            }
            _ => {
                let offsets = self.lists.as_list::<i64>().value_offsets();
                index(offsets[row])?..index(offsets[row + 1])?
            }
        };
        self.values.values().get(range)
    }
}
