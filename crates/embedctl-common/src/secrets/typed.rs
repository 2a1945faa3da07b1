//! The secret parts of typed values: users and queries of addresses, values of secret settings.

use std::borrow::Cow;
use std::ops::Range;

use super::REDACTED;

/// A value as it was typed, or stands in a file or a variable.
#[derive(Debug, Clone, Copy)]
pub enum Typed<'a> {
    /// A setting of object stores: KEY=VALUE.
    StorageOption(&'a str),
    /// Anything else, which may be or hold an address.
    Value(&'a str),
}

/// A secret part of a typed value.
pub(super) struct SecretPart {
    pub(super) kind: SecretKind,
    pub(super) range: Range<usize>,
}

/// The kind of a secret part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// An option's value.
    Value,
    /// Before the `@` of an address.
    User,
    /// Behind the `?` of an address.
    Query,
}

impl<'a> Typed<'a> {
    pub(super) fn text(self) -> &'a str {
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
    pub(super) fn secrets(self) -> Vec<SecretPart> {
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

/// Where the user (before `@`) and the query (behind `?`) of the first address in a text are, both perhaps empty;
/// `None` where there is no address. The address may be invalid: AWS's keys hold slashes.
fn secrets_of_address(text: &str) -> Option<(Range<usize>, Range<usize>)> {
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
        // An invalid port is the beginning of a password.
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

/// Whether no message may show the value of an object store's setting `key`.
#[must_use]
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let secret = "secret token key sas password credential";
    secret
        .split_ascii_whitespace()
        .any(|word| key.contains(word))
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
}
