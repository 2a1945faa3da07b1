//! A command's failure: the error with its causes, the exit code it leads to, and a hint.

use std::any::Any;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use embedctl::engine::ort::FullMessage;
use embedctl::error::Cause;
use embedctl::{Error, ErrorKind};

use crate::exit::ExitCode;

/// Why a command did not succeed.
#[derive(Debug)]
pub struct CommandFailure {
    error: anyhow::Error,
    hint: Option<String>,
}

impl CommandFailure {
    /// An error in the options, with a remedy.
    pub fn usage(cause: impl Into<Cause>) -> Self {
        Error::usage(cause).into()
    }

    /// The message and then its causes, outermost first. A cause whose words already stand in the
    /// message before it is left out.
    pub fn messages(&self) -> Vec<String> {
        let mut messages: Vec<String> = Vec::new();
        for cause in self.error.chain() {
            if cause.is::<FullMessage>() {
                continue;
            }
            let text = cause.to_string();
            if !messages.iter().any(|message| message.contains(&text)) {
                messages.push(text);
            }
        }
        messages
    }

    /// An engine's message in full, where the error gives its reason alone.
    pub fn details(&self) -> Option<String> {
        let mut causes = self.error.chain();
        causes.find_map(|cause| Some(cause.downcast_ref::<FullMessage>()?.to_string()))
    }

    /// A hint; printed after everything else.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same, with this hint added.
    pub fn with_hint(self, hint: String) -> Self {
        let hint = match &self.hint {
            Some(first) => format!("{first}; {hint}"),
            None => hint,
        };
        Self {
            hint: Some(hint),
            ..self
        }
    }

    /// Adds a hint with the environment `variables` that may be the cause, if there is no other hint.
    pub fn named_by_variables(mut self, variables: &[OsString]) -> Self {
        let concerned: &[&str] = self
            .error
            .chain()
            .find_map(|cause| match cause.downcast_ref::<Error>()?.kind() {
                ErrorKind::Model | ErrorKind::NoRepository | ErrorKind::Unreachable => {
                    Some(&["EMBEDCTL_MODEL"][..])
                }
                ErrorKind::Engine
                | ErrorKind::NoLibrary
                | ErrorKind::NamedLibrary
                | ErrorKind::Provider => {
                    Some(&["EMBEDCTL_PROVIDER", "EMBEDCTL_ORT_LIB", "EMBEDCTL_DEVICE"])
                }
                _ => None,
            })
            .unwrap_or_default();
        let set = concerned
            .iter()
            .filter(|&&name| variables.iter().any(|one| *one == *name));
        let set: Vec<&str> = set.copied().collect();
        if self.hint.is_none() && !set.is_empty() {
            let value = |name: &&str| {
                let value = std::env::var_os(name).unwrap_or_default();
                format!("{name}={}", value.display())
            };
            let set: Vec<String> = set.iter().map(value).collect();
            self.hint = Some(format!("the environment sets {}", set.join(" ")));
        }
        self
    }

    /// Adds a hint with the settings files of this run, if there is no other hint.
    pub fn named_by_files(mut self, files: &[PathBuf]) -> Self {
        let causes = &mut self.error.chain();
        let of_options = causes.any(|cause| {
            use ErrorKind::{
                Engine, Model, NamedLibrary, NoLibrary, NoRepository, Provider, Usage,
            };
            matches!(
                cause.downcast_ref().map(Error::kind),
                Some(Engine | Model | NamedLibrary | NoLibrary | NoRepository | Provider | Usage)
            )
        });
        if self.hint.is_none() && of_options && !files.is_empty() {
            let files: Vec<String> = files
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            self.hint = Some(format!(
                "settings files also set options ({}): `embedctl config` shows them",
                files.join(" and ")
            ));
        }
        self
    }

    /// Whether a model cannot be run as it was asked for.
    pub fn is_about_model(&self) -> bool {
        let mut kinds = self.error.chain().filter_map(|cause| cause.downcast_ref());
        kinds.any(|error: &Error| error.kind() == ErrorKind::Model)
    }

