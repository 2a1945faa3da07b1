//! Ids and kept fields.

use super::tables::{arrow_file, arrow_stream};
use super::*;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Float64Array, Int8Array, Int16Array,
    Int64Array, NullArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int8Type, Schema};
use embedctl_records::record::JSON_COLUMN;
use embedctl_records::texts::strings as texts_of;

fn strings<'a>(columns: &'a RecordBatch, name: &str) -> Vec<Option<&'a str>> {
    columns[name].as_string::<i32>().iter().collect()
}

#[test]
fn ids_are_strings_by_default() {
    let files = Files::new().with(
        "a.jsonl",
        r#"{"text":"","id":"a\u00e9"}
{"text":"","id":-7}
{"text":"","id":123456789012345678901234567890}
{"text":"","id":null}
{"text":""}
{"text":"","id":"7"}"#,
    );
    let window = files.window(options());
    assert_eq!(
        strings(&window.columns, "id"),
        [
            Some("aé"),
            Some("-7"),
            Some("123456789012345678901234567890"),
            None,
            None,
            Some("7")
        ]
    );
}

#[test]
fn ids_can_be_integers() {
    let files = Files::new()
        .with(
            "a.jsonl",
            r#"{"text":"","doc":{"key":9223372036854775807}}
{"text":"","doc":{"key":9223372036854775808}}
{"text":"","doc":{"key":"7"}}
{"text":"","doc":{"key":true}}
{"text":"","doc":null}"#,
        )
        .with("b.txt", "\nx");
    let options = InputOptions {
        id_field: Some("doc.key".to_owned()),
        id_type: IdType::Int,
        ..options()
    };
    let window = files.window(options);
    let ids: &Int64Array = window.columns["id"].as_primitive();
    assert_eq!(
        ids.iter().collect::<Vec<_>>(),
        [Some(i64::MAX), None, Some(1), Some(2)]
    );
    let lines: Vec<_> = window.rejects().map(|reject| reject.origin.line).collect();
    assert_eq!(lines, [2, 3, 4]);
    for (reject, remedy) in
        window
            .rejects()
            .zip(["--id-type string", "--id-type string", "--id-field"])
    {
        assert!(
            reject.cause.to_string().contains(remedy),
            "{}",
            reject.cause
        );
    }
}

