//! A tokenizer's file, checked before the tokenizers crate gets it. Two things in it become recursion without a limit: the
//! nesting of a regular expression, in Oniguruma, and a piece of a Unigram vocabulary, which becomes a tree with a level
//! for each byte, copied and dropped by recursion. (The limits belong into `onig` and into
//! `tokenizers::models::unigram::trie`.)
//!
//! It is read once for a model, but a vocabulary has hundreds of thousands of entries.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crossbeam_channel::never;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::utils::SysRegex;
use tokenizers::{AddedToken, Tokenizer};

use crate::bounded::check_added;
use embedctl_common::error::Cause;
use embedctl_common::small_file;
use embedctl_common::threads;

/// How long reading a tokenizer may take, or its work on a short text: seconds at most, on any machine.
pub const TOKENIZER_TIME: Duration = Duration::from_secs(60);

/// How deep groups, classes and calls of a regular expression may be nested. Those of tokenizers keep below 10; with
/// some thousands Oniguruma, which is C and recursive, would end the process.
const MOST_DEPTH: usize = 200;

/// The most bytes of a piece of a vocabulary. `SentencePiece` makes pieces of 16 characters.
const LONGEST_PIECE: usize = 1024;

/// Reads a tokenizer's file, guarded against its reader's panics and endless work.
///
/// # Errors
/// If it is not a tokenizer's file, or could end the process.
pub fn read(mut file: Vec<u8>) -> Result<Tokenizer, Cause> {
    let mark = file.len() - small_file::without_mark(&file).len();
    file.drain(..mark);
    let read = move || Ok(read_checked(&file));
    threads::within(TOKENIZER_TIME, &never(), read).map_err(damaged)?
}

fn damaged(error: String) -> Cause {
    Cause::of(format!("is not a tokenizer file ({error})")).with("fetch the file again")
}

fn read_checked(file: &[u8]) -> Result<Tokenizer, Cause> {
    let scan = TokenizerScan::of(file);
    scan.check()?;
    check_normalizer(file)?;
    let text = str::from_utf8(file).map_err(|error| damaged(error.to_string()))?;
    // A file that is not JSON is refused here. The crate has this function compiled; its generic ones would be compiled here.
    text.parse().map_err(|error: tokenizers::Error| {
        (scan.refused_expression()).unwrap_or_else(|| damaged(error.to_string()))
    })
}

/// Checks that the normalizer in a tokenizer's file comes to an end on the added tokens there, which are normalized where
/// the file is read. A file that is damaged passes.
fn check_normalizer(file: &[u8]) -> Result<(), Cause> {
    // Of a key that is there twice the last one holds, here and there.
    let parts: BTreeMap<String, &RawValue> = serde_json::from_slice(file).unwrap_or_default();
    let part = |key: &str| parts.get(key).map(|part| part.get());
    let Some(normalizer) = part("normalizer").and_then(normalizer) else {
        return Ok(());
    };
    let added = part("added_tokens").map(serde_json::from_str::<Vec<AddedToken>>);
    let added = added.and_then(Result::ok).unwrap_or_default();
    check_added(&normalizer, &added).map_err(|reason| {
        let reason = format!("has a normalizer that fails on an added token: {reason}");
        Cause::of(reason).with("take the model from a source that you trust")
    })
}

/// The normalizer that is written so, as the crate reads it in a tokenizer.
fn normalizer(written: &str) -> Option<NormalizerWrapper> {
    let model = r#"{"type": "WordLevel", "vocab": {}, "unk_token": ""}"#;
    let alone = format!(r#"{{"normalizer": {written}, "model": {model}}}"#);
    alone.parse::<Tokenizer>().ok()?.get_normalizer().cloned()
}

/// What of a tokenizer's file could end the process.
#[derive(Debug, Default)]
struct TokenizerScan {
    /// Its regular expressions.
    expressions: Vec<String>,
    /// A piece of its vocabulary that is longer than [`LONGEST_PIECE`]: its beginning, and its bytes.
    long_piece: Option<(String, usize)>,
}

impl TokenizerScan {
    /// Scans a file; one that is not JSON has nothing to be found.
    fn of(file: &[u8]) -> Self {
        let mut found = Self::default();
        let mut json = serde_json::Deserializer::from_slice(file);
        let _ = ScannedValue(&mut found, ValuePlace::Other).deserialize(&mut json);
        found
    }

    /// Checks that its reader comes to an end.
    ///
    /// # Errors
    /// The expression or the piece that would end the process.
    fn check(&self) -> Result<(), Cause> {
        let deep = self.expressions.iter().find(|one| depth(one) > MOST_DEPTH);
        let reason = match (deep, &self.long_piece) {
            (Some(deep), _) => format!(
                "has a regular expression that is nested more than {MOST_DEPTH} deep: {}…",
                start(deep)
            ),
            (None, Some((piece, bytes))) => format!(
                "has a piece of {bytes} bytes in its vocabulary, but the limit is {LONGEST_PIECE}: {piece}…"
            ),
            (None, None) => return Ok(()),
        };
        Err(Cause::of(reason).with("take the model from a source that you trust"))
    }

    /// The first of its regular expressions that the engine refuses, and why.
    fn refused_expression(&self) -> Option<Cause> {
        let refusal = |one: &String| Some((one.clone(), SysRegex::new(one).err()?));
        let (expression, error) = self.expressions.iter().find_map(refusal)?;
        let reason = format!(
            "has a regular expression that the engine of Python's tokenizers refuses ({error}): {expression}"
        );
        Some(Cause::of(reason).with("correct it: Python's tokenizers cannot read this file either"))
    }
}

fn start(text: &str) -> String {
    text.chars().take(40).collect()
}

/// An upper bound of how deep a regular expression is nested; each call of a group (`\g<name>`) may be another level.
fn depth(expression: &str) -> usize {
    let (mut depth, mut deepest, mut calls) = (0_usize, 0, 0);
    let mut characters = expression.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => calls += usize::from(characters.next() == Some('g')),
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest + calls
}

/// The place of a value in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePlace {
    /// Under the key of a regular expression, wherever in the file: `{"pattern": {"Regex": …}}`.
    Regex,
    /// In a list, as a Unigram vocabulary has its pieces: `[["▁the", -3.5], …]`.
    Listed,
    Other,
}

/// A value whose content is scanned. Every key counts, also one that is there twice: readers differ over the one that
/// holds.
struct ScannedValue<'s>(&'s mut TokenizerScan, ValuePlace);

impl<'de> DeserializeSeed<'de> for ScannedValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ScannedValue<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        match self.1 {
            ValuePlace::Regex => self.0.expressions.push(text.to_owned()),
            ValuePlace::Listed if text.len() > LONGEST_PIECE => {
                self.0.long_piece = Some((start(text), text.len()));
            }
            ValuePlace::Listed | ValuePlace::Other => {}
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list
            .next_element_seed(ScannedValue(self.0, ValuePlace::Listed))?
            .is_some()
        {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(place) = map.next_key_seed(ScannedKey)? {
            map.next_value_seed(ScannedValue(self.0, place))?;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key, which says what its value may be.
struct ScannedKey;

impl<'de> DeserializeSeed<'de> for ScannedKey {
    type Value = ValuePlace;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ValuePlace, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ScannedKey {
    type Value = ValuePlace;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<ValuePlace, E> {
        Ok(match key {
            "Regex" => ValuePlace::Regex,
            _ => ValuePlace::Other,
        })
    }
}
