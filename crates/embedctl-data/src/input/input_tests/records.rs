//! What a record is, and what becomes of bad ones.

use super::*;
use crate::reading::compression::tests::gzip;
use arrow::array::Array;
use embedctl_records::record::Reject;

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
    assert_eq!(window.origins().next().unwrap().offset, 3);

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
    let files = Files::new().with("a.txt", "ab\u{2028}c\u{85}\td \n");
    assert_eq!(texts(&files.read(options())), ["ab\u{2028}c\u{85}\td "]);
}

#[test]
fn nul_bytes_are_no_text() {
    let window = Files::new().with("a.txt", "a\nb\0c\nd\n").window(options());
    assert_eq!(texts(&[window]), ["a", "d"]);
    let window = Files::new().with("a.txt", "a\nb\0c\nd\n").window(options());
    assert!(
        window
            .rejects()
            .next()
            .unwrap()
            .cause
            .to_string()
            .contains("iconv"),
        "{window:?}"
    );
    // UTF-16 without a byte-order mark, of either order.
    for text in [&b"o\0n\0e\0\n\0"[..], b"\0o\0n\0e\0\n", b"a\0\n\0"] {
        let files = Files::new().with("a.txt", text);
        let error = failure(windows(files.open(options()).unwrap()));
        assert!(error.contains("a.txt: is UTF-16"), "{error}");
    }
}

#[test]
fn a_field_that_no_record_of_the_first_window_has_is_an_error() {
    let line = "{\"text\":\"a\",\"title\":\"b\"}\n";
    let files = Files::new().with("a.jsonl", line.repeat(3));
    for (options, option, name) in [
        (keeping(&["title", "titel"]), "--keep", "titel"),
        (
            InputOptions {
                id_field: Some("key".into()),
                ..options()
            },
            "--id-field",
            "key",
        ),
        (
            InputOptions {
                text_field: "body".into(),
                ..options()
            },
            "--text-field",
            "body",
        ),
    ] {
        let error = failure(windows(files.open(options).unwrap()));
        let expected = format!(
            "a.jsonl: no field is called `{name}`; the first record has `text`, `title`; name one of them \
             with `{option}`"
        );
        assert!(error.ends_with(&expected), "{error}");
    }
    // The default need not be there, null is there, and so is what a later record of the window has.
    let files = Files::new().with("a.jsonl", "{\"text\":\"a\",\"title\":null}\n");
    assert_eq!(files.window(keeping(&["title"])).warnings, [""; 0]);
    let files = files.with("b.jsonl", "{\"text\":\"a\",\"more\":1}\n");
    let window = files.window(keeping(&["title", "more"]));
    assert_eq!(window.columns["more"].null_count(), 1);
    // What no line could be parsed of says nothing about fields.
    let files = Files::new().with("a.jsonl", "{\n");
    assert_eq!(files.window(keeping(&["title"])).rejects().count(), 1);
}

#[test]
fn text_has_no_fields() {
    for wrong in [
        InputOptions {
            id_field: Some("key".into()),
            ..options()
        },
        InputOptions {
            text_field: "body".into(),
            ..options()
        },
    ] {
        let files = Files::new().with("a.txt", "a\n");
        let error = failure(files.open(wrong.clone()));
        assert!(error.contains("needs fields"), "{error}");
        // Beside JSONL it is meant for that.
        let files = files.with("b.jsonl", "{\"text\":\"b\"}\n");
        assert!(files.open(wrong).is_ok());
    }
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
    let rejects: Vec<_> = window.rejects().collect();
    let [json, utf8, long] = rejects.as_slice() else {
        panic!("{rejects:?}");
    };
    assert_eq!((json.origin.line, json.origin.offset), (2, 13));
    assert_eq!(json.raw, b"{\"text\":");
    assert!(json.cause.reason.contains("column 8"), "{}", json.cause);
    assert_eq!((utf8.origin.line, utf8.raw.as_slice()), (3, &b"\xff{}"[..]));
    assert!(
        utf8.cause.reason.contains("not valid UTF-8 at its byte 1"),
        "{}",
        utf8.cause
    );
    assert_eq!((long.origin.line, long.raw.len()), (5, Reject::RAW_BYTES));
    assert!(
        long.cause.to_string().contains("has 1011 bytes"),
        "{}",
        long.cause
    );
    assert!(
        long.cause.to_string().contains("--max-record-bytes"),
        "{}",
        long.cause
    );
}

#[test]
fn a_source_of_bad_records_still_streams() {
    let files = Files::new().with("a.jsonl", "x\n".repeat(25));
    let windows = files.read(InputOptions {
        window_rows: 10,
        ..keeping(&["a"])
    });
    let rejects: Vec<_> = windows
        .iter()
        .map(|window| window.rejects().count())
        .collect();
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
    assert_eq!((window.texts.len(), window.rejects().count()), (3, 2));
}
