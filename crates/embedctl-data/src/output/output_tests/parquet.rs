//! Parquet, read back with the crate that wrote it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::properties::WriterProperties;
use serde_json::Value;

use super::formats::write_kept;
use crate::output::tests::support::*;
use crate::output::{Forms, OutputOptions, RunFiles, create, read_vectors};
use arrow::array::*;
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, Float32Type, Int8Type, IntervalUnit, Schema};
use embedctl_common::error::Error;
use embedctl_storage::Readable;

pub(super) fn read_parquet(path: &Path) -> (RecordBatch, Arc<ParquetMetaData>) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let metadata = builder.metadata().clone();
    let schema = builder.schema().clone();
    let batches: Vec<RecordBatch> = builder.build().unwrap().map(Result::unwrap).collect();
    (concat_batches(&schema, &batches).unwrap(), metadata)
}

fn vectors(batch: &RecordBatch) -> Vec<f32> {
    let list = batch
        .column_by_name("embedding")
        .unwrap()
        .as_fixed_size_list();
    list.values()
        .as_primitive::<Float32Type>()
        .values()
        .to_vec()
}

#[test]
fn parquet_keeps_every_type_and_null() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.parquet");
    write_kept(&path, 0);
    let (batch, metadata) = read_parquet(&path);
    let kept = concat_batches(
        &kept_batch().schema(),
        &[kept_batch(), kept_batch().slice(1, 2)],
    )
    .unwrap();
    assert_eq!(batch.schema().field(6).name(), "embedding");
    let columns = batch.project(&[0, 1, 2, 4, 5]).unwrap();
    assert_eq!(
        columns.columns(),
        kept.project(&[0, 1, 2, 4, 5]).unwrap().columns()
    );
    let floats = batch
        .column(3)
        .as_primitive::<arrow::datatypes::Float64Type>();
    assert_eq!(floats.value(0), 0.1);
    assert!(floats.is_null(1) && floats.value(2).is_nan());
    let expected: Vec<f32> = (0..5).flat_map(|row| vector(row, 2)).collect();
    assert_eq!(vectors(&batch), expected);
    assert!(matches!(
        batch.schema().field(6).data_type(),
        DataType::FixedSizeList(item, 2)
            if item.data_type() == &DataType::Float32 && !item.is_nullable()
    ));
    let file = metadata.file_metadata();
    assert!(file.created_by().unwrap().starts_with("embedctl "));
    let entries = file.key_value_metadata().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry.key == "embedctl")
        .unwrap();
    let mut value: Value = serde_json::from_str(entry.value.as_ref().unwrap()).unwrap();
    let hashes = value.as_object_mut().unwrap().remove("sha256").unwrap();
    assert_eq!(hashes["file"].as_str().unwrap().len(), 64);
    assert_eq!(value, written());
    assert_eq!(listing(folder.path()), ["out.parquet"]);
}

#[test]
fn parquet_is_cut_into_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.parquet");
    // 4096 dimensions make 4096 rows of 64 MiB.
    let mut writer = create(
        &options(&path).into(),
        &Forms::dense(&[4096]),
        names(),
        &id_schema(),
        &RunFiles::new(),
    )
    .unwrap();
    for first in [0, 3000] {
        writer.write(id_rows(first, 3000, 4096)).unwrap();
    }
    finish(writer, id_schema()).unwrap();
    let (batch, metadata) = read_parquet(&path);
    let groups: Vec<i64> = metadata
        .row_groups()
        .iter()
        .map(parquet::file::metadata::RowGroupMetaData::num_rows)
        .collect();
    // Beside the vectors stand ids and levels.
    assert!(
        matches!(groups[..], [4000..4096, rest] if groups[0] + rest == 6000),
        "{groups:?}"
    );
    let sizes = metadata
        .row_groups()
        .iter()
        .map(parquet::file::metadata::RowGroupMetaData::total_byte_size);
    assert!(sizes.max() < Some(65 << 20));
    assert_eq!(vectors(&batch)[5999 * 4096..], vector(5999, 4096));
    let ids = batch.column(0).as_string::<i32>();
    assert_eq!(ids.value(5999), "5999");
    let embedding = metadata.row_group(0).column(1);
    assert!(embedding.statistics().is_none() && embedding.dictionary_page_offset().is_none());
    assert!(metadata.row_group(0).column(0).statistics().is_some());
}

