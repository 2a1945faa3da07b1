//! A Hub, a folder, and the binary run between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use embedctl::Result;
use embedctl::cancel::CancelToken;
use embedctl::hub::{
    Downloaded, HubSettings, ModelFilesRequest, NetSettings, ResponseLimits, Transfer, download,
};
use embedctl::model::FileChoice;
use embedctl::secrets::Secrets;
use regex::Regex;
use serde_json::Value;

use crate::hub::{Files, Hub, SIGNATURE, git_blob, sha256};
use crate::sandbox::{ONNX_MODEL, Run, Sandbox, in_repository};

/// The repository of the small model.
pub const MODEL: &str = "org/small";
/// Its largest file.
pub const ONNX: &str = "onnx/model.onnx";
/// A token; no message may show it.
pub const TOKEN: &str = "hf_5ecret7oken";

/// What the system calls an error by; systems differ.
static ERROR_NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r" \(os error \d+\)").unwrap());

/// The files of a folder under `fixtures/parity`.
pub fn fixture(name: &str) -> Files {
    Files::of(&in_repository(&format!("fixtures/parity/{name}/model")))
}

/// The small model with its ONNX file alone.
pub fn small_model() -> Files {
    Files::of(&in_repository(ONNX_MODEL))
}

/// A Hub with the small model, and an empty folder that is also the home.
pub struct World {
    pub hub: Hub,
    pub sandbox: Sandbox,
    /// The small model's commit.
    pub commit: String,
}

impl World {
    pub fn new() -> Self {
        Self::with(Hub::start())
    }

    pub fn with(hub: Hub) -> Self {
        let commit = hub.publish(MODEL, small_model());
        Self {
            hub,
            sandbox: Sandbox::new(),
            commit,
        }
    }

    /// A command line, split at spaces, that will ask this Hub.
    pub fn command(&self, line: &str) -> Command {
        let mut command = self.sandbox.command(line.split_whitespace());
        command.env("HF_ENDPOINT", self.hub.url());
        // ONNX files, unless a test says otherwise.
        command.env("EMBEDCTL_PROVIDER", "cpu,rten");
        command
    }

    pub fn run(&self, line: &str) -> Run {
        self.finish(&mut self.command(line))
    }

    /// `embed` of three texts with the native engine.
    pub fn embed_command(&self, line: &str) -> Command {
        self.sandbox
            .write("texts.txt", "one\ntwo words\nand three more\n");
        let fixed = "embed texts.txt -o out.npy --force --provider rten --threads 1";
        self.command(&format!("{fixed} {line}"))
    }

    pub fn embed(&self, line: &str) -> Run {
        self.finish(&mut self.embed_command(line))
    }

    /// Runs a command to its end; what differs between runs is taken out of what it says.
    pub fn finish(&self, command: &mut Command) -> Run {
        let run = self.sandbox.finish(command);
        self.filtered(run)
    }

    pub fn filtered(&self, run: Run) -> Run {
        for secret in [TOKEN, SIGNATURE] {
            let said = [&run.stdout, &run.stderr];
            assert!(!said.iter().any(|text| text.contains(secret)), "{run}");
        }
        let [hub, storage] = self.hub.hosts();
        let filter = |text: &str| {
            let text = text.replace(&hub, "[HUB]").replace(&storage, "[STORAGE]");
            ERROR_NUMBER.replace_all(&text, "").into_owned()
        };
        Run {
            code: run.code,
            stdout: filter(&run.stdout),
            stderr: sorted(&filter(&run.stderr)),
        }
    }

    /// The model's folder in the cache where nothing names another.
    pub fn cached(&self) -> Cached {
        Cached::of(&self.sandbox.path(".cache/huggingface/hub"), MODEL)
    }

    /// Runs a command line that must succeed.
    pub fn done(&self, line: &str) -> Run {
        let run = self.run(line);
        assert_eq!(run.code, Some(0), "{line}\n{run}");
        run
    }

    /// Settings for the library, with no pauses between attempts.
    pub fn settings(&self) -> HubSettings {
        HubSettings {
            endpoint: self.hub.url(),
            cache: self.sandbox.path(".cache/huggingface/hub"),
            token: None,
            offline: None,
            net: NetSettings {
                proxies: Default::default(),
                certificates: None,
                pause: Duration::ZERO,
                idle_timeout: Duration::from_secs(30),
                limits: ResponseLimits::default(),
            },
            secrets: Secrets::default(),
        }
    }

