//! Libraries that a provider needs from elsewhere, found and loaded before it asks for them.
//!
//! `libonnxruntime_providers_cuda.so` names CUDA's libraries, but not their folders. pip puts them among the packages,
//! NVIDIA's installer into a toolkit folder, and the system's loader knows neither. The loader takes a library of that
//! name that is already loaded, so `LD_LIBRARY_PATH` need not be set. [`places`] lists the folders.

mod places;

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use self::places::LoaderFolders;
use super::elf;
use super::search_path::{SearchPath, System, file_name};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::with_causes;
use embedctl_common::folder::children;
use embedctl_engine::Provider;

/// The part of CUDA that comes with the driver.
pub(crate) const DRIVER: &str = "libcuda.so.1";

/// The libraries prepared for a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PreparedProvider {
    /// Missing libraries, with the loader's messages.
    pub missing: Vec<Missing>,
    /// Files that were loaded from places where the loader would not have looked.
    pub loaded: Vec<PathBuf>,
    /// The major version of CUDA that the provider was built with.
    pub cuda: Option<u32>,
}

impl PreparedProvider {
    /// Whether the library `name` is missing.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        self.missing.iter().any(|one| one.name == name)
    }
}

/// A library that is not here, or cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    /// `libcublasLt.so.13`
    pub name: String,
    /// The loader's words.
    pub reason: String,
}

/// The order in which libraries are loaded: each after its dependencies.
const ORDER: &str = "libcuda.so.1 libcudart.so libnvJitLink.so libcublasLt.so libcublas.so libnvrtc.so libcurand.so
    libcufft.so libcudnn.so libnvinfer.so libnvinfer_plugin.so libnvonnxparser.so libamdhip64.so libMIOpen.so
    libmigraphx";

fn rank(name: &str) -> Option<usize> {
    let mut prefixes = ORDER.split_ascii_whitespace();
    prefixes.position(|prefix| name.starts_with(prefix))
}

/// Loads the dependencies of `provider` of the ONNX Runtime library at `library` from all known places. Libraries that
/// are already loaded are not loaded again.
pub(crate) fn prepare(provider: Provider, library: &Path) -> PreparedProvider {
    if System::HERE != System::Linux {
        // On Windows and macOS installers register their folders with the loader, which also looks beside a library.
        return PreparedProvider::default();
    }
    let parts: &[&str] = match provider {
        Provider::Cuda => &["cuda"],
        Provider::TensorRt => &["cuda", "tensorrt"],
        Provider::MiGraphX => &["migraphx"],
        _ => return PreparedProvider::default(),
    };
    let mut names = BTreeSet::new();
    for part in parts {
        let file = System::HERE.provider_library(part);
        let path = library.parent().unwrap_or(Path::new("")).join(file);
        // Without the file there is nothing to prepare; registration reports that.
        names.extend(elf::needed(&path).unwrap_or_default());
    }
    let cuda = cuda_major(&names);
    if cuda.is_some() {
        // Not every build lists it among its dependencies; all need it.
        names.insert(DRIVER.to_owned());
    }
    let mut wanted: Vec<(String, bool)> = names.into_iter().map(|name| (name, true)).collect();
    wanted.retain(|(name, _)| rank(name).is_some());
    // Optional libraries that are loaded by name at run time.
    for name in cuda.map(optional).into_iter().flatten() {
        if !wanted.iter().any(|(other, _)| *other == name) {
            wanted.push((name, false));
        }
    }
    wanted.sort_by_key(|(name, _)| rank(name));
    let here = SearchPath::real(None, &CancelToken::new());
    let places = LoaderFolders::around(library, &here, cuda);
    let mut prepared = PreparedProvider {
        cuda,
        ..PreparedProvider::default()
    };
    for (name, required) in wanted {
        // Without the driver nothing will run, so hundreds of megabytes need not be loaded to find out.
        if prepared.lacks(DRIVER) && places.have(&name) {
            continue;
        }
        match load(&name, &places) {
            Ok(path) => prepared.loaded.extend(path),
            Err(reason) if required => prepared.missing.push(Missing { name, reason }),
            Err(_) => {}
        }
    }
    prepared
}

/// Loads a library of CUDA's under the first of `names` that is anywhere: among the packages of the environment, where the
/// loader looks, in toolkits. Gives its file, or its name where the loader finds it alone.
///
/// # Errors
/// The loader's words, where it is nowhere or cannot be loaded.
pub fn cuda_library(names: &[&str], cancel: &CancelToken) -> Result<PathBuf, String> {
    let here = SearchPath::real(None, cancel);
    let places = LoaderFolders::around(Path::new(""), &here, None);
    let mut first = None;
    for name in names {
        match load(name, &places) {
            Ok(found) => return Ok(found.unwrap_or_else(|| PathBuf::from(name))),
            Err(reason) => first = first.or(Some(reason)),
        }
    }
    Err(first.unwrap_or_default())
}

