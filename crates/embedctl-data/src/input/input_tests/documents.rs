//! Documents: a file is a record.

use super::*;
use crate::reading::compression::tests::gzip;
use arrow::array::AsArray;

fn documents() -> InputOptions {
    InputOptions {
        format: Some(InputFormat::File),
        ..options()
    }
}

fn ids(windows: &[Window]) -> Vec<&str> {
    let ids = windows.iter().map(|it| it.columns["id"].as_string::<i32>());
    ids.flat_map(|ids| ids.iter().map(Option::unwrap)).collect()
}

#[test]
fn a_file_is_a_record_with_its_name_as_id() {
    let files = Files::new()
        .with("a.md", "# Title\r\n\r\nText\n")
        .with("b.txt", "\u{feff}one line")
        .with("c.rst", "")
        .with("d.txt.gz", gzip(b"line\nline\n"))
        .with("e", "\n\n");
    let windows = files.read(documents());
    let expected = [
        "# Title\r\n\r\nText\n",
        "one line",
        "",
        "line\nline\n",
        "\n\n",
    ];
    assert_eq!(texts(&windows), expected);
    let names: Vec<_> = (0..5)
        .map(|index| files.path(index).display().to_string())
        .collect();
    assert_eq!(ids(&windows), names);
    assert!(
        windows
            .iter()
            .all(|window| window.rejects().next().is_none())
    );
    assert!(windows[0].origins().all(|origin| origin.line == 1));

    let kept = files.read(InputOptions {
        keep: vec!["text".parse().unwrap()],
        ..documents()
    });
    let column = kept[0].columns["text"].as_string::<i32>();
    assert_eq!(column.value(0), expected[0]);
}

#[test]
fn a_page_is_its_text() {
    let files = Files::new()
        .with("a.html", "\u{feff}<h1>A</h1><p>b &lt; c")
        .with("b.HTM.gz", gzip(b"<p>x"))
        .with("c.md", "<p>stays");
    let windows = files.read(documents());
    assert_eq!(texts(&windows), ["# A\n\nb < c\n", "x\n", "<p>stays"]);
}

#[test]
fn a_document_on_standard_input_is_one_record() {
    let windows = from_stdin(b"one\ntwo\n", documents()).unwrap();
    assert_eq!(texts(&windows), ["one\ntwo\n"]);
    assert_eq!(ids(&windows), ["standard input"]);
}

/// At every place where a run may have stopped, the rest has the other documents, whole.
#[test]
fn a_run_goes_on_behind_any_document() {
    let files = Files::new()
        .with("a", "1\n2\n3")
        .with("b", "")
        .with("c", "x\ny\n");
    let whole = files.read(documents());
    let one_by_one = InputOptions {
        window_rows: 1,
        ..documents()
    };
    let windows = files.read(one_by_one.clone());
    assert_eq!(windows.len(), 3);
    for (number, window) in windows.iter().enumerate() {
        let rest = files.read_from(one_by_one.clone(), window.position);
        assert_eq!(texts(&rest), texts(&whole)[number + 1..]);
    }
}

#[test]
fn a_document_that_is_no_text_or_too_long_is_a_bad_record() {
    let files = Files::new()
        .with("long", "x\n".repeat(2000))
        .with("binary", b"a\0b")
        .with("latin", b"caf\xe9\n")
        .with("good", "good");
    let windows = files.read(documents());
    assert_eq!(texts(&windows), ["good"]);
    let rejects: Vec<_> = windows.iter().flat_map(Window::rejects).collect();
    let reasons: Vec<_> = rejects.iter().map(|it| it.cause.to_string()).collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    for (reason, words) in reasons.iter().zip(["4000 bytes", "NUL byte", "UTF-8"]) {
        assert!(reason.contains(words), "{reason}");
    }
}

#[test]
fn what_is_no_document_of_text_is_refused_with_a_remedy() {
    let archive = b"PK\x03\x04\x14\0\0\0".as_slice();
    for (name, content, format, words) in [
        (
            "a.pdf",
            b"%PDF-1.7\n".as_slice(),
            InputFormat::File,
            "pdftotext",
        ),
        ("a.docx", archive, InputFormat::File, "ZIP archive"),
        ("a.xlsx", archive, InputFormat::Csv, "save the sheet as CSV"),
        ("a.xlsx", archive, InputFormat::Text, "ZIP archive"),
        ("a.xlsx", archive, InputFormat::Jsonl, "ZIP archive"),
        (
            "a.xls",
            b"\xd0\xcf\x11\xe0\xa1",
            InputFormat::Csv,
            "older Excel",
        ),
        (
            "a.db",
            b"SQLite format 3\0....",
            InputFormat::Text,
            "sqlite3",
        ),
    ] {
        let files = Files::new().with(name, content);
        let options = InputOptions {
            format: Some(format),
            ..options()
        };
        let read = files.open(options).and_then(windows);
        let error = read.map(|_| name).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(name), "{error}");
    }
    // Text may begin with the same words.
    for text in ["SQLite formats\n", "PK\n", "%PDF\n"] {
        let files = Files::new().with("a.txt", text);
        assert_eq!(texts(&files.read(options())), [text.trim_end()]);
    }
    let files = Files::new().with("a", "x");
    let ints = InputOptions {
        id_type: IdType::Int,
        ..documents()
    };
    assert!(failure(files.open(ints)).contains("names of files"));
}
