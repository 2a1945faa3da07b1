use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

/// A folder that plays the whole machine, and a search path that leads nowhere else.
struct Machine {
    root: TempDir,
    here: SearchPath,
}

impl Machine {
    fn new() -> Self {
        Self {
            root: TempDir::new().unwrap(),
            here: SearchPath {
                option: None,
                variables: Vec::new(),
                executable: None,
                path: Vec::new(),
                system_folders: Vec::new(),
                system: System::Linux,
                stop: embedctl_common::cancel::CancelToken::new(),
            },
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn file(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    }

    fn set(&mut self, variable: &'static str, value: &str) {
        let value = self.path(value).into_os_string();
        self.here.variables.push((variable, value));
    }

    /// Paths below the root, in the order in which they would be tried.
    fn found(&self) -> Vec<String> {
        places(&self.here)
            .flat_map(|place| place.candidates)
            .map(|candidate| relative(self.root.path(), &candidate.path))
            .collect()
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().display().to_string()
}

#[test]
fn only_the_library_itself_is_one() {
    for (system, yes, no) in [
        (
            System::Linux,
            &[
                "libonnxruntime.so",
                "libonnxruntime.so.1",
                "libonnxruntime.so.1.31.1",
            ][..],
            &[
                "libonnxruntime_providers_shared.so",
                "libonnxruntime.so.1.bak",
                "libonnxruntime.dylib",
            ][..],
        ),
        (
            System::MacOs,
            &["libonnxruntime.dylib", "libonnxruntime.1.24.1.dylib"],
            &["libonnxruntime.so", "libonnxruntime_extensions.dylib"],
        ),
        (
            System::Windows,
            &["onnxruntime.dll", "OnnxRuntime.dll"],
            &["onnxruntime_providers_cuda.dll"],
        ),
    ] {
        for name in yes {
            assert!(system.is_library(name), "{name}");
        }
        for name in no {
            assert!(!system.is_library(name), "{name}");
        }
    }
}

#[test]
fn the_option_goes_before_the_variables_and_they_have_an_order() {
    let mut machine = Machine::new();
    assert_eq!(NamedLibrary::of(&machine.here), None);
    machine.set("ORT_DYLIB_PATH", "second.so");
    assert_eq!(
        NamedLibrary::of(&machine.here).unwrap().by,
        SetBy::Name("ORT_DYLIB_PATH")
    );
    machine.set("EMBEDCTL_ORT_LIB", "first.so");
    let named = NamedLibrary::of(&machine.here).unwrap();
    assert_eq!(
        (named.by, named.path),
        (SetBy::Name("EMBEDCTL_ORT_LIB"), machine.path("first.so"))
    );
    machine.here.option = Some(machine.path("option.so"));
    assert_eq!(NamedLibrary::of(&machine.here).unwrap().by, ORT_LIB.into());
}

#[test]
fn a_named_file_is_taken_as_it_is_and_a_folder_is_looked_into() {
    let machine = Machine::new();
    let named = |path: PathBuf| {
        let by = ORT_LIB.into();
        NamedLibrary { path, by }.candidates(System::Linux)
    };
    let missing = machine.path("nowhere/odd-name.so");
    assert_eq!(named(missing.clone())[0].path, missing);

    let inside = machine.file("release/lib/libonnxruntime.so.1.24.1");
    assert_eq!(named(machine.path("release"))[0].path, inside);
    let packaged =
        machine.file("venv/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1");
    assert_eq!(named(machine.path("venv"))[0].path, packaged);
    let project = format!(
        "web/node_modules/onnxruntime-node/bin/napi-v6/linux/{}/libonnxruntime.so.1",
        node::arch()
    );
    let project = machine.file(&project);
    assert_eq!(named(machine.path("web"))[0].path, project);
    let package = machine.path("web/node_modules/onnxruntime-node");
    assert_eq!(named(package)[0].path, project);
    fs::create_dir_all(machine.path("empty")).unwrap();
    assert_eq!(named(machine.path("empty")), []);
}

#[test]
fn places_go_from_near_to_far() {
    let mut machine = Machine::new();
    machine.file("app/bin/libonnxruntime.so");
    machine.file("app/lib/libonnxruntime.so.1");
    machine.file("venv/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1");
    machine.file("conda/lib/libonnxruntime.so.1.30.0");
    machine.file("python/bin/python3");
    machine.file("python/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.29.0");
    machine
        .file("home/.local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.28.0");
    let node = "node/lib/node_modules/onnxruntime-node/bin/napi-v6";
    let node = format!("{node}/linux/{}/libonnxruntime.so.1", node::arch());
    machine.file("node/bin/node");
    machine.file(&node);
    machine.file("usr/lib/libonnxruntime.so.1.21.0");
    machine.here.executable = Some(machine.path("app/bin/embedctl"));
    machine.here.path = ["nothing", "python/bin", "node/bin"]
        .map(|folder| machine.path(folder))
        .into();
    machine.here.system_folders = vec![machine.path("usr/lib")];
    machine.set("VIRTUAL_ENV", "venv");
    machine.set("CONDA_PREFIX", "conda");
    machine.set("HOME", "home");
    assert_eq!(
        machine.found(),
        [
            "app/bin/libonnxruntime.so",
            "app/bin/../lib/libonnxruntime.so.1",
            "venv/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1",
            "conda/lib/libonnxruntime.so.1.30.0",
            "python/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.29.0",
            "home/.local/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.28.0",
            node.as_str(),
            "usr/lib/libonnxruntime.so.1.21.0",
        ]
    );
}

#[test]
fn a_program_installed_by_pip_finds_the_libraries_of_its_environment() {
    let mut machine = Machine::new();
    let library = "tool/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1";
    machine.file(library);
    machine.file("tool/bin/embedctl");
    machine.here.executable = Some(machine.path("tool/bin/embedctl"));
    assert_eq!(machine.found(), [library]);
}

#[test]
fn newer_versions_go_first_and_links_count_once() {
    let mut machine = Machine::new();
    machine.file("lib/libonnxruntime.so.1.9.0");
    let newest = machine.file("lib/libonnxruntime.so.1.31.1");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&newest, machine.path("lib/libonnxruntime.so")).unwrap();
    #[cfg(not(unix))]
    fs::rename(&newest, machine.path("lib/libonnxruntime.so")).unwrap();
    machine.here.system_folders = vec![machine.path("lib")];
    assert_eq!(
        machine.found(),
        ["lib/libonnxruntime.so", "lib/libonnxruntime.so.1.9.0"]
    );
}

#[test]
fn newer_interpreters_go_first() {
    let mut machine = Machine::new();
    for python in ["python3.9", "python3.12"] {
        machine.file(&format!(
            "venv/lib/{python}/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1"
        ));
    }
    machine.set("VIRTUAL_ENV", "venv");
    assert!(
        machine.found()[0].contains("python3.12"),
        "{:?}",
        machine.found()
    );
}

#[cfg(unix)]
#[test]
fn a_python_is_followed_through_its_link_and_not_run() {
    let mut machine = Machine::new();
    let real = machine.file("opt/py/bin/python3.12");
    machine.file("opt/py/lib/python3.12/dist-packages/onnxruntime/capi/libonnxruntime.so.1.31.1");
    fs::create_dir_all(machine.path("bin")).unwrap();
    std::os::unix::fs::symlink(&real, machine.path("bin/python3")).unwrap();
    machine.here.path = vec![machine.path("bin")];
    let found: Vec<SearchLocation> = places(&machine.here).collect();
    let names: Vec<&str> = found.iter().map(|place| place.name.as_str()).collect();
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("among the packages of")),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.contains("sys.path")),
        "{names:?}"
    );
    let path = fs::canonicalize(&found[0].candidates[0].path).unwrap();
    assert!(path.ends_with("dist-packages/onnxruntime/capi/libonnxruntime.so.1.31.1"));
}

