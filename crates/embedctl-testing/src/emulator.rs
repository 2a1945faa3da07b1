//! NVIDIA's libraries, emulated: `embedctl-cuda/emulator`, built with the machine's C++ compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use embedctl_common::hash;

/// The files of the emulator of NVIDIA's libraries.
#[derive(Debug)]
pub struct EmulatorFiles {
    /// The library that stands for all of NVIDIA's.
    pub library: PathBuf,
    /// The folder of its source, where it finds what kernels include.
    pub source: PathBuf,
    /// The folder where it keeps the kernels that it has built, for all tests and later runs of them.
    pub cache: PathBuf,
}

/// The emulator, built unless an earlier run of the tests has built this source; `None` without a C++ compiler (`c++`, or what
/// `CXX` names).
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn emulator() -> Option<&'static EmulatorFiles> {
    static EMULATOR: OnceLock<Option<EmulatorFiles>> = OnceLock::new();
    EMULATOR.get_or_init(build).as_ref()
}

fn build() -> Option<EmulatorFiles> {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let works = Command::new(&compiler).arg("--version").output();
    works.ok().filter(|output| output.status.success())?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../embedctl-cuda/emulator");
    let driver = source.join("driver.cpp");
    // Beside the tests, which all lie in one folder.
    let test = std::env::current_exe().expect("the path of this test");
    let cache = test.with_file_name("cuda-emulator");
    std::fs::create_dir_all(&cache).expect("a folder beside this test");
    let hash = hash::of(std::fs::read(&driver).expect("the emulator's source"));
    let library = cache.join(format!("driver-{}.so", &hash[..16]));
    if !library.exists() {
        let part = library.with_extension(std::process::id().to_string());
        let built = Command::new(compiler)
            .args(["-std=c++17", "-O1", "-fPIC", "-shared"])
            .args(["-fvisibility=hidden", "-o"])
            .args([&part, &driver])
            .arg("-ldl")
            .output()
            .expect("the C++ compiler runs");
        let words = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{words}");
        std::fs::rename(&part, &library).expect("its name");
    }
    Some(EmulatorFiles {
        library,
        source,
        cache,
    })
}
