//! Reasons why a provider cannot work on this machine with any library: the wrong system, a missing device or driver.
//! Also the package that has a library with it.
//!
//! A library reports only the first missing file. Whether a remedy helps depends on the hardware: without an NVIDIA GPU
//! no package makes CUDA work.

use crate::device::{Gpu, GpuProblem, Hardware, NvidiaDriver, Vendor};
use crate::provider::obtain::{self, Platform};
use embedctl_common::error::Cause;
use embedctl_engine::Provider;

/// Why `provider` cannot work on this machine.
#[must_use]
pub fn here(provider: Provider) -> Option<Cause> {
    unusable_reason(provider, &Hardware::detect(), Platform::HERE)
}

/// Why `provider` cannot work on a machine of that hardware.
#[must_use]
pub fn unusable_reason(
    provider: Provider,
    hardware: &Hardware,
    platform: Platform,
) -> Option<Cause> {
    if let Some(reason) = obtain::of_another_system(provider, platform) {
        return Some(Cause::of(reason));
    }
    match provider {
        Provider::Cuda | Provider::TensorRt | Provider::TensorRtRtx => nvidia(hardware, platform),
        Provider::MiGraphX => amd(hardware),
        Provider::WebGpu => vulkan(hardware),
        _ => None,
    }
}

fn nvidia(hardware: &Hardware, platform: Platform) -> Option<Cause> {
    let mut gpus = hardware.gpus_of(Vendor::Nvidia).peekable();
    if let Some(problem) = hardware
        .nvidia
        .as_ref()
        .and_then(|driver| driver.problem.clone())
        .filter(|_| {
            hardware
                .gpus_of(Vendor::Nvidia)
                .all(|gpu| gpu.number.is_none())
        })
    {
        return Some(Cause::of(problem));
    }
    let Some(first) = gpus.peek() else {
        return Some(Cause::of("no NVIDIA GPU was found"));
    };
    // A GPU that CUDA can use has a number.
    let problem = first.problem.clone();
    if gpus.any(|gpu| gpu.number.is_some()) {
        return None;
    }
    let problem = problem.unwrap_or(GpuProblem::NoDriver(Vendor::Nvidia, None));
    let cause = Cause::of(problem.to_string());
    Some(match problem {
        GpuProblem::Hidden => Cause::of("CUDA_VISIBLE_DEVICES hides all NVIDIA GPUs")
            .with("unset CUDA_VISIBLE_DEVICES"),
        GpuProblem::NoLibraries => cause.with("start the container with: --gpus all"),
        GpuProblem::NoDriver(..) => cause.with(match platform.os {
            "linux" => "install the NVIDIA driver (on Ubuntu: sudo ubuntu-drivers install)",
            _ => "install the NVIDIA driver: https://www.nvidia.com/drivers",
        }),
        _ => cause,
    })
}

fn amd(hardware: &Hardware) -> Option<Cause> {
    let gpus: Vec<&Gpu> = hardware.gpus_of(Vendor::Amd).collect();
    if gpus.is_empty() {
        return Some(Cause::of("no AMD GPU was found"));
    }
    if gpus.iter().any(|gpu| gpu.problem.is_none()) {
        return None;
    }
    let problem = gpus.iter().find_map(|gpu| gpu.problem.as_ref())?;
    let cause = Cause::of(problem.to_string());
    Some(match problem {
        GpuProblem::NoAccess(_) => {
            cause.with("sudo usermod -aG render,video $USER, then log in again")
        }
        GpuProblem::NoNode(_) => {
            cause.with("start the container with: --device /dev/kfd --device /dev/dri")
        }
        GpuProblem::NoDriver(..) => cause.with("sudo modprobe amdgpu"),
        _ => cause,
    })
}

fn vulkan(hardware: &Hardware) -> Option<Cause> {
    let vulkan = hardware.vulkan.as_ref()?;
    if vulkan.loader && !vulkan.drivers.is_empty() {
        return None;
    }
    let missing = if vulkan.loader {
        "no Vulkan driver is installed"
    } else {
        "the Vulkan loader (libvulkan.so.1) is not installed"
    };
    if hardware.gpus.is_empty() {
        // Software for the processor could be installed, but there is the provider cpu for that.
        return Some(Cause::of(format!("{missing}, and no GPU was found")));
    }
    Some(Cause::of(missing).with(
        "install Vulkan (on Debian and Ubuntu: sudo apt-get install libvulkan1 mesa-vulkan-drivers)",
    ))
}

