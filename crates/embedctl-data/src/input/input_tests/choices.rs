//! Templates, all fields, where a record stood, the first records and a draw: in every format.

use super::columns::{read, table};
use super::tables::arrow_file;
use super::*;
use crate::reading::compression::tests::xz;
use arrow::array::{AsArray, Int16Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;

/// The same records in every format that has fields.
fn files(rows: usize) -> Vec<Files> {
    let title = |row: usize| format!("title {row}");
    let body = |row: usize| {
        if row % 3 == 1 {
            String::new()
        } else {
            format!("body {row}")
        }
    };
    let jsonl: String = (0..rows)
        .map(|row| {
            format!(
                "{{\"id\":{row},\"title\":\"{}\",\"text\":\"{}\"}}\n",
                title(row),
                body(row)
            )
        })
        .collect();
    let csv: String = (0..rows)
        .map(|row| format!("{row},{},{}\n", title(row), body(row)))
        .collect();
    let strings =
        |values: Vec<String>| Arc::new(StringArray::from(values)) as arrow::array::ArrayRef;
    let table = RecordBatch::try_from_iter([
        (
            "id",
            strings((0..rows).map(|row| row.to_string()).collect()),
        ),
        ("title", strings((0..rows).map(title).collect())),
        ("text", strings((0..rows).map(body).collect())),
    ])
    .unwrap();
    let mut arrow = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    arrow.write(&table).unwrap();
    let mut parquet = Vec::new();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut parquet, table.schema(), None).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    vec![
        Files::new().with("a.jsonl", jsonl),
        Files::new().with("a.csv", format!("id,title,text\n{csv}")),
        Files::new().with(
            "a.tsv.xz",
            xz(format!("id,title,text\n{csv}")
                .replace(',', "\t")
                .as_bytes()),
        ),
        Files::new().with("a.arrows", arrow.into_inner().unwrap()),
        Files::new().with("a.parquet", parquet),
    ]
}

#[test]
fn a_template_puts_a_text_together() {
    for files in files(4) {
        let window = files.window(InputOptions {
            text_template: Some("{title}: {text} ({id})".parse().unwrap()),
            ..keeping(&["text"])
        });
        assert_eq!(
            window.texts.iter().collect::<Vec<_>>(),
            [
                "title 0: body 0 (0)",
                "title 1:  (1)",
                "title 2: body 2 (2)",
                "title 3: body 3 (3)"
            ]
        );
        let error = failure(windows(
            files
                .open(InputOptions {
                    text_template: Some("{titel}".parse().unwrap()),
                    ..options()
                })
                .unwrap(),
        ));
        assert!(
            error.contains("is called `titel`") && error.contains("`--text-template`"),
            "{error}"
        );
    }
    let text = Files::new().with("a.txt", "a\n");
    let error = failure(text.open(InputOptions {
        text_template: Some("{a}".parse().unwrap()),
        ..options()
    }));
    assert!(error.contains("needs fields"), "{error}");
    // Numbers as they are written; a record with nothing at all is a bad one.
    let files = Files::new().with(
        "a.jsonl",
        "{\"a\":1.50,\"b\":null}\n{\"a\":null}\n{\"b\":[true]}\n",
    );
    let window = files.window(InputOptions {
        text_template: Some("{a}{b}".parse().unwrap()),
        ..options()
    });
    assert_eq!(window.texts.iter().collect::<Vec<_>>(), ["1.50", "[true]"]);
    assert!(
        window
            .rejects()
            .next()
            .unwrap()
            .cause
            .to_string()
            .contains("has nothing in `a`, `b`")
    );
}

#[test]
fn all_fields_can_be_kept() {
    for files in files(4) {
        let window = files.window(keeping(&["*"]));
        let schema = window.columns.schema();
        let names: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(names, ["id", "title", "text"]);
        // The column of ids gives way to a field of its name.
        for (id_field, first) in [(Some("title".to_owned()), "title"), (None, "")] {
            let window = files.window(InputOptions {
                id_field,
                ..keeping(&["*"])
            });
            let schema = window.columns.schema();
            let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
            assert_eq!(names[0], first);
            assert!(names.iter().any(|name| *name == "id"), "{names:?}");
        }
    }
    // A field that comes late has its column from the first row on; after the first window it is told.
    let lines =
        "{\"text\":\"a\",\"b\":1}\n{\"text\":\"b\",\"c\":{\"d\":2}}\n{\"text\":\"c\",\"late\":1}\n";
    let files = Files::new().with("a.jsonl", lines);
    let windows = files.read(InputOptions {
        window_rows: 2,
        ..keeping(&["c:json", "*"])
    });
    let schema = windows[0].columns.schema();
    let names: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names, ["id", "c", "text", "b"]);
    assert_eq!(
        windows[0].columns["b"].as_primitive::<Int64Type>().value(0),
        1
    );
    assert_eq!(windows[1].columns.schema(), schema);
    assert!(
        windows[1].warnings[0].contains("`late`"),
        "{:?}",
        windows[1].warnings
    );
}

