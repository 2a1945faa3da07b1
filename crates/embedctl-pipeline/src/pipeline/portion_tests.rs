//! Slow models: a window is settled portion by portion, an interrupt keeps finished portions, and a resumed run gives
//! the same output.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::fake_tests::{Behaviour, fake, loaded_with};
use super::*;
use crate::error::ErrorKind;
use crate::input::Source;
use crate::job::JobOptions;
use crate::output::{Destination, OutputFormat, OutputOptions};
use crate::progress::{Counts, Silent};
use embedctl_records::options::InputOptions;
use embedctl_testing::stride;

/// Operations of a token of a slow model: a portion is full as soon as it has enough tokens.
const SLOW: u64 = 1 << 40;

const STEADY: Behaviour = |_, _| Ok(0.0);

/// Interrupts a run after so many portions.
struct Interrupts {
    after: usize,
    written: AtomicUsize,
    cancel: CancelToken,
}

impl Progress for Interrupts {
    fn written(&self, _: &Counts) {
        if self.written.fetch_add(1, Ordering::Relaxed) + 1 == self.after {
            self.cancel.cancel();
        }
    }
}

/// Records of many lengths, some of them equal, and some of them no records.
fn records(count: usize) -> String {
    (0..count)
        .map(|row| match row % 11 {
            4 => "{\"text\": 1}\n".to_owned(),
            _ => {
                let text = "word ".repeat(1 + (row * 7) % 23);
                format!("{{\"id\": {row}, \"text\": \"{text}\", \"kept\": {row}}}\n")
            }
        })
        .collect()
}

fn options(folder: &Path, window: usize, on_error: OnError) -> EmbedOptions {
    EmbedOptions {
        sources: vec![Source::Path(folder.join("in.jsonl"))],
        input: InputOptions {
            window_rows: window,
            keep: vec!["kept".parse().unwrap()],
            ..InputOptions::default()
        },
        output: OutputOptions {
            format: OutputFormat::of_name("jsonl"),
            ..OutputOptions::new(Destination::Path(folder.join("out/")))
        },
        job: JobOptions {
            resume: true,
            ..JobOptions::default()
        },
        on_error,
        ..EmbedOptions::default()
    }
}

/// A model whose portions have sixteen tokens or more.
fn short(operations: u64) -> Arc<LoadedModel> {
    loaded_with(fake(STEADY, operations), Some(1))
}

/// Runs until so many portions are written; how many were.
fn run(options: &EmbedOptions, operations: u64, after: usize) -> (Result<Summary>, usize) {
    let cancel = CancelToken::new();
    let progress = Arc::new(Interrupts {
        after,
        written: AtomicUsize::new(0),
        cancel: cancel.clone(),
    });
    let told: Arc<dyn Progress> = progress.clone();
    let summary = embed_with(&short(operations), options, &told, &cancel);
    (summary, progress.written.load(Ordering::Relaxed))
}

/// The parts, in order.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<_> = fs::read_dir(folder.join("out"))
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    parts.retain(|path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl"));
    parts.sort();
    parts
}

