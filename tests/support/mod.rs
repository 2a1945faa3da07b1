//! Things outside this crate that some tests need, and what happens where they are absent: the test is
//! skipped by name, unless `EMBEDCTL_TEST_REQUIRE` (a list such as `ort,python`) says that it must run.

#![allow(dead_code)] // Each test file uses some of these.

pub mod cases;
pub mod npy;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for an expected event.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Looks again and again until there is something to see.
///
/// # Panics
/// If nothing is there by the [`DEADLINE`].
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the process whose number stands in a file, and to which a signal was sent, runs no more.
#[cfg(unix)]
pub fn wait_for_end(file: &Path) {
    let number = std::fs::read_to_string(file).unwrap();
    wait_for("a process's end", || {
        let state = state_of(number.trim());
        // An orphaned process may stay a zombie if no process waits for it.
        (state.is_empty() || state.starts_with('Z')).then_some(())
    });
}

/// The state of a process in `ps`; empty where there is none of that number.
#[cfg(target_os = "linux")]
fn state_of(number: &str) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, state)| state.to_owned());
    state.unwrap_or_default()
}

/// The same; macOS has no `/proc`.
#[cfg(all(unix, not(target_os = "linux")))]
fn state_of(number: &str) -> String {
    let output = Command::new("ps")
        .args(["-o", "stat=", "-p", number])
        .output();
    String::from_utf8_lossy(&output.unwrap().stdout)
        .trim()
        .to_owned()
}

/// A Python that has `modules`, for the test named `test`; `None` where the test is to be skipped.
///
/// `EMBEDCTL_TEST_PYTHON` names it; else the active virtual environment's and the one on the path are
/// tried.
///
/// # Panics
/// If there is none and `EMBEDCTL_TEST_REQUIRE` contains `python`.
pub fn python(test: &str, modules: &[&str]) -> Option<PathBuf> {
    let script =
        "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))";
    let has_modules = |python: &PathBuf| {
        Command::new(python)
            .args(["-c", script])
            .args(modules)
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let found = pythons().into_iter().find(has_modules);
    found.or_else(|| {
        skip(
            test,
            "python",
            &format!("a Python with {}", modules.join(", ")),
        )
    })
}

/// The ONNX Runtime library, for the test named `test`; `None` where the test is to be skipped.
///
/// `EMBEDCTL_TEST_ORT` or `ORT_DYLIB_PATH` name it; else the active virtual environment and the
/// `python3` on the path are searched for the package `onnxruntime`.
///
/// # Panics
/// If there is none and `EMBEDCTL_TEST_REQUIRE` contains `ort`.
pub fn onnxruntime(test: &str) -> Option<PathBuf> {
    let named = ["EMBEDCTL_TEST_ORT", "ORT_DYLIB_PATH"]
        .iter()
        .filter_map(variable)
        .map(PathBuf::from)
        .find(|path| path.is_file());
    let found = named.or_else(|| package_folders().iter().find_map(|folder| library(folder)));
    found.or_else(|| skip(test, "ort", "an ONNX Runtime library"))
}

/// A program on the path, for the test named `test`; `None` where the test is to be skipped.
///
/// # Panics
/// If there is none and `EMBEDCTL_TEST_REQUIRE` contains `shells`.
pub fn program(name: &str, test: &str) -> Option<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found
        .find(|file| file.is_file())
        .or_else(|| skip(test, "shells", name))
}

/// A Python that has LanceDB, for the test named `test`; `None` where the test is to be skipped.
///
/// `EMBEDCTL_TEST_LANCEDB` names it: LanceDB is too large to stand beside the other packages.
///
/// # Panics
/// If there is none and `EMBEDCTL_TEST_REQUIRE` contains `lancedb`.
pub fn lancedb(test: &str) -> Option<PathBuf> {
    let python = variable("EMBEDCTL_TEST_LANCEDB").map(PathBuf::from);
    let found = python.filter(|python| python.is_file());
    found.or_else(|| skip(test, "lancedb", "a Python with lancedb"))
}

/// A Python that has the clients of `.ci/clients.txt`, for the test named `test`; `None` where the test is to be skipped.
///
/// `EMBEDCTL_TEST_CLIENTS` names it.
///
/// # Panics
/// If there is none and `EMBEDCTL_TEST_REQUIRE` contains `clients`.
pub fn clients(test: &str) -> Option<PathBuf> {
    let python = variable("EMBEDCTL_TEST_CLIENTS").map(PathBuf::from);
    let found = python.filter(|python| python.is_file());
    found.or_else(|| {
        skip(
            test,
            "clients",
            "a Python with the packages of .ci/clients.txt",
        )
    })
}

/// The folder whose `node_modules` holds the clients of `tests/serve/package.json`, for the test named `test`; `None` where the
/// test is to be skipped.
///
/// `EMBEDCTL_TEST_NODE_CLIENTS` names it.
///
/// # Panics
/// If there is none, or no node, and `EMBEDCTL_TEST_REQUIRE` contains `clients`.
pub fn node_clients(test: &str) -> Option<PathBuf> {
    let missing = "node with the packages of tests/serve/package.json";
    packages_of_node("EMBEDCTL_TEST_NODE_CLIENTS", "openai")
        .or_else(|| skip(test, "clients", missing))
}

