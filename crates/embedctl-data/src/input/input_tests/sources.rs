//! Where records come from: files, pipes, compression, and what is refused.

use super::tables::{arrow_stream, batch};
use super::*;
use crate::reading::compression::tests::{gzip, zstd};
use arrow::array::AsArray;
use embedctl_common::error::ErrorKind;

#[test]
fn a_pointer_of_git_lfs_is_named_in_each_format() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n";
    for name in [
        "a.txt",
        "a.jsonl",
        "a.json",
        "a.csv",
        "a.parquet",
        "a.arrow",
    ] {
        let files = Files::new().with(name, pointer);
        let read = files.open(options()).and_then(windows);
        let error = read.unwrap_err().to_string();
        for part in [name, "is a pointer to a file in Git LFS", "git lfs pull"] {
            assert!(error.contains(part), "{error}");
        }
    }
    // Text about a pointer is text.
    let files = Files::new().with("a.txt", format!("{pointer}is a pointer\n"));
    assert_eq!(texts(&files.read(options())).len(), 4);
}

#[test]
fn an_array_on_standard_input_without_a_format_is_recognised() {
    for array in [
        r#"[{"text": "a cat"}, {"text": "b"}]"#,
        r#"["a", "b"]"#,
        "[\n  {\n    \"text\": \"a cat\"\n  }\n]\n",
        "\n [\n\n  \"a\",\n  \"b\"\n]\n",
        "[{\"text\": \"a\"},\n {\"text\": \"b\"}]",
    ] {
        let error = from_stdin(array.as_bytes(), options()).unwrap_err();
        let error = error.to_string();
        for part in ["standard input looks like JSON", "`-i json`", "`-i text`"] {
            assert!(error.contains(part), "{array}: {error}");
        }
        let json = InputOptions {
            format: Some(InputFormat::Json),
            ..options()
        };
        assert!(!texts(&from_stdin(array.as_bytes(), json).unwrap()).is_empty());
        let text = InputOptions {
            format: Some(InputFormat::Text),
            ..options()
        };
        let read = from_stdin(array.as_bytes(), text).unwrap();
        assert!(read.iter().all(|window| window.warnings.is_empty()));
        // A name that says text decides, with a warning.
        let read = Files::new().with("a.txt", array).read(options());
        let warnings: Vec<_> = read.iter().flat_map(|window| &window.warnings).collect();
        assert!(warnings[0].contains("looks like JSON"), "{warnings:?}");
    }
    for text in [
        "[1] a footnote\n",
        "[1]\n",
        "[a link](https://example.org)\n",
        "[\nwords\n]\n",
        "[\"a quotation\"], he said\n",
        "words\n[\"a\"]\n",
    ] {
        let read = from_stdin(text.as_bytes(), options()).unwrap();
        assert_eq!(texts(&read).len(), text.lines().count(), "{text}");
        let read = Files::new().with("a.txt", text).read(options());
        assert!(read.iter().all(|window| window.warnings.is_empty()));
    }
}

