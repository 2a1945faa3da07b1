//! The proxy between us and an address.

use std::fmt;

/// Proxies by the scheme of the address they are used for.
#[derive(Clone, Default)]
pub struct Proxies {
    pub(super) http: Option<(&'static str, String)>,
    pub(super) https: Option<(&'static str, String)>,
    pub(super) none: Vec<String>,
}

/// Addresses of proxies may hold passwords: only the variables' names are shown.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |proxy: &Option<(&'static str, String)>| proxy.as_ref().map(|proxy| proxy.0);
        f.debug_struct("Proxies")
            .field("http", &name(&self.http))
            .field("https", &name(&self.https))
            .field("none", &self.none)
            .finish()
    }
}

impl Proxies {
    /// Hosts that need no proxy, whatever the environment says.
    pub fn add_direct(&mut self, hosts: impl Iterator<Item = String>) {
        self.none.extend(hosts);
    }

    /// The proxy for an address, with the variable that names it.
    pub(super) fn proxy_for(
        &self,
        scheme: &str,
        host: &str,
        port: u16,
    ) -> Option<&(&'static str, String)> {
        let proxy = if scheme == "https" {
            &self.https
        } else {
            &self.http
        };
        proxy.as_ref().filter(|_| !self.is_direct(host, port))
    }

    /// Whether `no_proxy` names the host: itself, a domain above it, `host:port`, or `*`.
    fn is_direct(&self, host: &str, port: u16) -> bool {
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        self.none.iter().any(|entry| {
            let entry = entry.to_ascii_lowercase();
            if entry == "*" {
                return true;
            }
            let entry = match entry.rsplit_once(':') {
                // An IPv6 address has colons of its own.
                Some((name, number)) if !name.contains(':') => {
                    if number.parse() != Ok(port) {
                        return false;
                    }
                    name.to_owned()
                }
                _ => entry,
            };
            let domain = entry.trim_start_matches('*').trim_start_matches('.');
            !domain.is_empty()
                && (host == domain
                    || host
                        .strip_suffix(domain)
                        .is_some_and(|rest| rest.ends_with('.')))
        })
    }
}
