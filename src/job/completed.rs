//! Outputs that have ended: what says that they are complete is made again, whatever has become of it, and beside other
//! runs.

use std::sync::Arc;

use super::faulty::Faulty;
use super::memory::Memory;
use super::scene::{JSONL, Scene, mend, whole};
use super::*;

/// The part that the record became which was tried again, and what belongs to it.
const PART: &str = "part-00001-00003.jsonl";
const LIST: &str = "_embedctl/retried/part-00001-00003.jsonl";

/// An output of which a rejected record was mended, tried again and embedded.
fn tried_again() -> (Scene, Arc<LocalFolder>) {
    let scene = Scene::new(16, JSONL, 6);
    let local = Arc::new(LocalFolder::new(scene.out()));
    let plain = || Arc::new(LocalFolder::new(scene.out()));
    assert!(scene.run(false, plain(), usize::MAX).unwrap());
    mend(&scene);
    assert!(scene.again(plain()).unwrap());
    (scene, local)
}

/// What a run that finds nothing left to do makes of the output.
fn renew(scene: &Scene, storage: Arc<dyn SharedFolder>) -> u64 {
    let job = scene.job(true, Arc::clone(&storage));
    let manifest = Manifest::read(storage.as_ref()).unwrap();
    let state = job.look().unwrap();
    job.renew_completion(&state, manifest.as_ref()).unwrap()
}

#[test]
fn a_lost_part_gives_its_records_back() {
    let (scene, local) = tried_again();
    let whole = scene.content().rows;
    local.remove(PART).unwrap();
    assert_eq!(inspect(&scene.out()).unwrap().unwrap().rejected(), 2);
    assert!(scene.again(local).unwrap());
    assert_eq!(scene.content().rows, whole);
}

/// Where the part is gone that rejected records became, the next run says what is left, whatever fails on the way: who
/// looks before it begins, and who begins.
#[test]
fn completion_is_renewed_without_a_lost_part_whatever_fails() {
    let (expected, (scene, local)) = (whole(16, 6), tried_again());
    local.remove(PART).unwrap();
    let (plain, without) = (|| Arc::new(LocalFolder::new(scene.out())), scene.files());
    let kinds = [(false, true), (true, true), (false, false)];
    for ((late, dead), begins) in kinds
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        for fails in 0.. {
            scene.restore(&without);
            let gone = inspect(&scene.out()).unwrap().unwrap();
            assert_eq!(gone.missing_parts(plain().as_ref()).unwrap().len(), 1);
            let faulty = Faulty::new(LocalFolder::new(scene.out()), fails, late, dead);
            let calls = Arc::clone(&faulty.calls);
            let first = match begins {
                true => scene.job(true, Arc::new(faulty)).begin(3).map(drop),
                false => scene.run(true, Arc::new(faulty), usize::MAX).map(drop),
            };
            let failed = calls.load(std::sync::atomic::Ordering::Relaxed) > fails;
            assert_eq!(failed, first.is_err(), "{fails} {late} {dead} {begins}");
            assert!(scene.run(true, plain(), usize::MAX).unwrap());
            scene.check(&expected);
            let state = inspect(&scene.out()).unwrap().unwrap();
            assert_eq!((state.rows(), state.rejected()), (14, 2));
            let missing = state.missing_parts(plain().as_ref()).unwrap();
            assert_eq!(missing, Vec::<String>::new());
            assert!(!scene.out().join(names::REJECTED).exists());
            if !failed {
                break;
            }
        }
    }
}

/// Who looks while a run takes both away, the marker first, sees nothing wrong.
#[test]
fn a_manifest_is_missed_only_beside_its_marker() {
    let (_scene, local) = tried_again();
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
    let (scene, local) = tried_again();
    local.remove(names::SUCCESS).unwrap();
    local.remove(&names::commit(1, 3)).unwrap();
    assert_eq!(renew(&scene, local.clone()), 0);
    assert!(local.read(names::SUCCESS).unwrap().is_some());
    assert!(local.read(&names::commit(1, 3)).unwrap().is_some());
    assert!(!scene.out().join("_embedctl/shard-00001.scratch").exists());
}

/// A run is at work that tries rejected records again, and has put what comes before its part.
#[test]
fn what_a_run_at_work_has_put_stays() {
    let (scene, local) = tried_again();
    for gone in [PART, names::SUCCESS, names::MANIFEST, names::REJECTED] {
        local.remove(gone).unwrap();
    }
    local.remove(&names::commit(1, 3)).unwrap();
    let before = scene.files();
    // A store keeps nobody out.
    let store = Memory::new(before.clone());
    assert_eq!(renew(&scene, Arc::new(store.clone())), 0);
    assert!(store.read(names::SUCCESS).unwrap().is_some());
    assert!(store.read(LIST).unwrap().is_some());
    // Here the run holds the lock, and completes the output itself.
    let lock = local.lock(&names::lock(1)).unwrap().unwrap();
    assert_eq!(renew(&scene, Arc::new(LocalFolder::new(scene.out()))), 0);
    assert!(scene.files() == before);
    // What a kill has left goes.
    drop(lock);
    assert_eq!(renew(&scene, Arc::new(LocalFolder::new(scene.out()))), 0);
    assert!(local.read(names::SUCCESS).unwrap().is_some());
    assert!(local.read(LIST).unwrap().is_none());
}

/// On a store a run may begin to try the records again, or do so from its begin to its end, while completion is renewed
/// without the part that somebody has removed: what it has put under that part's number stays.
#[test]
fn what_a_run_puts_meanwhile_stays() {
    let (scene, local) = tried_again();
    let ended = scene.files();
    local.remove(PART).unwrap();
    let before = scene.files();
    let mut begun = before.clone();
    begun.retain(|(name, _)| name != names::SUCCESS && name != names::MANIFEST);
    for (folder, meanwhile) in [
        ("", &begun),
        (names::RETRIED, &begun),
        (names::RETRIED, &ended),
    ] {
        let store = Memory::new(before.clone());
        let job = scene.job(true, Arc::new(store.clone()));
        let state = job.look().unwrap();
        let lock = store.lock(&names::lock(1)).unwrap().unwrap();
        store.becomes_at_listing(folder, meanwhile);
        job.complete_ended(&lock, &state).unwrap();
        assert!(store.read(LIST).unwrap().is_some(), "{folder}");
    }
}

/// On a store, too, what belonged to a part that somebody has removed goes with it.
#[test]
fn what_belonged_to_a_removed_part_goes() {
    let (scene, local) = tried_again();
    local.remove(PART).unwrap();
    let store = Memory::new(scene.files());
    assert_eq!(renew(&scene, Arc::new(store.clone())), 1);
    assert!(store.read(LIST).unwrap().is_none());
    assert_eq!(renew(&scene, Arc::new(store)), 0);
}
