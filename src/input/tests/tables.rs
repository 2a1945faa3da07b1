//! Parquet and Arrow: what is read of them, in which types, and what damage does.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, DictionaryArray, Int32Array, Int64Array,
    LargeStringArray, ListArray, NullArray, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema, TimeUnit};
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::*;
use crate::error::ErrorKind;
use crate::input::compression::tests::gzip;
use crate::position::{Position, Seek};
use crate::storage::{Bytes, Readable};

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
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

pub fn arrow_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

/// The same three batches in each container, with the ending under which it goes.
fn containers() -> Vec<(&'static str, Vec<u8>)> {
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

fn joined(windows: &[Window]) -> RecordBatch {
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
                        arrow::compute::cast(found, &DataType::Utf8)
                            .unwrap()
                            .as_ref(),
                        arrow::compute::cast(wanted, &DataType::Utf8)
                            .unwrap()
                            .as_ref()
                    ),
                    _ => assert_eq!(found, wanted, "{name} {kept}"),
                }
            }
            assert_eq!(columns["meta.year"].data_type(), &DataType::Int32);
            let ids: Vec<_> = columns["id"].as_string::<i32>().iter().flatten().collect();
            assert_eq!((ids.len(), ids[11]), (12, "11"));
            let lines: Vec<_> = windows
                .iter()
                .flat_map(|window| {
                    window
                        .origins
                        .iter()
                        .map(|origin| (origin.line, origin.offset))
                })
                .collect();
            assert_eq!((lines[0], lines[11]), ((1, 0), (12, 11)), "{name}");
        }
    }
}

#[test]
fn every_position_goes_on_where_the_window_ended() {
    let line = |number: usize| format!("{{\"text\":\"text {number}\",\"id\":{number}}}\r\n\n");
    let lines: String = (0..12).map(line).collect();
    let mut containers = containers();
    containers.push(("a.jsonl", format!("\u{feff}{lines}").into_bytes()));
    containers.push(("a.txt.gz", {
        let texts: String = (0..12).map(|number| format!("text {number}\n")).collect();
        gzip(texts.as_bytes())
    }));
    for (name, content) in containers {
        let files = Files::new()
            .with(name, &content)
            .with("b.txt", "text 12\ntext 13\n");
        let all = files.read(InputOptions {
            window_rows: 3,
            ..options()
        });
        for (done, window) in (1..).zip(&all) {
            let text = serde_json::to_string(&window.position).unwrap();
            let rest = files.read(InputOptions {
                start: Some(serde_json::from_str(&text).unwrap()),
                window_rows: 3,
                ..options()
            });
            assert_eq!(texts(&rest), texts(&all[done..]), "{name} {text}");
            let origins = |windows: &[Window]| -> Vec<_> {
                windows
                    .iter()
                    .flat_map(|window| window.origins.clone())
                    .collect()
            };
            assert_eq!(origins(&rest), origins(&all[done..]), "{name} {text}");
        }
        let seek = all[0].position.seek;
        match name {
            "a.parquet" | "parquet" => {
                assert_eq!(seek, Seek::RowGroup { group: 0, row: 3 });
            }
            "a.arrow" | "a.ipc" | "file" => assert_eq!(seek, Seek::Batch { batch: 0, row: 3 }),
            "a.jsonl" => assert!(matches!(seek, Seek::Byte { .. })),
            _ => assert_eq!(seek, Seek::Reread, "{name}"),
        }
    }
}

