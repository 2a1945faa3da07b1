//! Damaged files of a job: a run that goes on makes the right output of them, or refuses to.

use std::collections::HashSet;
use std::fmt::Debug;
use std::fs;
use std::sync::Arc;

use super::memory_tests::Memory;
use super::scene_tests::{JSONL, JobScene, whole};
use super::seal::{opened, sealed};
use super::storage_tests::TestStorage;
use super::*;
use crate::mutation::{each, each_content};
use crate::output::{Finish, VectorWriter};
use crate::record::{Origin, RowRef, RowVectors, Rows};
use arrow::datatypes::Schema;
use embedctl_testing::assert_no_bug;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Each of the files that say where a run goes on, damaged when half of it is done, when all is but the completion
/// marker, and where nothing but the parts say what they hold.
#[test]
fn damaged_jobs_are_gone_on_with_or_refused() {
    let expected = whole(16, 6);
    for (stage, windows) in [("half", 4), ("whole", usize::MAX), ("bare", 4)] {
        let scene = JobScene::new(16, JSONL, 6);
        let local = LocalFolder::new(scene.out());
        let plain = || -> Arc<dyn SharedFolder> { Arc::new(LocalFolder::new(scene.out())) };
        scene.run(false, plain(), windows).unwrap();
        local.remove(names::SUCCESS).unwrap();
        for number in 0..3 {
            if stage == "bare" {
                local.remove(&names::commit(1, number)).unwrap();
            }
        }
        let begun = scene.files();
        let good = State::read(&local, None).unwrap();
        // A part's own rows are not looked at before somebody inspects them.
        let is_rows = |name: &str| name.ends_with(".jsonl") && !name.starts_with('_');
        for (name, content) in begun.iter().filter(|(name, _)| !is_rows(name)) {
            let memory = Memory::new(begun.clone());
            let mut seen = HashSet::new();
            each_content(&format!("{stage}/{name}"), content, 60, |damaged| {
                memory.set(name, damaged);
                if name == names::MANIFEST {
                    assert_completed(&scene, &begun, damaged, content);
                }
                // Runs of equal states are equal, so one of each is enough.
                let state = assert_no_bug(read(&memory));
                if state.as_ref() == Some(&good) || !seen.insert(format!("{state:?}")) {
                    return;
                }
                scene.restore(&begun);
                fs::write(scene.out().join(name), damaged).unwrap();
                assert_no_bug(inspect(&scene.out()).map(|state| state.map(|it| it.faults())));
                let done = assert_no_bug(scene.run(true, plain(), usize::MAX));
                assert!(state.is_some() || done.is_none(), "{stage}/{name}");
                if done.is_some() {
                    assert_eq!(scene.content(), expected, "{stage}/{name}");
                }
            });
            scene.restore(&begun);
            assert!(scene.run(true, plain(), usize::MAX).unwrap());
            assert_eq!(scene.content(), expected);
        }
    }
}

/// All that a run that goes on reads of an output before it reads its input; and that no part is missed.
fn read(storage: &dyn SharedFolder) -> Result<State> {
    let state = State::read(storage, None)?;
    state.check_lists(storage)?;
    assert_eq!(state.missing_parts(storage)?, Vec::<String>::new());
    Ok(state)
}

/// A run with nothing left to do replaces a `damaged` manifest by `manifest`.
fn assert_completed(
    scene: &JobScene,
    files: &[(String, Vec<u8>)],
    damaged: &[u8],
    manifest: &[u8],
) {
    let memory = Memory::new(files.to_vec());
    memory.set(names::MANIFEST, damaged);
    let job = scene.job(true, Arc::new(memory.clone()));
    let (state, read) = (job.look().unwrap(), Manifest::read(&memory).unwrap());
    job.renew_completion(&state, read.as_ref()).unwrap();
    let made = |name| memory.read(name).unwrap();
    assert_eq!(made(names::MANIFEST).as_deref(), Some(manifest));
    assert_eq!(made(names::SUCCESS), Some(Vec::new()));
}

/// A complete output's statement: as it was written, or not at all.
#[test]
fn damaged_lists_and_manifests_are_read_or_refused() {
    let scene = JobScene::new(16, JSONL, 6);
    let local = LocalFolder::new(scene.out());
    scene
        .run(false, Arc::new(local.clone()), usize::MAX)
        .unwrap();
    let good = read(&local).unwrap();
    let manifest = Manifest::read(&local).unwrap();
    assert_eq!(manifest.as_ref().map(|it| it.rejected), Some(2));
    let files = scene.files();
    for (name, content) in &files {
        let memory = Memory::new(files.clone());
        each_content(&format!("complete/{name}"), content, 60, |damaged| {
            memory.set(name, damaged);
            let Some(state) = assert_no_bug(read(&memory)) else {
                return;
            };
            let (info, was) = (|part: &Part| part.info.clone(), state.parts.values());
            assert!(was.map(info).eq(good.parts.values().map(info)), "{name}");
            assert_eq!(
                (state.job, state.ends),
                (good.job.clone(), good.ends.clone())
            );
            if let Some(said) = assert_no_bug(Manifest::read(&memory)).flatten() {
                assert_eq!(Some(&said), manifest.as_ref(), "{name}");
            }
        });
    }
}

