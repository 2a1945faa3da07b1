//! `--storage-option KEY=VALUE`: a setting of the stores, by the name that the store's own variables have.

use std::fmt;
use std::str::FromStr;

use embedctl_common::error::Cause;
#[cfg(feature = "cloud")]
use embedctl_common::error::{Error, Result};
#[cfg(feature = "cloud")]
use embedctl_common::setting::STORAGE_OPTION;

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

#[cfg(feature = "cloud")]
impl StorageOption {
    /// Whether some store knows it.
    pub(super) fn check(&self) -> Result<()> {
        use object_store::aws::AmazonS3ConfigKey;
        use object_store::azure::AzureConfigKey;
        use object_store::gcp::GoogleConfigKey;

        let known = self.key.parse::<AmazonS3ConfigKey>().is_ok()
            || self.key.parse::<AzureConfigKey>().is_ok()
            || self.key.parse::<GoogleConfigKey>().is_ok();
        if known {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{STORAGE_OPTION} {}: no object store has a setting of that name",
            self.key
        ))
        .with_remedy(
            "settings bear the names of the stores' variables, such as aws_region, azure_storage_account_name, \
             google_service_account",
        ))
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
        #[cfg(feature = "cloud")]
        {
            assert!(embedctl_common::secrets::is_secret_key(&option.key) && option.check().is_ok());
            let unknown: StorageOption = "colour=blue".parse().unwrap();
            assert!(
                unknown
                    .check()
                    .unwrap_err()
                    .to_string()
                    .contains("aws_region")
            );
        }
    }
}
