//! Ids keep the types that tables give them.

use ::parquet::basic::Compression;
use std::sync::Arc;

use super::*;
use crate::input::tests::tables::{arrow_stream, parquet, table};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float64Array, Int32Array, Int64Array, LargeStringArray, StringArray, TimestampMicrosecondArray,
    UInt8Array, UInt64Array,
};
use arrow::datatypes::{DataType, Int64Type};

fn of(ids: ArrayRef) -> Vec<u8> {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"; ids.len()]));
    arrow_stream(&[table(texts, ids)])
}

fn typed(id_type: IdType) -> InputOptions {
    InputOptions {
        id_type,
        ..options()
    }
}

/// Ids of all windows, with their type.
fn ids(files: &Files, id_type: IdType) -> Result<(DataType, Vec<String>)> {
    let windows = windows(RecordReader::open(&files.sources, typed(id_type))?)?;
    let kind = windows[0].columns["id"].data_type().clone();
    let mut all = Vec::new();
    for window in &windows {
        let column = &window.columns["id"];
        assert_eq!(*column.data_type(), kind);
        let texts = arrow::compute::cast(column, &DataType::Utf8).unwrap();
        let texts = texts.as_string::<i32>().iter();
        all.extend(texts.map(|text| text.unwrap_or("-").to_owned()));
    }
    Ok((kind, all))
}

#[test]
fn ids_of_tables_keep_their_types() {
    let uuid = [7_u8; 16];
    let uuids = FixedSizeBinaryArray::try_from_iter([uuid].into_iter()).unwrap();
    let decimals = Decimal128Array::from(vec![12345])
        .with_precision_and_scale(10, 2)
        .unwrap();
    let arrays: Vec<(ArrayRef, DataType)> = vec![
        (Arc::new(Int64Array::from(vec![i64::MAX])), DataType::Int64),
        (Arc::new(Int32Array::from(vec![-1])), DataType::Int64),
        (Arc::new(UInt8Array::from(vec![1])), DataType::Int64),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            DataType::UInt64,
        ),
        (Arc::new(LargeStringArray::from(vec!["x"])), DataType::Utf8),
        (Arc::new(Date32Array::from(vec![1])), DataType::Date32),
        (
            Arc::new(BinaryArray::from(vec![&b"x"[..]])),
            DataType::Binary,
        ),
        (Arc::new(uuids), DataType::FixedSizeBinary(16)),
        (Arc::new(decimals), DataType::Decimal128(10, 2)),
    ];
    let time = TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC");
    let kind = time.data_type().clone();
    for (array, kind) in arrays
        .into_iter()
        .chain([(Arc::new(time) as ArrayRef, kind)])
    {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let batch = table(texts, Arc::clone(&array));
        for content in [
            arrow_stream(std::slice::from_ref(&batch)),
            parquet(&[batch], 9, Compression::SNAPPY),
        ] {
            let window = Files::new().with("a", content).window(options());
            assert_eq!(window.columns["id"].data_type(), &kind);
            if *array.data_type() == kind {
                assert_eq!(&window.columns["id"], &array);
            }
        }
        if kind.is_integer() || kind == DataType::Utf8 {
            let window = Files::new()
                .with("a", of(array))
                .window(typed(IdType::String));
            assert_eq!(window.columns["id"].data_type(), &DataType::Utf8);
        }
    }
    let floats = Files::new().with("a", of(Arc::new(Float64Array::from(vec![1.0]))));
    let error = ids(&floats, IdType::Kept).unwrap_err().to_string();
    assert!(error.contains("ids are strings, integers"), "{error}");
    assert!(error.contains("--id-type int"), "{error}");
}

/// pandas makes floats of integers with gaps.
#[test]
fn whole_floats_are_integers_where_those_are_asked_for() {
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
    let table = Files::new().with("a", of(Arc::clone(&numbers)));
    let jsonl = "{\"text\":\"a\",\"id\":1.0}\n{\"text\":\"a\",\"id\":null}\n";
    let jsonl = Files::new().with("a.jsonl", jsonl);
    let csv = Files::new().with("a.csv", "text,id\na,1.0\na,\n");
    for files in [table, jsonl, csv] {
        let (kind, found) = ids(&files, IdType::Int).unwrap();
        assert_eq!(
            (kind, found),
            (DataType::Int64, vec!["1".into(), "-".into()])
        );
        let (kind, found) = ids(&files, IdType::String).unwrap();
        assert_eq!(
            (kind, found),
            (DataType::Utf8, vec!["1.0".into(), "-".into()])
        );
    }
    let half: ArrayRef = Arc::new(Float64Array::from(vec![1.5]));
    for (files, words) in [
        (Files::new().with("a", of(half)), "not a whole number (1.5)"),
        (
            Files::new().with("a.jsonl", "{\"text\":\"a\",\"id\":1.5}\n"),
            "(1.5)",
        ),
        (Files::new().with("a.csv", "text,id\na,1.5\n"), "(1.5)"),
    ] {
        let window = files.window(typed(IdType::Int));
        let reason = window.rejects().next().unwrap().cause.to_string();
        assert!(
            reason.contains(words) && reason.contains("--id-type string"),
            "{reason}"
        );
    }
}

