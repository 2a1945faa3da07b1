//! Where something went wrong: an option, a file, a line of it.

use std::fmt;
use std::path::PathBuf;

/// The place of an error, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The option, or the environment variable that stands for it: `--keep`.
    pub option: Option<String>,
    /// A file's path, `standard input`, or another name of an input.
    pub file: Option<String>,
    /// A line of the file, from 1; of a truncated input, the last complete one.
    pub line: Option<u64>,
    /// The id of the record that is meant, as it stands in JSON.
    pub id: Option<String>,
    /// The path of a complete output that could not have its name.
    pub kept: Option<PathBuf>,
}

impl Place {
    /// A file, or the name of an input.
    pub fn file(name: impl Into<String>) -> Self {
        Self {
            file: Some(name.into()),
            ..Self::default()
        }
    }

    /// The same, at a line.
    #[must_use]
    pub fn line(self, line: u64) -> Self {
        Self {
            line: Some(line),
            ..self
        }
    }

    /// The same, of the record with this id, as it stands in JSON.
    #[must_use]
    pub fn id(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }
}

/// `a.jsonl:7`, or `a.jsonl:7 (id "x")`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.file
                .as_deref()
                .or(self.option.as_deref())
                .unwrap_or("input"),
        )?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.id {
            Some(id) => write!(f, " (id {id})"),
            None => Ok(()),
        }
    }
}
