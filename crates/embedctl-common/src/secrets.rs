//! Secrets taken out of text: tokens and passwords that this process knows, also where a server or a library repeats
//! them in a message.
//!
//! They are taken out where text is shown (the command line's printer), so that no caller can forget it. [`Typed`]
//! decides which parts of a typed value are secret.

mod typed;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use percent_encoding::percent_decode_str;

use typed::SecretKind;
pub use typed::{Typed, is_secret_key, shown_address};

/// The text in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Shorter passwords are only taken out together with their user's name: they could be part of any word.
const SHORTEST: usize = 4;
/// The same for variables that merely sound like secrets.
const SHORTEST_UNNAMED: usize = 8;

/// The tokens and passwords that this process knows and must never show.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

/// Never shows the secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The values of variables with names of secrets (`…_TOKEN`, `…_PASSWORD`, `…_SECRET`, `…_API_KEY`, `…_ACCESS_KEY`,
    /// and Azure's names of an account's key), and the secret parts of addresses in variables with names of addresses
    /// and in this program's own variables.
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
            let mut endings = ENDINGS.split_ascii_whitespace();
            if endings.any(|ending| name.ends_with(ending)) {
                secrets.add(value.trim(), SHORTEST_UNNAMED);
            }
            let is_address = |word: &str| name.contains(word);
            if name.starts_with("EMBEDCTL_")
                || "URL URI ENDPOINT PROXY"
                    .split_ascii_whitespace()
                    .any(is_address)
            {
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

    /// The user (before `@`) and the query of an address, even an invalid one.
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
        let decoded = percent_decode_str(user).decode_utf8_lossy();
        for user in [user, &decoded] {
            // As `Authorization: Basic` sends it, without padding: a prefix is found as well.
            self.add(&BASE64_STANDARD_NO_PAD.encode(user), SHORTEST_UNNAMED);
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
            let shortest = match secret_names
                .split_ascii_whitespace()
                .any(|word| name.contains(word))
            {
                true => SHORTEST,
                false => SHORTEST_UNNAMED,
            };
            self.add(value, shortest);
            self.add(&percent_decode_str(value).decode_utf8_lossy(), shortest);
        }
    }

    /// Adds all secrets of another collection.
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

#[cfg(test)]
mod tests {
    use super::*;

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
