//! Explains a store's refusal in a sentence with a remedy. `object_store`'s own texts are never shown: they hold
//! whole addresses, signatures among them.

use super::failure::{Failure, Refusal};
use embedctl_common::error::{Error, ErrorKind, with_causes};
use embedctl_common::remedies;
use embedctl_storage::{Address, Scheme};

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Settings were read.
    Open,
    /// Objects were listed.
    List,
    /// An object was read.
    Read,
    /// An object was written.
    Write,
}

/// Whether the failure is that there is no such object.
pub(super) fn is_missing(failure: &Failure) -> bool {
    matches!(failure.error, object_store::Error::NotFound { .. })
}

/// Whether the failure is that there is such an object.
pub(super) fn exists(failure: &Failure) -> bool {
    matches!(
        failure.error,
        object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }
    )
}

/// Whether the failure is a missing permission.
pub(super) fn is_denied(failure: &Failure) -> bool {
    let status = failure.refusal.as_ref().map(|refusal| refusal.status);
    matches!(status, Some(401 | 403))
}

/// Whether only the status is known: the response to `HEAD` has no body.
pub(super) fn says_nothing(failure: &Failure) -> bool {
    let silent = |refusal: &Refusal| refusal.code.is_none() && (400..500).contains(&refusal.status);
    failure.refusal.as_ref().is_some_and(silent)
}

/// The error for a failure; `cancelled` where the run was.
pub(super) fn explain(
    address: &Address,
    doing: Operation,
    failure: Failure,
    cancelled: bool,
) -> Error {
    if cancelled {
        return Error::interrupted();
    }
    let (reason, remedy) = match &failure.refusal {
        Some(refusal) => of_refusal(address, doing, refusal),
        None => of_error(address, &failure.error, failure.answered),
    };
    Error::new(ErrorKind::Storage, address, reason).with_remedy_if(remedy)
}

type Words = (String, Option<String>);

fn of_refusal(address: &Address, doing: Operation, refusal: &Refusal) -> Words {
    let scheme = address.scheme();
    if refusal.no_credentials {
        let reason = "there are no credentials for it, and this machine gets none from a cloud";
        return (reason.to_owned(), Some(credentials(scheme).to_owned()));
    }
    if let Some(reason) = &refusal.error {
        return (reason.clone(), None);
    }
    let answer = StoreAnswer {
        scheme,
        bucket: address.bucket(),
        doing,
        refusal,
    };
    answer.by_code().unwrap_or_else(|| answer.by_status())
}

/// A store's answer to a request that it refuses.
struct StoreAnswer<'a> {
    scheme: Scheme,
    bucket: &'a str,
    doing: Operation,
    refusal: &'a Refusal,
}

