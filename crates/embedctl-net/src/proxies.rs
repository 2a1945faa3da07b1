//! The proxy between us and an address.

use std::fmt;

use super::environment::Environment;

/// Proxies by the scheme of the address they are used for.
#[derive(Clone, Default)]
pub struct Proxies {
    pub(crate) http: Option<(&'static str, String)>,
    pub(crate) https: Option<(&'static str, String)>,
    pub(crate) none: Vec<String>,
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
    /// Those that the environment names.
    pub(crate) fn read(environment: &Environment<'_>) -> Self {
        let first = |names: &[&'static str]| {
            names
                .iter()
                .find_map(|&name| Some((name, environment.text(name)?)))
        };
        let all = || first(&["all_proxy", "ALL_PROXY"]);
        Self {
            // HTTP_PROXY in capitals could be set by a request's header in a CGI program; we are none.
            http: first(&["http_proxy", "HTTP_PROXY"]).or_else(all),
            https: first(&["https_proxy", "HTTPS_PROXY"]).or_else(all),
            none: first(&["no_proxy", "NO_PROXY"])
                .map(|(_, list)| list.split(',').map(|one| one.trim().to_owned()).collect())
                .unwrap_or_default(),
        }
    }

    /// Hosts that need no proxy, whatever the environment says.
    pub fn add_direct(&mut self, hosts: impl Iterator<Item = String>) {
        self.none.extend(hosts);
    }

    /// The proxy for an address, with the variable that names it.
    pub(crate) fn proxy_for(
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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn proxies_are_chosen_by_scheme_and_host() {
        let variables = [
            ("https_proxy", "http://user:pass@proxy:3128"),
            ("ALL_PROXY", "socks5://other:1080"),
            ("NO_PROXY", "internal.example, .corp, 127.0.0.1, box:8080"),
        ];
        let lookup = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let proxies = Proxies::read(&Environment(&lookup));
        let of = |scheme: &str, host: &str, port: u16| {
            proxies.proxy_for(scheme, host, port).map(|(name, _)| *name)
        };
        assert_eq!(of("https", "huggingface.co", 443), Some("https_proxy"));
        assert_eq!(of("http", "huggingface.co", 80), Some("ALL_PROXY"));
        for host in [
            "internal.example",
            "a.internal.example",
            "x.corp",
            "127.0.0.1",
        ] {
            assert_eq!(of("https", host, 443), None, "{host}");
        }
        assert_eq!(of("https", "notinternal.example", 443), Some("https_proxy"));
        assert_eq!(of("http", "box", 8080), None);
        assert_eq!(of("http", "box", 80), Some("ALL_PROXY"));
        assert!(!format!("{proxies:?}").contains("pass"));
    }
}