#[cfg(unix)]
#[test]
fn a_shim_is_asked() {
    use std::os::unix::fs::PermissionsExt;

    let mut machine = Machine::new();
    let library = machine.file("versions/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1");
    let packages = library.ancestors().nth(3).unwrap();
    let shim = machine.file("shims/python3");
    fs::write(
        &shim,
        format!("#!/bin/sh\necho\necho '{}'\n", packages.display()),
    )
    .unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    machine.here.path = vec![machine.path("shims")];
    assert_eq!(
        machine.found(),
        ["versions/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1"]
    );
}

#[cfg(unix)]
#[test]
fn a_linked_executable_is_searched_where_it_really_lies() {
    let mut machine = Machine::new();
    let real = machine.file("opt/embedctl/embedctl");
    machine.file("opt/embedctl/libonnxruntime.so");
    fs::create_dir_all(machine.path("bin")).unwrap();
    std::os::unix::fs::symlink(&real, machine.path("bin/embedctl")).unwrap();
    machine.here.executable = Some(machine.path("bin/embedctl"));
    let found: Vec<Candidate> = places(&machine.here)
        .flat_map(|place| place.candidates)
        .collect();
    assert_eq!(found.len(), 1);
    assert_eq!(
        fs::canonicalize(&found[0].path).unwrap(),
        fs::canonicalize(machine.path("opt/embedctl/libonnxruntime.so")).unwrap()
    );
}