/// Loads the dependencies of the plug-in at `path` that lie beside it or among CUDA's libraries, where the loader does
/// not look. pip's wheels hold no links, so `libcudart.so.13` lies there as `libcudart.so.13.4.36`; once loaded, it
/// serves under the name that it was built with.
pub(crate) fn prepare_plugin(path: &Path) -> PreparedProvider {
    let mut prepared = PreparedProvider::default();
    if System::HERE != System::Linux {
        return prepared;
    }
    let needed: BTreeSet<String> = elf::needed(path).unwrap_or_default().into_iter().collect();
    prepared.cuda = cuda_major(&needed);
    let beside = children(path.parent().unwrap_or(Path::new("")));
    let longer = |name: &str| {
        let start = format!("{name}.");
        beside
            .iter()
            .find(|file| file_name(file).starts_with(&start))
    };
    if needed.contains(DRIVER)
        && let Err(reason) = load(DRIVER, &LoaderFolders::default())
    {
        // Without the driver nothing will run, so hundreds of megabytes need not be loaded to find out.
        let name = DRIVER.to_owned();
        prepared.missing.push(Missing { name, reason });
        return prepared;
    }
    let mut wanted: Vec<String> = needed.into_iter().collect();
    wanted.sort_by_key(|name| rank(name).unwrap_or(usize::MAX));
    let here = SearchPath::real(None, &CancelToken::new());
    let places = LoaderFolders::around(path, &here, prepared.cuda);
    for name in wanted {
        if let Some(file) = longer(&name) {
            prepared
                .loaded
                .extend(open(file).is_ok().then(|| file.clone()));
        } else if rank(&name).is_some()
            && let Ok(file) = load(&name, &places)
        {
            prepared.loaded.extend(file);
        }
    }
    prepared
}

/// `13` where `libcudart.so.13` or `libcublasLt.so.13` is among `names`.
fn cuda_major(names: &BTreeSet<String>) -> Option<u32> {
    ["libcudart.so.", "libcublasLt.so."]
        .iter()
        .find_map(|prefix| {
            let of = |name: &String| name.strip_prefix(prefix)?.split('.').next()?.parse().ok();
            names.iter().find_map(of)
        })
}

fn optional(cuda: u32) -> Vec<String> {
    let mut names = vec![
        format!("libnvJitLink.so.{cuda}"),
        format!("libnvrtc.so.{cuda}"),
        "libcudnn.so.9".to_owned(),
    ];
    if let Some(cufft) = cuda.checked_sub(1) {
        names.push(format!("libcufft.so.{cufft}")); // counts one behind
    }
    names
}

/// Loads the library `name` for good. Returns its file where the loader alone would not have found it.
fn load(name: &str, places: &LoaderFolders) -> Result<Option<PathBuf>, String> {
    let mut broken = None;
    let mut try_in = |folders: &[PathBuf]| {
        folders
            .iter()
            .map(|folder| folder.join(name))
            .filter(|path| path.is_file())
            .find(|path| {
                open(path)
                    .map_err(|reason| broken.get_or_insert(reason).len())
                    .is_ok()
            })
    };
    if let Some(path) = try_in(&places.near) {
        return Ok(Some(path));
    }
    let Err(reason) = open(Path::new(name)) else {
        return Ok(None);
    };
    if let Some(path) = try_in(&places.far) {
        return Ok(Some(path));
    }
    // A file that exists but cannot be loaded is the better explanation.
    Err(broken.unwrap_or(reason))
}

fn open(path: &Path) -> Result<(), String> {
    // SAFETY: loading runs the library's initializers. The file bears the name of a library that the
    // provider asks the loader for, and lies where a package or an installer put it.
    unsafe { libloading::Library::new(path) }
        .map(|library| {
            // Stays loaded: the provider finds it by its name.
            let _ = ManuallyDrop::new(library);
        })
        .map_err(|error| loaders_words(&error))
}

/// `libcuda.so.1: cannot open shared object file: No such file or directory`
fn loaders_words(error: &libloading::Error) -> String {
    let words = with_causes(error);
    let own = words.strip_prefix("dlopen failed: ");
    own.map(str::to_owned).unwrap_or(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_names() {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let cuda = names(&["libc.so.6", "libcublasLt.so.13", "libcurand.so.10"]);
        assert_eq!(cuda_major(&cuda), Some(13));
        assert_eq!(cuda_major(&names(&["libcudart.so.12"])), Some(12));
        assert_eq!(cuda_major(&names(&["libcurand.so.10"])), None);
        assert!(optional(12).contains(&"libcufft.so.11".to_owned()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_cannot_be_loaded_is_a_better_clue_than_none() {
        let root = tempfile::tempdir().unwrap();
        let places = LoaderFolders {
            near: vec![root.path().to_path_buf()],
            far: Vec::new(),
        };
        let name = "libcublasLt.so.99";
        let reason = load(name, &places).unwrap_err();
        assert!(reason.contains("No such file"), "{reason}");
        std::fs::write(root.path().join(name), "broken").unwrap();
        let reason = load(name, &places).unwrap_err();
        assert!(reason.contains(root.path().to_str().unwrap()), "{reason}");
    }
}
