//! The functions of NVIDIA's libraries that this crate calls, found when they are loaded.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

use embedctl_common::error::{Error, ErrorKind, Result, with_causes};

/// A library that is needed, and the package that brings it.
#[derive(Debug, Clone, Copy)]
pub struct NeededLibrary {
    /// Its names, the newest first.
    pub names: &'static [&'static str],
    /// What it is, for messages.
    pub what: &'static str,
    /// How it is installed.
    pub remedy: &'static str,
}

/// All that are needed: the driver, the compiler, and the products.
pub const LIBRARIES: [NeededLibrary; 3] = [
    NeededLibrary {
        names: &["libcuda.so.1"],
        what: "NVIDIA's driver",
        remedy: "install the driver of the card",
    },
    NeededLibrary {
        names: &["libnvrtc.so.13", "libnvrtc.so.12"],
        what: "NVRTC, which compiles kernels",
        remedy: "pip install nvidia-cuda-nvrtc",
    },
    NeededLibrary {
        names: &["libcublasLt.so.13", "libcublasLt.so.12"],
        what: "cuBLASLt, which multiplies matrices",
        remedy: "pip install nvidia-cublas",
    },
];

/// A pointer into a card's memory.
pub(crate) type DevicePointer = u64;
/// An object of a library.
pub(crate) type Object = *mut c_void;

