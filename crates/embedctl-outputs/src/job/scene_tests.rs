//! A job of the tests: an input, and runs as the pipeline does them, with vectors that say which record they are of.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::cancel::CancelToken;
use crate::input::{RecordReader, Source};
use crate::output::{Calibration, Forms, RowForm, RunFiles};
use crate::progress::Counts;
use crate::record::{Reject, RowRef, RowVectors, Rows, SourceNames, Window};
use crate::rejects;
use crate::storage::Readable;
use embedctl_records::marks::WindowStart;
use embedctl_records::options::InputOptions;

pub(super) const JSONL: OutputFormat = OutputFormat::Jsonl(crate::output::Compression::None);

/// A folder with an input and a job's output.
pub(super) struct JobScene {
    pub(super) folder: tempfile::TempDir,
    format: OutputFormat,
    part_rows: u64,
    /// The form of a row's numbers.
    pub(super) form: RowForm,
    /// When parts end besides.
    pub(super) limits: fn(Limits) -> Limits,
}

impl JobScene {
    /// `records` lines, of which every seventh is no JSON.
    pub(super) fn new(records: usize, format: OutputFormat, part_rows: u64) -> Self {
        Self::of_numbers(records, format, part_rows, 0)
    }

    /// The same, of records that are numbered from `first` on.
    pub(super) fn of_numbers(
        records: usize,
        format: OutputFormat,
        part_rows: u64,
        first: usize,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let line = |record: usize| match record % 7 {
            3 => "not JSON\n".to_owned(),
            _ => {
                let number = record + first;
                format!("{{\"id\": {number}, \"text\": \"text {number}\"}}\n")
            }
        };
        let input: String = (0..records).map(line).collect();
        fs::write(folder.path().join("in.jsonl"), input).unwrap();
        Self {
            folder,
            format,
            part_rows,
            form: RowForm::Dense(vec![2]),
            limits: |limits| limits,
        }
    }

    pub(super) fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    pub(super) fn job(&self, resume: bool, storage: Arc<dyn SharedFolder>) -> Job {
        let options = JobOptions {
            resume,
            part_rows: Some(self.part_rows),
            ..JobOptions::default()
        };
        let output = OutputOptions {
            format: Some(self.format),
            ..OutputOptions::new(Destination::Path(self.folder.path().join("out/")))
        };
        let job = Job::of(&output, &options).unwrap().unwrap();
        job.with_storage(storage)
    }

    /// As the pipeline does it, with a vector that says which record it is of; stops after `windows`.
    pub(super) fn run(
        &self,
        resume: bool,
        storage: Arc<dyn SharedFolder>,
        windows: usize,
    ) -> Result<bool> {
        let job = self.job(resume, storage);
        if resume && Self::is_completed(&job)? {
            return Ok(true);
        }
        let Some(begun) = job.begin(3)? else {
            return Ok(true);
        };
        let (reader, names) = self.reader(begun.window)?;
        let (columns, covered) = (reader.schema(), begun.covered());
        let mut reader = JobReader::new(reader, WindowStart::default(), covered, &job);
        let mut parts = self.parts(&job, begun, names.clone(), columns)?;
        let made = |counts: &Counts| -> Result<Value> { Ok(json!({"read": counts.read})) };
        let mut counts = Counts::default();
        let mut result = Ok(());
        for _ in 0..windows {
            let Some(window) = reader.next_window()? else {
                parts.finish(reader.end(), reader.input().schema(), &made)?;
                return job.complete();
            };
            let mut done = done(window, &names, &mut counts);
            done.rows.vectors = self.of_form(done.rows.vectors);
            result = parts.take(done, &made);
            if result.is_err() {
                break;
            }
        }
        result.map(|()| false)
    }

    /// The same numbers in the form of the scene's.
    fn of_form(&self, vectors: RowVectors) -> RowVectors {
        let mut rows = self.form.no_rows();
        for row in vectors.iter() {
            let values = row.first().values();
            match self.form {
                // Zeros among them.
                RowForm::Sparse(_) => rows.push_entries((0..).zip(values.iter().copied())),
                RowForm::Dense(_) | RowForm::Scores(_) | RowForm::Tokens(_) => {
                    rows.push_values(values);
                }
            }
        }
        rows.into()
    }

