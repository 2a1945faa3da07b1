//! Each provider's settings for a model, from the user's options.

use std::path::PathBuf;

use super::{SessionReading, pooled};
use crate::feeds::InputFeed;
use crate::runtime::registration::{ProviderSettings, ShapeProfiles};
use embedctl_common::error::Result;
use embedctl_common::hash::Hash;
use embedctl_common::user_cache;
use embedctl_engine::provider::value_of;
use embedctl_engine::{EngineOptions, OptionValue, Provider, ProviderOption};
use embedctl_model::Model;
use embedctl_rows::batch::BatchLimits;

/// Batches for a device on which nothing was measured.
pub(super) const DEVICE_LIMITS: BatchLimits = BatchLimits {
    tokens: 16_384,
    rows: 16_384,
    equal_lengths: false,
};

/// The properties of a provider that decide about its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeviceKind {
    /// It is a device of its own beside the processor: workers share a session, batches are large.
    pub device: bool,
    /// It has memory of its own, so that it pays to leave the token states there.
    pub own_memory: bool,
    /// It has several devices with numbers.
    pub numbered: bool,
}

impl DeviceKind {
    pub(super) fn of(provider: Provider, options: &EngineOptions) -> Self {
        let (device, own_memory, numbered) = match provider {
            Provider::Native | Provider::Cpu | Provider::Xnnpack | Provider::Rten => {
                (false, false, false)
            }
            Provider::OpenVino => match value_of(&options.provider_options, provider, "device")
                .and_then(OptionValue::word)
            {
                None | Some("CPU") => (false, false, false),
                Some("GPU") => (true, false, true),
                Some(_) => (true, false, false),
            },
            Provider::CoreMl => (true, false, false),
            // Its device numbers are handles of the program's own, not adapters.
            Provider::WebGpu => (true, true, false),
            Provider::Cuda
            | Provider::TensorRt
            | Provider::TensorRtRtx
            | Provider::DirectMl
            | Provider::MiGraphX => (true, true, true),
        };
        Self {
            device,
            own_memory,
            numbered,
        }
    }
}

/// The settings of `provider` for `model`; the caller fills in the device's number.
pub(super) fn settings(
    provider: Provider,
    model: &Model,
    reading: &SessionReading,
    options: &EngineOptions,
) -> Result<ProviderSettings> {
    let own = options.provider_options.iter();
    let mut settings = ProviderSettings {
        threads: 1,
        options: own
            .filter(|one| one.provider == provider)
            .copied()
            .collect(),
        ..ProviderSettings::default()
    };
    let caches = matches!(provider, Provider::TensorRt | Provider::CoreMl);
    if caches && settings.option("cache") != Some(OptionValue::Flag(false)) {
        settings.cache = cache_folder(provider, model, &settings.options)?;
    }
    if provider == Provider::TensorRt {
        settings.shapes = Some(profiles(reading, model));
    }
    Ok(settings)
}

/// `$XDG_CACHE_HOME/embedctl/tensorrt/HASH`, with the hash of the weights and of the options: an engine
/// holds both, and the provider itself looks at the graph alone. `None` where there is no place for it.
fn cache_folder(
    provider: Provider,
    model: &Model,
    options: &[ProviderOption],
) -> Result<Option<PathBuf>> {
    let Some(base) = user_cache() else {
        return Ok(None);
    };
    let mut hash = Hash::default();
    for file in model.provenance(provider.weights_of(model))?.files {
        hash.add(&file.sha256);
    }
    if let Some(precision) = model.options.precision {
        hash.add(precision.name());
    }
    for ProviderOption { name, value, .. } in options {
        hash.add(format!("{name}={value};"));
    }
    let folder = base.join("embedctl").join(provider.name());
    let folder = folder.join(&hash.hex()[..16]);
    // Without it the provider builds everything again, which is only slower.
    Ok(std::fs::create_dir_all(&folder).ok().map(|()| folder))
}

/// Rows of a batch at most for TensorRT: it reserves memory for the largest batch of the longest texts.
pub(super) fn compiled_rows(model: &Model) -> usize {
    (131_072 / longest(model)).clamp(8, 1024)
}

fn longest(model: &Model) -> usize {
    model.config.limit().unwrap_or(512).clamp(1, 8192)
}

/// One engine for all batches: from one token to the longest texts, tuned for the middle.
fn profiles(reading: &SessionReading, model: &Model) -> ShapeProfiles {
    let (rows, length) = (compiled_rows(model), longest(model));
    let shapes = |rows: usize, length: usize| {
        let tokens = reading
            .feeds
            .inputs
            .iter()
            .filter_map(|input| match &input.feed {
                InputFeed::Tokens(..) => Some(format!("{}:{rows}x{length}", input.name)),
                InputFeed::Past(dims, _) => {
                    let dims: Vec<String> =
                        dims.iter().map(|dim| dim.size(rows).to_string()).collect();
                    Some(format!("{}:{}", input.name, dims.join("x")))
                }
                InputFeed::NoCache => None,
            });
        let weights = reading
            .pooling
            .iter()
            .map(|rule| format!("{}:{rows}x{}x{length}", pooled::WEIGHTS, rule.modes().len()));
        tokens.chain(weights).collect::<Vec<_>>().join(",")
    };
    ShapeProfiles {
        min: shapes(1, 1),
        opt: shapes((rows / 2).max(1), length.min(64)),
        max: shapes(rows, length),
    }
}
