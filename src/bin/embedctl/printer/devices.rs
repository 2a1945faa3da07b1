//! The table of `embedctl devices`, for people.

use embedctl::device::{CoreLimit, Cpu, Gpu, Hardware, Memory, Vulkan};
use embedctl::engine::Provider;
use embedctl::engine::availability::{AvailabilityState, DeviceReport, ProviderStatus};
use embedctl::runtime::PluginReport;
use embedctl::runtime::probe::LibraryReport;

use super::table::TextTable;
use super::words::number;

/// The table; `all`: providers that are not here are listed with their reasons, too.
pub fn table(report: &DeviceReport, all: bool) -> TextTable {
    let mut table = TextTable::default();
    table.line("Hardware");
    hardware(&report.hardware, &mut table);
    table.line("");
    table.line("Runtimes");
    for library in &report.libraries {
        runtime(library, &mut table);
    }
    if report.libraries.is_empty() {
        table.entry("ONNX Runtime", "no library was found");
    }
    for provider in [Provider::Native, Provider::Rten] {
        let status = report.status(provider);
        if let Some(version) = status.and_then(|status| status.version.as_deref()) {
            table.entry(provider.name(), &format!("{version}, built in"));
        }
    }
    table.line("");
    table.line("Providers");
    let is_folded = |status: &&ProviderStatus| !all && report.is_far(status.provider);
    for status in report.providers.iter().filter(|it| !is_folded(it)) {
        provider(status, &mut table);
    }
    let absent = report.providers.iter().filter(is_folded);
    let absent: Vec<Provider> = absent.map(|status| status.provider).collect();
    table.absent(&absent);
    table
}

fn hardware(hardware: &Hardware, table: &mut TextTable) {
    table.entry("processor", &processor(&hardware.cpu));
    if !hardware.cpu.instructions.is_empty() {
        table.entry("", &hardware.cpu.instructions.join(" "));
    }
    table.entry("memory", &memory(&hardware.memory));
    for gpu in &hardware.gpus {
        table.entry("GPU", &self::gpu(gpu));
    }
    if hardware.gpus.is_empty() {
        table.entry("GPU", "none was found");
    }
    for npu in &hardware.npus {
        table.entry("NPU", &format!("{}, {}", npu.name, npu.path));
    }
    if let Some(driver) = &hardware.nvidia {
        let version = driver.version.as_ref();
        let cuda = driver.cuda.as_ref();
        let parts = [
            version.map(|version| format!("driver {version}")),
            cuda.map(|cuda| format!("CUDA up to {cuda}")),
            driver.problem.clone(),
        ];
        table.entry("NVIDIA", &joined(parts));
    }
    if let Some(vulkan) = &hardware.vulkan {
        table.entry("Vulkan", self::vulkan(vulkan, &hardware.gpus));
    }
}

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn processor(cpu: &Cpu) -> String {
    let count = |amount: Option<usize>, noun| amount.map(|amount| number(amount as u64, noun));
    let why = match cpu.limit {
        None => String::new(),
        Some(CoreLimit::Affinity { processors }) => {
            format!(" (bound to {processors} of {})", cpu.threads)
        }
        Some(CoreLimit::Quota { cores }) => {
            format!(" (the control group allows {cores} cores' time)")
        }
    };
    joined([
        Some(cpu.name.clone()),
        count(cpu.sockets, "socket"),
        count(cpu.cores, "core"),
        count(Some(cpu.threads), "thread"),
        Some(format!("{} usable{why}", cpu.usable)),
    ])
}

fn memory(memory: &Memory) -> String {
    let parts = [
        memory.total.map(size),
        memory
            .available
            .map(|bytes| format!("{} free", size(bytes))),
        memory
            .limit
            .map(|bytes| format!("{} allowed by the control group", size(bytes))),
    ];
    match joined(parts) {
        unknown if unknown.is_empty() => "unknown".to_owned(),
        known => known,
    }
}

