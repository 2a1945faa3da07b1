//! HTTP agents: proxies, certificates and time limits, for the Hub and all other servers.

use std::sync::Mutex;

use ureq::http::header::LOCATION;
use ureq::http::{HeaderMap, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy};

use super::origin::{default_port, follow, host};
use super::settings::HubSettings;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;
use embedctl_common::threads::locked;

/// Bytes of a file of certificates at most.
const LARGEST_CERTIFICATES: u64 = 16 << 20;

/// Connections by the proxy that they go through.
#[derive(Debug)]
pub struct Agents {
    settings: HubSettings,
    cancel: CancelToken,
    // One for each proxy in use, by the proxy's variable; the connections are kept for further requests.
    agents: Mutex<Vec<(Option<&'static str>, Agent)>>,
}

impl Agents {
    /// No connections yet, and none any more once `cancel` is cancelled.
    #[must_use]
    pub fn new(settings: HubSettings, cancel: CancelToken) -> Self {
        Self {
            settings,
            cancel,
            agents: Mutex::default(),
        }
    }

    /// Interrupts requests that are waiting, on whatever thread.
    pub fn stop(&self) {
        let agents = locked(&self.agents);
        for (_, agent) in agents.iter() {
            agent.clone().shutdown();
        }
    }

    /// The agent for an address, and the variable that names its proxy.
    ///
    /// # Errors
    /// If the proxy or a certificate cannot be used.
    pub fn of(&self, uri: &Uri) -> Result<(Agent, Option<&'static str>)> {
        let scheme = uri.scheme_str().unwrap_or("https");
        let port = uri.port_u16().unwrap_or(default_port(scheme));
        let named = self
            .settings
            .proxies
            .of(scheme, uri.host().unwrap_or_default(), port);
        let variable = named.map(|(variable, _)| *variable);
        let mut agents = locked(&self.agents);
        if let Some((_, agent)) = agents.iter().find(|(name, _)| *name == variable) {
            return Ok((agent.clone(), variable));
        }
        // Under the lock: what `stop` does not find here must not begin after it.
        if self.cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        let proxy = named
            .map(|(variable, address)| {
                Proxy::new(address).map_err(|_| {
                    Error::usage(format!("{variable} does not hold the address of a proxy"))
                        .with_remedy("write it as http://host:port or socks5://host:port")
                })
            })
            .transpose()?;
        let tls = TlsConfig::builder()
            .root_certs(root_certificates(&self.settings)?)
            .build();
        let agent: Agent = Agent::config_builder()
            .user_agent(concat!("embedctl/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .tls_config(tls)
            .timeout_connect(Some(self.settings.idle_timeout))
            .timeout_recv_response(Some(self.settings.idle_timeout * 2))
            .timeout_per_read(Some(self.settings.idle_timeout))
            .timeout_per_write(Some(self.settings.idle_timeout))
            .build()
            .into();
        agents.push((variable, agent.clone()));
        Ok((agent, variable))
    }
}

/// The address that an answer redirects to.
///
/// # Errors
/// A reason, if it names none, or one whose content anybody in between could change.
pub fn redirected(from: &Uri, headers: &HeaderMap) -> Result<Uri, String> {
    let target = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| follow(from, location))
        .ok_or_else(|| format!("{} redirects to an invalid address", host(from)))?;
    // What names the content must not come from a connection that anybody can change.
    if from.scheme_str() == Some("https") && target.scheme_str() != Some("https") {
        return Err(format!(
            "{} redirects to the unencrypted address http://{}, which is not followed",
            host(from),
            host(&target)
        ));
    }
    Ok(target)
}

/// The trusted certificates: a file that the environment names, or the system's store, or, on a system without one
/// (a bare container), the roots of Mozilla's programme that were built in.
fn root_certificates(settings: &HubSettings) -> Result<RootCerts> {
    let Some((variable, path)) = &settings.certificates else {
        #[cfg(target_os = "linux")]
        if rustls_native_certs::load_native_certs().certs.is_empty() {
            return Ok(RootCerts::WebPki);
        }
        return Ok(RootCerts::PlatformVerifier);
    };
    let pem = small_file::read(path, LARGEST_CERTIFICATES).map_err(|error| {
        Error::usage(format!(
            "{variable} names certificates in {}, which cannot be read: {error}",
            path.display()
        ))
    })?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(Error::usage(format!(
            "{variable} names {}, which holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)",
            path.display()
        )));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}
