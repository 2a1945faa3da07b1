//! The configurations of a command line.

use embedctl::bench::Configuration;
use embedctl::engine::{ProviderChoice, ProviderOption};

use super::super::{idle_option, requested};
use crate::args::{BenchArgs, Devices, MessageArgs};
use crate::failure::CommandFailure;

/// Every combination of what was listed, in the order of the lists; the first list varies slowest.
pub(super) fn listed(
    args: &BenchArgs,
    messages: &MessageArgs,
) -> Result<Vec<Configuration>, CommandFailure> {
    let device = args.engine.runtime.device.as_ref();
    let choice = match &args.engine.provider {
        providers if providers.iter().any(|one| one == "auto") => ProviderChoice::Auto,
        providers => providers.join(",").parse().map_err(CommandFailure::usage)?,
    };
    let pooling = args.model.tokens.pooling.pooling.as_ref();
    let kinds = args.model.kinds.vectors().into_iter();
    let base = Configuration {
        devices: requested::devices(device, &choice)?,
        all_devices: device == Some(&Devices::All),
        ort_library: args.engine.runtime.library.ort_lib.clone(),
        batch_size: args.limits.batches.batch_size,
        window: args.limits.batches.window,
        min_cosine: args.measurement.min_cosine,
        cache_dir: messages.cache_dir.clone(),
        pooling: pooling.map(|modes| modes.iter().map(|mode| mode.name().to_owned()).collect()),
        max_length: args.model.tokens.length.max_length,
        vectors: kinds.map(|kind| kind.name().to_owned()).collect(),
        task: (args.model.kinds.task.as_ref()).map(|task| task.name().to_owned()),
        ..Configuration::default()
    };
    let precisions = args.model.precision.iter();
    let precisions: Vec<String> = precisions.map(|it| it.name().to_owned()).collect();
    let mut all = vec![base];
    each(&mut all, &args.model.model, |one, value| one.model = value);
    each(&mut all, &args.model.model_file, |one, value| {
        one.model_file = Some(value);
    });
    each(&mut all, &precisions, |one, value| {
        one.precision = Some(value);
    });
    each(&mut all, &args.engine.provider, |one, value| {
        one.provider = value;
    });
    let mut all = each_option(&all, args)?;
    each(&mut all, &args.limits.threads, |one, value| {
        one.threads = Some(value);
    });
    each(&mut all, &args.limits.batch_tokens, |one, value| {
        one.batch_tokens = Some(value);
    });
    for (index, one) in all.iter().enumerate() {
        if all[..index].contains(one) {
            return Err(CommandFailure::usage(format!(
                "'{}' is listed twice; list every value once",
                one.label(&all)
            )));
        }
    }
    Ok(all)
}

/// Gives every configuration the options of its provider. Where an option has several values, there is a
/// configuration for each.
fn each_option(
    all: &[Configuration],
    args: &BenchArgs,
) -> Result<Vec<Configuration>, CommandFailure> {
    let concerns = |one: &Configuration, option: &ProviderOption| {
        one.provider == "auto" || one.provider == option.provider.name()
    };
    let runtime = &args.engine.runtime;
    let used = |option: &ProviderOption| all.iter().any(|one| concerns(one, option));
    if let Some(idle) = runtime.idle_option(used) {
        return Err(idle_option(idle));
    }
    let options = &runtime.provider_options;
    let mut given = Vec::new();
    for one in all {
        let mut combinations = vec![one.clone()];
        let own: Vec<&ProviderOption> = options
            .iter()
            .filter(|option| concerns(one, option))
            .collect();
        for (place, option) in own.iter().enumerate() {
            let same = |other: &&&ProviderOption| {
                (other.provider, other.name) == (option.provider, option.name)
            };
            if own[..place].iter().any(|other| same(&other)) {
                continue;
            }
            let values: Vec<ProviderOption> = own.iter().filter(same).map(|one| **one).collect();
            each(&mut combinations, &values, |one, value| {
                one.provider_options.push(value);
            });
        }
        given.extend(combinations);
    }
    Ok(given)
}

/// Replaces every configuration by one for each of `values`; without any, nothing changes.
fn each<T: Clone>(all: &mut Vec<Configuration>, values: &[T], set: impl Fn(&mut Configuration, T)) {
    if values.is_empty() {
        return;
    }
    *all = all
        .iter()
        .flat_map(|one| values.iter().map(move |value| (one.clone(), value.clone())))
        .map(|(mut one, value)| {
            set(&mut one, value);
            one
        })
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_measured_once() {
        let mut all = vec![Configuration::default()];
        each(&mut all, &["cpu", "rten"], |one, value| {
            one.provider = value.into();
        });
        each::<usize>(&mut all, &[], |one, value| one.threads = Some(value));
        each(&mut all, &[256, 512], |one, value| {
            one.batch_tokens = Some(value);
        });
        let pairs: Vec<_> = all
            .iter()
            .map(|one| (one.provider.as_str(), one.batch_tokens, one.threads))
            .collect();
        let expected = [("cpu", 256), ("cpu", 512), ("rten", 256), ("rten", 512)];
        assert_eq!(
            pairs,
            expected.map(|(name, tokens)| (name, Some(tokens), None))
        );
    }
}
