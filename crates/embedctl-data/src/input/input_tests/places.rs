//! Where tables and lines are read from, and where reading begins: in the middle, in shares, from a pipe, from an object.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::basic::Compression;

use super::tables::{arrow_file, arrow_stream, batch, containers, parquet};
use super::*;
use crate::reading::compression::tests::gzip;
use arrow::array::RecordBatch;
use arrow::array::{ArrayRef, StringArray};
use embedctl_records::position::Seek;
use embedctl_storage::{Bytes, Readable};

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
            let by_rows = InputOptions {
                window_rows: 3,
                ..options()
            };
            let rest = files.read_from(by_rows, serde_json::from_str(&text).unwrap());
            assert_eq!(texts(&rest), texts(&all[done..]), "{name} {text}");
            let origins = |windows: &[Window]| -> Vec<_> {
                windows
                    .iter()
                    .flat_map(|window| window.origins().collect::<Vec<_>>())
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
            let range = InputRange {
                shares: Some(vec![Share { source: 0, part }]),
                ..InputRange::default()
            };
            read.extend(files.read_range(options(), &range).unwrap());
        }
        assert_eq!(texts(&read), texts(&whole), "{edges:?}");
        let last = read
            .iter()
            .rev()
            .find_map(|window| window.origins().last())
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
            let by_rows = InputOptions {
                window_rows: 2,
                ..options()
            };
            let range = InputRange {
                shares: Some(vec![Share { source: 0, part }]),
                start: from,
                ..InputRange::default()
            };
            files.read_range(by_rows, &range).unwrap()
        };
        let lines = |windows: &[Window]| -> Vec<u64> {
            let origins = windows.iter().flat_map(Window::origins);
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
    let range = InputRange {
        shares: Some(vec![Share { source: 0, part }]),
        ..InputRange::default()
    };
    let error = failure(stream.read_range(options(), &range));
    assert!(error.contains("cannot be read in parts"), "{error}");
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
    assert!(error.contains("save it and name the file"), "{error}");
    // The content alone gives the same answer, and not an option that would be refused.
    let error = from_stdin(&content, options()).unwrap_err().to_string();
    assert!(error.contains("save it and name the file"), "{error}");
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
    let columns = [
        ("before", padding.clone()),
        ("text", words),
        ("behind", padding),
    ];
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
