//! The providers on which a session's nodes run, as the library reports them.
//!
//! Two sources. The *assignment* is the library's decision while it made the session; reading it costs nothing. The
//! *profile* lists the nodes that ran, with times, for a batch under the profiler.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::ptr;

use ort::AsPointer as _;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use serde::Deserialize;

use embedctl_common::error::with_causes;
use embedctl_engine::Provider;

/// The library's name for its CPU provider.
pub(crate) const CPU: &str = "CPUExecutionProvider";

/// A node of a session's graph and the provider that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AssignedNode {
    /// The provider, in the library's words: `CUDAExecutionProvider`.
    pub provider: String,
    /// The operator, with its domain if it is not a standard one: `MatMul`, `com.microsoft.FusedMatMul`.
    pub operator: String,
}

/// The library's name for `provider`; `None` for an engine that is not one of its providers.
pub(crate) fn library_name(provider: Provider) -> Option<&'static str> {
    Some(match provider {
        Provider::Cpu => CPU,
        Provider::Cuda => "CUDAExecutionProvider",
        Provider::TensorRt => "TensorrtExecutionProvider",
        Provider::TensorRtRtx => "NvTensorRTRTXExecutionProvider",
        Provider::DirectMl => "DmlExecutionProvider",
        Provider::CoreMl => "CoreMLExecutionProvider",
        Provider::OpenVino => "OpenVINOExecutionProvider",
        Provider::WebGpu => "WebGpuExecutionProvider",
        Provider::Xnnpack => "XnnpackExecutionProvider",
        Provider::MiGraphX => "MIGraphXExecutionProvider",
        Provider::Native | Provider::Rten => return None,
    })
}

/// Whether `operator` multiplies matrices: where a transformer's time goes.
pub(crate) fn multiplies_matrices(operator: &str) -> bool {
    let name = operator.rsplit('.').next().unwrap_or(operator);
    name.contains("MatMul") || name.contains("Gemm") || name.contains("Attention")
}

/// Makes the library record the placement of nodes; [`assigned`] reads it from the session.
pub(crate) fn record(builder: SessionBuilder) -> Result<SessionBuilder, String> {
    builder
        .with_config_entry("session.record_ep_graph_assignment_info", "1")
        .map_err(|error| with_causes(&error))
}

/// Where the nodes of a session made from a builder that [`record`]s were put. Some providers list only the nodes that
/// they left to the CPU.
pub(crate) fn assigned(session: &Session) -> Result<Vec<AssignedNode>, String> {
    let api = ort::api();
    let check = |status| {
        // SAFETY: the status was returned by the library just now and is used once.
        unsafe { ort::Error::result_from_status(status) }
            .map_err(|error: ort::Error| with_causes(&error))
    };
    let mut nodes = Vec::new();
    // SAFETY: the session lives for as long as this borrow; everything that is read here belongs to it
    // and stays as it is; the library sets each pointer and count together, or returns an error.
    unsafe {
        let (mut groups, mut count) = (ptr::null(), 0);
        check((api.Session_GetEpGraphAssignmentInfo)(
            session.inner().ptr(),
            &raw mut groups,
            &raw mut count,
        ))?;
        for index in 0..count {
            let group = *groups.add(index);
            let mut provider = ptr::null();
            check((api.EpAssignedSubgraph_GetEpName)(group, &raw mut provider))?;
            let provider = text(provider);
            let (mut members, mut count) = (ptr::null(), 0);
            check((api.EpAssignedSubgraph_GetNodes)(
                group,
                &raw mut members,
                &raw mut count,
            ))?;
            for index in 0..count {
                let node = *members.add(index);
                let (mut domain, mut operator) = (ptr::null(), ptr::null());
                check((api.EpAssignedNode_GetDomain)(node, &raw mut domain))?;
                check((api.EpAssignedNode_GetOperatorType)(
                    node,
                    &raw mut operator,
                ))?;
                let operator = match text(domain).as_str() {
                    "" | "ai.onnx" => text(operator),
                    domain => format!("{domain}.{}", text(operator)),
                };
                nodes.push(AssignedNode {
                    provider: provider.clone(),
                    operator,
                });
            }
        }
    }
    Ok(nodes)
}

/// # Safety
/// `text` is null or a string that ends with a zero byte and lives for the call.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// A node that ran, as the profiler saw it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProfiledNode {
    /// The provider, in the library's words.
    pub provider: String,
    /// The operator without its domain, or the name of a compiled part of the graph.
    pub operator: String,
    /// Microseconds on the calling thread. A device that works on its own is only given its orders then.
    pub time: u64,
    /// Multiplications, for a product of matrices whose shapes are known.
    pub products: Option<u64>,
}

