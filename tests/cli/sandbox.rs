//! A folder of its own for each test, and the binary run inside it.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

use regex::Regex;
use tempfile::TempDir;

/// The real model; its folder in the repository.
pub const REAL_MODEL: &str = "fixtures/models/all-MiniLM-L6-v2";
/// The small model with its ONNX file alone.
pub const ONNX_MODEL: &str = "fixtures/parity/bert-mean-legacy/model";
/// A small model, an ONNX file and a checkpoint: 48 dimensions, mean pooling.
pub const SMALL_MODEL: &str = "fixtures/parity/bert-mean/model";

/// A path in the repository.
pub fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What differs between machines and runs, and what stands in its place.
static FILTERS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"[0-9a-f]{16}-[0-9a-f]{8}-(\w+)", "[MODEL]-[MACHINE]-$1"),
        (r"\d+(\.\d+)? s\b|\d+ min \d+ s", "[TIME]"),
        (r"[\d,]+ (rows|tokens)/s", "[RATE] $1/s"),
        (
            r"(read|tokenize|infer|pool|write|waited|padding) \d+\.\d %",
            "$1 [SHARE]",
        ),
        (r#"(limited by |"limit":")\w+"#, "$1[STAGE]"),
        (r"(rten|onnxruntime) \d+\.\d+\.\d+\S*", "$1 [VERSION]"),
        (
            r"native \d+\.\d+\.\d+ \([^)]*\)",
            "native [VERSION] ([CPU])",
        ),
        (
            r#""version":"[\d.]+( \([\w-]+\))?""#,
            r#""version":"[VERSION]""#,
        ),
        (r#"_(seconds|per_second)":[\d.e-]+"#, r#"_$1":[NUMBER]"#),
        (r#""time":"\d{4}-\d\d-\d\dT[\d:.]+Z""#, r#""time":"[TIME]""#),
    ];
    // Once: they take longer to read than a small run.
    let filters = patterns.into_iter();
    let filters = filters.map(|(pattern, with)| (Regex::new(pattern).unwrap(), with));
    filters.collect()
});

/// The working directory of a run.
pub struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// An empty folder.
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A file's path.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of the job that writes the folder `output`, by the name that the job gives it.
    pub fn of_job(&self, output: &str, name: &str) -> PathBuf {
        let own = format!("_{output}.embedctl");
        match name.strip_prefix("_embedctl/") {
            Some(name) => self.path(&own).join(name),
            None if name.ends_with(".jsonl.json") => self.path(&own).join("sidecars").join(name),
            None => self.path(output).join(name),
        }
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Names of all files here, sorted.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The binary, to be run here: nothing of the caller's environment reaches it, so that it finds no
    /// model, no library and no colours but its own.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            // Nobody listens there: no test asks a real Hub.
            .env("HF_ENDPOINT", "http://127.0.0.1:1")
            // Nor does anybody's file with settings, such as one above this folder, reach a test.
            .env("EMBEDCTL_NO_CONFIG", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(root) = std::env::var_os("SystemRoot") {
            command.env("SystemRoot", root); // Windows runs no program without it
        }
        command
    }

    /// Runs a command line, split at spaces.
    pub fn run(&self, line: &str) -> Run {
        self.finish(&mut self.command(line.split_whitespace()))
    }

    /// `embed` with the small model on one thread, by the native engine unless `line` says otherwise (a run by rten takes half as
    /// long again).
    pub fn embed(&self, line: &str) -> Run {
        self.finish(&mut self.embed_command(line))
    }

    /// The command behind [`Sandbox::embed`].
    pub fn embed_command(&self, line: &str) -> Command {
        let mut command = self.command(["embed"]);
        command.env("EMBEDCTL_MODEL", in_repository(SMALL_MODEL));
        let said = |name: &str| line.split_whitespace().any(|word| word == name);
        if !said("-p") && !said("--provider") {
            command.args(["--provider", "native"]);
        }
        if !said("--threads") {
            command.args(["--threads", "1"]);
        }
        command.args(line.split_whitespace());
        command
    }

    /// Runs a command with something on standard input.
    pub fn run_with_input(&self, command: &mut Command, input: &[u8]) -> Run {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Small inputs fit the pipe; a child that doesn't read them is part of the test.
        let _ = stdin.write_all(input);
        drop(stdin);
        self.outcome(&child.wait_with_output().unwrap())
    }

    /// Runs a command to its end.
    pub fn finish(&self, command: &mut Command) -> Run {
        self.outcome(&command.output().unwrap())
    }

    /// An outcome with this folder's name taken out.
    pub fn outcome(&self, output: &Output) -> Run {
        let text = |bytes: &[u8]| self.filter(&String::from_utf8_lossy(bytes));
        Run {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Takes out of a text what differs between machines and runs.
    fn filter(&self, text: &str) -> String {
        let folder = self.folder.path().display().to_string();
        let text = text
            .replace(&folder, "[FOLDER]")
            .replace(env!("CARGO_MANIFEST_DIR"), "[REPOSITORY]")
            .replace(
                concat!("embedctl ", env!("CARGO_PKG_VERSION")),
                "embedctl [VERSION]",
            );
        FILTERS.iter().fold(text, |text, (pattern, with)| {
            pattern.replace_all(&text, *with).into_owned()
        })
    }
}

/// How a run ended, filtered.
#[derive(Debug)]
pub struct Run {
    /// The exit code; none where a signal killed it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => writeln!(f, "exit code: {code}")?,
            None => writeln!(f, "killed by a signal")?,
        }
        write!(
            f,
            "----- stdout -----\n{}\n----- stderr -----\n{}",
            self.stdout, self.stderr
        )
    }
}

/// Waits for a process that succeeds; what it has used.
#[cfg(unix)]
pub fn usage(child: Child) -> libc::rusage {
    let id = libc::pid_t::try_from(child.id()).unwrap();
    let mut status = 0;
    // SAFETY: `rusage` is a plain C struct for which all zeros is a value; both places are written by the
    // call, and the child is waited for here alone.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(id, &raw mut status, 0, &raw mut usage), id);
        usage
    };
    assert_eq!(status, 0);
    usage
}

/// Copies a folder with everything in it.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &copy);
        } else {
            fs::copy(&path, &copy).unwrap();
        }
    }
}
