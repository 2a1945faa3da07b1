//! Two runs in one process: the end of one does not affect the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use embedctl::cancel::CancelToken;
use embedctl::engine::{self, EngineOptions, Resolved};
use embedctl::input::{InputOptions, Source};
use embedctl::model::ModelOptions;
use embedctl::output::{Destination, OutputOptions};
use embedctl::pipeline::{self, EmbedOptions, OnError};
use embedctl::progress::{Counts, Progress};

const ROWS: usize = 40;

fn options(folder: &Path) -> EmbedOptions {
    let input = folder.join("in.txt");
    let lines: String = (0..ROWS)
        .map(|line| format!("text number {line}\n"))
        .collect();
    fs::write(&input, lines).unwrap();
    EmbedOptions {
        sources: vec![Source::Path(input)],
        input: InputOptions {
            window_rows: ROWS / 4,
            ..InputOptions::default()
        },
        output: OutputOptions::new(Destination::Path(folder.join("out.npy"))),
        on_error: OnError::Skip,
        rejects: Some(folder.join("rejects.jsonl")),
        ..EmbedOptions::default()
    }
}

/// A model that runs anywhere.
fn model() -> Resolved {
    let model = ModelOptions {
        model: "fixtures/parity/bert-mean-legacy/model".into(),
        ..ModelOptions::default()
    };
    let engine = EngineOptions {
        providers: "rten".parse().unwrap(),
        workers: 1,
        ..EngineOptions::default()
    };
    Resolved::of(&model, &engine, engine::installed(), &CancelToken::new()).unwrap()
}

/// Says once that the first window is written, and goes on when it is told to (or nobody can tell it any
/// more).
struct Halted {
    written: Mutex<Option<mpsc::Sender<()>>>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Progress for Halted {
    fn written(&self, _: &Counts) {
        if let Some(written) = self.written.lock().unwrap().take() {
            written.send(()).unwrap();
            let _ = self.go_on.lock().unwrap().recv();
        }
    }
}

/// A run that halts after its first window.
struct Run {
    cancel: CancelToken,
    written: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
    end: thread::JoinHandle<embedctl::Result<pipeline::Summary>>,
}

fn start(folder: &Path) -> Run {
    let options = options(folder);
    let cancel = CancelToken::new();
    let (sender, written) = mpsc::channel();
    let (go_on, receiver) = mpsc::channel();
    let progress: Arc<dyn Progress> = Arc::new(Halted {
        written: Mutex::new(Some(sender)),
        go_on: Mutex::new(receiver),
    });
    let end = thread::spawn({
        let cancel = cancel.clone();
        move || pipeline::embed(model(), &options, &progress, &cancel)
    });
    Run {
        cancel,
        written,
        go_on,
        end,
    }
}

fn outputs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| !path.ends_with("in.txt"));
    paths.sort();
    paths
}

#[test]
fn a_cancelled_run_takes_nothing_of_another_with_it() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [ended, kept] = &folders;
    let (one, other) = (start(ended.path()), start(kept.path()));
    // Both have begun their files when one is told to stop.
    one.written.recv().unwrap();
    other.written.recv().unwrap();
    one.cancel.cancel();
    drop(one.go_on);
    assert!(one.end.join().unwrap().unwrap_err().is_interrupted());
    assert_eq!(outputs(ended.path()), Vec::<PathBuf>::new());

    drop(other.go_on);
    let summary = other.end.join().unwrap().unwrap();
    assert_eq!(summary.counts.embedded, ROWS as u64);
    let names = [
        "out.npy",
        "out.npy.json",
        "out.npy.rows.jsonl",
        "rejects.jsonl",
    ];
    assert_eq!(
        outputs(kept.path()),
        names.map(|name| kept.path().join(name))
    );
    let rows = fs::read_to_string(kept.path().join("out.npy.rows.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), ROWS);
}
