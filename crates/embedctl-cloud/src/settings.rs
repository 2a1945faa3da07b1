//! The settings of stores: their providers' own variables, and the options that take their place.

use std::ffi::OsString;
use std::str::FromStr;

use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_storage::Address;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

/// The settings of a store: the environment's (variables with the prefix, and the `others`), then the options'. An empty
/// one is none, as for the providers' own clients; the crate's `from_env` takes it for an address and panics.
pub(super) fn of_store<K: FromStr + PartialEq + Copy>(
    prefix: &str,
    others: &[(&str, K)],
    variables: impl Iterator<Item = (OsString, OsString)>,
    options: impl Iterator<Item = (K, String)>,
) -> Vec<(K, String)> {
    let of_environment = variables.filter_map(|(name, value)| {
        let (name, value) = (name.to_str()?, value.to_str()?);
        let other = others.iter().find(|(other, _)| *other == name);
        let key = match other {
            Some((_, key)) => *key,
            None if name.starts_with(prefix) => name.to_ascii_lowercase().parse().ok()?,
            None => return None,
        };
        Some((key, value.to_owned()))
    });
    let of_environment = of_environment.filter(|(_, value)| !value.is_empty());
    let mut set: Vec<(K, String)> = Vec::new();
    for (key, value) in of_environment.chain(options) {
        set.retain(|(known, _)| *known != key);
        set.push((key, value));
    }
    set.retain(|(_, value)| !value.is_empty());
    set
}

/// Google's own clients ask the emulator that this variable names, without credentials where they have none.
pub(super) fn emulated(builder: GoogleCloudStorageBuilder) -> GoogleCloudStorageBuilder {
    let has = |key| builder.get_config_value(&key).is_some();
    let host = std::env::var("STORAGE_EMULATOR_HOST").unwrap_or_default();
    if host.is_empty() || has(GoogleConfigKey::BaseUrl) {
        return builder;
    }
    let url = match Address::is_url(&host) {
        true => host.trim_end_matches('/').to_owned(),
        false => format!("http://{host}"),
    };
    let credentials = [
        GoogleConfigKey::ServiceAccount,
        GoogleConfigKey::ServiceAccountKey,
        GoogleConfigKey::ApplicationCredentials,
    ];
    let has_some = credentials.into_iter().any(has);
    let builder = builder.with_base_url(&url);
    if has_some {
        return builder;
    }
    let nobody =
        r#"{"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": true}"#;
    builder.with_service_account_key(nobody)
}

/// A named profile lies in files that `object_store` does not read: it would ask for a machine's own credentials.
pub(super) fn refuse_profile(
    address: &Address,
    builder: AmazonS3Builder,
) -> Result<AmazonS3Builder> {
    let Some(profile) = std::env::var("AWS_PROFILE")
        .ok()
        .filter(|name| !name.is_empty())
    else {
        return Ok(builder);
    };
    let has = |key| {
        builder
            .get_config_value(&key)
            .is_some_and(|value| !value.is_empty())
    };
    let found = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
    ];
    let anonymous = builder.get_config_value(&AmazonS3ConfigKey::SkipSignature);
    if found.into_iter().any(has) || anonymous.is_some_and(|value| value == "true") {
        return Ok(builder);
    }
    Err(Error::new(
        ErrorKind::Storage,
        address,
        format!("AWS_PROFILE names the profile {profile}, but named profiles are not read"),
    )
    .with_remedy(format!(
        "export its keys first: eval \"$(aws configure export-credentials --profile {profile} --format env)\""
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_an_unset_one() {
        let variable = |(name, value): (&str, &str)| (name.into(), value.into());
        let set = |variables: &[(&str, &str)], options: &[(AmazonS3ConfigKey, &str)]| {
            let options = options
                .iter()
                .map(|(key, value)| (*key, (*value).to_owned()));
            of_store(
                "AWS_",
                &[],
                variables.iter().copied().map(variable),
                options,
            )
        };
        let (endpoint, region) = (AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::Region);
        let empty = ("AWS_ENDPOINT_URL", "");
        assert_eq!(
            set(&[empty, ("AWS_REGION", "eu")], &[]),
            [(region, "eu".into())]
        );
        // Of two names of a setting the one with a value holds, and an option may take a value away.
        let other = ("AWS_ENDPOINT", "http://a");
        assert_eq!(set(&[other, empty], &[]), [(endpoint, "http://a".into())]);
        assert_eq!(set(&[other], &[(endpoint, "")]), []);
        let others = [("SERVICE_ACCOUNT", GoogleConfigKey::ServiceAccount)];
        let variables = [("SERVICE_ACCOUNT", "a.json"), ("AWS_REGION", "eu")].map(variable);
        let google = of_store(
            "GOOGLE_",
            &others,
            variables.into_iter(),
            std::iter::empty(),
        );
        assert_eq!(google, [(GoogleConfigKey::ServiceAccount, "a.json".into())]);
    }
}