#[test]
fn long_kept_texts_close_a_row_group_early() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.parquet");
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, true),
    ]));
    let mut writer = create(
        &options(&path).into(),
        &Forms::dense(&[2]),
        names(),
        &schema,
        &RunFiles::new(),
    )
    .unwrap();
    for window in 0..10 {
        let ids: StringArray = (0..10).map(|row| Some(format!("{window}{row}"))).collect();
        // A megabyte that does not compress to nothing.
        let texts: StringArray = (0..10)
            .map(|row| {
                let mut state = window * 10 + row + 1_u64;
                let text = std::iter::repeat_with(|| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    char::from(b' ' + (state >> 58) as u8)
                });
                Some(text.take(1 << 20).collect::<String>())
            })
            .collect();
        let batch =
            RecordBatch::try_new(schema.clone(), vec![Arc::new(ids), Arc::new(texts)]).unwrap();
        writer.write(rows(batch, window as usize * 10, 2)).unwrap();
    }
    finish(writer, schema).unwrap();
    let (batch, metadata) = read_parquet(&path);
    assert_eq!(batch.num_rows(), 100);
    assert!(metadata.num_row_groups() > 1);
}

#[test]
fn a_type_that_parquet_lacks_is_refused_by_the_fields_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.parquet");
    let fields = vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("time", DataType::Date32, true),
        Field::new("span", DataType::Interval(IntervalUnit::MonthDayNano), true),
    ];
    let schema = Arc::new(Schema::new(fields));
    let mut writer = create(
        &options(&path).into(),
        &Forms::dense(&[2]),
        names(),
        &schema,
        &RunFiles::new(),
    )
    .unwrap();
    let columns = schema.fields().iter();
    let columns = columns.map(|field| new_null_array(field.data_type(), 3));
    let batch = RecordBatch::try_new(schema.clone(), columns.collect()).unwrap();
    let message = chain(&writer.write(rows(batch, 0, 2)).unwrap_err());
    assert!(
        message.contains("keep span") && message.contains("-f arrow"),
        "{message}"
    );
}

#[test]
fn times_that_parquet_has_no_type_for_are_times_for_every_reader() {
    const DAY: i64 = 86_400_000;
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.parquet");
    let seconds = || TimestampSecondArray::from(vec![Some(-1), None, Some(1_700_000_000)]);
    let milliseconds =
        || TimestampMillisecondArray::from(vec![Some(-1_000), None, Some(1_700_000_000_000)]);
    let inside = |times: ArrayRef| {
        let field = Arc::new(Field::new("at", times.data_type().clone(), true));
        Arc::new(StructArray::from(vec![(field, times)])) as ArrayRef
    };
    let packed = |times: ArrayRef| {
        let packed = DictionaryArray::<Int8Type>::new(vec![2, 1, 0].into(), times);
        Arc::new(packed) as ArrayRef
    };
    // As they come, and as a reader has them who knows Parquet alone.
    let cases: [(&str, ArrayRef, ArrayRef); 6] = [
        ("plain", Arc::new(seconds()), Arc::new(milliseconds())),
        (
            "zoned",
            Arc::new(seconds().with_timezone("UTC")),
            Arc::new(milliseconds().with_timezone("UTC")),
        ),
        (
            "time",
            Arc::new(Time32SecondArray::from(vec![Some(86_399), None, Some(0)])),
            Arc::new(Time32MillisecondArray::from(vec![
                Some(86_399_000),
                None,
                Some(0),
            ])),
        ),
        (
            "date",
            Arc::new(Date64Array::from(vec![Some(-1), None, Some(2 * DAY + 1)])),
            Arc::new(Date32Array::from(vec![Some(-1), None, Some(2)])),
        ),
        (
            "packed",
            packed(Arc::new(seconds())),
            take(&milliseconds(), &Int8Array::from(vec![2, 1, 0]), None).unwrap(),
        ),
        (
            "inside",
            inside(Arc::new(seconds())),
            inside(Arc::new(milliseconds())),
        ),
    ];
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let columns = cases
        .iter()
        .map(|(name, given, _)| (*name, Arc::clone(given), true));
    let batch =
        RecordBatch::try_from_iter_with_nullable([("id", ids, true)].into_iter().chain(columns))
            .unwrap();
    let mut writer = writer(&options(&path)).unwrap();
    let schema = batch.schema();
    writer.write(rows(batch, 0, 2)).unwrap();
    finish(writer, schema).unwrap();
    for skip in [true, false] {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(skip);
        let file = File::open(&path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).unwrap();
        let read = reader.build().unwrap().next().unwrap().unwrap();
        for (name, _, expected) in &cases {
            assert_eq!(&read[*name], expected, "{name}");
        }
    }
    let beyond: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
    let batch = RecordBatch::try_from_iter_with_nullable([("id", beyond, true)]).unwrap();
    let error = writer_error(&path, batch);
    assert!(
        error.contains("id: ")
            && error.contains("9223372036854775807")
            && error.contains("-f arrow"),
        "{error}"
    );
}

