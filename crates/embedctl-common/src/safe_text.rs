//! Text from outside, made fit to be shown: file names, JSON keys, what a Hub answers, a model's metadata, the last
//! words of a library. It may hold what moves a terminal's cursor or hides other text, and it may hold a secret that
//! was sent to whoever wrote it.
//!
//! Both are taken out where text is shown (the command line's printer), so that no caller can forget it.
//! [`wrapped`] cuts what is left into lines.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::ops::Range;

use crate::word_list::words;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

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
    /// `…_API_KEY`, `…_ACCESS_KEY`, and Azure's words for an account's key), and what addresses hold in variables whose
    /// names say that they are addresses, and in this program's own.
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
            let is_address = |word: &str| name.contains(word);
            if name.starts_with("EMBEDCTL_") || words("URL URI ENDPOINT PROXY").any(is_address) {
                secrets.add_typed(Typed::Value(value.trim()));
            }
        }
        secrets
    }

    /// A token, in the form in which it is sent.
    pub fn add_token(&mut self, token: &str) {
        self.add(token, SHORTEST);
    }

    /// The value of a request's `Authorization` or of a header like it, and each word of it that may be a secret: the
    /// token behind `Bearer`, a signature.
    pub fn add_authorization(&mut self, value: &str) {
        self.add(value, SHORTEST_UNNAMED);
        let mut rest = value.split_once(' ').map_or("", |(_, rest)| rest);
        self.add(rest, SHORTEST_UNNAMED);
        while let Some((_, after)) = rest.split_once("Signature=") {
            self.add(after, SHORTEST_UNNAMED);
            rest = after;
        }
    }

    /// What stands before the `@` of an address, which need not be a proper one, and its query.
    pub fn add_address(&mut self, address: &str) {
        match address.contains("://") {
            true => self.add_typed(Typed::Value(address)),
            false => {
                let address = format!("://{}", address.trim_start_matches('/'));
                self.add_typed(Typed::Value(&address));
            }
        }
    }

    /// The secret parts of a typed value.
    pub fn add_typed(&mut self, typed: Typed<'_>) {
        for secret in typed.secrets() {
            let text = &typed.text()[secret.range.clone()];
            match secret.kind {
                SecretKind::Value => {
                    self.add(text, SHORTEST);
                    // A short one where it stands.
                    self.add(&typed.text()[..secret.range.end], SHORTEST_UNNAMED);
                }
                SecretKind::User => self.add_user(text),
                SecretKind::Query => self.add_query(text),
            }
        }
    }

    fn add_user(&mut self, user: &str) {
        let decoded = percent_decoded(user);
        for user in [user, &decoded] {
            self.add(&base64(user), SHORTEST_UNNAMED); // as `Authorization: Basic` sends it
            match user.split_once(':') {
                Some((_, password)) => {
                    self.add(user, 1);
                    self.add(password, SHORTEST);
                }
                // A token alone.
                None => {
                    self.add(user, SHORTEST_UNNAMED);
                    self.add(&format!("{user}@"), 2);
                }
            }
        }
    }

    /// A query as a whole, and the values in it.
    fn add_query(&mut self, query: &str) {
        let secret_names =
            "sig signature token key secret password passwd pwd credential auth code sas";
        self.add(&format!("?{query}"), 2);
        self.add(query, SHORTEST_UNNAMED);
        for parameter in query.split(['&', ';', '#']) {
            let (name, value) = parameter.split_once('=').unwrap_or(("", parameter));
            let name = name.to_ascii_lowercase();
            let shortest = match words(secret_names).any(|word| name.contains(word)) {
                true => SHORTEST,
                false => SHORTEST_UNNAMED,
            };
            self.add(value, shortest);
            self.add(&percent_decoded(value), shortest);
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
                redacted = Cow::Owned(redacted.replace(secret.as_str(), REDACTED));
            }
        }
        redacted
    }
}

/// A value as it was typed, or stands in a file or a variable.
#[derive(Debug, Clone, Copy)]
pub enum Typed<'a> {
    /// A setting of object stores: KEY=VALUE.
    StorageOption(&'a str),
    /// Anything else, which may be or hold an address.
    Value(&'a str),
}

/// A secret part of a typed value.
struct SecretPart {
    kind: SecretKind,
    range: Range<usize>,
}

/// What a part of a typed value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretKind {
    /// An option's value.
    Value,
    /// Before the `@` of an address.
    User,
    /// Behind the `?` of an address.
    Query,
}

impl<'a> Typed<'a> {
    fn text(self) -> &'a str {
        let (Self::StorageOption(text) | Self::Value(text)) = self;
        text
    }

    /// The value with its secret parts taken out, however short they are.
    #[must_use]
    pub fn redacted(self) -> Cow<'a, str> {
        let (text, secrets) = (self.text(), self.secrets());
        if secrets.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut shown, mut at) = (String::new(), 0);
        for secret in secrets {
            shown.push_str(&text[at..secret.range.start]);
            shown.push_str(REDACTED);
            at = secret.range.end;
        }
        shown.push_str(&text[at..]);
        Cow::Owned(shown)
    }

    /// In the text's order.
    fn secrets(self) -> Vec<SecretPart> {
        let text = self.text();
        if let Self::StorageOption(option) = self {
            let value = match option.split_once('=') {
                // Perhaps the secret alone.
                None => Some(0),
                Some((key, _)) if is_secret_key(key) => Some(key.len() + 1),
                Some(_) => None,
            };
            if let Some(start) = value {
                let range = start..text.len();
                let kind = SecretKind::Value;
                return Vec::from_iter((!range.is_empty()).then_some(SecretPart { kind, range }));
            }
        }
        let Some((user, query)) = secrets_of_address(text) else {
            return Vec::new();
        };
        let parts = [(SecretKind::User, user), (SecretKind::Query, query)];
        let parts = parts.into_iter().filter(|(_, range)| !range.is_empty());
        parts
            .map(|(kind, range)| SecretPart { kind, range })
            .collect()
    }
}

