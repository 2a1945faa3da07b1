//! Weights from the cache against weights packed anew, and files that are damaged, concurrent or too many.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::network::Network;
use super::network_weights::NetworkWeights;
use super::prepared::PreparedCache;
use super::tests::{CASES, case, run_all};
use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::atomic;
use embedctl_kernels::{Arithmetic, Isa};
use embedctl_testing::stride;

const REDUCED: [Arithmetic; 3] = [Arithmetic::Int8, Arithmetic::Int16, Arithmetic::Bf16];

/// The network of a case with its products from `cache`, and whether they were there.
fn open(folder: &Path, isa: Isa, arithmetic: Arithmetic, cache: &PreparedCache) -> (Network, bool) {
    let architecture = Architecture::read(folder).unwrap();
    let weights = NetworkWeights::open(folder, None, &architecture);
    let mut weights = weights.unwrap().unwrap();
    let config = fs::read(folder.join("config.json")).unwrap();
    let hashes = weights.hashes(&config).unwrap();
    weights.prepared = Some(cache.weights(isa, arithmetic, &hashes));
    Network::open(architecture, &weights, isa, arithmetic)
        .map(|network| {
            let is_kept = network.is_from_cache();
            (network, is_kept)
        })
        .unwrap()
}

fn bits(states: Vec<f32>) -> Vec<u32> {
    states.into_iter().map(f32::to_bits).collect()
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|own| own == ending))
        .collect();
    paths.sort();
    paths
}

#[test]
fn every_architecture_gives_the_same_bits_from_the_cache() {
    let (mut cases, mut tried) = (0, 0);
    for entry in fs::read_dir(CASES).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("rows.json").exists() {
            continue;
        }
        cases += 1;
        let case = case(&folder);
        let cache = tempfile::tempdir().unwrap();
        let prepared = PreparedCache::new(cache.path().join("made/here"));
        for isa in Isa::all_and_emulated() {
            for arithmetic in REDUCED {
                tried += 1;
                if tried % stride(11) != 0 {
                    continue;
                }
                let plain = super::tests::open(&folder, isa, arithmetic).unwrap();
                let expected = bits(run_all(&plain, &case));
                for is_kept in [false, true] {
                    let (network, from_cache) = open(&folder, isa, arithmetic, &prepared);
                    let name = folder.display();
                    assert_eq!(from_cache, is_kept, "{name} {isa} {arithmetic:?}");
                    assert!(
                        bits(run_all(&network, &case)) == expected,
                        "{name} {isa} {arithmetic:?} {is_kept}"
                    );
                }
            }
        }
    }
    assert!(cases >= 100, "only {cases} cases");
}

/// Cut, lengthened or with a byte changed at any of many places: the weights are packed again, and the file is whole
/// afterwards.
#[test]
fn damaged_weights_are_packed_again() {
    let folder = Path::new(CASES).join("bert");
    let case = case(&folder);
    let cache = tempfile::tempdir().unwrap();
    let prepared = PreparedCache::new(cache.path().to_path_buf());
    let isa = Isa::best();
    let (network, _) = open(&folder, isa, Arithmetic::Int8, &prepared);
    let expected = bits(run_all(&network, &case));
    let path = files(cache.path(), "weights").remove(0);
    let whole = fs::read(&path).unwrap();
    let flipped = (0..64).map(|step| {
        let mut bytes = whole.clone();
        let place = step * (bytes.len() - 1) / 63;
        bytes[place] ^= 0x10;
        bytes
    });
    let cut = [0, 1, 40, whole.len() / 2, whole.len() - 1].map(|length| whole[..length].to_vec());
    let longer = [&whole[..], b"more"].concat();
    for damaged in flipped.chain(cut).chain([longer]) {
        fs::write(&path, &damaged).unwrap();
        let (network, from_cache) = open(&folder, isa, Arithmetic::Int8, &prepared);
        assert!(!from_cache);
        assert!(bits(run_all(&network, &case)) == expected);
        assert!(fs::read(&path).unwrap() == whole);
    }
    assert!(open(&folder, isa, Arithmetic::Int8, &prepared).1);
}

