//! Parquet and Arrow: what is read of them, and in which types.

use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::*;
use arrow::array::RecordBatch;
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, DictionaryArray, Int32Array, Int64Array,
    LargeStringArray, ListArray, NullArray, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema, TimeUnit};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use embedctl_records::texts::unpacked;

/// `rows` rows from number `first` on, of every type that is to come through unchanged.
pub fn batch(first: i64, rows: i64) -> RecordBatch {
    let numbers: Vec<i64> = (first..first + rows).collect();
    let words = |word: &str| -> Vec<String> {
        numbers
            .iter()
            .map(|number| format!("{word} {number}"))
            .collect()
    };
    let years = Arc::new(Int32Array::from_iter_values(
        numbers.iter().map(|number| i32::try_from(*number).unwrap()),
    ));
    let fields: Fields = vec![Field::new("year", DataType::Int32, true)].into();
    // The same dictionary in every batch: an Arrow file holds one.
    let keys = numbers.iter().map(|number| i32::from(number % 2 == 1));
    let tags = DictionaryArray::<Int32Type>::new(
        Int32Array::from_iter_values(keys),
        Arc::new(StringArray::from(vec!["even", "odd"])),
    );
    let lists = numbers
        .iter()
        .map(|number| Some(vec![Some(i32::try_from(*number).unwrap()), None]));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "unused",
            Arc::new(StringArray::from(words("nobody wants this"))),
        ),
        ("id", Arc::new(Int64Array::from(numbers.clone()))),
        ("text", Arc::new(StringArray::from(words("text")))),
        (
            "when",
            Arc::new(TimestampMicrosecondArray::from(numbers.clone()).with_timezone("UTC")),
        ),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter_values(numbers.iter().map(|&number| i128::from(number)))
                    .with_precision_and_scale(20, 2)
                    .unwrap(),
            ),
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ),
        (
            "meta",
            Arc::new(StructArray::new(fields, vec![years], None)),
        ),
        ("tag", Arc::new(tags)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

pub const KEPT: [&str; 6] = ["when", "price", "list", "meta", "tag", "meta.year"];

pub fn parquet(batches: &[RecordBatch], group: usize, codec: Compression) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_max_row_group_row_count(Some(group))
        .build();
    let mut file = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut file, batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
    file
}

pub fn arrow_file(batches: &[RecordBatch]) -> Vec<u8> {
    packed_file(batches, None)
}

