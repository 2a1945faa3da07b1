//! The arguments of a tokenizer's class: `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json` and
//! the arguments of `sentence_bert_config.json`, put together as the reference's `_from_pretrained` does it.
//!
//! The rules are Python's: a null key is not a missing key, and the order of keys decides the ids of tokens that have
//! none yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use super::added::{Added, Special, special, value_of};
use crate::metadata;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::word_list::lists;

/// Named special tokens, in the order in which the reference keeps them.
pub(super) const NAMED: &str =
    "bos_token eos_token unk_token sep_token pad_token cls_token mask_token";

/// The arguments of a tokenizer class.
#[derive(Debug)]
pub(super) struct Arguments {
    file: PathBuf,
    values: Map<String, Value>,
    /// Tokens that are added by id.
    pub added: BTreeMap<i64, Added>,
    /// Special tokens under names of the model's own, in their order.
    pub own_names: Vec<(String, Special)>,
}

/// Tokens that the tokenizer's own file adds, with their ids.
pub(super) type OfFile = Vec<(u32, AddedToken)>;

impl Arguments {
    /// Collects them for the Transformer in `folder`; `given` are those of `sentence_bert_config.json`,
    /// `of_file` the tokens that `tokenizer.json` adds.
    pub(super) fn read(
        folder: &Path,
        given: &Map<String, Value>,
        of_file: &OfFile,
    ) -> Result<Self> {
        let file = folder.join("tokenizer_config.json");
        let mut values = metadata::read_object(&file)?.unwrap_or_default();
        let refuse = |cause: Cause| Error::model(file.display(), cause);
        // With a tokenizer.json these are dropped, unless the caller gives them.
        for dropped in ["tokenizer_class", "add_bos_token", "add_eos_token"] {
            values.shift_remove(dropped);
        }
        for (key, value) in given {
            values.insert(key.clone(), value.clone());
        }
        if values.contains_key("additional_special_tokens")
            && !(values.get("extra_special_tokens")).is_some_and(metadata::is_true)
        {
            let moved = values.shift_remove("additional_special_tokens");
            values.insert("extra_special_tokens".into(), moved.unwrap_or_default());
        }
        let mut own_names = take_own_names(&mut values);
        take_named(&mut values, &mut own_names);

        let mut added = BTreeMap::new();
        if let Some(decoder) = values.shift_remove("added_tokens_decoder") {
            added = tokens_of_decoder(&decoder).map_err(refuse)?;
        } else {
            special_tokens_map(folder, given, &mut values)?;
            take_named(&mut values, &mut own_names);
            added_tokens_file(folder, &values, &mut added)?;
            added.extend(
                of_file
                    .iter()
                    .map(|(id, token)| (i64::from(*id), Added::of(token))),
            );
        }
        flag_named(&mut values, &added);
        let own_names = merged_names(&values, own_names).map_err(refuse)?;
        Ok(Self {
            file,
            values,
            added,
            own_names,
        })
    }

    /// An error about these arguments.
    pub(super) fn refuse(&self, cause: impl Into<Cause>) -> Error {
        Error::model(self.file.display(), cause)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A boolean, where it is one; null counts as missing.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(Value::as_bool)
    }

    /// A limit in tokens; null counts as missing.
    pub(super) fn limit(&self, key: &str) -> Result<Option<f64>> {
        let value = self.get(key).unwrap_or(&Value::Null);
        metadata::limit(value).map_err(|reason| self.refuse(format!("{key} {reason}")))
    }

    pub(super) fn string(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.get(key).and_then(Value::as_f64)
    }

    /// A named token; `default` counts where the key is missing, not where it is null.
    pub(super) fn named(&self, key: &str, default: Option<&str>) -> Result<Option<Special>, Cause> {
        match self.get(key) {
            Some(value) => special(value),
            None => Ok(default.map(|text| Special::Text(text.into()))),
        }
    }

    /// Takes a list of special tokens out of the arguments; `None` where there is none.
    pub(super) fn take_list(&mut self, key: &str) -> Result<Option<Vec<Special>>, Cause> {
        match self.values.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(list)) => list
                .iter()
                .map(|value| special(value)?.ok_or_else(|| format!("{key} lists null").into()))
                .collect::<Result<_, Cause>>()
                .map(Some),
            Some(other) => Err(format!("{key} is not a list of tokens but {other}").into()),
        }
    }
}

/// Gives `name` a value, in the place that it has, or else behind all others.
pub(super) fn set<T>(values: &mut Vec<(String, T)>, name: String, value: T) {
    match values.iter_mut().find(|(known, _)| *known == name) {
        Some(known) => known.1 = value,
        None => values.push((name, value)),
    }
}

/// Keys like `image_token`: special tokens with a name of the model's own.
fn is_own_name(key: &str) -> bool {
    key.ends_with("_token") && !lists(NAMED, key)
}

