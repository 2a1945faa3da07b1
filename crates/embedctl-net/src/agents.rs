//! HTTP agents: proxies, certificates and time limits, for the Hub and all other servers.

use std::sync::Mutex;

use ureq::http::header::LOCATION;
use ureq::http::{HeaderMap, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Proxy};

use super::origin::{default_port, follow, host};
use super::reach::{Reach, ReachResolver, ResolvedReaches};
use super::settings::NetSettings;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;
use embedctl_common::threads::locked;

/// Bytes of a file of certificates at most.
const LARGEST_CERTIFICATES: u64 = 16 << 20;

/// Connections by the proxy that they go through.
#[derive(Debug)]
pub struct Agents {
    settings: NetSettings,
    cancel: CancelToken,
    // One for each proxy in use and each limit; connections are kept for further requests.
    agents: Mutex<Vec<(AgentKey, Agent)>>,
    reached: ResolvedReaches,
}

/// The variable of an agent's proxy, and its limit.
type AgentKey = (Option<&'static str>, RedirectLimit);

/// To where a request may go, after the redirects that it has followed: no nearer than the farthest of their servers.
/// Before any redirect there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedirectLimit(Option<Reach>);

impl Agents {
    /// No connections yet, and none any more once `cancel` is cancelled.
    #[must_use]
    pub fn new(settings: NetSettings, cancel: CancelToken) -> Self {
        Self {
            settings,
            cancel,
            agents: Mutex::default(),
            reached: ResolvedReaches::default(),
        }
    }

    /// Interrupts requests that are waiting, on whatever thread.
    pub fn stop(&self) {
        let agents = locked(&self.agents);
        for (_, agent) in agents.iter() {
            agent.clone().shutdown();
        }
    }

    /// The agent for an address, within the limit of earlier redirects, and the variable that names its proxy.
    ///
    /// # Errors
    /// If the proxy or a certificate cannot be used.
    pub fn agent_for(
        &self,
        uri: &Uri,
        limit: RedirectLimit,
    ) -> Result<(Agent, Option<&'static str>)> {
        let scheme = uri.scheme_str().unwrap_or("https");
        let port = uri.port_u16().unwrap_or(default_port(scheme));
        let named = self
            .settings
            .proxies
            .proxy_for(scheme, uri.host().unwrap_or_default(), port);
        let variable = named.map(|(variable, _)| *variable);
        let mut agents = locked(&self.agents);
        let key = (variable, limit);
        if let Some((_, agent)) = agents.iter().find(|(of, _)| *of == key) {
            return Ok((agent.clone(), variable));
        }
        // Under the lock: a request that `stop` does not find here must not begin after it.
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
        let resolver = ReachResolver {
            reached: self.reached.clone(),
            from: limit.0,
            proxy: proxy.as_ref().map(|proxy| proxy.uri().clone()),
        };
        let config = Agent::config_builder()
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
            .build();
        let agent = Agent::with_parts(config, DefaultConnector::default(), resolver);
        agents.push((key, agent.clone()));
        Ok((agent, variable))
    }

    /// The address that the answer from an address redirects to, and the limit of the request to there.
    ///
    /// # Errors
    /// A reason, if it names none, one whose content anybody in between could change, or one that is nearer to this
    /// machine than the server that names it.
    pub fn redirected(
        &self,
        from: &Uri,
        headers: &HeaderMap,
        limit: RedirectLimit,
    ) -> Result<(Uri, RedirectLimit), String> {
        let target = located(from, headers)?;
        let (own, other) = (
            from.host().unwrap_or_default(),
            target.host().unwrap_or_default(),
        );
        if own.eq_ignore_ascii_case(other) {
            return Ok((target, limit)); // the same server, which could have sent the content itself
        }
        let reach = self.reached.reach_of(own);
        let reach = limit.0.map_or(reach, |limit| limit.min(reach));
        match Reach::of_host(other).filter(|to| !reach.may_lead_to(*to)) {
            None => Ok((target, RedirectLimit(Some(reach)))),
            Some(to) => Err(format!(
                "{} redirects to {}, which is {to}; no redirect is followed to there",
                host(from),
                host(&target)
            )),
        }
    }
}

/// The address that an answer's head names.
fn located(from: &Uri, headers: &HeaderMap) -> Result<Uri, String> {
    let target = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| follow(from, location))
        .ok_or_else(|| format!("{} redirects to an invalid address", host(from)))?;
    // Hashes must not come from a connection that anybody can change.
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
fn root_certificates(settings: &NetSettings) -> Result<RootCerts> {
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;

    use ureq::http::HeaderValue;

    use super::*;
    use crate::environment::Environment;
    use crate::reach::RefusedAddress;
    use crate::{RequestFault, unreachable};

    fn agents() -> Agents {
        let settings = NetSettings::read(&Environment(&|_| None));
        Agents::new(settings, CancelToken::new())
    }

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    fn follow_all(agents: &Agents, addresses: &[&str]) -> Result<(Uri, RedirectLimit), String> {
        let mut at = (uri(addresses[0]), RedirectLimit::default());
        for target in &addresses[1..] {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, HeaderValue::from_str(target).unwrap());
            at = agents.redirected(&at.0, &headers, at.1)?;
        }
        Ok(at)
    }

    /// Decided by names and numbers alone: no request is made.
    #[test]
    fn redirects_lead_away_from_this_machine_only() {
        let agents = agents();
        for (addresses, is_followed) in [
            (
                &["https://hub.example/a", "https://cdn.example/b"][..],
                true,
            ),
            (&["http://hub.example/a", "http://8.8.8.8/b"], true),
            (
                &[
                    "http://hub.example/a",
                    "http://169.254.169.254/latest/meta-data",
                ],
                false,
            ),
            (&["http://hub.example/a", "http://[fe80::1]/b"], false),
            (&["http://hub.example/a", "http://2852039166/b"], false),
            (&["http://hub.example/a", "http://127.0.0.1:8080/b"], false),
            (&["http://hub.example/a", "//localhost/b"], false),
            (&["http://hub.example/a", "http://10.0.0.1/b"], false),
            (&["http://10.0.0.1/a", "http://192.168.0.1/b"], true),
            (&["http://10.0.0.1/a", "http://127.0.0.1/b"], false),
            (&["http://127.0.0.1/a", "http://localhost/b"], true),
            (&["http://127.0.0.1/a", "http://10.0.0.1/b"], true),
            (&["http://127.0.0.1/a", "http://169.254.0.1/b"], false),
            // Through a server that anybody may run, and back.
            (
                &[
                    "http://127.0.0.1/a",
                    "http://cdn.example/b",
                    "http://127.0.0.1/c",
                ],
                false,
            ),
            (
                &[
                    "http://10.0.0.1/a",
                    "http://cdn.example/b",
                    "/c",
                    "http://10.0.0.1/d",
                ],
                false,
            ),
            // Its own place, wherever that is.
            (&["http://169.254.1.1/a", "/b"], true),
            (&["http://10.0.0.1/a", "http://10.0.0.1:8080/b"], true),
        ] {
            let end = follow_all(&agents, addresses);
            assert_eq!(end.is_ok(), is_followed, "{addresses:?}: {end:?}");
            if let Err(reason) = end {
                assert!(
                    reason.contains("no redirect is followed to there"),
                    "{reason}"
                );
            }
        }
    }

    /// A name of this machine's address, as a server elsewhere may have one.
    #[test]
    fn names_are_judged_by_their_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = format!(
            "http://127.0.0.1:{}/",
            listener.local_addr().unwrap().port()
        );
        let agents = agents();
        let limit = RedirectLimit(Some(Reach::Public));
        let (agent, proxy) = agents.agent_for(&uri(&address), limit).unwrap();
        let error = agent.get(&address).call().unwrap_err();
        assert!(
            matches!(&error, ureq::Error::Other(cause) if cause.is::<RefusedAddress>()),
            "{error:?}"
        );
        let waiting = listener.accept().unwrap_err();
        assert_eq!(waiting.kind(), ErrorKind::WouldBlock, "it was connected to");
        let settings = &agents.settings;
        let fault = unreachable("", &uri(&address), proxy, settings, "the address", &error);
        let RequestFault::Final(error) = fault else {
            panic!("it would be tried again");
        };
        assert!(
            error
                .to_string()
                .contains("redirects to it are not followed"),
            "{error}"
        );
    }
}