/// A commit, a manifest and a shard's end by themselves: as they were written or not at all, and anything where somebody
/// has given a damaged one a sum that fits.
#[test]
fn damaged_records_are_read_or_refused() {
    fn each_record<T: DeserializeOwned + PartialEq + Debug>(scene: &JobScene, name: &str) {
        let content = fs::read(scene.out().join(name)).unwrap();
        let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
        let good: T = opened(parsed(&content).unwrap()).unwrap();
        let mut others = 0;
        each_content(&format!("record/{name}"), &content, 600, |damaged| {
            let Some(mut value) = parsed(damaged) else {
                return;
            };
            if let Some(read) = opened::<T>(value.clone()) {
                assert_eq!(read, good, "{name}");
            }
            if let Some(object) = value.as_object_mut() {
                object.shift_remove("sum");
            }
            let read = opened::<T>(sealed(&value).unwrap());
            others += usize::from(read.is_some_and(|read| read != good));
        });
        assert!(others > 0, "{name}: nothing behind the sum was reached");
    }
    let scene = JobScene::new(16, JSONL, 6);
    let storage: Arc<dyn SharedFolder> = Arc::new(LocalFolder::new(scene.out()));
    scene.run(false, storage, usize::MAX).unwrap();
    each_record::<commit::Commit>(&scene, &names::commit(1, 0));
    each_record::<Manifest>(&scene, names::MANIFEST);
    each_record::<ShardEnd>(&scene, &names::shard(1));
    each_record::<JobFile>(&scene, names::JOB);
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
        let scene = JobScene::new(16, format, 6);
        let local = LocalFolder::new(scene.out());
        scene.run(false, Arc::new(local.clone()), 4).unwrap();
        let commit = scene.out().join(names::commit(1, 0));
        let before = fs::read(&commit).unwrap();
        local.remove(&names::commit(1, 0)).unwrap();
        let elsewhere = TestStorage::new(local, u64::MAX, false, false);
        assert!(scene.run(true, Arc::new(elsewhere), usize::MAX).unwrap());
        assert_eq!(fs::read(&commit).unwrap(), before, "{format}");
    }
}

/// A file whose name looks like a part's is a part of this job, or it is told.
#[test]
fn damaged_names_of_parts_are_read_or_refused() {
    let scene = JobScene::new(16, JSONL, 6);
    let plain = || -> Arc<dyn SharedFolder> { Arc::new(LocalFolder::new(scene.out())) };
    scene.run(false, plain(), 4).unwrap();
    let begun = scene.files();
    let expected = whole(16, 6);
    let part = |ending: &str| fs::read(scene.out().join(format!("part-00001-00000.jsonl{ending}")));
    let (rows, beside) = (part("").unwrap(), part(".json").unwrap());
    let mut seen = HashSet::new();
    each_content("name", b"part-00001-00001.jsonl", 600, |damaged| {
        let name = String::from_utf8_lossy(damaged).into_owned();
        let is_none = name.is_empty() || name.contains(['/', '\0']) || name.len() > 200;
        if is_none || name.starts_with('.') || begun.iter().any(|(other, _)| *other == name) {
            return;
        }
        let mut files = begun.clone();
        files.push((name.clone(), rows.clone()));
        files.push((format!("{name}.json"), beside.clone()));
        let state = assert_no_bug(State::read(&Memory::new(files.clone()), None));
        for ((shard, number), part) in state.iter().flat_map(|state| &state.parts) {
            let says = (part.info.shard, part.info.number);
            assert_eq!(says, (*shard, *number), "{name}");
        }
        // One run of each kind: what the name says of shard, number and ending.
        let kind = names::parse(&name)
            .map(|(shard, number, rest)| (shard.min(3), number.min(4), rest.len()));
        if !seen.insert((kind, state.is_some())) {
            return;
        }
        scene.restore(&files);
        let done = assert_no_bug(scene.run(true, plain(), usize::MAX));
        assert!(done.is_some() || state.is_none(), "{name}");
        if done.is_some() {
            let _ = fs::remove_file(scene.out().join(&name));
            assert_eq!(scene.content(), expected, "{name}");
        }
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
    let mut spool = Box::new(Spool::new(
        &path,
        2,
        RowVectors::in_full(2, Vec::new()),
        &Arc::default(),
    ));
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
            vectors: RowVectors::in_full(2, rows.flat_map(|row| [row as f32, 0.5]).collect()),
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
            assert_eq!(rows.vectors.len(), rows.refs.len());
            assert_eq!(rows.columns.num_rows(), rows.refs.len());
        }
    });
}
