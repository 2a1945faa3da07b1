//! The library's one error type: a kind that programs branch on, a place, and the cause.
//!
//! An error's facts are data ([`Error::kind`], [`Error::place`], [`Error::subject`], `source()`), and become a sentence
//! only in [`Display`](fmt::Display). Programs must not parse that sentence: cases to distinguish have kinds of their
//! own. The command line maps kinds to exit codes.

mod cause;
mod chain;
mod place;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

pub use cause::Cause;
pub use chain::{io_errors, with_causes};
pub use place::Place;

/// Shorthand for results of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error anywhere between opening the input and publishing the output.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    place: Place,
    subject: String,
    reason: String,
    remedy: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of an error, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Options that contradict each other, the model, or the input. Nothing was embedded.
    Usage,
    /// The operating system refused something; its [`io::Error`] is the cause, or among the causes of it.
    Io,
    /// A complete output that cannot have its name; an earlier file of that name is unchanged. The place says where the
    /// output is.
    Unpublished,
    /// An input stream that cannot be read to its end (truncated `.gz`, damaged `.zst`, …).
    Input,
    /// A record that cannot be embedded, if such records end the run.
    Record,
    /// A model folder that is incomplete, inconsistent, or of a kind that embedctl does not run; or the
    /// Hub's refusal to give it out.
    Model,
    /// The Hub has no repository of that name that this user may see.
    NoRepository,
    /// An object store's refusal, or a failure on the way to it; the subject is the address.
    Storage,
    /// The network, not the Hub, kept us from a model.
    Unreachable,
    /// An engine could not load the model, or failed while running it.
    Engine,
    /// There is no usable ONNX Runtime library here, and none was named.
    NoLibrary,
    /// The ONNX Runtime library that the user named cannot be used.
    NamedLibrary,
    /// A provider is not available here, cannot load the model, or left the work to the CPU.
    Provider,
    /// A batch needs more memory than the engine's device has; fewer rows may do.
    OutOfMemory,
    /// The system's resources for the run are exhausted: threads, processes.
    Exhausted,
    /// The reader of our output went away (a closed pipe). Not a failure.
    ClosedPipe,
    /// The run was cancelled.
    Interrupted,
    /// A violated invariant of embedctl: a panic in a worker, a row count that does not add up.
    Internal,
}

impl Error {
    /// An error of `kind`, about `subject`: a model, an engine, an action. May be empty.
    pub fn new(kind: ErrorKind, subject: impl fmt::Display, cause: impl Into<Cause>) -> Self {
        let Cause { reason, remedy } = cause.into();
        Self(Box::new(Inner {
            kind,
            place: Place::default(),
            subject: subject.to_string(),
            reason,
            remedy,
            source: None,
        }))
    }

    /// An [`ErrorKind::Usage`] about options.
    pub fn usage(cause: impl Into<Cause>) -> Self {
        Self::new(ErrorKind::Usage, "", cause)
    }