/// `extra_special_tokens` may be an object: its keys are names.
fn take_named(values: &mut Map<String, Value>, own_names: &mut Vec<(String, Value)>) {
    if values
        .get("extra_special_tokens")
        .is_some_and(Value::is_object)
        && let Some(Value::Object(names)) = values.shift_remove("extra_special_tokens")
    {
        for (name, token) in names {
            set(own_names, name, token);
        }
    }
}

/// Takes the special tokens under names of the model's own that are written as texts.
fn take_own_names(values: &mut Map<String, Value>) -> Vec<(String, Value)> {
    let own: Vec<String> = values
        .iter()
        .filter(|(key, value)| is_own_name(key) && value.is_string())
        .map(|(key, _)| key.clone())
        .collect();
    own.into_iter()
        .map(|key| {
            let value = values.shift_remove(&key).unwrap_or_default();
            (key, value)
        })
        .collect()
}

/// The tokens of `added_tokens_decoder` by their ids.
fn tokens_of_decoder(decoder: &Value) -> Result<BTreeMap<i64, Added>, Cause> {
    let decoder = decoder
        .as_object()
        .ok_or("added_tokens_decoder is not an object")?;
    let mut added = BTreeMap::new();
    for (id, token) in decoder {
        let token = token.as_object().map(Added::read);
        let (Ok(id), Some(Ok(token))) = (id.parse::<i64>(), token) else {
            let reason =
                format!("added_tokens_decoder: the entry '{id}' is not a token with an id");
            return Err(reason.into());
        };
        added.insert(id, token);
    }
    Ok(added)
}

/// A named token that is added has the flags with which it is added. Of two entries with one text, the later wins.
fn flag_named(values: &mut Map<String, Value>, added: &BTreeMap<i64, Added>) {
    for name in NAMED.split_ascii_whitespace() {
        let named = values.get(name).and_then(|value| special(value).ok()?);
        let flags = named.and_then(|named| {
            let mut same = added.values().filter(|token| token.content == named.text());
            same.next_back()
        });
        if let Some(flags) = flags {
            values.insert(name.into(), value_of(flags));
        }
    }
}

/// All special tokens under names of the model's own: tokens that other files name, and tokens with flags, come first. Of one
/// name, the first position and the last value count.
fn merged_names(
    values: &Map<String, Value>,
    own_names: Vec<(String, Value)>,
) -> Result<Vec<(String, Special)>, Cause> {
    let mut all: Vec<(String, Value)> = values
        .iter()
        .filter(|(key, value)| is_own_name(key) && matches!(special(value), Ok(Some(_))))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for (name, value) in own_names {
        set(&mut all, name, value);
    }
    all.into_iter()
        .filter_map(|(name, value)| {
            special(&value)
                .map(|token| token.map(|token| (name, token)))
                .transpose()
        })
        .collect()
}

/// `special_tokens_map.json` overrides `tokenizer_config.json`, but not the caller's arguments.
fn special_tokens_map(
    folder: &Path,
    given: &Map<String, Value>,
    values: &mut Map<String, Value>,
) -> Result<()> {
    let file = folder.join("special_tokens_map.json");
    let flagged = |value: Value| match value {
        Value::Object(fields) => Added::read(&fields)
            .map(|added| {
                value_of(&Added {
                    special: true,
                    ..added
                })
            })
            .map_err(|cause| Error::model(file.display(), cause)),
        other => Ok(other),
    };
    for (key, value) in metadata::read_object(&file)?.unwrap_or_default() {
        if given.get(&key).is_some_and(|value| !value.is_null()) {
            continue;
        }
        let value = match value {
            Value::Array(tokens) if key == "extra_special_tokens" => {
                let mut all = match values.get(&key) {
                    Some(Value::Array(known)) => known.clone(),
                    _ => Vec::new(),
                };
                for token in tokens {
                    let token = flagged(token)?;
                    if !all.contains(&token) {
                        all.push(token);
                    }
                }
                Value::Array(all)
            }
            Value::Object(_) if key != "extra_special_tokens" => flagged(value)?,
            other => other,
        };
        values.insert(key, value);
    }
    Ok(())
}

fn added_tokens_file(
    folder: &Path,
    values: &Map<String, Value>,
    added: &mut BTreeMap<i64, Added>,
) -> Result<()> {
    let file = folder.join("added_tokens.json");
    let Some(tokens) = metadata::read_object(&file)? else {
        return Ok(());
    };
    let mut special_texts: Vec<String> = Vec::new();
    let named = NAMED
        .split_ascii_whitespace()
        .filter_map(|name| values.get(name));
    let extra = values.get("extra_special_tokens").and_then(Value::as_array);
    for value in named.chain(extra.into_iter().flatten()) {
        special_texts.extend(
            special(value)
                .ok()
                .flatten()
                .map(|token| token.text().to_string()),
        );
    }
    for (content, id) in tokens {
        let id = id.as_i64().ok_or_else(|| {
            Error::model(file.display(), format!("gives '{content}' no id but {id}"))
        })?;
        let special = special_texts.contains(&content);
        added.insert(
            id,
            Added {
                normalized: Some(!special),
                special,
                ..Added::new(&content)
            },
        );
    }
    Ok(())
}