macro_rules! functions {
    ($(#[$about:meta])* $name:ident { $($field:ident = $symbol:literal : ($($argument:ty),*) -> $result:ty;)* }) => {
        $(#[$about])*
        pub(crate) struct $name {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: Library,
        }

        impl $name {
            pub(crate) fn of(library: Library) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: NVIDIA's headers declare these functions with these types.
                    $($field: *unsafe { library.get($symbol) }.map_err(|error| with_causes(&error))?,)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    /// The driver.
    Driver {
        init = b"cuInit" : (c_uint) -> c_int;
        version = b"cuDriverGetVersion" : (*mut c_int) -> c_int;
        device_count = b"cuDeviceGetCount" : (*mut c_int) -> c_int;
        device = b"cuDeviceGet" : (*mut c_int, c_int) -> c_int;
        device_name = b"cuDeviceGetName" : (*mut c_char, c_int, c_int) -> c_int;
        attribute = b"cuDeviceGetAttribute" : (*mut c_int, c_int, c_int) -> c_int;
        retain = b"cuDevicePrimaryCtxRetain" : (*mut Object, c_int) -> c_int;
        release = b"cuDevicePrimaryCtxRelease_v2" : (c_int) -> c_int;
        set_current = b"cuCtxSetCurrent" : (Object) -> c_int;
        memory_info = b"cuMemGetInfo_v2" : (*mut usize, *mut usize) -> c_int;
        allocate = b"cuMemAlloc_v2" : (*mut DevicePointer, usize) -> c_int;
        free = b"cuMemFree_v2" : (DevicePointer) -> c_int;
        host_allocate = b"cuMemHostAlloc" : (*mut Object, usize, c_uint) -> c_int;
        host_free = b"cuMemFreeHost" : (Object) -> c_int;
        to_device = b"cuMemcpyHtoDAsync_v2" : (DevicePointer, *const c_void, usize, Object) -> c_int;
        to_host = b"cuMemcpyDtoHAsync_v2" : (Object, DevicePointer, usize, Object) -> c_int;
        stream = b"cuStreamCreate" : (*mut Object, c_uint) -> c_int;
        destroy_stream = b"cuStreamDestroy_v2" : (Object) -> c_int;
        synchronize = b"cuStreamSynchronize" : (Object) -> c_int;
        event = b"cuEventCreate" : (*mut Object, c_uint) -> c_int;
        destroy_event = b"cuEventDestroy_v2" : (Object) -> c_int;
        record = b"cuEventRecord" : (Object, Object) -> c_int;
        wait_event = b"cuEventSynchronize" : (Object) -> c_int;
        elapsed = b"cuEventElapsedTime" : (*mut f32, Object, Object) -> c_int;
        load_module = b"cuModuleLoadData" : (*mut Object, *const c_void) -> c_int;
        unload_module = b"cuModuleUnload" : (Object) -> c_int;
        function = b"cuModuleGetFunction" : (*mut Object, Object, *const c_char) -> c_int;
        set_function = b"cuFuncSetAttribute" : (Object, c_int, c_int) -> c_int;
        launch = b"cuLaunchKernel" : (Object, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Object, *mut *mut c_void, *mut *mut c_void) -> c_int;
        error_text = b"cuGetErrorString" : (c_int, *mut *const c_char) -> c_int;
    }
}

functions! {
    /// The compiler of kernels.
    Compiler {
        version = b"nvrtcVersion" : (*mut c_int, *mut c_int) -> c_int;
        program = b"nvrtcCreateProgram" : (*mut Object, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
        compile = b"nvrtcCompileProgram" : (Object, c_int, *const *const c_char) -> c_int;
        binary_bytes = b"nvrtcGetCUBINSize" : (Object, *mut usize) -> c_int;
        binary = b"nvrtcGetCUBIN" : (Object, *mut c_char) -> c_int;
        log_bytes = b"nvrtcGetProgramLogSize" : (Object, *mut usize) -> c_int;
        log = b"nvrtcGetProgramLog" : (Object, *mut c_char) -> c_int;
        destroy = b"nvrtcDestroyProgram" : (*mut Object) -> c_int;
    }
}

/// An algorithm of a product, as cuBLASLt describes it.
pub(crate) type Algorithm = [u64; 8];

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heuristic {
    pub(crate) algorithm: Algorithm,
    pub(crate) workspace: usize,
    pub(crate) state: c_int,
    pub(crate) waves: f32,
    pub(crate) reserved: [c_int; 4],
}

functions! {
    /// Products of matrices.
    Multiplier {
        create = b"cublasLtCreate" : (*mut Object) -> c_int;
        destroy = b"cublasLtDestroy" : (Object) -> c_int;
        version = b"cublasLtGetVersion" : () -> usize;
        operation = b"cublasLtMatmulDescCreate" : (*mut Object, c_int, c_int) -> c_int;
        destroy_operation = b"cublasLtMatmulDescDestroy" : (Object) -> c_int;
        set_operation = b"cublasLtMatmulDescSetAttribute" : (Object, c_int, *const c_void, usize) -> c_int;
        layout = b"cublasLtMatrixLayoutCreate" : (*mut Object, c_int, u64, u64, i64) -> c_int;
        destroy_layout = b"cublasLtMatrixLayoutDestroy" : (Object) -> c_int;
        preference = b"cublasLtMatmulPreferenceCreate" : (*mut Object) -> c_int;
        destroy_preference = b"cublasLtMatmulPreferenceDestroy" : (Object) -> c_int;
        set_preference = b"cublasLtMatmulPreferenceSetAttribute" : (Object, c_int, *const c_void, usize) -> c_int;
        heuristic = b"cublasLtMatmulAlgoGetHeuristic" : (Object, Object, Object, Object, Object, Object, Object, c_int, *mut Heuristic, *mut c_int) -> c_int;
        multiply = b"cublasLtMatmul" : (Object, Object, *const f32, DevicePointer, Object, DevicePointer, Object, *const f32, DevicePointer, Object, DevicePointer, Object, *const Algorithm, DevicePointer, usize, Object) -> c_int;
    }
}

const OUT_OF_MEMORY: c_int = 2;

/// The three libraries.
pub struct Libraries {
    pub(crate) driver: Driver,
    pub(crate) compiler: Compiler,
    pub(crate) multiplier: Multiplier,
}

impl Libraries {
    /// Takes the libraries at these paths, or of these names, in the order of [`LIBRARIES`].
    ///
    /// # Errors
    /// If one of them cannot be loaded, or lacks a function.
    pub fn load(paths: [&Path; 3]) -> Result<Self> {
        let library = |index: usize| {
            let path: &Path = paths[index];
            // SAFETY: the libraries' initializers are NVIDIA's; the caller has found them among packages, toolkits and the
            // system's libraries, and trusts them.
            unsafe { Library::new(path) }.map_err(|error| missing(index, &with_causes(&error)))
        };
        let lacking = |index: usize| move |reason: String| missing(index, &reason);
        Ok(Self {
            driver: Driver::of(library(0)?).map_err(lacking(0))?,
            compiler: Compiler::of(library(1)?).map_err(lacking(1))?,
            multiplier: Multiplier::of(library(2)?).map_err(lacking(2))?,
        })
    }
}

/// The newest major version of CUDA that the driver at `path` runs: libraries of newer ones fail on it.
///
/// # Errors
/// If it cannot be loaded, or does not answer.
pub fn newest_cuda(path: &Path) -> Result<u32> {
    // SAFETY: as for the libraries.
    let library =
        unsafe { Library::new(path) }.map_err(|error| missing(0, &with_causes(&error)))?;
    let driver = Driver::of(library).map_err(|reason| missing(0, &reason))?;
    let mut version = 0;
    // SAFETY: the pointer leads to a number.
    match unsafe { (driver.version)(&raw mut version) } {
        0 => Ok(version.unsigned_abs() / 1000),
        status => Err(missing(0, &format!("CUDA error {status}"))),
    }
}

impl NeededLibrary {
    /// Its names for a driver that runs CUDA up to this major version.
    #[must_use]
    pub fn names_up_to(&self, newest: u32) -> Vec<&'static str> {
        let major = |name: &str| name.rsplit('.').next().and_then(|it| it.parse().ok());
        let names = self.names.iter().copied();
        names
            .filter(|name| major(name).is_none_or(|major: u32| major <= newest))
            .collect()
    }
}

impl Libraries {
    /// The cards that the driver has.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn devices(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the pointer leads to a number.
        let status = unsafe {
            match (self.driver.init)(0) {
                0 => (self.driver.device_count)(&raw mut count),
                status => status,
            }
        };
        match status {
            0 => Ok(count.unsigned_abs()),
            status => Err(failure(self, status, "count the cards")),
        }
    }
}

fn missing(index: usize, reason: &str) -> Error {
    let NeededLibrary { what, remedy, .. } = LIBRARIES[index];
    let reason = format!("{what}, cannot be loaded ({reason})");
    Error::new(ErrorKind::Provider, crate::NAME, reason).with_remedy(remedy)
}

/// The error of a driver's status.
pub(crate) fn failure(libraries: &Libraries, status: c_int, action: &str) -> Error {
    let mut text = ptr::null();
    // SAFETY: the driver's text is constant.
    let text = unsafe {
        match (libraries.driver.error_text)(status, &raw mut text) {
            0 if !text.is_null() => CStr::from_ptr(text).to_string_lossy().into_owned(),
            _ => "unknown error".to_owned(),
        }
    };
    let kind = match status {
        OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        // No card, or a driver that does not fit.
        3 | 34..=36 | 46 | 100 | 101 | 803 | 804 => ErrorKind::Provider,
        _ => ErrorKind::Engine,
    };
    let reason = format!("cannot {action}: {text} (CUDA error {status})");
    let error = Error::new(kind, crate::NAME, reason);
    match kind {
        ErrorKind::Provider => error.with_remedy(
            "look whether nvidia-smi lists the card, and whether CUDA_VISIBLE_DEVICES hides it",
        ),
        _ => error,
    }
}
