//! Damaged inputs of every format: what is read is right, and what is not read is told.

use std::collections::{BTreeSet, HashMap};

use parquet::basic::Compression;
use serde_json::value::RawValue;

use super::hostile::nested_groups;
use super::tables::{KEPT, arrow_file, arrow_stream, batch, packed_file, packed_stream, parquet};
use super::*;
use crate::reading::compression::tests::{bzip2, gzip, xz};
use arrow::ipc::CompressionType;
use embedctl_records::record::Reject;
use embedctl_testing::assert_no_bug;
use embedctl_testing::mutation::{arrow_losing_batches, each, most_asked};

/// The windows of a damaged file, and its bytes; `None` if it is refused, for a reason that is not ours.
fn read(path: &Path, options: InputOptions) -> Option<(Vec<Window>, Vec<u8>)> {
    let opened = RecordReader::open(&[Source::Path(path.to_path_buf())], options);
    let windows = assert_no_bug(opened.and_then(windows))?;
    Some((windows, fs::read(path).unwrap()))
}

/// Where records and rejects begin, in order, and of records the text.
fn starts(windows: &[Window]) -> Vec<(usize, Result<&str, &[u8]>)> {
    let mut starts = Vec::new();
    for window in windows {
        for (row, origin) in window.origins().enumerate() {
            starts.push((origin.offset, Ok(window.texts.get(row))));
        }
        for reject in window.rejects() {
            assert!(!reject.cause.reason.is_empty());
            starts.push((reject.origin.offset, Err(reject.raw.as_slice())));
        }
    }
    starts.sort_by_key(|start| start.0);
    let places: BTreeSet<u64> = starts.iter().map(|start| start.0).collect();
    assert_eq!(places.len(), starts.len(), "a record was read twice");
    (starts.into_iter())
        .map(|(offset, found)| (usize::try_from(offset).unwrap(), found))
        .collect()
}

fn lines(count: usize) -> Vec<u8> {
    let line = |line| {
        let text = "wörds \\u00e9 \\ud83d\\ude00 ".repeat(line % 4);
        format!("{{\"id\":{line},\"text\":\"{text}\",\"n\":{{\"m\":[1,2.5e3,null]}}}}\n")
    };
    (0..count).map(line).collect::<String>().into_bytes()
}

/// Every line is a record, a reject or blank; a record holds what its line says.
#[test]
fn damaged_jsonl_is_read_right_or_rejected() {
    let options = InputOptions {
        window_rows: 5,
        ..keeping(&["n.m:json"])
    };
    each("a.jsonl", &lines(12), 600, |path| {
        let Some((windows, data)) = read(path, options.clone()) else {
            return;
        };
        let mark = if data.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        let blank = |line: &[u8]| line.iter().all(|byte| b" \t\r".contains(byte));
        let mut at = mark;
        let mut expected = Vec::new();
        for line in data[mark..].split(|&byte| byte == b'\n') {
            if !blank(line) {
                expected.push((at, line));
            }
            at += line.len() + 1;
        }
        let found = starts(&windows);
        assert_eq!(found.len(), expected.len());
        for ((offset, found), (at, line)) in found.into_iter().zip(expected) {
            assert_eq!(offset, at);
            if let Ok(text) = found {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                // Other fields may be numbers beyond any type.
                let value: HashMap<String, Box<RawValue>> = serde_json::from_slice(line).unwrap();
                let written: String = serde_json::from_str(value["text"].get()).unwrap();
                assert_eq!(written, text);
            }
        }
    });
}

/// The fields of one record, by the rules alone; `None` if its quoting is wrong.
fn fields(record: &[u8], delimiter: u8) -> Option<Vec<Vec<u8>>> {
    let mut fields = vec![Vec::new()];
    let mut bytes = record.iter().copied().peekable();
    let mut is_start = true;
    while let Some(byte) = bytes.next() {
        let field = fields.last_mut()?;
        if byte == b'"' && is_start {
            loop {
                match bytes.next()? {
                    b'"' if bytes.peek() == Some(&b'"') => field.push(bytes.next()?),
                    b'"' => break,
                    byte => field.push(byte),
                }
            }
            if bytes.peek().is_some_and(|&next| next != delimiter) {
                return None;
            }
            is_start = false;
        } else if byte == delimiter {
            fields.push(Vec::new());
            is_start = true;
        } else {
            field.push(byte);
            is_start = false;
        }
    }
    Some(fields)
}

