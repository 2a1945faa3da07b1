//! What is known of a source while its records are read, and the errors that name it.

use crate::format::InputFormat;
use crate::json;
use crate::lines::Line;
use embedctl_common::error::{Cause, Error, Place, Result};
use embedctl_common::setting::{INPUT_FORMAT, Setting};

/// Fields that are listed in a message.
const LISTED: usize = 40;

/// A source by what its records need of it.
#[derive(Debug, Clone)]
pub struct SourceFacts {
    /// Its place among the sources.
    pub index: u32,
    /// Its name, for messages.
    pub name: String,
    /// How its records are written.
    pub format: InputFormat,
    /// Whether the format is assumed to be text, since no option or ending names it.
    pub guessed: bool,
}

impl SourceFacts {
    /// The error for an option that this source cannot serve.
    pub fn usage(&self, cause: impl Into<Cause>) -> Error {
        let cause = cause.into();
        Error::usage(cause.map(|reason| format!("{}: {reason}", self.name)))
    }

    /// It has no such field, but others.
    pub fn missing<'n>(
        &self,
        option: Setting,
        name: &str,
        fields: impl Iterator<Item = &'n str>,
    ) -> Error {
        let (what, whose) = match self.format {
            format if format.is_table() || format.has_header() => ("column", "the columns are"),
            _ => ("field", "the first record has"),
        };
        let fields: Vec<_> = fields.collect();
        if self.format == InputFormat::Jsonl
            && ["custom_id", "body"]
                .iter()
                .all(|name| fields.contains(name))
        {
            return self
                .usage("it is a batch file of OpenAI's API, whose texts are in `body.input`")
                .with_remedy(format!("say `{INPUT_FORMAT} {}`", InputFormat::OpenAiBatch));
        }
        let mut like = None;
        let mut names: Vec<_> = fields
            .into_iter()
            .inspect(|field| {
                if like.is_none() && field.to_lowercase() == name.to_lowercase() {
                    like = Some(format!("`{option} {}`", json::excerpt(field)));
                }
            })
            .map(|name| format!("`{}`", json::excerpt(name)))
            .collect();
        let more = names.len().saturating_sub(LISTED);
        names.truncate(LISTED);
        let there = match (names.is_empty(), more) {
            (true, _) => "the input has none".to_owned(),
            (false, 0) => format!("{whose} {}", names.join(", ")),
            (false, more) => format!("{whose} {} and {more} more", names.join(", ")),
        };
        let name = json::excerpt(name);
        self.usage(format!("no {what} is called `{name}`; {there}"))
            .with_remedy(match like {
                Some(like) => format!("upper and lower case differ: {like}"),
                None => format!("name one of them with `{option}`"),
            })
    }

    /// Checks that a line is not all lines of a file of an old Mac.
    ///
    /// # Errors
    /// If it is.
    pub(crate) fn check_ends(&self, line: &Line<'_>) -> Result<()> {
        // An array may have any space between its elements.
        match self.format != InputFormat::Json && line.has_old_ends() {
            true => Err(Error::input(
                Place::file(&self.name),
                "its lines end with carriage returns alone, as those of old Macs: it would be one record",
            )
            .with_remedy("convert it first: `tr '\\r' '\\n'`")),
            false => Ok(()),
        }
    }
}
