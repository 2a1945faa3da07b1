//! Apple's GPUs, as `system_profiler` lists them: it comes with macOS and has Metal's information.

use serde::Deserialize;

use super::{Gpu, Vendor};

#[derive(Deserialize)]
struct SystemAnswer {
    #[serde(rename = "SPDisplaysDataType")]
    devices: Vec<MetalDevice>,
}

#[derive(Deserialize)]
struct MetalDevice {
    #[serde(default)]
    sppci_model: Option<String>,
    #[serde(default)]
    spdisplays_vendor: Option<String>,
    /// `8 GB`; absent for Apple's own GPUs, which share the machine's memory.
    #[serde(default)]
    spdisplays_vram: Option<String>,
    #[serde(default)]
    sppci_cores: Option<String>,
}

/// The GPUs of this machine.
#[cfg(target_os = "macos")]
pub(super) fn gpus() -> Vec<Gpu> {
    let output = std::process::Command::new("/usr/sbin/system_profiler")
        .args(["SPDisplaysDataType", "-json"])
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .output();
    output.map_or_else(|_| Vec::new(), |output| parse(&output.stdout))
}

/// The GPUs in an answer of `system_profiler SPDisplaysDataType -json`.
fn parse(json: &[u8]) -> Vec<Gpu> {
    let devices =
        serde_json::from_slice::<SystemAnswer>(json).map_or_else(|_| Vec::new(), |it| it.devices);
    devices
        .into_iter()
        .map(|device| {
            let vendor = match device.spdisplays_vendor.as_deref() {
                Some(name) if name.contains("Apple") => Vendor::Apple,
                Some(name) if name.contains("amd") || name.contains("AMD") => Vendor::Amd,
                Some(name) if name.contains("ntel") => Vendor::Intel,
                Some(name) if name.contains("nvidia") || name.contains("NVIDIA") => Vendor::Nvidia,
                _ => Vendor::Other,
            };
            let name = device.sppci_model.unwrap_or_else(|| "GPU".to_owned());
            let mut gpu = Gpu::new(
                vendor,
                match device.sppci_cores {
                    Some(cores) => format!("{name} ({cores} cores)"),
                    None => name,
                },
            );
            gpu.memory = device.spdisplays_vram.as_deref().and_then(bytes);
            gpu
        })
        .collect()
}

/// A size as it is written there: `8 GB`, `1536 MB`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "GB" => number.checked_mul(1 << 30),
        "MB" => number.checked_mul(1 << 20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apples_own_gpu_has_no_memory_of_its_own() {
        let json = br#"{"SPDisplaysDataType": [{
            "_name": "Apple M3 Pro", "spdisplays_mtlgpufamilysupport": "spdisplays_metal3",
            "spdisplays_vendor": "sppci_vendor_Apple", "sppci_bus": "spdisplays_builtin",
            "sppci_cores": "18", "sppci_device_type": "spdisplays_gpu", "sppci_model": "Apple M3 Pro"
        }]}"#;
        let gpus = parse(json);
        assert_eq!(gpus[0].name, "Apple M3 Pro (18 cores)");
        assert_eq!((gpus[0].vendor, gpus[0].memory), (Vendor::Apple, None));
    }

    #[test]
    fn an_older_machine_has_two() {
        let json = br#"{"SPDisplaysDataType": [
            {"sppci_model": "Intel UHD Graphics 630", "spdisplays_vendor": "Intel", "spdisplays_vram": "1536 MB"},
            {"sppci_model": "AMD Radeon Pro 5500M", "spdisplays_vendor": "sppci_vendor_amd", "spdisplays_vram": "8 GB"}
        ]}"#;
        let gpus = parse(json);
        let shown: Vec<_> = gpus.iter().map(|gpu| (gpu.vendor, gpu.memory)).collect();
        assert_eq!(
            shown,
            [
                (Vendor::Intel, Some(1536 << 20)),
                (Vendor::Amd, Some(8 << 30))
            ]
        );
    }

    #[test]
    fn another_answer_is_no_gpu() {
        assert!(parse(b"").is_empty());
        assert!(parse(b"{\"SPHardwareDataType\": []}").is_empty());
    }
}