/// The ids of the first window decide, where all are integers.
#[test]
fn ids_of_json_keep_their_type() {
    let (int, string) = (DataType::Int64, DataType::Utf8);
    for (all, kind, expected) in [
        ("7 -3 null", &int, "7 -3 -"),
        ("7 \"8\"", &string, "7 8"),
        ("\"7\" 8", &string, "7 8"),
        ("null null", &string, "- -"),
        (
            "7 123456789012345678901234567890",
            &string,
            "7 123456789012345678901234567890",
        ),
        ("9223372036854775807", &int, "9223372036854775807"),
    ] {
        let record = |id| format!("{{\"text\": \"a\", \"id\": {id}}}");
        let records: Vec<String> = all.split(' ').map(record).collect();
        for (name, content) in [
            ("a.jsonl", records.join("\n")),
            ("a.json", format!("[{}]", records.join(", "))),
        ] {
            let files = Files::new().with(name, content);
            let found = ids(&files, IdType::Kept).unwrap();
            assert_eq!(
                (&found.0, found.1.join(" ")),
                (kind, expected.to_owned()),
                "{all}"
            );
        }
    }
    let files = Files::new().with(
        "a.jsonl",
        "{\"text\": \"a\", \"id\": 1}\n{\"text\": \"b\", \"id\": \"x\"}\n",
    );
    // A later id that is no integer cannot stand beside them.
    let one_by_one = InputOptions {
        window_rows: 1,
        ..options()
    };
    let windows = files.read(one_by_one);
    let reason = windows[1].rejects().next().unwrap().cause.to_string();
    assert!(
        reason.contains("the id `id` is a string (\"x\"), but the ids before it are integers")
            && reason.contains("--id-type string"),
        "{reason}"
    );
    // As an older run has left them.
    let strings = InputOptions {
        line_ids: LineIds::Strings,
        ..options()
    };
    let window = files.window(strings);
    assert_eq!(window.columns["id"].data_type(), &string);
    // What another run has decided stays.
    let first = files.read(options());
    assert_eq!(first[0].columns["id"].data_type(), &string);
}

#[test]
fn ids_of_several_inputs_have_one_type() {
    let numbers = || of(Arc::new(Int32Array::from(vec![Some(1), None])));
    let letters = || of(Arc::new(StringArray::from(vec!["x", "2"])));
    let dates = || of(Arc::new(Date32Array::from(vec![1])));
    let lines = "{\"text\":\"a\",\"id\":3}\n";
    let (int, string) = (DataType::Int64, DataType::Utf8);
    for (contents, expected) in [
        (
            vec![("a.arrows", numbers()), ("b.jsonl", lines.into())],
            Ok((&int, vec!["1", "-", "3"])),
        ),
        (
            vec![("a.jsonl", lines.into()), ("b.arrows", numbers())],
            Ok((&int, vec!["3", "1", "-"])),
        ),
        (
            vec![("a.arrows", letters()), ("b.arrows", numbers())],
            Ok((&string, vec!["x", "2", "1", "-"])),
        ),
        (
            vec![("a.arrows", numbers()), ("b.txt", b"one\n".to_vec())],
            Ok((&int, vec!["1", "-", "1"])),
        ),
        (
            vec![
                ("a.arrows", numbers()),
                ("b.csv", b"id,text\n9,x\n".to_vec()),
            ],
            Ok((&int, vec!["1", "-", "9"])),
        ),
        (
            vec![("a.arrows", numbers()), ("b.arrows", letters())],
            Err("--id-type string"),
        ),
        (
            vec![("a.arrows", dates()), ("b.arrows", numbers())],
            Err("--id-type string"),
        ),
        (
            vec![("a.arrows", dates()), ("b.jsonl", lines.into())],
            Err("--id-type string"),
        ),
        (
            vec![("a.jsonl", lines.into()), ("b.arrows", dates())],
            Err("--id-type string"),
        ),
    ] {
        let files = contents
            .iter()
            .fold(Files::new(), |files, (name, content)| {
                files.with(name, content)
            });
        match (ids(&files, IdType::Kept), expected) {
            (Ok((kind, found)), Ok((wanted, expected))) => {
                assert_eq!(
                    (&kind, found),
                    (wanted, expected.iter().map(ToString::to_string).collect())
                );
            }
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, expected) => panic!("{found:?}, but expected {expected:?}"),
        }
    }
    // A line whose id is no integer is a record that cannot stand beside a table's integers.
    let files = Files::new()
        .with("a.arrows", numbers())
        .with("b.jsonl", "{\"text\":\"a\",\"id\":\"x\"}\n");
    let windows = windows(RecordReader::open(&files.sources, options()).unwrap()).unwrap();
    let rejected: Vec<_> = windows.iter().flat_map(Window::rejects).collect();
    assert_eq!(rejected.len(), 1);
    assert!(
        rejected[0].cause.to_string().contains("--id-type string"),
        "{}",
        rejected[0].cause
    );
    assert_eq!(
        windows[0].columns["id"]
            .as_primitive::<Int64Type>()
            .value(0),
        1
    );
}