/// The folder that a variable names, if node is there and has a package in it.
fn packages_of_node(variable_name: &str, package: &str) -> Option<PathBuf> {
    let folder = variable(variable_name).map(PathBuf::from)?;
    let version = Command::new("node").arg("--version").output();
    let has_node = version.is_ok_and(|output| output.status.success());
    (has_node && folder.join("node_modules").join(package).is_dir()).then_some(folder)
}

/// A Chromium, for the test named `test`; `None` where the test is to be skipped.
///
/// `EMBEDCTL_TEST_CHROMIUM` names it; else it is looked for on the path.
///
/// # Panics
/// If there is none and `EMBEDCTL_TEST_REQUIRE` contains `chromium`.
pub fn chromium(test: &str) -> Option<PathBuf> {
    let named = variable("EMBEDCTL_TEST_CHROMIUM").map(PathBuf::from);
    let path = variable("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let on_path = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file());
    let found = named.filter(|file| file.is_file()).or(on_path);
    found.or_else(|| skip(test, "chromium", "Chromium"))
}

/// A Python that has the systems of `.ci/databases.txt`, for the test named `test`; `None` where the test is to be skipped.
///
/// `EMBEDCTL_TEST_DATABASES` names it.
///
/// # Panics
/// If there is none and `EMBEDCTL_TEST_REQUIRE` contains `databases`.
pub fn databases(test: &str) -> Option<PathBuf> {
    let python = variable("EMBEDCTL_TEST_DATABASES").map(PathBuf::from);
    let found = python.filter(|python| python.is_file());
    let missing = "a Python with the packages of .ci/databases.txt";
    found.or_else(|| skip(test, "databases", missing))
}

/// The folder whose `node_modules` holds PostgreSQL with pgvector (`tests/pgvector/package.json`), for the
/// test named `test`; `None` where the test is to be skipped.
///
/// `EMBEDCTL_TEST_PGVECTOR` names it.
///
/// # Panics
/// If there is none, or no node, and `EMBEDCTL_TEST_REQUIRE` contains `pgvector`.
pub fn node_packages(test: &str) -> Option<PathBuf> {
    let missing = "node with the packages of tests/pgvector/package.json";
    let found = packages_of_node("EMBEDCTL_TEST_PGVECTOR", "@electric-sql/pglite-pgvector");
    found.or_else(|| skip(test, "pgvector", missing))
}

/// The folder whose `node_modules` holds ONNX Runtime for the web (`tests/web/package.json`), for the test named `test`;
/// `None` where the test is to be skipped.
///
/// `EMBEDCTL_TEST_WEB` names it.
///
/// # Panics
/// If there is none, or no node, and `EMBEDCTL_TEST_REQUIRE` contains `web`.
pub fn web_runtime(test: &str) -> Option<PathBuf> {
    let missing = "node with the packages of tests/web/package.json";
    let found = packages_of_node("EMBEDCTL_TEST_WEB", "onnxruntime-web");
    found.or_else(|| skip(test, "web", missing))
}

/// A variable that is set to something.
fn variable(name: impl AsRef<std::ffi::OsStr>) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn pythons() -> Vec<PathBuf> {
    if let Some(python) = variable("EMBEDCTL_TEST_PYTHON") {
        return vec![python.into()];
    }
    let environment = variable("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin/python3"));
    environment.into_iter().chain(["python3".into()]).collect()
}

/// Folders in which the package `onnxruntime` keeps its library.
fn package_folders() -> Vec<PathBuf> {
    let script = "import importlib.util as u; print(u.find_spec('onnxruntime').origin)";
    pythons()
        .iter()
        .filter_map(|python| Command::new(python).args(["-c", script]).output().ok())
        .filter(|output| output.status.success())
        .filter_map(|output| String::from_utf8(output.stdout).ok())
        .filter_map(|origin| Some(Path::new(origin.trim()).parent()?.join("capi")))
        .collect()
}

/// The library in a folder: `libonnxruntime.so.1.31.1`, `libonnxruntime.1.31.1.dylib`, `onnxruntime.dll`.
fn library(folder: &Path) -> Option<PathBuf> {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| {
            name == "onnxruntime.dll"
                || name.starts_with("libonnxruntime.so")
                || (name.starts_with("libonnxruntime.") && name.ends_with(".dylib"))
        })
    };
    let entries = std::fs::read_dir(folder).ok()?;
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(is_library)
}

/// Says why a test is skipped, or fails it.
///
/// # Panics
/// If `EMBEDCTL_TEST_REQUIRE` contains `kind`.
pub fn skip<T>(test: &str, kind: &str, missing: &str) -> Option<T> {
    let required = std::env::var("EMBEDCTL_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == kind),
        "{test}: {missing} not found, and EMBEDCTL_TEST_REQUIRE={required}"
    );
    // Past the test harness, which would keep what a passing test prints to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {missing} not found");
    None
}
