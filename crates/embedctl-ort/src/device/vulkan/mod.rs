//! Vulkan, through which WebGPU computes on Linux: whether its loader is installed, and which drivers.
//!
//! Vulkan is not started here: that runs the drivers' own code, and happens only in a probe's process.

#[cfg(any(target_os = "linux", test))]
mod search;

use std::path::PathBuf;

use serde::Serialize;

use super::{Gpu, Vendor};

/// Vulkan as it is installed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Vulkan {
    /// Whether the loader (`libvulkan.so.1`) is here.
    pub loader: bool,
    /// The drivers that it would find.
    pub drivers: Vec<VulkanDriver>,
}

/// An installed Vulkan driver; the hardware that it is for may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VulkanDriver {
    /// The manifest that names it.
    pub manifest: PathBuf,
    /// Its library.
    pub library: String,
    /// Whether it computes on the processor.
    pub software: bool,
    /// Whose devices it is for, where its name says so.
    pub vendor: Option<Vendor>,
}

impl Vulkan {
    /// Whether some driver here is for one of `gpus`. One for devices of an unknown make counts: the
    /// boards that it is for don't stand on the PCI bus.
    #[must_use]
    pub fn serves(&self, gpus: &[Gpu]) -> bool {
        self.loader
            && self.drivers.iter().any(|driver| match driver.vendor {
                _ if driver.software => false,
                Some(vendor) => gpus.iter().any(|gpu| gpu.vendor == vendor),
                None => !gpus.is_empty(),
            })
    }

    /// Whether a driver that computes on the processor is here.
    #[must_use]
    pub fn has_software(&self) -> bool {
        self.loader && self.drivers.iter().any(|driver| driver.software)
    }
}

/// Vulkan on this machine.
#[cfg(target_os = "linux")]
pub(super) fn here() -> Vulkan {
    // SAFETY: loading runs the loader's initializers, which any program that draws runs, too; it starts no
    // driver.
    let loader = unsafe { libloading::Library::new("libvulkan.so.1") }.is_ok();
    Vulkan {
        loader,
        drivers: search::drivers(&search::DriverPaths::of(|name| std::env::var_os(name))),
    }
}
