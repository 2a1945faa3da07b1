//! Text from outside, made safe to show: file names, JSON keys, a server's messages, a model's metadata, a library's
//! last output. Such text may move a terminal's cursor or hide other text.
//!
//! It is escaped where text is shown (the command line's printer), so that no caller can forget it. [`wrapped`] cuts
//! the result into lines. Secrets are removed by [`crate::secrets`].

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text without characters that steer a terminal or make text look like other text: each becomes its escape
/// (`\u{1b}`). Line feeds and tabs stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_unsafe(character) {
            safe.extend(character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// The same for text that must stay on one line: line feeds are escaped, too.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    match printable(text) {
        text if !text.contains('\n') => text,
        text => Cow::Owned(text.replace('\n', "\\u{a}")),
    }
}

/// The same for the text of a JSON value, whose own escapes cover the characters below U+0020 alone. It stays JSON of
/// the same value.
#[must_use]
pub fn printable_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_unsafe(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn is_unsafe(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Directional marks, which reorder text, and invisible characters.
        '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

/// A text in lines, cut at spaces where there are any: the first of `first` characters at most, others of `rest`.
#[must_use]
pub fn wrapped(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let most = if lines.len() == 1 { first } else { rest };
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped() {
        for (text, shown) in [
            ("plain – ñ 日本", "plain – ñ 日本"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{9b}31m\u{7f}\r\u{8}", "\\u{9b}31m\\u{7f}\\u{d}\\u{8}"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("in\u{200b}visible\u{e0041}", "in\\u{200b}visible\\u{e0041}"),
        ] {
            assert_eq!(printable(text), shown);
            assert_eq!(one_line(text), shown.replace('\n', "\\u{a}"));
        }
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({"a\u{9b}": "\u{1b}\u{202e}\u{e0041}\u{7f} ok"});
        let text = value.to_string();
        let safe = printable_json(&text);
        assert!(!safe.chars().any(is_unsafe), "{safe}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
            value
        );
    }

    #[test]
    fn lines_end_at_blanks_and_the_first_may_be_shorter() {
        assert_eq!(wrapped("aa bb cc dd", 2, 5), ["aa", "bb cc", "dd"]);
        assert_eq!(wrapped("aa bb cc dd", 5, 2), ["aa bb", "cc", "dd"]);
        assert_eq!(wrapped(" ää\n öö ", 5, 5), ["ää öö"]);
        assert_eq!(wrapped("abcdefgh i", 3, 3), ["abcdefgh", "i"]);
        assert_eq!(wrapped("", 5, 5), [""]);
    }
}
