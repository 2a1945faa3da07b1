//! The emulator: built once with the machine's C++ compiler, and asked for faults.

use std::ffi::{CString, c_char, c_int, c_long};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libloading::Library;

use crate::library::Object;
use crate::{Card, Libraries};

/// The kinds of calls that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Allocation = 0,
    Launch = 1,
    Copy = 2,
    Product = 3,
}

/// The emulator, for one test at a time.
pub(super) struct Emulator {
    library: &'static Path,
    control: Library,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Emulator {
    /// The emulator, or `None` where there is no compiler for it.
    pub(super) fn open() -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(built) = embedctl_testing::emulator() else {
            let required = std::env::var("EMBEDCTL_TEST_REQUIRE").unwrap_or_default();
            let required = required.split(',').any(|it| it == "c++");
            assert!(!required, "there is no C++ compiler");
            eprintln!("skipped: there is no C++ compiler");
            return None;
        };
        let library = built.library.as_path();
        // SAFETY: it is our own.
        let control = unsafe { Library::new(library) }.unwrap();
        let emulator = Self {
            library,
            control,
            _alone: alone,
        };
        emulator.reset();
        let text = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
        let (own, cache) = (text(&built.source), text(&built.cache));
        // SAFETY: emulator/driver.cpp has this function.
        unsafe {
            let set: unsafe extern "C" fn(*const c_char, *const c_char) =
                *emulator.control.get(b"emulated_folders").unwrap();
            set(own.as_ptr(), cache.as_ptr());
        }
        Some(emulator)
    }

    /// Forgets faults and the log.
    pub(super) fn reset(&self) {
        // SAFETY: emulator/driver.cpp has this function.
        unsafe {
            let reset: unsafe extern "C" fn() = *self.control.get(b"emulated_reset").unwrap();
            reset();
        }
    }

    /// The call of this kind after so many others fails with a status of the driver.
    pub(super) fn fail(&self, call: Call, after: usize, status: i32) {
        // SAFETY: emulator/driver.cpp has this function.
        unsafe {
            let fail: unsafe extern "C" fn(c_int, c_long, c_int) =
                *self.control.get(b"emulated_fail").unwrap();
            fail(call as c_int, after as c_long, status);
        }
    }

    /// How many calls of a kind were made.
    pub(super) fn calls(&self, call: Call) -> usize {
        // SAFETY: emulator/driver.cpp has this function.
        unsafe {
            let calls: unsafe extern "C" fn(c_int) -> usize =
                *self.control.get(b"emulated_calls").unwrap();
            calls(call as c_int)
        }
    }

    /// Bytes of the card's memory that are in use.
    pub(super) fn used(&self) -> usize {
        // SAFETY: emulator/driver.cpp has this function.
        unsafe {
            let used: unsafe extern "C" fn() -> usize =
                *self.control.get(b"emulated_used").unwrap();
            used()
        }
    }

    /// All launches and products since the reset, one a line.
    pub(super) fn log(&self) -> String {
        // SAFETY: emulator/driver.cpp has this function, and writes no more than there is room.
        unsafe {
            let log: unsafe extern "C" fn(*mut c_char, usize) -> usize =
                *self.control.get(b"emulated_log").unwrap();
            let mut text = vec![0_u8; log(std::ptr::null_mut(), 0)];
            log(text.as_mut_ptr().cast(), text.len());
            String::from_utf8(text).unwrap()
        }
    }

    /// Bytes of a kernel's arguments.
    pub(super) fn argument_bytes(&self, function: Object) -> usize {
        // SAFETY: emulator/driver.cpp has this function, and the kernel is one of a module that is loaded.
        unsafe {
            let bytes: unsafe extern "C" fn(Object) -> c_int =
                *self.control.get(b"emulated_argument_bytes").unwrap();
            bytes(function) as usize
        }
    }

    /// Bytes of memory that the card has from now on.
    pub(super) fn limit(&self, bytes: usize) {
        // SAFETY: emulator/driver.cpp has this function.
        unsafe {
            let limit: unsafe extern "C" fn(usize) = *self.control.get(b"emulated_limit").unwrap();
            limit(bytes);
        }
    }

    /// The library that stands for all three.
    pub(super) fn library(&self) -> &'static Path {
        self.library
    }

    pub(super) fn libraries(&self) -> Libraries {
        Libraries::load([self.library; 3]).unwrap()
    }

    /// The emulated card.
    pub(super) fn card(&self) -> Arc<Card> {
        Card::open(self.libraries(), 0).unwrap()
    }
}
