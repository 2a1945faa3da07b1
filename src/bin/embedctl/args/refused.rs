//! A command line that was not understood: which environment variable is at fault, and tips that help.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap::builder::{Resettable, StyledStr};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Names that other tools give to an option, and what it is called here.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("--backend", "--provider"),
    ("--chunk-size", "--chunk-tokens"),
    ("--column", "--text-field"),
    ("--cpu", "--provider native,cpu"),
    ("--cuda", "--provider cuda"),
    ("--fp16", "--precision fp16"),
    ("--gpu", "--provider cuda"),
    ("--half", "--precision fp16"),
    ("--id", "--id-field"),
    ("--instruction", "--prompt"),
    ("--jobs", "--threads"),
    ("--max-seq-length", "--max-length"),
    ("--model-id", "--model"),
    ("--model-name", "--model"),
    ("--num-workers", "--threads"),
    ("--overlap", "--chunk-overlap"),
    ("--prefix", "--prompt"),
    ("--revision", "--model NAME@REVISION"),
    ("--skip-errors", "--on-error skip"),
    ("--truncate-dim", "--dimensions"),
    ("--workers", "--threads"),
    ("-j", "--threads"),
];

/// Options of other tools that no single option here stands for: the command of the tip (any, if empty), and the tip.
const OTHER_WAYS: &[(&str, &str, &str)] = &[
    ("--append", "", REUSE),
    ("--host", "", SERVER),
    (
        "--input",
        "score",
        "inputs are arguments: 'embedctl score INPUT… -o OUT'",
    ),
    (
        "--input",
        "search",
        "the output is an argument: 'embedctl search OUT QUERY…', or --queries FILE",
    ),
    (
        "--input",
        "tokens",
        "inputs are arguments: 'embedctl tokens INPUT…'",
    ),
    ("--input", "", INPUTS),
    ("--port", "", SERVER),
    (
        "--query",
        "search",
        "queries are arguments: 'embedctl search OUT QUERY…', or --queries FILE",
    ),
    (
        "--query",
        "",
        "to search an output: 'embedctl search OUT QUERY…'",
    ),
    (
        "--recursive",
        "",
        "a folder stands for the files in it and in its subfolders",
    ),
    ("--update", "", REUSE),
];

const INPUTS: &str = "inputs are arguments: 'embedctl embed INPUT… -o OUT'";
const REUSE: &str =
    "an output is written whole; '--reuse OLD -o NEW' copies vectors of texts that OLD has";
const SERVER: &str = "a server is started by 'embedctl serve'";

/// Other spellings of types, for the arithmetic (`--precision`) and for components (`--dtype`).
const OTHER_TYPES: &[(&str, &str, &str)] = &[
    ("bfloat16", "bf16", ""),
    ("f16", "fp16", "f16"),
    ("f32", "fp32", "f32"),
    ("float", "fp32", "f32"),
    ("float16", "fp16", "f16"),
    ("float32", "fp32", "f32"),
    ("fp16", "fp16", "f16"),
    ("fp32", "fp32", "f32"),
    ("half", "fp16", "f16"),
];

/// Other names of input formats, and what they are here.
const OTHER_FORMATS: &[(&str, &str)] = &[
    ("markdown", "file"),
    ("md", "file"),
    ("ndjson", "jsonl"),
    ("openai", "openai-batch"),
    ("txt", "text"),
];

/// Improves clap's error about `arguments`.
pub(super) fn improved(mut error: Error, arguments: &[OsString]) -> Error {
    match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            if let Some(said) = other_value(&error) {
                error.remove(ContextKind::SuggestedValue);
                tip(&mut error, &said);
            }
            if let Some(named) = variable(&error, arguments) {
                error.insert(ContextKind::InvalidArg, ContextValue::String(named));
            }
        }
        ErrorKind::InvalidSubcommand => {
            let given = text(&error, ContextKind::InvalidSubcommand).unwrap_or_default();
            keep_nearest(&mut error, &given);
            if given.contains(['.', '/']) || Path::new(&given).exists() {
                tip(
                    &mut error,
                    "to embed a file: 'embedctl embed FILE -o OUT.parquet'",
                );
            }
        }
        ErrorKind::UnknownArgument => {
            let given = text(&error, ContextKind::InvalidArg).unwrap_or_default();
            if let Some(refused) = of_vectors(&given, arguments) {
                return refused;
            }
            // An unknown option is not a file name, so `-- OPTION` is no help.
            error.remove(ContextKind::Suggested);
            let near =
                text(&error, ContextKind::SuggestedArg).is_some_and(|one| is_near(&given, &one));
            if !near {
                error.remove(ContextKind::SuggestedArg);
            }
            if let Some(said) = other_option(&given, arguments) {
                error.remove(ContextKind::SuggestedArg);
                tip(&mut error, &said);
            }
        }
        _ => {}
    }
    error
}

