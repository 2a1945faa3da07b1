//! CSV and TSV whose quotes are ordinary characters, escapes, and fields that are null.

use super::*;
use arrow::array::AsArray;

fn kept(window: &Window, name: &str) -> Vec<Option<String>> {
    let column = window.columns[name].as_string::<i32>();
    column.iter().map(|text| text.map(str::to_owned)).collect()
}

fn written(quote: &str, escape: &str, null: Option<&str>) -> InputOptions {
    InputOptions {
        csv: CsvOptions {
            delimiter: None,
            quote: (!quote.is_empty()).then(|| quote.parse().unwrap()),
            escape: (!escape.is_empty()).then(|| escape.parse().unwrap()),
            null: null.map(str::to_owned),
        },
        ..options()
    }
}

/// A table whose quotes are ordinary characters, of so many columns and rows.
fn unquoted(columns: usize, rows: usize, by: char) -> String {
    let header: Vec<String> = ["id", "text", "a", "b"][..columns]
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut all = header.join(&by.to_string()) + "\n";
    for row in 0..rows {
        let text = match row {
            1 => "\"starts here".to_owned(),
            _ if row == rows - 2 => "ends\"".to_owned(),
            _ => format!("\u{201c}row\u{201d} {row}, 5\" wide"),
        };
        let fields = [row.to_string(), text, "x".to_owned(), "y".to_owned()];
        all += &(fields[..columns].join(&by.to_string()) + "\n");
    }
    all
}

#[test]
fn tsv_whose_quotes_are_ordinary_characters_is_refused_and_read_with_the_option() {
    for columns in [2, 3, 4] {
        for rows in [4, 5, 9, 40] {
            let content = unquoted(columns, rows, '\t');
            let files = Files::new().with("a.tsv", &content);
            let error = files.open(options()).unwrap().next_window().unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains("a.tsv:3") && error.contains("--csv-quote none"),
                "{columns} × {rows}: {error}"
            );
            let windows = files.read(written("none", "", None));
            assert_eq!(texts(&windows).len(), rows);
            assert_eq!(texts(&windows)[1], "\"starts here");
        }
    }
    for content in [
        "id\ttext\n1\t\"open\n2\ttwo\n",
        "id\ttext\n1\t\"Hello\" he said\n2\ttwo\n",
        "id\t\"text\n1\tone\n",
    ] {
        for on_error in [false, true] {
            let files = Files::new().with("a.tsv", content);
            let mut reader = files.open(options()).unwrap();
            if on_error {
                reader.keep_rejected();
            }
            let error = reader.next_window().unwrap_err();
            assert!(error.to_string().contains("--csv-quote none"), "{error}");
        }
    }
    // A field over lines that are no records is quoted for certain.
    let files = Files::new().with("a.tsv", "id\ttext\n1\t\"two\nlines\"\n2\tone\n");
    assert_eq!(texts(&files.read(options())), ["two\nlines", "one"]);
}

#[test]
fn a_quoted_field_over_many_lines_is_a_warning_with_its_line() {
    let field = |lines: usize| "line\n".repeat(lines - 1) + "line";
    for (lines, warns) in [(2, false), (5, false), (6, true), (40, true)] {
        let content = format!("id,text\n0,x\n1,\"{}\"\n2,\"{0}\"\n", field(lines));
        for (name, content) in [
            ("a.csv", content.clone()),
            ("a.tsv", content.replace(',', "\t")),
        ] {
            let window = Files::new().with(name, &content).window(options());
            assert_eq!(window.texts.len(), 3);
            let warnings = window.warnings.join("\n");
            assert_eq!(
                window.warnings.len(),
                usize::from(warns),
                "{lines}: {warnings}"
            );
            assert!(
                !warns
                    || warnings
                        .contains(&format!("{name}:3: a quoted field goes over {lines} lines"))
            );
            let named = Files::new()
                .with(name, &content)
                .window(written("\"", "", None));
            assert!(named.warnings.is_empty());
        }
    }
    let window = Files::new()
        .with("a.csv", unquoted(2, 4, ',').replace(", 5", ""))
        .window(options());
    assert!(
        window.warnings[0].contains("a.csv:3"),
        "{:?}",
        window.warnings
    );
}

