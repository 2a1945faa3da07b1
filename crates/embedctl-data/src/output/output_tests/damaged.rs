//! Damaged files of vectors: they are read as they were written, or refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;

use super::super::{OutputFormat, PROVENANCE, ROWS, prove, provenance as made, read_vectors};
use super::support::*;
use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use embedctl_common::error::{ErrorKind, Result};
use embedctl_storage::Readable;
use embedctl_testing::assert_no_bug;
use embedctl_testing::mutation::{arrow_losing_batches, each};

/// Every vector of a file, bit by bit.
fn vectors(path: &Path) -> Result<Vec<Vec<u32>>> {
    let mut vectors = Vec::new();
    read_vectors(&Readable::file(path)?, &mut |vector| {
        vectors.push(vector.values.iter().map(|value| value.to_bits()).collect());
        Ok(())
    })?;
    Ok(vectors)
}

fn good(name: &str) -> (Vec<u8>, Vec<Vec<u32>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    if let Some(element) = name.strip_suffix("8bin") {
        assert!(["a.i", "a.u"].contains(&element));
        let head = [9u32.to_le_bytes(), 4u32.to_le_bytes()].concat();
        fs::write(&path, [head, (0..36).collect()].concat()).unwrap();
    } else {
        write(&options(&path), 9).unwrap();
    }
    let vectors = vectors(&path).unwrap();
    assert_eq!(vectors.len(), 9);
    (fs::read(&path).unwrap(), vectors)
}

/// Nobody should copy a file again that the system only does not let be read.
#[test]
fn what_the_system_refuses_is_not_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "a.arrow", "a.arrows", "a.npy"] {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        let refused = vectors(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
        assert!(!refused.to_string().contains("damaged"), "{refused}");
    }
}

#[test]
fn damaged_files_of_vectors_are_read_or_refused() {
    for name in [
        "a.parquet",
        "a.arrow",
        "a.arrows",
        "a.jsonl",
        "a.jsonl.gz",
        "a.jsonl.zst",
        "a.npy",
        "a.fbin",
        "a.i8bin",
        "a.u8bin",
        "a.pgcopy",
    ] {
        let (content, right) = good(name);
        let format = OutputFormat::from_path(Path::new(name)).unwrap();
        each(name, &content, 200, |path| {
            assert_no_bug(made(&Readable::file(path).unwrap(), format));
            let Some(read) = assert_no_bug(vectors(path)) else {
                return;
            };
            match name {
                // A sum over everything, so nothing else can come out; but the whole may be there twice.
                "a.jsonl.gz" => assert!(read.len() % 9 == 0 && read[..9] == right[..]),
                // A matrix is as long as it says: one that has lost rows, or has too many, is refused.
                "a.npy" | "a.fbin" | "a.i8bin" | "a.u8bin" => {
                    let size = fs::metadata(path).unwrap().len();
                    let values = read.iter().map(Vec::len).sum::<usize>() as u64;
                    assert!(
                        values <= size && read.windows(2).all(|two| two[0].len() == two[1].len())
                    );
                }
                _ => {}
            }
        });
    }
}

/// What stands beside an output says what it is: its provenance, and the rows of a matrix.
#[test]
fn damaged_sidecars_are_read_or_refused() {
    for (name, ending) in [
        ("a.jsonl", PROVENANCE),
        ("a.arrows", PROVENANCE),
        ("a.npy", PROVENANCE),
        ("a.npy", ROWS),
        ("a.fbin", ROWS),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        write(&options(&path), 9).unwrap();
        let sidecar = |path: &Path| path.with_file_name(format!("{name}{ending}"));
        let good = fs::read(sidecar(&path)).unwrap();
        let format = OutputFormat::from_path(&path).unwrap();
        each(&format!("{name}{ending}"), &good, 100, |damaged| {
            fs::copy(damaged, sidecar(&path)).unwrap();
            let file = Readable::file(&path).unwrap();
            if let Some(Some(made)) = assert_no_bug(made(&file, format)) {
                assert_no_bug(prove(&file, format, &made));
            }
            assert_no_bug(vectors(&path));
        });
    }
}

#[test]
fn an_arrow_file_that_loses_its_batches_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let mut writer = writer(&options(&path)).unwrap();
    for first in [0, 9, 18] {
        writer.write(id_rows(first, 9, 2)).unwrap();
    }
    finish(writer, id_schema()).unwrap();
    for damaged in arrow_losing_batches(&fs::read(&path).unwrap()) {
        fs::write(&path, damaged).unwrap();
        let error = chain(&vectors(&path).unwrap_err());
        assert!(error.contains("record batch"), "{error}");
    }
}

/// Room is made for null rows by their width, so a width that the file cannot hold is refused.
#[test]
fn parquet_whose_vectors_are_wider_than_the_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for (width, is_read) in [(384, true), (5_000_000, false)] {
        let item = Arc::new(Field::new_list_field(DataType::Float32, true));
        let kind = DataType::FixedSizeList(item, width);
        let schema = Schema::new(vec![Field::new("embedding", kind.clone(), true)]);
        let rows = RecordBatch::try_new(Arc::new(schema), vec![new_null_array(&kind, 2)]).unwrap();
        let file = fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let read = vectors(&path).map_err(|error| chain(&error));
        assert_eq!(read.is_ok(), is_read, "{read:?}");
        assert!(is_read || read.unwrap_err().contains("but holds fewer"));
    }
}
