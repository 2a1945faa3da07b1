//! The manifests of Vulkan's drivers, found in the loader's folders.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::VulkanDriver;
use crate::device::Vendor;

/// The settings that decide the loader's folders.
#[derive(Debug, Default)]
pub(super) struct DriverPaths {
    /// Files or folders that replace the search: `VK_DRIVER_FILES`, before that `VK_ICD_FILENAMES`.
    named: Option<Vec<PathBuf>>,
    /// Files or folders searched beside: `VK_ADD_DRIVER_FILES`.
    added: Vec<PathBuf>,
    /// Folders that hold `vulkan/icd.d`.
    folders: Vec<PathBuf>,
}

impl DriverPaths {
    /// Reads them from the environment through `variable`.
    pub(super) fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let paths = |name: &str| -> Option<Vec<PathBuf>> {
            Some(std::env::split_paths(&set(name)?).collect())
        };
        let home = |below: &str| Some(PathBuf::from(set("HOME")?).join(below));
        let list = |name: &str, default: &str| {
            paths(name).unwrap_or_else(|| default.split(':').map(PathBuf::from).collect())
        };
        let mut folders: Vec<PathBuf> = set("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| home(".config"))
            .into_iter()
            .collect();
        folders.extend(list("XDG_CONFIG_DIRS", "/etc/xdg"));
        folders.push("/etc".into());
        folders.extend(
            set("XDG_DATA_HOME")
                .map(PathBuf::from)
                .or_else(|| home(".local/share")),
        );
        folders.extend(list("XDG_DATA_DIRS", "/usr/local/share:/usr/share"));
        Self {
            named: paths("VK_DRIVER_FILES").or_else(|| paths("VK_ICD_FILENAMES")),
            added: paths("VK_ADD_DRIVER_FILES").unwrap_or_default(),
            folders,
        }
    }
}

/// The drivers whose manifests the loader would read.
pub(super) fn drivers(paths: &DriverPaths) -> Vec<VulkanDriver> {
    let mut manifests = Vec::new();
    match &paths.named {
        Some(named) => named.iter().for_each(|path| add(path, &mut manifests)),
        None => {
            for path in &paths.added {
                add(path, &mut manifests);
            }
            for folder in &paths.folders {
                add(&folder.join("vulkan").join("icd.d"), &mut manifests);
            }
        }
    }
    let mut seen = BTreeSet::new();
    manifests
        .into_iter()
        .filter(|manifest| seen.insert(manifest.clone()))
        .filter_map(|manifest| driver(&manifest))
        .collect()
}

/// Adds a manifest, or those in a folder.
fn add(path: &Path, manifests: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        manifests.push(path.to_path_buf());
        return;
    }
    let mut files: Vec<PathBuf> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    manifests.append(&mut files);
}

fn driver(manifest: &Path) -> Option<VulkanDriver> {
    let text = fs::read_to_string(manifest).ok()?;
    let object: serde_json::Value = serde_json::from_str(&text).ok()?;
    let library = object.get("ICD")?.get("library_path")?.as_str()?.to_owned();
    let name = library.rsplit('/').next().unwrap_or(&library);
    let is = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    Some(VulkanDriver {
        manifest: manifest.to_path_buf(),
        software: is(&["lvp", "swiftshader", "llvmpipe"]),
        vendor: if is(&["nvidia", "GLX_nvidia", "nouveau"]) {
            Some(Vendor::Nvidia)
        } else if is(&["radeon", "amdvlk"]) {
            Some(Vendor::Amd)
        } else if is(&["intel"]) {
            Some(Vendor::Intel)
        } else if is(&["virtio", "gfxstream", "dzn"]) {
            // Drivers for a host's GPU in a virtual machine.
            Some(Vendor::Other)
        } else {
            None
        },
        library,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Gpu;
    use crate::device::vulkan::Vulkan;

    fn manifest(folder: &Path, name: &str, library: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(folder).unwrap();
        let text = format!(
            r#"{{"file_format_version": "1.0.0", "ICD": {{"api_version": "1.4", "library_path": "{library}"}}}}"#
        );
        fs::write(&path, text).unwrap();
        path
    }

    fn installed(libraries: &[&str]) -> Vulkan {
        let root = tempfile::TempDir::new().unwrap();
        for (number, library) in libraries.iter().enumerate() {
            let folder = root.path().join("vulkan/icd.d");
            manifest(&folder, &format!("{number}.json"), library);
        }
        let paths = DriverPaths {
            folders: vec![root.path().to_path_buf()],
            ..DriverPaths::default()
        };
        Vulkan {
            loader: true,
            drivers: drivers(&paths),
        }
    }

    #[test]
    fn mesa_without_a_graphics_card_is_software_alone() {
        let mesa = installed(&[
            "libvulkan_lvp.so",
            "libvulkan_radeon.so",
            "/usr/lib/x86_64-linux-gnu/libvulkan_intel.so",
            "libvulkan_virtio.so",
        ]);
        assert!(mesa.has_software());
        assert!(!mesa.serves(&[]));
        let card = Gpu::new(Vendor::Amd, "AMD card".into());
        assert!(mesa.serves(std::slice::from_ref(&card)));
        let other = Gpu::new(Vendor::Nvidia, "NVIDIA card".into());
        assert!(!mesa.serves(std::slice::from_ref(&other)));
        assert!(installed(&["libGLX_nvidia.so.0"]).serves(&[other]));
        assert!(!installed(&["libGLX_nvidia.so.0"]).has_software());
        let unreachable = Vulkan {
            loader: false,
            ..mesa
        };
        assert!(!unreachable.serves(&[card]) && !unreachable.has_software());
    }

    #[test]
    fn a_variable_replaces_the_search_or_adds_to_it() {
        let root = tempfile::TempDir::new().unwrap();
        let usual = root.path().join("share");
        manifest(
            &usual.join("vulkan/icd.d"),
            "radeon.json",
            "libvulkan_radeon.so",
        );
        let own = manifest(root.path(), "own.json", "libvulkan_lvp.so");
        let libraries = |variables: &[(&str, &Path)]| -> Vec<String> {
            let paths = DriverPaths::of(|name| {
                let (_, value) = variables.iter().find(|(other, _)| *other == name)?;
                Some(value.as_os_str().to_owned())
            });
            let drivers = drivers(&paths);
            drivers.into_iter().map(|driver| driver.library).collect()
        };
        let share = ("XDG_DATA_DIRS", usual.as_path());
        let found = |more| libraries(&[share, ("XDG_CONFIG_HOME", root.path()), more]);
        assert!(found(("HOME", root.path())).contains(&"libvulkan_radeon.so".to_owned()));
        assert_eq!(found(("VK_DRIVER_FILES", &own)), ["libvulkan_lvp.so"]);
        assert_eq!(found(("VK_ICD_FILENAMES", &own)), ["libvulkan_lvp.so"]);
        let both = found(("VK_ADD_DRIVER_FILES", &own));
        assert_eq!(both[0], "libvulkan_lvp.so");
        assert!(both.contains(&"libvulkan_radeon.so".to_owned()));
    }

    #[test]
    fn what_is_no_manifest_is_passed_over() {
        let root = tempfile::TempDir::new().unwrap();
        let folder = root.path().join("vulkan/icd.d");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("empty.json"), "").unwrap();
        fs::write(folder.join("layer.json"), r#"{"layer": {}}"#).unwrap();
        fs::write(folder.join("notes.txt"), "x").unwrap();
        let paths = DriverPaths {
            named: Some(vec![folder, root.path().join("gone.json")]),
            ..DriverPaths::default()
        };
        assert_eq!(drivers(&paths), []);
    }
}
