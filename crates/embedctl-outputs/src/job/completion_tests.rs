//! Outputs that have ended: what says that they are complete is made again, whatever has become of it, and beside other
//! runs.

use std::sync::Arc;

use super::scene_tests::{JSONL, JobScene, whole};
use super::storage_tests::TestStorage;
use super::*;
use embedctl_testing::stride;

/// The last part's commit.
const COMMIT: &str = "_embedctl/commits/part-00001-00002.json";

/// A complete output.
fn ended() -> (JobScene, Arc<LocalFolder>) {
    let scene = JobScene::new(16, JSONL, 6);
    let local = Arc::new(LocalFolder::new(scene.out()));
    assert!(scene.run(false, local.clone(), usize::MAX).unwrap());
    (scene, local)
}

/// The output after a run that finds nothing left to do.
fn renew(scene: &JobScene, storage: Arc<dyn SharedFolder>) {
    let job = scene.job(true, Arc::clone(&storage));
    let manifest = Manifest::read(storage.as_ref()).unwrap();
    let state = job.look().unwrap();
    job.renew_completion(&state, manifest.as_ref()).unwrap();
}

/// After a kill between the last part and its commit, whatever fails on the way: who looks before it begins, and who
/// begins.
#[test]
fn completion_is_renewed_whatever_fails() {
    let (expected, (scene, local)) = (whole(16, 6), ended());
    for gone in [COMMIT, names::SUCCESS, names::MANIFEST] {
        local.remove(gone).unwrap();
    }
    let (plain, without) = (|| Arc::new(LocalFolder::new(scene.out())), scene.files());
    let kinds = [(false, true), (true, true), (false, false)];
    for ((late, dead), begins) in kinds
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        for fails in (0..).step_by(stride(4)) {
            scene.restore(&without);
            let faulty = TestStorage::new(LocalFolder::new(scene.out()), fails, late, dead);
            let calls = Arc::clone(&faulty.calls);
            let first = match begins {
                true => scene.job(true, Arc::new(faulty)).begin(3).map(drop),
                false => scene.run(true, Arc::new(faulty), usize::MAX).map(drop),
            };
            let failed = calls.load(std::sync::atomic::Ordering::Relaxed) > fails;
            assert_eq!(failed, first.is_err(), "{fails} {late} {dead} {begins}");
            assert!(scene.run(true, plain(), usize::MAX).unwrap());
            scene.check(&expected);
            if !failed {
                break;
            }
        }
    }
}

/// Who looks while a run takes both away, the marker first, sees nothing wrong.
#[test]
fn a_manifest_is_missed_only_beside_its_marker() {
    let (_scene, local) = ended();
    let state = State::read(local.as_ref(), None).unwrap();
    assert!(!state.lacks_manifest(local.as_ref()).unwrap());
    local.remove(names::MANIFEST).unwrap();
    assert!(state.lacks_manifest(local.as_ref()).unwrap());
    local.remove(names::SUCCESS).unwrap();
    assert!(!state.lacks_manifest(local.as_ref()).unwrap());
}

/// The lock is held to the end, and nothing is left beside it.
#[test]
fn completion_is_renewed_under_the_lock() {
    let (scene, local) = ended();
    for gone in [names::SUCCESS, COMMIT] {
        local.remove(gone).unwrap();
    }
    let before = scene.files();
    // The run that holds it completes the output itself.
    let lock = local.lock(&names::lock(1)).unwrap().unwrap();
    renew(&scene, Arc::new(LocalFolder::new(scene.out())));
    assert!(scene.files() == before);
    drop(lock);
    renew(&scene, local.clone());
    for made in [names::SUCCESS, COMMIT] {
        assert!(local.read(made).unwrap().is_some(), "{made}");
    }
    assert!(!scene.out().join("_embedctl/shard-00001.scratch").exists());
}
