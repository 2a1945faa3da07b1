//! Options of every command that runs a model, whatever the provider.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use embedctl::engine::ProviderOption;

use super::values::{Devices, devices};

/// On which devices a provider runs, with which options, out of which library.
#[derive(Debug, Args)]
pub struct RuntimeArgs {
    /// Device numbers of the provider, with commas between, or all
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
    /// `embedctl embed --help` ends with a list of them. `embedctl bench` measures each of several values
    /// of one option.
    #[arg(long = "provider-option", value_name = "OPTION")]
    pub provider_options: Vec<ProviderOption>,

    /// ONNX Runtime library, or the folder that holds it
    ///
    /// Without it: ORT_DYLIB_PATH, beside this program, the active Python environment, the packages of
    /// python3 and of npm, system folders.
    #[arg(
        long,
        value_name = "PATH",
        env = "EMBEDCTL_ORT_LIB",
        hide_env_values = true,
        value_hint = ValueHint::AnyPath
    )]
    pub ort_lib: Option<PathBuf>,
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
