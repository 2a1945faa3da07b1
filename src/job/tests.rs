//! Jobs under failures: every call to the storage fails in turn, and what follows goes on.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::begin::window_of;
use super::faulty::Faulty;
use super::*;
use crate::input::{InputOptions, RecordReader, Source};
use crate::output::RunFiles;
use crate::progress::Counts;
use crate::record::{Origin, Reject, RowRef, Rows, SourceNames, Window};
use crate::rejects;

pub(super) const JSONL: OutputFormat = OutputFormat::Jsonl(crate::output::Compression::None);

/// A folder with an input and a job's output.
pub(super) struct Scene {
    folder: tempfile::TempDir,
    format: OutputFormat,
    part_rows: u64,
}

impl Scene {
    /// `records` lines, of which every seventh is no JSON.
    pub(super) fn new(records: usize, format: OutputFormat, part_rows: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let line = |record: usize| match record % 7 {
            3 => "not JSON\n".to_owned(),
            _ => format!("{{\"id\": {record}, \"text\": \"text {record}\"}}\n"),
        };
        let input: String = (0..records).map(line).collect();
        fs::write(folder.path().join("in.jsonl"), input).unwrap();
        Self {
            folder,
            format,
            part_rows,
        }
    }

    pub(super) fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn job(&self, resume: bool, storage: Arc<dyn Storage>) -> Job {
        let options = JobOptions {
            resume,
            ..JobOptions::default()
        };
        self.job_of(options, storage)
    }

    fn job_of(&self, options: JobOptions, storage: Arc<dyn Storage>) -> Job {
        let output = OutputOptions {
            format: Some(self.format),
            ..OutputOptions::new(Destination::Path(self.folder.path().join("out/")))
        };
        let options = JobOptions {
            part_rows: Some(self.part_rows),
            ..options
        };
        let job = Job::of(&output, &options).unwrap().unwrap();
        job.with_storage(storage)
    }

    /// As the pipeline does it, with a vector that says which record it is of; stops after `windows`.
    pub(super) fn run(
        &self,
        resume: bool,
        storage: Arc<dyn Storage>,
        windows: usize,
    ) -> Result<bool> {
        let job = self.job(resume, storage);
        let begun = match job.begin(3)? {
            Found::Finished(_) => return Ok(true),
            Found::Begun(begun) => *begun,
        };
        let (reader, names) = self.reader(begun.window)?;
        let (columns, covered) = (reader.schema(), begun.covered());
        let mut reader = JobReader::new(reader, Point::default(), covered, "out".to_owned());
        let mut parts = self.parts(&job, begun, names.clone(), columns)?;
        let made = |counts: &Counts| -> Result<Value> { Ok(json!({"read": counts.read})) };
        let mut counts = Counts::default();
        let mut result = Ok(());
        for _ in 0..windows {
            let Some(window) = reader.next_window()? else {
                parts.finish(reader.end(), reader.schema(), &made)?;
                return job.complete();
            };
            result = parts.take(done(window, &names, &mut counts), &made);
            if result.is_err() {
                break;
            }
        }
        result.map(|()| false)
    }

    /// Tries rejected records again, as the pipeline does it.
    fn again(&self, storage: Arc<dyn Storage>) -> Result<bool> {
        let retry = JobOptions {
            retry: true,
            ..JobOptions::default()
        };
        let job = self.job_of(retry, storage);
        let Found::Begun(begun) = job.begin(3)? else {
            panic!("what is tried again is not finished")
        };
        let rejected = Rejected::read(job.storage().as_ref(), begun.state(), Some(1))?;
        let end = begun.state().ends[&1].end.clone();
        let (reader, names) = self.reader(begun.window)?;
        let columns = reader.schema();
        let mut reader = RetryReader::new(reader, rejected.places(), end);
        let mut parts = self.parts(&job, *begun, names.clone(), columns)?;
        let made = |counts: &Counts| -> Result<Value> { Ok(json!({"read": counts.read})) };
        let mut counts = Counts::default();
        while let Some(window) = reader.next_window()? {
            parts.take(done(window, &names, &mut counts), &made)?;
        }
        parts.finish(reader.end(), reader.schema(), &made)?;
        job.complete()
    }

    fn reader(&self, window: usize) -> Result<(RecordReader, SourceNames)> {
        let sources = [Source::Path(self.folder.path().join("in.jsonl"))];
        let options = InputOptions {
            window_rows: window,
            ..InputOptions::default()
        };
        let reader = RecordReader::open(&sources, options)?;
        let names = reader.names();
        Ok((reader, names))
    }

