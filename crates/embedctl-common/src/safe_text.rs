//! Text from outside, made fit to be shown: file names, JSON keys, what a Hub answers, a model's metadata, the last
//! words of a library. It may hold what moves a terminal's cursor or hides other text, and it may hold a secret that
//! was sent to whoever wrote it.
//!
//! Both are taken out where text is shown (the command line's printer), so that no caller can forget it.
//! [`wrapped`] cuts what is left into lines.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::{self, Write as _};

use crate::word_list::words;

/// Passwords shorter than this are only taken out together with their user's name: any word could hold them.
const SHORTEST: usize = 4;
/// The same for variables that merely sound like secrets.
const SHORTEST_UNNAMED: usize = 8;

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
        // Directions that reorder what is shown, and characters that nobody sees.
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

/// What must not be shown to anybody: the tokens and passwords that this process knows.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

/// Never shows what it holds.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The values of variables whose names say that they are secrets (`…_TOKEN`, `…_PASSWORD`, `…_SECRET`,
    /// `…_API_KEY`, `…_ACCESS_KEY`, and Azure's words for an account's key).
    #[must_use]
    pub fn of_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        const ENDINGS: &str =
            "TOKEN PASSWORD SECRET API_KEY ACCESS_KEY ACCOUNT_KEY SAS_KEY STORAGE_KEY";
        let mut secrets = Self::default();
        for (name, value) in variables {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
                continue;
            };
            let name = name.to_ascii_uppercase();
            let mut endings = words(ENDINGS);
            if endings.any(|ending| name.ends_with(ending)) {
                secrets.add(value.trim(), SHORTEST_UNNAMED);
            }
        }
        secrets
    }

    /// A token, in the form in which it is sent.
    pub fn add_token(&mut self, token: &str) {
        self.add(token, SHORTEST);
    }

    /// What stands before the `@` of an address, which need not be a proper one.
    pub fn add_address(&mut self, address: &str) {
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let Some((user, _)) = rest.rsplit_once('@') else {
            return;
        };
        let decoded = percent_decoded(user);
        for user in [user, &decoded] {
            self.add(&base64(user), SHORTEST_UNNAMED); // as `Authorization: Basic` sends it
            match user.split_once(':') {
                Some((_, password)) => {
                    self.add(user, 1);
                    self.add(password, SHORTEST);
                }
                // A token alone.
                None => self.add(user, SHORTEST_UNNAMED),
            }
        }
    }

    /// Takes in what another holds.
    pub fn extend(&mut self, other: &Self) {
        for secret in &other.0 {
            self.add(secret, 1);
        }
    }

    fn add(&mut self, secret: &str, shortest: usize) {
        if secret.len() >= shortest && !self.0.iter().any(|known| known == secret) {
            self.0.push(secret.to_owned());
            // As it stands in JSON.
            let quoted = serde_json::Value::from(secret).to_string();
            let escaped = quoted.trim_matches('"');
            if escaped != secret {
                self.0.push(escaped.to_owned());
            }
            // The longest first: a password may be part of another.
            self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// A text with every secret taken out.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        for secret in &self.0 {
            if redacted.contains(secret.as_str()) {
                redacted = Cow::Owned(redacted.replace(secret.as_str(), "[redacted]"));
            }
        }
        redacted
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

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        match (first, after) {
            (b'%', [high, low, after @ ..]) if digit(high).and(digit(low)).is_some() => {
                let code = digit(high)
                    .zip(digit(low))
                    .map(|(high, low)| high * 16 + low);
                bytes.extend(code.and_then(|code| u8::try_from(code).ok()));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, index| {
            bits << 8 | u32::from(group.get(index).copied().unwrap_or(0))
        });
        for index in 0..=group.len() {
            let digit = bits >> (18 - 6 * index) & 63;
            encoded.push(char::from(DIGITS[digit as usize]));
        }
    }
    encoded // without its padding: a prefix is found as well
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
    fn secrets_are_taken_out_in_every_form() {
        let mut secrets = Secrets::default();
        secrets.add_token("hf_token");
        secrets.add_address("https://me:p%40ss@mirror.example/x");
        secrets.add_address("no-address-at-all:of-anything@host");
        for (text, redacted) in [
            ("Bearer hf_token!", "Bearer [redacted]!"),
            (
                "at https://me:p%40ss@mirror",
                "at https://[redacted]@mirror",
            ),
            ("password p@ss", "password [redacted]"),
            ("Basic bWU6cEBzcw==", "Basic [redacted]=="),
            ("'no-address-at-all:of-anything@host'", "'[redacted]@host'"),
            ("nothing to see", "nothing to see"),
        ] {
            assert_eq!(secrets.redact(text), redacted);
        }
        assert!(!format!("{secrets:?}").contains("hf_"));
    }

    #[test]
    fn a_short_password_does_not_blacken_every_word() {
        let mut secrets = Secrets::default();
        secrets.add_address("http://me:a@proxy:3128");
        assert_eq!(secrets.redact("a banana"), "a banana");
        assert_eq!(
            secrets.redact("http://me:a@proxy"),
            "http://[redacted]@proxy"
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

    #[test]
    fn variables_that_say_so_hold_secrets() {
        let variables = [
            ("AWS_SECRET_ACCESS_KEY", "abcdefgh1"),
            ("GITHUB_TOKEN", "ghp_12345"),
            ("TOKEN", "short"),
            ("HOME", "/home/someone"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let secrets = Secrets::of_variables(variables.into_iter());
        let text = "abcdefgh1 ghp_12345 short /home/someone";
        assert_eq!(
            secrets.redact(text),
            "[redacted] [redacted] short /home/someone"
        );
    }
}