#[test]
fn shares_give_every_record_once() {
    let lines: String = (0..40)
        .map(|number| format!("line {number}{}\n", "x".repeat(number % 7)))
        .collect();
    let files = Files::new().with("a.txt", &lines);
    let whole = files.read(options());
    for cuts in [
        vec![],
        vec![1],
        vec![7, 8, 9],
        vec![50, 51, 300],
        vec![lines.len() as u64 - 1],
    ] {
        let edges: Vec<u64> = [0]
            .into_iter()
            .chain(cuts)
            .chain([lines.len() as u64])
            .collect();
        let mut read = Vec::new();
        for edge in edges.windows(2) {
            let part = Part::Bytes {
                start: edge[0],
                end: edge[1],
            };
            read.extend(files.read(InputOptions {
                shares: Some(vec![Share { source: 0, part }]),
                ..options()
            }));
        }
        assert_eq!(texts(&read), texts(&whole), "{edges:?}");
        let last = read
            .iter()
            .rev()
            .find_map(|window| window.origins.last())
            .unwrap();
        assert_eq!(last.line, 40);
    }

    let batches = [batch(0, 5), batch(5, 0), batch(5, 5), batch(10, 2)];
    let parquet = parquet(&batches, 5, Compression::SNAPPY);
    for (name, content) in [("a.parquet", parquet), ("a.arrow", arrow_file(&batches))] {
        let files = Files::new().with(name, content);
        let stretches = files
            .open(options())
            .unwrap()
            .stretches(0)
            .unwrap()
            .unwrap();
        assert_eq!(
            stretches
                .iter()
                .filter(|rows| **rows > 0)
                .collect::<Vec<_>>(),
            [&5, &5, &2]
        );
        let rows = |start, end, from: Option<Position>| {
            let part = Part::Rows { start, end };
            files.read(InputOptions {
                shares: Some(vec![Share { source: 0, part }]),
                start: from,
                window_rows: 2,
                ..options()
            })
        };
        let lines = |windows: &[Window]| -> Vec<u64> {
            let origins = windows.iter().flat_map(|window| window.origins.iter());
            origins.map(|origin| origin.line).collect()
        };
        for (start, end) in (0..=12).flat_map(|start| (start..=12).map(move |end| (start, end))) {
            let read = rows(start, end, None);
            assert_eq!(
                lines(&read),
                (start + 1..=end).collect::<Vec<_>>(),
                "{name}"
            );
            let expected: Vec<_> = (start..end).map(|row| format!("text {row}")).collect();
            assert_eq!(texts(&read), expected, "{name}");
            // A run that goes on stops there, too.
            for (done, window) in read.iter().enumerate() {
                let rest = rows(start, end, Some(window.position));
                assert_eq!(lines(&rest), lines(&read[done + 1..]), "{name}");
            }
        }
    }
    let stream = Files::new().with("a.arrows", arrow_stream(&batches));
    assert!(
        stream
            .open(options())
            .unwrap()
            .stretches(0)
            .unwrap()
            .is_none()
    );
    let part = Part::Rows { start: 0, end: 1 };
    let error = failure(windows_of(
        &stream,
        InputOptions {
            shares: Some(vec![Share { source: 0, part }]),
            ..options()
        },
    ));
    assert!(error.contains("cannot be read in parts"), "{error}");
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
    for codec in [
        arrow::ipc::CompressionType::LZ4_FRAME,
        arrow::ipc::CompressionType::ZSTD,
    ] {
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
fn table(text: ArrayRef, id: ArrayRef) -> RecordBatch {
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
            let ids: Vec<_> = window.columns["id"].as_string::<i32>().iter().collect();
            assert_eq!(ids, [Some("7"), None]);
            assert_eq!(
                (window.rejects.len(), window.rejects[0].origin.line),
                (1, 2)
            );
            assert!(
                window.rejects[0]
                    .reason
                    .contains("the column `text` is null")
            );
        }
    }
    let nulls = table(Arc::new(NullArray::new(2)), Arc::new(NullArray::new(2)));
    let window = Files::new()
        .with("a", arrow_stream(&[nulls]))
        .window(options());
    assert_eq!(window.rejects.len(), 2);
}