/// What is wrong with the first rows.
fn writer_error(path: &Path, batch: RecordBatch) -> String {
    let options = OutputOptions {
        force: true,
        ..options(path)
    };
    chain(
        &writer(&options)
            .unwrap()
            .write(rows(batch, 0, 2))
            .unwrap_err(),
    )
}

#[test]
fn the_first_rows_decide_the_columns_types() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.parquet");
    // Before any row, nothing is known of `a.b` but its name.
    let early: Vec<Field> = ["id", "a.b", "int", "float", "bool", "json"]
        .map(|name| Field::new(name, DataType::Utf8, true))
        .into();
    let early = Arc::new(Schema::new(early));
    let mut writer = create(
        &options(&path).into(),
        &Forms::dense(&[2]),
        names(),
        &early,
        &RunFiles::new(),
    )
    .unwrap();
    let empty = RecordBatch::new_empty(early.clone());
    writer.write(rows(empty, 0, 2)).unwrap();
    writer.write(rows(kept_batch(), 0, 2)).unwrap();
    finish(writer, early).unwrap();
    let (batch, _) = read_parquet(&path);
    assert_eq!(batch.column(2).data_type(), &DataType::Int64);
}

#[test]
fn vectors_of_many_row_groups_come_in_order_and_end_where_the_taker_ends() {
    const ROWS: u64 = 50;
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.parquet");
    let numbers: Float32Array = (0..ROWS).flat_map(|row| vector(row as usize, 2)).collect();
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let lists = FixedSizeListArray::new(item, 2, Arc::new(numbers), None);
    let batch = RecordBatch::try_from_iter([("embedding", Arc::new(lists) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(3))
        .build();
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let file = Readable::file(&path).unwrap();
    for end in [0, 1, 7, 20, ROWS] {
        let mut next = 0;
        let read = read_vectors(&file, &mut |found| {
            if next == end {
                return Err(Error::usage("enough"));
            }
            assert_eq!(found.row, next);
            assert_eq!(found.values, vector(next as usize, 2));
            next += 1;
            Ok(())
        });
        assert_eq!(next, end);
        assert_eq!(read.is_ok(), end == ROWS, "{end}");
    }
    // A row group that is damaged is an error after those before it.
    let (start, length) = {
        let (_, metadata) = read_parquet(&path);
        metadata.row_group(9).column(0).byte_range()
    };
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[start as usize..(start + length) as usize].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let mut found = 0;
    let read = read_vectors(&Readable::file(&path).unwrap(), &mut |_| {
        found += 1;
        Ok(())
    });
    assert!(read.unwrap_err().to_string().contains("damaged"));
    assert_eq!(found, 27);
}

/// The slot of a null holds any number, which must not be read as a component.
#[test]
fn vectors_with_null_numbers_are_refused_by_their_row() {
    let folder = tempfile::tempdir().unwrap();
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    let numbers = Float32Array::from_iter((0..12).map(|at| (at != 7).then_some(at as f32)));
    let lists = FixedSizeListArray::new(item, 3, Arc::new(numbers), None);
    let field = Field::new("embedding", lists.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(lists)]).unwrap();
    let (parquet, arrow) = (at(&folder, "a.parquet"), at(&folder, "a.arrow"));
    let file = File::create(&parquet).unwrap();
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let file = File::create(&arrow).unwrap();
    let mut writer = arrow::ipc::writer::FileWriter::try_new(file, &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let lines = at(&folder, "a.jsonl");
    std::fs::write(
        &lines,
        "{\"embedding\":[1,2,3]}\n{\"embedding\":[1,null,3]}\n",
    )
    .unwrap();
    for (path, why) in [
        (parquet, "row 2 has"),
        (arrow, "row 2 has"),
        (lines, "line 2 has"),
    ] {
        let mut rows = 0;
        let read = read_vectors(&Readable::file(&path).unwrap(), &mut |_| {
            rows += 1;
            Ok(())
        });
        let refused = read.unwrap_err().to_string();
        assert!(
            refused.contains(&format!(
                "{why} a vector with null in the place of a number"
            )),
            "{refused}"
        );
        assert_eq!(rows, if why.starts_with("line") { 1 } else { 2 });
    }
}