/// Why no library here has `provider`, if no package would help.
#[must_use]
pub fn reason_without_package(provider: Provider, hardware: &Hardware) -> Option<&'static str> {
    let software_only = hardware
        .vulkan
        .as_ref()
        .is_some_and(|vulkan| !vulkan.serves(&hardware.gpus));
    (provider == Provider::WebGpu && software_only)
        .then_some("no GPU with a Vulkan driver was found")
}

/// The command that installs a library with `provider`, where there is a package for this machine.
pub fn package(provider: Provider, hardware: &Hardware, platform: Platform) -> Option<String> {
    let cuda = hardware.nvidia.as_ref().and_then(NvidiaDriver::cuda_major);
    Some(obtain::package(provider, platform, cuda)?.command())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Vulkan, VulkanDriver};

    const LINUX: Platform = Platform {
        os: "linux",
        arch: "x86_64",
    };
    const WINDOWS: Platform = Platform {
        os: "windows",
        arch: "x86_64",
    };
    const MAC: Platform = Platform {
        os: "macos",
        arch: "aarch64",
    };

    fn with(gpus: Vec<Gpu>, nvidia: Option<NvidiaDriver>) -> Hardware {
        Hardware {
            gpus,
            nvidia,
            ..Hardware::default()
        }
    }

    fn gpu(vendor: Vendor, number: Option<u32>, problem: Option<GpuProblem>) -> Gpu {
        Gpu {
            number,
            problem,
            ..Gpu::new(vendor, "a card".into())
        }
    }

    fn driver(cuda: &str) -> Option<NvidiaDriver> {
        Some(NvidiaDriver {
            cuda: Some(cuda.into()),
            ..NvidiaDriver::default()
        })
    }

    #[test]
    fn without_its_device_no_package_is_advised() {
        let nothing = Hardware::default();
        for provider in [
            Provider::Cuda,
            Provider::TensorRt,
            Provider::TensorRtRtx,
            Provider::MiGraphX,
        ] {
            let found = unusable_reason(provider, &nothing, LINUX).unwrap();
            assert!(found.reason.contains("GPU was found"), "{found:?}");
            assert_eq!(found.remedy, None);
        }
    }

    #[test]
    fn a_part_of_another_system_is_no_matter_of_packages() {
        let hardware = with(vec![gpu(Vendor::Nvidia, Some(0), None)], driver("13.0"));
        for (provider, platform) in [
            (Provider::DirectMl, LINUX),
            (Provider::CoreMl, WINDOWS),
            (Provider::Cuda, MAC),
            (Provider::MiGraphX, WINDOWS),
        ] {
            let found = unusable_reason(provider, &hardware, platform).unwrap();
            assert_eq!(found.remedy, None, "{provider}");
            assert_eq!(package(provider, &hardware, platform), None, "{provider}");
        }
        assert_eq!(unusable_reason(Provider::CoreMl, &hardware, MAC), None);
        assert_eq!(
            unusable_reason(Provider::DirectMl, &hardware, WINDOWS),
            None
        );
    }

    #[test]
    fn a_card_that_cuda_can_use_leaves_cuda_usable() {
        let hidden = gpu(Vendor::Nvidia, None, Some(GpuProblem::Hidden));
        let used = gpu(Vendor::Nvidia, Some(0), None);
        let hardware = with(vec![hidden.clone(), used], driver("13.0"));
        assert_eq!(unusable_reason(Provider::Cuda, &hardware, LINUX), None);
        let hardware = with(vec![hidden], driver("13.0"));
        let told = unusable_reason(Provider::Cuda, &hardware, LINUX).unwrap();
        assert_eq!(told.remedy.as_deref(), Some("unset CUDA_VISIBLE_DEVICES"));
    }

    #[test]
    fn a_note_about_a_working_driver_leaves_cuda_usable() {
        let noted = Some(NvidiaDriver {
            problem: Some("CUDA numbers differing GPUs fastest first".into()),
            ..NvidiaDriver::default()
        });
        let hardware = with(vec![gpu(Vendor::Nvidia, Some(0), None)], noted.clone());
        assert_eq!(unusable_reason(Provider::Cuda, &hardware, LINUX), None);
        let told = unusable_reason(Provider::Cuda, &with(Vec::new(), noted), LINUX).unwrap();
        assert!(told.reason.contains("fastest first"), "a broken driver");
    }

    #[test]
    fn a_missing_driver_is_told_from_a_container_without_it() {
        let remedy = |problem| {
            let hardware = with(vec![gpu(Vendor::Nvidia, None, Some(problem))], None);
            unusable_reason(Provider::Cuda, &hardware, LINUX)
                .unwrap()
                .remedy
        };
        let install = remedy(GpuProblem::NoDriver(Vendor::Nvidia, Some("nouveau".into()))).unwrap();
        assert!(install.contains("install the NVIDIA driver"), "{install}");
        let container = remedy(GpuProblem::NoLibraries);
        assert!(container.unwrap().contains("--gpus all"));
        assert_eq!(remedy(GpuProblem::SetAside), None);
    }

    #[test]
    fn amds_device_file_may_be_missing_or_forbidden() {
        let remedy = |problem| {
            let hardware = with(vec![gpu(Vendor::Amd, None, Some(problem))], None);
            unusable_reason(Provider::MiGraphX, &hardware, LINUX)
                .unwrap()
                .remedy
                .unwrap()
        };
        assert!(remedy(GpuProblem::NoAccess("/dev/kfd".into())).contains("usermod"));
        assert!(remedy(GpuProblem::NoNode("/dev/kfd".into())).contains("--device /dev/kfd"));
        let well = with(vec![gpu(Vendor::Amd, Some(0), None)], None);
        assert_eq!(unusable_reason(Provider::MiGraphX, &well, LINUX), None);
    }

    #[test]
    fn webgpu_wants_a_loader_and_a_driver() {
        let told = |loader, drivers: &[&str], gpus: Vec<Gpu>| {
            let drivers = drivers.iter().map(|library| VulkanDriver {
                manifest: "/x.json".into(),
                library: (*library).to_owned(),
                software: library.contains("lvp"),
                vendor: Some(Vendor::Amd),
            });
            let hardware = Hardware {
                vulkan: Some(Vulkan {
                    loader,
                    drivers: drivers.collect(),
                }),
                gpus,
                ..Hardware::default()
            };
            (
                unusable_reason(Provider::WebGpu, &hardware, LINUX),
                reason_without_package(Provider::WebGpu, &hardware),
            )
        };
        let card = || vec![gpu(Vendor::Amd, None, None)];
        let (found, _) = told(false, &[], card());
        assert!(found.unwrap().remedy.unwrap().contains("libvulkan1"));
        let (found, _) = told(true, &[], Vec::new());
        assert_eq!(found.unwrap().remedy, None);
        let (found, pointless) = told(true, &["libvulkan_lvp.so"], Vec::new());
        assert_eq!(found, None, "it works, slowly");
        assert!(pointless.is_some());
        let (found, pointless) = told(true, &["libvulkan_radeon.so"], card());
        assert_eq!((found, pointless), (None, None));
    }

    #[test]
    fn a_package_suits_system_and_driver() {
        let new = with(Vec::new(), driver("13.0"));
        let old = with(Vec::new(), driver("12.4"));
        let cuda = |hardware, platform| package(Provider::Cuda, hardware, platform);
        assert_eq!(
            cuda(&new, LINUX).unwrap(),
            "pip install \"onnxruntime-gpu[cuda,cudnn]\""
        );
        assert!(cuda(&old, LINUX).unwrap().contains("<1.27"));
        assert_eq!(cuda(&new, MAC), None);
        assert_eq!(package(Provider::Xnnpack, &new, LINUX), None);
        assert_eq!(
            package(Provider::CoreMl, &new, MAC).as_deref(),
            Some("pip install onnxruntime")
        );
        let arm = Platform {
            arch: "aarch64",
            ..LINUX
        };
        assert_eq!(package(Provider::OpenVino, &new, arm), None);
        assert!(package(Provider::Cpu, &new, arm).is_some());
    }
}
