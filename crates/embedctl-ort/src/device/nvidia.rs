//! NVIDIA's GPUs, through the management library (NVML) that comes with their driver.

use std::ffi::OsStr;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::visible::cuda_numbers;
use super::{Gpu, GpuProblem, NvidiaDriver, Vendor};

/// Where the library lies, beyond the loader's own search. Under Windows' Linux (WSL) the driver is Windows' own, in a
/// folder that is not in every loader's search path; the last folder is that of old Windows drivers.
#[cfg(target_os = "linux")]
const PLACES: [&str; 3] = [
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "libnvidia-ml.so",
];
#[cfg(windows)]
const PLACES: [&str; 2] = [
    "nvml.dll",
    "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll",
];

/// The driver and its devices, in the order of the PCI bus; `None` if there is no driver.
pub(super) fn ask() -> Option<(NvidiaDriver, Vec<Gpu>)> {
    match load() {
        Ok(nvml) => Some(describe(&nvml)),
        // The library is installed, but the driver is not loaded, or has another version than the library (after an
        // update without a restart).
        Err(failure) => {
            let driver = NvidiaDriver {
                problem: Some(words(&failure?)),
                ..NvidiaDriver::default()
            };
            Some((driver, Vec::new()))
        }
    }
}

/// The management library, or why it cannot be used; `None` if it is not installed.
fn load() -> Result<Nvml, Option<NvmlError>> {
    let mut failure = None;
    for place in PLACES {
        match Nvml::builder().lib_path(OsStr::new(place)).init() {
            Ok(nvml) => return Ok(nvml),
            Err(NvmlError::LibloadingError(_)) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure)
}

/// The memory that this process holds on NVIDIA's GPUs.
pub struct HeldMemory {
    nvml: Nvml,
    /// Bytes in use on all GPUs, by all processes, when the watch began.
    before: u64,
}

impl HeldMemory {
    /// Begins to watch, before this process uses a GPU; `None` if there is no driver.
    #[must_use]
    pub fn watch() -> Option<Self> {
        let nvml = load().ok()?;
        let before = in_use(&nvml);
        Some(Self { nvml, before })
    }

    /// Bytes that this process holds now. In a container the driver may not know this process's number; then the
    /// increase over all processes since the watch began.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let own = std::process::id();
        let lists =
            devices(&self.nvml).filter_map(|device| device.running_compute_processes().ok());
        let held: u64 = lists
            .flatten()
            .filter(|process| process.pid == own)
            .map(|process| match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => bytes,
                UsedGpuMemory::Unavailable => 0,
            })
            .sum();
        if held > 0 {
            held
        } else {
            in_use(&self.nvml).saturating_sub(self.before)
        }
    }
}

fn devices(nvml: &Nvml) -> impl Iterator<Item = Device<'_>> {
    let count = nvml.device_count().unwrap_or(0);
    (0..count).filter_map(|index| nvml.device_by_index(index).ok())
}

fn in_use(nvml: &Nvml) -> u64 {
    let memory = devices(nvml).filter_map(|device| device.memory_info().ok());
    memory.map(|memory| memory.used).sum()
}

fn words(error: &NvmlError) -> String {
    match error {
        NvmlError::DriverNotLoaded => "the NVIDIA driver is installed, but not loaded".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "the NVIDIA driver was updated and the old one is still loaded; restart the machine"
                .to_owned()
        }
        other => format!("the NVIDIA driver does not answer: {other}"),
    }
}

fn describe(nvml: &Nvml) -> (NvidiaDriver, Vec<Gpu>) {
    let mut gpus: Vec<Gpu> = (0..nvml.device_count().unwrap_or(0))
        .map(|index| gpu(nvml, index))
        .collect();
    let mask = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let uuids: Vec<&str> = gpus
        .iter()
        .map(|gpu| gpu.uuid.as_deref().unwrap_or_default())
        .collect();
    let numbers = cuda_numbers(mask.as_deref(), &uuids);
    for (gpu, number) in gpus.iter_mut().zip(numbers) {
        gpu.number = number;
        if number.is_none() && gpu.problem.is_none() {
            gpu.problem = Some(GpuProblem::Hidden);
        }
    }
    let driver = NvidiaDriver {
        version: nvml.sys_driver_version().ok(),
        cuda: nvml
            .sys_cuda_driver_version()
            .ok()
            .map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
        problem: reordered(&gpus),
    };
    (driver, gpus)
}

/// CUDA numbers devices that differ by their speed, unless it is told to follow the bus as NVML does.
fn reordered(gpus: &[Gpu]) -> Option<String> {
    let by_bus = std::env::var_os("CUDA_DEVICE_ORDER").is_some_and(|order| order == "PCI_BUS_ID");
    let differ = gpus.windows(2).any(|pair| pair[0].name != pair[1].name);
    (differ && !by_bus).then(|| {
        "CUDA numbers differing GPUs fastest first; set CUDA_DEVICE_ORDER=PCI_BUS_ID to make its \
         numbers the numbers shown here"
            .to_owned()
    })
}

fn gpu(nvml: &Nvml, index: u32) -> Gpu {
    let device = match nvml.device_by_index(index) {
        Ok(device) => device,
        Err(error) => {
            let mut gpu = Gpu::new(Vendor::Nvidia, format!("NVIDIA GPU {index}"));
            gpu.problem = Some(GpuProblem::OutOfReach(error.to_string()));
            return gpu;
        }
    };
    let name = device.name();
    let mut gpu = Gpu::new(
        Vendor::Nvidia,
        name.unwrap_or_else(|_| format!("NVIDIA GPU {index}")),
    );
    // Devices that share the machine's memory report none of their own.
    if let Ok(memory) = device.memory_info() {
        gpu.memory = Some(memory.total);
        gpu.memory_free = Some(memory.free);
    }
    gpu.utilization = device.utilization_rates().ok().map(|rates| rates.gpu);
    gpu.architecture = device
        .cuda_compute_capability()
        .ok()
        .map(|capability| format!("{}.{}", capability.major, capability.minor));
    gpu.uuid = device.uuid().ok();
    gpu.pci_address = device.pci_info().ok().map(|pci| address(&pci.bus_id));
    gpu.driver = Some("nvidia".to_owned());
    gpu
}

/// NVML writes eight digits for the domain and capitals: `00000000:0F:00.0`; the kernel `0000:0f:00.0`.
fn address(bus_id: &str) -> String {
    let lower = bus_id.to_ascii_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_kernels() {
        assert_eq!(address("00000000:0F:00.0"), "0000:0f:00.0");
        assert_eq!(address("00010000:0F:00.0"), "00010000:0f:00.0");
        assert_eq!(address("0000:81:00.0"), "0000:81:00.0");
    }

    #[test]
    fn differing_gpus_are_warned_of() {
        let gpu = |name: &str| Gpu::new(Vendor::Nvidia, name.to_owned());
        assert_eq!(reordered(&[gpu("L4"), gpu("L4")]), None);
        if std::env::var_os("CUDA_DEVICE_ORDER").is_none() {
            let told = reordered(&[gpu("L4"), gpu("H100")]).unwrap();
            assert!(told.contains("CUDA_DEVICE_ORDER"), "{told}");
        }
    }
}
