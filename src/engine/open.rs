//! Opening a model: the providers of a choice, one after another, until one works.

use super::{Engine, EngineOptions, PassedOver, Provider, ProviderChoice, auto, ort, rten};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::runtime::selection::Selection;

/// Opens the first provider of the choice that works, remembering why others were passed over.
///
/// `auto` goes through [`auto::order`], and falls back from a provider that does not work here or
/// does not do the work. It does not fall back from the CPU because of the model: one that ONNX Runtime
/// refuses there is an error, since falling back would hide it. A list falls back from each of its members
/// to the next, and to nothing else. A library that the user named must work wherever it is needed.
pub fn open(model: &Model, options: &EngineOptions) -> Result<Box<dyn Engine>> {
    let probing = options.runtime.probe.is_some();
    let order = auto::order(probing);
    let (providers, auto) = match &options.providers {
        ProviderChoice::Auto => (order.to_vec(), true),
        ProviderChoice::Preferably(first) => {
            let others = order.iter().filter(|provider| *provider != first);
            (
                std::iter::once(first).chain(others).copied().collect(),
                true,
            )
        }
        ProviderChoice::List(list) => (list.clone(), false),
    };
    let device = options.devices.first().copied().unwrap_or(0);
    // A device that the processor emulates is for who asks for it by name.
    let selection = Selection::new(&options.runtime, device, !auto, &options.cancel);
    let mut passed_over: Vec<PassedOver> = Vec::new();
    let passed = |provider: Provider, reason: String| PassedOver {
        candidate: provider.to_string(),
        reason,
    };
    if auto && let Some((provider, reason)) = auto::left_out(probing) {
        passed_over.push(passed(provider, reason.to_owned()));
    }
    let mut last = None;
    for provider in providers {
        if auto
            && !matches!(provider, Provider::Cpu | Provider::Rten)
            && let Some(reason) = auto::hopeless(provider, || selection.may_have(provider))
        {
            passed_over.push(passed(provider, reason));
            continue;
        }
        let opened = match provider {
            Provider::Rten => rten::open(model, options, &passed_over),
            other => ort::open(model, options, other, &selection, &passed_over),
        };
        match opened {
            Ok(engine) => return Ok(engine),
            Err(error) => {
                let stop = match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::NamedLibrary => true,
                    ErrorKind::NoLibrary | ErrorKind::Provider => false,
                    _ => auto && provider != Provider::Rten,
                };
                if stop {
                    return Err(error);
                }
                passed_over.push(passed(provider, reason(&error)));
                last = Some(error);
            }
        }
    }
    Err(match last {
        // What is wrong with the model itself is wrong for every engine.
        Some(error) if matches!(error.kind(), ErrorKind::Model | ErrorKind::Io) => error,
        Some(error) if passed_over.len() == 1 => error,
        _ => Error::new(ErrorKind::Provider, "embedctl", none_works(&passed_over)),
    })
}

/// An error's reason without the engine's name, which stands beside it.
fn reason(error: &Error) -> String {
    match (error.kind(), error.remedy()) {
        (ErrorKind::Engine | ErrorKind::NoLibrary | ErrorKind::Provider, None) => {
            error.reason().to_owned()
        }
        _ => error.to_string(),
    }
}

fn none_works(passed_over: &[PassedOver]) -> String {
    let reasons: Vec<String> = passed_over
        .iter()
        .map(|one| format!("{}: {}", one.candidate, one.reason))
        .collect();
    format!("no provider works here ({})", reasons.join("; "))
}
