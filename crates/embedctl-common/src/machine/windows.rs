//! Main memory on Windows.

use windows::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

use super::Memory;

/// Main memory.
pub(super) fn memory() -> Memory {
    let mut status = MEMORYSTATUSEX {
        dwLength: u32::try_from(size_of::<MEMORYSTATUSEX>()).unwrap_or_default(),
        ..MEMORYSTATUSEX::default()
    };
    // SAFETY: the structure is writable and states its own size.
    match unsafe { GlobalMemoryStatusEx(&raw mut status) } {
        Ok(()) => Memory {
            total: Some(status.ullTotalPhys),
            available: Some(status.ullAvailPhys),
            limit: None,
        },
        Err(_) => Memory::default(),
    }
}
