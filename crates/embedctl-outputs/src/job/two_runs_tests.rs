//! Two runs at once on a storage without locks, step by step: whichever waits where, and whichever is killed, the part
//! that stands has its lists and what stands beside it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use super::memory_tests::Memory;
use super::scene_tests::{JSONL, JobScene, whole};
use super::storage_tests::{CallOrder, TestStorage};
use super::*;
use embedctl_testing::stride;

/// A storage without locks, that every run opens for itself.
enum Place {
    Store(Memory),
    Folder(PathBuf),
}

impl Place {
    fn open(&self) -> Arc<dyn SharedFolder> {
        match self {
            Self::Store(memory) => Arc::new(memory.clone()),
            Self::Folder(folder) => Arc::new(LocalFolder::without_locks(folder)),
        }
    }
}

type Run<'a> = &'a (dyn Fn(Arc<dyn SharedFolder>) -> Result<bool> + Sync);

/// Runs both; how many calls each made.
fn both(place: &Place, turns: &Arc<CallOrder>, first: Run<'_>, second: Run<'_>) -> [usize; 2] {
    thread::scope(|scope| {
        for (number, run) in [first, second].into_iter().enumerate() {
            let storage = Arc::new(TestStorage::in_turns(place.open(), turns, number));
            scope.spawn(move || {
                // One of them may learn that the other was faster.
                let _ = run(storage);
                turns.end(number);
            });
        }
    });
    turns.state.lock().unwrap().1
}

/// That all parts are there with their lists and with what stands beside them; the rows, and places of rejects.
fn checked(storage: &dyn SharedFolder) -> (Vec<String>, usize) {
    let state = State::read(storage, None).unwrap();
    assert!(state.success);
    assert_eq!(state.faults(), Vec::<String>::new());
    state.check_lists(storage).unwrap();
    assert_eq!(state.missing_parts(storage).unwrap(), Vec::<String>::new());
    let mut rows = Vec::new();
    for part in state.parts.values() {
        let texts = storage
            .read(&part.info.texts())
            .unwrap()
            .expect("texts are there");
        assert_eq!(texts.len() as u64, part.info.rows * 16);
        let beside = storage.read(&format!("{}.json", part.file)).unwrap();
        let beside: serde_json::Value = serde_json::from_slice(&beside.unwrap()).unwrap();
        let info: PartInfo = serde_json::from_value(beside["part"].clone()).unwrap();
        assert_eq!(info, part.info);
        let lines = storage.read(&part.file).unwrap().unwrap();
        rows.extend(String::from_utf8(lines).unwrap().lines().map(str::to_owned));
    }
    let listed = |part: &Part| part.rejected(storage).unwrap();
    let lists: Vec<u8> = state.parts.values().flat_map(listed).collect();
    let rejected = lists.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(rejected as u64, state.rejected());
    (rows, rejected)
}

/// Runs a test in memory, at many pairs of calls, and in folders, at some: by the steps that it is given.
fn each_place(test: impl Fn(&JobScene, &dyn Fn() -> Place, [usize; 2])) {
    for is_store in [true, false] {
        let scene = JobScene::new(10, JSONL, 3);
        let place = || {
            if is_store {
                return Place::Store(Memory::new([]));
            }
            let _ = fs::remove_dir_all(scene.out());
            Place::Folder(scene.out())
        };
        test(
            &scene,
            &place,
            if is_store {
                [2 * stride(3), 5 * stride(3)]
            } else {
                [7 * stride(2), 11 * stride(3)]
            },
        );
    }
}

/// Both begin the same output, or go on with it.
#[test]
fn two_runs_on_one_output_lose_nothing() {
    let expected = whole(10, 3);
    each_place(|scene, place, steps| {
        for part in [0, 2] {
            'first: for first in (0..).step_by(steps[0]) {
                for second in (first % steps[1]..).step_by(steps[1]) {
                    let place = place();
                    scene.run(true, place.open(), part).unwrap();
                    let run = |storage| scene.run(true, storage, usize::MAX);
                    let calls = both(&place, &CallOrder::new(first, second), &run, &run);
                    assert!(scene.run(true, place.open(), usize::MAX).unwrap());
                    let (rows, rejected) = checked(place.open().as_ref());
                    assert_eq!(rows.len(), expected.rows.len(), "{first} {second}");
                    assert_eq!(rejected, expected.rejected.len());
                    if calls[0] < first {
                        break 'first;
                    }
                    if calls[1] < second {
                        break;
                    }
                }
            }
        }
    });
}

