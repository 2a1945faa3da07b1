//! Finding plug-ins by the names that files export, without loading them or keeping a list of file names.
//!
//! They are searched for beside a library, and in each package's folder of its Python environment (or of the active
//! ones, if it lies in none).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::runtime::python;
use crate::runtime::search_path::{SearchPath, System, file_name, real};
use embedctl_common::folder::children;
use embedctl_engine::Provider;

/// The functions that ONNX Runtime calls to create and release a plug-in's providers.
const ENTRY_POINTS: [&str; 2] = ["CreateEpFactories", "ReleaseEpFactory"];

/// Exported by providers that belong to one build of ONNX Runtime; some of them have the entry points, too.
const OF_ONE_BUILD: &str = "GetProvider";

/// The plug-ins that go with the ONNX Runtime at `library`, in the order of their paths.
pub(in crate::runtime) fn around(library: &Path, here: &SearchPath) -> Vec<PathBuf> {
    let Some(own) = library.parent().filter(|own| own.is_absolute()) else {
        return Vec::new(); // found by the loader, in an unknown folder
    };
    let mut folders = vec![own.to_path_buf()];
    // For a link, the neighbours are those of the linked file.
    let behind = real(library);
    folders.extend(
        behind
            .parent()
            .filter(|folder| *folder != own)
            .map(PathBuf::from),
    );
    let environment = folders
        .iter()
        .find(|folder| folder.ends_with("onnxruntime/capi"));
    let packages = match environment.and_then(|capi| capi.ancestors().nth(2)) {
        Some(packages) => vec![packages.to_path_buf()],
        None => python::package_folders(library, here),
    };
    let all_packages = packages.iter().flat_map(|folder| children(folder));
    folders.extend(all_packages.filter(|folder| folder.is_dir()));
    let mut seen = BTreeSet::new();
    folders
        .iter()
        .flat_map(|folder| children(folder))
        .filter(|file| is_named(file, here.system) && is_plugin(file) && seen.insert(real(file)))
        .collect()
}

/// Whether a file's name is one under which plug-ins are loaded: without a version, which wheels add as copies.
fn is_named(file: &Path, system: System) -> bool {
    let ending = match system {
        System::Linux => "so",
        System::MacOs => "dylib",
        System::Windows => "dll",
    };
    let ends = file
        .extension()
        .is_some_and(|own| own.eq_ignore_ascii_case(ending));
    ends && !system.is_library(&file_name(file))
}

#[cfg(not(any(windows, target_vendor = "apple")))]
fn is_plugin(file: &Path) -> bool {
    use crate::runtime::elf::exports;
    let has = |names: &[&str]| exports(file, names).unwrap_or(false);
    has(&ENTRY_POINTS) && !has(&[OF_ONE_BUILD])
}

/// Exported names stand in these files as they are.
#[cfg(any(windows, target_vendor = "apple"))]
fn is_plugin(file: &Path) -> bool {
    let map = std::fs::File::open(file).and_then(|file| {
        // SAFETY: the bytes are only searched; a file that changes meanwhile would be as unsafe to load.
        unsafe { memmap2::Mmap::map(&file) }
    });
    let Ok(bytes) = map else {
        return false;
    };
    let has = |name: &str| {
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        memchr::memmem::find(&bytes, &text).is_some()
    };
    ENTRY_POINTS.iter().all(|name| has(name)) && !has(OF_ONE_BUILD)
}

