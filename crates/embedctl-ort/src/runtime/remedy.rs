//! Remedies for the messages of a loader or a driver: the package, file or driver to install.
//!
//! ONNX Runtime, the loader and the drivers have no error codes, only messages. They are parsed only here; embedctl's
//! own faults are types ([`super::fault`]).

use std::fmt::Write as _;

use super::fault::missing_file;
use super::library::Library;
use super::preload::{self, DRIVER, PreparedProvider};
use super::unusable;
use crate::provider::obtain::how_to_get;
use embedctl_common::error::Cause;
use embedctl_common::setting::{DEVICE, PROVIDER_OPTION};
use embedctl_engine::Provider;

/// The cause of a failed registration or trial of `provider`. `words` is the library's message, `version` its version.
pub(crate) fn explain(
    provider: Provider,
    words: &str,
    prepared: &PreparedProvider,
    version: &str,
) -> Cause {
    let mut reason = shorten(words);
    if let Some(first) = prepared.missing.first() {
        // The library names one missing file; all of them are worth knowing.
        reason.clone_from(&first.reason);
        let others: Vec<&str> = prepared.missing[1..]
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        if !others.is_empty() {
            let _ = write!(reason, "; {} missing too", list(&others));
        }
    }
    let remedy = remedy(provider, &reason, prepared, version);
    Cause { reason, remedy }
}

/// The cause of a failure of `provider` of `library` in this process, from the library's message.
pub(crate) fn complete(provider: Provider, words: &str, library: &Library) -> Cause {
    // Loaded libraries are not loaded again; this finds the missing ones.
    let prepared = preload::prepare(provider, &library.path);
    let cause = explain(provider, words, &prepared, &library.version);
    match unusable::here(provider) {
        // A missing device explains a missing file.
        Some(found) => Cause {
            reason: format!("{} ({})", found.reason, cause.reason),
            ..found
        },
        None => cause,
    }
}

fn list(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        [first @ .., last] => format!("{} and {last} are", first.join(", ")),
        [] => String::new(),
    }
}

fn remedy(
    provider: Provider,
    reason: &str,
    prepared: &PreparedProvider,
    version: &str,
) -> Option<String> {
    let lower = reason.to_ascii_lowercase();
    let has = |sign: &str| lower.contains(sign);
    if matches!(
        provider,
        Provider::Cuda | Provider::TensorRt | Provider::TensorRtRtx
    ) {
        return nvidia(&lower, reason, prepared, version);
    }
    if let Some(file) = missing_file(reason) {
        return Some(match provider {
            Provider::MiGraphX => format!("install AMD's ROCm 7: {file} is a part of it"),
            Provider::WebGpu if file.contains("vulkan") => VULKAN.to_owned(),
            _ => format!("install the package that holds {file}"),
        });
    }
    match provider {
        Provider::WebGpu if has("adapter") || has("vulkan") => Some(VULKAN.to_owned()),
        // A plug-in without support for this processor, or an ONNX Runtime too old for it.
        Provider::OpenVino if has("no device cpu") => Some(
            "`pip install onnxruntime-openvino`, a build with OpenVINO in it, runs on any x86-64 processor"
                .to_owned(),
        ),
        Provider::OpenVino if has("device") || has("plugin") => Some(format!(
            "{PROVIDER_OPTION} openvino.device=CPU runs on the processor; OpenVINO's GPU and NPU need Intel's \
             drivers"
        )),
        _ => None,
    }
}

const VULKAN: &str = "install a Vulkan loader and driver: on Debian and Ubuntu \
                      'apt install libvulkan1 mesa-vulkan-drivers', for NVIDIA cards its own driver";

