//! The folders of libraries that a provider needs: beside the library itself, among packages, in toolkits.

use std::path::{Path, PathBuf};

use crate::runtime::search_path::{SearchPath, file_name, version};
use crate::runtime::{python, trust};
use embedctl_common::folder::children;

/// Folders that are searched before the loader's own, and after them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LoaderFolders {
    pub(super) near: Vec<PathBuf>,
    pub(super) far: Vec<PathBuf>,
}

impl LoaderFolders {
    pub(super) fn around(library: &Path, here: &SearchPath, cuda: Option<u32>) -> Self {
        let mut near: Vec<PathBuf> = library.parent().map(PathBuf::from).into_iter().collect();
        for packages in python::package_folders(library, here) {
            // CUDA 13 lies in nvidia/cu13/lib, CUDA 12 in a folder for each library; names hold versions.
            near.extend(
                children(&packages.join("nvidia"))
                    .into_iter()
                    .map(|folder| folder.join("lib")),
            );
            near.extend(
                children(&packages)
                    .into_iter()
                    .filter(|folder| is_tensorrt(&file_name(folder))),
            );
        }
        // Files beside the library are trusted like the library.
        let own = library.parent();
        near.retain(|folder| {
            folder.is_dir() && (Some(folder.as_path()) == own || is_trusted(folder))
        });
        let mut far = Vec::new();
        let named = ["CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX", "ROCM_PATH"];
        for root in named.iter().filter_map(|name| here.variable(name)) {
            far.extend(toolkit(Path::new(root)));
        }
        for base in ["/usr/local", "/opt"] {
            let mut roots = children(Path::new(base));
            roots.retain(|root| is_toolkit(&file_name(root), cuda));
            // The newest first, and those without a version, which are links to one, before them.
            roots.sort_by_key(|root| {
                let version = version(&file_name(root));
                (!version.is_empty(), std::cmp::Reverse(version))
            });
            far.extend(roots.iter().flat_map(|root| toolkit(root)));
        }
        // Where WSL and NixOS keep the driver.
        far.extend(["/usr/lib/wsl/lib", "/run/opengl-driver/lib"].map(PathBuf::from));
        far.retain(|folder| folder.is_dir() && is_trusted(folder));
        Self { near, far }
    }

    pub(super) fn have(&self, name: &str) -> bool {
        let mut folders = self.near.iter().chain(&self.far);
        folders.any(|folder| folder.join(name).is_file())
    }
}

/// Whether a folder may be loaded from: see [`trust`]. Its files are as their folder is.
fn is_trusted(folder: &Path) -> bool {
    trust::doubt(&folder.join("any")).is_none()
}

/// `tensorrt_libs`, `tensorrt_cu12_libs`, …
fn is_tensorrt(name: &str) -> bool {
    name.starts_with("tensorrt") && name.ends_with("libs")
}

/// `cuda`, `cuda-13.1`, `rocm-7.2.0`, `TensorRT-10.13.3.9`; not those of another CUDA.
fn is_toolkit(name: &str, cuda: Option<u32>) -> bool {
    let of_cuda = name == "cuda"
        || name.starts_with("cuda-") && (cuda.is_none() || version(name).first().copied() == cuda);
    of_cuda || name.starts_with("rocm") || name.starts_with("TensorRT")
}

fn toolkit(root: &Path) -> [PathBuf; 3] {
    let target = format!("targets/{}-linux/lib", std::env::consts::ARCH);
    [root.join("lib64"), root.join("lib"), root.join(target)]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use embedctl_common::cancel::CancelToken;

    fn here() -> SearchPath {
        SearchPath {
            variables: Vec::new(),
            path: Vec::new(),
            ..SearchPath::real(None, &CancelToken::new())
        }
    }

    fn relative(root: &Path, folders: &[PathBuf]) -> Vec<String> {
        folders
            .iter()
            .filter_map(|folder| folder.strip_prefix(root).ok())
            .map(|folder| folder.display().to_string())
            .collect()
    }

    #[test]
    fn packages_beside_the_library_and_in_the_environment_are_found() {
        let root = TempDir::new().unwrap();
        let lib = |path: &str| fs::create_dir_all(root.path().join(path)).unwrap();
        lib("own/onnxruntime/capi");
        lib("own/nvidia/cu13/lib");
        lib("own/nvidia/cudnn/lib");
        lib("own/nvidia/include");
        lib("own/tensorrt_libs");
        lib("venv/lib/python3.12/site-packages/nvidia/cublas/lib");
        lib("venv/lib/python3.12/site-packages/tensorrt_cu12_libs");
        let mut here = here();
        let venv = root.path().join("venv").into_os_string();
        here.variables.push(("VIRTUAL_ENV", venv));
        let library = root
            .path()
            .join("own/onnxruntime/capi/libonnxruntime.so.1.31.1");
        let places = LoaderFolders::around(&library, &here, Some(13));
        assert_eq!(
            relative(root.path(), &places.near),
            [
                "own/onnxruntime/capi",
                "own/nvidia/cu13/lib",
                "own/nvidia/cudnn/lib",
                "own/tensorrt_libs",
                "venv/lib/python3.12/site-packages/nvidia/cublas/lib",
                "venv/lib/python3.12/site-packages/tensorrt_cu12_libs",
            ]
        );
    }

    #[test]
    fn a_named_toolkit_is_searched() {
        let root = TempDir::new().unwrap();
        fs::create_dir_all(root.path().join("cuda/lib64")).unwrap();
        let mut here = here();
        let toolkit = root.path().join("cuda").into_os_string();
        here.variables.push(("CUDA_HOME", toolkit));
        let places =
            LoaderFolders::around(Path::new("/nowhere/libonnxruntime.so"), &here, Some(12));
        assert_eq!(relative(root.path(), &places.far), ["cuda/lib64"]);
    }

    #[test]
    fn toolkits_of_another_cuda_are_left_alone() {
        assert!(is_toolkit("cuda", Some(13)));
        assert!(is_toolkit("cuda-13.1", Some(13)));
        assert!(!is_toolkit("cuda-12.8", Some(13)));
        assert!(is_toolkit("TensorRT-10.13.3.9", Some(13)));
        assert!(!is_toolkit("share", None));
    }
}