impl StoreAnswer<'_> {
    /// The answer in the store's own words.
    fn said(&self) -> String {
        let Refusal { host, status, .. } = self.refusal;
        let code = self.refusal.code.as_deref().unwrap_or_default();
        match (code, &self.refusal.message) {
            ("", None) => format!("{host} answers {status}"),
            (code, None) => format!("{host} answers {status} {code}"),
            ("", Some(message)) => format!("{host} answers {status}: {message}"),
            (code, Some(message)) => format!("{host} answers {status} {code}: {message}"),
        }
    }

    fn words(&self, reason: &str, remedy: &str) -> Words {
        let said = self.said();
        (format!("{reason} ({said})"), Some(remedy.to_owned()))
    }

    /// What the store's code says, where it is a known one.
    fn by_code(&self) -> Option<Words> {
        let scheme = self.scheme;
        Some(match self.refusal.code.as_deref()? {
            "NoSuchBucket" | "ContainerNotFound" => self.words(
                &format!("there is no {} {}", container(scheme), self.bucket),
                "check its name and the account; embedctl does not create buckets or containers",
            ),
            "ExpiredToken"
            | "ExpiredTokenException"
            | "TokenRefreshRequired"
            | "InvalidToken"
            | "RequestExpired" => self.words(
                "the credentials have expired",
                &format!("get new ones: {}", credentials(scheme)),
            ),
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "AuthenticationFailed"
            | "AuthenticationRequired"
            | "InvalidSecurity"
            | "InvalidAuthenticationInfo"
            | "NoAuthenticationInformation"
            | "IncompleteSignature"
            | "MissingAuthenticationToken" => self.words(
                "the credentials are not accepted",
                &format!("check them: {}", credentials(scheme)),
            ),
            "RequestTimeTooSkewed" => self.words("the clocks differ", "set this machine's clock"),
            "PermanentRedirect"
            | "TemporaryRedirect"
            | "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException" => self.wrong_region(),
            "InvalidObjectState" => self.words(
                "the object is archived and has to be restored before it can be read",
                "restore it, or copy it to another storage class",
            ),
            _ => return None,
        })
    }

    /// What the status says.
    fn by_status(&self) -> Words {
        let scheme = self.scheme;
        match self.refusal.status {
            300..=400 if self.refusal.region.is_some() => self.wrong_region(),
            401 | 403 if scheme == Scheme::Hub => self.words(
                "the Hub does not let it be read",
                "ask for access in a browser, and pass a token of that account: HF_TOKEN=hf_…, or `hf auth login`",
            ),
            401 | 403 if scheme.is_web() => self.words(
                "the server does not let it be read",
                "use a public or a signed address",
            ),
            401 | 403 => self.denied(),
            404 if self.doing == Operation::Read => self.words(
                "there is no such object (any more)",
                "it was removed or renamed; list the objects and start again",
            ),
            404 | 410 => self.words("there is no such object", "check its name"),
            // A conflict with another writer of the same object.
            412 | 409 => self.words(
                "another object has appeared under that name meanwhile",
                &remedies::taken(),
            ),
            416 => self.words(
                "the object has become shorter since it was listed",
                "wait until its writer has finished, and start again",
            ),
            408 | 429 | 500..=599 => self.words(
                "the store cannot answer now (4 attempts)",
                "try again later",
            ),
            _ => (self.said(), None),
        }
    }

    /// A missing permission.
    fn denied(&self) -> Words {
        let (what, permission) = match self.doing {
            Operation::List => ("be listed", "list the bucket (s3:ListBucket)"),
            Operation::Write => (
                "be written",
                "write objects (s3:PutObject, s3:AbortMultipartUpload)",
            ),
            Operation::Open | Operation::Read => ("be read", "read objects (s3:GetObject)"),
        };
        let permission = match self.scheme {
            Scheme::S3 => permission,
            _ => permission.split(" (").next().unwrap_or(permission),
        };
        self.words(
            &format!("access is denied: it may not {what}"),
            &format!(
                "the account needs the permission to {permission}; {}",
                credentials(self.scheme)
            ),
        )
    }

    fn wrong_region(&self) -> Words {
        let remedy = match &self.refusal.region {
            Some(region) => format!("set AWS_REGION={region}"),
            None => "set AWS_REGION to the bucket's region".to_owned(),
        };
        self.words(
            "the bucket is in another region than the one that was asked",
            &remedy,
        )
    }
}

/// The store's term for a bucket.
fn container(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Az => "container",
        _ => "bucket",
    }
}

/// The remedy for an answer that no such store gives.
fn endpoint(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "check that a server with the interface of S3 answers there (AWS_ENDPOINT_URL), or try again later"
        }
        Scheme::Gs | Scheme::Az => {
            "check that such a store answers there, and no proxy or sign-in page in its place, or try again later"
        }
        Scheme::Http | Scheme::Https | Scheme::Hub => "try again later",
    }
}

/// The remedy for missing credentials, by store.
pub(super) fn credentials(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN where there is one), for example \
             by `eval \"$(aws configure export-credentials --format env)\"`; for a public bucket set \
             AWS_SKIP_SIGNATURE=true"
        }
        Scheme::Gs => {
            "set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, for example the one that `gcloud auth \
             application-default login` writes; for a public bucket set GOOGLE_SKIP_SIGNATURE=true"
        }
        Scheme::Az => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_TOKEN); for a public \
             container set AZURE_SKIP_SIGNATURE=true"
        }
        Scheme::Http | Scheme::Https | Scheme::Hub => "use a public or a signed address",
    }
}

/// Characters of a reason at most: an answer may be of any length.
const LONGEST_REASON: usize = 300;