fn nvidia(lower: &str, reason: &str, prepared: &PreparedProvider, version: &str) -> Option<String> {
    let has = |sign: &str| lower.contains(sign);
    let cuda = prepared.cuda.unwrap_or(13);
    let mut steps = Vec::new();
    let missing: Vec<&str> = if prepared.missing.is_empty() {
        missing_file(reason).into_iter().collect()
    } else {
        prepared
            .missing
            .iter()
            .map(|one| one.name.as_str())
            .collect()
    };
    if let Some(part) = missing
        .iter()
        .find(|name| name.contains("onnxruntime_providers_"))
    {
        // npm's package comes without them, and its install script is often switched off.
        let file = part.rsplit(['/', '\\']).next().unwrap_or(part);
        return Some(format!(
            "{file} belongs beside the library: install its package again, with its install scripts, or \
             {}",
            how_to_get(Provider::Cuda)
        ));
    }
    if missing.contains(&DRIVER) {
        steps.push(
            "install NVIDIA's driver ('nvidia-smi' shows whether it works; a container is started with \
             '--gpus all')"
                .to_owned(),
        );
    }
    let tensorrt =
        |name: &&str| name.starts_with("libnvinfer") || name.starts_with("libnvonnxparser");
    if missing
        .iter()
        .any(|name| *name != DRIVER && !tensorrt(name))
    {
        // The extras of the same version name the right CUDA.
        steps.push(format!(
            "'pip install \"onnxruntime-gpu[cuda,cudnn]=={version}\"' brings CUDA {cuda}'s libraries"
        ));
    }
    if let Some(name) = missing.iter().find(|name| tensorrt(name)) {
        // `libnvinfer.so.10`: a newer TensorRT's has another name.
        let major = name.rsplit('.').next().unwrap_or("10");
        steps.push(format!(
            "'pip install \"tensorrt-cu{cuda}-libs=={major}.*\"' brings TensorRT's libraries"
        ));
    }
    if !steps.is_empty() {
        return Some(steps.join("; "));
    }
    // A function of the driver's that a younger one has: `cuTensorMapEncodeTiled`.
    let unknown = reason.split("undefined symbol: cu").nth(1);
    let too_old =
        unknown.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_uppercase()));
    if too_old || has("driver version is insufficient") || has("unsupported toolchain") {
        let driver = if cuda >= 13 { 580 } else { 525 };
        return Some(format!(
            "CUDA {cuda} needs NVIDIA's driver {driver} or later: update it"
        ));
    }
    if has("no cuda-capable device") || has("no device found") {
        return Some(
            "no NVIDIA GPU is visible: see 'nvidia-smi' and the variable CUDA_VISIBLE_DEVICES"
                .into(),
        );
    }
    if has("invalid device ordinal") || has("invalid device") {
        return Some(format!(
            "there is no such device: 'nvidia-smi' lists them, {DEVICE} counts from 0"
        ));
    }
    if has("out of memory") {
        return Some("the GPU's memory is full: 'nvidia-smi' shows by what".into());
    }
    if has("no kernel image") {
        return Some(format!(
            "this library was not built for this GPU: another version of onnxruntime-gpu than {version} may be"
        ));
    }
    None
}

/// The library's message on one line, without the source location before it: `/…/provider_bridge_ort.cc:2043 …
/// ProviderLibrary::Get() [ONNXRuntimeError] : 1 : FAIL : Failed to …`.
fn shorten(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(failure) = cuda_failure(&words) {
        return failure.to_owned();
    }
    // A failed condition, with its location and text before the actual message.
    if let Some((_, rest)) = words.split_once(" was false. ") {
        return rest.to_owned();
    }
    let Some((_, rest)) = words.rsplit_once("[ONNXRuntimeError] : ") else {
        return words;
    };
    // The code as a number and in words.
    rest.splitn(3, " : ").last().unwrap_or(rest).to_owned()
}

/// What CUDA or a library of its reports, without functions and places in ONNX Runtime's source on both sides: `CUDA failure
/// 101: invalid device ordinal`.
fn cuda_failure(words: &str) -> Option<&str> {
    const FAILURE: &str = " failure ";
    let place = words.rfind(FAILURE)?;
    let start = words[..place].rfind(' ').map_or(0, |space| space + 1);
    let is_code = words[place + FAILURE.len()..].starts_with(|it: char| it.is_ascii_digit());
    let is_library = ["CUDA", "CUBLAS", "CUDNN", "CUFFT"].contains(&&words[start..place]);
    let reported = words[start..].split(" ; ").next()?;
    (is_code && is_library).then_some(reported)
}

/// Whether ONNX Runtime's message says that there is no such device: it may do so only when a session is made.
pub(crate) fn lacks_device(words: &str) -> bool {
    cuda_failure(words).is_some_and(|failure| {
        ["failure 100:", "failure 101:"]
            .iter()
            .any(|code| failure.contains(code))
    })
}

#[cfg(test)]
#[path = "remedy_tests.rs"]
mod tests;