#[test]
fn copy_text_is_read_with_its_escapes_and_nulls() {
    let content = "id\ttext\tnote\n1\ta\\tb\\nc\\\\N\t\\N\n2\t\"q\" \\x\t\\\\N\n\\N\t\t\n4\ttwo\\\nlines\tz\n5\t\\N\tw\n6\ttab\\\there\tv\\";
    let options = InputOptions {
        keep: vec!["note".parse().unwrap()],
        ..written("none", "\\", Some("\\N"))
    };
    let window = Files::new().with("a.tsv", content).window(options);
    let texts: Vec<_> = window.texts.iter().collect();
    assert_eq!(
        texts,
        ["a\tb\nc\\N", "\"q\" x", "", "two\nlines", "tab\there"]
    );
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        kept(&window, "note"),
        [None, some("\\N"), some(""), some("z"), some("v\\")]
    );
    assert_eq!(
        kept(&window, "id"),
        [some("1"), some("2"), None, some("4"), some("6")]
    );
    let reject = &window.rejects().next().unwrap();
    assert_eq!(reject.origin.line, 7);
    assert!(
        reject
            .cause
            .to_string()
            .contains("has no text (`text` is null)"),
        "{}",
        reject.cause
    );
}

#[test]
fn quotes_escapes_and_nulls_are_those_that_are_named() {
    for (quote, escape, null, content, expected) in [
        ("'", "", None, "id,text\n1,'a, \"b\"'\n", "a, \"b\""),
        (
            "\"",
            "\\",
            None,
            "id,text\n1,\"a \\\"b\\\", \\\\\"\n",
            "a \"b\", \\",
        ),
        ("", "\\", None, "id,text\n1,\"a\\\"\nb\"\n", "a\"\nb"),
        ("none", "", None, "id,text\n1,\"a\\\n", "\"a\\"),
        ("none", "", Some(""), "id,text\n,a\n", "a"),
        ("", "", Some("NULL"), "id,text\nNULL,NULLs\n", "NULLs"),
    ] {
        let files = Files::new().with("a.csv", content);
        let window = files.window(written(quote, escape, null));
        assert_eq!(
            window.texts.iter().collect::<Vec<_>>(),
            [expected],
            "{content}"
        );
        assert_eq!(
            kept(&window, "id")[0].is_none(),
            null.is_some(),
            "{content}"
        );
    }
    for wrong in ["", "ab", "a", " ", "\n", "é"] {
        assert!(wrong.parse::<CsvQuote>().is_err(), "{wrong:?}");
        assert!(wrong.parse::<CsvEscape>().is_err(), "{wrong:?}");
    }
    for (quote, escape, null, words) in [
        ("|", "|", None, "the same character"),
        (",", "", None, "the same character"),
        ("none", ",", None, "the same character"),
    ] {
        let error = Files::new()
            .with("a.csv", "id,text\n")
            .open(written(quote, escape, null));
        assert!(failure(error).contains(words));
    }
    for options in [
        written("none", "", None),
        written("", "\\", None),
        written("", "", Some("x")),
    ] {
        let error = Files::new().with("a.jsonl", "{}").open(options);
        assert!(failure(error).contains("no input is read as that"));
    }
}

#[test]
fn reading_goes_on_between_escaped_lines() {
    let content: String = (0..8)
        .map(|row| format!("{row}\tone\\\ntwo {row}\n"))
        .collect();
    let files = Files::new().with("a.tsv", format!("id\ttext\n{content}"));
    let one_by_one = || InputOptions {
        window_rows: 1,
        ..written("none", "\\", None)
    };
    let all = files.read(one_by_one());
    assert_eq!(all.len(), 8);
    for (done, window) in (1..).zip(&all) {
        let rest = files.read_from(one_by_one(), window.position);
        assert_eq!(texts(&rest), texts(&all[done..]));
    }
}