/// Of several subcommands that `given` may be, leaves the nearest.
fn keep_nearest(error: &mut Error, given: &str) {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) else {
        return;
    };
    let nearest = (names.iter()).min_by_key(|name| strsim::osa_distance(given, name));
    if let Some(nearest) = nearest.cloned() {
        let nearest = ContextValue::Strings(vec![nearest]);
        error.insert(ContextKind::SuggestedSubcommand, nearest);
    }
}

/// What an option of other tools is called here, or how its aim is reached, in the subcommand that was asked for.
fn other_option(given: &str, arguments: &[OsString]) -> Option<String> {
    let mut command = super::command();
    command.build();
    let asked = asked_command(&command, arguments);
    if let Some((_, own)) = OTHER_NAMES.iter().find(|(name, _)| *name == given) {
        let long = own.split(' ').next()?.strip_prefix("--")?;
        let mut known = asked?.get_arguments();
        let is_known = known.any(|arg| arg.get_long() == Some(long));
        return is_known.then(|| format!("here it is '{own}'"));
    }
    let name = asked.map_or("", Command::get_name);
    let mut ways = OTHER_WAYS.iter().filter(|(option, ..)| *option == given);
    let (_, _, said) = ways.find(|(_, command, _)| command.is_empty() || *command == name)?;
    Some((*said).to_owned())
}

/// The subcommand that a command line names.
fn asked_command<'c>(command: &'c Command, arguments: &[OsString]) -> Option<&'c Command> {
    (arguments.iter().skip(1)).find_map(|word| command.find_subcommand(word))
}

/// The error for an option of `embed` that was given to `score`: what both have in common is about records, and the others
/// are about vectors.
fn of_vectors(given: &str, arguments: &[OsString]) -> Option<Error> {
    let name = given.strip_prefix("--")?;
    let mut command = super::command();
    command.build();
    let asked = asked_command(&command, arguments);
    let is_score = asked.is_some_and(|asked| asked.get_name() == "score");
    let mut known = command.find_subcommand("embed")?.get_arguments();
    let is_known = known.any(|arg| arg.get_long() == Some(name));
    (is_score && is_known).then(|| {
        let reason = format!("{given} is about vectors, but `score` writes scores; leave it out\n");
        super::command().error(ErrorKind::UnknownArgument, reason)
    })
}

/// The right spelling for a value that other tools spell otherwise, or that is missing.
fn other_value(error: &Error) -> Option<String> {
    let option = text(error, ContextKind::InvalidArg)?;
    let name = option.split([' ', '=']).next()?;
    let given = text(error, ContextKind::InvalidValue)?.to_ascii_lowercase();
    if given.is_empty() && option.ends_with("<BOOL>") {
        return Some(format!("'{name} true'"));
    }
    if name == "--chunk" && given.parse::<u64>().is_ok() {
        return Some(format!("'--chunk tokens --chunk-tokens {given}'"));
    }
    if name == "--input-format" {
        let (_, own) = OTHER_FORMATS.iter().find(|(other, _)| *other == given)?;
        return Some(format!("here it is '{own}'"));
    }
    if name == "--device" && given == "cpu" {
        return Some("here it is '--provider native,cpu'".to_owned());
    }
    let (_, precision, dtype) = OTHER_TYPES.iter().find(|(other, ..)| *other == given)?;
    let own = match name {
        "--precision" => precision,
        "--dtype" => dtype,
        _ => return None,
    };
    Some(format!("here it is '{own}'")).filter(|_| !own.is_empty())
}

/// Adds a line to what clap advises.
fn tip(error: &mut Error, words: &str) {
    let words = vec![StyledStr::from(words.to_owned())];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(words));
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
