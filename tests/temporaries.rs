//! An exit that runs no destructors, as after a second signal, leaves nothing behind.
//!
//! Alone in its process: it ends whatever that process is writing.

use std::path::Path;

use arrow::datatypes::{DataType, Field, Schema};
use embedctl::Error;
use embedctl::output::{self, Destination, Finish, OutputOptions, VectorWriter};
use embedctl::rejects::RejectsWriter;

fn create(path: &Path, schema: &Schema) -> Box<dyn VectorWriter> {
    let options = OutputOptions {
        destination: Destination::Path(path.to_path_buf()),
        format: None,
        force: false,
    };
    output::create(&options, 2, ["-".to_string()].into(), schema).unwrap()
}

#[test]
fn what_was_begun_goes_and_cannot_be_published() {
    let folder = tempfile::tempdir().unwrap();
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();
    let schema = Schema::new(vec![Field::new("id", DataType::Utf8, true)]);
    let writers =
        ["a.parquet", "a.npy", "a.jsonl"].map(|name| create(&folder.path().join(name), &schema));
    let rejects = RejectsWriter::create(&folder.path().join("rejects"), false).unwrap();
    assert_eq!(entries(), 5); // The array's rows have a file of their own.

    output::remove_temporaries();
    assert_eq!(entries(), 0);

    for writer in writers {
        let finish = Finish {
            schema: schema.clone().into(),
            provenance: &serde_json::json!({}),
        };
        assert!(matches!(writer.finish(&finish), Err(Error::Interrupted)));
    }
    assert!(matches!(rejects.finish(), Err(Error::Interrupted)));
    assert_eq!(entries(), 0);
}
