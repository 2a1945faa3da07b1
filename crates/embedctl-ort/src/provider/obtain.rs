//! How a provider is got: the one table of packages, by provider, system and NVIDIA's driver.

use embedctl_engine::Provider;

/// The kind of machine, in the words of [`std::env::consts`].
#[derive(Debug, Clone, Copy)]
pub struct Platform {
    /// `linux`, `windows`, `macos`, …
    pub os: &'static str,
    /// `x86_64`, `aarch64`, …
    pub arch: &'static str,
}

impl Platform {
    /// This program's target.
    pub const HERE: Self = Self {
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
    };
}

/// Packages of pip's that bring a library with a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Package {
    /// As they are given to pip, quoted for a shell.
    names: &'static str,
    /// A remark about them.
    note: &'static str,
}

impl Package {
    /// The command that installs them.
    pub(crate) fn command(self) -> String {
        format!("pip install {}", self.names)
    }
}

/// The packages with `provider` for `platform`, where there are any. `cuda` is the newest major version of
/// CUDA that the driver runs, where that is known.
pub(crate) fn package(
    provider: Provider,
    platform: Platform,
    cuda: Option<u32>,
) -> Option<Package> {
    let before_13 = cuda.is_some_and(|major| major < 13);
    let (names, note) = match (provider, platform.os, platform.arch) {
        (Provider::Cpu, "linux" | "windows", "x86_64" | "aarch64")
        | (Provider::Cpu | Provider::CoreMl, "macos", "aarch64") => ("onnxruntime", ""),
        // The last version for CUDA 12, where the driver runs nothing newer.
        (Provider::Cuda, "linux" | "windows", "x86_64") if before_13 => (
            "\"onnxruntime-gpu[cuda,cudnn]<1.27\"",
            " with CUDA's libraries",
        ),
        (Provider::Cuda, "linux", "x86_64" | "aarch64") | (Provider::Cuda, "windows", "x86_64") => {
            ("\"onnxruntime-gpu[cuda,cudnn]\"", " with CUDA's libraries")
        }
        // ONNX Runtime wants TensorRT 10, and the package without a bound is 11.
        (Provider::TensorRt, "linux" | "windows", "x86_64") if before_13 => (
            "\"onnxruntime-gpu[cuda,cudnn]<1.27\" \"tensorrt-cu12-libs==10.*\"",
            " with CUDA's and TensorRT's libraries",
        ),
        (Provider::TensorRt, "linux" | "windows", "x86_64") => (
            "\"onnxruntime-gpu[cuda,cudnn]\" \"tensorrt-cu13-libs==10.*\"",
            " with CUDA's and TensorRT's libraries",
        ),
        (Provider::TensorRtRtx, "linux" | "windows", "x86_64") => {
            let names = if before_13 {
                "onnxruntime onnxruntime-ep-nv-tensorrt-rtx-cu12"
            } else {
                "onnxruntime onnxruntime-ep-nv-tensorrt-rtx"
            };
            (names, " as a plug-in")
        }
        (Provider::DirectMl, "windows", "x86_64") => ("onnxruntime-directml", ""),
        (Provider::OpenVino, "linux" | "windows", "x86_64") => ("onnxruntime-openvino", ""),
        (Provider::WebGpu, "linux" | "windows", "x86_64")
        | (Provider::WebGpu, "macos", "aarch64") => {
            ("onnxruntime onnxruntime-ep-webgpu", " as a plug-in")
        }
        (Provider::MiGraphX, "linux", "x86_64") => {
            ("onnxruntime-migraphx", "; it needs AMD's ROCm 7")
        }
        _ => return None,
    };
    Some(Package { names, note })
}

/// Why `provider` cannot be had on `platform` at all.
pub(crate) fn of_another_system(provider: Provider, platform: Platform) -> Option<&'static str> {
    match (provider, platform.os) {
        (Provider::Cuda | Provider::TensorRt | Provider::TensorRtRtx, "macos") => {
            Some("there is no CUDA for macOS")
        }
        (Provider::DirectMl, os) if os != "windows" => Some("DirectML is a part of Windows"),
        (Provider::CoreMl, os) if os != "macos" => Some("Core ML is a part of macOS"),
        (Provider::MiGraphX, os) if os != "linux" => Some("MIGraphX exists for Linux alone"),
        _ => None,
    }
}

/// How a library with `provider` is got on this machine, in a sentence.
#[must_use]
pub fn how_to_get(provider: Provider) -> String {
    let here = Platform::HERE;
    if let Some(package) = package(provider, here, None) {
        return format!("'{}' brings it{}", package.command(), package.note);
    }
    match (provider, of_another_system(provider, here)) {
        (_, Some(reason)) => reason.to_owned(),
        (Provider::Native | Provider::Rten, _) => "it is inside this program".to_owned(),
        (Provider::Xnnpack, _) => {
            "No package for this system has it: build ONNX Runtime with --use_xnnpack".to_owned()
        }
        _ => "there is no package with it for this system".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_can_be_got_or_says_why_not() {
        for provider in Provider::ALL {
            assert!(!how_to_get(provider).is_empty());
        }
    }

    #[test]
    fn a_package_suits_the_driver() {
        let linux = Platform {
            os: "linux",
            arch: "x86_64",
        };
        let names = |cuda| package(Provider::Cuda, linux, cuda).map(|package| package.names);
        assert_eq!(names(None), Some("\"onnxruntime-gpu[cuda,cudnn]\""));
        assert_eq!(
            names(Some(12)),
            Some("\"onnxruntime-gpu[cuda,cudnn]<1.27\"")
        );
        assert_eq!(names(Some(13)), names(None));
    }
}