#[test]
fn a_table_without_what_was_asked_for_is_refused() {
    let files = Files::new().with("a.parquet", parquet(&[batch(0, 2)], 9, Compression::SNAPPY));
    let id_type = |name: &str, id_type| InputOptions {
        id_field: name.to_owned(),
        id_type,
        ..options()
    };
    let text = |name: &str| InputOptions {
        text_field: name.to_owned(),
        ..options()
    };
    for (options, expected) in [
        (
            text("body"),
            "no column is called `body`; there are `unused`, `id`, `text`, `when`, `price`, `list`, `meta`, \
             `tag`: name one of them with `--text-field`",
        ),
        (text("meta.month"), "no column is called `meta.month`"),
        (
            text("price"),
            "the column `price` has the type Decimal128(20, 2), and texts are strings",
        ),
        (text("price"), "(strings are in `unused`, `text`, `tag`)"),
        (
            id_type("nope", IdType::String),
            "name one of them with `--id-field`",
        ),
        (
            id_type("list", IdType::String),
            "the id `list` has the type List(Int32), but ids are",
        ),
        (id_type("unused", IdType::Int), "use `--id-type string`"),
        (keeping(&["lang"]), "name one of them with `--keep`"),
        (
            keeping(&["list:int"]),
            "which `--keep list:int` does not take",
        ),
        (keeping(&["price:json"]), "leave the type out"),
    ] {
        let error = files.open(options).unwrap().next_window().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(texts(&files.read(text("tag"))), ["even", "odd"]);
}

#[test]
fn declared_types_are_cast_and_misfits_rejected() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let values: ArrayRef = Arc::new(StringArray::from(vec!["1", "x", "2"]));
    let batch = RecordBatch::try_from_iter([("text", texts), ("k", values)]).unwrap();
    let files = Files::new().with("a.arrow", arrow_file(&[batch]));
    let window = files.window(keeping(&["k:int"]));
    assert_eq!(
        window.columns["k"].as_ref(),
        &Int64Array::from(vec![1, 2]) as &dyn Array
    );
    let reason = &window.rejects[0].reason;
    assert!(
        reason.contains("is no Int64 (x); use `--keep k:string`"),
        "{reason}"
    );
    let window = files.window(keeping(&["k:json"]));
    assert_eq!((window.texts.len(), window.rejects.len()), (2, 1));
    assert_eq!(window.columns.schema().field(1).metadata().len(), 1);
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

fn windows_of(files: &Files, options: InputOptions) -> Result<Vec<Window>> {
    windows(files.open(options)?)
}

#[test]
fn types_of_several_tables_must_agree() {
    let with = |values: ArrayRef| {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        arrow_file(&[RecordBatch::try_from_iter([("text", texts), ("k", values)]).unwrap()])
    };
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![2]));
    let null: ArrayRef = Arc::new(NullArray::new(1));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let files = Files::new()
        .with("a.arrow", with(Arc::clone(&wide)))
        .with("b.arrow", with(narrow))
        .with("c.arrow", with(null));
    let window = files.window(keeping(&["k"]));
    assert_eq!(
        window.columns["k"].as_ref(),
        &Int64Array::from(vec![Some(1), Some(2), None]) as &dyn Array
    );
    let files = files.with("d.arrow", with(text));
    let error = failure(windows_of(&files, keeping(&["k"])));
    assert!(
        error.contains(
            "d.arrow: the column `k` has the type Utf8, but what was read before made it Int64"
        ),
        "{error}"
    );
}