/// The provider of a plug-in's file, by ONNX Runtime's own file names. Nothing is decided by that; it only describes a
/// plug-in that does not load.
pub(in crate::runtime) fn guess(plugin: &Path) -> Option<Provider> {
    let name = file_name(plugin).to_ascii_lowercase();
    let own = name.split_once("onnxruntime_providers_")?.1;
    let named = [
        ("nv_tensorrt_rtx", Provider::TensorRtRtx),
        ("tensorrt", Provider::TensorRt),
        ("openvino", Provider::OpenVino),
        ("webgpu", Provider::WebGpu),
        ("cuda", Provider::Cuda),
        ("migraphx", Provider::MiGraphX),
        ("dml", Provider::DirectMl),
    ];
    let found = named.iter().find(|(part, _)| own.starts_with(part));
    found.map(|(_, provider)| *provider)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;
    use embedctl_common::cancel::CancelToken;

    const PLUGIN: &str =
        "int CreateEpFactories(void) { return 0; } int ReleaseEpFactory(void) { return 0; }";

    /// Compiles `code` to `path`; `None` where there is no C compiler.
    fn library(root: &TempDir, path: &str, code: &str) -> Option<PathBuf> {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let source = path.with_extension("c");
        fs::write(&source, code).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&path)
            .arg(&source)
            .status();
        fs::remove_file(source).unwrap();
        match built {
            Ok(status) => assert!(status.success()),
            Err(_) => {
                eprintln!("skipped: finding plug-ins (there is no C compiler)");
                return None;
            }
        }
        Some(path)
    }

    fn here() -> SearchPath {
        SearchPath {
            variables: Vec::new(),
            path: Vec::new(),
            system: System::Linux,
            ..SearchPath::real(None, &CancelToken::new())
        }
    }

    const PACKAGES: &str = "lib/python3.12/site-packages";

    #[test]
    fn a_plugin_is_what_exports_its_entry_points() {
        let root = TempDir::new().unwrap();
        let in_packages = |name: &str| format!("{PACKAGES}/{name}");
        let Some(beside) = library(&root, &in_packages("onnxruntime/capi/libany.so"), PLUGIN)
        else {
            return;
        };
        let packaged = library(&root, &in_packages("some_package/libsome.so"), PLUGIN).unwrap();
        let calls = "int CreateEpFactories(void); int ReleaseEpFactory(void);\
                     int other(void) { return CreateEpFactories() + ReleaseEpFactory(); }";
        let hidden = format!(
            "__attribute__((visibility(\"hidden\"))) {}",
            PLUGIN.replace(" int ", " __attribute__((visibility(\"hidden\"))) int ")
        );
        for (path, code) in [
            ("caller/libcaller.so", calls),
            ("hidden/libhidden.so", &hidden),
            (
                "half/libhalf.so",
                "int CreateEpFactories(void) { return 0; }",
            ),
            (
                "onnxruntime/capi/libonnxruntime_providers_cuda.so",
                &format!("{PLUGIN} int GetProvider(void) {{ return 0; }}"),
            ),
            ("onnxruntime/capi/libonnxruntime.so", PLUGIN),
            ("versioned/libversioned.so.1", PLUGIN),
            ("deep/within/libdeep.so", PLUGIN),
        ] {
            library(&root, &in_packages(path), code).unwrap();
        }
        fs::write(
            root.path().join(PACKAGES).join("half/libnone.so"),
            "nothing of the kind",
        )
        .unwrap();
        let core = root
            .path()
            .join(in_packages("onnxruntime/capi/libonnxruntime.so"));
        assert_eq!(around(&core, &here()), [beside.clone(), packaged.clone()]);

        // A library outside of any environment goes with the active one's.
        let outside = root.path().join("opt/lib/libonnxruntime.so");
        fs::create_dir_all(outside.parent().unwrap()).unwrap();
        fs::write(&outside, "").unwrap();
        assert!(around(&outside, &here()).is_empty());
        let mut active = here();
        active.variables.push(("VIRTUAL_ENV", root.path().into()));
        assert_eq!(around(&outside, &active), std::slice::from_ref(&packaged));

        // A link to a library stands for it.
        let link = root.path().join("elsewhere/libonnxruntime.so");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&core, &link).unwrap();
        assert_eq!(around(&link, &here()), [beside, packaged]);
        assert!(around(Path::new("libonnxruntime.so"), &active).is_empty());
    }

    #[test]
    fn a_name_is_a_hint() {
        let of = |name: &str| guess(&Path::new("/p").join(name));
        assert_eq!(
            of("libonnxruntime_providers_openvino_plugin.so"),
            Some(Provider::OpenVino)
        );
        assert_eq!(
            of("onnxruntime_providers_nv_tensorrt_rtx.dll"),
            Some(Provider::TensorRtRtx)
        );
        assert_eq!(of("libsome.so"), None);
    }
}
