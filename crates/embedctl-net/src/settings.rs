//! How servers are reached: proxies, certificates, time limits.

use std::path::PathBuf;
use std::time::Duration;

use embedctl_common::secrets::Secrets;

use super::environment::Environment;
use super::limits::ResponseLimits;
use super::proxies::Proxies;

/// How servers are reached.
#[derive(Debug, Clone)]
pub struct NetSettings {
    /// Proxies and hosts that need none.
    pub proxies: Proxies,
    /// A file of certificates (PEM) to be trusted instead of the system's, and the variable that names it.
    pub certificates: Option<(&'static str, PathBuf)>,
    /// The first pause before a request is made again; each further one is twice as long.
    pub pause: Duration,
    /// How long a connection may be silent before it counts as cut.
    pub idle_timeout: Duration,
    /// Limits on the size and duration of responses.
    pub limits: ResponseLimits,
}

impl NetSettings {
    /// Reads an environment.
    #[must_use]
    pub fn read(environment: &Environment<'_>) -> Self {
        Self {
            proxies: Proxies::read(environment),
            certificates: ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"]
                .into_iter()
                .find_map(|name| Some((name, environment.path(name)?)))
                .filter(|(_, path)| !path.is_dir()),
            pause: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(30),
            limits: ResponseLimits::default(),
        }
    }

    /// The passwords in the addresses of proxies, which a server could send back. Those of malformed addresses are among
    /// them: the message that says so must not show them.
    pub fn add_secrets(environment: &Environment<'_>, secrets: &mut Secrets) {
        let addresses = "http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY";
        for address in addresses
            .split_ascii_whitespace()
            .filter_map(|name| environment.text(name))
        {
            secrets.add_address(&address);
        }
    }
}
