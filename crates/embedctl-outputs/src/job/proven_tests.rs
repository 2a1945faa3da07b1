//! Outputs that somebody has disturbed: a run that goes on, `inspect` and `--reuse` give what the undisturbed output
//! gives, or they say what is wrong.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::scene_tests::JobScene;
use super::*;
use crate::cancel::CancelToken;
use crate::output::{Compression, Forms, OutputFormat, proof};
use crate::record::RowVector;
use crate::reuse::EarlierOutput;
use embedctl_testing::{assert_no_bug, stride};

type Files = Vec<(String, Vec<u8>)>;

/// A change of an output's files, with its name.
type Disturb = Box<dyn Fn(&mut Files)>;

const RECORDS: usize = 16;

fn get<'a>(files: &'a Files, name: &str) -> &'a [u8] {
    let found = files.iter().find(|(other, _)| other == name);
    found.map_or(&[], |(_, content)| content)
}

fn set(files: &mut Files, name: &str, content: Vec<u8>) {
    match files.iter_mut().find(|(other, _)| other == name) {
        Some(file) => file.1 = content,
        None => files.push((name.to_owned(), content)),
    }
}

fn swap(files: &mut Files, one: &str, other: &str) {
    let (first, second) = (get(files, one).to_vec(), get(files, other).to_vec());
    set(files, one, second);
    set(files, other, first);
}

/// The rows of a file in the opposite order, where that can be made of its bytes.
fn reversed(format: OutputFormat, content: &[u8]) -> Option<Vec<u8>> {
    let (header, row) = match format {
        OutputFormat::Npy => (128, 8),
        OutputFormat::Fbin => (8, 8),
        OutputFormat::I8bin | OutputFormat::U8bin => (8, 2),
        OutputFormat::Jsonl(Compression::None) => {
            let lines = content.split_inclusive(|&byte| byte == b'\n');
            return Some(lines.rev().flatten().copied().collect());
        }
        _ => return None,
    };
    let (header, values) = content.split_at_checked(header)?;
    let rows = values.chunks(row).rev().flatten().copied();
    Some(header.iter().copied().chain(rows).collect())
}

