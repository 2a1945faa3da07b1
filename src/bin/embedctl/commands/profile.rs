//! The tuned profile of a run: found by model, machine and provider, overridden by options.

use std::ffi::OsStr;

use embedctl::bench::{self, Machine, Profile, Tuned};
use embedctl::engine::ProviderChoice;
use embedctl::model::Model;
use embedctl::pipeline::EmbedOptions;
use embedctl::provenance::ProfileUsed;

use crate::args::EmbedArgs;
use crate::failure::Failure;
use crate::printer::Printer;

/// Fills in what a profile says and no option does; the profile, if anything was taken from it.
pub fn apply(
    args: &EmbedArgs,
    options: &mut EmbedOptions,
    printer: &Printer,
) -> Result<Option<Profile>, Failure> {
    let limits = &args.limits;
    let Some(folder) = bench::profile_folder() else {
        return Ok(None);
    };
    let Some(provider) = requested(&options.engine.providers) else {
        return Ok(None);
    };
    // A model that is not as it should be is refused where everything else about it is.
    let Ok(onnx) = Model::onnx_file(&options.model) else {
        return Ok(None);
    };
    let fingerprint = bench::fingerprint(&onnx)?;
    let (profile, path) = Profile::find(&folder, &fingerprint, &Machine::here(), &provider)?;
    let Some(profile) = profile else {
        printer.detail(format!(
            "no tuned profile for this model, machine and provider ({}); `embedctl bench --tune` makes one",
            path.display()
        ));
        return Ok(None);
    };
    let taken = Tuned {
        threads: profile
            .settings
            .threads
            .filter(|_| limits.threads.is_none()),
        // A limit of rows was chosen with the engine's own budget in mind.
        batch_tokens: profile
            .settings
            .batch_tokens
            .filter(|_| limits.batch_tokens.is_none() && limits.batch_size.is_none()),
        window: profile.settings.window.filter(|_| limits.window.is_none()),
    };
    if taken == Tuned::default() {
        printer.detail(format!(
            "options override all of the tuned profile {}",
            path.display()
        ));
        return Ok(None);
    }
    options.threads = options.threads.or(taken.threads);
    options.batch_tokens = options.batch_tokens.or(taken.batch_tokens);
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

/// The provider that profiles are kept under; a list of several has none, since it is not known yet which
/// will be taken.
fn requested(providers: &ProviderChoice) -> Option<String> {
    match providers {
        ProviderChoice::Auto => Some("auto".to_owned()),
        ProviderChoice::List(list) => match list[..] {
            [one] => Some(one.to_string()),
            _ => None,
        },
    }
}
