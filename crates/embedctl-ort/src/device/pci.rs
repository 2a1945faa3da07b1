//! GPUs and NPUs on the PCI bus, read as Linux shows them below `/sys`. A device stands there with or
//! without a driver, so that a missing driver can be told from a missing device.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::pci_names;
use super::{Gpu, GpuProblem, Npu, Vendor};
use embedctl_common::folder::children;

/// The GPUs; `root` stands for `/`. Only GPUs of makers with compute support: every server also has a chip for its
/// console.
pub(super) fn gpus(root: &Path) -> Vec<Gpu> {
    let nodes = compute_nodes(root);
    let mut names = None;
    let mut gpus: Vec<Gpu> = children(&root.join("sys/bus/pci/devices"))
        .iter()
        .filter_map(|folder| {
            let vendor_number = hexadecimal(folder, "vendor")?;
            let vendor = Vendor::of_pci(vendor_number);
            let class = hexadecimal(folder, "class")? >> 16;
            let computes = match vendor {
                // AMD's largest have the class of processing accelerators.
                Vendor::Amd => class == 0x03 || class == 0x12,
                Vendor::Nvidia | Vendor::Intel => class == 0x03,
                Vendor::Apple | Vendor::Other => false,
            };
            if !computes {
                return None;
            }
            let device = hexadecimal(folder, "device").unwrap_or(0);
            let list = names.get_or_insert_with(|| pci_names::list(root));
            let name = text(folder, "product_name")
                .or_else(|| pci_names::name(list, vendor_number, device).map(str::to_owned))
                .map_or_else(
                    || format!("{} GPU {vendor_number:04x}:{device:04x}", maker(vendor)),
                    |name| named(vendor, &name),
                );
            let mut gpu = Gpu::new(vendor, name);
            gpu.memory = number(folder, "mem_info_vram_total");
            gpu.memory_free =
                number(folder, "mem_info_vram_used").and_then(|used| gpu.memory?.checked_sub(used));
            gpu.utilization =
                number(folder, "gpu_busy_percent").and_then(|percent| percent.try_into().ok());
            gpu.pci_address = file_name(folder);
            gpu.driver = driver(folder);
            if let Some(node) = gpu.pci_address.as_ref().and_then(|at| nodes.get(at)) {
                gpu.number = Some(node.number);
                gpu.architecture = node.target.clone();
            }
            gpu.problem = problem(root, folder, &gpu);
            Some(gpu)
        })
        .collect();
    gpus.sort_by_key(|gpu| (gpu.number.is_none(), gpu.number));
    gpus
}

/// The NPUs; `root` stands for `/`.
pub(super) fn npus(root: &Path) -> Vec<Npu> {
    children(&root.join("sys/class/accel"))
        .iter()
        .filter_map(|folder| {
            let node = file_name(folder).filter(|name| name.starts_with("accel"))?;
            let device = folder.join("device");
            let driver = driver(&device);
            let vendor = hexadecimal(&device, "vendor").map_or(Vendor::Other, Vendor::of_pci);
            let name = match driver.as_deref() {
                Some("intel_vpu") => "Intel NPU".to_owned(),
                Some("amdxdna") => "AMD NPU (XDNA)".to_owned(),
                Some("habanalabs") => "Intel Gaudi".to_owned(),
                Some("qaic") => "Qualcomm Cloud AI 100".to_owned(),
                Some(other) => format!("accelerator ({other})"),
                None => "accelerator".to_owned(),
            };
            Some(Npu {
                name,
                vendor,
                path: format!("/dev/accel/{node}"),
                driver,
            })
        })
        .collect()
}

/// A GPU as AMD's compute driver knows it.
#[derive(Debug, PartialEq, Eq)]
struct ComputeNode {
    /// Its number among GPUs, which is that of ROCm.
    number: u32,
    /// The target of its code: `gfx1100`.
    target: Option<String>,
}