    /// An [`ErrorKind::Io`], or [`ErrorKind::ClosedPipe`] where the cause is a closed pipe. `action` is a
    /// verb phrase: `read`, `create`, `write to`.
    pub fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            return Self::closed_pipe();
        }
        Self::new(ErrorKind::Io, "", action)
            .at(Place::file(path.as_ref().display().to_string()))
            .caused_by(source)
    }

    /// An [`ErrorKind::Unpublished`]: the output cannot be named `path`, and stays as `kept`.
    #[must_use]
    pub fn unpublished(path: &Path, kept: &Path, source: io::Error) -> Self {
        Self::new(ErrorKind::Unpublished, "", "give the output the name")
            .at(Place {
                kept: Some(kept.to_path_buf()),
                ..Place::file(path.display().to_string())
            })
            .caused_by(source)
    }

    /// An [`ErrorKind::Input`] of the input at `place`.
    pub fn input(place: Place, cause: impl Into<Cause>) -> Self {
        Self::new(ErrorKind::Input, "", cause).at(place)
    }

    /// An [`ErrorKind::Record`] of the record at `place`.
    pub fn record(place: Place, cause: impl Into<Cause>) -> Self {
        Self::new(ErrorKind::Record, "", cause).at(place)
    }

    /// An [`ErrorKind::Model`] of a model's id, folder or file.
    pub fn model(model: impl fmt::Display, cause: impl Into<Cause>) -> Self {
        Self::new(ErrorKind::Model, model, cause)
    }

    /// An [`ErrorKind::Engine`] of the engine of that name.
    pub fn engine(engine: impl fmt::Display, cause: impl Into<Cause>) -> Self {
        Self::new(ErrorKind::Engine, engine, cause)
    }

    /// An [`ErrorKind::ClosedPipe`].
    #[must_use]
    pub fn closed_pipe() -> Self {
        Self::new(
            ErrorKind::ClosedPipe,
            "",
            "the reader of the output closed it",
        )
    }

    /// An [`ErrorKind::Interrupted`].
    #[must_use]
    pub fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "", "interrupted")
    }

    /// An [`ErrorKind::Internal`].
    pub fn internal(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, "", reason)
    }

    /// The same, with the place of the error.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = place;
        self
    }

    /// The same, with the option (or variable) that caused it.
    #[must_use]
    pub fn of_option(mut self, option: impl fmt::Display) -> Self {
        self.0.place.option = Some(option.to_string());
        self
    }

    /// The same, with the remedy.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// The same, with the remedy, if there is one.
    #[must_use]
    pub fn with_remedy_if(mut self, remedy: Option<impl Into<String>>) -> Self {
        self.0.remedy = remedy.map(Into::into);
        self
    }

    /// The same, with its cause.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(cause.into());
        self
    }

    /// The kind of an error, for programs.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The place of the error.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The model or engine that it is about; may be empty.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The reason, without subject, place, remedy and cause; for [`ErrorKind::Io`] the action that failed.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The remedy, unless it is part of the reason.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }

    /// Whether the run was cancelled.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.kind() == ErrorKind::Interrupted
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            place,
            subject,
            reason,
            remedy,
            ..
        } = &*self.0;
        let file = place.file.as_deref().unwrap_or("input");
        match (kind, place.line) {
            (ErrorKind::Unpublished, _) => {
                let kept = place.kept.as_deref().unwrap_or(Path::new("")).display();
                write!(
                    f,
                    "cannot {reason} {file}; it is complete, and stays as {kept}"
                )
            }
            (ErrorKind::Io, _) => write!(f, "cannot {reason} {file}"),
            (ErrorKind::Record, _) => write!(f, "{place}: {reason}"),
            (ErrorKind::Input, Some(line)) => write!(f, "{file}, after line {line}: {reason}"),
            (ErrorKind::Input, None) => write!(f, "{file}: {reason}"),
            (ErrorKind::Model | ErrorKind::NoRepository | ErrorKind::Unreachable, _) => {
                write!(f, "model {subject}: {reason}")
            }
            (ErrorKind::Internal, _) => {
                write!(f, "internal error: {reason}; please report this as a bug")
            }
            _ if subject.is_empty() => f.write_str(reason),
            _ => write!(f, "{subject}: {reason}"),
        }?;
        match remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.kind())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let cause = self.0.source.as_deref()?;
        Some(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_made_of_kind_place_and_reason() {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        for (error, sentence) in [
            (Error::io("read", "a.txt", gone()), "cannot read a.txt"),
            (
                Error::record(Place::file("a.jsonl").line(7), "is no object"),
                "a.jsonl:7: is no object",
            ),
            (
                Error::input(Place::file("a.gz").line(7), "is truncated"),
                "a.gz, after line 7: is truncated",
            ),
            (Error::model("org/m", "lacks it"), "model org/m: lacks it"),
            (Error::engine("rten", "failed"), "rten: failed"),
            (
                Error::usage("--a and --b").with_remedy("leave one out"),
                "--a and --b; leave one out",
            ),
        ] {
            assert_eq!(error.to_string(), sentence);
        }
    }

    #[test]
    fn the_cause_is_kept_and_can_be_had_back() {
        let error = Error::io("read", "a.txt", io::ErrorKind::NotFound.into());
        let cause = error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::NotFound));
        assert_eq!(error.place().file.as_deref(), Some("a.txt"));
    }
}
