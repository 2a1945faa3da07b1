//! Damaged files of a job: a run that goes on makes the right output of them, or refuses to.

use std::fs;
use std::sync::Arc;

use arrow::datatypes::Schema;

use super::faulty::Faulty;
use super::scene::{JSONL, Scene, whole};
use super::*;
use crate::error::assert_no_bug;
use crate::mutation::each;
use crate::output::{Finish, VectorWriter};
use crate::record::{Origin, RowRef, Rows};

/// Each of the files that say where a run goes on, damaged when half of it is done, and when all is but the last word.
#[test]
fn damaged_jobs_are_gone_on_with_or_refused() {
    let expected = whole(16, 6);
    for windows in [4, usize::MAX] {
        let scene = Scene::new(16, JSONL, 6);
        let plain = || -> Arc<dyn Storage> { Arc::new(Local::new(scene.out())) };
        scene.run(false, plain(), windows).unwrap();
        Local::new(scene.out()).remove(names::SUCCESS).unwrap();
        Local::new(scene.out()).remove(names::MANIFEST).unwrap();
        let begun = copy(&scene);
        for name in begun.iter().map(|(name, _)| name) {
            // A part's own rows are not looked at before somebody inspects them.
            let is_rows = name.ends_with(".jsonl") && !name.starts_with('_');
            let good = &begun.iter().find(|(other, _)| other == name).unwrap().1;
            each(&name.replace('/', "-"), good, 12, |damaged| {
                restore(&scene, &begun);
                fs::copy(damaged, scene.out().join(name)).unwrap();
                assert_no_bug(inspect(&scene.out()).map(|state| state.map(|it| it.faults())));
                let done = assert_no_bug(scene.run(true, plain(), usize::MAX));
                if done.is_some() && !is_rows {
                    assert_eq!(scene.content(), expected, "{name}");
                }
            });
        }
    }
}

/// A kill between a part and its commit, in every format: what the part holds is found again where only its own bytes
/// are fetched, and the commit is written again.
#[test]
fn a_part_without_its_commit_says_what_it_holds() {
    for format in [
        JSONL,
        OutputFormat::Npy,
        OutputFormat::Parquet,
        OutputFormat::Arrow,
    ] {
        let scene = Scene::new(16, format, 6);
        let local = Local::new(scene.out());
        scene.run(false, Arc::new(local.clone()), 4).unwrap();
        let commit = scene.out().join(names::commit(1, 0));
        let before = fs::read(&commit).unwrap();
        local.remove(&names::commit(1, 0)).unwrap();
        let elsewhere = Faulty::new(local, u64::MAX, false, false);
        assert!(scene.run(true, Arc::new(elsewhere), usize::MAX).unwrap());
        assert_eq!(fs::read(&commit).unwrap(), before, "{format}");
    }
}

/// All files of a job, by their names.
fn copy(scene: &Scene) -> Vec<(String, Vec<u8>)> {
    let storage = Local::new(scene.out());
    let mut files = Vec::new();
    for folder in ["", names::OWN, names::SHARDS]
        .iter()
        .chain(&names::OF_PARTS)
    {
        for entry in storage.list(folder).unwrap() {
            let name = format!("{folder}/{}", entry.name);
            let name = name.trim_start_matches('/').to_owned();
            let content = fs::read(scene.out().join(&name)).unwrap();
            files.push((name, content));
        }
    }
    files
}

fn restore(scene: &Scene, files: &[(String, Vec<u8>)]) {
    fs::remove_dir_all(scene.out()).unwrap();
    for (name, content) in files {
        let path = scene.out().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// A file whose name looks like a part's is a part of this job, or it is told.
#[test]
fn damaged_names_of_parts_are_read_or_refused() {
    let scene = Scene::new(16, JSONL, 6);
    let plain = || -> Arc<dyn Storage> { Arc::new(Local::new(scene.out())) };
    scene.run(false, plain(), 4).unwrap();
    let begun = copy(&scene);
    let part = fs::read(scene.out().join("part-00001-00000.jsonl")).unwrap();
    each("name", b"part-00001-00001.jsonl", 60, |damaged| {
        let name = String::from_utf8_lossy(&fs::read(damaged).unwrap()).into_owned();
        if name.is_empty()
            || name.contains(['/', '\0'])
            || name.len() > 200
            || name.starts_with('.')
        {
            return;
        }
        restore(&scene, &begun);
        fs::write(scene.out().join(&name), &part).unwrap();
        if let Some(Some(state)) = assert_no_bug(inspect(&scene.out())) {
            for ((shard, number), part) in &state.parts {
                assert_eq!(
                    (part.info.shard, part.info.number),
                    (*shard, *number),
                    "{name}"
                );
            }
        }
        assert_no_bug(scene.run(true, plain(), usize::MAX));
    });
}

#[test]
fn damaged_spools_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good.spool");
    let schema = Arc::new(Schema::new(vec![arrow::datatypes::Field::new(
        "id",
        arrow::datatypes::DataType::Utf8,
        true,
    )]));
    let mut spool = Box::new(Spool::new(&path, 2));
    for first in [0u32, 5] {
        let ids = (first..first + 5).map(|id| Some(id.to_string()));
        let ids = Arc::new(ids.collect::<arrow::array::StringArray>());
        let rows = first..first + 5;
        let written = spool.write(Rows {
            columns: arrow::array::RecordBatch::try_new(schema.clone(), vec![ids]).unwrap(),
            origins: rows
                .clone()
                .map(|row| Origin {
                    source: 0,
                    line: u64::from(row),
                    offset: 0,
                })
                .collect(),
            refs: rows
                .clone()
                .map(|row| RowRef {
                    record: u64::from(row),
                    part: 0,
                })
                .collect(),
            vectors: rows.flat_map(|row| [row as f32, 0.5]).collect(),
            dimensions: 2,
            missing: None,
        });
        written.unwrap();
    }
    let provenance = serde_json::json!({"part": {"rows": 10}});
    let finish = Finish {
        schema,
        provenance: &provenance,
        rejects: None,
    };
    spool.finish(finish).unwrap();
    let good = fs::read(&path).unwrap();
    each("a.spool", &good, 300, |path| {
        let Some(mut reader) = assert_no_bug(SpoolReader::open(path)) else {
            return;
        };
        let _ = (reader.provenance(), reader.schema());
        while let Some(Some(rows)) = assert_no_bug(reader.next_rows()) {
            assert_eq!(rows.vectors.len(), rows.refs.len() * rows.dimensions);
            assert_eq!(rows.columns.num_rows(), rows.refs.len());
        }
    });
}
