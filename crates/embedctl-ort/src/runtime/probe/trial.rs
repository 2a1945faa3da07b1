//! Trying a provider of the loaded library on the small graph.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::ptr;
use std::time::Instant;

use ort::environment::Environment;
use ort::session::Session;
use ort::value::TensorRef;

use crate::provider::ProviderReport;
use crate::provider::check_graph as graph;
use crate::runtime::placement::{self, AssignedNode, CPU, library_name, multiplies_matrices};
use crate::runtime::registration::{self, ProviderSettings, session_builder};
use embedctl_common::error::with_causes;
use embedctl_engine::Provider;

/// Registers `provider` (of `plugin`, where it comes from one) and runs the small graph on its device number
/// `device`.
pub(super) fn run(
    environment: &Environment,
    plugin: Option<&Path>,
    provider: Provider,
    device: u32,
) -> ProviderReport {
    ProviderReport::of(provider, compute(environment, plugin, provider, device))
}

fn compute(
    environment: &Environment,
    plugin: Option<&Path>,
    provider: Provider,
    device: u32,
) -> Result<(String, f64), String> {
    let words = |error: ort::Error| with_causes(&error);
    let settings = ProviderSettings {
        device,
        ..ProviderSettings::default()
    };
    let builder = session_builder(environment).map_err(words)?;
    let builder = placement::record(builder)?;
    let mut session = registration::register(builder, environment, plugin, provider, &settings)?
        .commit_from_memory(&graph::model())
        .map_err(words)?;
    let placement = placed(&placement::assigned(&session)?, provider)?;
    let input = graph::input();
    // The first run includes one-time work: kernels are compiled, memory is allocated.
    once(&mut session, &input)?;
    let start = Instant::now();
    let output = once(&mut session, &input)?;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    graph::check(&output)?;
    Ok((placement, millis))
}

fn once(session: &mut Session, input: &[f32]) -> Result<Vec<f32>, String> {
    let words = |error: ort::Error| with_causes(&error);
    let shape = [graph::ROWS, graph::WIDTH];
    let input = TensorRef::from_array_view((shape, input)).map_err(words)?;
    let outputs = session
        .run(ort::inputs![graph::INPUT => input])
        .map_err(words)?;
    let (_, values) = outputs[graph::OUTPUT]
        .try_extract_tensor::<f32>()
        .map_err(words)?;
    Ok(values.to_vec())
}

/// The placement of the products, as a sentence. Products on the CPU are a failure of another provider: the library
/// silently gives nodes that a provider does not take to the CPU.
fn placed(nodes: &[AssignedNode], provider: Provider) -> Result<String, String> {
    let wanted = library_name(provider).unwrap_or_default();
    let product = |node: &&AssignedNode| multiplies_matrices(&node.operator);
    if provider != Provider::Cpu
        && let Some(left) = nodes
            .iter()
            .filter(product)
            .find(|node| node.provider == CPU)
    {
        return Err(format!(
            "it was registered and left {} to the CPU",
            left.operator
        ));
    }
    let own = nodes
        .iter()
        .filter(product)
        .find(|node| node.provider == wanted);
    Ok(match own {
        Some(node) => format!("{} on {wanted}", node.operator),
        // Some providers list only nodes that they leave to the CPU, and here that is no product.
        None => format!("products on {wanted}, none on the CPU"),
    })
}

/// The providers that the loaded library was built with, in its own names.
pub(super) fn available() -> Result<Vec<String>, String> {
    let api = ort::api();
    let check = |status| {
        // SAFETY: the status was returned by the library just now and is used once.
        unsafe { ort::Error::result_from_status(status) }
            .map_err(|error: ort::Error| with_causes(&error))
    };
    let (mut names, mut count) = (ptr::null_mut::<*mut c_char>(), 0);
    // SAFETY: the library sets the pointer and the number of names together, or returns an error; the
    // names are strings that end with a zero byte, and are read before they are released.
    unsafe {
        check((api.GetAvailableProviders)(&raw mut names, &raw mut count))?;
        let length = usize::try_from(count).unwrap_or(0);
        let list = (0..length)
            .map(|index| {
                CStr::from_ptr(*names.add(index))
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        check((api.ReleaseAvailableProviders)(names, count))?;
        Ok(list)
    }
}

/// The loaded library's build, in its own words.
pub(super) fn build_info() -> Option<String> {
    // SAFETY: the library returns a string of its own that ends with a zero byte and is never freed.
    let text = unsafe {
        let text = (ort::api().GetBuildInfoString)();
        if text.is_null() {
            return None;
        }
        CStr::from_ptr(text)
    };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(provider: &str, operator: &str) -> AssignedNode {
        AssignedNode {
            provider: provider.into(),
            operator: operator.into(),
        }
    }

    #[test]
    fn products_on_the_cpu_are_no_success_of_another_provider() {
        let cuda = "CUDAExecutionProvider";
        let nodes = [node(cuda, "LayerNormalization"), node(CPU, "FusedMatMul")];
        let reason = placed(&nodes, Provider::Cuda).unwrap_err();
        assert!(reason.contains("FusedMatMul"), "{reason}");
        let nodes = [node(cuda, "MatMul"), node(CPU, "Shape")];
        assert_eq!(
            placed(&nodes, Provider::Cuda),
            Ok("MatMul on CUDAExecutionProvider".into())
        );
        // WebGPU lists only nodes that it left to the CPU.
        assert!(placed(&[node(CPU, "Shape")], Provider::WebGpu).is_ok());
        assert!(placed(&[node(CPU, "MatMul")], Provider::Cpu).is_ok());
    }
}