#[test]
fn kept_fields_become_typed_columns() {
    let files = Files::new().with(
        "a.jsonl",
        r#"{"text":"t","s":"x","i":1,"f":1,"b":true,"o":{ "k":[1] },"m":{"y":2.5},"n":null}
{"text":"u","s":null,"i":null,"f":1.5,"o":"any","m":{},"none":null}"#,
    );
    let keep = ["s", "i", "f", "b", "o", "m.y", "n", "text", "none:int"];
    let mut reader = files.open(keeping(&keep)).unwrap();
    assert_eq!(reader.schema().field(2).data_type(), &DataType::Utf8);
    let window = reader.next_window().unwrap().unwrap();
    let columns = &window.columns;
    assert_eq!(reader.schema(), columns.schema());
    let schema = columns.schema();
    let names: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(
        names,
        ["id", "s", "i", "f", "b", "o", "m.y", "n", "text", "none"]
    );
    assert!(schema.fields().iter().all(|field| field.is_nullable()));

    assert_eq!(strings(columns, "s"), [Some("x"), None]);
    assert_eq!(
        columns["i"].as_ref(),
        &Int64Array::from(vec![Some(1), None]) as &dyn Array
    );
    assert_eq!(
        columns["f"].as_ref(),
        &Float64Array::from(vec![1.0, 1.5]) as &dyn Array
    );
    assert_eq!(
        columns["b"].as_ref(),
        &BooleanArray::from(vec![Some(true), None]) as &dyn Array
    );
    assert_eq!(
        strings(columns, "o"),
        [Some(r#"{ "k":[1] }"#), Some(r#""any""#)]
    );
    assert_eq!(
        columns["m.y"].as_ref(),
        &Float64Array::from(vec![Some(2.5), None]) as &dyn Array
    );
    assert_eq!(
        columns["n"].as_ref(),
        &StringArray::new_null(2) as &dyn Array
    );
    assert_eq!(strings(columns, "text"), [Some("t"), Some("u")]);
    assert_eq!(
        columns["none"].as_ref(),
        &Int64Array::new_null(2) as &dyn Array
    );

    let (key, value) = JSON_COLUMN;
    for field in schema.fields() {
        let json = field
            .metadata()
            .get(key)
            .is_some_and(|found| *found == *value);
        assert_eq!(json, field.name() == "o", "{field}");
    }
}

#[test]
fn the_first_window_decides_and_misfits_are_rejected() {
    let files = Files::new().with(
        "a.jsonl",
        r#"{"text":"a","id":1,"k":1,"l":"x"}
{"text":
{"text":"b","id":2,"k":"one","l":"x"}
{"text":"c","id":3,"k":2,"l":3}
{"text":7}
{"text":"d","id":4,"k":3}
{"text":"e","id":5,"k":1.5}
{"text":"f","id":6,"k":4,"l":true}
{"text":"g","id":7,"k":5,"l":"y"}"#,
    );
    let options = InputOptions {
        window_rows: 6,
        ..keeping(&["k", "l"])
    };
    let windows = files.read(options);
    assert_eq!(texts(&windows), ["a", "d", "g"]);
    assert_eq!(windows[0].columns.schema(), windows[1].columns.schema());
    let ids: &Int64Array = windows[0].columns["id"].as_primitive();
    assert_eq!(ids.values(), &[1, 4]);
    assert_eq!(strings(&windows[0].columns, "l"), [Some("x"), None]);
    assert_eq!(
        windows[0].columns["k"].as_ref(),
        &Int64Array::from(vec![1, 3]) as &dyn Array
    );
    let lines =
        |window: &Window| -> Vec<_> { window.rejects().map(|reject| reject.origin.line).collect() };
    assert_eq!(
        (lines(&windows[0]), lines(&windows[1])),
        (vec![2, 3, 4, 5], vec![7, 8])
    );
    let rejects: Vec<_> = windows.iter().flat_map(Window::rejects).collect();
    assert_eq!(rejects[1].raw, br#"{"text":"b","id":2,"k":"one","l":"x"}"#);
    for (index, remedy) in [
        (1, "k:string"),
        (2, "l:string"),
        (4, "k:float"),
        (5, "l:string"),
    ] {
        let reason = rejects[index].cause.to_string();
        assert!(reason.contains(&format!("`--keep {remedy}`")), "{reason}");
    }
}

#[test]
fn a_first_window_without_any_text_decides_nothing() {
    let files = Files::new().with("a.jsonl", "x\nx\n{\"text\":\"a\",\"k\":1}\n");
    let windows = files.read(InputOptions {
        window_rows: 2,
        ..keeping(&["k"])
    });
    assert_eq!(windows[0].rejects().count(), 2);
    assert_eq!(windows[1].columns["k"].data_type(), &DataType::Int64);
}

#[test]
fn text_itself_can_be_kept() {
    let files = Files::new()
        .with("a.txt", "one\n")
        .with("b.jsonl", r#"{"body":"two"}"#);
    let options = InputOptions {
        text_field: "body".to_owned(),
        ..keeping(&["body"])
    };
    assert_eq!(
        strings(&files.window(options).columns, "body"),
        [Some("one"), Some("two")]
    );
}

/// A table with texts and a column `k`.
pub fn table(k: ArrayRef) -> RecordBatch {
    let texts = (0..k.len()).map(|row| format!("row {row}"));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let fields = [&text, &k].into_iter().zip(["text", "k"]);
    let fields = fields.map(|(array, name)| Field::new(name, array.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), vec![text, k]).unwrap()
}

/// A column's values as texts, and of the rejects lines and what they held.
pub fn read(files: &Files, name: &str, options: InputOptions) -> (Vec<String>, Vec<(u64, String)>) {
    let (mut values, mut rejects) = (Vec::new(), Vec::new());
    for window in files.read(options) {
        let column = texts_of(&window.columns[name]).unwrap();
        values.extend(
            column
                .iter()
                .map(|value| value.unwrap_or("null").to_owned()),
        );
        for reject in window.rejects() {
            let raw = String::from_utf8(reject.raw.clone()).unwrap();
            rejects.push((reject.origin.line, raw));
        }
    }
    (values, rejects)
}

#[test]
fn integers_of_lines_beyond_those_of_a_table_are_rejected() {
    let table = table(Arc::new(Int16Array::from(vec![1, 300])));
    let beyond = "{\"text\":\"c\",\"k\":40000}";
    let files = Files::new().with("a.arrow", arrow_file(&[table])).with(
        "b.jsonl",
        format!("{beyond}\n{{\"text\":\"d\",\"k\":-5}}\n"),
    );
    let (values, rejects) = read(&files, "k", keeping(&["k"]));
    assert_eq!(values, ["1", "300", "-5"]);
    assert_eq!(rejects, [(1, beyond.to_owned())]);
    assert_eq!(read(&files, "k", keeping(&["k:int"])).0[2], "40000");
}

#[test]
fn dictionaries_of_several_tables_come_together() {
    let words = |from: usize| (from..from + 100).map(|word| word.to_string());
    let strings = |from| -> ArrayRef {
        let words: Vec<String> = words(from).collect();
        Arc::new(DictionaryArray::<Int8Type>::from_iter(
            words.iter().map(String::as_str),
        ))
    };
    let numbers = |from: usize| -> ArrayRef {
        let keys = Int8Array::from_iter_values(0..100);
        let values = words(from).map(|word| word.parse::<i16>().unwrap());
        let values = Int16Array::from_iter_values(values);
        Arc::new(DictionaryArray::new(keys, Arc::new(values)))
    };
    let expected: Vec<String> = words(0).chain(words(100)).collect();
    for batches in [
        [table(strings(0)), table(strings(100))],
        [table(numbers(0)), table(numbers(100))],
    ] {
        let [first, second] = batches.clone().map(|batch| arrow_file(&[batch]));
        let two = Files::new().with("a.arrow", first).with("b.arrow", second);
        for files in [two, Files::new().with("a.arrows", arrow_stream(&batches))] {
            let options = || InputOptions {
                window_rows: 1000,
                ..keeping(&["k"])
            };
            assert_eq!(read(&files, "k", options()).0, expected);
            let drawn = InputOptions {
                sample: Some(200),
                window_rows: 100,
                ..options()
            };
            assert_eq!(read(&files, "k", drawn).0, expected);
        }
    }
    // In a struct, and the key of nothing.
    let nested = |from| {
        let words: ArrayRef = strings(from);
        let fields = Fields::from(vec![Field::new("x", words.data_type().clone(), true)]);
        table(Arc::new(StructArray::new(fields, vec![words], None)))
    };
    let nothing = DictionaryArray::<Int8Type>::from_iter([None::<&str>]);
    let batches = [nested(0), nested(100)];
    let files = Files::new().with("a.arrows", arrow_stream(&batches));
    let struct_of = files.window(InputOptions {
        window_rows: 1000,
        ..keeping(&["k"])
    });
    let inside = struct_of.columns["k"].as_struct().column(0);
    let inside = texts_of(inside).unwrap();
    assert!(inside.iter().flatten().eq(expected.iter()));
    let files = Files::new().with("a.arrow", arrow_file(&[table(Arc::new(nothing))]));
    assert_eq!(read(&files, "k", keeping(&["k"])).0, ["null"]);
    let lines: String = words(100)
        .chain(words(200))
        .map(|word| format!("{{\"text\":\"\",\"k\":\"{word}\"}}\n"))
        .collect();
    let files = Files::new()
        .with("a.arrow", arrow_file(&[table(strings(0))]))
        .with("b.jsonl", lines);
    let all = [expected, words(200).collect()].concat();
    assert_eq!(
        read(
            &files,
            "k",
            InputOptions {
                window_rows: 1000,
                ..keeping(&["k"])
            }
        )
        .0,
        all
    );
}

#[test]
fn nothing_but_nulls_follows_after_a_column_without_a_type() {
    let nulls = || arrow_file(&[table(Arc::new(NullArray::new(2)))]);
    let words = arrow_file(&[table(Arc::new(StringArray::from(vec!["a"])))]);
    for (name, content) in [
        ("b.arrow", words),
        ("b.csv", b"text,k\nx,a\n".to_vec()),
        ("b.jsonl", b"{\"text\":\"x\",\"k\":\"a\"}\n".to_vec()),
    ] {
        let files = Files::new().with("a.arrow", nulls()).with(name, content);
        let error = failure(windows(files.open(keeping(&["k"])).unwrap()));
        assert!(
            error.contains("Null") && error.contains("`--keep k:string`"),
            "{error}"
        );
        assert_eq!(
            read(&files, "k", keeping(&["k:string"])).0,
            ["null", "null", "a"]
        );
    }
    let files = Files::new()
        .with("a.arrow", nulls())
        .with("b.arrow", nulls());
    assert_eq!(read(&files, "k", keeping(&["k:int"])).0, ["null"; 4]);
    assert_eq!(
        files.window(keeping(&["k"])).columns["k"].data_type(),
        &DataType::Null
    );
}

#[test]
fn nulls_without_a_type_are_found_in_structs() {
    let fields = Fields::from(vec![Field::new("x", DataType::Null, true)]);
    let inside = vec![Arc::new(NullArray::new(2)) as ArrayRef];
    for nulls in [None, Some(NullBuffer::from(vec![true, false]))] {
        let k = StructArray::new(fields.clone(), inside.clone(), nulls);
        let files = Files::new().with("a.arrow", arrow_file(&[table(Arc::new(k))]));
        assert_eq!(
            read(&files, "k.x", keeping(&["k.x:string"])).0,
            ["null", "null"]
        );
        let id = InputOptions {
            id_field: Some("k.x".to_owned()),
            ..options()
        };
        assert_eq!(read(&files, "id", id).0, ["null", "null"]);
    }
}