    fn parts(
        &self,
        job: &Job,
        begun: Begun,
        names: SourceNames,
        columns: arrow::datatypes::SchemaRef,
    ) -> Result<Parts> {
        let mut fingerprint = Fingerprint::default();
        fingerprint.set("model", "m");
        job.settle(&begun, &fingerprint, &[])?;
        let source = Source::Path(self.folder.path().join("in.jsonl"));
        let about = About {
            fingerprint: fingerprint.hash(),
            ..About::of(job, vec![SourceState::of(&source, &names[0])])
        };
        let format = self.format;
        let create: Create = Box::new(move |path| {
            let output = OutputOptions {
                format: Some(format),
                force: true,
                ..OutputOptions::new(Destination::Path(path.to_path_buf()))
            };
            let names = names.clone();
            crate::output::create(&output, &[2], names, &columns, &RunFiles::default())
        });
        let limits = job.limits(2, begun.window);
        begun.parts(about, create, limits)
    }

    /// Ids and vectors of all parts, and lines of all rejects, in order.
    pub(super) fn content(&self) -> Content {
        let mut content = Content::default();
        let names = |folder: &Path, ending: &str| {
            let mut names: Vec<_> = fs::read_dir(folder)
                .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
                .unwrap_or_default();
            names.retain(|path: &PathBuf| path.to_string_lossy().ends_with(ending));
            names.sort();
            names
        };
        for part in names(&self.out(), ".jsonl") {
            for line in fs::read_to_string(part).unwrap().lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                content.rows.push((
                    row["id"].as_str().unwrap().to_owned(),
                    row["embedding"].to_string(),
                ));
            }
        }
        for part in names(&self.out().join(names::REJECTS), ".jsonl") {
            for line in fs::read_to_string(part).unwrap().lines() {
                let reject: Value = serde_json::from_str(line).unwrap();
                content.rejected.push(reject["line"].as_u64().unwrap());
            }
        }
        content
    }

    /// That the output is complete, and nothing is left beside it.
    pub(super) fn check(&self, whole: &Content) {
        assert_eq!(&self.content(), whole);
        let state = inspect(&self.out()).unwrap().unwrap();
        assert!(state.success);
        assert_eq!(state.faults(), Vec::<String>::new());
        let manifest = fs::read(self.out().join(names::MANIFEST)).unwrap();
        let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest.rows as usize, whole.rows.len());
        assert_eq!(manifest.rejected as usize, whole.rejected.len());
        for folder in ["", names::COMMITS, names::REJECTS, names::TEXTS, names::OWN] {
            for entry in Local::new(self.out()).list(folder).unwrap() {
                assert!(!entry.name.contains(".tmp"), "{}", entry.name);
            }
        }
        assert!(!self.out().join("_embedctl/shard-00001.scratch").exists());
    }
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Content {
    rows: Vec<(String, String)>,
    rejected: Vec<u64>,
}

/// A window with a vector for each text.
fn done(window: Window, names: &[String], counts: &mut Counts) -> Done {
    let Window {
        texts,
        origins,
        columns,
        rejects,
        mark,
        ..
    } = window;
    let mark = mark.unwrap();
    counts.read = mark.end;
    counts.embedded += texts.len() as u64;
    counts.rejected += rejects.len() as u64;
    let vector = |text: &str| {
        let number: f32 = text.rsplit(' ').next().unwrap().parse().unwrap();
        [number, 0.5]
    };
    let line = |reject: &Reject| rejects::line(reject, names).unwrap();
    let place = |origin: &Origin| {
        let (file, line) = (names[0].clone(), origin.line);
        RecordPlace { file, line }.to_line().unwrap()
    };
    Done {
        embedded: origins.iter().flat_map(place).collect(),
        texts: mark.texts.iter().flatten().copied().collect(),
        rejects: rejects.iter().flat_map(line).collect(),
        sources: [0].into(),
        rows: Rows {
            columns,
            refs: origins
                .iter()
                .map(|origin| RowRef {
                    record: origin.line - 1,
                    part: 0,
                })
                .collect(),
            origins,
            vectors: texts.iter().flat_map(vector).collect(),
            dimensions: 2,
            missing: None,
        },
        mark,
        counts: *counts,
    }
}

