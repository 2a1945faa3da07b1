//! Arrow's IPC format, read back with the crate that wrote it.

use std::fs::File;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::formats::write_kept;
use crate::output::tests::support::*;
use crate::output::{Destination, Forms, OutputOptions, RunFiles, RunOutput, VectorType, create};
use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Float32Type, Int32Type, Schema};
use arrow::ipc::reader::{FileReader, StreamReader};
use embedctl_records::record::Rows;

fn read_file(path: &Path) -> (Vec<RecordBatch>, Option<Value>) {
    let reader = FileReader::try_new(File::open(path).unwrap(), None).unwrap();
    let provenance = reader.custom_metadata().get("embedctl").cloned();
    let provenance = provenance.map(|text| serde_json::from_str(&text).unwrap());
    (reader.map(Result::unwrap).collect(), provenance)
}

fn read_stream(bytes: Vec<u8>) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(Cursor::new(bytes), None).unwrap();
    reader.map(Result::unwrap).collect()
}

#[test]
fn a_file_keeps_every_type_and_null_and_its_provenance() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["out.arrow", "out.arrows"] {
        let path = at(&folder, name);
        write_kept(&path, 0);
        let batches = match name {
            "out.arrow" => {
                let (batches, provenance) = read_file(&path);
                let mut provenance = provenance.unwrap();
                let hashes = provenance.as_object_mut().unwrap().remove("sha256");
                assert_eq!(hashes.unwrap()["file"].as_str().unwrap().len(), 64);
                assert_eq!(provenance, written());
                batches
            }
            _ => read_stream(std::fs::read(&path).unwrap()),
        };
        let lengths: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(lengths, [3, 2]);
        let columns: Vec<usize> = (0..6).collect();
        // NaN among them, which equals nothing.
        let shown = |batch: &RecordBatch| format!("{:?}", batch.project(&columns).unwrap());
        assert_eq!(shown(&batches[0]), shown(&kept_batch()));
        let vectors = batches[1]["embedding"].as_fixed_size_list();
        let expected: Vec<f32> = (3..5).flat_map(|row| vector(row, 2)).collect();
        let values = vectors.values().as_primitive::<Float32Type>();
        assert_eq!(values.values(), &expected[..]);
    }
    let names = listing(folder.path());
    assert_eq!(names, ["out.arrow", "out.arrows", "out.arrows.json"]);
    let sidecar = std::fs::read_to_string(at(&folder, "out.arrows.json")).unwrap();
    let mut sidecar: Value = serde_json::from_str(&sidecar).unwrap();
    let hashes = sidecar.as_object_mut().unwrap().remove("sha256").unwrap();
    assert_eq!(hashes["stream"].as_str().unwrap().len(), 64);
    assert_eq!(sidecar, written());
}

/// `id` and columns of types that no JSON has; every batch with a dictionary of its own.
fn nested(first: i64) -> RecordBatch {
    let words = StringArray::from(vec![Some(format!("word {first}")), None]);
    let keys = arrow::array::Int32Array::from(vec![0, 0]);
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(
        keys,
        Arc::new(words.clone()),
    ));
    let times = TimestampMicrosecondArray::from(vec![first, first + 1]).with_timezone("UTC");
    let lists = ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>([
        Some(vec![Some(first), None]),
        None,
    ]);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![first, 7]));
    let in_struct = StructArray::from(vec![
        (
            Arc::new(Field::new("word", dictionary.data_type().clone(), true)),
            Arc::clone(&dictionary),
        ),
        (Arc::new(Field::new("n", DataType::Int64, true)), numbers),
    ]);
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(words) as ArrayRef, true),
        ("kind", dictionary, true),
        ("time", Arc::new(times), true),
        ("list", Arc::new(lists), true),
        ("both", Arc::new(in_struct), true),
    ])
    .unwrap()
}

#[test]
fn types_stay_as_they_are_but_dictionaries_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["out.arrow", "out.arrows"] {
        let path = at(&folder, name);
        let schema = nested(0).schema();
        let mut writer = create(
            &options(&path).into(),
            &Forms::dense(&[2]),
            names(),
            &schema,
            &RunFiles::new(),
        )
        .unwrap();
        for first in [0, 10] {
            writer.write(rows(nested(first), 0, 2)).unwrap();
        }
        finish(writer, schema).unwrap();
        let batches = match name {
            "out.arrow" => read_file(&path).0,
            _ => read_stream(std::fs::read(&path).unwrap()),
        };
        for (batch, first) in batches.iter().zip([0, 10]) {
            let expected = nested(first);
            for kept in ["id", "time", "list"] {
                assert_eq!(&batch[kept], &expected[kept]);
            }
            let word = format!("word {first}");
            if name == "out.arrow" {
                assert_eq!(batch["kind"].as_string::<i32>().value(1), word);
                let inside = batch["both"].as_struct().column(0).as_string::<i32>();
                assert_eq!(inside.value(0), word);
            } else {
                assert_eq!(&batch["kind"], &expected["kind"]);
                assert_eq!(&batch["both"], &expected["both"]);
            }
        }
    }
}

#[test]
fn lists_of_any_length_and_missing_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.arrow");
    let options = OutputOptions {
        vector_type: Some(VectorType::List),
        embedding_field: Some("vektor".to_owned()),
        ..OutputOptions::new(Destination::Path(path.clone()))
    };
    let output = RunOutput {
        nullable: true,
        ..options.into()
    };
    let mut writer = create(
        &output,
        &Forms::dense(&[2]),
        names(),
        &id_schema(),
        &RunFiles::new(),
    )
    .unwrap();
    let missing = Some(NullBuffer::from(vec![true, false, true]));
    let some = Rows {
        missing,
        ..id_rows(0, 3, 2)
    };
    writer.write(some).unwrap();
    finish(writer, id_schema()).unwrap();
    let (batches, _) = read_file(&path);
    let vectors = batches[0]["vektor"].as_list::<i32>();
    assert!(batches[0].schema().field(1).is_nullable() && vectors.is_null(1));
    let last = vectors.value(2);
    assert_eq!(
        last.as_primitive::<Float32Type>().values(),
        &vector(2, 2)[..]
    );
}

#[cfg(unix)]
#[test]
fn a_streams_reader_has_every_batch_at_once_and_streams_follow_one_another() {
    let (mut reader, writer_end) = std::io::pipe().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&writer_end);
    let options = with_format(
        options(Path::new(&format!("/dev/fd/{number}"))),
        crate::output::OutputFormat::Arrow,
    );
    for first in [0, 100] {
        let mut writer = writer(&options).unwrap();
        writer.write(id_rows(first, 3, 2)).unwrap();
        // Nothing more is written yet: a reader that waited for more would wait for ever.
        let mut batches = StreamReader::try_new(&mut reader, None).unwrap();
        let batch = batches.next().unwrap().unwrap();
        assert_eq!(
            batch["id"].as_string::<i32>().value(2),
            format!("{}", first + 2)
        );
        finish(writer, id_schema()).unwrap();
        assert!(batches.next().is_none());
    }
}

#[test]
fn a_file_without_rows_has_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.feather");
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    let writer = create(
        &options(&path).into(),
        &Forms::dense(&[3]),
        names(),
        &schema,
        &RunFiles::new(),
    )
    .unwrap();
    finish(writer, schema.into()).unwrap();
    let reader = FileReader::try_new(File::open(&path).unwrap(), None).unwrap();
    assert_eq!(reader.schema().field(0).data_type(), &DataType::Int64);
    assert_eq!(reader.num_batches(), 0);
}