/// Every line is in a record, a reject, or blank; a record holds what its lines say, no more and no fewer of them.
fn check_fields(path: &Path, delimiter: u8) {
    let options = InputOptions {
        window_rows: 5,
        ..options()
    };
    let Some((windows, data)) = read(path, options) else {
        return;
    };
    let found = starts(&windows);
    let ends = found.iter().skip(1).map(|start| start.0);
    let trimmed = |bytes: &'_ [u8]| {
        let end = bytes.iter().rposition(|byte| !b"\r\n".contains(byte));
        bytes[..end.map_or(0, |end| end + 1)].to_vec()
    };
    let header = &data[..found.first().map_or(data.len(), |first| first.0)];
    let header = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header);
    let first = header.iter().position(|byte| !b"\r\n".contains(byte));
    let Some(first) = first else {
        assert!(found.is_empty(), "records without a header");
        return;
    };
    let names = fields(&trimmed(&header[first..]), delimiter).expect("a header was read");
    let text = names.iter().position(|name| name == b"text").unwrap();
    for ((offset, found), end) in found.iter().zip(ends.chain([data.len()])) {
        let bytes = trimmed(&data[*offset..end]);
        match found {
            Ok(read) => {
                let fields = fields(&bytes, delimiter).expect("a record with right quoting");
                assert_eq!(fields.len(), names.len());
                let trim = |text: &[u8]| trimmed(text);
                assert_eq!(trim(&fields[text]), trim(read.as_bytes()));
            }
            // Of a long one the beginning is kept.
            Err(raw) if raw.len() == Reject::RAW_BYTES => assert!(bytes.starts_with(raw)),
            Err(raw) => assert_eq!(trimmed(raw), bytes, "a reject is its lines, no others"),
        }
    }
}

/// Each text of a request is a record, and each line that is no request a rejected one.
#[test]
fn damaged_batch_files_are_read_right_or_rejected() {
    let request = |row| {
        format!(
            "{{\"custom_id\":\"r{row}\",\"body\":{{\"input\":[\"text {row}\",\"more \\u00e9\"]}}}}\n\
             {{\"custom_id\":{row},\"body\":{{\"input\":\"text {row}\"}}}}\n"
        )
    };
    let requests: String = (0..6).map(request).collect();
    let options = InputOptions {
        format: Some(InputFormat::OpenAiBatch),
        window_rows: 5,
        ..keeping(&["index"])
    };
    each("a.jsonl", requests.as_bytes(), 600, |path| {
        let Some((windows, data)) = read(path, options.clone()) else {
            return;
        };
        let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&data);
        let blank = |line: &[u8]| line.iter().all(|byte| b" \t\r".contains(byte));
        let lines = data
            .split(|&byte| byte == b'\n')
            .filter(|line| !blank(line));
        let (mut least, mut most) = (0, 0);
        for line in lines {
            // A damaged request is a bad record, or as many as its list still has elements.
            let is_list = line.ends_with(b"]}}")
                && requests.as_bytes().windows(line.len()).any(|it| it == line);
            least += if is_list && line.starts_with(b"{\"custom_id\"") {
                2
            } else {
                1
            };
            most += 1 + line.iter().filter(|byte| **byte == b',').count();
        }
        let found = starts(&windows).len();
        assert!((least..=most).contains(&found), "{least} {found} {most}");
    });
}

#[test]
fn damaged_csv_is_read_right_or_rejected() {
    let row =
        |row| format!("{row},\"text, {row}\nline\",\"a \"\"b\"\"\"\n{row},plain {row},\r\n\n");
    let rows: String = (0..10).map(row).collect();
    let csv = format!("id,text,more\n{rows}");
    each("a.csv", csv.as_bytes(), 300, |path| {
        check_fields(path, b',');
    });
    let tsv = csv.replace(',', "\t");
    each("a.tsv", tsv.as_bytes(), 300, |path| {
        check_fields(path, b'\t');
    });
}

fn zstd_checked(data: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    std::io::copy(&mut Cursor::new(data), &mut encoder).unwrap();
    encoder.finish().unwrap()
}

