//! The reader as a whole: sources to windows.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use arrow::array::{
    Array, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::DataType;
use tempfile::TempDir;

use super::compression::tests::{gzip, zstd};
use super::*;
use crate::record::{JSON_COLUMN, Reject};

pub fn options() -> InputOptions {
    InputOptions {
        format: None,
        text_field: "text".to_owned(),
        id_field: "id".to_owned(),
        id_type: IdType::String,
        keep: Vec::new(),
        max_record_bytes: 1000,
        window_rows: 100,
        window_bytes: 1 << 20,
    }
}

fn keeping(keep: &[&str]) -> InputOptions {
    InputOptions {
        keep: keep.iter().map(|keep| keep.parse().unwrap()).collect(),
        ..options()
    }
}

/// A folder of files, and the sources in it in the order in which they were written.
struct Files {
    folder: TempDir,
    sources: Vec<Source>,
}

impl Files {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            sources: Vec::new(),
        }
    }

    fn with(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        self.sources.push(Source::Path(path));
        self
    }

    fn path(&self, index: usize) -> &Path {
        match &self.sources[index] {
            Source::Path(path) => path,
            Source::Stdin => unreachable!("only files are here"),
        }
    }

    fn open(&self, options: InputOptions) -> Result<RecordReader> {
        RecordReader::open(&self.sources, options)
    }

    fn read(&self, options: InputOptions) -> Vec<Window> {
        windows(self.open(options).unwrap()).unwrap()
    }

    /// The one window that there is.
    fn window(&self, options: InputOptions) -> Window {
        let mut windows = self.read(options);
        assert_eq!(windows.len(), 1);
        windows.remove(0)
    }
}

fn windows(mut reader: RecordReader) -> Result<Vec<Window>> {
    let mut windows = Vec::new();
    while let Some(window) = reader.next_window()? {
        assert_eq!(window.texts.len(), window.origins.len());
        assert_eq!(window.texts.len(), window.columns.num_rows());
        windows.push(window);
    }
    assert!(reader.next_window()?.is_none());
    Ok(windows)
}

fn from_stdin(input: &[u8], options: InputOptions) -> Result<Vec<Window>> {
    let stdin = Stdin {
        reader: Box::new(Cursor::new(input.to_vec())),
        bytes: None,
    };
    windows(RecordReader::open_with(
        &[Source::Stdin],
        options,
        Some(stdin),
    )?)
}

fn texts(windows: &[Window]) -> Vec<&str> {
    windows
        .iter()
        .flat_map(|window| window.texts.iter())
        .collect()
}

fn strings<'a>(columns: &'a RecordBatch, name: &str) -> Vec<Option<&'a str>> {
    columns[name].as_string::<i32>().iter().collect()
}

fn failure<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sources_follow_one_another() {
    let files = Files::new()
        .with("a.txt", "one\r\ntwo")
        .with("empty.txt", "")
        .with(
            "b.jsonl",
            "\n{\"text\":\"three\",\"id\":7}\n \t\n{\"text\":\"\"}\n",
        )
        .with("c.txt.gz", [gzip(b"four\n"), gzip(b"five\n")].concat())
        .with(
            "d.NDJSON.zst",
            [zstd(b"{\"text\":\"six\"}\n"), zstd(b"{\"text\":\"seven\"}")].concat(),
        );
    let window = files.window(options());
    assert_eq!(
        window.texts.iter().collect::<Vec<_>>(),
        ["one", "two", "three", "", "four", "five", "six", "seven"]
    );
    assert_eq!(
        strings(&window.columns, "id"),
        [
            Some("1"),
            Some("2"),
            Some("7"),
            None,
            Some("1"),
            Some("2"),
            None,
            None
        ]
    );
    let places: Vec<_> = window
        .origins
        .iter()
        .map(|origin| (origin.source, origin.line, origin.offset))
        .collect();
    assert_eq!(
        places,
        [
            (0, 1, 0),
            (0, 2, 5),
            (2, 2, 1),
            (2, 4, 28),
            (3, 1, 0),
            (3, 2, 5),
            (4, 1, 0),
            (4, 2, 15)
        ]
    );
    assert!(window.rejects.is_empty());
    let reader = files.open(options()).unwrap();
    assert!(reader.names()[2].ends_with("b.jsonl"));
    assert_eq!(reader.total_bytes(), Some(window.consumed));
}