/// A failure before or behind all requests: settings, or, if a server has `answered`, an answer that makes no sense.
fn of_error(address: &Address, error: &object_store::Error, answered: bool) -> Words {
    use object_store::Error::{Generic, NotImplemented, NotSupported, UnknownConfigurationKey};
    match error {
        Generic { source, .. } => {
            if let Some(own) = Error::behind(&**source) {
                let later = || answered.then(|| "try again later".to_owned());
                let remedy = own.remedy().map(str::to_owned).or_else(later);
                return (own.reason().to_owned(), remedy);
            }
            let reason = with_causes(&**source);
            let about_length = reason.contains("Content-Length");
            if about_length {
                return (
                    "the server does not tell how long it is".to_owned(),
                    Some("fetch it first, and name the file".to_owned()),
                );
            }
            if answered {
                let reason: String = reason.chars().take(LONGEST_REASON).collect();
                let said = format!("the server's answer cannot be used ({reason})");
                return (said, Some(endpoint(address.scheme()).to_owned()));
            }
            // A wrong setting, by the name of the store.
            (reason, Some(credentials(address.scheme()).to_owned()))
        }
        NotSupported { .. } => (
            "the server sends files from their beginning only, but this needs parts of one"
                .to_owned(),
            Some("fetch it first, and name the file".to_owned()),
        ),
        UnknownConfigurationKey { key, .. } => (format!("there is no setting '{key}'"), None),
        NotImplemented { .. } => ("the store cannot do that".to_owned(), None),
        other => (other.to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(url: &str, doing: Operation, refusal: Refusal) -> String {
        let error = object_store::Error::Generic {
            store: "test",
            source: "https://x/?signature=5ecret".into(),
        };
        let failure = Failure {
            error,
            refusal: Some(refusal),
            answered: false,
        };
        explain(&Address::parse(url).unwrap(), doing, failure, false).to_string()
    }

    #[test]
    fn every_refusal_names_the_address_and_what_helps() {
        let coded = |status: u16, code: &str| Refusal {
            host: "s3.test".into(),
            status,
            code: (!code.is_empty()).then(|| code.to_owned()),
            ..Refusal::default()
        };
        let region = Refusal {
            region: Some("eu-west-1".into()),
            ..coded(301, "PermanentRedirect")
        };
        for (url, doing, refusal, parts) in [
            (
                "s3://b/k",
                Operation::List,
                coded(404, "NoSuchBucket"),
                ["there is no bucket b", "check its name"],
            ),
            (
                "s3://b/k",
                Operation::Read,
                coded(400, "ExpiredToken"),
                ["have expired", "export-credentials --format env"],
            ),
            (
                "s3://b/k",
                Operation::Write,
                coded(403, "AccessDenied"),
                ["may not be written", "s3:PutObject"],
            ),
            (
                "s3://b/k",
                Operation::Read,
                region,
                ["another region", "AWS_REGION=eu-west-1"],
            ),
            (
                "az://c/k",
                Operation::Read,
                coded(403, "AuthenticationFailed"),
                ["not accepted", "AZURE_STORAGE_ACCOUNT_KEY"],
            ),
            (
                "az://c/k",
                Operation::List,
                coded(404, "ContainerNotFound"),
                ["there is no container c", "check its name"],
            ),
            (
                "gs://b/k",
                Operation::Read,
                Refusal {
                    no_credentials: true,
                    ..Refusal::default()
                },
                ["no credentials", "GOOGLE_APPLICATION_CREDENTIALS"],
            ),
            (
                "https://h/k?sig=5ecret",
                Operation::Read,
                coded(403, ""),
                ["https://h/k: the server does not let it be read", "signed"],
            ),
            (
                "s3://b/k",
                Operation::Read,
                coded(404, "NoSuchKey"),
                ["no such object", "removed"],
            ),
            (
                "s3://b/k",
                Operation::Read,
                coded(503, "SlowDown"),
                ["4 attempts", "later"],
            ),
        ] {
            let said = explained(url, doing, refusal);
            for part in parts {
                assert!(said.contains(part), "{said}");
            }
            assert!(!said.contains("5ecret"), "{said}");
        }
    }

    /// A failure behind an answer is none of credentials, whatever the store.
    #[test]
    fn an_answer_that_makes_no_sense_is_not_blamed_on_credentials() {
        let failed = |url: &str, source: Box<dyn std::error::Error + Send + Sync>, answered| {
            let error = object_store::Error::Generic {
                store: "test",
                source,
            };
            let failure = Failure {
                error,
                refusal: None,
                answered,
            };
            explain(
                &Address::parse(url).unwrap(),
                Operation::List,
                failure,
                false,
            )
            .to_string()
        };
        let own = || Error::new(ErrorKind::Storage, "", "the connection was cut");
        for url in ["s3://b/k", "gs://b/k", "az://c/k", "https://h/k"] {
            let said = failed(url, format!("not XML: {}", "x".repeat(9999)).into(), true);
            assert!(
                said.contains("answer cannot be used (not XML: xxx"),
                "{said}"
            );
            assert!(said.len() < 600, "{said}");
            let cut = failed(url, Box::new(own()), true);
            assert!(
                cut.contains("the connection was cut") && cut.contains("later"),
                "{cut}"
            );
            for said in [said, cut] {
                assert!(
                    !said.contains("KEY") && !said.contains("CREDENTIALS"),
                    "{said}"
                );
            }
        }
        let before = failed("s3://b/k", "Missing region".into(), false);
        assert!(before.contains("AWS_ACCESS_KEY_ID"), "{before}");
    }
}
