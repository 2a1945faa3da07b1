//! Registering exactly one execution provider with a session, with its options.
//!
//! Registration fails if the provider is not available. ONNX Runtime's default, to log that and run on the CPU, must
//! never happen.

use std::path::{Path, PathBuf};

use ort::environment::Environment;
use ort::ep::{self, ArbitrarilyConfigurableExecutionProvider as _, ArenaExtendStrategy};
use ort::session::Session;
use ort::session::builder::{AutoDevicePolicy, GraphOptimizationLevel, SessionBuilder};
use serde_json::{Map, json};

use super::placement::{CPU, library_name};
use super::plugin::devices;
use embedctl_common::error::with_causes;
use embedctl_engine::{OptionValue, Provider, ProviderOption};

/// The options of a session, for every provider.
///
/// Parallelism comes from workers, so a session has one thread; batches differ in shape, so memory is not
/// planned ahead for a shape. Only providers registered by [`register`] take part: the
/// library's own choice among devices is switched off.
pub(crate) fn session_builder(environment: &Environment) -> Result<SessionBuilder, ort::Error> {
    Ok(Session::builder(environment)?
        .with_auto_device(AutoDevicePolicy::PreferCPU)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_memory_pattern(false)?)
}

/// Keeps a session without another provider on the CPU provider: once plug-ins are registered, the library would
/// silently give it to a plug-in that offers the processor.
pub(crate) fn on_cpu(
    builder: SessionBuilder,
    environment: &Environment,
) -> Result<SessionBuilder, ort::Error> {
    if !devices::are_registered() {
        return Ok(builder);
    }
    let cpu = environment
        .devices()
        .find(|device| device.ep().is_ok_and(|name| name == CPU))
        .ok_or_else(|| ort::Error::new("the library does not list the processor"))?;
    Ok(builder.with_devices([cpu], None)?)
}

/// The settings of a provider at registration.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProviderSettings {
    /// Number of the device, in the provider's own order.
    pub device: u32,
    /// Threads for one session of a provider that computes on the processor; 0: the provider's choice.
    pub threads: usize,
    /// The user's options of the provider.
    pub options: Vec<ProviderOption>,
    /// A folder in which compiled engines may be kept from run to run.
    pub cache: Option<PathBuf>,
    /// Shapes that a provider which compiles for shapes should be ready for.
    pub shapes: Option<ShapeProfiles>,
}

/// Inputs' shapes between which one compiled engine serves, as `name:1x1,name:1x1` each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShapeProfiles {
    /// The smallest.
    pub min: String,
    /// The devices that it is tuned for.
    pub opt: String,
    /// The largest.
    pub max: String,
}

impl ProviderSettings {
    /// The last value given for the option `name`, if any.
    pub(crate) fn option(&self, name: &str) -> Option<OptionValue> {
        let found = self.options.iter().rev().find(|one| one.name == name);
        found.map(|one| one.value)
    }

    /// Whether the user asked for arithmetic below float32.
    pub(crate) fn lowers_precision(&self) -> bool {
        let precision = self.word("precision");
        precision.is_some_and(|word| word != "fp32") || self.flag("tf32")
    }

    fn word(&self, name: &str) -> Option<&'static str> {
        self.option(name)?.word()
    }

    fn flag(&self, name: &str) -> bool {
        self.option(name).is_some_and(OptionValue::is_on)
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.option(name)?.number()
    }

    fn device_id(&self) -> Result<i32, String> {
        i32::try_from(self.device).map_err(|_| format!("there is no device {}", self.device))
    }

    /// DirectML uses DXGI's order, whose first adapter need not be the fastest; embedctl's device numbers are ordered
    /// by their own memory.
    fn directml_id(&self) -> Result<i32, String> {
        #[cfg(windows)]
        if let Some(index) = crate::device::adapter_index(self.device) {
            return i32::try_from(index).map_err(|_| format!("there is no device {}", self.device));
        }
        self.device_id()
    }
}

/// Registers `provider` and nothing else (beside the CPU, which is always there): that of `plugin`, which is
/// loaded into `environment`, or the library's own.
pub(crate) fn register(
    builder: SessionBuilder,
    environment: &Environment,
    plugin: Option<&Path>,
    provider: Provider,
    settings: &ProviderSettings,
) -> Result<SessionBuilder, String> {
    if let Some(plugin) = plugin {
        return plugged(builder, environment, plugin, provider, settings);
    }
    let dispatch = match provider {
        Provider::Cpu => return Ok(builder),
        inside @ (Provider::Native | Provider::Rten) => {
            return Err(format!("{inside} is an engine of its own"));
        }
        Provider::TensorRtRtx => return Err(format!("{provider} comes as a plug-in alone")),
        Provider::Cuda => cuda(settings)?.build(),
        Provider::TensorRt => tensorrt(settings)?.build(),
        Provider::DirectMl => {
            // DirectML runs one kernel after another in memory that it plans itself.
            let builder = builder.with_parallel_execution(false).map_err(words)?;
            let builder = builder.with_memory_pattern(false).map_err(words)?;
            let dispatch = ep::DirectML::default().with_device_id(settings.directml_id()?);
            return add(builder, dispatch.build());
        }
        Provider::CoreMl => coreml(settings).build(),
        Provider::OpenVino => openvino(settings).build(),
        Provider::WebGpu => webgpu(settings)?.build(),
        Provider::Xnnpack => xnnpack(settings).build(),
        Provider::MiGraphX => migraphx(settings)?.build(),
    };
    add(builder, dispatch)
}