    /// The code that this failure leads to.
    pub fn exit_code(&self) -> ExitCode {
        let mut is_told = false;
        for cause in self.error.chain() {
            match cause.downcast_ref().map(Error::kind) {
                Some(ErrorKind::Usage) => return ExitCode::Usage,
                Some(ErrorKind::Interrupted) => return ExitCode::Interrupted,
                Some(ErrorKind::ClosedPipe) => return ExitCode::Done,
                // The library tells a closed output from any other pipe that breaks, such as an input.
                Some(_) => is_told = true,
                None => {}
            }
            let system = cause.downcast_ref::<io::Error>();
            if !is_told && system.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
                return ExitCode::Done;
            }
        }
        ExitCode::Failed
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.messages().join(": "))
    }
}

impl From<anyhow::Error> for CommandFailure {
    fn from(error: anyhow::Error) -> Self {
        let hint = error.chain().find_map(|cause| hint(cause.downcast_ref()?));
        Self { error, hint }
    }
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        anyhow::Error::new(error).into()
    }
}

/// Advice about options of this command line, which the library does not know.
fn hint(error: &Error) -> Option<String> {
    let advice = "--on-error skip --rejects PATH leaves bad records out and lists them in PATH";
    (error.kind() == ErrorKind::Record).then(|| advice.to_owned())
}

/// Runs `work`; a panic becomes a failure like any other, so that it has a message and an exit code.
pub fn catch_panic<T>(
    work: impl FnOnce() -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    // Nothing of `work` is used after a panic but the message.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(Error::internal(panic_message(payload.as_ref())).into()))
}

/// The words of a panic.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    fn io_error(kind: io::ErrorKind) -> CommandFailure {
        Error::io("write to", "out.jsonl", io::Error::from(kind)).into()
    }

    #[test]
    fn wrong_options_are_told_from_failures() {
        assert_eq!(CommandFailure::usage("no").exit_code(), ExitCode::Usage);
        assert_eq!(
            CommandFailure::from(Error::model("m", "is broken")).exit_code(),
            ExitCode::Failed
        );
    }

    #[test]
    fn an_interrupt_is_found_under_context() {
        let error = Err::<(), _>(Error::interrupted()).context("embedding");
        let failure = CommandFailure::from(error.expect_err("made as an error"));
        assert_eq!(failure.exit_code(), ExitCode::Interrupted);
    }

    #[test]
    fn a_closed_pipe_is_no_failure_wherever_it_comes_from() {
        assert_eq!(
            io_error(io::ErrorKind::BrokenPipe).exit_code(),
            ExitCode::Done
        );
        let raw = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(CommandFailure::from(raw).exit_code(), ExitCode::Done);
    }

    #[test]
    fn a_pipe_that_breaks_on_the_way_in_is_a_failure() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        let input = Error::new(ErrorKind::Io, "", "read").caused_by(broken);
        assert_eq!(CommandFailure::from(input).exit_code(), ExitCode::Failed);
    }

    #[test]
    fn a_full_disk_is_a_failure_with_its_cause() {
        let failure = io_error(io::ErrorKind::StorageFull);
        assert_eq!(failure.exit_code(), ExitCode::Failed);
        assert_eq!(
            failure.messages(),
            ["cannot write to out.jsonl", "no storage space"]
        );
    }

    #[test]
    fn a_cause_is_not_repeated() {
        let error = anyhow::anyhow!("disk full").context("cannot write: disk full");
        assert_eq!(
            CommandFailure::from(error).to_string(),
            "cannot write: disk full"
        );
    }

    #[test]
    fn a_panic_becomes_a_failure() {
        let failure = catch_panic::<()>(|| panic!("row {} is missing", 7)).expect_err("panicked");
        assert_eq!(failure.exit_code(), ExitCode::Failed);
        assert_eq!(
            failure.to_string(),
            "internal error: row 7 is missing; please report this as a bug"
        );
    }
}