/// All that is done to an output of `format`.
fn disturbances(format: OutputFormat, good: &Files) -> Vec<(String, Disturb)> {
    let ending = format.name();
    let part = |number: u32| format!("{}.{ending}", names::part(1, number));
    let texts = |number: u32| format!("{}/{}.sha256", names::TEXTS, names::part(1, number));
    let mut all: Vec<(String, Disturb)> = Vec::new();
    let mut add = |title: String, disturb: Disturb| all.push((title, disturb));
    let mut of_first: Vec<String> = (format.sidecars().iter())
        .map(|beside| format!("{}{beside}", part(0)))
        .collect();
    of_first.extend([part(0), texts(0)]);
    for name in of_first {
        let length = get(good, &name).len();
        for cut in [0, length / 2, length - 1] {
            let file = name.clone();
            let disturb = move |files: &mut Files| {
                let content = get(files, &file)[..cut].to_vec();
                set(files, &file, content);
            };
            add(format!("{name} cut to {cut}"), Box::new(disturb));
        }
        for at in (0..4).map(|third| (length - 1) * third / 3) {
            let file = name.clone();
            let disturb = move |files: &mut Files| {
                let mut content = get(files, &file).to_vec();
                content[at] ^= 1;
                set(files, &file, content);
            };
            add(format!("{name}, byte {at}"), Box::new(disturb));
        }
        let file = name.clone();
        let disturb = move |files: &mut Files| {
            let longer = [get(files, &file), b"\n"].concat();
            set(files, &file, longer);
        };
        add(format!("{name} longer"), Box::new(disturb));
        let file = name.clone();
        let gone = move |files: &mut Files| files.retain(|(other, _)| *other != file);
        if name != part(0) {
            add(format!("{name} removed"), Box::new(gone));
        }
    }
    if let Some(reversed) = reversed(format, get(good, &part(0))) {
        let name = part(0);
        let disturb = move |files: &mut Files| set(files, &name, reversed.clone());
        add("reversed rows".into(), Box::new(disturb));
    }
    // Two parts for one another, one over another: alone, with what stands beside them, with their texts and commits.
    let beside: Vec<String> = format
        .sidecars()
        .iter()
        .map(|it| (*it).to_owned())
        .collect();
    for also in ["alone", "beside", "texts", "commits"] {
        let pairs = |one: u32, other: u32| {
            let mut pairs = vec![(part(one), part(other))];
            if also != "alone" {
                let pair = |ending| {
                    (
                        format!("{}{ending}", part(one)),
                        format!("{}{ending}", part(other)),
                    )
                };
                pairs.extend(beside.iter().map(pair));
            }
            if also == "texts" || also == "commits" {
                pairs.push((texts(one), texts(other)));
            }
            if also == "commits" {
                pairs.push((names::commit(1, one), names::commit(1, other)));
            }
            pairs
        };
        let (all_of, over) = (pairs(0, 1), pairs(0, 1));
        let disturb = move |files: &mut Files| {
            all_of
                .iter()
                .for_each(|(one, other)| swap(files, one, other));
        };
        add(format!("parts swapped, {also}"), Box::new(disturb));
        let disturb = move |files: &mut Files| {
            for (one, other) in &over {
                let content = get(files, one).to_vec();
                set(files, other, content);
            }
        };
        add(format!("a part over another, {also}"), Box::new(disturb));
    }
    let (one, other) = (texts(0), texts(1));
    let disturb = move |files: &mut Files| swap(files, &one, &other);
    add("texts swapped".into(), Box::new(disturb));
    let disturb = |files: &mut Files| swap(files, &names::commit(1, 0), &names::commit(1, 1));
    add("commits swapped".into(), Box::new(disturb));
    // A commit, or a part, of a run over other texts.
    let elsewhere = JobScene::of_numbers(RECORDS, format, 6, 100);
    elsewhere.run(false, plain(&elsewhere), usize::MAX).unwrap();
    let stale = elsewhere.files();
    let commit = get(&stale, &names::commit(1, 0)).to_vec();
    let disturb = move |files: &mut Files| set(files, &names::commit(1, 0), commit.clone());
    add("a stale commit".into(), Box::new(disturb));
    let name = names::part(1, 0);
    let of_other: Files = stale
        .into_iter()
        .filter(|(file, _)| file.contains(&name))
        .collect();
    for with_commit in [false, true] {
        let of_other = of_other.clone();
        let disturb = move |files: &mut Files| {
            for (name, content) in &of_other {
                if with_commit || !name.starts_with(names::COMMITS) {
                    set(files, name, content.clone());
                }
            }
        };
        add(
            format!("a part of another output, its commit {with_commit}"),
            Box::new(disturb),
        );
    }
    all
}

fn plain(scene: &JobScene) -> Arc<dyn SharedFolder> {
    Arc::new(LocalFolder::new(scene.out()))
}

/// Rows of an output as they are read: of compressed lines what is in them, of all else the bytes. Nothing of what says
/// how it was made.
fn rows(out: &Path, format: OutputFormat) -> Vec<(String, Vec<u8>)> {
    let mut rows = Vec::new();
    for entry in LocalFolder::new(out).list("").unwrap() {
        let Some((_, _, ending)) = names::parse(&entry.name) else {
            continue;
        };
        let mut content = fs::read(out.join(&entry.name)).unwrap();
        if ending == ".jsonl.gz" {
            let mut lines = Vec::new();
            let read = flate2::read::MultiGzDecoder::new(&content[..]).read_to_end(&mut lines);
            content = read.map_or(content.clone(), |_| lines);
        }
        if ending == ".jsonl.zst" {
            content = zstd::decode_all(&content[..]).unwrap_or(content);
        }
        rows.push((entry.name, content));
    }
    assert!(!rows.is_empty(), "{format}");
    rows
}

/// That vectors which are taken from the output are those of their texts.
fn assert_reused(scene: &JobScene, whole: bool, title: &str) {
    let old = EarlierOutput::folder("reuse out/".into(), plain(scene));
    let texts: Vec<String> = (0..RECORDS)
        .map(|record| format!("text {record}"))
        .collect();
    let forms = Forms::dense(&[2]);
    let texts = texts.iter().map(String::as_str);
    let found = old.and_then(|old| old.open(&forms)?.find(texts));
    let Some(found) = assert_no_bug(found) else {
        return assert!(!whole, "{title}");
    };
    for record in 0..RECORDS {
        let right = [record as f32, 0.5];
        let vector = found.get(record);
        assert!(
            vector.is_none_or(|vector| vector.first() == RowVector::of_vector(&right)),
            "{title}: {record} {vector:?}"
        );
        assert!(
            !whole || vector.is_some() || record % 7 == 3,
            "{title}: {record}"
        );
    }
}

