//! Loading ONNX Runtime: the one library of this process, and its one environment.
//!
//! A process can hold one ONNX Runtime. A candidate is therefore opened and asked for its version first,
//! and handed to `ort` only when it will do; one that won't leaves no trace. Which one is taken is
//! [`super::selection`]'s to say.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ort::environment::Environment;
use ort::logging::LogLevel;

use super::Plugin;
use super::discovery::Candidate;
use super::fault::LibraryFault;
use super::{NAME, binary};
use embedctl_common::error::{Error, ErrorKind, with_causes};
use embedctl_common::threads::locked;
use embedctl_engine::SkippedCandidate;

/// The oldest usable library is 1.`ort::MINOR_VERSION`.
const MINIMUM: u32 = ort::MINOR_VERSION;

/// The library that this process loaded. Never unloaded: ONNX Runtime does not survive that.
pub(crate) static LOADED: Mutex<Option<Library>> = Mutex::new(None);

/// A loaded ONNX Runtime.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    /// Its file.
    pub path: PathBuf,
    /// Its version, as it states it: `1.31.1`.
    pub version: String,
    /// The environment in which sessions are created.
    pub environment: Environment,
    /// The plug-in that the wanted provider comes from, registered; `None`: its own build has it.
    pub plugin: Option<Plugin>,
    /// Libraries that were tried before it.
    pub passed_over: Vec<SkippedCandidate>,
}

/// Loads the library at `path` and no other, for a process that was started for it.
pub(crate) fn load_exactly(path: &Path) -> Result<Library, LibraryFault> {
    let mut loaded = locked(&LOADED);
    if let Some(library) = loaded.as_ref() {
        return if library.path == path {
            Ok(library.clone())
        } else {
            let words = format!("{} is loaded already", library.path.display());
            Err(LibraryFault::Words(words))
        };
    }
    let version = probe(path)?;
    let library = init(path, version, Vec::new()).map_err(LibraryFault::Words)?;
    Ok(loaded.insert(library).clone())
}

/// Loads a usable library as this process's only one. The caller fills [`LOADED`].
///
/// # Errors
/// If it does not start. No other may be tried then, since it may have been loaded.
pub(crate) fn start(
    candidate: &Candidate,
    version: String,
    passed_over: Vec<SkippedCandidate>,
) -> Result<Library, Error> {
    init(&candidate.path, version, passed_over).map_err(|reason| {
        let path = candidate.path.display();
        let reason = format!("cannot start {path} ({}): {reason}", candidate.origin);
        Error::new(ErrorKind::NoLibrary, NAME, reason)
    })
}

fn init(
    path: &Path,
    version: String,
    passed_over: Vec<SkippedCandidate>,
) -> Result<Library, String> {
    let builder = ort::init_from(path).map_err(|error| match error {
        // Its own message leaves out the cause.
        ort::LoadDynamicError::Dlopen { error, .. } => with_causes(&error),
        other => other.to_string(),
    })?;
    let environment = builder
        .with_name("embedctl")
        .with_telemetry(false)
        .build()
        .map_err(|error| with_causes(&error))?;
    // Messages go to `tracing`. Below this level they would be formatted only to be dropped.
    environment.set_log_level(LogLevel::Warning);
    Ok(Library {
        path: path.to_path_buf(),
        version,
        environment,
        plugin: None,
        passed_over,
    })
}

/// Opens the library at `path` and returns its version, if this program can work with it.
pub(crate) fn probe(path: &Path) -> Result<String, LibraryFault> {
    binary::check(path)?;
    // SAFETY: loading runs the library's initializers. The file has the name of an ONNX Runtime library
    // and lies where the user or the system put it; that is the trust any dynamic library gets.
    let library = unsafe { libloading::Library::new(path) }
        .map_err(|error| LibraryFault::Words(with_causes(&error)))?;
    // SAFETY: every ONNX Runtime exports this function with this signature, in every version.
    let version = unsafe {
        let base = library
            .get::<unsafe extern "C" fn() -> *const ort::sys::OrtApiBase>(b"OrtGetApiBase\0")
            .map_err(|_| LibraryFault::NoOnnxRuntime)?;
        let base = base();
        if base.is_null() {
            return Err(LibraryFault::NoOnnxRuntime);
        }
        CStr::from_ptr(((*base).GetVersionString)())
            .to_string_lossy()
            .into_owned()
    };
    check(&version)?;
    Ok(version)
}

fn check(version: &str) -> Result<(), LibraryFault> {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(1)), Some(Ok(minor))) if minor >= MINIMUM => Ok(()),
        (Some(Ok(1)), _) => Err(LibraryFault::Old(version.to_owned(), MINIMUM)),
        _ => Err(LibraryFault::NoVersion(version.to_owned(), MINIMUM)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_the_minimum_on_are_taken() {
        for version in [
            format!("1.{MINIMUM}.0"),
            "1.31.1".into(),
            "1.99.0-dev".into(),
        ] {
            assert_eq!(check(&version), Ok(()), "{version}");
        }
        for version in ["1.23.2", "1.9.0", "2.0.0", "", "nightly"] {
            assert!(
                check(version).unwrap_err().to_string().contains("1.24"),
                "{version}"
            );
        }
    }

    #[test]
    fn a_file_that_is_no_library_does_not_reach_the_loader() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("libonnxruntime.so");
        std::fs::write(&path, "not a library").unwrap();
        assert_eq!(probe(&path).unwrap_err(), LibraryFault::NoLibrary);
        let gone = probe(&folder.path().join("gone.so"))
            .unwrap_err()
            .to_string();
        // The loader's words name the file; "dlopen failed" alone would not.
        #[cfg(unix)]
        assert!(gone.contains("gone.so"), "{gone}");
        assert!(!gone.is_empty());
    }
}
