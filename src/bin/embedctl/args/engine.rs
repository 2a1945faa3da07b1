//! Options that say what runs a model: providers, devices, libraries.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use embedctl::engine::{ProviderChoice, ProviderOption};

use super::values::{Devices, NamedValueParser, cosine, devices, providers};

/// The engine and its settings.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub struct EngineArgs {
    #[command(flatten)]
    pub providers: ProviderArgs,

    /// Least cosine to fp32 for bf16, int16 and int8 of the native engine [default: int16 0.999, others 0.99]
    ///
    /// Measured on built-in texts when the model is opened, and on some of the first records. If the cosine is lower,
    /// the run fails and writes nothing.
    #[arg(long, value_name = "COSINE", value_parser = cosine)]
    pub min_cosine: Option<f64>,

    /// Neither read nor keep packed weights in the user's cache
    ///
    /// The native engine keeps the weights of bf16, int16 and int8, and their measured cosine, in
    /// $XDG_CACHE_HOME/embedctl/native (usually ~/.cache), at most 32 GiB, so that the next run starts sooner.
    #[arg(long)]
    pub no_cache: bool,

    #[command(flatten)]
    pub runtime: RuntimeArgs,
}

impl EngineArgs {
    /// Whether TensorRT takes part in this process's own run and must be kept from `TensorFloat-32`.
    pub fn wants_no_tf32(&self) -> bool {
        let options = &self.runtime.provider_options;
        embedctl::runtime::wants_no_tf32(&self.providers.provider, options)
    }
}

/// The providers that may run it.
#[derive(Debug, Args)]
pub struct ProviderArgs {
    /// Execution providers in order of preference, or auto
    ///
    /// auto takes the first of these that works: a GPU provider (cuda, migraphx or webgpu; on Windows cuda or
    /// directml); native, the native engine, if it supports the model's architecture and the model has safetensors;
    /// cpu, if an ONNX Runtime library is found; rten, the built-in engine for ONNX files. -v shows why others were
    /// skipped. A named provider that is unavailable is an error; a list such as cuda,cpu allows the fallback. Names:
    /// native, cpu, cuda (gpu), tensorrt (trt), tensorrt-rtx, directml (dml), coreml, openvino, webgpu, xnnpack,
    /// migraphx (rocm), rten.
    #[arg(
        short,
        long,
        value_name = "PROVIDERS",
        env = "EMBEDCTL_PROVIDER",
        hide_env_values = true,
        default_value = "auto",
        value_parser = NamedValueParser::new(providers(), str::parse::<ProviderChoice>),
        hide_possible_values = true
    )]
    pub provider: ProviderChoice,
}

/// Devices, options and library of a provider.
#[derive(Debug, Args)]
pub struct RuntimeArgs {
    /// Device numbers of the provider, separated by commas, or all
    #[arg(
        long,
        value_name = "DEVICES",
        env = "EMBEDCTL_DEVICE",
        hide_env_values = true,
        value_parser = devices
    )]
    pub device: Option<Devices>,

    /// Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated
    ///
    /// `embedctl embed --help` lists them at its end. `embedctl bench` measures several values of one option.
    #[arg(long = "provider-option", value_name = "OPTION")]
    pub provider_options: Vec<ProviderOption>,

    #[command(flatten)]
    pub library: LibraryArgs,
}

impl RuntimeArgs {
    /// An option that concerns no provider that could be taken, if there is one.
    pub fn idle_option(
        &self,
        concerns: impl Fn(&ProviderOption) -> bool,
    ) -> Option<&ProviderOption> {
        self.provider_options
            .iter()
            .find(|option| !concerns(option))
    }
}

/// The library of ONNX Runtime.
#[derive(Debug, Args)]
pub struct LibraryArgs {
    /// ONNX Runtime library, or its folder; no other library is tried
    ///
    /// Default: ORT_DYLIB_PATH, else libraries beside this program, in the active Python environment, in the packages
    /// of python3 and npm, and in system folders.
    #[arg(
        long,
        value_name = "PATH",
        env = "EMBEDCTL_ORT_LIB",
        hide_env_values = true,
        value_hint = ValueHint::AnyPath
    )]
    pub ort_lib: Option<PathBuf>,
}
