//! A plug-in in a loaded ONNX Runtime: registering it, and the devices that it then offers.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ort::AsPointer as _;
use ort::device::Device;
use ort::environment::Environment;
use ort::memory::DeviceType;
use ort::sys::OrtKeyValuePairs;

use super::{PluginDevice, PluginReport};
use crate::runtime::placement::library_name;
use crate::runtime::preload;
use crate::runtime::search_path::file_name;
use embedctl_common::error::with_causes;
use embedctl_common::threads::locked;
use embedctl_engine::Provider;

/// The plug-ins that this process has registered, with its one environment.
static REGISTERED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Registers the plug-in at `path`, unless it is.
pub(in crate::runtime) fn register(environment: &Environment, path: &Path) -> Result<(), String> {
    let mut registered = locked(&REGISTERED);
    if registered.contains(path) {
        return Ok(());
    }
    environment
        .register_ep_library(file_name(path), path)
        .map_err(|error| with_causes(&error))?;
    registered.insert(path.to_path_buf());
    Ok(())
}

/// Whether this process has plug-ins.
pub(in crate::runtime) fn are_registered() -> bool {
    let registered = locked(&REGISTERED);
    !registered.is_empty()
}

/// Registers the plug-in at `path` and lists its devices.
///
/// If there are none, it is asked for absent devices to compile for, which give its providers' names: only in a probe's
/// child, where nothing else runs.
pub(in crate::runtime) fn look(environment: &Environment, path: &Path) -> PluginReport {
    let mut report = PluginReport::new(path.to_path_buf());
    let prepared = preload::prepare_plugin(path);
    if let Err(words) = register(environment, path) {
        let missing = prepared.missing.into_iter().next();
        report.unusable = Some(missing.map_or(words, |missing| missing.reason));
        return report;
    }
    for device in devices_of(environment, path) {
        report.about(&device);
        report.devices.extend(describe(&device));
    }
    if report.devices.is_empty() {
        let named = format!("{}.virtual", file_name(path));
        if environment.register_ep_library(named, path).is_ok() {
            for device in devices_of(environment, path) {
                report.about(&device);
            }
        }
    }
    report
}

impl PluginReport {
    /// Notes whose device it is.
    fn about(&mut self, device: &Device<'_>) {
        let name = device.ep().unwrap_or_default().to_owned();
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        if self.version.is_none() {
            self.version = own_metadata(device, c"version").map(str::to_owned);
        }
    }
}

/// The devices of the plug-in at `path`, including devices that are absent and only compiled for.
fn devices_of<'e>(environment: &'e Environment, path: &Path) -> impl Iterator<Item = Device<'e>> {
    let path = path.to_string_lossy().into_owned();
    environment.devices().filter(move |device| {
        own_metadata(device, c"library_path").is_some_and(|file| file == path)
    })
}

/// The device number `number` on which `provider` of the plug-in at `path` runs, among those of `kind` (`GPU`), or
/// else of any kind, graphics cards first.
pub(in crate::runtime) fn choose<'e>(
    environment: &'e Environment,
    path: &Path,
    provider: Provider,
    kind: Option<&str>,
    number: u32,
) -> Result<Device<'e>, String> {
    let mut offered: Vec<(String, Device)> = devices_of(environment, path)
        .filter_map(|device| Some((describe(&device)?, device)))
        .filter(|(described, _)| Some(described.provider.as_str()) == library_name(provider))
        .map(|(described, device)| (described.kind, device))
        .collect();
    offered.sort_by_key(|(kind, _)| {
        ["GPU", "NPU"]
            .iter()
            .position(|one| kind == one)
            .unwrap_or(2)
    });
    if let Some(kind) = kind {
        offered.retain(|(own, _)| own == kind);
    } else if let Some((first, _)) = offered.first() {
        let first = first.clone();
        offered.retain(|(own, _)| *own == first);
    }
    let count = offered.len();
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    match offered.into_iter().nth(index) {
        Some((_, device)) => Ok(device),
        None if count > 0 => Err(format!("there is no device {number}: it offers {count}")),
        None => Err(none_offered(provider, kind)),
    }
}

/// The message that a plug-in of `provider` offers no device, with the device that it needs.
pub(in crate::runtime) fn none_offered(provider: Provider, kind: Option<&str>) -> String {
    let kind = kind.map(|kind| format!(" {kind}")).unwrap_or_default();
    let wanted = match provider {
        Provider::OpenVino => ": it looks for Intel's processors, GPUs and NPUs",
        Provider::WebGpu => ": it looks for a GPU that the system lists",
        Provider::Cuda | Provider::TensorRt => ": it looks for an NVIDIA GPU and its driver",
        Provider::TensorRtRtx => {
            ": it takes NVIDIA's RTX cards only, no data-center cards such as A100 or H200, which `cuda` takes"
        }
        _ => "",
    };
    format!("the plug-in offers no device{kind} here{wanted}")
}

/// A description of a device; `None` for an absent one that is only compiled for.
fn describe(device: &Device<'_>) -> Option<PluginDevice> {
    let hardware = device.hardware_device();
    // SAFETY: the device lives as long as the environment, and its pairs with it.
    let pairs = unsafe { (ort::api().HardwareDevice_Metadata)(hardware.ptr()) };
    if value(pairs, c"is_virtual") == Some("1") {
        return None;
    }
    let kind = match hardware.ty() {
        DeviceType::GPU => "GPU",
        DeviceType::NPU => "NPU",
        _ => "CPU",
    };
    let name = own_metadata(device, c"FULL_DEVICE_NAME").or_else(|| value(pairs, c"Description"));
    Some(PluginDevice {
        provider: device.ep().unwrap_or_default().to_owned(),
        kind: kind.to_owned(),
        name: name.map(str::to_owned),
    })
}

/// The plug-in's metadata of its own device under `key`.
fn own_metadata<'e>(device: &Device<'e>, key: &CStr) -> Option<&'e str> {
    // SAFETY: the device lives as long as the environment, and its pairs with it.
    let pairs = unsafe { (ort::api().EpDevice_EpMetadata)(device.ptr()) };
    value(pairs, key)
}

/// The value under `key` in pairs that live for `'a`.
fn value<'a>(pairs: *const OrtKeyValuePairs, key: &CStr) -> Option<&'a str> {
    if pairs.is_null() {
        return None;
    }
    // SAFETY: the pairs are the library's and live as long as their device; the value is null or a string that ends
    // with a zero byte and lives as long as they do.
    unsafe {
        let value: *const c_char = (ort::api().GetKeyValue)(pairs, key.as_ptr());
        (!value.is_null())
            .then(|| CStr::from_ptr(value))?
            .to_str()
            .ok()
    }
}
