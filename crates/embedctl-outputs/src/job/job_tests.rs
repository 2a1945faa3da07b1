//! Jobs under failures: every call to the storage fails in turn, and what follows goes on.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::begin::window_of;
use super::scene_tests::{JSONL, JobScene, done, whole};
use super::storage_tests::TestStorage;
use super::*;
use crate::input::{RecordReader, Source};
use crate::output::RowForm;
use crate::progress::Counts;
use crate::record::{RowVectors, Rows};
use embedctl_records::marks::WindowStart;
use embedctl_records::options::InputOptions;
use embedctl_testing::stride;

#[test]
fn a_run_survives_the_failure_of_any_one_operation() {
    let expected = whole(16, 6);
    for (late, dead) in [(false, true), (true, true), (false, false)] {
        for fails in (0..).step_by(stride(3)) {
            let scene = JobScene::new(16, JSONL, 6);
            let faulty = TestStorage::new(LocalFolder::new(scene.out()), fails, late, dead);
            let calls = Arc::clone(&faulty.calls);
            let first = scene.run(false, Arc::new(faulty), usize::MAX);
            if calls.load(std::sync::atomic::Ordering::Relaxed) <= fails {
                assert!(first.unwrap(), "nothing failed at {fails}");
                assert!(
                    fails > 20,
                    "{fails} calls are too few to have written anything"
                );
                break;
            }
            // All that was published by then stands, whole.
            let before = scene.content();
            assert!(
                expected.rows.starts_with(&before.rows),
                "{fails} {before:?}"
            );
            let again = scene.run(true, Arc::new(LocalFolder::new(scene.out())), usize::MAX);
            assert!(again.unwrap(), "{fails} {late} {dead}");
            scene.check(&expected);
        }
    }
}

/// A part of several files gets their names one after another. Whatever its numbers are, a run that was killed between any
/// two of them is resumed.
#[test]
fn a_run_killed_between_the_files_of_a_part_is_resumed() {
    let mut several = 0;
    for format in OutputFormat::all() {
        let kinds = RowForm::of_vectors().map(|form| form.of_width(2));
        for form in kinds.into_iter().chain([RowForm::Scores(2)]) {
            let holds = OutputOptions {
                format: Some(format),
                ..OutputOptions::default()
            };
            if holds.check_forms(&form.clone().into()).is_err() {
                continue;
            }
            let mut scene = JobScene::new(8, format, 6);
            scene.form = form.clone();
            let plain = || Arc::new(LocalFolder::new(scene.out()));
            assert!(scene.run(false, plain(), usize::MAX).unwrap());
            let whole = scene.files();
            let part = |number| format!("{}.{format}", names::part(1, number));
            let mut of_part: Vec<&str> = whole.iter().map(|(name, _)| name.as_str()).collect();
            of_part.retain(|name| name.starts_with(&part(0)));
            // The part itself gets its name last.
            of_part.sort_unstable();
            of_part.reverse();
            assert_eq!(of_part.last(), Some(&part(0).as_str()));
            several = several.max(of_part.len());
            for there in 0..=of_part.len() {
                let is_there = |name: &str| match name {
                    _ if of_part.contains(&name) => of_part[..there].contains(&name),
                    _ if name.starts_with(&part(1)) => false,
                    _ if name.starts_with(names::COMMITS) || name.starts_with(names::SHARDS) => {
                        false
                    }
                    name => ![names::MANIFEST, names::SUCCESS].contains(&name),
                };
                let left = whole.iter().filter(|(name, _)| is_there(name));
                scene.restore(&left.cloned().collect::<Vec<_>>());
                let resumed = scene.run(true, plain(), usize::MAX);
                assert!(
                    resumed.is_ok_and(|is_complete| is_complete),
                    "{format} {form:?}, after {:?}",
                    &of_part[..there]
                );
                let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
                    files.iter().map(|(name, _)| name.clone()).collect()
                };
                assert_eq!(
                    names(&scene.files()),
                    names(&whole),
                    "{format} {form:?} {there}"
                );
            }
        }
    }
    assert_eq!(several, 4);
}

