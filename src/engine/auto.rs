//! The providers that `auto` tries, in order, and those that it leaves out.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::Provider;
use crate::setting::PROVIDER;

/// Providers for `auto`, best first, with and without probing of libraries. TensorRT is not among them: it compiles for
/// minutes before the first batch, which the user must choose. CoreML is not either; see [`left_out`].
///
/// Without probing, only providers that cannot crash the program are tried.
#[must_use]
pub fn order(probing: bool) -> &'static [Provider] {
    use Provider::{Cpu, Cuda, DirectMl, MiGraphX, Native, Rten, WebGpu};
    if !probing {
        &[Native, Cpu, Rten]
    } else if cfg!(windows) {
        &[Cuda, DirectMl, Native, Cpu, Rten]
    } else if cfg!(target_os = "linux") {
        &[Cuda, MiGraphX, WebGpu, Native, Cpu, Rten]
    } else {
        &[Native, Cpu, Rten]
    }
}

/// Providers that could run here and that `auto` leaves out on purpose, with the reason.
pub(super) fn left_out(probing: bool) -> Option<(Provider, String)> {
    (probing && cfg!(target_os = "macos")).then(|| {
        let reason = format!(
            "not taken by itself: it has not been measured to be faster than the processor for text models; \
             {PROVIDER} coreml takes it"
        );
        (Provider::CoreMl, reason)
    })
}

/// Why `provider` need not be tried here. `may_have` says whether a library here may have it; looking for
/// libraries takes time, so it is asked last.
pub(super) fn reason_to_skip(
    provider: Provider,
    may_have: impl FnOnce() -> bool,
) -> Option<String> {
    let card = card(provider, Path::new("/dev"));
    let what = match provider {
        Provider::Cuda => "NVIDIA GPU with a driver",
        Provider::MiGraphX => "AMD GPU with ROCm's driver",
        _ => "graphics card",
    };
    if card == Some(false) {
        return Some(format!("there is no {what} here"));
    }
    if may_have() {
        return None;
    }
    let mut reason = "no library here has it".to_owned();
    if card == Some(true) {
        let how = crate::provider::obtain::how_to_get(provider);
        let _ = write!(reason, ", though there is a {what}. {how}");
    }
    Some(reason)
}

/// Whether there is a graphics card for `provider`, if device files tell. Vulkan emulated by the processor does not
/// count: it is used only if the user names it.
fn card(provider: Provider, devices: &Path) -> Option<bool> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    // A desktop or server, WSL, Jetson.
    let nvidia = ["nvidiactl", "nvidia0", "dxg", "nvmap"];
    let any = |names: &[&str]| names.iter().any(|name| devices.join(name).exists());
    match provider {
        Provider::Cuda => Some(any(&nvidia)),
        Provider::MiGraphX => Some(any(&["kfd"])),
        Provider::WebGpu => Some(any(&nvidia) || has_render_node(&devices.join("dri"))),
        _ => None,
    }
}

fn has_render_node(folder: &Path) -> bool {
    let mut nodes = fs::read_dir(folder).into_iter().flatten().flatten();
    nodes.any(|node| node.file_name().to_string_lossy().starts_with("renderD"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_comes_last_and_the_embedded_engine_after_it() {
        for probing in [false, true] {
            let order = order(probing);
            assert!(order.ends_with(&[Provider::Native, Provider::Cpu, Provider::Rten]));
            assert!(!order.contains(&Provider::TensorRt));
        }
        assert_eq!(order(false).len(), 3);
    }

    #[test]
    fn what_no_library_has_is_not_tried() {
        assert_eq!(reason_to_skip(Provider::DirectMl, || true), None);
        let reason = reason_to_skip(Provider::DirectMl, || false).unwrap();
        assert!(reason.contains("no library here has it"), "{reason}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn device_files_tell_of_cards() {
        let devices = tempfile::TempDir::new().unwrap();
        let card = |provider| card(provider, devices.path());
        let providers = [Provider::Cuda, Provider::MiGraphX, Provider::WebGpu];
        assert_eq!(providers.map(card), [Some(false); 3]);
        fs::create_dir(devices.path().join("dri")).unwrap();
        fs::write(devices.path().join("dri/card0"), "").unwrap();
        assert_eq!(card(Provider::WebGpu), Some(false));
        fs::write(devices.path().join("dri/renderD128"), "").unwrap();
        assert_eq!(providers.map(card), [Some(false), Some(false), Some(true)]);
        fs::write(devices.path().join("nvidiactl"), "").unwrap();
        fs::write(devices.path().join("kfd"), "").unwrap();
        assert_eq!(providers.map(card), [Some(true); 3]);
        assert_eq!(card(Provider::Cpu), None);
    }
}
