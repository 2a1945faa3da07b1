//! Added and special tokens as files name them: a text, alone or with flags.

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use embedctl_common::error::{Cause, Result};

/// A token with its flags; flags missing in a file default by whether it is special.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub content: String,
    pub single_word: bool,
    pub lstrip: bool,
    pub rstrip: bool,
    pub normalized: Option<bool>,
    pub special: bool,
}

impl Added {
    pub(super) fn new(content: &str) -> Self {
        Self {
            content: content.to_string(),
            ..Self::default()
        }
    }

    pub(super) fn read(fields: &Map<String, Value>) -> Result<Self, Cause> {
        let content = fields
            .get("content")
            .and_then(Value::as_str)
            .ok_or("holds a token without content")?;
        let flag = |name: &str| fields.get(name).and_then(Value::as_bool);
        Ok(Self {
            content: content.to_string(),
            single_word: flag("single_word").unwrap_or(false),
            lstrip: flag("lstrip").unwrap_or(false),
            rstrip: flag("rstrip").unwrap_or(false),
            normalized: flag("normalized"),
            special: flag("special").unwrap_or(false),
        })
    }

    /// A token that `tokenizer.json` adds.
    pub(super) fn of(token: &AddedToken) -> Self {
        Self {
            content: token.content.clone(),
            single_word: token.single_word,
            lstrip: token.lstrip,
            rstrip: token.rstrip,
            normalized: Some(token.normalized),
            special: token.special,
        }
    }

    pub(super) fn token(&self) -> AddedToken {
        AddedToken::from(self.content.clone(), self.special)
            .single_word(self.single_word)
            .lstrip(self.lstrip)
            .rstrip(self.rstrip)
            .normalized(self.normalized.unwrap_or(!self.special))
    }
}

/// A special token: its text alone, or with flags.
#[derive(Debug, Clone)]
pub(super) enum Special {
    Text(String),
    Flagged(Added),
}

impl Special {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Flagged(added) => &added.content,
        }
    }

    /// The reference's `==`: a text never equals a token with flags.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Flagged(a), Self::Flagged(b)) => a.token() == b.token(),
            _ => false,
        }
    }
}

/// A value that the reference would take for a special token; an object counts only where it says
/// `"__type": "AddedToken"`.
pub(super) fn special(value: &Value) -> Result<Option<Special>, Cause> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(Special::Text(text.clone()))),
        Value::Object(fields) if is_added(fields) => {
            Ok(Some(Special::Flagged(Added::read(fields)?)))
        }
        other => Err(Cause::of(format!(
            "names a special token as {other}, which the reference does not take"
        ))
        .with("write its text, or add \"__type\": \"AddedToken\"")),
    }
}

fn is_added(fields: &Map<String, Value>) -> bool {
    fields.get("__type").and_then(Value::as_str) == Some("AddedToken")
}

/// A token with flags as a value of [`Arguments`](super::arguments::Arguments).
pub(super) fn value_of(added: &Added) -> Value {
    let mut fields = Map::new();
    fields.insert("__type".into(), "AddedToken".into());
    fields.insert("content".into(), added.content.clone().into());
    for (name, flag) in [
        ("single_word", Some(added.single_word)),
        ("lstrip", Some(added.lstrip)),
        ("rstrip", Some(added.rstrip)),
        ("normalized", added.normalized),
        ("special", Some(added.special)),
    ] {
        fields.extend(flag.map(|flag| (name.to_string(), Value::Bool(flag))));
    }
    Value::Object(fields)
}