#[test]
fn records_can_say_where_they_stood() {
    for files in files(4) {
        let windows = files.read(InputOptions {
            source_columns: true,
            window_rows: 3,
            ..options()
        });
        let mut lines = Vec::new();
        for window in &windows {
            let names = window.columns["file"].as_string::<i32>();
            assert!(names.iter().all(|name| name == files.path(0).to_str()));
            let found = window.columns["line"].as_primitive::<Int64Type>().values();
            lines.extend(found.iter().map(|line| u64::try_from(*line).unwrap()));
        }
        let origins = windows.iter().flat_map(Window::origins);
        assert_eq!(lines, origins.map(|origin| origin.line).collect::<Vec<_>>());
    }
    let texts = Files::new().with("a.txt", "a\n").with("b.txt", "b\n");
    let warnings = texts.window(options()).warnings;
    assert!(warnings[0].contains("2 text inputs repeat"), "{warnings:?}");
    let told = InputOptions {
        source_columns: true,
        ..options()
    };
    assert!(texts.window(told).warnings.is_empty());
}

#[test]
fn the_first_records_and_a_draw_depend_on_nothing_but_the_input() {
    for files in files(50) {
        let all = files.read(options());
        for window_rows in [1, 7, 100] {
            for limit in [1, 10, 50, 70] {
                let first = files.read(InputOptions {
                    limit: Some(limit),
                    window_rows,
                    ..options()
                });
                let count = usize::try_from(limit).unwrap().min(50);
                assert_eq!(texts(&first), texts(&all)[..count]);
            }
        }
        let draw = |window_rows, seed, sample| {
            let drawn = files.read(InputOptions {
                sample: Some(sample),
                seed,
                window_rows,
                ..keeping(&["title"])
            });
            let titles = drawn
                .iter()
                .flat_map(|window| window.columns["title"].as_string::<i32>().iter().flatten());
            titles.map(str::to_owned).collect::<Vec<_>>()
        };
        let drawn = draw(7, 0, 10);
        assert_eq!(drawn.len(), 10);
        assert!((1..100).all(|rows| draw(rows, 0, 10) == drawn));
        assert_ne!(draw(7, 1, 10), drawn);
        let number = |title: &String| title[6..].parse::<u32>().unwrap();
        assert!(drawn.is_sorted_by_key(number));
        assert_eq!(draw(7, 0, 60).len(), 50);
        // Rejected records count as the others do.
        assert_eq!(draw(3, 5, 1).len(), 1);
    }
}

#[test]
fn a_draw_is_even() {
    let lines: String = (0..100).map(|line| format!("{line}\n")).collect();
    let files = Files::new().with("a.txt", lines);
    let mut drawn = [0_u32; 100];
    for seed in 0..400 {
        let sample = InputOptions {
            sample: Some(10),
            seed,
            ..options()
        };
        for text in texts(&files.read(sample)) {
            drawn[text.parse::<usize>().unwrap()] += 1;
        }
    }
    // 40 each on average, with a standard deviation of 6.
    assert_eq!(drawn.iter().sum::<u32>(), 4000);
    assert!(
        drawn.iter().all(|&times| (12..70).contains(&times)),
        "{drawn:?}"
    );
}

#[test]
fn all_fields_are_kept_whatever_they_hold() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for value in ["1e400", r#""\ud800""#, &deep] {
        let line = format!(r#"{{"n":{value},"text":"a","text":"b","k":5}}"#);
        let files = Files::new().with("a.jsonl", line);
        let (values, _) = read(&files, "k", keeping(&["*", "n:json"]));
        assert_eq!(values, ["5"]);
    }
}

#[test]
fn a_misfit_in_a_field_that_came_late_is_rejected_as_it_stood() {
    let misfit = r#"{"text":"c","n":"s"}"#;
    for rest in ["", "{\"text\":\"d\",\"n\":2}\n"] {
        let lines = format!("{{\"text\":\"a\"}}\n{{\"text\":\"b\",\"n\":1}}\n{misfit}\n{rest}");
        let files = Files::new().with("a.jsonl", lines);
        let (_, rejects) = read(&files, "n", keeping(&["*", "text:string"]));
        assert_eq!(rejects, [(3, misfit.to_owned())]);
    }
}

#[test]
fn lines_of_text_fill_the_column_of_the_text_alone() {
    let numbers = arrow_file(&[table(Arc::new(Int16Array::from(vec![1])))]);
    for (files, k) in [
        (Files::new(), vec![]),
        (Files::new().with("a.csv", "text,k\nrow 0,x\n"), vec!["x"]),
        (
            Files::new().with("a.jsonl", "{\"k\":2,\"text\":\"row 0\"}\n"),
            vec!["2"],
        ),
        (Files::new().with("a.arrow", numbers), vec!["1"]),
    ] {
        let files = files.with("b.txt", "line\n");
        let rows = [&vec!["row 0"; k.len()][..], &["line"]].concat();
        assert_eq!(read(&files, "text", keeping(&["*"])).0, rows);
        if !k.is_empty() {
            assert_eq!(
                read(&files, "k", keeping(&["*"])).0,
                [&k[..], &["null"]].concat()
            );
        }
    }
}

#[test]
fn formats_follow_one_another_under_any_columns() {
    let lines = "{\"text\":\"c\",\"k\":\"1\"}\n";
    for (first, second, k) in [
        (("a.jsonl", lines), ("b.csv", "text,k\nb,2\n"), ["1", "2"]),
        (("a.csv", "text,k\nb,2\n"), ("b.jsonl", lines), ["2", "1"]),
    ] {
        let files = Files::new().with(first.0, first.1).with(second.0, second.1);
        for keep in ["k", "*"] {
            assert_eq!(read(&files, "k", keeping(&[keep])).0, k, "{first:?} {keep}");
        }
    }
    let files = Files::new().with("a.txt", "a\n").with("b.csv", "text\nb\n");
    assert_eq!(read(&files, "text", keeping(&["text"])).0, ["a", "b"]);
}