#[test]
fn a_run_that_goes_on_survives_the_failure_of_any_one_operation() {
    let expected = whole(16, 6);
    for late in [false, true] {
        for fails in (0..).step_by(stride(3)) {
            let scene = JobScene::new(16, JSONL, 6);
            let plain = || Arc::new(LocalFolder::new(scene.out()));
            assert!(!scene.run(false, plain(), 3).unwrap());
            let faulty = TestStorage::new(LocalFolder::new(scene.out()), fails, late, true);
            let calls = Arc::clone(&faulty.calls);
            let second = scene.run(true, Arc::new(faulty), usize::MAX);
            let failed = calls.load(std::sync::atomic::Ordering::Relaxed) > fails;
            assert_eq!(failed, second.is_err(), "{fails}");
            assert!(scene.run(true, plain(), usize::MAX).unwrap());
            scene.check(&expected);
            if !failed {
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24 / stride(3) as u32))]

    #[test]
    fn any_number_of_stops_and_lost_parts_end_in_the_same_output(
        stops in prop::collection::vec(0usize..6, 0..8),
        lost in prop::collection::vec(0u32..6, 0..4),
        part_rows in 1u64..9,
    ) {
        let expected = whole(30, 6);
        let scene = JobScene::new(30, JSONL, part_rows);
        let plain = || Arc::new(LocalFolder::new(scene.out()));
        for windows in stops {
            scene.run(true, plain(), windows).unwrap();
        }
        // Somebody removes parts, of an output that is complete too, or their commits alone.
        for number in lost {
            let part = names::part(1, number);
            let file = if number % 2 == 0 {
                format!("{part}.jsonl")
            } else {
                names::commit(1, number)
            };
            LocalFolder::new(scene.out()).remove(&file).unwrap();
        }
        prop_assert!(scene.run(true, plain(), usize::MAX).unwrap());
        scene.check(&expected);
    }
}

#[test]
fn what_is_there_needs_a_word() {
    let scene = JobScene::new(16, JSONL, 6);
    let plain = || -> Arc<dyn SharedFolder> { Arc::new(LocalFolder::new(scene.out())) };
    assert!(!scene.run(false, plain(), 3).unwrap());
    let error = scene.run(false, plain(), 3).unwrap_err().to_string();
    assert!(
        error.contains("unfinished") && error.contains("resume"),
        "{error}"
    );
    assert!(scene.run(true, plain(), usize::MAX).unwrap());
    assert!(scene.run(true, plain(), usize::MAX).unwrap());
    let error = scene.run(false, plain(), 3).unwrap_err().to_string();
    assert!(
        error.contains("complete") && error.contains("force"),
        "{error}"
    );
}

#[test]
fn two_runs_don_t_write_one_output() {
    let scene = JobScene::new(16, JSONL, 6);
    let plain = || -> Arc<dyn SharedFolder> { Arc::new(LocalFolder::new(scene.out())) };
    let job = scene.job(true, plain());
    let held = job.begin(3).unwrap().expect("nothing is finished");
    let error = scene.run(true, plain(), 1).unwrap_err().to_string();
    assert!(error.contains("another run"), "{error}");
    drop(held);
    assert!(scene.run(true, plain(), usize::MAX).unwrap());
}

#[test]
fn another_input_is_refused() {
    for (from, to) in [("text 4\"", "text 5\""), ("not JSON", "No JSON!")] {
        let scene = JobScene::new(16, JSONL, 6);
        let plain = || -> Arc<dyn SharedFolder> { Arc::new(LocalFolder::new(scene.out())) };
        assert!(!scene.run(false, plain(), 5).unwrap());
        let path = scene.folder.path().join("in.jsonl");
        let input = fs::read_to_string(&path).unwrap();
        fs::write(&path, input.replacen(from, to, 1)).unwrap();
        let error = scene
            .run(true, plain(), usize::MAX)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the first") || error.contains("its first"),
            "{error}"
        );
        // Shorter than what was embedded.
        fs::write(&path, &input[..30]).unwrap();
        scene.run(true, plain(), usize::MAX).unwrap_err();
        fs::write(&path, input).unwrap();
        assert!(scene.run(true, plain(), usize::MAX).unwrap());
    }
}

/// The list of rejects is the only record of rejected lines and reasons.
#[test]
fn a_list_of_rejects_that_is_cut_changed_or_gone_is_told_and_made_again_with_its_part() {
    let expected = whole(16, 6);
    let list = "_embedctl/rejects/part-00001-00000.jsonl";
    // In the middle of a run, before its completion marker, and after it.
    for (windows, ended) in [(4, false), (usize::MAX, false), (usize::MAX, true)] {
        for damage in 0..3 {
            let scene = JobScene::new(16, JSONL, 6);
            let plain = || Arc::new(LocalFolder::new(scene.out()));
            scene.run(false, plain(), windows).unwrap();
            if !ended {
                plain().remove(names::SUCCESS).unwrap();
            }
            let path = scene.out().join(list);
            let text = fs::read_to_string(&path).unwrap();
            match damage {
                0 => fs::write(&path, &text[..text.len() / 2]).unwrap(),
                1 => fs::write(&path, text.replace("\"line\":4", "\"line\":5")).unwrap(),
                _ => fs::remove_file(&path).unwrap(),
            }
            let error = scene.run(true, plain(), usize::MAX).unwrap_err();
            assert!(error.to_string().contains(list), "{error}");
            let part = "out/part-00001-00000.jsonl and rerun";
            assert!(error.remedy().unwrap().contains(part), "{error}");
            plain().remove("part-00001-00000.jsonl").unwrap();
            assert!(scene.run(true, plain(), usize::MAX).unwrap());
            scene.check(&expected);
        }
    }
}

