//! The device on which WebGPU runs: it takes the best that Vulkan offers, but does not name it.
//!
//! Vulkan may be emulated by the processor (Mesa's lavapipe), which is right for tests and slower than the
//! CPU provider. The loader is asked for its devices through its C interface; only in a probe's child, as
//! drivers are loaded for it. By hand: ash costs twelve seconds of every build for four functions.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use crate::provider::ProviderReport;

/// Fills in the device of WebGPU, if it runs on Vulkan and the loader answers.
pub(super) fn describe(report: &mut ProviderReport) {
    if !cfg!(target_os = "linux") {
        return;
    }
    if let Some(best) = devices().into_iter().max_by_key(VulkanDevice::rank) {
        report.software = best.kind == VulkanDevice::CPU;
        report.device = Some(best.name);
    }
}

#[derive(Debug)]
struct VulkanDevice {
    /// `VkPhysicalDeviceType`.
    kind: u32,
    name: String,
}

impl VulkanDevice {
    const INTEGRATED: u32 = 1;
    const DISCRETE: u32 = 2;
    const VIRTUAL: u32 = 3;
    const CPU: u32 = 4;

    /// WebGPU is asked for the fastest device: one of its own before one in the processor.
    fn rank(&self) -> u32 {
        match self.kind {
            Self::DISCRETE => 4,
            Self::INTEGRATED => 3,
            Self::VIRTUAL => 2,
            Self::CPU => 0,
            _ => 1,
        }
    }
}

/// `VkInstanceCreateInfo`.
#[repr(C)]
struct InstanceInfo {
    kind: i32,
    next: *const c_void,
    flags: u32,
    application: *const c_void,
    layers: u32,
    layer_names: *const *const c_char,
    extensions: u32,
    extension_names: *const *const c_char,
}

/// The beginning of `VkPhysicalDeviceProperties` (824 bytes in Vulkan 1.0, to which it is fixed), and more
/// room than it takes.
#[repr(C)]
struct Properties {
    api: u32,
    driver: u32,
    vendor: u32,
    device: u32,
    kind: u32,
    name: [c_char; 256],
    rest: [u64; 128],
}

type CreateInstance =
    unsafe extern "system" fn(*const InstanceInfo, *const c_void, *mut *mut c_void) -> i32;
type DestroyInstance = unsafe extern "system" fn(*mut c_void, *const c_void);
type EnumerateDevices = unsafe extern "system" fn(*mut c_void, *mut u32, *mut *mut c_void) -> i32;
type GetProperties = unsafe extern "system" fn(*mut c_void, *mut Properties);

/// More devices than any machine has.
const MOST: usize = 16;

/// Vulkan's devices; none where there is no Vulkan.
fn devices() -> Vec<VulkanDevice> {
    // SAFETY: the names and signatures are those of Vulkan 1.0, which every loader exports. The structs are
    // laid out as there, `Properties` with room to spare; handles are used while the instance lives.
    unsafe {
        let Ok(vulkan) = libloading::Library::new("libvulkan.so.1") else {
            return Vec::new();
        };
        let (Ok(create), Ok(destroy), Ok(enumerate), Ok(properties)) = (
            vulkan.get::<CreateInstance>(b"vkCreateInstance\0"),
            vulkan.get::<DestroyInstance>(b"vkDestroyInstance\0"),
            vulkan.get::<EnumerateDevices>(b"vkEnumeratePhysicalDevices\0"),
            vulkan.get::<GetProperties>(b"vkGetPhysicalDeviceProperties\0"),
        ) else {
            return Vec::new();
        };
        let info = InstanceInfo {
            kind: 1, // VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
            next: ptr::null(),
            flags: 0,
            application: ptr::null(),
            layers: 0,
            layer_names: ptr::null(),
            extensions: 0,
            extension_names: ptr::null(),
        };
        let mut instance = ptr::null_mut();
        if create(&raw const info, ptr::null(), &raw mut instance) != 0 {
            return Vec::new();
        }
        let mut handles = [ptr::null_mut(); MOST];
        let mut count = MOST as u32;
        // Below zero is a failure; above it, more devices than were asked for.
        let result = enumerate(instance, &raw mut count, handles.as_mut_ptr());
        let devices = if result < 0 {
            Vec::new()
        } else {
            handles[..(count as usize).min(MOST)]
                .iter()
                .map(|&handle| {
                    let mut all: Properties = std::mem::zeroed();
                    properties(handle, &raw mut all);
                    let name = CStr::from_ptr(all.name.as_ptr());
                    VulkanDevice {
                        kind: all.kind,
                        name: name.to_string_lossy().into_owned(),
                    }
                })
                .collect()
        };
        destroy(instance, ptr::null());
        devices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_goes_before_what_the_processor_emulates() {
        let ranks = [
            VulkanDevice::DISCRETE,
            VulkanDevice::INTEGRATED,
            VulkanDevice::VIRTUAL,
            0,
            VulkanDevice::CPU,
        ]
        .map(|kind| {
            let name = String::new();
            VulkanDevice { kind, name }.rank()
        });
        assert!(ranks.is_sorted_by(|one, next| one > next), "{ranks:?}");
    }
}
