//! Secrets that no message may show: of the environment, the command line and settings files.

use std::borrow::Cow;
use std::ffi::OsString;

use embedctl::hub;
use embedctl::secrets::{Secrets, Typed};

use crate::config::Config;

/// The option whose values may be secrets.
const STORAGE_OPTION: &str = "storage-option";

/// The secrets of the environment and of `arguments`, whether the parser accepts them or not.
pub fn of_arguments(arguments: &[OsString]) -> Secrets {
    let mut secrets = hub::secrets();
    for (index, argument) in arguments.iter().enumerate() {
        let word = argument.to_string_lossy();
        let (_, typed) = value(previous(arguments, index).as_deref(), &word);
        secrets.add_typed(typed);
    }
    secrets
}

/// Adds the secrets of all files with settings.
pub fn add_files(secrets: &mut Secrets, config: &Config) {
    let entries = config.files.iter().flat_map(|file| &file.entries);
    for entry in entries {
        for value in &entry.values {
            secrets.add_typed(match entry.key.as_str() {
                STORAGE_OPTION => Typed::StorageOption(value),
                _ => Typed::Value(value),
            });
        }
    }
}

/// Words of a command line without their secrets.
pub fn redacted(arguments: &[OsString]) -> Vec<String> {
    let word = |(index, argument): (usize, &OsString)| {
        let word = argument.to_string_lossy();
        let (option, typed) = value(previous(arguments, index).as_deref(), &word);
        format!("{option}{}", typed.redacted())
    };
    arguments.iter().enumerate().map(word).collect()
}

fn previous(arguments: &[OsString], index: usize) -> Option<Cow<'_, str>> {
    Some(arguments.get(index.checked_sub(1)?)?.to_string_lossy())
}

/// The value in a word, and the option before it if both are in one word.
fn value<'a>(previous: Option<&str>, word: &'a str) -> (&'a str, Typed<'a>) {
    let name = |word: &str| word.strip_prefix("--") == Some(STORAGE_OPTION);
    if previous.is_some_and(name) {
        return ("", Typed::StorageOption(word));
    }
    match word.split_once('=') {
        Some((option, value)) if name(option) => {
            (&word[..=option.len()], Typed::StorageOption(value))
        }
        _ => ("", Typed::Value(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_redacted_by_what_it_is() {
        for (typed, shown) in [
            ("embed a.txt -o out/", "embed a.txt -o out/"),
            (
                "--storage-option aws_secret_access_key=x -q",
                "--storage-option aws_secret_access_key=[redacted] -q",
            ),
            (
                "--storage-option=AWS_Session_Token=x=y",
                "--storage-option=AWS_Session_Token=[redacted]",
            ),
            ("--storage-option x", "--storage-option [redacted]"),
            ("--storage-option=x", "--storage-option=[redacted]"),
            (
                "--storage-option aws_region=eu --storage-option aws_endpoint=http://u:p@h/",
                "--storage-option aws_region=eu --storage-option aws_endpoint=http://[redacted]@h/",
            ),
            (
                "https://u@h/a?b --input=https://h/?sig=1#x",
                "https://[redacted]@h/a?[redacted] --input=https://h/?[redacted]",
            ),
            (
                "s3://ID:SEC/RET@b/k -o s3://b/a?.txt",
                "s3://[redacted]@b/k -o s3://b/a?.txt",
            ),
        ] {
            let words: Vec<OsString> = typed.split(' ').map(OsString::from).collect();
            assert_eq!(redacted(&words).join(" "), shown);
        }
    }
}
