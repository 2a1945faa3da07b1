//! Small files that ask for a lot: nested types, counts, and values without end.

use std::thread;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, ListArray, NullArray,
    RecordBatch, StringArray,
};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use parquet::basic::{Compression, Repetition};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::tables::{arrow_file, arrow_stream, parquet};
use super::*;
use crate::output::{OutputFormat, provenance, read_vectors};
use embedctl_common::stage::thread_time;
use embedctl_records::retype::exact_cast;
use embedctl_storage::Readable;
use embedctl_testing::{mutation::most_asked, stride};

/// A Parquet file without rows, whose one column lies in so many groups.
pub fn nested_groups(levels: usize) -> Vec<u8> {
    let work = move || {
        let leaf = Type::primitive_type_builder("text", parquet::basic::Type::BYTE_ARRAY);
        let leaf = leaf.with_repetition(Repetition::OPTIONAL).build();
        let mut kind = Arc::new(leaf.unwrap());
        for _ in 1..levels {
            let group = Type::group_type_builder("group")
                .with_repetition(Repetition::OPTIONAL)
                .with_fields(vec![kind]);
            kind = Arc::new(group.build().unwrap());
        }
        let root = Type::group_type_builder("schema").with_fields(vec![kind]);
        let properties = Arc::new(WriterProperties::default());
        let root = Arc::new(root.build().unwrap());
        let writer = SerializedFileWriter::new(Vec::new(), root, properties).unwrap();
        writer.into_inner().unwrap()
    };
    // The writer recurses as well.
    let thread = thread::Builder::new().stack_size(1 << 30);
    thread.spawn(work).unwrap().join().unwrap()
}

#[test]
fn parquet_whose_groups_are_nested_without_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for (levels, is_read) in [
        (1, true),
        (2, true),
        (200, true),
        (201, false),
        (1500, false),
        (20_000, false),
    ] {
        fs::write(&path, nested_groups(levels)).unwrap();
        let opened = RecordReader::open(&[Source::Path(path.clone())], options());
        let said = match opened.and_then(windows) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said.contains("nested"), !is_read, "{levels}: {said}");
        // As `inspect` and `--reuse` read it.
        let file = Readable::file(&path).unwrap();
        let read = read_vectors(&file, &mut |_| Ok(()));
        let said = read
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert_eq!(said.contains("nested"), !is_read, "{levels}: {said}");
        assert!(provenance(&file, OutputFormat::Parquet).unwrap().is_none());
    }
}

/// A batch whose record 1 is small in memory and huge when it is written, in some column.
fn huge_when_written(kind: &str, size: usize) -> RecordBatch {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let long = "x".repeat(size);
    let keys = Int32Array::from(vec![0, 1, 0]);
    let values: ArrayRef = match kind {
        "text" => Arc::new(StringArray::from(vec!["", &long, ""])),
        "dictionary" => {
            let values = StringArray::from(vec!["", &long]);
            Arc::new(DictionaryArray::new(keys, Arc::new(values)))
        }
        "nulls" => {
            let item = Arc::new(Field::new_list_field(DataType::Null, true));
            let lists = OffsetBuffer::from_lengths([0, size, 0]);
            Arc::new(ListArray::new(
                item,
                lists,
                Arc::new(NullArray::new(size)),
                None,
            ))
        }
        "flags" => {
            let item = Arc::new(Field::new_list_field(DataType::Boolean, true));
            let lists = OffsetBuffer::from_lengths([0, size, 0]);
            let flags = BooleanArray::new(BooleanBuffer::new_unset(size), None);
            Arc::new(ListArray::new(item, lists, Arc::new(flags), None))
        }
        other => unreachable!("{other}"),
    };
    RecordBatch::try_from_iter([("text", texts), ("kept", values)]).unwrap()
}

#[test]
fn a_record_that_is_huge_when_it_is_written_is_rejected_and_its_neighbours_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["text", "dictionary", "nulls", "flags"] {
        // Beyond the limit of a record, and far beyond it.
        for size in [200_000, 8 << 20] {
            let batch = huge_when_written(kind, size);
            for (name, content) in [
                (
                    "a.parquet",
                    parquet(std::slice::from_ref(&batch), 100, Compression::UNCOMPRESSED),
                ),
                ("a.arrow", arrow_file(std::slice::from_ref(&batch))),
                ("a.arrows", arrow_stream(std::slice::from_ref(&batch))),
            ] {
                let path = folder.path().join(name);
                fs::write(&path, content).unwrap();
                let options = InputOptions {
                    max_record_bytes: 100_000,
                    ..keeping(&["kept"])
                };
                let opened = RecordReader::open(&[Source::Path(path)], options);
                let windows = opened.and_then(windows).unwrap();
                assert_eq!(texts(&windows), ["a", "c"], "{kind} in {name}");
                let rejects: Vec<_> = windows.iter().flat_map(Window::rejects).collect();
                let [reject] = rejects.as_slice() else {
                    panic!("{kind} in {name}: {rejects:?}")
                };
                assert!(
                    reject.cause.reason.contains("more than the limit"),
                    "{:?}",
                    reject.cause
                );
                assert!(reject.fields.members().len() < 1000);
            }
        }
    }
}

