//! Addresses: their origin, the part that may be shown, and the target of a redirect. Parsed by ureq's `Uri`;
//! the crate url would bring 46 packages for its tables of international names, which the Hub has not.

use ureq::http::Uri;

/// Scheme, host and port: the scope of a token.
#[derive(Debug, PartialEq, Eq)]
pub struct UrlOrigin {
    scheme: String,
    host: String,
    port: u16,
}

impl UrlOrigin {
    /// The origin of an address that names a host.
    pub fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        Some(Self {
            port: uri.port_u16().unwrap_or(default_port(&scheme)),
            host: uri.host()?.to_ascii_lowercase(),
            scheme,
        })
    }
}

pub(crate) fn default_port(scheme: &str) -> u16 {
    if scheme == "http" { 80 } else { 443 }
}

/// Host and port of an address. Never more: the rest may be signed, and the part before may be a
/// password.
pub fn host(uri: &Uri) -> String {
    let name = uri.host().unwrap_or("no host");
    uri.port_u16()
        .map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

/// The address that a `Location` names, seen from the one that was asked.
pub(crate) fn follow(from: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next()?.trim();
    let scheme = from.scheme_str()?;
    let address = if location.contains("://") {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{}{location}", from.authority()?)
    } else {
        let folder = from
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{scheme}://{}{folder}/{location}", from.authority()?)
    };
    let uri: Uri = address.parse().ok()?;
    (matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same = |a: &str, b: &str| UrlOrigin::of(&uri(a)) == UrlOrigin::of(&uri(b));
        assert!(same("https://hub.example/a", "https://HUB.example:443/b?c"));
        assert!(!same("https://hub.example/a", "http://hub.example/a"));
        assert!(!same("http://hub.example/a", "http://hub.example:8080/a"));
        assert!(!same("https://hub.example/a", "https://hub.example.evil/a"));
        assert!(same("https://user@hub.example/a", "https://hub.example/a"));
    }

    #[test]
    fn locations_are_read_in_every_form() {
        let from = uri("http://hub.example:81/org/name/resolve/main/a.json?x=1");
        for (location, expected) in [
            (
                "https://cdn.example/b?sig=1#part",
                "https://cdn.example/b?sig=1",
            ),
            ("//cdn.example/b", "http://cdn.example/b"),
            ("/other/b", "http://hub.example:81/other/b"),
            ("b", "http://hub.example:81/org/name/resolve/main/b"),
        ] {
            assert_eq!(follow(&from, location), Some(uri(expected)), "{location}");
        }
        for wrong in ["ftp://x/y", "http://", "file:///etc/passwd"] {
            assert_eq!(follow(&from, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_host_is_shown_without_what_may_be_secret() {
        assert_eq!(
            host(&uri(
                "https://user:pass@cdn.example:8443/b?X-Signature=secret"
            )),
            "cdn.example:8443"
        );
    }
}