#[test]
fn an_output_that_vanishes_under_its_run_is_no_bug() {
    let scene = JobScene::new(3, JSONL, 6);
    let job = scene.job(true, Arc::new(LocalFolder::new(scene.out())));
    let error = job.complete().unwrap_err();
    assert!(error.to_string().contains("removed or renamed"), "{error}");
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let scene = JobScene::new(3, JSONL, 6);
    fs::create_dir(scene.out()).unwrap();
    fs::write(scene.out().join("notes.txt"), "").unwrap();
    let error = scene
        .run(true, Arc::new(LocalFolder::new(scene.out())), 1)
        .unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error}");
}

/// Whichever comes first: records, bytes, or time.
#[test]
fn a_part_ends_where_it_is_large_or_old_enough() {
    let parts = |limits: fn(Limits) -> Limits| {
        let mut scene = JobScene::new(12, JSONL, 9);
        scene.limits = limits;
        let plain = || Arc::new(LocalFolder::new(scene.out()));
        assert!(scene.run(false, plain(), usize::MAX).unwrap());
        inspect(&scene.out()).unwrap().unwrap().parts.len()
    };
    assert_eq!(parts(|limits| limits), 2);
    assert_eq!(parts(|limits| Limits { bytes: 1, ..limits }), 4);
    let at_once = |limits| Limits {
        time: Duration::ZERO,
        ..limits
    };
    assert_eq!(parts(at_once), 4);
    // As many vectors as make 128 MiB, if nobody says how many.
    let scene = JobScene::new(1, JSONL, 1);
    let job = Job {
        options: JobOptions::default(),
        ..scene.job(false, Arc::new(LocalFolder::new(scene.out())))
    };
    assert_eq!(job.limits(384 * 4, 1).records, (128 << 20) / (384 * 4));
    assert_eq!(job.limits(384 * 4, 1).bytes, 128 << 20);
}

#[test]
fn windows_fill_parts() {
    assert_eq!(window_of(None, 8192), 8192);
    for (rows, window) in [
        (65_536, 8192),
        (100_000, 6250),
        (1000, 1000),
        (1, 1),
        (8191, 8191),
    ] {
        assert_eq!(window_of(Some(rows), 8192), window, "{rows}");
    }
    // No window between 1024 and 8192 divides it: parts are a little smaller.
    assert_eq!(window_of(Some(10_007), 8192), 8192);
}

#[test]
fn rows_come_back_as_they_were() {
    let scene = JobScene::new(16, JSONL, 6);
    let sources = [Source::Path(scene.folder.path().join("in.jsonl"))];
    let reader = RecordReader::open(&sources, InputOptions::default()).unwrap();
    let names = reader.names();
    let job = scene.job(false, Arc::new(LocalFolder::new(scene.out())));
    let mut reader = JobReader::new(reader, WindowStart::default(), Vec::new(), &job);
    let window = reader.next_window().unwrap().unwrap();
    let rows = done(window, &names, &mut Counts::default()).rows;
    let path = scene.folder.path().join("rows.spool");
    let mut writer: Box<dyn crate::output::VectorWriter> = Box::new(Spool::new(
        &path,
        2,
        RowVectors::in_full(2, Vec::new()),
        &Arc::default(),
    ));
    let copy = Rows {
        columns: rows.columns.clone(),
        origins: rows.origins.clone(),
        refs: rows.refs.clone(),
        vectors: rows.vectors.clone(),
        dimensions: 2,
        missing: Some([true, false].into_iter().cycle().take(rows.len()).collect()),
    };
    let missing = copy.missing.clone();
    writer.write(copy).unwrap();
    let finish = crate::output::Finish {
        schema: reader.input().schema(),
        provenance: &json!({"part": 1}),
        rejects: None,
    };
    writer.finish(finish).unwrap();
    let mut back = SpoolReader::open(&path).unwrap();
    let made = back.provenance().unwrap();
    assert_eq!(made["part"], 1);
    // It proves itself.
    let file = crate::storage::Readable::file(&path).unwrap();
    let proof = crate::output::prove(&file, OutputFormat::Arrow, &made).unwrap();
    assert_eq!(proof, crate::output::proof::Proof::Whole);
    assert_eq!(back.schema(), reader.input().schema());
    let read = back.next_rows().unwrap().unwrap();
    assert_eq!((read.columns, read.origins), (rows.columns, rows.origins));
    assert_eq!((read.refs, read.vectors), (rows.refs, rows.vectors));
    assert_eq!(read.missing, missing);
    assert!(back.next_rows().unwrap().is_none());
}