fn gpu(gpu: &Gpu) -> String {
    let own = gpu.number.map(|number| format!("--device {number}"));
    let directml = gpu.directml_number.map(|number| {
        let differs = gpu.number.is_some_and(|own| own != number);
        match differs {
            true => format!("--device {number} with directml"),
            false => format!("--device {number}"),
        }
    });
    let memory = gpu.memory.map(|total| match gpu.memory_free {
        Some(free) => format!("{} ({} free)", size(total), size(free)),
        None => size(total),
    });
    joined([
        Some(gpu.name.clone()),
        own.clone(),
        directml.filter(|text| own.as_ref() != Some(text)),
        memory,
        gpu.utilization.map(|percent| format!("{percent} % busy")),
        gpu.architecture
            .as_ref()
            .map(|name| match name.starts_with("gfx") {
                true => name.clone(),
                false => format!("compute capability {name}"),
            }),
        gpu.problem.as_ref().map(ToString::to_string),
    ])
}

fn vulkan(vulkan: &Vulkan, gpus: &[Gpu]) -> &'static str {
    if !vulkan.loader {
        "not installed (no libvulkan.so.1)"
    } else if vulkan.serves(gpus) {
        "installed, with a driver for a GPU of this machine"
    } else if vulkan.has_software() {
        "installed, with a driver that runs on the processor only"
    } else {
        "installed, without a driver for a GPU of this machine"
    }
}

fn runtime(library: &LibraryReport, table: &mut TextTable) {
    let origin = &library.origin;
    let has: Vec<&str> = Provider::ALL
        .into_iter()
        .filter(|&provider| library.has(provider))
        .map(Provider::name)
        .collect();
    table.entry(
        "ONNX Runtime",
        &match (&library.version, &library.unusable) {
            (Some(version), None) => format!("{version} with {}", has.join(", ")),
            (Some(version), Some(reason)) => format!("{version}, unusable: {reason}"),
            (None, Some(reason)) => format!("unusable: {reason}"),
            (None, None) => "of unknown version".to_owned(),
        },
    );
    table.remedy(library.unusable.is_some(), library.remedy.as_ref());
    table.wrapped("      ", &library.path.display().to_string());
    table.wrapped("      ", &format!("found {}", found(origin)));
    for one in &library.plugins {
        plugin(one, table);
    }
}

/// A plug-in of the library above it.
fn plugin(plugin: &PluginReport, table: &mut TextTable) {
    let providers = plugin.providers();
    let name = match providers.as_slice() {
        [] => plugin
            .path
            .file_name()
            .map(|name| name.display().to_string())
            .unwrap_or_default(),
        named => named
            .iter()
            .map(|one| one.name())
            .collect::<Vec<_>>()
            .join(", "),
    };
    let version = plugin.version.as_ref().map(|version| format!(" {version}"));
    let mut devices: Vec<String> = Vec::new();
    for device in &plugin.devices {
        let name = device.name.as_deref().unwrap_or(&device.kind).to_owned();
        if !devices.contains(&name) {
            devices.push(name);
        }
    }
    let version = version.unwrap_or_default();
    let what = match &plugin.unusable {
        Some(reason) => format!("unusable: {reason}"),
        None if devices.is_empty() => "offers no device here".to_owned(),
        None => format!("on {}", devices.join(", ")),
    };
    table.wrapped("    plug-in ", &format!("{name}{version}, {what}"));
    table.remedy(plugin.unusable.is_some(), plugin.remedy.as_ref());
    table.wrapped("      ", &plugin.path.display().to_string());
}

/// `in $VIRTUAL_ENV` as it is; `--ort-lib` as `by --ort-lib`.
fn found(origin: &str) -> String {
    match origin.starts_with("--")
        || origin
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    {
        true => format!("by {origin}"),
        false => origin.to_owned(),
    }
}