/// A value of 1 MB stands in every row: 2 GB as text, if all rows were unpacked together.
#[test]
fn a_long_value_of_a_dictionary_is_not_copied_for_every_row_at_once() {
    const ROWS: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let keys = Int32Array::from(vec![0; ROWS]);
    let long = StringArray::from(vec!["x".repeat(1 << 20)]);
    let packed: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(long)));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["text"; ROWS]));
    let plain = exact_cast(&packed, &DataType::Utf8).unwrap();
    for (name, kept) in [
        ("a.arrow", &packed),
        ("a.parquet", &plain),
        ("b.parquet", &packed),
    ] {
        let batch =
            RecordBatch::try_from_iter([("text", Arc::clone(&words)), ("kept", Arc::clone(kept))]);
        let batch = [batch.unwrap()];
        let content = match name {
            "a.arrow" => arrow_file(&batch),
            _ => parquet(&batch, 1000, Compression::UNCOMPRESSED),
        };
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        for keep in ["kept", "kept:string"] {
            let options = InputOptions {
                max_record_bytes: 4 << 20,
                ..keeping(&[keep])
            };
            let mut rows = 0;
            let asked = most_asked(|| {
                let opened = RecordReader::open(&[Source::Path(path.clone())], options.clone());
                let mut reader = opened.unwrap();
                while let Some(window) = reader.next_window().unwrap() {
                    assert!(window.rejects().next().is_none());
                    rows += window.texts.len();
                }
            });
            assert_eq!(rows, ROWS, "{name}, {keep}");
            assert!(
                asked <= 160 << 20,
                "{name}, {keep}: {asked} bytes at a time"
            );
        }
    }
}

/// A record of so many fields takes time by their number, and not by its square.
#[test]
fn a_hundred_thousand_fields_are_kept_in_some_seconds() {
    let fields = 100_000 / stride(4);
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..fields).map(|field| format!("field {field}")).collect();
    let members = keys.iter().map(|key| format!(",\"{key}\":1"));
    let line = format!("{{\"text\":\"a\"{}}}\n", members.collect::<String>());
    let heads = keys.iter().map(|key| format!(",{key}")).collect::<String>();
    let cells = ",1".repeat(fields);
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let columns = keys.iter().map(|key| (key.as_str(), Arc::clone(&one)));
    let columns = std::iter::once(("text", text)).chain(columns);
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let files = [
        ("a.jsonl", line.repeat(2).into_bytes()),
        (
            "a.csv",
            format!("text{heads}\na{cells}\na{cells}\n").into_bytes(),
        ),
        ("a.arrow", arrow_file(&[batch.slice(0, 1)])),
        (
            "a.parquet",
            parquet(&[batch], 10, Compression::UNCOMPRESSED),
        ),
    ];
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let options = InputOptions {
            max_record_bytes: 64 << 20,
            ..keeping(&["*"])
        };
        // Processor time: others may take the processor meanwhile.
        let began = thread_time();
        let opened = RecordReader::open(&[Source::Path(path)], options);
        let windows = opened.and_then(windows).unwrap();
        let took = thread_time().zip(began).map(|(end, began)| end - began);
        assert!(windows[0].columns.num_columns() > fields, "{name}");
        // The square of them is 10^10 comparisons: minutes.
        assert!(
            took.is_none_or(|took| took < std::time::Duration::from_secs(20)),
            "{name}: {took:?}"
        );
    }
}

/// A few kilobytes of Parquet that hold a value, or a list, far beyond the limit of a record.
#[test]
fn parquet_with_a_page_of_one_huge_value_is_refused_before_it_is_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let zstd = Compression::ZSTD(parquet::basic::ZstdLevel::default());
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(48 << 20)]));
    let one: ArrayRef = Arc::new(StringArray::from(vec!["text"]));
    let many = usize::try_from(crate::formats::parquet::MOST_ELEMENTS).unwrap() + 1;
    let item = Arc::new(Field::new_list_field(DataType::Null, true));
    let nulls = OffsetBuffer::from_lengths([many]);
    let nulls = ListArray::new(item, nulls, Arc::new(NullArray::new(many)), None);
    for (columns, said) in [
        (vec![("text", Arc::clone(&text))], "the limit of a record"),
        (
            vec![("text", Arc::clone(&one)), ("kept", text)],
            "the limit of a record",
        ),
        (
            vec![("text", one), ("kept", Arc::new(nulls))],
            "the lists of some rows",
        ),
    ] {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        fs::write(&path, parquet(std::slice::from_ref(&batch), 10, zstd)).unwrap();
        let kept: &[&str] = if batch.num_columns() > 1 {
            &["kept"]
        } else {
            &[]
        };
        let options = InputOptions {
            max_record_bytes: 4 << 20,
            ..keeping(kept)
        };
        let mut error = String::new();
        let asked = most_asked(|| {
            let opened = RecordReader::open(&[Source::Path(path.clone())], options);
            error = failure(opened.and_then(windows));
        });
        assert!(
            error.contains(said) && !error.contains("damaged"),
            "{error}"
        );
        assert!(asked < 32 << 20, "{asked} bytes at a time: {error}");
    }
}
