//! Why something cannot be, and what helps: what is known before there is an error, or where there will be none.

use std::error::Error as StdError;
use std::fmt;

/// Why something cannot be, as a clause that goes on behind a subject, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// What is wrong.
    pub reason: String,
    /// What helps, where anything is known to.
    pub remedy: Option<String>,
}

impl Cause {
    /// A cause against which nothing is known to help.
    pub fn of(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: None,
        }
    }

    /// The same, with what helps.
    #[must_use]
    pub fn with(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..self
        }
    }

    /// The same, with the reason put into another sentence.
    #[must_use]
    pub fn map(self, sentence: impl FnOnce(&str) -> String) -> Self {
        Self {
            reason: sentence(&self.reason),
            ..self
        }
    }

    /// Both, as one sentence and a half.
    #[must_use]
    pub fn sentence(self) -> String {
        match self.remedy {
            Some(remedy) => format!("{}. What helps: {remedy}", self.reason),
            None => self.reason,
        }
    }
}

/// Both, in one sentence.
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