/// What an undisturbed run writes.
pub(super) fn whole(records: usize, part_rows: u64) -> Content {
    let scene = Scene::new(records, JSONL, part_rows);
    assert!(
        scene
            .run(false, Arc::new(Local::new(scene.out())), usize::MAX)
            .unwrap()
    );
    let content = scene.content();
    scene.check(&content);
    assert_eq!(content.rows.len() + content.rejected.len(), records);
    content
}

#[test]
fn a_run_survives_the_failure_of_any_one_operation() {
    let expected = whole(16, 6);
    for (late, dead) in [(false, true), (true, true), (false, false)] {
        for fails in 0.. {
            let scene = Scene::new(16, JSONL, 6);
            let faulty = Faulty::new(Local::new(scene.out()), fails, late, dead);
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
            // What was published by then stands, whole.
            let before = scene.content();
            assert!(
                expected.rows.starts_with(&before.rows),
                "{fails} {before:?}"
            );
            let again = scene.run(true, Arc::new(Local::new(scene.out())), usize::MAX);
            assert!(again.unwrap(), "{fails} {late} {dead}");
            scene.check(&expected);
        }
    }
}

#[test]
fn a_run_that_goes_on_survives_the_failure_of_any_one_operation() {
    let expected = whole(16, 6);
    for late in [false, true] {
        for fails in 0.. {
            let scene = Scene::new(16, JSONL, 6);
            let plain = || Arc::new(Local::new(scene.out()));
            assert!(!scene.run(false, plain(), 3).unwrap());
            let faulty = Faulty::new(Local::new(scene.out()), fails, late, true);
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

/// Mends the fourth line, which was none of JSON; the eleventh stays as it is.
fn mend(scene: &Scene) {
    let path = scene.folder.path().join("in.jsonl");
    let input = fs::read_to_string(&path).unwrap();
    let mended = "{\"id\": 3, \"text\": \"text 3\"}";
    fs::write(&path, input.replacen("not JSON", mended, 1)).unwrap();
}

#[test]
fn rejected_records_are_tried_again_whatever_fails() {
    let mut expected = whole(16, 6).rows;
    expected.push(("3".into(), "[3.0,0.5]".into()));
    for (late, dead) in [(false, true), (true, true), (false, false)] {
        for fails in 0.. {
            let scene = Scene::new(16, JSONL, 6);
            let plain = || Arc::new(Local::new(scene.out()));
            assert!(scene.run(false, plain(), usize::MAX).unwrap());
            // Nothing can be embedded, so nothing changes.
            if fails == 0 {
                let before = inspect(&scene.out()).unwrap().unwrap();
                assert!(scene.again(plain()).unwrap());
                let after = inspect(&scene.out()).unwrap().unwrap();
                assert_eq!((after.parts, after.success), (before.parts, true));
            }
            mend(&scene);
            let faulty = Faulty::new(Local::new(scene.out()), fails, late, dead);
            let calls = Arc::clone(&faulty.calls);
            let first = scene.again(Arc::new(faulty));
            let failed = calls.load(std::sync::atomic::Ordering::Relaxed) > fails;
            assert_eq!(failed, first.is_err(), "{fails} {late} {dead}");
            // What stands there is complete, or is completed by a run that goes on.
            if fails % 2 == 0 {
                assert!(scene.run(true, plain(), usize::MAX).unwrap());
                let state = inspect(&scene.out()).unwrap().unwrap();
                assert_eq!(state.faults(), Vec::<String>::new());
                assert!(state.success && [1, 2].contains(&state.rejected()));
            }
            assert!(scene.again(plain()).unwrap());
            assert_eq!(scene.content().rows, expected, "{fails} {late} {dead}");
            let state = inspect(&scene.out()).unwrap().unwrap();
            assert!(state.success);
            assert_eq!(state.faults(), Vec::<String>::new());
            assert_eq!((state.rows(), state.rejected()), (15, 1));
            let manifest = fs::read(scene.out().join(names::MANIFEST)).unwrap();
            let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
            assert_eq!((manifest.records, manifest.rows), (16, 15));
            assert_eq!((manifest.rejected, manifest.parts.len()), (1, 4));
            let rejected = fs::read_to_string(scene.out().join(names::REJECTED)).unwrap();
            assert!(rejected.contains("\"line\":11") && rejected.lines().count() == 1);
            if !failed {
                break;
            }
        }
    }
}

#[test]
fn a_lost_part_gives_its_records_back() {
    let scene = Scene::new(16, JSONL, 6);
    let plain = || Arc::new(Local::new(scene.out()));
    assert!(scene.run(false, plain(), usize::MAX).unwrap());
    mend(&scene);
    assert!(scene.again(plain()).unwrap());
    let whole = scene.content().rows;
    plain().remove("part-00001-00003.jsonl").unwrap();
    assert_eq!(inspect(&scene.out()).unwrap().unwrap().rejected(), 2);
    assert!(scene.again(plain()).unwrap());
    assert_eq!(scene.content().rows, whole);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_number_of_stops_and_lost_parts_end_in_the_same_output(
        stops in prop::collection::vec(0usize..6, 0..8),
        lost in prop::collection::vec(0u32..6, 0..4),
        part_rows in 1u64..9,
    ) {
        let expected = whole(30, 6);
        let scene = Scene::new(30, JSONL, part_rows);
        let plain = || Arc::new(Local::new(scene.out()));
        for windows in stops {
            scene.run(true, plain(), windows).unwrap();
        }
        // Somebody removes parts of an output that is not complete, or their commits alone.
        if !scene.out().join(names::SUCCESS).exists() {
            for number in lost {
                let part = names::part(1, number);
                let file = if number % 2 == 0 {
                    format!("{part}.jsonl")
                } else {
                    names::commit(1, number)
                };
                Local::new(scene.out()).remove(&file).unwrap();
            }
        }
        prop_assert!(scene.run(true, plain(), usize::MAX).unwrap());
        scene.check(&expected);
    }
}

#[test]
fn what_is_there_needs_a_word() {
    let scene = Scene::new(16, JSONL, 6);
    let plain = || -> Arc<dyn Storage> { Arc::new(Local::new(scene.out())) };
    assert!(!scene.run(false, plain(), 3).unwrap());
    let error = scene.run(false, plain(), 3).unwrap_err().to_string();
    assert!(
        error.contains("unfinished") && error.contains("--resume"),
        "{error}"
    );
    assert!(scene.run(true, plain(), usize::MAX).unwrap());
    assert!(scene.run(true, plain(), usize::MAX).unwrap());
    let error = scene.run(false, plain(), 3).unwrap_err().to_string();
    assert!(
        error.contains("complete") && error.contains("--force"),
        "{error}"
    );
}

#[test]
fn two_runs_don_t_write_one_output() {
    let scene = Scene::new(16, JSONL, 6);
    let plain = || -> Arc<dyn Storage> { Arc::new(Local::new(scene.out())) };
    let job = scene.job(true, plain());
    let Found::Begun(held) = job.begin(3).unwrap() else {
        panic!("nothing is finished")
    };
    let error = scene.run(true, plain(), 1).unwrap_err().to_string();
    assert!(error.contains("another run"), "{error}");
    drop(held);
    assert!(scene.run(true, plain(), usize::MAX).unwrap());
}

#[test]
fn another_input_is_refused() {
    for (from, to) in [("text 4\"", "text 5\""), ("not JSON", "No JSON!")] {
        let scene = Scene::new(16, JSONL, 6);
        let plain = || -> Arc<dyn Storage> { Arc::new(Local::new(scene.out())) };
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

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let scene = Scene::new(3, JSONL, 6);
    fs::create_dir(scene.out()).unwrap();
    fs::write(scene.out().join("notes.txt"), "").unwrap();
    let error = scene
        .run(true, Arc::new(Local::new(scene.out())), 1)
        .unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error}");
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
    let scene = Scene::new(16, JSONL, 6);
    let sources = [Source::Path(scene.folder.path().join("in.jsonl"))];
    let reader = RecordReader::open(&sources, InputOptions::default()).unwrap();
    let names = reader.names();
    let mut reader = JobReader::new(reader, Point::default(), Vec::new(), String::new());
    let window = reader.next_window().unwrap().unwrap();
    let rows = done(window, &names, &mut Counts::default()).rows;
    let path = scene.folder.path().join("rows.spool");
    let mut writer: Box<dyn crate::output::VectorWriter> = Box::new(Spool::new(&path, 2));
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
        schema: reader.schema(),
        provenance: &json!({"part": 1}),
        rejects: None,
    };
    writer.finish(finish).unwrap();
    let mut back = SpoolReader::open(&path).unwrap();
    assert_eq!(back.provenance().unwrap(), json!({"part": 1}));
    assert_eq!(back.schema(), reader.schema());
    let read = back.next_rows().unwrap().unwrap();
    assert_eq!((read.columns, read.origins), (rows.columns, rows.origins));
    assert_eq!((read.refs, read.vectors), (rows.refs, rows.vectors));
    assert_eq!(read.missing, missing);
    assert!(back.next_rows().unwrap().is_none());
}