/// All of these end in a sum over their content: what is read to its end is what was written, be it several times.
#[test]
fn damaged_compressed_inputs_are_read_right_or_refused() {
    let text: String = (0..300)
        .map(|line| format!("line {line} of many\n"))
        .collect();
    let text = text.as_bytes();
    for (name, content) in [
        ("a.txt.gz", gzip(text)),
        ("a.txt.zst", zstd_checked(text)),
        ("a.txt.bz2", bzip2(text)),
        ("a.txt.xz", xz(text)),
    ] {
        each(name, &content, 300, |path| {
            if let Some((windows, _)) = read(path, options()) {
                let read: String = texts(&windows)
                    .iter()
                    .map(|line| format!("{line}\n"))
                    .collect();
                let times = read.len() / text.len();
                assert_eq!(read.as_bytes(), text.repeat(times), "{name}");
                assert!(
                    windows
                        .iter()
                        .all(|window| window.rejects().next().is_none())
                );
            }
        });
    }
}

/// What a table promises is there, or it is refused: rows are neither invented nor lost. A stream may be cut where
/// a batch ends, and a batch may be there twice.
#[test]
fn damaged_tables_are_read_or_refused() {
    let batches = [batch(0, 20), batch(20, 20)];
    let zstd = Compression::ZSTD(parquet::basic::ZstdLevel::default());
    let packed = [CompressionType::LZ4_FRAME, CompressionType::ZSTD].map(Some);
    for (name, content) in [
        ("lz4.arrow", packed_file(&batches, packed[0])),
        ("lz4.arrows", packed_stream(&batches, packed[0])),
        ("zstd.arrow", packed_file(&batches, packed[1])),
        ("zstd.arrows", packed_stream(&batches, packed[1])),
        // Of a schema alone.
        ("nested.parquet", nested_groups(60)),
        ("a.parquet", parquet(&batches, 15, Compression::SNAPPY)),
        ("b.parquet", parquet(&batches, 40, zstd)),
        ("a.arrow", arrow_file(&batches)),
        ("a.arrows", arrow_stream(&batches)),
    ] {
        each(name, &content, 150, |path| {
            if let Some((windows, _)) = read(path, keeping(&KEPT)) {
                let found = starts(&windows);
                assert!(
                    found.len() <= 40 || !name.ends_with(".parquet"),
                    "{}",
                    found.len()
                );
                // Of rows one says the number of the next.
                assert!(found.iter().enumerate().all(|(row, start)| row == start.0));
            }
        });
    }
}

/// The length that a compressed buffer claims is reserved by the decoder before it looks at the content.
#[test]
fn a_compressed_buffer_that_claims_more_than_it_holds_is_refused() {
    let rows = batch(0, 2000);
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        for (name, content) in [
            (
                "a.arrow",
                packed_file(std::slice::from_ref(&rows), Some(codec)),
            ),
            (
                "a.arrows",
                packed_stream(std::slice::from_ref(&rows), Some(codec)),
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            let is_read = |content: &[u8]| {
                fs::write(&path, content).unwrap();
                let asked = most_asked(|| {
                    let opened = RecordReader::open(&[Source::Path(path.clone())], keeping(&KEPT));
                    if let Err(error) = opened.and_then(windows) {
                        let said = error.to_string();
                        assert!(!said.contains("bug"), "{said}");
                    }
                });
                assert!(asked <= 64 << 20, "{asked} bytes at a time");
                let opened = RecordReader::open(&[Source::Path(path.clone())], keeping(&KEPT));
                opened.and_then(windows)
            };
            assert!(is_read(&content).is_ok());
            // Each claim of a frame: eight bytes before its magic number.
            let magic: [u8; 4] = match codec {
                CompressionType::ZSTD => [0x28, 0xb5, 0x2f, 0xfd],
                _ => [0x04, 0x22, 0x4d, 0x18],
            };
            let frames = content.windows(4).enumerate();
            let frames = frames.filter_map(|(at, found)| (found == magic).then_some(at - 8));
            let frames: Vec<usize> = frames.collect();
            assert!(frames.len() > 2, "{frames:?}");
            for at in frames {
                for claim in [1_u64 << 36, 1 << 30, 1 << 62, 65 << 20] {
                    let mut hostile = content.clone();
                    hostile[at..at + 8].copy_from_slice(&claim.to_le_bytes());
                    let said = failure(is_read(&hostile));
                    assert!(said.contains("claim"), "{name} at {at}: {said}");
                }
            }
        }
    }
}

#[test]
fn an_arrow_file_that_loses_its_batches_is_refused() {
    let file = arrow_file(&[batch(0, 20), batch(20, 20), batch(40, 20)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    for (damaged, said) in arrow_losing_batches(&file)
        .iter()
        .zip(["it names no record", "a record batch does not say"])
    {
        fs::write(&path, damaged).unwrap();
        let opened = RecordReader::open(&[Source::Path(path.clone())], keeping(&KEPT));
        let error = opened.and_then(windows).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