#[test]
fn blank_lines_are_records_of_text_alone() {
    let files = Files::new().with("a.txt", "\n\r\nx\n\n");
    assert_eq!(texts(&files.read(options())), ["", "", "x", ""]);
    let files = Files::new().with("a.jsonl", "\n\r\n\n");
    assert!(files.read(options()).is_empty());
    let files = Files::new().with("a.txt", "");
    assert!(files.read(options()).is_empty());
    assert!(
        windows(RecordReader::open(&[], options()).unwrap())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_byte_order_mark_is_dropped_from_every_source() {
    let files = Files::new()
        .with("a.txt", "\u{feff}a\n")
        .with("b.jsonl.gz", gzip("\u{feff}{\"text\":\"b\"}".as_bytes()));
    let window = files.window(options());
    assert_eq!(window.texts.iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(window.origins[0].offset, 3);

    let utf16 = Files::new().with("a.txt", b"\xff\xfea\0\n\0");
    let error = failure(windows(utf16.open(options()).unwrap()));
    assert!(
        error.contains("a.txt: is UTF-16") && error.contains("iconv"),
        "{error}"
    );
}

#[test]
fn texts_keep_every_character() {
    let files = Files::new().with(
        "a.jsonl",
        r#"{"text":"a\u0000\n\ud83d\ude00 ü"}"#.to_owned() + "\n{\"te\\u0078t\":\"\u{2028}\"}",
    );
    assert_eq!(texts(&files.read(options())), ["a\0\n😀 ü", "\u{2028}"]);
    let files = Files::new().with("a.txt", "a\0b\u{2028}c\u{85}\td \n");
    assert_eq!(texts(&files.read(options())), ["a\0b\u{2028}c\u{85}\td "]);
}

#[test]
fn windows_close_by_rows_and_by_bytes() {
    let files = Files::new().with("a.txt", "aaaa\nbbbb\ncccc\ndddd\neeee\n");
    let by_rows = InputOptions {
        window_rows: 2,
        ..options()
    };
    let windows = files.read(by_rows);
    let rows: Vec<_> = windows.iter().map(|window| window.texts.len()).collect();
    let consumed: Vec<_> = windows.iter().map(|window| window.consumed).collect();
    assert_eq!((rows, consumed), (vec![2, 2, 1], vec![10, 20, 25]));

    let by_bytes = InputOptions {
        window_bytes: 10,
        ..options()
    };
    let rows: Vec<_> = files
        .read(by_bytes)
        .iter()
        .map(|window| window.texts.len())
        .collect();
    assert_eq!(rows, [2, 2, 1]);

    // What is kept counts too, as it may be much larger than the text.
    let lines = format!("{{\"text\":\"\",\"a\":\"{}\"}}\n", "x".repeat(100)).repeat(5);
    let files = Files::new().with("a.jsonl", lines);
    let by_bytes = InputOptions {
        window_bytes: 200,
        ..keeping(&["a:string"])
    };
    assert_eq!(files.read(by_bytes).len(), 3);
}

#[test]
fn bad_records_are_rejected_in_place() {
    let mut input =
        b"{\"text\":\"a\"}\n{\"text\":\n\xff{}\n{\"text\":\"b\"}\n{\"text\":\"".to_vec();
    input.extend(vec![b'x'; 1000]);
    input.extend(b"\"}\n{\"text\":\"c\"}");
    let window = Files::new().with("a.jsonl", input).window(options());
    assert_eq!(window.texts.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    let [json, utf8, long] = window.rejects.as_slice() else {
        panic!("{:?}", window.rejects);
    };
    assert_eq!((json.origin.line, json.origin.offset), (2, 13));
    assert_eq!(json.raw, b"{\"text\":");
    assert!(json.reason.contains("column 8"), "{}", json.reason);
    assert_eq!((utf8.origin.line, utf8.raw.as_slice()), (3, &b"\xff{}"[..]));
    assert!(
        utf8.reason.contains("not valid UTF-8 at its byte 1"),
        "{}",
        utf8.reason
    );
    assert_eq!((long.origin.line, long.raw.len()), (5, Reject::RAW_BYTES));
    assert!(long.reason.contains("has 1011 bytes"), "{}", long.reason);
    assert!(
        long.reason.contains("--max-record-bytes"),
        "{}",
        long.reason
    );
}

#[test]
fn a_source_of_bad_records_still_streams() {
    let files = Files::new().with("a.jsonl", "x\n".repeat(25));
    let windows = files.read(InputOptions {
        window_rows: 10,
        ..keeping(&["a"])
    });
    let rejects: Vec<_> = windows.iter().map(|window| window.rejects.len()).collect();
    assert_eq!(rejects, [10, 10, 5]);
    assert!(windows.iter().all(|window| window.texts.is_empty()));
}

#[test]
fn the_limit_of_a_record_is_exact() {
    let text = "x".repeat(1000);
    let files = Files::new().with(
        "a.txt",
        format!("{text}\r\n{text}x\r\n{text}\n{text}x\n{text}"),
    );
    let window = files.window(options());
    assert_eq!((window.texts.len(), window.rejects.len()), (3, 2));
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
{"text":"","doc":{"key":1.0}}
{"text":"","doc":null}"#,
        )
        .with("b.txt", "\nx");
    let options = InputOptions {
        id_field: "doc.key".to_owned(),
        id_type: IdType::Int,
        ..options()
    };
    let window = files.window(options);
    let ids: &Int64Array = window.columns["id"].as_primitive();
    assert_eq!(
        ids.iter().collect::<Vec<_>>(),
        [Some(i64::MAX), None, Some(1), Some(2)]
    );
    let lines: Vec<_> = window
        .rejects
        .iter()
        .map(|reject| reject.origin.line)
        .collect();
    assert_eq!(lines, [2, 3, 4]);
    for (reject, remedy) in
        window
            .rejects
            .iter()
            .zip(["--id-type string", "--id-type string", "--id-field"])
    {
        assert!(reject.reason.contains(remedy), "{}", reject.reason);
    }
}

#[test]
fn kept_fields_become_typed_columns() {
    let files = Files::new().with(
        "a.jsonl",
        r#"{"text":"t","s":"x","i":1,"f":1,"b":true,"o":{ "k":[1] },"m":{"y":2.5},"n":null}
{"text":"u","s":null,"i":null,"f":1.5,"o":"any","m":{}}"#,
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
    assert_eq!(strings(&windows[0].columns, "id"), [Some("1"), Some("4")]);
    assert_eq!(strings(&windows[0].columns, "l"), [Some("x"), None]);
    assert_eq!(
        windows[0].columns["k"].as_ref(),
        &Int64Array::from(vec![1, 3]) as &dyn Array
    );
    let lines = |window: &Window| -> Vec<_> {
        window
            .rejects
            .iter()
            .map(|reject| reject.origin.line)
            .collect()
    };
    assert_eq!(
        (lines(&windows[0]), lines(&windows[1])),
        (vec![2, 3, 4, 5], vec![7, 8])
    );
    let rejects: Vec<_> = windows.iter().flat_map(|window| &window.rejects).collect();
    assert_eq!(rejects[1].raw, br#"{"text":"b","id":2,"k":"one","l":"x"}"#);
    for (index, remedy) in [
        (1, "k:string"),
        (2, "l:string"),
        (4, "k:float"),
        (5, "l:string"),
    ] {
        let reason = &rejects[index].reason;
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
    assert_eq!(windows[0].rejects.len(), 2);
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

#[test]
fn a_format_that_nothing_tells_must_be_named() {
    let files = Files::new().with("a.csv", "a\n");
    let error = files.open(options()).err().unwrap();
    assert!(matches!(error, Error::Usage(_)));
    assert!(error.to_string().contains("a.csv") && error.to_string().contains("`-i text`"));

    let named = |format| InputOptions {
        format: Some(format),
        ..options()
    };
    assert_eq!(texts(&files.read(named(InputFormat::Text))), ["a"]);
    // Compression is still told by the ending, or by the first bytes.
    let files = Files::new()
        .with("a.csv.gz", gzip(b"a\n"))
        .with("b", zstd(b"b\n"))
        .with("c.jsonl", "{}");
    assert_eq!(
        texts(&files.read(named(InputFormat::Text))),
        ["a", "b", "{}"]
    );
}

#[test]
fn sources_that_cannot_be_read_fail_before_any_work() {
    let files = Files::new().with("a.txt", "a\n");
    let folder = files.folder.path();
    for (path, expected) in [
        (folder.join("missing.txt"), "cannot read"),
        (folder.to_path_buf(), "is a directory"),
    ] {
        let sources = [files.sources[0].clone(), Source::Path(path)];
        let error = failure(RecordReader::open(&sources, options()));
        assert!(error.contains(expected), "{error}");
    }
    let twice = [Source::Stdin, Source::from(std::path::PathBuf::from("-"))];
    let error = failure(RecordReader::open_with(&twice, options(), None));
    assert!(error.contains("only once"), "{error}");
}

#[test]
fn a_file_that_goes_away_is_an_error() {
    let files = Files::new().with("a.txt", "a\n").with("b.txt", "b\n");
    let reader = files.open(options()).unwrap();
    fs::remove_file(files.path(1)).unwrap();
    let error = failure(windows(reader));
    assert!(
        error.contains("cannot read") && error.contains("b.txt"),
        "{error}"
    );
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let text = Files::new().with("a.txt", "");
    let jsonl = Files::new().with("a.jsonl", "");
    for (files, options, expected) in [
        (&jsonl, keeping(&["id"]), "--id-field"),
        (&jsonl, keeping(&["a", "embedding:json"]), "`embedding`"),
        (&jsonl, keeping(&["a", "a:int"]), "twice"),
        (&text, keeping(&["text", "lang"]), "a.txt is read as text"),
        (
            &text,
            keeping(&["text:int"]),
            "`--keep text:int` needs JSONL",
        ),
        (
            &text,
            InputOptions {
                max_record_bytes: 0,
                ..options()
            },
            "--max-record-bytes",
        ),
        (
            &text,
            InputOptions {
                max_record_bytes: usize::MAX,
                ..options()
            },
            "1 GiB",
        ),
        (
            &text,
            InputOptions {
                window_rows: 0,
                ..options()
            },
            "--window",
        ),
    ] {
        let error = files.open(options).err().unwrap();
        assert!(matches!(error, Error::Usage(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn damaged_streams_name_the_file_and_the_line() {
    let lines: String = (0..5000).map(|line| format!("line {line}\n")).collect();
    let mut cut = gzip(lines.as_bytes());
    cut.truncate(cut.len() - 9);
    let files = Files::new().with("a.txt.gz", cut);
    let mut reader = files
        .open(InputOptions {
            window_rows: 10,
            ..options()
        })
        .unwrap();
    let mut read = 0;
    let error = loop {
        match reader.next_window() {
            Ok(window) => read += window.unwrap().texts.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Input { .. }));
    let error = error.to_string();
    assert!(
        error.contains("a.txt.gz, after line ") && error.contains("truncated"),
        "{error}"
    );
    assert!(read > 4000, "{read}");
    assert!(reader.next_window().unwrap().is_none());
}

#[test]
fn standard_input_is_text_unless_it_looks_like_jsonl() {
    let windows = from_stdin(b"{\"body\":1}\n{\"text\":\"a\"}\n", options()).unwrap();
    assert_eq!(texts(&windows), ["{\"body\":1}", "{\"text\":\"a\"}"]);

    let input = b"{\"text\":\"a\"}\n";
    let error = from_stdin(input, options()).unwrap_err();
    assert!(matches!(error, Error::Usage(_)));
    let error = error.to_string();
    assert!(
        error.contains("`-i jsonl`") && error.contains("`-i text`"),
        "{error}"
    );
    assert!(from_stdin(&gzip(input), options()).is_err());

    for (format, expected) in [
        (InputFormat::Jsonl, "a"),
        (InputFormat::Text, "{\"text\":\"a\"}"),
    ] {
        let options = InputOptions {
            format: Some(format),
            ..options()
        };
        assert_eq!(
            texts(&from_stdin(input, options.clone()).unwrap()),
            [expected]
        );
        assert_eq!(
            texts(&from_stdin(&zstd(input), options).unwrap()),
            [expected]
        );
    }
}

#[test]
fn thousands_of_sources_need_few_descriptors() {
    let files = Files::new().with("a.txt", "a\n");
    let sources = vec![files.sources[0].clone(); 5000];
    let reader = RecordReader::open(&sources, options()).unwrap();
    assert_eq!(reader.total_bytes(), Some(10_000));
    let windows = windows(reader).unwrap();
    assert_eq!(
        windows
            .iter()
            .map(|window| window.texts.len())
            .sum::<usize>(),
        5000
    );
}

#[cfg(unix)]
#[test]
fn a_fifo_is_opened_once_and_in_its_turn() {
    let files = Files::new().with("a.txt", "a\n");
    let fifo = files.folder.path().join("b.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let sources = [files.sources[0].clone(), Source::Path(fifo.clone())];
    // Were it opened here, this would wait for ever: nobody writes yet.
    let reader = RecordReader::open(&sources, options()).unwrap();
    assert_eq!(reader.total_bytes(), None);
    let writer = std::thread::spawn(move || fs::write(fifo, "{\"text\":\"b\"}\n"));
    assert_eq!(texts(&windows(reader).unwrap()), ["a", "b"]);
    writer.join().unwrap().unwrap();
}

#[test]
fn a_reader_can_move_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<RecordReader>();
}