fn provider(status: &ProviderStatus, table: &mut TextTable) {
    let why = || status.reason.clone().unwrap_or_default();
    let (word, text) = match status.status {
        AvailabilityState::Works => ("works", works(status)),
        AvailabilityState::Unusable => ("unusable", why()),
        AvailabilityState::Absent => ("not here", why()),
    };
    table.wrapped(
        &format!("  {:<12}  {word:<8}  ", status.provider.name()),
        &text,
    );
    table.remedy(
        status.status != AvailabilityState::Works,
        status.remedy.as_ref(),
    );
}

/// The engine and the device of a provider.
fn works(status: &ProviderStatus) -> String {
    let version = status.version.as_deref().unwrap_or("of unknown version");
    let engine = match status.provider {
        inside @ (Provider::Native | Provider::Rten) => format!("{inside} {version}"),
        _ if status.has_own_engine() => format!("embedctl's own engine {version}"),
        _ => format!("ONNX Runtime {version}"),
    };
    let of_files = status.detail.clone().filter(|_| status.has_own_engine());
    let plugin = status.plugin.as_ref().map(|plugin| match &plugin.version {
        Some(version) => format!("plug-in {version}"),
        None => "a plug-in".to_owned(),
    });
    let device = match (&status.device, status.software) {
        (Some(device), true) => Some(format!("slow: on {device}, the processor")),
        (None, true) => Some("slow: the processor emulates the graphics card".to_owned()),
        (Some(device), false) => Some(format!("on {device}")),
        (None, false) => None,
    };
    joined([Some(engine), plugin, device, of_files])
}

/// A size as people say it: `23.4 GiB`.
fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes >= 1024.0 {
        format!("{:.1} GiB", mebibytes / 1024.0)
    } else {
        format!("{mebibytes:.0} MiB")
    }
}

#[cfg(test)]
mod tests {
    use embedctl::device::{GpuProblem, Vendor};

    use super::*;

    fn report(json: serde_json::Value) -> LibraryReport {
        serde_json::from_value(json).unwrap()
    }

    fn lines(write: impl FnOnce(&mut TextTable)) -> Vec<String> {
        let mut table = TextTable::default();
        write(&mut table);
        table.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn an_unusable_library_is_told_with_what_helps() {
        let json = serde_json::json!({"path": "/x", "origin": "--ort-lib", "unusable": "it is cut short",
            "remedy": "install the package again", "version": null, "build": null, "available": [],
            "providers": []});
        let lines = lines(|table| runtime(&report(json), table));
        assert_eq!(
            lines,
            [
                "  ONNX Runtime unusable: it is cut short",
                "    → install the package again",
                "      /x",
                "      found by --ort-lib",
            ]
        );
    }

    #[test]
    fn a_gpu_is_told_with_its_numbers() {
        let card = Gpu {
            number: Some(1),
            directml_number: Some(0),
            name: "NVIDIA L4".into(),
            vendor: Vendor::Nvidia,
            memory: Some(24 << 30),
            memory_free: Some(20 << 30),
            utilization: Some(3),
            architecture: Some("8.9".into()),
            uuid: None,
            pci_address: None,
            driver: None,
            problem: None,
        };
        assert_eq!(
            gpu(&card),
            "NVIDIA L4, --device 1, --device 0 with directml, 24.0 GiB (20.0 GiB free), 3 % busy, \
             compute capability 8.9"
        );
        let alone = Gpu {
            directml_number: Some(1),
            memory: None,
            utilization: None,
            architecture: Some("gfx1100".into()),
            problem: Some(GpuProblem::NoNode("/dev/kfd".into())),
            ..card
        };
        assert_eq!(
            gpu(&alone),
            "NVIDIA L4, --device 1, gfx1100, /dev/kfd is missing"
        );
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(size(25_753_026_560), "24.0 GiB");
        assert_eq!(size(512 << 20), "512 MiB");
    }
}