#[test]
fn other_weights_settings_and_arithmetic_have_other_files() {
    let cache = tempfile::tempdir().unwrap();
    let prepared = PreparedCache::new(cache.path().to_path_buf());
    let hashes = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut names: Vec<PathBuf> = Vec::new();
    for isa in Isa::all_and_emulated() {
        for arithmetic in REDUCED {
            for hashes in [hashes(&["a", "b"]), hashes(&["ab"]), hashes(&["a", "c"])] {
                prepared
                    .weights(isa, arithmetic, &hashes)
                    .keep_note("n", "");
                let all = files(cache.path(), "note");
                assert_eq!(
                    all.len(),
                    names.len() + 1,
                    "{isa} {arithmetic:?} {hashes:?}"
                );
                names = all;
            }
        }
    }
}

#[test]
fn notes_are_kept_by_name_and_checked() {
    let cache = tempfile::tempdir().unwrap();
    let prepared = PreparedCache::new(cache.path().to_path_buf());
    let weights = prepared.weights(Isa::best(), Arithmetic::Int8, &["a".to_owned()]);
    assert_eq!(weights.note("one"), None);
    weights.keep_note("one", "first");
    weights.keep_note("two", "second");
    weights.keep_note("one", "third");
    assert_eq!(weights.note("one").as_deref(), Some("third"));
    assert_eq!(weights.note("two").as_deref(), Some("second"));
    for path in files(cache.path(), "note") {
        let mut text = fs::read(&path).unwrap();
        *text.last_mut().unwrap() ^= 1;
        fs::write(&path, text).unwrap();
    }
    assert_eq!(weights.note("one"), None);
    assert_eq!(weights.note("two"), None);
}

/// The files that were used last stay; others, and those of other programs, are not counted.
#[test]
fn the_longest_unused_files_go() {
    let folder = Path::new(CASES).join("bert");
    let cache = tempfile::tempdir().unwrap();
    let of = |limit: u64| PreparedCache::new(cache.path().to_path_buf()).with_limit(limit);
    let isa = Isa::best();
    open(&folder, isa, Arithmetic::Int8, &of(u64::MAX));
    let first = files(cache.path(), "weights").remove(0);
    let size = fs::metadata(&first).unwrap().len();
    let other = cache.path().join("other.txt");
    fs::write(&other, vec![0; 1 << 20]).unwrap();
    let old = SystemTime::now() - Duration::from_hours(1);
    let is_old = |path: &Path| fs::File::open(path).unwrap().set_modified(old).unwrap();
    is_old(&first);
    is_old(&other);
    // A killed run left it.
    let left = atomic::beside(&cache.path().join("x.weights"), ".tmp");
    fs::write(&left, "left").unwrap();
    open(&folder, isa, Arithmetic::Int16, &of(2 * size));
    assert_eq!(
        files(cache.path(), "weights").len(),
        1,
        "the older one is gone"
    );
    assert!(!first.exists() && other.exists() && !left.exists());
    // Too large for the cache: not written.
    open(&folder, isa, Arithmetic::Int8, &of(size - 1));
    assert!(!first.exists());
    for note in 0..600 {
        let weights = of(u64::MAX).weights(isa, Arithmetic::Int8, &[]);
        weights.keep_note(&note.to_string(), "");
    }
    assert_eq!(files(cache.path(), "note").len(), 512);
}

#[test]
fn runs_that_write_at_once_leave_one_whole_file() {
    let folder = Path::new(CASES).join("bert");
    let cache = tempfile::tempdir().unwrap();
    let prepared = PreparedCache::new(cache.path().to_path_buf());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| open(&folder, Isa::best(), Arithmetic::Int8, &prepared));
        }
    });
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    assert!(open(&folder, Isa::best(), Arithmetic::Int8, &prepared).1);
}

/// Others could put weights of their own there.
#[cfg(unix)]
#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let cache = tempfile::tempdir().unwrap();
    let prepared = PreparedCache::new(cache.path().to_path_buf());
    let weights = prepared.weights(Isa::best(), Arithmetic::Int8, &[]);
    weights.keep_note("n", "kept");
    let mode = |mode| fs::set_permissions(cache.path(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    assert_eq!(weights.note("n"), None);
    weights.keep_note("other", "kept");
    mode(0o700);
    assert_eq!(weights.note("n").as_deref(), Some("kept"));
    assert_eq!(weights.note("other"), None);
}