/// Gives the session a device of the plug-in's, which brings its provider along.
fn plugged(
    builder: SessionBuilder,
    environment: &Environment,
    plugin: &Path,
    provider: Provider,
    settings: &ProviderSettings,
) -> Result<SessionBuilder, String> {
    let (kind, options) = match provider {
        Provider::OpenVino => {
            let device = openvino_device(settings);
            let config = openvino_config(device, settings, true);
            (Some(device), vec![("load_config", config)])
        }
        Provider::WebGpu => {
            let backend = match settings.word("backend") {
                Some("vulkan") => Some("Vulkan"),
                Some("d3d12") => Some("D3D12"),
                _ => None,
            };
            let option = backend.map(|name| ("dawnBackendType", name.to_owned()));
            (None, option.into_iter().collect())
        }
        _ => (None, Vec::new()),
    };
    if let Some(given) = settings.options.iter().find(|given| !is_for_plugin(given)) {
        return Err(format!("its plug-in has no option {}", given.name));
    }
    let device = devices::choose(environment, plugin, provider, kind, settings.device)?;
    let name = library_name(provider).unwrap_or_default();
    let options: Vec<(String, String)> = options
        .into_iter()
        .map(|(key, value)| (format!("{name}.{key}"), value))
        .collect();
    builder
        .with_devices([device], Some(&options))
        .map_err(words)
}

/// Whether a plug-in understands an option that the library's own provider has.
fn is_for_plugin(option: &ProviderOption) -> bool {
    matches!(option.provider, Provider::OpenVino | Provider::WebGpu)
}

fn add(
    builder: SessionBuilder,
    provider: ep::ExecutionProviderDispatch,
) -> Result<SessionBuilder, String> {
    builder
        .with_execution_providers([provider.error_on_failure()])
        .map_err(words)
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn words(error: ort::Error<SessionBuilder>) -> String {
    with_causes(&error)
}

/// CUDA: full float32 by default, and an arena that grows by the exact need, because batches differ in shape and
/// doubling would take twice the memory that a run needs.
fn cuda(settings: &ProviderSettings) -> Result<ep::CUDA, String> {
    let strategy = match settings.word("arena") {
        Some("doubling") => ArenaExtendStrategy::NextPowerOfTwo,
        _ => ArenaExtendStrategy::SameAsRequested,
    };
    let mut provider = ep::CUDA::default()
        .with_device_id(settings.device_id()?)
        .with_arena_extend_strategy(strategy)
        .with_tf32(settings.flag("tf32"));
    if let Some(bytes) = settings.number("memory-limit") {
        provider = provider.with_memory_limit(bytes);
    }
    Ok(provider)
}

/// TensorRT: engines and timings kept from run to run, one engine for a range of shapes.
fn tensorrt(settings: &ProviderSettings) -> Result<ep::TensorRT, String> {
    let mut provider = ep::TensorRT::default()
        .with_device_id(settings.device_id()?)
        .with_fp16(settings.word("precision") == Some("fp16"))
        .with_bf16(settings.word("precision") == Some("bf16"));
    if let Some(bytes) = settings.number("memory-limit") {
        provider = provider.with_max_workspace_size(bytes);
    }
    if let Some(folder) = &settings.cache {
        let folder = folder.to_string_lossy();
        provider = provider
            .with_engine_cache(true)
            .with_engine_cache_path(&folder)
            .with_timing_cache(true)
            .with_timing_cache_path(&folder);
    }
    if let Some(shapes) = &settings.shapes {
        provider = provider
            .with_profile_min_shapes(&shapes.min)
            .with_profile_opt_shapes(&shapes.opt)
            .with_profile_max_shapes(&shapes.max);
    }
    Ok(provider)
}

fn coreml(settings: &ProviderSettings) -> ep::CoreML {
    use ep::coreml::{ComputeUnits, ModelFormat};
    let mut provider = ep::CoreML::default()
        // The older format has no transformer's operators.
        .with_model_format(ModelFormat::MLProgram)
        .with_compute_units(match settings.word("units") {
            Some("gpu") => ComputeUnits::CPUAndGPU,
            Some("ane") => ComputeUnits::CPUAndNeuralEngine,
            _ => ComputeUnits::All,
        });
    if let Some(folder) = &settings.cache {
        provider = provider.with_model_cache_dir(folder.to_string_lossy());
    }
    provider
}

fn openvino_device(settings: &ProviderSettings) -> &'static str {
    settings.word("device").unwrap_or("CPU")
}