/// The rows of all parts in order, as they are written.
fn rows(folder: &Path) -> Vec<Value> {
    let lines = parts(folder);
    let lines = lines.iter().map(|path| fs::read_to_string(path).unwrap());
    let lines: String = lines.collect();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn folder(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.jsonl"), records(count)).unwrap();
    folder
}

/// The rows of a run that nothing stops, of a model that is fast enough for whole windows.
fn undisturbed(count: usize, window: usize, on_error: OnError) -> Vec<Value> {
    let folder = folder(count);
    let (summary, written) = run(&options(folder.path(), window, on_error), 0, usize::MAX);
    summary.unwrap();
    assert_eq!(written, count.div_ceil(window));
    rows(folder.path())
}

#[test]
fn an_interrupt_keeps_finished_rows_and_a_resumed_run_gives_the_same_output() {
    for (count, window, on_error) in [
        (100, 100, OnError::Skip),
        (100, 30, OnError::Skip),
        (60, 60, OnError::Null),
        (64, 9, OnError::Null),
    ] {
        let expected = undisturbed(count, window, on_error);
        let whole = folder(count);
        let (summary, portions) = run(&options(whole.path(), window, on_error), SLOW, usize::MAX);
        let counts = summary.unwrap().counts;
        assert_eq!(rows(whole.path()), expected);
        assert_eq!(counts.read, count as u64);
        assert!(portions > 2 * count.div_ceil(window), "{portions}");
        // The first interrupt, and then another every few portions.
        let stops = [(1, 1), (2, 3), (portions - 1, 1), (portions / 2, 7)].into_iter();
        for (first, next) in stops.skip(window % stride(2)).step_by(stride(2)) {
            let stopped = folder(count);
            let options = options(stopped.path(), window, on_error);
            let (mut after, mut safe) = (first, 0);
            loop {
                let (summary, written) = run(&options, SLOW, after);
                let now = rows(stopped.path());
                assert_eq!(now, expected[..now.len()], "what is published is in order");
                match summary {
                    Ok(_) => break,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
                }
                assert!(
                    written == 0 || now.len() > safe,
                    "{written}: {} rows",
                    now.len()
                );
                (after, safe) = (next, now.len());
            }
            assert_eq!(rows(stopped.path()), expected);
            let state = crate::job::inspect(&stopped.path().join("out"))
                .unwrap()
                .unwrap();
            assert!(state.success);
            assert_eq!(state.faults(), Vec::<String>::new());
        }
    }
}

#[test]
fn parts_inside_a_window_are_made_again() {
    let expected = undisturbed(80, 80, OnError::Skip);
    // An interrupt behind every portion ends a part, unless all portions are written before it is seen: a busy machine may
    // need another try.
    let made = (0..5).find_map(|_| {
        let lost = folder(80);
        let options = options(lost.path(), 80, OnError::Skip);
        while run(&options, SLOW, 1).0.is_err() {}
        (parts(lost.path()).len() > 2).then_some((lost, options))
    });
    let (lost, options) = made.expect("parts");
    let parts = || parts(lost.path());
    let count = parts().len();
    for part in [0, 1, count / 2, count - 1] {
        fs::remove_file(&parts()[part]).unwrap();
        assert_ne!(rows(lost.path()), expected);
        run(&options, SLOW, usize::MAX).0.unwrap();
        assert_eq!(rows(lost.path()), expected, "part {part} of {count}");
    }
    // Records that were embedded must be the same, wherever in a window they stand.
    for part in [1, count / 2] {
        fs::remove_file(&parts()[part]).unwrap();
        let changed = records(80).replacen("word", "other", 1);
        let before = fs::read(lost.path().join("in.jsonl")).unwrap();
        fs::write(lost.path().join("in.jsonl"), changed).unwrap();
        let error = run(&options, SLOW, usize::MAX).0.unwrap_err().to_string();
        assert!(error.contains("records differ"), "{error}");
        fs::write(lost.path().join("in.jsonl"), before).unwrap();
        run(&options, SLOW, usize::MAX).0.unwrap();
        assert_eq!(rows(lost.path()), expected);
    }
}

/// Two runs into one file, the second of which looks for it before the first completes it.
#[test]
fn a_file_that_another_run_completes_meanwhile_is_left_as_it_is() {
    let folder = folder(40);
    let file = folder.path().join("out.jsonl");
    let mut options = options(folder.path(), 10, OnError::Skip);
    options.output.destination = Destination::Path(file.clone());
    let (loaded, cancel) = (short(0), CancelToken::new());
    let plan = RunPlan::new(loaded.resolved().clone(), &options, &RunFiles::new()).unwrap();
    assert!(plan.finished(&cancel).unwrap().is_none());
    run(&options, 0, usize::MAX).0.unwrap();
    let written = fs::read(&file).unwrap();
    let silent: Arc<dyn Progress> = Arc::new(Silent);
    let error = open::run(&plan, Some(&loaded), &silent, &cancel).unwrap_err();
    assert!(error.to_string().contains("is complete"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), written);
    let mut left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.retain(|name| name.to_string_lossy().contains("embedctl"));
    assert!(left.is_empty(), "{left:?}");
}