/// An Arrow file, compressed or not.
pub fn packed_file(batches: &[RecordBatch], codec: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default()
        .try_with_compression(codec)
        .unwrap();
    let mut writer =
        FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

pub fn arrow_stream(batches: &[RecordBatch]) -> Vec<u8> {
    packed_stream(batches, None)
}

/// An Arrow stream, compressed or not.
pub fn packed_stream(batches: &[RecordBatch], codec: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default()
        .try_with_compression(codec)
        .unwrap();
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

/// The same three batches in each container, with the ending under which it goes.
pub fn containers() -> Vec<(&'static str, Vec<u8>)> {
    let batches = [batch(0, 4), batch(4, 1), batch(5, 7)];
    vec![
        ("a.parquet", parquet(&batches, 5, Compression::SNAPPY)),
        ("a.arrow", arrow_file(&batches)),
        ("a.feather", arrow_stream(&batches)),
        ("a.arrows", arrow_stream(&batches)),
        ("a.ipc", arrow_file(&batches)),
        // No ending says anything, the content does.
        ("parquet", parquet(&batches, 100, Compression::UNCOMPRESSED)),
        ("file", arrow_file(&batches)),
        ("stream", arrow_stream(&batches)),
    ]
}

pub fn joined(windows: &[Window]) -> RecordBatch {
    let columns: Vec<_> = windows
        .iter()
        .map(|window| window.columns.clone())
        .collect();
    arrow::compute::concat_batches(&columns[0].schema(), &columns).unwrap()
}

#[test]
fn every_container_gives_the_same_rows_in_their_own_types() {
    let expected = batch(0, 12);
    for (name, content) in containers() {
        let files = Files::new().with(name, content);
        for rows in [1, 3, 100] {
            let options = InputOptions {
                window_rows: rows,
                ..keeping(&KEPT)
            };
            let windows = files.read(options);
            assert_eq!(windows.len(), 12_usize.div_ceil(rows), "{name}");
            let texts: Vec<String> = texts(&windows).into_iter().map(str::to_owned).collect();
            let wanted: Vec<_> = (0..12).map(|number| format!("text {number}")).collect();
            assert_eq!(texts, wanted);
            let columns = joined(&windows);
            for kept in &KEPT[..5] {
                let (found, wanted) = (&columns[kept], &expected[kept]);
                assert_eq!(found.data_type(), wanted.data_type(), "{name} {kept}");
                match kept {
                    &"tag" => assert_eq!(
                        unpacked(found).unwrap().as_ref(),
                        unpacked(wanted).unwrap().as_ref()
                    ),
                    _ => assert_eq!(found, wanted, "{name} {kept}"),
                }
            }
            assert_eq!(columns["meta.year"].data_type(), &DataType::Int32);
            let ids: &Int64Array = columns["id"].as_primitive();
            assert_eq!((ids.len(), ids.value(11)), (12, 11));
            let lines: Vec<_> = windows
                .iter()
                .flat_map(|window| window.origins().map(|origin| (origin.line, origin.offset)))
                .collect();
            assert_eq!((lines[0], lines[11]), ((1, 0), (12, 11)), "{name}");
        }
    }
}

#[test]
fn every_codec_is_read() {
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        let files = Files::new().with("a.parquet", parquet(&[batch(0, 50)], 20, codec));
        assert_eq!(texts(&files.read(options())).len(), 50, "{codec}");
    }
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(codec))
            .unwrap();
        let batch = batch(0, 50);
        let mut writer =
            FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let files = Files::new().with("a.arrow", writer.into_inner().unwrap());
        assert_eq!(texts(&files.read(super::options())).len(), 50);
    }
}

/// One batch of a text column and an id.
pub fn table(text: ArrayRef, id: ArrayRef) -> RecordBatch {
    let fields = vec![
        Field::new("text", text.data_type().clone(), true),
        Field::new("id", id.data_type().clone(), true),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![text, id]).unwrap()
}

#[test]
fn texts_of_every_string_type() {
    let words = || vec![Some("a"), None, Some("c")];
    let dictionary: DictionaryArray<Int32Type> = words().into_iter().collect();
    let arrays: [ArrayRef; 4] = [
        Arc::new(StringArray::from(words())),
        Arc::new(LargeStringArray::from(words())),
        Arc::new(StringViewArray::from(words())),
        Arc::new(dictionary),
    ];
    for array in arrays {
        let batch = table(
            array,
            Arc::new(Int32Array::from(vec![Some(7), Some(8), None])),
        );
        for content in [
            arrow_stream(std::slice::from_ref(&batch)),
            parquet(std::slice::from_ref(&batch), 9, Compression::SNAPPY),
        ] {
            let window = Files::new().with("a", content).window(keeping(&["text"]));
            assert_eq!(window.texts.iter().collect::<Vec<_>>(), ["a", "c"]);
            assert_eq!(
                window.columns["text"].data_type(),
                batch["text"].data_type()
            );
            let ids: &Int64Array = window.columns["id"].as_primitive();
            assert_eq!(ids.iter().collect::<Vec<_>>(), [Some(7), None]);
            assert_eq!(
                (
                    window.rejects().count(),
                    window.rejects().next().unwrap().origin.line
                ),
                (1, 2)
            );
            assert!(
                window
                    .rejects()
                    .next()
                    .unwrap()
                    .cause
                    .reason
                    .contains("`text` is null")
            );
        }
    }
    let nulls = table(Arc::new(NullArray::new(2)), Arc::new(NullArray::new(2)));
    let window = Files::new()
        .with("a", arrow_stream(&[nulls]))
        .window(options());
    assert_eq!(window.rejects().count(), 2);
}

