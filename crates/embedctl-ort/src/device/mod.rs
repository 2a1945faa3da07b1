//! The machine's hardware, and its use for embedding.
//!
//! [`Hardware::detect`] asks the system: `/proc` and `/sys` on Linux, DXGI on Windows, `system_profiler` on macOS, and
//! NVIDIA's own library wherever its driver is. Nothing needs to be installed and nothing fails: unknown values are
//! `None`. Files are parsed by functions of a root folder or a text, so that other machines can be tested.

#[cfg(any(target_os = "macos", test))]
mod macos;
#[cfg(any(windows, test))]
mod merged;
#[cfg(any(target_os = "linux", windows))]
mod nvidia;
#[cfg(target_os = "linux")]
mod pci;
#[cfg(target_os = "linux")]
mod pci_names;
mod problem;
#[cfg(any(target_os = "linux", windows, test))]
mod visible;
mod vulkan;
#[cfg(windows)]
mod windows;

use serde::Serialize;

pub use embedctl_common::machine::{CoreLimit, Cpu, Memory, Room, processor_and_memory, room};
#[cfg(any(target_os = "linux", windows))]
pub use nvidia::HeldMemory;
pub use problem::GpuProblem;
pub use vulkan::{Vulkan, VulkanDriver};
#[cfg(windows)]
pub use windows::adapter_index;

/// The memory that this process holds on GPUs: unknown on this system.
#[cfg(not(any(target_os = "linux", windows)))]
pub struct HeldMemory;

#[cfg(not(any(target_os = "linux", windows)))]
impl HeldMemory {
    /// `None`: there is no driver to ask.
    #[must_use]
    pub fn watch() -> Option<Self> {
        None
    }

    /// Bytes that this process holds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        0
    }
}

/// The hardware of this machine, as far as this process may use it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Hardware {
    /// The processor.
    pub cpu: Cpu,
    /// Main memory.
    pub memory: Memory,
    /// Graphics processors. Within a vendor they stand in the order of their numbers.
    pub gpus: Vec<Gpu>,
    /// Processors for neural networks beside the GPUs.
    pub npus: Vec<Npu>,
    /// NVIDIA's driver, if its library is here.
    pub nvidia: Option<NvidiaDriver>,
    /// Vulkan, which WebGPU needs on Linux; `None` on other systems.
    pub vulkan: Option<Vulkan>,
}

/// The maker of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Vendor {
    Nvidia,
    Amd,
    Intel,
    Apple,
    #[default]
    Other,
}

impl Vendor {
    /// The maker behind a PCI vendor number.
    #[cfg(any(target_os = "linux", windows))]
    pub(crate) fn of_pci(number: u32) -> Self {
        match number {
            0x10de => Self::Nvidia,
            0x1002 | 0x1022 => Self::Amd,
            0x8086 => Self::Intel,
            0x106b => Self::Apple,
            _ => Self::Other,
        }
    }
}

/// A graphics processor.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Gpu {
    /// Its device number for the providers of its vendor (CUDA and TensorRT, MIGraphX); `None` if they cannot see it,
    /// or there are none.
    pub number: Option<u32>,
    /// Its device number for DirectML: the GPU with the most memory of its own is 0.
    pub directml_number: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its maker.
    pub vendor: Vendor,
    /// Its own memory in bytes.
    pub memory: Option<u64>,
    /// Free bytes of that memory.
    pub memory_free: Option<u64>,
    /// Its recent utilization, in percent.
    pub utilization: Option<u32>,
    /// Its architecture: NVIDIA's compute capability (`9.0`), AMD's target (`gfx1100`).
    pub architecture: Option<String>,
    /// NVIDIA's name for this very piece: `GPU-…`.
    pub uuid: Option<String>,
    /// Where it sits: `0000:01:00.0`.
    pub pci_address: Option<String>,
    /// The kernel's driver for it.
    pub driver: Option<String>,
    /// Why it cannot be used, or not by all providers.
    pub problem: Option<GpuProblem>,
}

impl Gpu {
    /// A device without further details.
    #[must_use]
    pub fn new(vendor: Vendor, name: String) -> Self {
        Self {
            name,
            vendor,
            ..Self::default()
        }
    }
}

/// A processor for neural networks.
#[derive(Debug, Clone, Serialize)]
pub struct Npu {
    /// Its name, made from its driver's.
    pub name: String,
    /// Its maker.
    pub vendor: Vendor,
    /// The device file through which it is used.
    pub path: String,
    /// The kernel's driver for it.
    pub driver: Option<String>,
}

/// NVIDIA's driver.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NvidiaDriver {
    /// Its version: `580.65.06`.
    pub version: Option<String>,
    /// The newest CUDA that it runs: `13.0`.
    pub cuda: Option<String>,
    /// A problem with it, or a remark.
    pub problem: Option<String>,
}

impl NvidiaDriver {
    /// The major version of the newest CUDA that it runs.
    #[must_use]
    pub fn cuda_major(&self) -> Option<u32> {
        self.cuda.as_ref()?.split('.').next()?.parse().ok()
    }
}

impl Hardware {
    /// Detects this machine's hardware. Takes some milliseconds, or some tenths of a second if NVIDIA's driver has to
    /// wake up a device.
    #[must_use]
    pub fn detect() -> Self {
        let (cpu, memory) = processor_and_memory();
        let mut hardware = Self {
            cpu,
            memory,
            ..Self::default()
        };
        #[cfg(target_os = "linux")]
        {
            let root = std::path::Path::new("/");
            hardware.gpus = pci::gpus(root);
            hardware.npus = pci::npus(root);
            if let Some((driver, gpus)) = nvidia::ask() {
                hardware.add_nvidia(driver, gpus);
            }
            hardware.vulkan = Some(vulkan::here());
        }
        #[cfg(windows)]
        {
            hardware.gpus = windows::gpus();
            if let Some((driver, gpus)) = nvidia::ask() {
                hardware.nvidia = Some(driver);
                hardware.gpus = merged::merge(hardware.gpus, gpus);
            }
        }
        #[cfg(target_os = "macos")]
        {
            hardware.gpus = macos::gpus();
        }
        hardware
    }

    /// The GPUs of a maker.
    pub fn gpus_of(&self, vendor: Vendor) -> impl Iterator<Item = &Gpu> {
        self.gpus.iter().filter(move |gpu| gpu.vendor == vendor)
    }

    /// NVIDIA's library knows its devices better than the PCI bus does.
    #[cfg(target_os = "linux")]
    fn add_nvidia(&mut self, driver: NvidiaDriver, gpus: Vec<Gpu>) {
        if !gpus.is_empty() {
            self.gpus.retain(|gpu| gpu.vendor != Vendor::Nvidia);
            self.gpus.splice(0..0, gpus);
        }
        self.nvidia = Some(driver);
    }
}
