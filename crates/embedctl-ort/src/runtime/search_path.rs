//! The inputs of the search for libraries: environment variables, `PATH`, the system's folders and names.
//!
//! They are read once, so that tests can search another machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::trust;
use embedctl_common::cancel::CancelToken;
use embedctl_common::folder::children;
use embedctl_common::named::named;

/// Environment variables that name a library or its folder, in order.
pub(super) const NAMING_VARIABLES: [&str; 2] = ["EMBEDCTL_ORT_LIB", "ORT_DYLIB_PATH"];

named! {
    /// A kind of operating system, as far as the names of libraries go.
    pub(crate) enum System {
        Linux = "Linux",
        MacOs = "macOS",
        Windows = "Windows",
    }
}

impl System {
    /// The system this program was built for.
    pub(crate) const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_vendor = "apple") {
        Self::MacOs
    } else {
        Self::Linux
    };

    /// The file that holds the provider named `name` (`cuda`), for providers that are libraries of their
    /// own beside ONNX Runtime's.
    pub(crate) fn provider_library(self, name: &str) -> String {
        match self {
            Self::Linux => format!("libonnxruntime_providers_{name}.so"),
            Self::MacOs => format!("libonnxruntime_providers_{name}.dylib"),
            Self::Windows => format!("onnxruntime_providers_{name}.dll"),
        }
    }

    /// Whether a file's name is that of an ONNX Runtime library (not of one of its providers).
    pub(super) fn is_library(self, name: &str) -> bool {
        match self {
            Self::Linux => {
                name == "libonnxruntime.so"
                    || name
                        .strip_prefix("libonnxruntime.so.")
                        .is_some_and(is_version)
            }
            Self::MacOs => name.strip_prefix("libonnxruntime.").is_some_and(|rest| {
                rest == "dylib" || rest.strip_suffix(".dylib").is_some_and(is_version)
            }),
            Self::Windows => name.eq_ignore_ascii_case("onnxruntime.dll"),
        }
    }
}

fn is_version(text: &str) -> bool {
    text.starts_with('1')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The inputs of the search; [`SearchPath::real`] reads them from the process.
#[derive(Debug, Clone)]
pub(crate) struct SearchPath {
    /// The user's library or folder.
    pub option: Option<PathBuf>,
    /// Environment variables that matter, by name.
    pub variables: Vec<(&'static str, OsString)>,
    /// The running program.
    pub executable: Option<PathBuf>,
    /// Folders for programs: `PATH`.
    pub path: Vec<PathBuf>,
    /// Folders for libraries of the system, and patterns' parents expanded.
    pub system_folders: Vec<PathBuf>,
    /// Names of libraries.
    pub system: System,
    /// Cancels the programs that are run.
    pub stop: CancelToken,
}

impl SearchPath {
    /// The search path of this process.
    pub(crate) fn real(option: Option<PathBuf>, stop: &CancelToken) -> Self {
        const OTHERS: &str =
            "VIRTUAL_ENV CONDA_PREFIX HOME APPDATA PYTHONPATH CUDA_PATH CUDA_HOME ROCM_PATH";
        let variables = NAMING_VARIABLES
            .into_iter()
            .chain(OTHERS.split_ascii_whitespace())
            .filter_map(|name| Some((name, std::env::var_os(name)?)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Self {
            option,
            variables,
            executable: std::env::current_exe().ok(),
            path: std::env::var_os("PATH")
                .map(|path| std::env::split_paths(&path).collect())
                .unwrap_or_default(),
            system_folders: system_folders(),
            system: System::HERE,
            stop: stop.clone(),
        }
    }

    /// The first of `names` in the folders of `PATH`, and, for messages, the programs passed over before it because
    /// other users may have put them there.
    pub(super) fn program(&self, names: &[&str]) -> Option<(PathBuf, String)> {
        let mut passed_over = Vec::new();
        let files = self
            .path
            .iter()
            .flat_map(|folder| names.iter().map(|name| folder.join(name)));
        for file in files.filter(|file| file.is_file()) {
            match trust::doubt(&file) {
                None => return Some((file, passed_over.concat())),
                Some(doubt) => passed_over.push(format!(", not of {} ({doubt})", file.display())),
            }
        }
        None
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&OsString> {
        self.variables
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    }
}

fn system_folders() -> Vec<PathBuf> {
    if cfg!(windows) {
        return Vec::new(); // PATH is searched as its own place
    }
    let arch = std::env::consts::ARCH;
    let mut folders: Vec<PathBuf> = [
        "/usr/local/lib".to_owned(),
        format!("/usr/local/lib/{arch}-linux-gnu"),
        format!("/usr/lib/{arch}-linux-gnu"),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
        "/opt/homebrew/lib".to_owned(),
    ]
    .map(PathBuf::from)
    .into();
    // Archives of the releases are unpacked as /opt/onnxruntime-linux-x64-1.31.1 and the like.
    for base in ["/opt", "/usr/local"] {
        folders.extend(
            children(Path::new(base))
                .into_iter()
                .filter(|folder| file_name(folder).starts_with("onnxruntime"))
                .map(|folder| folder.join("lib")),
        );
    }
    folders
}

/// A path without links, or as it is where it leads nowhere.
pub(crate) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The numbers in a name, for sorting: `python3.12` is newer than `python3.9`.
pub(crate) fn version(name: &str) -> Vec<u32> {
    name.split(|character: char| !character.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