    /// Downloads the small model through the library.
    pub fn download(&self) -> Result<(Downloaded, Vec<String>)> {
        self.download_with(&self.settings())
    }

    pub fn download_with(&self, settings: &HubSettings) -> Result<(Downloaded, Vec<String>)> {
        let wanted = ModelFilesRequest {
            model: MODEL.parse().unwrap(),
            choice: FileChoice::default(),
            all: false,
            extra: Vec::new(),
            local_dir: None,
            locked: None,
        };
        let heard = Heard::default();
        let downloaded = download(settings, &wanted, &heard, &CancelToken::new())?;
        Ok((downloaded, heard.0.into_inner().unwrap()))
    }

    /// Why a download through the library fails, with the hosts' names taken out.
    pub fn failure(&self, settings: &HubSettings) -> String {
        let error = self.download_with(settings).unwrap_err().to_string();
        let [hub, storage] = self.hub.hosts();
        error.replace(&hub, "[HUB]").replace(&storage, "[STORAGE]")
    }

    /// Nothing is here that could be taken for a model.
    pub fn assert_nothing_published(&self) {
        let cached = self.cached();
        cached.assert_sound();
        assert!(!cached.snapshot(&self.commit).exists());
        assert_eq!(cached.commit("main"), None);
    }

    /// The model is here, whole: the cache's own hashes say so, and so does `--check`.
    pub fn assert_whole(&self) {
        self.cached().assert_sound();
        let run = self.run("download --offline --check org/small");
        assert_eq!(run.code, Some(0), "{run}");
    }
}

/// Remembers what went wrong on the way.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn hear(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

impl Transfer for Heard {
    fn restarted(&self, file: &str, reason: &str) {
        self.hear(format!("{file} starts over: {reason}"));
    }

    fn retrying(&self, what: &str, reason: &str, _pause: Duration) {
        self.hear(format!("{what}: {reason}"));
    }

    fn warning(&self, message: &str) {
        self.hear(message.to_owned());
    }
}

/// Files come in any order.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_file = |line: &&str| {
        line.starts_with("fetched ")
            || line.contains(" is present (")
            || line.ends_with("it is fetched again\n")
    };
    for run in lines.chunk_by_mut(|a, b| is_file(a) && is_file(b)) {
        run.sort_unstable();
    }
    lines.concat()
}

/// A repository in the cache.
pub struct Cached(pub PathBuf);

impl Cached {
    pub fn of(cache: &Path, id: &str) -> Self {
        Self(cache.join(format!("models--{}", id.replace('/', "--"))))
    }

    pub fn exists(&self) -> bool {
        self.0.is_dir()
    }

    pub fn blob(&self, hash: &str) -> PathBuf {
        self.0.join("blobs").join(hash)
    }

    /// The blobs, sorted.
    pub fn blobs(&self) -> Vec<String> {
        names(&self.0.join("blobs"))
    }

    /// The blobs that are not whole yet, sorted.
    pub fn incomplete(&self) -> Vec<String> {
        let mut blobs = self.blobs();
        blobs.retain(|name| name.ends_with(".incomplete"));
        blobs
    }

    /// The folder of a commit.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.0.join("snapshots").join(commit)
    }

    /// The commit of a branch or tag.
    pub fn commit(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join("refs").join(name)).ok()
    }

    /// The files of a commit.
    pub fn files(&self, commit: &str) -> Files {
        Files::of(&self.snapshot(commit))
    }

    /// Nothing here is called by a hash that it hasn't; no link leads nowhere.
    pub fn assert_sound(&self) {
        for name in self.blobs() {
            if name.ends_with(".incomplete") {
                continue;
            }
            let content = fs::read(self.blob(&name)).unwrap();
            let hash = match name.len() {
                64 => sha256(&content),
                40 => git_blob(&content),
                _ => panic!("{name} is no hash"),
            };
            assert_eq!(name, hash, "a wrong blob");
        }
        for commit in names(&self.0.join("snapshots")) {
            // Reads every file, through its link.
            let _ = self.files(&commit);
        }
    }
}

/// The names in a folder, sorted; none where there is no folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The lines of a text, as JSON.
pub fn json(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parse).collect()
}