#[test]
fn elements_of_an_array_that_are_no_records_are_told_by_number() {
    let files = Files::new().with("a.json", r#"["a cat", 3, [1]]"#);
    let windows = files.read(options());
    assert_eq!(texts(&windows), ["a cat"]);
    let reasons: Vec<_> = (windows.iter().flat_map(Window::rejects))
        .map(|reject| format!("{reject:?}"))
        .collect();
    assert!(reasons[0].contains("element 2 is an integer, neither an object nor a string"));
    assert!(reasons[0].contains("the field `text`, or a string"));
    assert!(!reasons[0].contains("-i text"));
    assert!(reasons[1].contains("element 3 is an array"), "{reasons:?}");
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
        window.columns["id"]
            .as_string::<i32>()
            .iter()
            .collect::<Vec<_>>(),
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
        .origins()
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
    assert!(window.rejects().next().is_none());
    let reader = files.open(options()).unwrap();
    assert!(reader.names()[2].ends_with("b.jsonl"));
    assert_eq!(reader.total_bytes(), Some(window.consumed));
}

#[test]
fn a_format_that_nothing_tells_must_be_named() {
    let files = Files::new().with("a.dat", "a\n");
    let error = files.open(options()).err().unwrap();
    assert!(error.kind() == ErrorKind::Usage);
    assert!(error.to_string().contains("a.dat") && error.to_string().contains("`-i text`"));

    let named = |format| InputOptions {
        format: Some(format),
        ..options()
    };
    assert_eq!(texts(&files.read(named(InputFormat::Text))), ["a"]);
    // Compression is still told by the ending, or by the first bytes.
    let files = Files::new()
        .with("a.dat.gz", gzip(b"a\n"))
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
        (folder.join("missing.txt"), "there is no input"),
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
fn a_record_that_was_cut_meanwhile_is_not_embedded() {
    let files = Files::new().with("a.txt", "one\ntwo and more\n");
    let mut reader = files.open(options()).unwrap();
    fs::write(files.path(0), "one\ntwo and").unwrap();
    let error = reader.next_window().unwrap_err().to_string();
    assert!(
        error.contains("a.txt, after line 1") && error.contains("ends after 11 now"),
        "{error}"
    );
    assert!(reader.next_window().unwrap().is_none());
    // One that grows is read as far as it goes.
    let files = Files::new().with("a.txt", "one\n");
    let reader = files.open(options()).unwrap();
    fs::write(files.path(0), "one\ntwo\n").unwrap();
    assert_eq!(texts(&windows(reader).unwrap()), ["one", "two"]);
}

/// Lines, and an Arrow stream: also one that is cut between two of its batches, where it could be at its end.
#[test]
fn what_was_cut_meanwhile_helps_to_run_again() {
    let batches = [batch(0, 5), batch(5, 5)];
    let stream = arrow_stream(&batches);
    let between = arrow_stream(&batches[..1]).len() - END_OF_STREAM;
    let lines = "one\ntwo and more\n".as_bytes();
    for (name, content, left) in [
        ("a.txt", lines, 7),
        ("a.arrows", &stream[..], stream.len() - 20),
        ("a.arrows", &stream[..], between),
        ("a.arrows", &stream[..], 40),
    ] {
        let files = Files::new().with(name, content);
        let reader = files.open(options()).unwrap();
        fs::write(files.path(0), &content[..left]).unwrap();
        let error = windows(reader).unwrap_err();
        let ends = format!("ends after {left} now");
        assert!(error.reason().contains(&ends), "{name}: {error}");
        assert_eq!(error.remedy(), Some("run again when it is complete"));
    }
}

/// Bytes of the mark behind the last batch.
const END_OF_STREAM: usize = 8;

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
        (&jsonl, keeping(&["id"]), "--id-type"),
        (&jsonl, keeping(&["a", "a:int"]), "twice"),
        (&text, keeping(&["text", "lang"]), "a.txt is read as text"),
        (
            &text,
            keeping(&["text:int"]),
            "`--keep text:int` needs fields",
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
            "window",
        ),
    ] {
        let error = files.open(options).err().unwrap();
        assert!(error.kind() == ErrorKind::Usage, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn damaged_streams_name_the_file_and_the_line() {
    let lines: Vec<_> = (0..5000).map(|line| format!("line {line}\n")).collect();
    let mut cut = gzip(lines.concat().as_bytes());
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
    assert_eq!(error.kind(), ErrorKind::Input);
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
    let windows = from_stdin(b"{body:1}\n{\"text\":\"a\"}\n", options()).unwrap();
    assert_eq!(texts(&windows), ["{body:1}", "{\"text\":\"a\"}"]);

    let input = b"{\"text\":\"a\"}\n";
    for (input, words) in [
        (&input[..], "with the field `text`"),
        (b"{\"body\":1}\n", "`--text-field`"),
    ] {
        let error = from_stdin(input, options()).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage);
        let error = error.to_string();
        for words in [words, "`-i jsonl`", "`-i text`"] {
            assert!(error.contains(words), "{error}");
        }
    }
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
    let path =
        std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(fifo.as_os_str())).unwrap();
    // SAFETY: `path` is a string that ends in NUL and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
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

#[test]
fn windows_of_a_run_that_begins_small_grow() {
    let lines = "a\n".repeat(700);
    let files = Files::new().with("a.txt", &lines);
    let mut reader = files
        .open(InputOptions {
            window_rows: 300,
            ..options()
        })
        .unwrap();
    reader.begin_small();
    let sizes: Vec<_> = windows(reader)
        .unwrap()
        .iter()
        .map(|window| window.texts.len())
        .collect();
    assert_eq!(sizes, [64, 128, 256, 252]);
}