/// OpenVINO on the processor, unless another of its devices is asked for.
fn openvino(settings: &ProviderSettings) -> ep::OpenVINO {
    let device = openvino_device(settings);
    let mut provider = ep::OpenVINO::default().with_device_type(match (device, settings.device) {
        ("GPU", number) if number > 0 => format!("GPU.{number}"),
        (other, _) => other.to_owned(),
    });
    if device == "CPU" {
        // One worker, one stream: several workers share the cores as they do with ONNX Runtime's own.
        let threads = settings.number("threads").unwrap_or(settings.threads);
        provider = provider.with_num_streams(1);
        if threads > 0 {
            provider = provider.with_num_threads(threads);
        }
    }
    provider =
        provider.with_arbitrary_config("load_config", openvino_config(device, settings, false));
    if let Some(folder) = settings.cache.as_ref().filter(|_| device != "CPU") {
        provider = provider.with_cache_dir(folder.to_string_lossy());
    }
    provider
}

/// OpenVINO's own properties, as JSON.
///
/// Without a precision it may choose bf16 by itself where the processor has it: float32 is stated, so that
/// a vector is the same everywhere. Its threads are not pinned: every session would take the first core. A
/// plug-in is told `all` in this way; the library's own provider has options for the rest.
fn openvino_config(device: &str, settings: &ProviderSettings, all: bool) -> String {
    let mut properties = Map::new();
    let mut set = |name: &str, value: String| {
        properties.insert(name.to_owned(), value.into());
    };
    let precision = match (device, settings.word("precision")) {
        (_, Some("bf16")) => Some("bf16"),
        (_, Some("fp16")) => Some("f16"),
        ("CPU", _) | (_, Some("fp32")) => Some("f32"),
        _ => None,
    };
    if let Some(precision) = precision {
        set("INFERENCE_PRECISION_HINT", precision.to_owned());
    }
    if device == "CPU" {
        set("ENABLE_CPU_PINNING", "NO".to_owned());
        if all {
            set("NUM_STREAMS", "1".to_owned());
            let threads = settings.number("threads").unwrap_or(settings.threads);
            if threads > 0 {
                set("INFERENCE_NUM_THREADS", threads.to_string());
            }
        }
    } else if all && let Some(folder) = &settings.cache {
        set("CACHE_DIR", folder.to_string_lossy().into_owned());
    }
    json!({ device: properties }).to_string()
}

fn webgpu(settings: &ProviderSettings) -> Result<ep::WebGPU, String> {
    use ep::webgpu::DawnBackendType;
    let mut provider = ep::WebGPU::default();
    if settings.device > 0 {
        provider = provider.with_device_id(settings.device_id()?);
    }
    Ok(match settings.word("backend") {
        Some("vulkan") => provider.with_dawn_backend_type(DawnBackendType::Vulkan),
        Some("d3d12") => provider.with_dawn_backend_type(DawnBackendType::D3D12),
        _ => provider,
    })
}

fn xnnpack(settings: &ProviderSettings) -> ep::XNNPACK {
    let threads = settings.number("threads").unwrap_or(settings.threads);
    match std::num::NonZero::new(threads) {
        Some(threads) => ep::XNNPACK::default().with_intra_op_num_threads(threads),
        None => ep::XNNPACK::default(),
    }
}

fn migraphx(settings: &ProviderSettings) -> Result<ep::MIGraphX, String> {
    let mut provider = ep::MIGraphX::default()
        .with_device_id(settings.device_id()?)
        .with_fp16(settings.word("precision") == Some("fp16"))
        .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested);
    if let Some(bytes) = settings.number("memory-limit") {
        provider = provider.with_mem_limit(bytes);
    }
    Ok(provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_full_precision_lowers_nothing() {
        let lowers = |options: &[&str]| {
            let options = options.iter().map(|option| option.parse().unwrap());
            let settings = ProviderSettings {
                options: options.collect(),
                ..ProviderSettings::default()
            };
            settings.lowers_precision()
        };
        assert!(!lowers(&[]));
        assert!(!lowers(&["openvino.precision=fp32"]));
        assert!(!lowers(&["cuda.tf32=false"]));
        assert!(lowers(&["openvino.precision=bf16"]));
        assert!(lowers(&["tensorrt.tf32=true"]));
        assert!(!lowers(&[
            "openvino.precision=bf16",
            "openvino.precision=fp32"
        ]));
    }

    #[test]
    fn openvino_is_told_its_precision_and_never_to_pin_threads() {
        let plain = ProviderSettings::default();
        assert_eq!(
            openvino_config("CPU", &plain, false),
            r#"{"CPU":{"INFERENCE_PRECISION_HINT":"f32","ENABLE_CPU_PINNING":"NO"}}"#
        );
        assert_eq!(openvino_config("GPU", &plain, false), r#"{"GPU":{}}"#);
        let asked = ProviderSettings {
            // The last value counts.
            options: ["openvino.precision=fp32", "openvino.precision=bf16"]
                .map(|option| option.parse().unwrap())
                .into(),
            ..ProviderSettings::default()
        };
        let config = openvino_config("CPU", &asked, true);
        assert!(
            config.contains(r#""bf16""#) && !config.contains("f32"),
            "{config}"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&config).is_ok());
    }
}
