//! A command line that was not understood: which environment variable is at fault, and tips that help.

use std::ffi::OsString;

use clap::Command;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Improves clap's error about `arguments`.
pub(super) fn improved(mut error: Error, arguments: &[OsString]) -> Error {
    match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            if let Some(named) = variable(&error, arguments) {
                error.insert(ContextKind::InvalidArg, ContextValue::String(named));
            }
        }
        ErrorKind::UnknownArgument => {
            let given = text(&error, ContextKind::InvalidArg).unwrap_or_default();
            // An unknown option is not a file name, so `-- OPTION` is no help.
            if given.starts_with("--") {
                error.remove(ContextKind::Suggested);
            }
            let near =
                text(&error, ContextKind::SuggestedArg).is_some_and(|one| is_near(&given, &one));
            if !near {
                error.remove(ContextKind::SuggestedArg);
            }
        }
        _ => {}
    }
    error
}

/// The variable that the value that `error` is about comes from, with its option.
fn variable(error: &Error, arguments: &[OsString]) -> Option<String> {
    let option = text(error, ContextKind::InvalidArg)?;
    let without = super::command().mut_args(|arg| arg.env(Resettable::Reset));
    let without = without.mut_subcommands(|one| one.mut_args(|arg| arg.env(Resettable::Reset)));
    // An error without any variables comes from the command line.
    let same = |other: &Error| text(other, ContextKind::InvalidArg).as_ref() == Some(&option);
    if without
        .try_get_matches_from(arguments)
        .is_err_and(|other| same(&other))
    {
        return None;
    }
    let mut command = super::command();
    command.build();
    let mut args = command.get_subcommands().flat_map(Command::get_arguments);
    let arg = args.find(|arg| arg.get_env().is_some() && arg.to_string() == option)?;
    Some(format!("{} ({option})", arg.get_env()?.display()))
}

fn text(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// Whether `given` may be a misspelling of `known`, or its beginning.
fn is_near(given: &str, known: &str) -> bool {
    let [given, known] = [given, known].map(|name| name.trim_start_matches('-'));
    known.starts_with(given) || 3 * strsim::osa_distance(given, known) <= given.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        for (given, known) in [
            ("--normalise", "--normalize"),
            ("--ouput", "--output"),
            ("--pool", "--pooling"),
            ("--batch-token", "--batch-tokens"),
        ] {
            assert!(is_near(given, known), "{given} {known}");
        }
        for (given, known) in [
            ("--dtype", "--id-type"),
            ("--gpu", "--help"),
            ("--fp16", "--force"),
        ] {
            assert!(!is_near(given, known), "{given} {known}");
        }
    }
}