/// Whether `inspect` finds nothing wrong.
fn is_sound(scene: &JobScene) -> bool {
    let found = crate::inspect::inspect(&scene.out(), None, None, &CancelToken::new());
    assert_no_bug(found)
        .is_some_and(|found| found.files.iter().all(|file| file.problems.is_empty()))
}

fn disturbed(format: OutputFormat) {
    let scene = JobScene::new(RECORDS, format, 6);
    let reusable = !matches!(format, OutputFormat::I8bin | OutputFormat::U8bin);
    assert!(scene.run(false, plain(&scene), usize::MAX).unwrap());
    let good = scene.files();
    let right = rows(&scene.out(), format);
    // As it was put, nothing is looked into; touched, all of it is, and is committed anew.
    let state = State::read(plain(&scene).as_ref(), None).unwrap();
    assert_eq!((state.uncommitted.len(), state.older), (0, 0), "{format}");
    assert!(
        state.parts.values().all(|part| !part.sha256.is_empty()),
        "{format}"
    );
    scene.restore(&good);
    let state = State::read(plain(&scene).as_ref(), None).unwrap();
    assert_eq!(state.uncommitted.len(), 3, "{format}");
    assert!(is_sound(&scene), "{format}");
    if reusable {
        assert_reused(&scene, true, "as it was");
    }
    assert!(scene.run(true, plain(&scene), usize::MAX).unwrap());
    assert_eq!(inspect(&scene.out()).unwrap().unwrap().uncommitted.len(), 0);
    // A removed part is made anew, byte for byte.
    scene.restore(&good);
    plain(&scene).remove(&right[0].0).unwrap();
    assert!(scene.run(true, plain(&scene), usize::MAX).unwrap());
    assert!(rows(&scene.out(), format) == right, "{format}");

    let commits = ["commits", "no commits", "no commits and no end"];
    for (number, (title, disturb)) in disturbances(format, &good).into_iter().enumerate() {
        // All three in CI, and elsewhere one in turn.
        for kept in commits
            .into_iter()
            .skip(number % stride(3))
            .step_by(stride(3))
        {
            let title = format!("{format}: {title}, {kept}");
            let mut files = good.clone();
            disturb(&mut files);
            if kept != commits[0] {
                files.retain(|(name, _)| !name.starts_with(names::COMMITS));
            }
            if kept == commits[2] {
                let ends = [names::SUCCESS, names::MANIFEST];
                files.retain(|(name, _)| {
                    !ends.contains(&name.as_str()) && !name.starts_with(names::SHARDS)
                });
            }
            scene.restore(&files);
            let is_right = rows(&scene.out(), format) == right;
            assert!(!is_sound(&scene) || is_right, "{title}: inspect");
            if reusable {
                assert_reused(&scene, false, &title);
            }
            let done = assert_no_bug(scene.run(true, plain(&scene), usize::MAX));
            if done.is_some() {
                assert!(rows(&scene.out(), format) == right, "{title}: resumed");
            }
        }
    }
}

/// Every third format, from the `first` on.
fn disturbed_from(first: usize) {
    OutputFormat::all()
        .filter(|format| !format.facts().holds_sparse_alone())
        .skip(first)
        .step_by(3)
        .for_each(disturbed);
}

#[test]
fn disturbed_outputs_are_told_or_made_right() {
    disturbed_from(0);
}

#[test]
fn disturbed_outputs_of_other_formats_are_told_or_made_right() {
    disturbed_from(1);
}

#[test]
fn disturbed_outputs_of_further_formats_are_told_or_made_right() {
    disturbed_from(2);
}

/// Files beside an output prove themselves, too: every byte of them.
#[test]
fn damaged_provenance_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, "").unwrap();
    let beside = path.with_extension("jsonl.json");
    let made = json!({"model": {"id": "m"}, "sha256": {"lines": crate::hash::of("")}, "x": 0.1});
    let good = proof::sidecar_text(&made);
    let file = crate::storage::Readable::file(&path).unwrap();
    let prove = |text: &[u8]| {
        fs::write(&beside, text).unwrap();
        let made: Value = serde_json::from_slice(text).ok()?;
        Some(crate::output::prove(&file, OutputFormat::Jsonl(Compression::None), &made).unwrap())
    };
    assert_eq!(prove(&good), Some(proof::Proof::Whole));
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        let proven = prove(&damaged);
        assert!(proven != Some(proof::Proof::Whole), "{at}");
    }
}