/// The nodes of the last run in a profile that the library has written.
pub(crate) fn last_run(profile: &[u8]) -> Result<Vec<ProfiledNode>, String> {
    let events: Vec<TraceEvent> =
        serde_json::from_slice(profile).map_err(|error| format!("the profile: {error}"))?;
    let run = events
        .iter()
        .rev()
        .find(|event| event.name == "model_run")
        .ok_or("the profile holds no run")?;
    let during = run.ts..=run.ts + run.dur;
    Ok(events
        .iter()
        .filter(|event| event.cat == "Node" && during.contains(&event.ts))
        // Older libraries also log the time around a kernel.
        .filter(|event| event.name.ends_with("_kernel_time"))
        .map(|event| ProfiledNode {
            provider: event.args.provider.clone(),
            operator: event.args.op_name.clone(),
            time: event.dur,
            products: event.args.products(),
        })
        .collect())
}

#[derive(Deserialize)]
struct TraceEvent {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    ts: u64,
    #[serde(default)]
    dur: u64,
    #[serde(default)]
    args: EventArgs,
}

#[derive(Default, Deserialize)]
struct EventArgs {
    #[serde(default)]
    provider: String,
    #[serde(default)]
    op_name: String,
    #[serde(default)]
    input_type_shape: Vec<BTreeMap<String, Vec<u64>>>,
    #[serde(default)]
    output_type_shape: Vec<BTreeMap<String, Vec<u64>>>,
}

impl EventArgs {
    /// Multiplications of a product: an output's elements times the length of the rows they come from;
    /// for attention, the two products of queries with keys and of weights with values.
    fn products(&self) -> Option<u64> {
        if !multiplies_matrices(&self.op_name) {
            return None;
        }
        let shape = |shapes: &[BTreeMap<String, Vec<u64>>]| {
            shapes.first().and_then(|one| one.values().next()).cloned()
        };
        let (input, output) = (
            shape(&self.input_type_shape)?,
            shape(&self.output_type_shape)?,
        );
        let inner = if self.op_name.contains("Attention") {
            2 * output.get(output.len().checked_sub(2)?)?
        } else {
            *input.last()?
        };
        Some(output.iter().product::<u64>() * inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events as ONNX Runtime 1.27 writes them: two runs, the second of interest.
    const PROFILE: &str = r#"[
        {"cat":"Session","pid":1,"tid":1,"dur":900,"ts":1,"ph":"X","name":"session_initialization","args":{}},
        {"cat":"Node","dur":70,"ts":1010,"name":"/MatMul_kernel_time","args":{"op_name":"MatMul","provider":"WebGpuExecutionProvider"}},
        {"cat":"Session","dur":100,"ts":1000,"name":"model_run","args":{}},
        {"cat":"Node","dur":1,"ts":2001,"name":"/MatMul_fence_before","args":{"op_name":"MatMul"}},
        {"cat":"Node","dur":7,"ts":2002,"name":"/MatMul_kernel_time","args":{"op_name":"MatMul","provider":"WebGpuExecutionProvider",
            "input_type_shape":[{"float":[8,32,384]},{"float":[384,384]}],"output_type_shape":[{"float":[8,32,384]}]}},
        {"cat":"Node","dur":3,"ts":2010,"name":"/Attention_kernel_time","args":{"op_name":"MultiHeadAttention","provider":"CPUExecutionProvider",
            "input_type_shape":[{"float":[2,4,8]}],"output_type_shape":[{"float":[2,4,8]}]}},
        {"cat":"Node","dur":2,"ts":2020,"name":"/Shape_kernel_time","args":{"op_name":"Shape","provider":"CPUExecutionProvider"}},
        {"cat":"Session","dur":90,"ts":2000,"name":"model_run","args":{}}
    ]"#;

    #[test]
    fn the_last_run_is_read_with_its_products() {
        let nodes = last_run(PROFILE.as_bytes()).unwrap();
        let seen: Vec<_> = nodes
            .iter()
            .map(|node| (node.operator.as_str(), node.time, node.products))
            .collect();
        assert_eq!(
            seen,
            [
                ("MatMul", 7, Some(8 * 32 * 384 * 384)),
                ("MultiHeadAttention", 3, Some(2 * 4 * 8 * 2 * 4)),
                ("Shape", 2, None),
            ]
        );
        assert_eq!(nodes[1].provider, CPU);
    }

    #[test]
    fn a_profile_without_a_run_is_an_error() {
        for profile in [
            "",
            "{",
            "[]",
            r#"[{"cat":"Session","name":"model_loading"}]"#,
        ] {
            assert!(last_run(profile.as_bytes()).is_err(), "{profile}");
        }
    }

    #[test]
    fn products_are_known_by_their_operators() {
        for operator in [
            "MatMul",
            "com.microsoft.FusedMatMul",
            "Gemm",
            "MatMulNBits",
            "MultiHeadAttention",
        ] {
            assert!(multiplies_matrices(operator), "{operator}");
        }
        for operator in ["Add", "Gather", "com.microsoft.SkipLayerNormalization"] {
            assert!(!multiplies_matrices(operator), "{operator}");
        }
    }
}
