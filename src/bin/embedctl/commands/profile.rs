//! The tuned profile of a run: found by model, machine and provider, overridden by options.

use std::ffi::OsStr;
use std::path::PathBuf;

use embedctl::bench::Machine;
use embedctl::engine::{self, EngineOptions, ProviderChoice};
use embedctl::error::Cause;
use embedctl::model::{Model, ModelOptions};
use embedctl::pipeline::EmbedOptions;
use embedctl::profile::{self, Profile, Tuned};
use embedctl::provenance::ProfileUsed;

use crate::args::EmbedArgs;
use crate::failure::CommandFailure;
use crate::printer::Printer;

/// Applies the settings of a profile that no option sets; returns the profile if any setting was used.
pub fn apply(
    args: &EmbedArgs,
    options: &mut EmbedOptions,
    printer: &Printer,
) -> Result<Option<Profile>, CommandFailure> {
    let (limits, runtime) = (&args.limits, &args.engine.runtime);
    let Some(folder) = profile::default_folder() else {
        return Ok(None);
    };
    let Some(provider) = requested(&options.engine.providers) else {
        return Ok(None);
    };
    // A model that is not as it should be is refused where everything else about it is.
    let Ok(file) = main_file(&options.model, &options.engine) else {
        return Ok(None);
    };
    let fingerprint = profile::fingerprint(&file)?;
    let (profile, path) = Profile::find(
        &folder,
        &fingerprint,
        &Machine::here().signature(),
        &provider,
    )?;
    let Some(profile) = profile else {
        printer.detail(format!(
            "no tuned profile for this model, machine and provider ({}); `embedctl bench --tune` makes a profile",
            path.display()
        ));
        return Ok(None);
    };
    let settings = &profile.settings;
    let onnx = &args.model.overrides.onnx;
    let named = onnx.precision.is_some() || onnx.model_file.is_some();
    // Settings tuned for another library, other weights or other options do not apply here.
    let otherwise = [
        (settings.provider.is_some() && runtime.library.ort_lib.is_some()).then_some("--ort-lib"),
        (settings.precision.is_some() && named).then_some("--precision or --model-file"),
        (!settings.provider_options.is_empty() && !runtime.provider_options.is_empty())
            .then_some("--provider-option"),
    ];
    if let Some(option) = otherwise.into_iter().flatten().next() {
        printer.detail(format!(
            "{option} overrides the tuned profile {}, which is not used",
            path.display()
        ));
        return Ok(None);
    }
    let taken = Tuned {
        threads: settings.threads.filter(|_| limits.threads.is_none()),
        // A limit of rows was chosen with the engine's own budget in mind.
        batch_tokens: settings
            .batch_tokens
            .filter(|_| limits.batch_tokens.is_none() && limits.batches.batch_size.is_none()),
        window: settings.window.filter(|_| limits.batches.window.is_none()),
        ..settings.clone()
    };
    if taken == Tuned::default() {
        printer.detail(format!(
            "options override all of the tuned profile {}",
            path.display()
        ));
        return Ok(None);
    }
    let damaged = |cause: Cause| {
        CommandFailure::usage(format!("{}: {}", path.display(), cause.reason))
            .with_hint("remove it, or use --no-profile".into())
    };
    if let Some(precision) = &taken.precision {
        let model = ModelOptions {
            precision: Some(precision.parse().map_err(damaged)?),
            ..options.model.clone()
        };
        if let Err(error) = main_file(&model, &options.engine) {
            printer.note(format!(
                "the tuned profile {} needs the model in {precision} and is not used: {error}; `embedctl bench --tune` makes a new profile",
                path.display()
            ));
            return Ok(None);
        }
        options.model = model;
    }
    if let Some(provider) = &taken.provider {
        let provider = provider.parse().map_err(damaged)?;
        options.engine.providers = ProviderChoice::Preferably(provider);
    }
    let engine = &mut options.engine;
    engine.provider_options.extend(&taken.provider_options);
    engine.workers = taken.threads.unwrap_or(engine.workers);
    engine.batch_tokens = engine.batch_tokens.or(taken.batch_tokens);
    if let Some(window) = taken.window {
        options.input.window_rows = window;
    }
    let name = path
        .file_stem()
        .map_or_else(String::new, |name| OsStr::to_string_lossy(name).into());
    options.profile = Some(ProfileUsed {
        name,
        settings: taken,
    });
    printer.detail(format!("tuned profile {}", path.display()));
    Ok(Some(profile))
}

/// The file that tells the model.
fn main_file(model: &ModelOptions, engine: &EngineOptions) -> embedctl::Result<PathBuf> {
    Model::main_file(&engine::settle(model, engine)?.0)
}

/// The provider that profiles are kept under; a list of several has none, since it is not known yet which
/// will be taken.
fn requested(providers: &ProviderChoice) -> Option<String> {
    match providers {
        ProviderChoice::Auto | ProviderChoice::Preferably(_) => Some("auto".to_owned()),
        ProviderChoice::List(list) => match list[..] {
            [one] => Some(one.to_string()),
            _ => None,
        },
    }
}
