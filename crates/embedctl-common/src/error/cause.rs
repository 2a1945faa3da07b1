//! A reason with its remedy, before it becomes an error or without ever becoming one.

use std::error::Error as StdError;
use std::fmt;

/// A reason, as the predicate of a sentence, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The reason.
    pub reason: String,
    /// The remedy, if one is known.
    pub remedy: Option<String>,
}

impl Cause {
    /// A cause without a remedy.
    pub fn of(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: None,
        }
    }

    /// The same, with the remedy.
    #[must_use]
    pub fn with(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..self
        }
    }

    /// The same, with the reason in another sentence.
    #[must_use]
    pub fn map(self, sentence: impl FnOnce(&str) -> String) -> Self {
        Self {
            reason: sentence(&self.reason),
            ..self
        }
    }

    /// Reason and remedy, as two sentences.
    #[must_use]
    pub fn sentence(self) -> String {
        match self.remedy {
            Some(remedy) => format!("{}. Remedy: {remedy}", self.reason),
            None => self.reason,
        }
    }
}

/// Reason and remedy, in one sentence.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl StdError for Cause {}

impl<T: Into<String>> From<T> for Cause {
    fn from(reason: T) -> Self {
        Self::of(reason)
    }
}

impl From<&Cause> for Cause {
    fn from(cause: &Cause) -> Self {
        cause.clone()
    }
}
