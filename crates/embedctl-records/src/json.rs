//! Single JSON values as they are written, and the errors of malformed ones.

use std::borrow::Cow;
use std::fmt;

/// Kinds of JSON values; numbers in two, as integers are kept exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonType {
    Null,
    Bool,
    Integer,
    Float,
    String,
    Array,
    Object,
}

impl fmt::Display for JsonType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Integer => "an integer",
            Self::Float => "a number with a fraction or an exponent",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

/// The kind of `raw`, one valid JSON value without space around it.
pub(crate) fn kind(raw: &str) -> JsonType {
    match raw.as_bytes().first() {
        Some(b'"') => JsonType::String,
        Some(b'{') => JsonType::Object,
        Some(b'[') => JsonType::Array,
        Some(b't' | b'f') => JsonType::Bool,
        Some(b'-' | b'0'..=b'9') if raw.contains(['.', 'e', 'E']) => JsonType::Float,
        Some(b'-' | b'0'..=b'9') => JsonType::Integer,
        _ => JsonType::Null,
    }
}

/// The string that `raw`, a valid JSON string, stands for; borrowed where nothing is escaped.
///
/// Only an escape that is not a character (half a surrogate pair) is wrong in a valid JSON string.
pub(crate) fn string(raw: &str) -> Result<Cow<'_, str>, String> {
    let inner = &raw[1..raw.len() - 1];
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw)
        .map(Cow::Owned)
        .map_err(|error| message(&error))
}

/// The integer that a written number with a fraction or an exponent is, as pandas writes those of a column with gaps
/// (`1.0`).
pub(crate) fn whole(written: &str) -> Option<i64> {
    written.parse().ok().and_then(whole_number)
}

/// The integer that a number is, where it is one and no other has the same form.
pub(crate) fn whole_number(number: f64) -> Option<i64> {
    let is_exact = number.fract() == 0.0 && number.abs() < (1_u64 << 53) as f64;
    #[allow(clippy::cast_possible_truncation)]
    is_exact.then_some(number as i64)
}

/// The message of `serde_json`, without the place it adds.
pub(crate) fn message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    }
}

/// The start of a value, for messages.
#[must_use]
pub fn excerpt(raw: &str) -> Cow<'_, str> {
    const SHOWN: usize = 40;
    match raw.char_indices().nth(SHOWN) {
        None => Cow::Borrowed(raw),
        Some((end, _)) => Cow::Owned(format!("{}…", &raw[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_what_is_written() {
        for (raw, expected) in [
            ("null", JsonType::Null),
            ("true", JsonType::Bool),
            ("false", JsonType::Bool),
            ("0", JsonType::Integer),
            ("-12", JsonType::Integer),
            ("123456789012345678901234567890", JsonType::Integer),
            ("1.0", JsonType::Float),
            ("1e3", JsonType::Float),
            ("-1E+3", JsonType::Float),
            ("\"1\"", JsonType::String),
            ("[1]", JsonType::Array),
            ("{}", JsonType::Object),
        ] {
            assert_eq!(kind(raw), expected, "{raw}");
        }
    }

    #[test]
    fn whole_numbers_are_integers() {
        for (written, expected) in [
            ("1.0", Some(1)),
            ("-2e3", Some(-2000)),
            ("1.5", None),
            ("9007199254740992.0", None),
            ("9007199254740991.0", Some(9_007_199_254_740_991)),
            ("nan", None),
            ("inf", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(whole(written), expected, "{written}");
        }
    }

    #[test]
    fn strings_are_borrowed_unless_escaped() {
        assert!(matches!(
            string(r#""plain ü""#),
            Ok(Cow::Borrowed("plain ü"))
        ));
        assert_eq!(string(r#""a\n\"\u00e9\\\u0000""#).unwrap(), "a\n\"é\\\0");
        assert_eq!(string(r#""\ud83d\ude00""#).unwrap(), "😀");
        for lone in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#] {
            assert!(string(lone).unwrap_err().contains("hex escape"), "{lone}");
        }
    }

    #[test]
    fn excerpts_end_between_characters() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt(&"ü".repeat(50)), format!("{}…", "ü".repeat(40)));
    }
}
