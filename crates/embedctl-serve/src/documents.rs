//! Documents that are reranked, as Cohere and Jina have them: strings, or objects with some fields.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::answer::ApiError;

/// The field of an object that is scored unless the request names others.
const USUAL_FIELD: &str = "text";

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a document must be a string, or an object with a string `text`"
)]
pub(crate) enum RerankDocument {
    Text(String),
    Object(HashMap<String, DocumentField>),
}

/// A field of a document. What is no string is neither scored nor kept.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum DocumentField {
    Text(String),
    Null(()),
    Other(IgnoredAny),
}

/// The texts of documents that are scored: strings, and of objects these fields, or `text`.
pub(crate) fn texts(
    documents: &[RerankDocument],
    fields: Option<&[String]>,
) -> Result<Vec<String>, ApiError> {
    if fields.is_some_and(<[String]>::is_empty) {
        let reason = "`rank_fields` is empty; name fields of the documents, or leave it out";
        return Err(ApiError::invalid(reason).about("rank_fields"));
    }
    let texts = documents.iter().enumerate();
    texts.map(|(index, it)| it.text(index, fields)).collect()
}

impl RerankDocument {
    /// The text that is scored: the string, or of an object these fields, in their order and each on lines of its own.
    /// Fields that it lacks are left out. `index` is the document's number.
    fn text(&self, index: usize, fields: Option<&[String]>) -> Result<String, ApiError> {
        let object = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::Object(object) => object,
        };
        let usual = [USUAL_FIELD.to_owned()];
        let mut texts = Vec::new();
        for name in fields.unwrap_or(&usual) {
            match object.get(name) {
                Some(DocumentField::Text(text)) => texts.push(text.as_str()),
                Some(DocumentField::Other(_)) => {
                    let reason = format!("document {index}: its {name:?} is not a string");
                    return Err(ApiError::invalid(reason).about("documents"));
                }
                Some(DocumentField::Null(())) | None => {}
            }
        }
        if texts.is_empty() {
            let reason = match fields {
                None => format!(
                    "document {index} must be a string, or an object with a string `text`; `rank_fields` names other fields"
                ),
                Some(_) => {
                    format!("document {index} has none of the fields that `rank_fields` names")
                }
            };
            return Err(ApiError::invalid(reason).about("documents"));
        }
        Ok(texts.join("\n"))
    }

    /// As an answer returns it: an object with its strings.
    pub fn returned(self) -> Map<String, Value> {
        let object = match self {
            Self::Text(text) => HashMap::from([(USUAL_FIELD.into(), DocumentField::Text(text))]),
            Self::Object(object) => object,
        };
        let text = |(name, field)| match field {
            DocumentField::Text(text) => Some((name, Value::String(text))),
            _ => None,
        };
        object.into_iter().filter_map(text).collect()
    }
}

/// Bytes of a document in an answer, about.
pub(crate) fn size(document: &Map<String, Value>) -> usize {
    let text = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    document.iter().map(text).sum()
}