#[test]
fn a_batch_can_be_a_window() {
    let empty = batch(0, 0);
    let batches = [batch(0, 4), empty, batch(4, 1)];
    let options = InputOptions {
        window_per_batch: true,
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
    assert_eq!(windows[2].first_line(), Some(5));

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
        streams: true,
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
fn arrow_comes_through_a_pipe_and_parquet_does_not() {
    let batches = [batch(0, 2), batch(2, 2)];
    let named = |format| InputOptions {
        format: Some(format),
        ..options()
    };
    for content in [arrow_stream(&batches), arrow_file(&batches)] {
        let windows = from_stdin(&content, named(InputFormat::Arrow)).unwrap();
        assert_eq!(texts(&windows).len(), 4);
        let error = from_stdin(&content, options()).unwrap_err().to_string();
        assert!(
            error.contains("it looks like arrow; say `-i arrow`"),
            "{error}"
        );
    }
    let content = parquet(&batches, 9, Compression::SNAPPY);
    let error = from_stdin(&content, named(InputFormat::Parquet))
        .unwrap_err()
        .to_string();
    assert!(error.contains("save it first"), "{error}");
    let error = from_stdin(&content, options()).unwrap_err().to_string();
    assert!(error.contains("say `-i parquet`"), "{error}");
}

#[test]
fn what_is_no_table_or_cut_is_told() {
    let batches = [batch(0, 30)];
    let whole = parquet(&batches, 10, Compression::SNAPPY);
    let mut torn = whole.clone();
    torn[4..whole.len() / 4].fill(0xa5);
    let file = arrow_file(&batches);
    let stream = arrow_stream(&batches);
    let second = {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        let reader = SerializedFileReader::new(bytes::Bytes::from(whole.clone())).unwrap();
        let group = reader.metadata().row_group(1);
        let column = |index: usize| group.column(index).byte_range();
        let (start, _) = column(0);
        let (last, length) = column(group.num_columns() - 1);
        let mut torn = whole.clone();
        let [start, end] = [start, last + length].map(|at| usize::try_from(at).unwrap());
        torn[start..end].fill(0xa5);
        torn
    };
    let both = arrow_stream(&[batch(0, 30), batch(30, 30)]);
    for (name, content, expected) in [
        (
            "a.parquet",
            whole[..whole.len() - 20].to_vec(),
            "cut short or still being written",
        ),
        ("b.parquet", Vec::new(), "is empty"),
        (
            "c.parquet",
            b"id,text\n1,some words\n".to_vec(),
            "is no Parquet file",
        ),
        ("d.parquet", torn, "row group "),
        // The whole rows before it are told.
        (
            "second.parquet",
            second,
            "second.parquet:10: row group 2 of 3 cannot be read",
        ),
        (
            "second.arrows",
            both[..both.len() - 100].to_vec(),
            "second.arrows:30: record batch 2 cannot be read",
        ),
        (
            "e.arrow",
            file[..file.len() - 20].to_vec(),
            "its footer cannot be read",
        ),
        (
            "f.arrows",
            stream[..stream.len() / 2].to_vec(),
            "record batch 1 cannot be read",
        ),
        (
            "g.arrow",
            b"id,text\n1,some words\n".to_vec(),
            "neither an Arrow file nor",
        ),
        (
            "h.feather",
            b"FEA1aaaaaaaaaaaaaa".to_vec(),
            "Feather version 1",
        ),
        ("i.arrow", Vec::new(), "is empty"),
        ("j.arrow", whole.clone(), "say `-i parquet`"),
    ] {
        let files = Files::new().with(name, content);
        let error = windows_of(&files, options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        let error = error.to_string();
        assert!(error.contains(name) && error.contains(expected), "{error}");
    }
    let compressed = Files::new().with("a.parquet.gz", "");
    let error = failure(compressed.open(options()));
    assert!(error.contains("decompress it first"), "{error}");
}

/// Bytes in memory, and how many of them were read.
struct Memory(Vec<u8>, AtomicUsize);

impl Bytes for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let found = self.0.get(start..start + into.len());
        self.1.fetch_add(into.len(), Ordering::Relaxed);
        let mut into = into;
        into.write_all(found.ok_or(std::io::ErrorKind::UnexpectedEof)?)
    }
    fn reader_from(&self, offset: u64) -> std::io::Result<Box<dyn std::io::Read + Send>> {
        let rest = self.0[usize::try_from(offset).unwrap()..].to_vec();
        Ok(Box::new(Cursor::new(rest)))
    }

    fn beside(&self, _: &str) -> Result<Option<Readable>> {
        Ok(None)
    }
}

#[test]
fn of_parquet_the_asked_columns_alone_are_read() {
    let rows = 4000;
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| format!("text {row}")),
    ));
    let padding: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| format!("{row:0500}")),
    ));
    let columns = [("before", padding.clone()), ("text", words), ("behind", padding)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let content = parquet(&[batch], 1000, Compression::UNCOMPRESSED);
    let size = content.len();
    let memory = Arc::new(Memory(content, AtomicUsize::new(0)));
    let object = Readable {
        name: "s3://bucket/wide.parquet".to_owned(),
        bytes: memory.clone(),
    };
    let reader = RecordReader::open(&[Source::Object(object)], options()).unwrap();
    assert_eq!(texts(&windows(reader).unwrap()).len(), rows);
    let read = memory.1.load(Ordering::Relaxed);
    assert!(read < size / 10, "{read} of {size}");
}

#[test]
fn objects_are_read_as_files_are() {
    let mut containers = containers();
    containers.truncate(5);
    containers.push((
        "a.jsonl",
        (0..12)
            .map(|n| format!("{{\"text\":\"text {n}\"}}\n"))
            .collect::<String>()
            .into_bytes(),
    ));
    for (name, content) in containers {
        let object = Readable {
            name: format!("s3://bucket/{name}"),
            bytes: Arc::new(Memory(content, AtomicUsize::new(0))),
        };
        let reader = RecordReader::open(&[Source::Object(object)], options()).unwrap();
        assert!(reader.names()[0].starts_with("s3://bucket/"));
        assert_eq!(texts(&windows(reader).unwrap()).len(), 12, "{name}");
    }
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
