//! A card: its context, what it can do, and the errors of its driver.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use embedctl_common::error::{Error, ErrorKind, Result};

use crate::NAME;
use crate::library::{Libraries, Object, failure};

/// The oldest architecture: Ampere's, which has bfloat16 and copies beside the computation.
const OLDEST: u32 = 80;

// `CUdevice_attribute`.
const MULTIPROCESSORS: c_int = 16;
const MAJOR: c_int = 75;
const MINOR: c_int = 76;
const SHARED_MEMORY: c_int = 97;

/// What a card is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardInfo {
    /// Its name.
    pub name: String,
    /// Its architecture: 90 for 9.0.
    pub architecture: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may have.
    pub shared_memory: usize,
    /// The version of CUDA that the driver has: 13000 for 13.0.
    pub driver: u32,
    /// The version of NVRTC.
    pub compiler: (u32, u32),
    /// The version of cuBLASLt.
    pub multiplier: usize,
}

/// A card that is open. Its context is shared with all that uses the card in this process.
pub struct Card {
    pub(crate) libraries: Libraries,
    device: c_int,
    context: Object,
    /// What it is.
    pub info: CardInfo,
}

// SAFETY: a context may be used by any thread that makes it current, and the driver's functions may be called by several
// threads at a time.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}

impl Card {
    /// Opens the card of this number.
    ///
    /// # Errors
    /// If there is none, or it is too old.
    pub fn open(libraries: Libraries, number: u32) -> Result<Arc<Self>> {
        let driver = &libraries.driver;
        let failed = |status: c_int, action: &str| match status {
            0 => Ok(()),
            status => Err(failure(&libraries, status, action)),
        };
        // SAFETY: pointers lead to values of the types that the driver's header names.
        unsafe {
            let count = libraries.devices()?;
            if number >= count {
                let reason = format!("there is no device {number}: the driver has {count}");
                return Err(Error::new(ErrorKind::Provider, NAME, reason)
                    .with_remedy("count from 0; nvidia-smi lists the cards"));
            }
            let number = c_int::try_from(number).unwrap_or(c_int::MAX);
            let mut device = 0;
            failed((driver.device)(&raw mut device, number), "open the card")?;
            let attribute = |which: c_int| {
                let mut value = 0;
                failed(
                    (driver.attribute)(&raw mut value, which, device),
                    "ask the card",
                )?;
                Ok::<_, Error>(value.unsigned_abs())
            };
            let mut name = [0 as c_char; 256];
            failed(
                (driver.device_name)(name.as_mut_ptr(), 255, device),
                "ask the card",
            )?;
            let name = CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned();
            let (mut version, mut major, mut minor) = (0, 0, 0);
            failed((driver.version)(&raw mut version), "ask the driver")?;
            (libraries.compiler.version)(&raw mut major, &raw mut minor);
            let info = CardInfo {
                architecture: attribute(MAJOR)? * 10 + attribute(MINOR)?,
                multiprocessors: attribute(MULTIPROCESSORS)?,
                shared_memory: attribute(SHARED_MEMORY)? as usize,
                driver: version.unsigned_abs(),
                compiler: (major.unsigned_abs(), minor.unsigned_abs()),
                multiplier: (libraries.multiplier.version)(),
                name,
            };
            if info.architecture < OLDEST {
                let [major, minor] = [info.architecture / 10, info.architecture % 10];
                let reason = format!(
                    "{} has the compute capability {major}.{minor}; kernels need 8.0 (Ampere) or later",
                    info.name
                );
                return Err(Error::new(ErrorKind::Provider, NAME, reason));
            }
            let mut context = ptr::null_mut();
            failed(
                (driver.retain)(&raw mut context, device),
                "make the card ready",
            )?;
            Ok(Arc::new(Self {
                device,
                context,
                info,
                libraries,
            }))
        }
    }

    /// Makes the card's context that of this thread.
    pub(crate) fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as the card.
        let status = unsafe { (self.libraries.driver.set_current)(self.context) };
        self.check(status, "use the card")
    }

    /// Bytes of memory that are free, and all of them.
    ///
    /// # Errors
    /// If the card does not answer.
    pub fn free_memory(&self) -> Result<(usize, usize)> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers lead to a size.
        let status = unsafe { (self.libraries.driver.memory_info)(&raw mut free, &raw mut total) };
        self.check(status, "ask for its memory")?;
        Ok((free, total))
    }

    /// An error where the driver reports one.
    pub(crate) fn check(&self, status: c_int, action: &str) -> Result<()> {
        match status {
            0 => Ok(()),
            status => Err(failure(&self.libraries, status, action)),
        }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: the context was retained once, and nothing uses it any more.
        unsafe { (self.libraries.driver.release)(self.device) };
    }
}
