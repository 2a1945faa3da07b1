//! Environment variables of ONNX Runtime and NVIDIA's libraries for settings without another switch.
//!
//! They hold for a whole process, so a library must not set them by itself: the program does so first of all, or the
//! user sets them before it starts.

use std::ffi::OsStr;

use crate::runtime::provider_error;
use embedctl_common::error::{Cause, Result};
use embedctl_common::setting::PROVIDER_OPTION;
use embedctl_engine::provider::value_of;
use embedctl_engine::{OptionValue, Provider, ProviderChoice, ProviderOption};

/// Keeps NVIDIA's libraries from computing float32 in the shorter `TensorFloat-32`.
pub const NO_TF32: (&str, &str) = ("NVIDIA_TF32_OVERRIDE", "0");

/// Lets WebGPU's plug-in offer the processor where ONNX Runtime lists no graphics card: Vulkan may know one
/// all the same (in a container, or one that is emulated), and decides when a session is made.
const ANY_ADAPTER: (&str, &str) = ("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1");

/// Keeps ONNX Runtime from sending anything and from writing into the user's cache folder.
const NO_TELEMETRY: (&str, &str) = ("ORT_DISABLE_TELEMETRY", "1");

/// Keeps ONNX Runtime (1.29 and later) from writing into the user's cache folder and from sending
/// anything, for this process and its children. Its API's own switch, which is used in any case, comes too
/// late for the folder. A value that the variable has already stays.
///
/// # Safety
/// No other thread may run: call it first thing in `main`.
pub unsafe fn disable_telemetry() {
    // SAFETY: the caller's promise.
    unsafe { set(NO_TELEMETRY) };
}

/// Lets WebGPU's plug-in run on every device that Vulkan knows, for this process and its children: by default it offers
/// only cards that ONNX Runtime has found on its own. A value that the variable has already stays.
///
/// # Safety
/// No other thread may run: call it first thing in `main`.
pub unsafe fn allow_any_adapter() {
    // SAFETY: the caller's promise.
    unsafe { set(ANY_ADAPTER) };
}

/// Keeps TensorRT, which has no option for it, from computing float32 in `TensorFloat-32`, for this process and its
/// children. Without it (or the variable `NVIDIA_TF32_OVERRIDE`) opening a model with TensorRT is an error, unless its
/// option `tf32=true` allows that. It would switch off CUDA's option `tf32=true` as well, so call it only if
/// [`wants_no_tf32`].
///
/// # Safety
/// No other thread may run: call it in `main`, before anything else is started.
pub unsafe fn forbid_tf32() {
    // SAFETY: the caller's promise.
    unsafe { set(NO_TF32) };
}

/// Whether a run with these providers and options needs [`forbid_tf32`].
#[must_use]
pub fn wants_no_tf32(providers: &ProviderChoice, options: &[ProviderOption]) -> bool {
    let named = match providers {
        ProviderChoice::Auto => false,
        ProviderChoice::List(list) => list.iter().copied().any(is_tensorrt),
    };
    named && !allows_tf32(options)
}

/// Refuses TensorRT in a process in which it would compute less exactly than requested.
pub(crate) fn require_no_tf32(provider: Provider, options: &[ProviderOption]) -> Result<()> {
    let set = std::env::var_os(NO_TF32.0);
    check(provider, options, set.as_deref())
}

fn check(provider: Provider, options: &[ProviderOption], set: Option<&OsStr>) -> Result<()> {
    if !is_tensorrt(provider) || set.is_some() || allows_tf32(options) {
        return Ok(());
    }
    let (name, value) = NO_TF32;
    let cause = Cause::of(format!(
        "{provider} would compute float32 in TensorFloat-32"
    ));
    Err(provider_error(cause.with(format!(
        "set {name}={value} before this process starts, or allow it with {PROVIDER_OPTION} tensorrt.tf32=true"
    ))))
}

fn is_tensorrt(provider: Provider) -> bool {
    matches!(provider, Provider::TensorRt | Provider::TensorRtRtx)
}

fn allows_tf32(options: &[ProviderOption]) -> bool {
    value_of(options, Provider::TensorRt, "tf32").is_some_and(OptionValue::is_on)
}

/// # Safety
/// No other thread may run.
unsafe fn set((name, value): (&str, &str)) {
    if std::env::var_os(name).is_none() {
        // SAFETY: changing the environment is unsound only while another thread reads it, and the caller
        // promises that there is none.
        unsafe { std::env::set_var(name, value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensorrt_is_exact_or_refused_and_others_are_not_asked() {
        let none: [ProviderOption; 0] = [];
        let allowed = ["tensorrt.tf32=true".parse().unwrap()];
        assert!(check(Provider::TensorRt, &none, None).is_err());
        assert!(check(Provider::TensorRt, &none, Some("0".as_ref())).is_ok());
        assert!(check(Provider::TensorRt, &allowed, None).is_ok());
        assert!(check(Provider::Cuda, &none, None).is_ok());
        let choice = |text: &str| text.parse::<ProviderChoice>().unwrap();
        assert!(wants_no_tf32(&choice("tensorrt,cuda"), &none));
        assert!(!wants_no_tf32(&choice("tensorrt,cuda"), &allowed));
        assert!(!wants_no_tf32(&choice("cuda"), &none));
        assert!(!wants_no_tf32(&ProviderChoice::Auto, &none));
    }
}