#[test]
fn tables_and_lines_follow_one_another() {
    let rows = || batch(0, 2);
    let files = Files::new()
        .with("a.parquet", parquet(&[rows()], 9, Compression::SNAPPY))
        .with("b.arrow", arrow_file(&[rows()]))
        .with("c.jsonl", "{\"text\":\"c\",\"tag\":\"x\"}\n")
        .with("d.parquet", parquet(&[rows()], 9, Compression::SNAPPY));
    let windows = files.read(keeping(&["tag"]));
    let rows: Vec<_> = windows.iter().map(|window| window.texts.len()).collect();
    assert_eq!(rows, [4, 1, 2]);
    assert_eq!(joined(&windows).num_rows(), 7);

    // Lines decide first, and what a table has must fit.
    let files = Files::new()
        .with("a.jsonl", "{\"text\":\"c\",\"id\":1,\"k\":\"x\"}\n")
        .with("b.arrow", arrow_file(&[batch(0, 2)]));
    let error = failure(windows_of(&files, keeping(&["when"])));
    assert!(error.contains("no field is called `when`"), "{error}");
    let files = Files::new()
        .with("a.parquet", parquet(&[batch(0, 2)], 9, Compression::SNAPPY))
        .with("b.jsonl", "{\"text\":\"c\",\"when\":1}\n");
    let error = failure(windows_of(&files, keeping(&["when"])));
    assert!(
        error.contains("b.jsonl: the kept column `when` has the type Timestamp")
            && error.contains("`--keep when:string`"),
        "{error}"
    );
}

pub fn windows_of(files: &Files, options: InputOptions) -> Result<Vec<Window>> {
    windows(files.open(options)?)
}

#[test]
fn a_batch_can_be_a_window() {
    let empty = batch(0, 0);
    let batches = [batch(0, 4), empty, batch(4, 1)];
    let options = InputOptions {
        batches: BatchWindows::Whole,
        window_rows: 2,
        ..options()
    };
    let files = Files::new().with("a.arrows", arrow_stream(&batches));
    let windows = files.read(options.clone());
    let found: Vec<_> = windows
        .iter()
        .map(|window| window.batch.clone().unwrap())
        .collect();
    assert_eq!(found, batches);
    assert_eq!(windows[2].origins().next().unwrap().line, 5);

    // Stream after stream from standard input.
    let streams = [
        arrow_stream(&batches[..1]),
        arrow_stream(&batches[1..2]),
        arrow_stream(&batches[2..]),
    ]
    .concat();
    let stdin = Stdin {
        reader: Box::new(Cursor::new(streams)),
        bytes: None,
    };
    let options = InputOptions {
        batches: BatchWindows::WholeOfStreams,
        format: Some(InputFormat::Arrow),
        ..options
    };
    let mut reader = RecordReader::open_with(&[Source::Stdin], options, Some(stdin)).unwrap();
    let mut rows = Vec::new();
    loop {
        while let Some(window) = reader.next_window().unwrap() {
            rows.push(window.batch.unwrap().num_rows());
        }
        assert_eq!(reader.table_schema(), Some(batches[0].schema()));
        if reader.next_stream().unwrap().is_none() {
            break;
        }
    }
    assert_eq!(rows, [4, 0, 1]);
}

#[test]
fn timestamps_keep_their_zone() {
    let window = Files::new()
        .with("a.parquet", parquet(&[batch(0, 1)], 9, Compression::SNAPPY))
        .window(keeping(&["when"]));
    let zone = Some("UTC".into());
    assert_eq!(
        window.columns["when"].data_type(),
        &DataType::Timestamp(TimeUnit::Microsecond, zone)
    );
}
