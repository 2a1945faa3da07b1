//! Where npm keeps the package `onnxruntime-node`: a library like any other, and it needs no Node.js to run.
//!
//! Only packages that were installed for the whole machine are searched. `node_modules` in the current folder is not:
//! its files may belong to a downloaded project, and loading a library runs it. `--ort-lib PROJECT` takes it from
//! there.

use std::fs;
use std::path::{Path, PathBuf};

use super::search_path::{SearchPath, System, file_name};
use embedctl_common::folder::children;

/// The global packages of the `node` on PATH.
pub(super) fn global(here: &SearchPath) -> Option<(String, Vec<PathBuf>)> {
    let name = match here.system {
        System::Windows => "node.exe",
        _ => "node",
    };
    let (node, passed_over) = here.program(&[name])?;
    let mut roots: Vec<PathBuf> = Vec::new();
    for node in [Some(node.clone()), fs::canonicalize(&node).ok()]
        .into_iter()
        .flatten()
    {
        let folder = node.parent()?;
        match here.system {
            System::Windows => roots.push(folder.to_path_buf()),
            _ => roots.extend(folder.parent().map(|prefix| prefix.join("lib"))),
        }
    }
    match here.system {
        System::Windows => {
            roots.extend(
                here.variable("APPDATA")
                    .map(|data| Path::new(data).join("npm")),
            );
        }
        // Where Debian's npm installs.
        _ if roots.iter().any(|root| root == Path::new("/usr/lib")) => {
            roots.push("/usr/local/lib".into());
        }
        _ => {}
    }
    let folders = roots.iter().flat_map(|root| packages(root)).collect();
    Some((
        format!(
            "among the global packages of {}{passed_over}",
            node.display()
        ),
        folders,
    ))
}

/// The folders for libraries of `onnxruntime-node` in `root`: a project's or npm's own folder, or the
/// package itself.
pub(super) fn packages(root: &Path) -> Vec<PathBuf> {
    let installed = root.join("node_modules").join("onnxruntime-node");
    [installed, root.to_path_buf()]
        .iter()
        .flat_map(|package| children(&package.join("bin")))
        .filter(|folder| file_name(folder).starts_with("napi-v"))
        .map(|folder| folder.join(platform()).join(arch()))
        .collect()
}

fn platform() -> &'static str {
    match System::HERE {
        System::Linux => "linux",
        System::MacOs => "darwin",
        System::Windows => "win32",
    }
}

/// The processor in Node's words.
pub(super) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}