/// One of them is killed at any call, and the other goes on with what it has left.
#[test]
fn a_run_beside_one_that_is_killed_loses_nothing() {
    let expected = whole(10, 3);
    each_place(|scene, place, steps| {
        for fails in (0..).step_by((steps[0] - 1) * stride(3)) {
            let place = place();
            let faulty = |storage: Arc<dyn SharedFolder>| {
                let faulty = TestStorage::over(storage, fails, fails % 2 == 0, true);
                scene.run(true, Arc::new(faulty), usize::MAX)
            };
            let run = |storage| scene.run(true, storage, usize::MAX);
            // The other one begins where this one is about to fail, or some calls before.
            let calls = usize::try_from(fails).unwrap();
            let mut made = [0; 2];
            for before in [0, 1, 2, 3] {
                let turns = CallOrder::new(calls.saturating_sub(before), 8 + 4 * before);
                made = both(&place, &turns, &faulty, &run);
            }
            assert!(scene.run(true, place.open(), usize::MAX).unwrap());
            let (rows, rejected) = checked(place.open().as_ref());
            assert_eq!(rows.len(), expected.rows.len(), "{fails}");
            assert_eq!(rejected, expected.rejected.len());
            if fails > 90 || made[0] == 0 {
                break;
            }
        }
    });
}

/// A part in the middle is gone, with or without what stands beside it, and two runs make it anew.
#[test]
fn a_part_that_was_removed_is_made_anew_by_one_of_two_runs() {
    let expected = whole(10, 3);
    each_place(|scene, place, steps| {
        for first in (0..60).step_by(steps[0] + 1) {
            for second in (first % 7..60).step_by(steps[1] + 2) {
                let place = place();
                assert!(scene.run(true, place.open(), usize::MAX).unwrap());
                let storage = place.open();
                storage.remove("part-00001-00001.jsonl").unwrap();
                if second % 2 == 0 {
                    storage.remove("part-00001-00001.jsonl.json").unwrap();
                }
                let run = |storage| scene.run(true, storage, usize::MAX);
                both(&place, &CallOrder::new(first, second), &run, &run);
                assert!(scene.run(true, place.open(), usize::MAX).unwrap());
                let (rows, rejected) = checked(place.open().as_ref());
                assert_eq!(rows.len(), expected.rows.len(), "{first} {second}");
                assert_eq!(rejected, expected.rejected.len());
            }
        }
    });
}

/// Files with names nearly like a job's, or behind a link, belong to somebody else.
#[test]
fn files_of_others_stay() {
    let scene = JobScene::new(10, JSONL, 3);
    let plain = || Arc::new(LocalFolder::new(scene.out()));
    assert!(!scene.run(true, plain(), 2).unwrap());
    let others = [
        "part-00001-00007.bak",
        "part-00001-00007.jsonl.json.old",
        "part-00001-00007.npy",
        "_embedctl/texts/part-00001-00007.txt",
        "_embedctl/rejects/part-00001-00007-mine.jsonl",
    ];
    let orphans = [
        "part-00001-00007.jsonl.json",
        "_embedctl/texts/part-00001-00007.sha256",
        "_embedctl/rejects/part-00001-00007.jsonl",
        "_embedctl/commits/part-00001-00007.json",
    ];
    for name in others.iter().chain(&orphans) {
        plain().put(name, Content::Bytes(b"x")).unwrap();
    }
    assert!(scene.run(true, plain(), usize::MAX).unwrap());
    for name in others {
        assert!(scene.out().join(name).exists(), "{name}");
    }
    for name in orphans {
        assert!(!scene.out().join(name).exists(), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn nothing_is_removed_behind_a_link() {
    let scene = JobScene::new(10, JSONL, 3);
    let plain = || Arc::new(LocalFolder::new(scene.out()));
    assert!(!scene.run(true, plain(), 2).unwrap());
    let elsewhere = scene.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let theirs = elsewhere.join("part-00001-00007.json");
    fs::write(&theirs, "x").unwrap();
    let commits = scene.out().join(names::COMMITS);
    fs::remove_dir_all(&commits).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &commits).unwrap();
    let error = scene.run(true, plain(), usize::MAX).unwrap_err();
    assert!(error.to_string().contains("is a link"), "{error}");
    assert!(theirs.exists());
}
