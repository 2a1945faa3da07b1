//! What `auto` tries, in which order, and what it does not even try.

use std::fs;
use std::path::Path;

use super::Provider;

/// Providers for `auto`, best first. TensorRT is not among them: it compiles for minutes before a first
/// batch, which is for the user to want. CoreML is not either; see [`left_out`].
///
/// Without a way to probe, only what cannot take the program down with it is tried.
pub(super) fn order(probing: bool) -> &'static [Provider] {
    use Provider::{Cpu, Cuda, DirectMl, MiGraphX, Tract, WebGpu};
    if !probing {
        &[Cpu, Tract]
    } else if cfg!(windows) {
        &[Cuda, DirectMl, Cpu, Tract]
    } else if cfg!(target_os = "linux") {
        &[Cuda, MiGraphX, WebGpu, Cpu, Tract]
    } else {
        &[Cpu, Tract]
    }
}

/// Providers that could run here and that `auto` leaves out on purpose, with the reason.
pub(super) fn left_out(probing: bool) -> Option<(Provider, &'static str)> {
    (probing && cfg!(target_os = "macos")).then_some((
        Provider::CoreMl,
        "not taken by itself: it has not been measured to be faster than the processor for text models; \
         --provider coreml takes it",
    ))
}

/// Why `provider` need not be tried here. `had`: whether a library here may have it.
pub(super) fn hopeless(provider: Provider, had: bool) -> Option<String> {
    let card = match provider {
        Provider::Cuda => {
            Path::new("/dev/nvidiactl").exists() || Path::new("/dev/nvidia0").exists()
        }
        Provider::MiGraphX => Path::new("/dev/kfd").exists(),
        Provider::WebGpu if cfg!(target_os = "linux") => {
            let card =
                has_render_node(Path::new("/dev/dri")) || Path::new("/dev/nvidiactl").exists();
            // Vulkan may be emulated by the processor; that is for who asks for it.
            return (!card).then(|| "there is no graphics card here".to_owned());
        }
        _ => false,
    };
    if had {
        return None;
    }
    let mut reason = "no library here has it".to_owned();
    if card {
        reason.push_str(", though there is a card for it. ");
        reason.push_str(&super::ort::probe::how_to_get(provider));
    }
    Some(reason)
}

fn has_render_node(folder: &Path) -> bool {
    let nodes = fs::read_dir(folder).into_iter().flatten().flatten();
    nodes
        .into_iter()
        .any(|node| node.file_name().to_string_lossy().starts_with("renderD"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_comes_last_and_the_embedded_engine_after_it() {
        for probing in [false, true] {
            let order = order(probing);
            assert!(order.ends_with(&[Provider::Cpu, Provider::Tract]));
            assert!(!order.contains(&Provider::TensorRt));
        }
        assert_eq!(order(false).len(), 2);
    }

    #[test]
    fn what_no_library_has_is_not_tried() {
        let reason = hopeless(Provider::Cuda, false).unwrap();
        assert!(reason.contains("no library here has it"), "{reason}");
        assert_eq!(hopeless(Provider::Cuda, true), None);
        assert_eq!(hopeless(Provider::Cpu, true), None);
    }

    #[test]
    fn a_render_node_is_a_card() {
        let folder = tempfile::TempDir::new().unwrap();
        assert!(!has_render_node(folder.path()));
        assert!(!has_render_node(&folder.path().join("missing")));
        fs::write(folder.path().join("card0"), "").unwrap();
        assert!(!has_render_node(folder.path()));
        fs::write(folder.path().join("renderD128"), "").unwrap();
        assert!(has_render_node(folder.path()));
    }
}