/// AMD's compute devices by PCI address.
fn compute_nodes(root: &Path) -> BTreeMap<String, ComputeNode> {
    let mut folders = children(&root.join("sys/class/kfd/kfd/topology/nodes"));
    folders.sort_by_key(|folder| file_name(folder).and_then(|name| name.parse::<u32>().ok()));
    let mut nodes = BTreeMap::new();
    for folder in folders {
        let properties = text(&folder, "properties").unwrap_or_default();
        let property = |name: &str| -> Option<u64> {
            properties
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?
                .trim()
                .parse()
                .ok()
        };
        // Processors are nodes, too; they have no SIMD units.
        if property("simd_count").unwrap_or(0) == 0 {
            continue;
        }
        let Some(location) = property("location_id") else {
            continue;
        };
        let address = format!(
            "{:04x}:{:02x}:{:02x}.{}",
            property("domain").unwrap_or(0),
            location >> 8 & 0xff,
            location >> 3 & 0x1f,
            location & 7
        );
        let number = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        // 90402 is gfx942: two digits each for minor and stepping, the latter written in hexadecimal.
        let target = property("gfx_target_version")
            .filter(|&version| version > 0)
            .map(|version| {
                let (major, minor, step) = (version / 10_000, version / 100 % 100, version % 100);
                format!("gfx{major}{minor:x}{step:x}")
            });
        nodes.insert(address, ComputeNode { number, target });
    }
    nodes
}

/// Why a device cannot be used for computing, as far as the system shows it.
fn problem(root: &Path, folder: &Path, gpu: &Gpu) -> Option<GpuProblem> {
    let driver = gpu.driver.as_deref();
    let missing = || Some(GpuProblem::NoDriver(gpu.vendor, gpu.driver.clone()));
    match (gpu.vendor, driver) {
        (_, Some("vfio-pci")) => Some(GpuProblem::SetAside),
        // Where NVIDIA's own library answers, this entry is not used.
        (Vendor::Nvidia, Some("nvidia")) => Some(GpuProblem::NoLibraries),
        (Vendor::Amd, Some("amdgpu")) => unreachable_node(&root.join("dev/kfd"), "/dev/kfd"),
        (Vendor::Nvidia | Vendor::Amd, _) | (Vendor::Intel, None) => missing(),
        (Vendor::Intel, Some(_)) => {
            let node = children(&folder.join("drm"))
                .iter()
                .filter_map(|path| file_name(path))
                .find(|name| name.starts_with("renderD"))?;
            unreachable_node(
                &root.join("dev/dri").join(&node),
                &format!("/dev/dri/{node}"),
            )
        }
        (Vendor::Apple | Vendor::Other, _) => None,
    }
}

/// Why the device file at `path` cannot be opened, if so; `shown` is its name for people.
fn unreachable_node(path: &Path, shown: &str) -> Option<GpuProblem> {
    if !path.exists() {
        return Some(GpuProblem::NoNode(shown.to_owned()));
    }
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: the name ends with a zero byte and lives for the call, which only looks.
    let allowed = unsafe { libc::access(name.as_ptr(), libc::R_OK | libc::W_OK) } == 0;
    (!allowed).then(|| GpuProblem::NoAccess(shown.to_owned()))
}

fn maker(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "NVIDIA",
        Vendor::Amd => "AMD",
        Vendor::Intel => "Intel",
        Vendor::Apple => "Apple",
        Vendor::Other => "unknown",
    }
}

/// The name with its maker before it, once.
fn named(vendor: Vendor, name: &str) -> String {
    let maker = maker(vendor);
    if name.starts_with(maker) {
        name.to_owned()
    } else {
        format!("{maker} {name}")
    }
}

fn driver(folder: &Path) -> Option<String> {
    file_name(&fs::read_link(folder.join("driver")).ok()?)
}

fn text(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn number(folder: &Path, name: &str) -> Option<u64> {
    text(folder, name)?.parse().ok()
}

/// A number written as `0x10de`.
fn hexadecimal(folder: &Path, name: &str) -> Option<u32> {
    u32::from_str_radix(text(folder, name)?.strip_prefix("0x")?, 16).ok()
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
#[path = "pci_tests.rs"]
mod tests;
