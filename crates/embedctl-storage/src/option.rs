//! `--storage-option KEY=VALUE`: a setting of the stores, by the name that the store's own variables have.

use std::fmt;
use std::str::FromStr;

use embedctl_common::error::Cause;

/// A setting for the object stores that know it.
#[derive(Clone, PartialEq, Eq)]
pub struct StorageOption {
    /// Its name in small letters: `aws_region`, `azure_storage_account_name`, `google_service_account`.
    pub key: String,
    /// Its value; may be a secret.
    pub value: String,
}

/// Without the value, which may be a secret.
impl fmt::Debug for StorageOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StorageOption({})", self.key)
    }
}

impl FromStr for StorageOption {
    type Err = Cause;

    fn from_str(text: &str) -> Result<Self, Cause> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok(Self {
                key: key.trim().to_ascii_lowercase(),
                value: value.to_owned(),
            }),
            _ => {
                Err(Cause::of("it is not KEY=VALUE")
                    .with("write aws_region=eu-west-1, for example"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_their_values_never_shown() {
        let option: StorageOption = "AWS_Secret_Access_Key=a=b".parse().unwrap();
        assert_eq!(
            (option.key.as_str(), option.value.as_str()),
            ("aws_secret_access_key", "a=b")
        );
        assert!(!format!("{option:?}").contains("a=b"));
        assert!("region".parse::<StorageOption>().is_err());
    }
}
