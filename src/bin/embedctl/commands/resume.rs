//! Jobs on the command line: complete outputs, the parts kept after a failure, and the command that resumes.

use std::ffi::OsString;

use embedctl::cancel::CancelToken;
use embedctl::input::Source;
use embedctl::output::RunFiles;
use embedctl::pipeline::{self, Complete, EmbedOptions, RunPlan};
use embedctl::secrets::REDACTED;
use embedctl::{Error, ErrorKind};

use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::printer::{Printer, count, number};
use crate::secrets;

/// With `--resume`, reports an output that is already complete.
pub fn finished(
    plan: &RunPlan,
    printer: &Printer,
    cancel: &CancelToken,
) -> Result<Option<ExitCode>, CommandFailure> {
    let Some(Complete {
        state,
        all,
        rejected,
    }) = plan.finished(cancel)?
    else {
        return Ok(None);
    };
    if let Some(older) = state.of_older() {
        printer.note(older);
    }
    let what = match state.parts.len() {
        0 => String::new(),
        parts => format!(
            ", with {} rows in {}",
            count(state.rows()),
            number(parts as u64, "part")
        ),
    };
    printer.info(match all {
        true => format!("nothing to do: the output is complete{what}"),
        false => format!(
            "nothing to do: this shard is complete{what}; the output is complete when all other shards are"
        ),
    });
    Ok(Some(code(rejected)))
}

/// The code of a complete job: of all of its runs, not of the last alone.
pub fn code(rejected: u64) -> ExitCode {
    if rejected > 0 {
        ExitCode::Rejected
    } else {
        ExitCode::Done
    }
}

/// Adds a hint to a failed run: the parts kept, and the command that resumes.
pub fn explain(
    failure: CommandFailure,
    options: &EmbedOptions,
    files: &RunFiles,
) -> CommandFailure {
    // A command that was refused would be refused again.
    if failure.exit_code() == ExitCode::Usage && options.job.resume {
        return failure;
    }
    let Ok(Some(job)) = pipeline::job(&embed_options(options), files) else {
        return failure;
    };
    let input = match options.sources.contains(&Source::Stdin) {
        true => " the same standard input and",
        false => "",
    };
    let command = command(std::env::args_os());
    let state = match job.look() {
        Ok(state) if state.job.is_some() && !state.success => state,
        // After an interrupt, no more requests go to an object store. Or it has stopped.
        Err(error) if error.is_interrupted() || is_away(&error) => {
            return failure.with_hint(format!(
                "published parts are safe; resume with{input}: {command}"
            ));
        }
        _ => return failure,
    };
    let (rows, parts) = (count(state.rows()), state.parts.len());
    if parts == 0 && failure.exit_code() == ExitCode::Usage {
        return failure;
    }
    if parts == 0 {
        return failure.with_hint(format!(
            "no part was finished yet; start over with{input}: {command}"
        ));
    }
    failure.with_hint(format!(
        "{rows} rows in {} are safe; resume with{input}: {command}",
        number(parts as u64, "part")
    ))
}

/// Whether a store does not answer any more.
fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Storage | ErrorKind::Unreachable)
}

/// The same job with `--resume`, as in the suggested command.
fn embed_options(options: &EmbedOptions) -> EmbedOptions {
    let mut options = options.clone();
    options.job.resume = true;
    options
}

/// The command line of this run without its secrets, with `--resume`.
fn command(arguments: impl IntoIterator<Item = OsString>) -> String {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let shown = secrets::redacted(&arguments);
    let mut words: Vec<String> = Vec::new();
    let mut added = false;
    for (index, word) in shown.iter().enumerate() {
        if matches!(word.as_str(), "--force" | "--overwrite" | "--resume") {
            continue;
        }
        words.push(quoted(word));
        let is_command = matches!(word.as_str(), "embed" | "score");
        if index > 0 && is_command && !added {
            words.push("--resume".to_owned());
            added = true;
        }
    }
    let mut command = words.join(" ");
    if shown.iter().any(|word| word.contains(REDACTED)) {
        command.push_str(&format!(" (replace {REDACTED} with the secret)"));
    }
    command
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_goes_on_is_this_one_with_resume() {
        let typed = [
            "/usr/bin/embedctl",
            "-q",
            "embed",
            "--force",
            "it's.txt",
            "-o",
            "out/",
        ];
        assert_eq!(
            command(typed.map(OsString::from)),
            r"/usr/bin/embedctl -q embed --resume 'it'\''s.txt' -o out/"
        );
    }
}
