//! Why something does not work and what helps: what every part of the search for libraries speaks in.

/// Why something does not work, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub reason: String,
    pub remedy: Option<String>,
}

impl Cause {
    /// A cause against which nothing is known to help.
    pub(crate) fn of(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: None,
        }
    }

    /// The same, with what helps.
    pub(crate) fn with(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..self
        }
    }

    /// Both, as one sentence and a half.
    pub(crate) fn sentence(self) -> String {
        match self.remedy {
            Some(remedy) => format!("{}. What helps: {remedy}", self.reason),
            None => self.reason,
        }
    }
}

impl From<String> for Cause {
    fn from(reason: String) -> Self {
        Self::of(reason)
    }
}

/// `libcuda.so.1` in `libcuda.so.1: cannot open shared object file: No such file or directory`.
pub(super) fn missing_file(words: &str) -> Option<&str> {
    let before = words.split(": cannot open shared object file").next()?;
    if before.len() == words.len() {
        return None;
    }
    before
        .rsplit([' ', ':'])
        .next()
        .filter(|name| !name.is_empty())
}