/// Where the user (before `@`) and the query (behind `?`) of the first address in a text are, both perhaps empty; `None`
/// where there is no address. It need not be a proper one: AWS's keys hold slashes.
pub(crate) fn secrets_of_address(text: &str) -> Option<(Range<usize>, Range<usize>)> {
    let (before, rest) = text.split_once("://")?;
    let start = before.len() + "://".len();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
    let is_web = scheme.is_some_and(|scheme| {
        ["http", "https"]
            .iter()
            .any(|web| scheme.eq_ignore_ascii_case(web))
    });
    let user = match authority.rfind('@') {
        Some(end) => end,
        // What looks like a port and is none is the beginning of a password.
        None => {
            let (_, port) = authority.rsplit_once(':').unwrap_or_default();
            let is_host =
                authority.starts_with('[') || port.bytes().all(|byte| byte.is_ascii_digit());
            let is_proper = !authority.contains(':') || (is_web && is_host);
            (!is_proper).then(|| rest.rfind('@')).flatten().unwrap_or(0)
        }
    };
    let query = rest[user..].find('?').map(|at| user + at + 1);
    // In a name on an object store, `?` is a character like any other, or part of a pattern.
    let query = query.filter(|&at| is_web || rest[at..].contains('='));
    let query = query.unwrap_or(rest.len());
    Some((start..start + user, start + query..text.len()))
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

/// Whether no message may show the value of an object store's setting `key`.
#[must_use]
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let secret = "secret token key sas password credential";
    words(secret).any(|word| key.contains(word))
}

/// A text that may be an address, without a password and without a query, which may be a signature.
#[must_use]
pub fn shown_address(text: &str) -> String {
    let Some((user, query)) = secrets_of_address(text) else {
        return text.to_owned();
    };
    let host = match user.is_empty() {
        true => user.end,
        false => user.end + "@".len(),
    };
    let rest = &text[host..query.start];
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{}{rest}", &text[..user.start])
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

    #[test]
    fn the_secret_parts_of_a_typed_value_are_found() {
        for (typed, redacted) in [
            ("/a/b?c=d@e", "/a/b?c=d@e"),
            ("https://host:80/a@b/c", "https://host:80/a@b/c"),
            ("https://[::1]:80/a@b", "https://[::1]:80/a@b"),
            (
                "https://u:p@host/a?b#c",
                "https://[redacted]@host/a?[redacted]",
            ),
            (
                "--input=HTTPS://u:p@host/?b",
                "--input=HTTPS://[redacted]@host/?[redacted]",
            ),
            ("https://u:a/b?c@host/x", "https://[redacted]@host/x"),
            ("s3://ID:a/b+c@bucket/k", "s3://[redacted]@bucket/k"),
            ("s3://bucket/a@b/?.txt", "s3://bucket/a@b/?.txt"),
            (
                "s3://bucket/k?X-Amz-Signature=1",
                "s3://bucket/k?[redacted]",
            ),
            ("socks5://u:p@host:1", "socks5://[redacted]@host:1"),
        ] {
            assert_eq!(Typed::Value(typed).redacted(), redacted);
        }
        for (typed, redacted) in [
            ("aws_region=eu", "aws_region=eu"),
            (
                "AWS_SECRET_ACCESS_KEY=a=b",
                "AWS_SECRET_ACCESS_KEY=[redacted]",
            ),
            (
                "aws_endpoint=http://u:p@h",
                "aws_endpoint=http://[redacted]@h",
            ),
            ("anything", "[redacted]"),
            ("", ""),
        ] {
            assert_eq!(Typed::StorageOption(typed).redacted(), redacted);
        }
    }

    #[test]
    fn what_was_typed_is_taken_out_of_any_text() {
        let mut secrets = Secrets::default();
        secrets.add_typed(Typed::Value(
            "https://h/a?X-Amz-Date=2026&sig=ab%2Fcd&x=12345678",
        ));
        secrets.add_typed(Typed::StorageOption("aws_session_token=tokentoken"));
        secrets.add_authorization("AWS4 Credential=a/b, Signature=0123456789");
        for (text, redacted) in [
            (
                "h/a?X-Amz-Date=2026&sig=ab%2Fcd&x=12345678",
                "h/a[redacted]",
            ),
            (
                "in 2026, ab/cd or ab%2Fcd",
                "in 2026, [redacted] or [redacted]",
            ),
            ("token tokentoken, 12345678", "token [redacted], [redacted]"),
            ("signed 0123456789", "signed [redacted]"),
        ] {
            assert_eq!(secrets.redact(text), redacted);
        }
    }
}
