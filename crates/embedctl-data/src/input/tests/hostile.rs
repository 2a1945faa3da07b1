//! Small files that ask for a lot: nested types, counts, and values without end.

use std::thread;

use parquet::basic::Repetition;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::*;
use crate::output::{OutputFormat, provenance, read_vectors};
use embedctl_storage::Readable;

/// A Parquet file without rows, whose one column lies in so many groups.
fn nested_groups(levels: usize) -> Vec<u8> {
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
