//! An earlier folder of parts on storages that refuse: vectors are found right, or an error says what was not to be had.

use std::fs;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::*;
use crate::job::{Fingerprint, sealed, storage_tests::TestStorage};
use crate::storage::LocalFolder;

const TEXTS: [&[&str]; 3] = [&["a", "b"], &[], &["c", "a", "d"]];

/// Three parts as a job leaves them, in NPY: of row `n` the vector is `[n, 0.5]`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: String, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let mut fingerprint = Fingerprint::default();
    fingerprint.set("model", json!({"model.onnx": "00"}));
    fingerprint.set("dtype", "f32");
    fingerprint.set("text", "text");
    let job = json!({
        "schema": 1, "version": "0", "format": "npy", "shards": 1, "window": 8, "fingerprint": fingerprint,
    });
    write(
        "_embedctl/job.json".into(),
        sealed(&job).unwrap().to_string().as_bytes(),
    );
    let mut row = 0_u8;
    for (number, texts) in TEXTS.iter().enumerate() {
        let name = format!("part-00001-{number:05}");
        let shape = format!("({}, 2)", texts.len());
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        let mut npy = b"\x93NUMPY\x01\x00".to_vec();
        npy.extend((u16::try_from(header.len()).unwrap()).to_le_bytes());
        npy.extend(header.as_bytes());
        for _ in *texts {
            npy.extend([f32::from(row), 0.5].iter().flat_map(|it| it.to_le_bytes()));
            row += 1;
        }
        write(format!("{name}.npy"), &npy);
        let hashes: Vec<u8> = texts.iter().flat_map(|text| text_hash(text)).collect();
        write(format!("_embedctl/texts/{name}.sha256"), &hashes);
        let point = json!({"records": 0, "hash": ""});
        let commit = json!({
            "file": format!("{name}.npy"), "bytes": npy.len(), "shard": 1, "shards": 1, "number": number,
            "start": point, "end": point, "sources": [], "rows": texts.len(), "embedded": texts.len(),
            "rejected": 0, "truncated": 0, "tokens": 0, "fingerprint": "",
        });
        write(
            format!("_embedctl/commits/{name}.json"),
            sealed(&commit).unwrap().to_string().as_bytes(),
        );
    }
    folder
}

fn find(storage: Arc<dyn SharedFolder>) -> Result<Vec<Option<Vec<f32>>>> {
    let mut reuse =
        EarlierOutput::folder("reuse old/".into(), storage)?.open(&Forms::dense(&[2]))?;
    let texts = ["d", "x", "b", "a", "c", ""];
    let found = reuse.find(texts.into_iter())?;
    // And again, from files that are open and those that are closed.
    let again = reuse.find(["c", "a"].into_iter())?;
    assert_eq!(again.get(0), found.get(4));
    assert_eq!(again.get(1), found.get(3));
    Ok((0..texts.len())
        .map(|text| found.get(text).map(|vector| vector.first().in_full(2)))
        .collect())
}

#[test]
fn vectors_are_right_or_there_is_an_error() {
    let folder = folder();
    let vector = |row: f32| Some(vec![row, 0.5]);
    let expected = [
        vector(4.0),
        None,
        vector(1.0),
        vector(0.0),
        vector(2.0),
        None,
    ];
    for fails in 0.. {
        let faulty = TestStorage::new(LocalFolder::new(folder.path()), fails, false, false);
        let calls = Arc::clone(&faulty.calls);
        let found = find(Arc::new(faulty));
        let failed = calls.load(Ordering::Relaxed) > fails;
        assert_eq!(failed, found.is_err(), "{fails}");
        if let Ok(found) = found {
            assert_eq!(found, expected);
            assert!(fails > 8, "{fails} calls are too few to have read anything");
            break;
        }
    }
}

#[test]
fn what_was_lost_is_said() {
    for (lost, said) in [
        ("part-00001-00002.npy", "part-00001-00002"),
        ("_embedctl/texts/part-00001-00000.sha256", "neither hashes"),
        ("_embedctl/job.json", "holds no output in parts"),
    ] {
        let folder = folder();
        fs::remove_file(folder.path().join(lost)).unwrap();
        let found = find(Arc::new(LocalFolder::new(folder.path())));
        match lost.contains(".npy") {
            // A part that is not there has no texts.
            true => assert_eq!(found.unwrap()[0], None),
            false => assert!(found.unwrap_err().to_string().contains(said), "{lost}"),
        }
    }
    // Vectors of another width.
    let folder = folder();
    let storage = Arc::new(LocalFolder::new(folder.path()));
    let old = EarlierOutput::folder("reuse old/".into(), storage).unwrap();
    let error = old
        .open(&Forms::dense(&[3]))
        .unwrap()
        .find(["a"].into_iter())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("holds no vectors `embedding` of 3"),
        "{error}"
    );
}