    /// Whether there is nothing left to do, as the pipeline finds out before it begins.
    fn is_completed(job: &Job) -> Result<bool> {
        let state = job.look()?;
        if !state.has_ended(1) {
            return Ok(false);
        }
        state.check_lists(job.storage().as_ref())?;
        let manifest = Manifest::read(job.storage().as_ref())?;
        job.renew_completion(&state, manifest.as_ref())?;
        Ok(true)
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
        begun: LockedJob,
        names: SourceNames,
        columns: arrow::datatypes::SchemaRef,
    ) -> Result<Parts> {
        let mut fingerprint = Fingerprint::default();
        fingerprint.set("model", "m");
        job.settle(&begun, &fingerprint, &[])?;
        let source = Source::Path(self.folder.path().join("in.jsonl"));
        let about = JobFacts {
            job: job.clone(),
            fingerprint: fingerprint.hash(),
            sources: vec![SourceState::of(&source, &names[0])],
            share: 0..1,
            stretches: Vec::new(),
        };
        let (format, ranges) = (self.format, self.folder.path().join("ranges.json"));
        let forms = Forms::from(self.form.clone());
        let create: Create = Box::new(move |path| {
            let is_int8 = matches!(format, OutputFormat::I8bin | OutputFormat::U8bin);
            let calibration = is_int8.then(|| {
                fs::write(&ranges, "{\"min\": [0, 0], \"max\": [20, 1]}").unwrap();
                let ranges = Readable::file(&ranges).unwrap();
                Calibration::read(&ranges, &CancelToken::new()).unwrap()
            });
            let output = OutputOptions {
                calibration,
                format: Some(format),
                force: true,
                ..OutputOptions::new(Destination::Path(path.to_path_buf()))
            };
            let names = names.clone();
            crate::output::create(
                &output.into(),
                &forms,
                names,
                &columns,
                &RunFiles::default(),
            )
        });
        let limits = (self.limits)(job.limits(2 * size_of::<f32>(), begun.window));
        begun.parts(about, create, limits)
    }

    /// All files of the output, by their names.
    pub(super) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let storage = LocalFolder::new(self.out());
        let mut files = Vec::new();
        for folder in ["", names::OWN, names::SHARDS]
            .iter()
            .chain(&names::OF_PARTS)
        {
            for entry in storage.list(folder).unwrap() {
                let name = format!("{folder}/{}", entry.name);
                let name = name.trim_start_matches('/').to_owned();
                let content = fs::read(self.out().join(&name)).unwrap();
                files.push((name, content));
            }
        }
        files
    }

    /// Puts the output back as it was with these files.
    pub(super) fn restore(&self, files: &[(String, Vec<u8>)]) {
        fs::remove_dir_all(self.out()).unwrap();
        for (name, content) in files {
            let path = self.out().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
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
                content
                    .rows
                    .push((row["id"].to_string(), row["embedding"].to_string()));
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
            for entry in LocalFolder::new(self.out()).list(folder).unwrap() {
                assert!(!entry.name.contains(".tmp"), "{}", entry.name);
            }
        }
        assert!(!self.out().join("_embedctl/shard-00001.scratch").exists());
    }
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Content {
    pub(super) rows: Vec<(String, String)>,
    pub(super) rejected: Vec<u64>,
}

/// A window with a vector for each text.
pub(super) fn done(window: Window, names: &[String], counts: &mut Counts) -> EmbeddedWindow {
    let origins: Vec<_> = window.origins().collect();
    let rejects: Vec<_> = window.rejects().cloned().collect();
    let Window {
        texts,
        columns,
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
    EmbeddedWindow {
        texts: mark.texts.iter().flatten().copied().collect(),
        rejects: rejects.iter().flat_map(line).collect(),
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
            vectors: RowVectors::in_full(2, texts.iter().flat_map(vector).collect()),
            dimensions: 2,
            missing: None,
        },
        mark,
        counts: *counts,
    }
}

/// The output of an undisturbed run.
pub(super) fn whole(records: usize, part_rows: u64) -> Content {
    let scene = JobScene::new(records, JSONL, part_rows);
    assert!(
        scene
            .run(false, Arc::new(LocalFolder::new(scene.out())), usize::MAX)
            .unwrap()
    );
    let content = scene.content();
    scene.check(&content);
    assert_eq!(content.rows.len() + content.rejected.len(), records);
    content
}
