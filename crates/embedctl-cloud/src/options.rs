//! Names of settings that the stores know.

use embedctl_common::error::{Error, Result};
use embedctl_common::setting::STORAGE_OPTION;
use embedctl_storage::StorageOption;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

/// # Errors
/// If no store knows the option.
pub(super) fn check(option: &StorageOption) -> Result<()> {
    let key = &option.key;
    let known = key.parse::<AmazonS3ConfigKey>().is_ok()
        || key.parse::<AzureConfigKey>().is_ok()
        || key.parse::<GoogleConfigKey>().is_ok();
    if known {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{STORAGE_OPTION} {key}: no object store has a setting of that name"
    ))
    .with_remedy(
        "settings bear the names of the stores' variables, such as aws_region, azure_storage_account_name, \
         google_service_account",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_no_store_is_refused() {
        let known: StorageOption = "AWS_Secret_Access_Key=a=b".parse().unwrap();
        assert!(embedctl_common::secrets::is_secret_key(&known.key) && check(&known).is_ok());
        let unknown: StorageOption = "colour=blue".parse().unwrap();
        let error = check(&unknown).unwrap_err().to_string();
        assert!(error.contains("aws_region"), "{error}");
    }
}
