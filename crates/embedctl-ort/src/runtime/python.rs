//! Where Python keeps packages: pip puts ONNX Runtime's library among them, and it needs no Python to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bounded_command;
use super::search_path::{SearchPath, System, file_name, version};
use embedctl_common::folder::children;

/// The most time and bytes for an interpreter to print its packages' folders.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const MOST_SAID: u64 = 1 << 20;

/// The site-packages of the `python3` on PATH, found by its place in the file system.
pub(super) fn by_path(here: &SearchPath) -> Option<(String, Vec<PathBuf>)> {
    let (python, passed_over) = interpreter(here)?;
    let mut folders: Vec<PathBuf> = here
        .variable("PYTHONPATH")
        .map(|paths| std::env::split_paths(paths).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .map(|packages| capi(&packages))
        .collect();
    for prefix in prefixes(&python, here.system) {
        folders.extend(site_packages(&prefix, here.system));
    }
    let user = match here.system {
        System::Windows => here
            .variable("APPDATA")
            .map(|data| children(&PathBuf::from(data).join("Python")))
            .unwrap_or_default()
            .into_iter()
            .map(|version| capi(&version.join("site-packages")))
            .collect(),
        _ => here
            .variable("HOME")
            .map(|home| site_packages(&PathBuf::from(home).join(".local"), here.system))
            .unwrap_or_default(),
    };
    folders.extend(user);
    Some((
        format!("among the packages of {}{passed_over}", python.display()),
        folders,
    ))
}

/// The same by running it: only if its place does not show them, as with the shims of version managers.
pub(super) fn by_asking(here: &SearchPath) -> Option<(String, Vec<PathBuf>)> {
    let (python, _) = interpreter(here)?;
    let known = prefixes(&python, here.system)
        .iter()
        .any(|prefix| !versions(prefix, here.system).is_empty());
    // On Windows an unknown python3 is usually the stub that opens the store.
    if known || here.system == System::Windows {
        return None;
    }
    let mut command = Command::new(&python);
    command
        // Isolated: neither the current folder nor a variable may give it code to run. The folders of PYTHONPATH are
        // searched separately.
        .args(["-I", "-c", "import sys; print('\\n'.join(sys.path))"])
        // Shims of version managers read files of the folder that they are called in.
        .current_dir(if cfg!(windows) { "C:\\" } else { "/" });
    let name = format!("in the sys.path of {}", python.display());
    Some(
        match bounded_command::answer(&mut command, TIME_LIMIT, MOST_SAID, &here.stop) {
            Ok(said) => {
                let said = String::from_utf8_lossy(&said);
                let folders = said.lines().filter(|line| !line.is_empty());
                (name, folders.map(|line| capi(Path::new(line))).collect())
            }
            Err(error) => (
                format!("{name} (which did not answer: {error})"),
                Vec::new(),
            ),
        },
    )
}

/// The first `python3` (on Windows also `python`) on PATH that may be run, and the programs passed over before it.
fn interpreter(here: &SearchPath) -> Option<(PathBuf, String)> {
    let names: &[&str] = match here.system {
        System::Windows => &["python3.exe", "python.exe"],
        _ => &["python3"],
    };
    here.program(names)
}

/// Where an interpreter's packages may be rooted: its own folder's parent (a virtual environment holds
/// only links), then that of the file it links to.
fn prefixes(python: &Path, system: System) -> Vec<PathBuf> {
    let above = |path: &Path| -> Option<PathBuf> {
        let folder = path.parent()?;
        match system {
            System::Windows if file_name(folder).eq_ignore_ascii_case("scripts") => folder.parent(),
            System::Windows => Some(folder),
            _ => folder.parent(),
        }
        .map(Path::to_path_buf)
    };
    let mut prefixes: Vec<PathBuf> = above(python).into_iter().collect();
    if let Some(real) = fs::canonicalize(python).ok().and_then(|real| above(&real))
        && !prefixes.contains(&real)
    {
        prefixes.push(real);
    }
    // Debian's own interpreter also reads /usr/local.
    if prefixes.iter().any(|prefix| prefix == Path::new("/usr")) {
        prefixes.push(PathBuf::from("/usr/local"));
    }
    prefixes
}

/// The folders `lib/python3.*` of a prefix, newest first.
fn versions(prefix: &Path, system: System) -> Vec<PathBuf> {
    if system == System::Windows {
        return Some(prefix.join("Lib"))
            .filter(|folder| folder.is_dir())
            .into_iter()
            .collect();
    }
    let mut folders: Vec<PathBuf> = ["lib", "lib64"]
        .iter()
        .flat_map(|lib| children(&prefix.join(lib)))
        .filter(|folder| file_name(folder).starts_with("python3"))
        .collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(version(&file_name(folder))));
    folders
}

/// Where pip puts ONNX Runtime's libraries under a prefix.
pub(super) fn site_packages(prefix: &Path, system: System) -> Vec<PathBuf> {
    versions(prefix, system)
        .iter()
        .flat_map(|folder| [folder.join("site-packages"), folder.join("dist-packages")])
        .map(|packages| capi(&packages))
        .collect()
}

/// The folders that hold packages and concern the library at `library`: the one it came from, and those
/// of the active environment and of the `python3` on PATH.
pub(super) fn package_folders(library: &Path, here: &SearchPath) -> Vec<PathBuf> {
    let own = library
        .parent()
        .filter(|capi| capi.ends_with("onnxruntime/capi"))
        .map(Path::to_path_buf);
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .iter()
        .filter_map(|name| here.variable(name))
        .flat_map(|prefix| site_packages(Path::new(prefix), here.system));
    let others = by_path(here).map(|(_, folders)| folders);
    let mut packages: Vec<PathBuf> = Vec::new();
    for capi in own
        .into_iter()
        .chain(environments)
        .chain(others.into_iter().flatten())
    {
        if let Some(folder) = capi.ancestors().nth(2).map(Path::to_path_buf)
            && folder.is_dir()
            && !packages.contains(&folder)
        {
            packages.push(folder);
        }
    }
    packages
}

fn capi(packages: &Path) -> PathBuf {
    packages.join("onnxruntime").join("capi")
}
